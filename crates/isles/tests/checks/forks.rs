//! Children of `fork`: a database belongs to the process that opened it.
// Children are made, and end, by system calls.
#![allow(clippy::disallowed_methods)]

use std::fmt::Debug;

use crate::common::{Directory, Person, all_people, declare, people, person};
use isles::{Builder, Database, Durability, Error, Scheme, Table, TransactionOptions};

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 20;

/// Runs `body` in a child and returns its output, which is empty if the child panics or hangs.
fn in_child(body: impl FnOnce() -> Vec<String>) -> String {
    let (child, output) = forked(body, false);
    child.end();
    output
}

/// A child that has written its output.
struct Child {
    id: libc::pid_t,
    /// Pipe whose end the child waits for before it exits.
    exit_pipe: libc::c_int,
}

impl Child {
    fn end(self) {
        // SAFETY: the descriptor and the child are ours.
        unsafe {
            libc::close(self.exit_pipe);
            libc::waitpid(self.id, std::ptr::null_mut(), 0);
        }
    }
}

fn pipe() -> [libc::c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written into the array.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    ends
}

/// Starts a child that runs `body`, and returns the child and its output. If `stays`, the child
/// exits only when [`Child::end`] is called.
fn forked(body: impl FnOnce() -> Vec<String>, stays: bool) -> (Child, String) {
    let ([from_child, to_parent], [from_parent, to_child]) = (pipe(), pipe());
    // SAFETY: the child runs `body` and leaves by `_exit`, so that nothing of the test program runs
    // twice.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "no process");
    if id == 0 {
        // SAFETY: descriptors of this process are closed, and bytes of a string written.
        unsafe {
            libc::alarm(CHILD_SECONDS);
            libc::close(to_child);
            let described = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let text = described.unwrap_or_default().join("\n");
            libc::write(to_parent, text.as_ptr().cast(), text.len());
            libc::close(to_parent);
            let mut byte = 0_u8;
            if stays {
                libc::read(from_parent, (&raw mut byte).cast(), 1);
            }
            libc::_exit(0);
        }
    }
    let mut text = Vec::new();
    let mut chunk = [0_u8; 512];
    // SAFETY: bytes are read into the array; the child's descriptors are closed here.
    unsafe {
        libc::close(to_parent);
        libc::close(from_parent);
        while let Ok(count @ 1..) =
            usize::try_from(libc::read(from_child, chunk.as_mut_ptr().cast(), chunk.len()))
        {
            text.extend_from_slice(&chunk[..count]);
        }
        libc::close(from_child);
    }
    (Child { id, exit_pipe: to_child }, String::from_utf8(text).expect("text"))
}

fn described(outcome: Result<impl Debug, Error>) -> String {
    match outcome {
        Err(Error::Forked) => "forked".to_owned(),
        other => format!("{other:?}"),
    }
}

fn assert_all_forked(output: &str, count: usize) {
    assert_eq!(output, vec!["forked"; count].join("\n"));
}

/// Opens a database of each engine with one person, in a directory or in memory.
fn databases_of_each_engine(name: &str) -> Vec<(Option<Directory>, Database, Table<Person>)> {
    let mut all = Vec::new();
    let mut add = |directory: Option<Directory>, builder: Builder| {
        let (database, people) = declare(builder).expect("a database");
        database.transaction(|t| t.insert(people, &person(1))).expect("inserted");
        all.push((directory, database, people));
    };
    add(None, Database::in_memory());
    for scheme in [Scheme::Silo, Scheme::NoWait, Scheme::Mvcc] {
        let directory = Directory::new(&format!("{name}-{scheme:?}"));
        let builder = Database::at(&directory.0).scheme(scheme);
        add(Some(directory), builder);
    }
    let directory = Directory::new(&format!("{name}-pages"));
    let builder = Database::at(&directory.0).pages(8 << 20);
    add(Some(directory), builder);
    all
}

