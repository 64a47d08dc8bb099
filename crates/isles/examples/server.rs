//! A server: threads that take requests from a queue, with a pool of sessions, transactions of
//! clients that talk for longer, and acknowledgements that are sent when a commit is on disk, not
//! before, by a thread of their own.
//!
//! Shows what is owned: [`Session`]s, [`OwnedTransaction`]s and [`Ticket`]s live in structs, and go
//! from thread to thread.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use isles::{Database, Error, OwnedTransaction, Result, Row, Session, Table, Ticket};

const ACCOUNTS: u64 = 16;
const START: i64 = 1_000;
const THREADS: u64 = 3;
const REQUESTS: u64 = 300;

/// An account.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Account {
    /// Its number.
    pub id: u64,
    /// What is on it.
    pub balance: i64,
    /// Who has changed it last, if anybody has.
    pub changed_by: Option<u64>,
}

/// What clients ask for.
pub enum Request {
    /// Moves money: one transaction.
    Transfer {
        /// From this account.
        from: u64,
        /// To this one.
        to: u64,
        /// As much.
        amount: i64,
    },
    /// Takes money within the client's open transaction, which begins now if there is none.
    Take(u64, i64),
    /// Gives money within it.
    Give(u64, i64),
    /// Ends it.
    Commit,
}

/// What clients hear.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// It is on disk.
    Done,
    /// It goes on.
    Noted,
    /// Nothing of it happened.
    Failed(Error),
}

/// A client's number, and what it asks for.
type Asked = (u64, Request);
/// An answer that is due when its ticket is.
type Due = (u64, Result<Ticket>);

/// The state that all threads share. Nothing in it borrows.
pub struct Server {
    database: Database,
    accounts: Table<Account>,
    idle: Mutex<Vec<Session>>,
    open: Mutex<HashMap<u64, OwnedTransaction>>,
}

/// A panic elsewhere leaves maps and pools whole.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// A server of the accounts in a directory, which are made if it is new.
    pub fn open(path: &Path) -> Result<Self> {
        let mut builder = Database::at(path);
        let accounts = builder.table("accounts");
        let database = builder.open()?;
        database.transaction(|t| {
            for id in 0..ACCOUNTS {
                t.insert_or_ignore(accounts, &Account { id, balance: START, changed_by: None })?;
            }
            Ok(())
        })?;
        Ok(Server { database, accounts, idle: Mutex::default(), open: Mutex::default() })
    }

    fn session(&self) -> Result<Session> {
        let idle = locked(&self.idle).pop();
        idle.map_or_else(|| self.database.session(), Ok)
    }

    /// One request. What has committed is acknowledged by its ticket.
    fn serve(&self, client: u64, request: &Request) -> Result<Option<Ticket>> {
        let change = |t: &mut isles::Transaction<'_>, id: u64, amount: i64| {
            t.update(self.accounts, &id, |account| {
                account.balance += amount;
                account.changed_by = Some(client);
            })
        };
        match *request {
            Request::Transfer { from, to, amount } => {
                let mut session = self.session()?;
                let done = session.transaction_async(|t| {
                    change(t, from, -amount)?;
                    change(t, to, amount).map(drop)
                });
                locked(&self.idle).push(session);
                done.map(|((), ticket)| Some(ticket))
            }
            Request::Take(id, amount) | Request::Give(id, amount) => {
                let there = locked(&self.open).remove(&client);
                let mut open = there.map_or_else(|| self.session()?.into_transaction(), Ok)?;
                let amount = if matches!(request, Request::Take(..)) { -amount } else { amount };
                // One that fails is dropped, and undone.
                change(&mut open.verbs(), id, amount)?;
                locked(&self.open).insert(client, open);
                Ok(None)
            }
            Request::Commit => {
                let Some(open) = locked(&self.open).remove(&client) else {
                    return Err(Error::Misuse("there is nothing to commit"));
                };
                open.commit_async().map(Some)
            }
        }
    }

    /// Takes requests until there are no more.
    fn work(&self, requests: &Mutex<Receiver<Asked>>, due: &Sender<Due>, answers: &Sender<(u64, Answer)>) {
        loop {
            let Ok((client, request)) = locked(requests).recv() else { return };
            let sent = match self.serve(client, &request) {
                Ok(None) => answers.send((client, Answer::Noted)).is_ok(),
                Ok(Some(ticket)) => due.send((client, Ok(ticket))).is_ok(),
                Err(error) => due.send((client, Err(error))).is_ok(),
            };
            if !sent {
                return;
            }
        }
    }
}

/// Tells clients what has become of their commits, once that is on disk.
fn acknowledge(due: &Receiver<Due>, answers: &Sender<(u64, Answer)>) {
    for (client, committed) in due {
        let outcome = committed.and_then(|ticket| ticket.wait());
        let _ = answers.send((client, outcome.map_or_else(Answer::Failed, |()| Answer::Done)));
    }
}

/// Runs a server with some clients, and checks that no money was made or lost; then opens the
/// directory again and checks it once more.
pub fn run() -> Result<()> {
    let path = std::env::temp_dir().join(format!("isles-server-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let server = Arc::new(Server::open(&path)?);
    let (request, requests) = channel();
    let (due, is_due) = channel();
    let (answer, answers) = channel();
    let requests = Mutex::new(requests);
    let (done, failed) = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (server, due, answer) = (Arc::clone(&server), due.clone(), answer.clone());
            let requests = &requests;
            scope.spawn(move || server.work(requests, &due, &answer));
        }
        drop(due);
        scope.spawn(move || acknowledge(&is_due, &answer));
        for client in 0..REQUESTS {
            let (from, to) = (client % ACCOUNTS, client * 7 % ACCOUNTS);
            let steps = match client % 3 {
                0 => vec![Request::Take(from, 5), Request::Give(to, 5), Request::Commit],
                _ => vec![Request::Transfer { from, to, amount: 3 }],
            };
            // A client waits for an answer before it goes on; the next client does not wait for the
            // acknowledgement.
            for step in steps {
                let more = !matches!(step, Request::Commit | Request::Transfer { .. });
                request.send((client, step)).expect("the server runs");
                if more && !noted(&answers, client) {
                    break;
                }
            }
        }
        drop(request);
        answers.iter().fold((0, 0), |(done, failed), (_, answer)| match answer {
            Answer::Done => (done + 1, failed),
            _ => (done, failed + 1),
        })
    });
    assert!(done + failed > 0);
    let total = |database: &Database, accounts| {
        database.transaction(|t| t.scan(accounts, ..).fields(Account::BALANCE).sum::<Result<i64>>())
    };
    assert_eq!(total(&server.database, server.accounts)?, ACCOUNTS as i64 * START);
    drop(server);
    let server = Server::open(&path)?;
    assert_eq!(total(&server.database, server.accounts)?, ACCOUNTS as i64 * START);
    let _ = std::fs::remove_dir_all(&path);
    Ok(())
}

/// Waits for the answer to a step of a client; what others asked for earlier may be acknowledged,
/// or may fail, before.
pub fn noted(answers: &Receiver<(u64, Answer)>, client: u64) -> bool {
    let own = answers.iter().find(|(of, _)| *of == client);
    own.is_some_and(|(_, answer)| answer == Answer::Noted)
}

#[allow(dead_code)]
fn main() -> Result<()> {
    run()
}
