//! The first messages of a connection: who is it, and may it come in.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sql::Session;
use sql::context::REPORTED;
use wire::{ErrorFields, Output, STARTUP_BYTES_MAX, Startup};

use crate::authentication::{Refusal, needs_password, prove, role_of};
use crate::conversation::Conversation;
use crate::registry::Entry;
use crate::server::Shared;
use crate::stream::Stream;

/// Longest time until a client has proved who it is.
const STARTUP_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for a client that does not read its answers.
const WRITE_WAIT: Duration = Duration::from_secs(60);
/// Questions that a client may ask before it says who it is: for TLS and GSSAPI.
const QUESTIONS_MAX: usize = 4;

/// Serves a connection until its end.
pub fn serve(mut stream: Stream, shared: &Arc<Shared>, entry: &Arc<Entry>, is_local: bool) {
    let Some(parameters) = begin(&mut stream, shared) else { return };
    let mut session = match admit(&mut stream, shared, entry, is_local, &parameters) {
        Ok(session) => session,
        Err((code, message)) => {
            shared.registry.refused();
            refuse(&mut stream, code, &message);
            return;
        }
    };
    let _ = stream.set_read_timeout(None);
    set_parameters(&mut session, &parameters);
    let mut output = Output::default();
    output.authentication_ok();
    for name in REPORTED {
        output.parameter(name, session.context.settings.get(name).unwrap_or_default());
    }
    output.key(session.context.process, session.secret);
    let Ok(second) = stream.try_clone() else { return };
    let input = BufReader::with_capacity(1 << 15, stream);
    Conversation::new(session, input, second, output, Arc::clone(shared), Arc::clone(entry)).run();
}

/// Says why a client may not come in.
fn refuse(stream: &mut Stream, code: &str, message: &str) {
    let mut output = Output::default();
    let fields = ErrorFields { severity: "FATAL", code, message, ..ErrorFields::default() };
    output.error(&fields, false);
    // A client that is refused may be gone.
    _ = stream.write_all(&output.bytes);
    stream.close();
}

/// Begins the session of a client that may come in.
fn admit(
    stream: &mut Stream,
    shared: &Shared,
    entry: &Entry,
    is_local: bool,
    parameters: &BTreeMap<String, String>,
) -> Result<Session, Refusal> {
    let user = parameters.get("user").cloned().unwrap_or_default();
    if user.is_empty() {
        return Err(("28000", "no PostgreSQL user name specified in startup packet".to_owned()));
    }
    let schema = shared.engine.schema.get();
    let needs = needs_password(shared, stream, is_local, &schema.roles)?;
    if needs {
        prove(stream, shared, &user, &schema.roles)?;
    }
    let role = role_of(&user, &schema.roles, needs)?;
    let database = parameters.get("database").filter(|name| !name.is_empty()).unwrap_or(&user).clone();
    if shared.ends.load(std::sync::atomic::Ordering::Acquire) {
        return Err(("57P03", "the database system is shutting down".to_owned()));
    }
    let own_most = usize::try_from(role.connections).ok();
    if !shared.registry.admit(entry, &user, shared.policy().connections_max, own_most) {
        return Err(("53300", "sorry, too many clients already".to_owned()));
    }
    let random = sql::verifier::random_bytes::<8>().map(u64::from_ne_bytes);
    let random = random.ok_or(("XX000", "the operating system has no random bits".to_owned()))?;
    let mut session = Session::new(&shared.engine, &user, &database, random);
    if !schema.roles.is_superuser(&user) {
        _ = session.context.settings.set("is_superuser", "off");
    }
    Ok(session)
}

/// Sets the settings that a client wants from the beginning.
fn set_parameters(session: &mut Session, parameters: &BTreeMap<String, String>) {
    let options = parameters.get("options").map(|options| options_of(options)).unwrap_or_default();
    let plain = parameters
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "user" | "database" | "options" | "replication"))
        .filter(|(name, _)| !name.starts_with("_pq_."))
        .map(|(name, value)| (name.clone(), value.clone()));
    for (name, value) in plain.chain(options) {
        // A setting that is not known does not keep a client out.
        if let Err(error) = session.set_checked(&name, &value) {
            session.context.notices.push(("WARNING", error.message));
        }
    }
}

/// Reads settings from the options of a server's command line: `-c NAME=VALUE` and `--NAME=VALUE`.
fn options_of(text: &str) -> Vec<(String, String)> {
    let (mut words, mut escaped, mut within) = (Vec::<String>::new(), false, false);
    for character in text.chars() {
        if !escaped && character == '\\' {
            escaped = true;
            continue;
        }
        if !escaped && character.is_whitespace() {
            within = false;
            continue;
        }
        if !within {
            words.push(String::new());
        }
        (within, escaped) = (true, false);
        words.last_mut().into_iter().for_each(|word| word.push(character));
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting.to_owned(),
            None => continue,
        };
        if let Some((name, value)) = setting.split_once('=') {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

/// Reads the first message; answers questions before it.
fn begin(stream: &mut Stream, shared: &Shared) -> Option<BTreeMap<String, String>> {
    stream.set_write_timeout(Some(WRITE_WAIT)).ok()?;
    stream.set_read_timeout(Some(STARTUP_WAIT)).ok()?;
    let until = Instant::now() + STARTUP_WAIT;
    for _ in 0..QUESTIONS_MAX {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let length = u32::from_be_bytes(length) as usize;
        if !(8..=STARTUP_BYTES_MAX).contains(&length) || Instant::now() > until {
            return None;
        }
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).ok()?;
        match Startup::decode(&body) {
            Ok(Startup::Tls) => match &shared.policy().tls {
                Some(config) if !stream.has_tls() => {
                    stream.write_all(b"S").ok()?;
                    stream.begin_tls(config).ok()?;
                }
                _ => stream.write_all(b"N").ok()?,
            },
            Ok(Startup::Gss) => stream.write_all(b"N").ok()?,
            Ok(Startup::Cancel(process, secret)) => {
                shared.engine.cancel(process, secret);
                return None;
            }
            Ok(Startup::Session(parameters)) => return Some(parameters),
            Err(error) => {
                refuse(stream, "08P01", &error.to_string());
                return None;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_line() {
        let of = |text: &str| {
            options_of(text).into_iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>()
        };
        assert_eq!(of("-c a=1 -cb=2  --search-path=x,y"), ["a:1", "b:2", "search_path:x,y"]);
        assert_eq!(of(r"-c application_name=two\ words"), ["application_name:two words"]);
        assert_eq!(of("-c"), Vec::<String>::new());
        assert_eq!(of("-d 5 nothing -c x"), Vec::<String>::new());
    }
}
