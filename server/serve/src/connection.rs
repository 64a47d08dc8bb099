//! The first messages of a connection: who is it, and may it come in.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use sql::Session;
use sql::context::REPORTED;
use wire::{ErrorFields, Output, STARTUP_BYTES_MAX, Startup};

use crate::conversation::Conversation;
use crate::server::Shared;
use crate::stream::Stream;

/// Longest time until a client has said who it is.
const STARTUP_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for a client that does not read its answers.
const WRITE_WAIT: Duration = Duration::from_secs(60);
/// Questions that a client may ask before it says who it is: for TLS and GSSAPI.
const QUESTIONS_MAX: usize = 4;

/// Serves a connection until its end.
pub fn serve(mut stream: Stream, shared: &Shared, is_local: bool) {
    let started = begin(&mut stream, shared);
    shared.strangers.fetch_sub(1, Ordering::AcqRel);
    let Some(parameters) = started else { return };
    let user = parameters.get("user").cloned().unwrap_or_default();
    let refusal = if user.is_empty() {
        Some(("28000", "no PostgreSQL user name specified in startup packet".to_owned()))
    } else if !is_local && !shared.trust {
        let message = "connections from other machines are not accepted: start the server with --trust";
        Some(("28000", message.to_owned()))
    } else if shared.open.load(Ordering::Acquire) > shared.connections_max {
        Some(("53300", "sorry, too many clients already".to_owned()))
    } else {
        None
    };
    if let Some((code, message)) = refusal {
        let mut output = Output::default();
        let fields = ErrorFields { severity: "FATAL", code, message: &message, ..ErrorFields::default() };
        output.error(&fields, false);
        // A client that is refused may be gone.
        _ = stream.write_all(&output.bytes);
        return;
    }
    let _ = stream.set_read_timeout(None);
    let database = parameters.get("database").unwrap_or(&user).clone();
    let mut session = Session::new(&shared.engine, &user, &database, random());
    for (name, value) in &parameters {
        if !matches!(name.as_str(), "user" | "database" | "options" | "replication") {
            // A setting that is not known does not keep a client out.
            _ = session.context.settings.set(name, value);
        }
    }
    let mut output = Output::default();
    output.authentication_ok();
    for name in REPORTED {
        output.parameter(name, session.context.settings.get(name).unwrap_or_default());
    }
    output.key(session.context.process, session.secret);
    let Ok(second) = stream.try_clone() else { return };
    Conversation::new(session, BufReader::with_capacity(1 << 15, stream), second, output).run();
}

/// Reads the first message; answers questions before it.
fn begin(stream: &mut Stream, shared: &Shared) -> Option<BTreeMap<String, String>> {
    stream.set_read_timeout(Some(STARTUP_WAIT)).ok()?;
    stream.set_write_timeout(Some(WRITE_WAIT)).ok()?;
    for _ in 0..QUESTIONS_MAX {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let length = u32::from_be_bytes(length) as usize;
        if !(8..=STARTUP_BYTES_MAX).contains(&length) {
            return None;
        }
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).ok()?;
        match Startup::decode(&body) {
            Ok(Startup::Tls | Startup::Gss) => stream.write_all(b"N").ok()?,
            Ok(Startup::Cancel(process, secret)) => {
                shared.engine.cancel(process, secret);
                return None;
            }
            Ok(Startup::Session(parameters)) => return Some(parameters),
            Err(error) => {
                let mut output = Output::default();
                let message = error.to_string();
                let fields = ErrorFields {
                    severity: "FATAL",
                    code: "08P01",
                    message: &message,
                    ..ErrorFields::default()
                };
                output.error(&fields, false);
                _ = stream.write_all(&output.bytes);
                return None;
            }
        }
    }
    None
}

/// Returns random bits of the operating system.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => std::process::id().into(),
    }
}
