//! A web service with axum and tokio: it uses a pool of sessions, and sends a response when the
//! commit is on disk.
//!
//! ```text
//! cargo run --release -p isles --example web -- DIRECTORY          serves 127.0.0.1:3000 until it is interrupted
//! curl localhost:3000/accounts/1
//! curl -H 'content-type: application/json' -d '{"from":1,"to":2,"amount":5}' localhost:3000/transfers
//! ```
//!
//! Without a directory the program starts clients of its own, and checks the balances at the end. A
//! transaction takes microseconds, so it runs in the task. The disk takes longer, so the task
//! awaits it ([`isles::Ticket::on_disk_by`]), and the thread runs other tasks.
// A user's program has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path as Named, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use isles::{Database, Error, Result, Row, Session, Table};
use serde::{Deserialize, Serialize};

const ACCOUNTS: u64 = 16;
const START: i64 = 100;
const CLIENTS: u64 = 24;
const REQUESTS: u64 = 40;

/// An account.
#[derive(Row, Serialize, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Account {
    /// Its number.
    pub id: u64,
    /// Its balance, which is never negative.
    pub balance: i64,
}

/// A transfer between two accounts.
#[derive(Deserialize, Clone, Copy, Debug)]
pub struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

/// Reasons for which a request is refused.
pub enum Refusal {
    /// There is no such account.
    NoAccount(u64),
    /// The amount is not positive, or larger than the balance.
    Amount,
    /// An error of the database.
    Database(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Database(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Refusal::NoAccount(id) => (StatusCode::NOT_FOUND, format!("there is no account {id}")),
            Refusal::Amount => (StatusCode::CONFLICT, "not as much is there".to_owned()),
            // The client may try again.
            Refusal::Database(error @ Error::Conflict { .. }) => {
                (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            Refusal::Database(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        (status, why).into_response()
    }
}

/// The state that all requests share. Nothing in it borrows.
pub struct Service {
    database: Database,
    accounts: Table<Account>,
    idle: Mutex<Vec<Session>>,
}

impl Service {
    /// Opens the accounts of a directory, and creates them if it is new.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let mut builder = Database::at(path);
        let accounts = builder.table("accounts");
        let database = builder.open()?;
        database.transaction(|t| {
            (0..ACCOUNTS)
                .try_for_each(|id| t.insert_or_ignore(accounts, &Account { id, balance: START }).map(drop))
        })?;
        Ok(Service { database, accounts, idle: Mutex::default() })
    }

    /// Lends a session to `body`. A task does not await while it has a session, so one session for
    /// each thread is enough.
    fn with<T>(&self, body: impl FnOnce(&mut Session) -> T) -> Result<T> {
        // A panic on another thread leaves the pool consistent.
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let pooled = idle().pop();
        let mut session = pooled.map_or_else(|| self.database.session(), Ok)?;
        let done = body(&mut session);
        idle().push(session);
        Ok(done)
    }

    /// Returns the sum of all balances.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn total(&self) -> Result<i64> {
        self.with(|session| {
            session.transaction(|t| t.scan(self.accounts, ..).fields(Account::BALANCE).sum::<Result<i64>>())
        })?
    }
}

async fn account(
    State(service): State<Arc<Service>>,
    Named(id): Named<u64>,
) -> std::result::Result<Json<Account>, Refusal> {
    let found = service.with(|session| session.transaction(|t| t.get(service.accounts, &id)))??;
    found.map(Json).ok_or(Refusal::NoAccount(id))
}

async fn total(State(service): State<Arc<Service>>) -> std::result::Result<Json<i64>, Refusal> {
    Ok(service.total().map(Json)?)
}

async fn transfer(
    State(service): State<Arc<Service>>,
    Json(asked): Json<Transfer>,
) -> std::result::Result<Json<Account>, Refusal> {
    let Transfer { from, to, amount } = asked;
    let mut refused = Refusal::Amount;
    let accounts = service.accounts;
    let done = service.with(|session| {
        session.transaction_async(|t| {
            let mut change = |t: &mut isles::Transaction<'_>, id: u64, amount: i64| {
                let changed = t.update(accounts, &id, |account| {
                    account.balance += amount;
                    account.clone()
                })?;
                changed.ok_or_else(|| {
                    refused = Refusal::NoAccount(id);
                    Error::RollBack
                })
            };
            let payer = change(t, from, -amount)?;
            change(t, to, amount)?;
            if amount <= 0 || payer.balance < 0 { Err(Error::RollBack) } else { Ok(payer) }
        })
    })?;
    let (payer, ticket) = match done {
        Err(Error::RollBack) => return Err(refused),
        other => other?,
    };
    ticket.on_disk_by(|job| drop(tokio::task::spawn_blocking(job))).await?;
    Ok(Json(payer))
}

/// Returns the routes of the service.
pub fn routes(service: Arc<Service>) -> Router {
    Router::new()
        .route("/accounts/{id}", get(account))
        .route("/total", get(total))
        .route("/transfers", post(transfer))
        .with_state(service)
}

/// Sends one request over a persistent connection. Returns status and body.
fn request(connection: &mut BufReader<TcpStream>, what: &str, body: &str) -> std::io::Result<(u16, String)> {
    let length = body.len();
    let head = "HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
    write!(connection.get_mut(), "{what} {head} {length}\r\n\r\n{body}")?;
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let bad = || std::io::Error::other("no answer of a web service");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        connection.read_line(&mut line)?;
        let value = line.strip_prefix("content-length: ").map(|value| value.trim().parse());
        length = value.unwrap_or(Ok(length)).map_err(|_| bad())?;
    }
    let mut answer = vec![0; length];
    connection.read_exact(&mut answer)?;
    Ok((status, String::from_utf8(answer).map_err(|_| bad())?))
}

