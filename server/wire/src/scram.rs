//! Messages of SCRAM-SHA-256, by which a client proves that it knows a password, and the server
//! that it knows its verifier. Nothing here computes; values stay in the text form in which they
//! travel.
//!
//! Sources: RFC 5802 and 7677; PostgreSQL 15 documentation, 55.3 (SASL Authentication). Channel
//! binding is not offered.

use crate::ProtocolError;
use crate::reader::Reader;

/// The mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The server's signature follows, as the last step: number of AuthenticationSASLFinal.
pub const STEP_FINAL: i32 = 12;
/// The client's proof is awaited: number of AuthenticationSASLContinue.
pub const STEP_CONTINUE: i32 = 11;
/// Most bytes of a message.
const BYTES_MAX: usize = 1024;

/// A step of the client that cannot be read.
fn malformed() -> ProtocolError {
    ProtocolError("malformed SCRAM message".to_owned())
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The message without its head.
    pub bare: String,
    /// The client's part of the nonce.
    pub nonce: String,
    /// The form in which the last message repeats the head.
    head: &'static str,
}

impl ClientFirst {
    /// Reads the body of SASLInitialResponse.
    pub fn decode(body: &[u8]) -> Result<ClientFirst, ProtocolError> {
        let mut reader = Reader::new(body);
        let mechanism = reader.text()?;
        if mechanism != MECHANISM {
            return Err(ProtocolError("client selected an invalid SASL authentication mechanism".to_owned()));
        }
        let length = usize::try_from(reader.i32()?).map_err(|_| malformed())?;
        let data = reader.bytes(length)?;
        reader.end()?;
        let text = std::str::from_utf8(data).ok().filter(|text| text.len() <= BYTES_MAX);
        let text = text.ok_or_else(malformed)?;
        // The base64 form of the head: no channel binding, or one that the client could have used.
        let heads = [("n,,", "biws"), ("y,,", "eSws")];
        let found = heads.iter().find_map(|(head, form)| Some((text.strip_prefix(head)?, *form)));
        let (bare, head) = found.ok_or_else(malformed)?;
        let nonce = bare.split(',').nth(1).and_then(|part| part.strip_prefix("r=")).ok_or_else(malformed)?;
        let is_printable = |byte: u8| (0x21..=0x7e).contains(&byte);
        if !bare.starts_with("n=") || nonce.is_empty() || !nonce.bytes().all(is_printable) {
            return Err(malformed());
        }
        Ok(ClientFirst { bare: bare.to_owned(), nonce: nonce.to_owned(), head })
    }
}

/// Returns the first message of the server.
pub fn server_first(nonce: &str, salt: &str, iterations: u32) -> String {
    format!("r={nonce},s={salt},i={iterations}")
}

/// The last message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFinal {
    /// All that both sides have said, which the proof is about.
    pub all: String,
    /// The proof, in base64.
    pub proof: String,
}

impl ClientFinal {
    /// Reads the body of SASLResponse, which answers `server_first` with this nonce.
    pub fn decode(
        body: &[u8],
        first: &ClientFirst,
        server_first: &str,
        nonce: &str,
    ) -> Result<ClientFinal, ProtocolError> {
        let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= BYTES_MAX);
        let (rest, proof) = text.and_then(|text| text.rsplit_once(",p=")).ok_or_else(malformed)?;
        if rest != format!("c={},r={nonce}", first.head) {
            return Err(malformed());
        }
        let all = format!("{},{server_first},{rest}", first.bare);
        Ok(ClientFinal { all, proof: proof.to_owned() })
    }
}

/// Returns the last message of the server.
pub fn server_final(signature: &str) -> String {
    format!("v={signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(text: &str) -> Vec<u8> {
        [MECHANISM.as_bytes(), b"\0", &(text.len() as i32).to_be_bytes(), text.as_bytes()].concat()
    }

    /// The exchange of RFC 7677, section 3, with the user name that PostgreSQL's clients leave out.
    #[test]
    fn an_exchange() {
        let first = ClientFirst::decode(&initial("n,,n=user,r=rOprNGfwEbeRWgbNEkqO")).expect("it is read");
        assert_eq!(first.nonce, "rOprNGfwEbeRWgbNEkqO");
        let nonce = format!("{}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", first.nonce);
        let server = server_first(&nonce, "W22ZaJ0SNY7soEsUEjb6gQ==", 4096);
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let last = ClientFinal::decode(last.as_bytes(), &first, &server, &nonce).expect("it is read");
        assert_eq!(last.proof, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(last.all, format!("n=user,r=rOprNGfwEbeRWgbNEkqO,{server},c=biws,r={nonce}"));
        // Another nonce, another head, no proof.
        for other in
            [format!("c=biws,r={nonce}x,p=AA=="), format!("c=eSws,r={nonce},p=AA=="), "c=biws".to_owned()]
        {
            assert_eq!(ClientFinal::decode(other.as_bytes(), &first, &server, &nonce), Err(malformed()));
        }
    }

    #[test]
    fn first_messages_that_are_refused() {
        for text in
            ["p=tls-server-end-point,,n=,r=abc", "n,,r=abc", "n,,n=,r=", "n,,n=,r=a b", "", "n,,m=x,n=,r=abc"]
        {
            assert!(ClientFirst::decode(&initial(text)).is_err(), "{text}");
        }
        assert!(ClientFirst::decode(&initial("y,,n=,r=abc")).is_ok());
        assert!(ClientFirst::decode(b"SCRAM-SHA-256-PLUS\0\0\0\0\0").is_err());
        assert!(ClientFirst::decode(&[&initial("n,,n=,r=abc")[..], b"x"].concat()).is_err());
        let long = format!("n,,n=,r={}", "a".repeat(BYTES_MAX));
        assert!(ClientFirst::decode(&initial(&long)).is_err());
    }
}
