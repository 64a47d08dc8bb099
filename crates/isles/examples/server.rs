//! A server: threads take requests from a queue and use a pool of sessions. A client may keep a
//! transaction open over several requests. A thread of its own acknowledges each commit when it is
//! on disk, not before.
//!
//! Shows owned values: [`Session`]s, [`OwnedTransaction`]s and [`Ticket`]s are kept in structs and
//! move between threads.
//!
//! Run with `cargo run --release -p isles --example server`.
// A user's program has threads of its own.
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
    /// Its balance.
    pub balance: i64,
    /// The client that changed it last, if any.
    pub changed_by: Option<u64>,
}

/// Request of a client.
pub enum Request {
    /// Transfers money in one transaction.
    Transfer {
        /// From this account.
        from: u64,
        /// To this account.
        to: u64,
        /// The amount.
        amount: i64,
    },
    /// Withdraws money in the client's open transaction, which begins now if there is none.
    Take(u64, i64),
    /// Deposits money in the open transaction.
    Give(u64, i64),
    /// Commits the open transaction.
    Commit,
}

/// Reply to a client.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// The commit is on disk.
    Done,
    /// The transaction continues.
    Continues,
    /// The transaction had no effect.
    Failed(Error),
}

/// A client's number and its request.
type ClientRequest = (u64, Request);
/// A reply that is sent when its ticket is on disk.
type PendingReply = (u64, Result<Ticket>);

/// The state that all threads share. Nothing in it borrows.
pub struct Server {
    database: Database,
    accounts: Table<Account>,
    idle: Mutex<Vec<Session>>,
    open: Mutex<HashMap<u64, OwnedTransaction>>,
}

/// A panic on another thread leaves maps and pools consistent.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Opens a server of the accounts in a directory, and creates the accounts if the directory is
    /// new.
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

    /// Handles one request. A commit is acknowledged through its ticket.
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
                // A transaction that fails is dropped, which rolls it back.
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

    /// Handles requests until there are no more.
    fn work(
        &self,
        requests: &Mutex<Receiver<ClientRequest>>,
        due: &Sender<PendingReply>,
        replies: &Sender<(u64, Reply)>,
    ) {
        loop {
            let Ok((client, request)) = locked(requests).recv() else { return };
            let sent = match self.serve(client, &request) {
                Ok(None) => replies.send((client, Reply::Continues)).is_ok(),
                Ok(Some(ticket)) => due.send((client, Ok(ticket))).is_ok(),
                Err(error) => due.send((client, Err(error))).is_ok(),
            };
            if !sent {
                return;
            }
        }
    }
}

/// Acknowledges commits to clients once they are on disk.
fn acknowledge(due: &Receiver<PendingReply>, replies: &Sender<(u64, Reply)>) {
    for (client, committed) in due {
        let outcome = committed.and_then(|ticket| ticket.wait());
        let _ = replies.send((client, outcome.map_or_else(Reply::Failed, |()| Reply::Done)));
    }
}

/// Runs a server with some clients, and checks that the total did not change; then opens the
/// directory again and repeats the check.
pub fn run() -> Result<()> {
    let path = std::env::temp_dir().join(format!("isles-server-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let server = Arc::new(Server::open(&path)?);
    let (request, requests) = channel();
    let (due, is_due) = channel();
    let (reply, replies) = channel();
    let requests = Mutex::new(requests);
    let (done, failed) = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (server, due, reply) = (Arc::clone(&server), due.clone(), reply.clone());
            let requests = &requests;
            scope.spawn(move || server.work(requests, &due, &reply));
        }
        drop(due);
        scope.spawn(move || acknowledge(&is_due, &reply));
        for client in 0..REQUESTS {
            let (from, to) = (client % ACCOUNTS, client * 7 % ACCOUNTS);
            let steps = match client % 3 {
                0 => vec![Request::Take(from, 5), Request::Give(to, 5), Request::Commit],
                _ => vec![Request::Transfer { from, to, amount: 3 }],
            };
            // A client waits for a reply before it continues; the next client does not wait for the
            // acknowledgement.
            for step in steps {
                let more = !matches!(step, Request::Commit | Request::Transfer { .. });
                request.send((client, step)).expect("the server runs");
                if more && !continues(&replies, client) {
                    break;
                }
            }
        }
        drop(request);
        replies.iter().fold((0, 0), |(done, failed), (_, reply)| match reply {
            Reply::Done => (done + 1, failed),
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

/// Waits for the reply to a step of a client. Earlier requests of other clients may be acknowledged
/// or fail before it.
pub fn continues(replies: &Receiver<(u64, Reply)>, client: u64) -> bool {
    let own = replies.iter().find(|(number, _)| *number == client);
    own.is_some_and(|(_, reply)| reply == Reply::Continues)
}

#[allow(dead_code)]
fn main() -> Result<()> {
    run()
}
