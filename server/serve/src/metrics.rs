//! Figures for Prometheus, and the health of the server, over HTTP.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::server::Shared;

/// Most questions that are answered at a time.
const ANSWERS_MAX: usize = 8;
/// Longest time of a question.
const WAIT: Duration = Duration::from_secs(2);
/// Most bytes of a question.
const BYTES_MAX: usize = 8 << 10;

/// Answers a question in a thread of its own.
pub fn answer(stream: TcpStream, shared: &Arc<Shared>) {
    static ANSWERS: AtomicUsize = AtomicUsize::new(0);
    if ANSWERS.fetch_add(1, Ordering::AcqRel) >= ANSWERS_MAX {
        ANSWERS.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let shared = Arc::clone(shared);
    let run = move || {
        // The client may be gone.
        _ = answer_within(stream, &shared);
        ANSWERS.fetch_sub(1, Ordering::AcqRel);
    };
    if std::thread::Builder::new().name("metrics".to_owned()).spawn(run).is_err() {
        ANSWERS.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer_within(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WAIT))?;
    let until = Instant::now() + WAIT;
    let (mut question, mut piece) = (Vec::new(), [0; 1024]);
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || question.len() > BYTES_MAX {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => question.extend(&piece[..count]),
        }
    }
    let line = question.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", figures(shared)),
        ("GET" | "HEAD", "/health") => health(shared),
        ("GET" | "HEAD", _) => ("404 Not Found", "there are /metrics and /health\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n");
    _ = write!(head, "Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let body = if method == "HEAD" { "" } else { &body };
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// Says whether the log takes commits and the server goes on.
fn health(shared: &Shared) -> (&'static str, String) {
    if shared.ends.load(Ordering::Acquire) {
        return ("503 Service Unavailable", "the server ends\n".to_owned());
    }
    match shared.engine.database.flush() {
        Ok(()) => ("200 OK", "ok\n".to_owned()),
        Err(error) => ("503 Service Unavailable", format!("{error}\n")),
    }
}

fn figures(shared: &Shared) -> String {
    let counts = shared.registry.counts();
    let policy = shared.policy();
    let database = &shared.engine.database;
    let gauges = [
        ("isles_up", "1 while the server accepts connections.", 1),
        ("isles_sessions", "Sessions.", counts.sessions),
        ("isles_sessions_busy", "Sessions whose statement runs.", counts.busy),
        ("isles_sessions_in_block", "Sessions that wait within a transaction block.", counts.in_block),
        ("isles_sessions_max", "Most sessions.", policy.connections_max as u64),
        ("isles_strangers", "Connections that have not proved who they are.", counts.strangers),
        ("isles_memory_bytes", "Memory in use for rows.", database.memory_in_use()),
        ("isles_memory_reserved_bytes", "Memory reserved for rows and indexes.", database.memory_bytes()),
    ];
    let counters = [
        ("isles_connections_total", "Connections that were accepted.", counts.accepted),
        ("isles_connections_refused_total", "Connections that were turned away.", counts.refused),
        ("isles_wrong_passwords_total", "Wrong passwords.", counts.wrong_passwords),
        ("isles_statements_total", "Statements.", counts.statements),
        ("isles_statement_errors_total", "Statements that have failed.", counts.errors),
    ];
    let mut text = String::new();
    for (kind, all) in [("gauge", &gauges[..]), ("counter", &counters[..])] {
        for (name, help, value) in all {
            // Writing to a text cannot fail.
            _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
    text
}
