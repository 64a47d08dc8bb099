//! Verifiers of passwords: what a server keeps of a password, in the form that PostgreSQL has too.
//!
//! Source: RFC 5802, section 3; PostgreSQL 15 documentation, `pg_authid.rolpassword`.

use std::fmt;
use std::num::NonZeroU32;

use ring::rand::SecureRandom;
use ring::{digest, hmac, pbkdf2};

/// Rounds over a new password.
const ITERATIONS: u32 = 4096;
/// Bytes of a salt.
const SALT_BYTES: usize = 16;
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// The beginning of a verifier in its text form.
const PREFIX: &str = "SCRAM-SHA-256$";

/// The part of a password that a server keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

fn hmac_of(key: &[u8], data: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn sha256(data: &[u8]) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    bytes
}

/// Compares keys in a time that does not depend on them.
fn are_same(one: &[u8; KEY_BYTES], other: &[u8; KEY_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// Returns a client's proof that it knows a password, about all that both sides have said, in
/// base64; for clients that are programs of their own, such as tests.
pub fn proof_of(password: &str, salt: &str, iterations: u32, all: &str) -> Option<String> {
    let mut salted = [0; KEY_BYTES];
    let rounds = NonZeroU32::new(iterations)?;
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &from_base64(salt)?, password.as_bytes(), &mut salted);
    let mut key = hmac_of(&salted, b"Client Key");
    let signature = hmac_of(&sha256(&key), all.as_bytes());
    key.iter_mut().zip(signature).for_each(|(byte, other)| *byte ^= other);
    Some(to_base64(&key))
}

/// Fills bytes with random bits of the operating system that are fit for secrets; `None` if it has
/// none.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}

impl Verifier {
    /// Makes a verifier of a new password; `None` if the operating system has no random bits.
    pub fn of_password(password: &str) -> Option<Verifier> {
        let salt = random_bytes::<SALT_BYTES>()?;
        Some(Verifier::with_salt(password, &salt, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let mut salted = [0; KEY_BYTES];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password.as_bytes(), &mut salted);
        let stored_key = sha256(&hmac_of(&salted, b"Client Key"));
        let server_key = hmac_of(&salted, b"Server Key");
        Verifier { iterations: rounds.get(), salt: salt.to_vec(), stored_key, server_key }
    }

    /// Returns the verifier of a role that there is not, which no proof fits: the same one for the
    /// same name as long as the secret is the same, so that no client learns which roles there are.
    pub fn of_nobody(name: &str, secret: &[u8]) -> Verifier {
        let salt = hmac_of(secret, name.as_bytes())[..SALT_BYTES].to_vec();
        let keys = hmac_of(secret, b"keys of nobody");
        Verifier { iterations: ITERATIONS, salt, stored_key: keys, server_key: keys }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|rounds| (1..=10_000_000).contains(rounds))?;
        let key = |text| from_base64(text)?.try_into().ok();
        let salt = from_base64(salt).filter(|salt| !salt.is_empty())?;
        Some(Verifier { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// Returns the salt, in base64.
    pub fn salt(&self) -> String {
        to_base64(&self.salt)
    }

    /// Returns the number of rounds.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the server's signature of all that was said, in base64, if the client's proof is
    /// right.
    pub fn check(&self, all: &str, proof: &str) -> Option<String> {
        let proof: [u8; KEY_BYTES] = from_base64(proof)?.try_into().ok()?;
        let mut client_key = hmac_of(&self.stored_key, all.as_bytes());
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        let own = sha256(&client_key);
        if !are_same(&own, &self.stored_key) {
            return None;
        }
        Some(to_base64(&hmac_of(&self.server_key, all.as_bytes())))
    }

    /// Returns true if this is the password.
    pub fn is_password(&self, password: &str) -> bool {
        let other = Verifier::with_salt(password, &self.salt, self.iterations);
        are_same(&other.stored_key, &self.stored_key)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (salt, stored) = (to_base64(&self.salt), to_base64(&self.stored_key));
        write!(to, "{PREFIX}{}:{salt}${stored}:{}", self.iterations, to_base64(&self.server_key))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Verifier")
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes in base64.
pub fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sign = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { sign.into() } else { '=' });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (number, group) in text.as_bytes().chunks(4).enumerate() {
        let padding = group.iter().rev().take_while(|sign| **sign == b'=').count();
        if padding > 2 || (padding > 0 && (number + 1) * 4 != text.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for sign in &group[..4 - padding] {
            bits = bits << 6 | ALPHABET.iter().position(|known| known == sign)? as u32;
        }
        bits <<= 6 * padding;
        bytes.extend(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_proof_of_the_standard() {
        let salt = from_base64("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::with_salt("pencil", &salt, 4096);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let all = format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
        );
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let signature = verifier.check(&all, proof);
        assert_eq!(proof_of("pencil", "W22ZaJ0SNY7soEsUEjb6gQ==", 4096, &all).as_deref(), Some(proof));
        assert_eq!(signature.as_deref(), Some("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(verifier.check(&format!("{all}x"), proof), None);
        assert_eq!(verifier.check(&all, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVU="), None);
        assert_eq!(Verifier::with_salt("Pencil", &salt, 4096).check(&all, proof), None);
        assert_eq!(Verifier::of_nobody("user", b"secret").check(&all, proof), None);
    }

    #[test]
    fn texts_come_back() {
        let verifier = Verifier::of_password("secret").expect("random bits");
        let text = verifier.to_string();
        assert_eq!(Verifier::parse(&text), Some(verifier.clone()));
        assert!(verifier.is_password("secret") && !verifier.is_password("Secret"));
        assert_ne!(Verifier::of_password("secret").map(|other| other.to_string()), Some(text.clone()));
        assert!(!text.contains("secret") && !format!("{verifier:?}").contains('='));
        for wrong in ["", "secret", "SCRAM-SHA-256$", &text[..text.len() - 1], &text.replace("4096", "0")] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
        for length in 0..40 {
            let bytes: Vec<u8> =
                (0..length).map(|byte: u8| byte.wrapping_mul(37).wrapping_add(250)).collect();
            assert_eq!(from_base64(&to_base64(&bytes)), Some(bytes));
        }
        assert_eq!(to_base64(b"n,,"), "biws");
        for wrong in ["a", "====", "a===", "ab=c", "ab==abcd", "\u{e4}\u{e4}"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