#[test]
fn a_child_cannot_use_a_database_of_its_parent() {
    for (directory, database, people) in databases_of_each_engine("fork") {
        let mut session = database.session().expect("a session");
        let mut others = Some((database.begin().expect("begun"), database.session().expect("a session")));
        let ((), ticket) = session.transaction_async(|t| t.insert(people, &person(2))).expect("committed");
        let (mut session, mut ticket, mut handle) = (Some(session), Some(ticket), Some(database));
        // Values consumed in the child remain in the parent.
        let output = in_child(|| {
            let hurried = TransactionOptions::new().durability(Durability::Async);
            let (mut open, idle) = others.take().expect("they are there");
            let mut session = session.take().expect("it is there");
            let ticket = ticket.take().expect("it is there");
            let database = handle.take().expect("it is there");
            let verb = open.insert(people, &person(3));
            vec![
                described(session.transaction(|t| t.insert(people, &person(4)))),
                described(session.with(hurried).transaction(|t| t.insert(people, &person(5)))),
                described(session.snapshot(|t| t.get(people, &1))),
                described(session.begin().map(drop)),
                described(database.transaction(|t| t.get(people, &1))),
                described(database.session().map(drop)),
                described(database.begin().map(drop)),
                described(database.flush()),
                described(database.checkpoint()),
                described(database.backup(std::env::temp_dir().join("isles-fork-never"))),
                described(database.create_table::<Person>("others").map(drop)),
                described(database.drop_table("people")),
                described(ticket.wait()),
                described(verb),
                described(open.commit()),
                described(idle.into_transaction().map(drop)),
                {
                    drop(session);
                    drop(ticket);
                    described(database.close())
                },
            ]
        });
        assert_all_forked(&output, 17);
        // The calls of the child have changed nothing in the parent.
        let database = handle.expect("the child has taken a copy");
        let ids: Vec<u64> = all_people(&database, people).iter().map(|person| person.id).collect();
        assert_eq!(ids, [1, 2]);
        drop((session, others, ticket));
        database.transaction(|t| t.insert(people, &person(6))).expect("the log goes on");
        database.close().expect("closed");
        if let Some(directory) = directory {
            let check = Database::check(&directory.0).expect("whole");
            assert_eq!(check.tables, [("people".to_owned(), 3)]);
        }
    }
}

#[test]
fn a_transaction_that_forks_commits_in_the_parent_only() {
    for (_directory, database, people) in databases_of_each_engine("fork-within") {
        let mut session = database.session().expect("a session");
        let mut open = Some(database.begin().expect("begun"));
        let output = in_child(|| vec![described(open.take().expect("begun").commit())]);
        assert_all_forked(&output, 1);
        let mut open = open.expect("the child has taken a copy");
        open.insert(people, &person(20)).expect("inserted");
        open.commit().expect("committed");
        let mut body_heard = String::new();
        session
            .transaction(|t| {
                t.insert(people, &person(21))?;
                body_heard =
                    in_child(|| vec![described(t.insert(people, &person(22))), described(t.get(people, &1))]);
                Ok(())
            })
            .expect("committed");
        assert_all_forked(&body_heard, 2);
        assert_eq!(all_people(&database, people).len(), 3);
    }
}

#[test]
fn a_child_does_not_keep_a_directory_locked() {
    for (directory, database, _) in databases_of_each_engine("fork-lock") {
        let Some(directory) = directory else { continue };
        let (child, _) = forked(Vec::new, true);
        let clone = database.clone();
        drop(clone);
        database.close().expect("closed");
        let check = Database::check(&directory.0).expect("no process has it open");
        assert_eq!(check.tables.len(), 1);
        child.end();
        // A child that drops its copy of the parent's database does not release the lock.
        let builder = match check.last_epoch {
            0 => Database::at(&directory.0).pages(8 << 20),
            _ => Database::at(&directory.0),
        };
        let (again, people) = declare(builder).expect("a database");
        let mut again = Some(again);
        let output = in_child(|| {
            drop(again.take());
            vec!["dropped".to_owned()]
        });
        assert_eq!(output, "dropped");
        assert!(Database::check(&directory.0).is_err(), "it is open");
        let again = again.expect("the child has dropped a copy");
        assert_eq!(again.transaction(|t| t.exists(people, &1)), Ok(true));
    }
}

#[test]
fn a_child_can_open_its_own_databases() {
    let (database, people) = people(Scheme::Silo, 1).expect("a database");
    let directory = Directory::new("fork-own");
    let output = in_child(|| {
        let (own, table) = directory.open(Scheme::Silo).expect("a database");
        let done = own.transaction(|t| t.insert(table, &person(7)));
        let closed = own.close();
        vec![format!("{done:?} {closed:?}"), described(database.transaction(|t| t.get(people, &0)))]
    });
    assert_eq!(output, "Ok(()) Ok(())\nforked");
    let (own, table) = directory.open(Scheme::Silo).expect("a database");
    assert_eq!(all_people(&own, table).len(), 1);
}