/// Runs a client that transfers money and reads accounts. Returns the number of acknowledged
/// transfers.
fn client(at: SocketAddr, number: u64) -> std::io::Result<u64> {
    let mut connection = BufReader::new(TcpStream::connect(at)?);
    let mut acknowledged = 0;
    for round in 0..REQUESTS {
        let (from, to) = ((number + round) % (ACCOUNTS + 1), (number * 7 + 3 * round + 1) % ACCOUNTS);
        let transfer = format!("{{\"from\":{from},\"to\":{to},\"amount\":{}}}", 1 + round % 60);
        let (status, answer) = request(&mut connection, "POST /transfers", &transfer)?;
        match status {
            200 => acknowledged += 1,
            404 => assert_eq!(answer, format!("there is no account {ACCOUNTS}")),
            409 => assert_eq!(answer, "not as much is there"),
            other => panic!("{other}: {answer}"),
        }
        if round % 8 == 0 {
            let (status, total) = request(&mut connection, "GET /total", "")?;
            assert_eq!((status, total), (200, (ACCOUNTS as i64 * START).to_string()));
        }
    }
    Ok(acknowledged)
}

/// Serves clients, and checks that the total does not change, also after the directory is opened
/// again.
pub fn run() -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("isles-web-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let service = Arc::new(Service::open(&path).map_err(std::io::Error::other)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_io().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let at = listener.local_addr()?;
    let serving = runtime.spawn(axum::serve(listener, routes(Arc::clone(&service))).into_future());
    let acknowledged = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(at, number))).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum::<std::io::Result<u64>>()
    })?;
    assert!(acknowledged > CLIENTS, "{acknowledged} transfers");
    let mut connection = BufReader::new(TcpStream::connect(at)?);
    let (status, _) = request(&mut connection, "GET /accounts/99", "")?;
    assert_eq!(status, 404);
    let (_, before) = request(&mut connection, "GET /accounts/1", "")?;
    serving.abort();
    runtime.shutdown_timeout(std::time::Duration::from_secs(10));
    let Service { database, idle, .. } = Arc::into_inner(service).expect("no thread serves any more");
    // A database can be closed when it has no sessions.
    drop(idle);
    database.close().map_err(std::io::Error::other)?;
    let again = Service::open(&path).map_err(std::io::Error::other)?;
    assert_eq!(again.total(), Ok(ACCOUNTS as i64 * START));
    let found = again.with(|session| session.transaction(|t| t.get(again.accounts, &1)));
    let found = found.and_then(|found| found).map_err(std::io::Error::other)?.expect("an account");
    assert_eq!(before, format!("{{\"id\":1,\"balance\":{}}}", found.balance));
    drop(again);
    std::fs::remove_dir_all(&path)
}

#[allow(dead_code)]
fn main() -> std::io::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else { return run() };
    let service = Service::open(Path::new(&path)).map_err(std::io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
        println!("serving {}", listener.local_addr()?);
        axum::serve(listener, routes(Arc::new(service))).await
    })
}
