//! Ten thousand sessions in one process, as in a server that gives each connection its own session.
//! Each session runs a transaction from time to time and is idle in between.
//!
//! Shows `Builder::sessions`, and the memory that sessions take, according to the database and to
//! the operating system.
//!
//! Run with `cargo run --release -p isles --example sessions`.
// A user's program reads files.
#![allow(clippy::disallowed_methods)]

use isles::{Database, Row, SESSIONS_MAX, Scheme, Session};

/// Sessions that are open at once.
const SESSIONS: usize = 10_000;
/// Limit of the bytes that an idle session takes.
const BYTES_MAX: u64 = 10 << 10;

const _: () = assert!(SESSIONS <= SESSIONS_MAX);

/// Requests of a connection.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Asked {
    /// The connection.
    pub id: u64,
    /// Number of requests.
    pub times: u64,
}

/// Returns the resident bytes of the process, according to the operating system.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * 4096
}

/// Bytes that each session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBytes {
    /// Memory for rows and indexes that the database has touched for sessions that only read.
    pub by_engine: u64,
    /// Growth of the process, according to the operating system.
    pub by_system: u64,
}

/// Opens the sessions and runs transactions in all of them. Returns the memory that they take when
/// they have only read and are idle.
///
/// # Errors
/// Errors of the library.
pub fn run(scheme: Scheme) -> isles::Result<SessionBytes> {
    let mut builder = Database::in_memory().scheme(scheme).sessions(SESSIONS);
    let asked = builder.table::<Asked>("asked");
    let database = builder.open()?;
    database.transaction(|t| (0..100).try_for_each(|id| t.insert(asked, &Asked { id, times: 0 })))?;
    let (touched, resident) = (database.statistics().memory.touched, resident_bytes());

    let mut sessions = Vec::with_capacity(SESSIONS);
    for id in 0..SESSIONS as u64 {
        let mut session: Session = database.session()?;
        let found = session.transaction(|t| t.get(asked, &(id % 100)))?;
        assert_eq!(found, Some(Asked { id: id % 100, times: 0 }));
        sessions.push(session);
    }
    let now = database.statistics();
    assert_eq!(now.sessions, SESSIONS);
    let by_engine = (now.memory.touched - touched) / SESSIONS as u64;
    let by_system = resident_bytes().saturating_sub(resident) / SESSIONS as u64;
    assert!(by_engine < BYTES_MAX, "{by_engine} bytes a session");

    // All sessions can change rows; the last one sees the changes of the others.
    for (number, session) in sessions.iter_mut().enumerate() {
        session.transaction(|t| {
            t.update_field(asked, &(number as u64 % 100), Asked::TIMES, |times| *times += 1)
        })?;
    }
    let mut last = sessions.pop().expect("there are some");
    let times = last.transaction(|t| t.scan(asked, ..).fields(Asked::TIMES).sum::<isles::Result<u64>>())?;
    assert_eq!(times, SESSIONS as u64);
    drop((last, sessions));
    assert_eq!(database.statistics().sessions, 0);
    Ok(SessionBytes { by_engine, by_system })
}

#[allow(dead_code)]
fn main() -> isles::Result<()> {
    for scheme in Scheme::ALL {
        let SessionBytes { by_engine, by_system } = run(scheme)?;
        println!(
            "{scheme:?}: {by_system} bytes a session that is idle, {by_engine} of them for rows and indexes"
        );
        assert!(by_system < BYTES_MAX, "more than {BYTES_MAX} bytes a session");
    }
    Ok(())
}
