//! Ten thousand sessions in one process: what a server has that gives each connection its own. Each
//! runs a transaction now and then, and is idle in between.
//!
//! Shows `Builder::sessions`, and what sessions take: by the database's own figures, and by the
//! operating system's.
// A program of a user reads files.
#![allow(clippy::disallowed_methods)]

use isles::{Database, Row, SESSIONS_MAX, Scheme, Session};

/// Sessions that are open at once.
const SESSIONS: usize = 10_000;
/// Most bytes that an idle session takes.
const BYTES_MAX: u64 = 10 << 10;

const _: () = assert!(SESSIONS <= SESSIONS_MAX);

/// What a connection has last asked.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Asked {
    /// The connection.
    pub id: u64,
    /// How often it has asked.
    pub times: u64,
}

/// Bytes of memory that the process has, as the operating system counts.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * 4096
}

/// What sessions take, in bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Memory for rows and indexes that the database has touched for sessions that only read.
    pub by_engine: u64,
    /// All that the process has since, as the operating system counts.
    pub by_system: u64,
}

/// Opens the sessions, and runs transactions in all of them; what they take when they have only
/// read, and are idle.
///
/// # Errors
/// The library's.
pub fn run(scheme: Scheme) -> isles::Result<Taken> {
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

    // All of them can change rows; the last one sees what the others have done.
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
    Ok(Taken { by_engine, by_system })
}

#[allow(dead_code)]
fn main() -> isles::Result<()> {
    for scheme in Scheme::ALL {
        let Taken { by_engine, by_system } = run(scheme)?;
        println!(
            "{scheme:?}: {by_system} bytes a session that is idle, {by_engine} of them for rows and indexes"
        );
        assert!(by_system < BYTES_MAX, "more than {BYTES_MAX} bytes a session");
    }
    Ok(())
}
