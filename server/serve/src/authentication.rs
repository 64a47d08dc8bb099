//! Proofs of who a client is: SCRAM-SHA-256 over what is kept of passwords.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use sql::roles::{Role, Roles};
use sql::verifier::{Verifier, random_bytes, to_base64};
use wire::scram::{self, ClientFinal, ClientFirst};
use wire::{Frontend, Output};

use crate::server::Shared;
use crate::stream::Stream;

/// Most bytes of an answer to a question about the password.
const ANSWER_BYTES_MAX: usize = 4096;
/// Pause before a wrong password is refused. The connection stays a stranger, of which there is a
/// bounded number: others do not wait, and one more stranger ends the pause.
const PAUSE: Duration = Duration::from_millis(500);

/// A refusal: SQLSTATE and message.
pub type Refusal = (&'static str, String);

fn wrong_password(user: &str) -> Refusal {
    ("28P01", format!("password authentication failed for user \"{user}\""))
}

/// Returns true if a connection has to prove who it is; fails if it cannot.
pub fn needs_password(
    shared: &Shared,
    stream: &Stream,
    is_local: bool,
    roles: &Roles,
) -> Result<bool, Refusal> {
    let policy = shared.policy();
    if !is_local && policy.require_tls && !stream.is_private() {
        return Err(("28000", "connections from other machines need TLS here".to_owned()));
    }
    let is_trusted = if is_local { !policy.require_password } else { policy.trust };
    if is_trusted {
        return Ok(false);
    }
    if !roles.has_passwords() {
        let message = "connections that need a password are not accepted as long as no role has one: \
                       start the server with --password-file, or with --trust";
        return Err(("28000", message.to_owned()));
    }
    Ok(true)
}

/// Finds the role of a user whose password was asked for, or who needs none.
pub fn role_of(user: &str, roles: &Roles, proved: bool) -> Result<Role, Refusal> {
    if roles.is_open() {
        return Ok(Role { name: user.to_owned(), ..Role::first() });
    }
    let missing = || match proved {
        true => wrong_password(user),
        false => ("28000", format!("role \"{user}\" does not exist")),
    };
    let role = roles.get(user).ok_or_else(missing)?;
    if !role.login {
        return Err(("28000", format!("role \"{user}\" is not permitted to log in")));
    }
    Ok(role)
}

/// Lets the client prove that it knows the password of the user.
pub fn prove(stream: &mut Stream, shared: &Shared, user: &str, roles: &Roles) -> Result<(), Refusal> {
    let refused = || wrong_password(user);
    let role = roles.get(user).filter(|role| !is_over(role));
    let kept = role.and_then(|role| role.verifier);
    // One who has no password goes the same way, so that no client learns who has one.
    let verifier = kept.unwrap_or_else(|| Verifier::of_nobody(user, &shared.secret));
    let mut output = Output::default();
    output.authentication_sasl(&[scram::MECHANISM]);
    send(stream, &mut output)?;
    let first = ClientFirst::decode(&answer(stream)?).map_err(|error| ("08P01", error.to_string()))?;
    let own = random_bytes::<18>().ok_or(("XX000", "the operating system has no random bits".to_owned()))?;
    let nonce = format!("{}{}", first.nonce, to_base64(&own));
    let server_first = scram::server_first(&nonce, &verifier.salt(), verifier.iterations());
    output.authentication_step(scram::STEP_CONTINUE, server_first.as_bytes());
    send(stream, &mut output)?;
    let last = ClientFinal::decode(&answer(stream)?, &first, &server_first, &nonce);
    let last = last.map_err(|error| ("08P01", error.to_string()))?;
    match verifier.check(&last.all, &last.proof) {
        Some(signature) => {
            output.authentication_step(scram::STEP_FINAL, scram::server_final(&signature).as_bytes());
            send(stream, &mut output)
        }
        None => {
            shared.registry.wrong_password();
            pause(stream);
            Err(refused())
        }
    }
}

/// Waits until the client is gone, but for a bounded time; what it sends is not looked at.
fn pause(stream: &mut Stream) {
    let until = Instant::now() + PAUSE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        // The end of the connection ends the wait, too, and so does the end of its time.
        match stream.read(&mut [0; 64]) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Returns true if the password of a role is not accepted any more.
fn is_over(role: &Role) -> bool {
    let Some(until) = &role.valid_until else { return false };
    match sql::text::from_text(until, &sql::types::SqlType::TimestampTz) {
        Ok(isles::Datum::TimestampTz(until)) => until <= sql::context::moment(),
        // A moment that cannot be read is no reason to let a client in.
        _ => true,
    }
}

fn gone(_: std::io::Error) -> Refusal {
    ("08006", "the connection has ended".to_owned())
}

fn send(stream: &mut Stream, output: &mut Output) -> Result<(), Refusal> {
    stream.write_all(&output.bytes).map_err(gone)?;
    output.bytes.clear();
    Ok(())
}

/// Reads the answer to a question about the password.
fn answer(stream: &mut Stream) -> Result<Vec<u8>, Refusal> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).map_err(gone)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..=ANSWER_BYTES_MAX).contains(&length) {
        return Err(("08P01", "invalid length of an answer about a password".to_owned()));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).map_err(gone)?;
    match Frontend::decode(head[0], &body) {
        Ok(Frontend::Password(data)) => Ok(data),
        _ => Err(("08P01", "expected an answer about a password".to_owned())),
    }
}
