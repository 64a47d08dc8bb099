//! PostgreSQL over a Unix socket: a server of its own in the benchmark's directory, with a
//! connection for each client.
//!
//! Settings ([`server`] has those of the server): all transactions are `SERIALIZABLE`; `fsync`,
//! `synchronous_commit` and `full_page_writes` are on. One flush of the log serves all transactions
//! that wait for it, without a setting (manual, "WAL Configuration"); a `commit_delay` of 50 or 100
//! us gave fewer commits here. A transaction is one prepared statement and one round trip.
//! Connections that only read declare it (`default_transaction_read_only`), which avoids predicate
//! locks if no client writes (manual, "Serializable Isolation Level"). Pages are filled by half, so
//! that new versions of rows fit into them and the index does not change (manual, "Heap-Only
//! Tuples"). Serialization failures and deadlocks are tried again immediately.

pub(super) mod server;

use std::path::Path;
use std::sync::Arc;

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client as Connection, NoTls, Statement};

use super::binaries::NoPostgres;
use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_LOAD, ROWS_PER_SCAN, Total, all_scanned, digest,
    payload,
};

use server::Server;

const INSERT: &str =
    "INSERT INTO micro SELECT id, 0, payload FROM unnest($1::bigint[], $2::bytea[]) AS new (id, payload)";

pub(super) struct Postgres {
    server: Arc<Server>,
}

impl Postgres {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Result<Self, Failure> {
        let binaries = setup.postgres.as_ref().ok_or(NoPostgres)?;
        let server = Server::start(binaries, directory, setup.clients_max)?;
        Ok(Postgres { server: Arc::new(server) })
    }

    fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.server.configuration().connect(NoTls)?)
    }
}

impl Engine for Postgres {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        let mut connection = self.connect()?;
        connection.batch_execute(
            "CREATE TABLE micro (id bigint PRIMARY KEY, counter bigint NOT NULL, payload bytea NOT NULL) \
             WITH (fillfactor = 50)",
        )?;
        let insert = connection.prepare(INSERT)?;
        for first in (0..rows).step_by(ROWS_PER_LOAD as usize) {
            let keys: Vec<u64> = (first..rows.min(first + ROWS_PER_LOAD)).collect();
            let payloads: Vec<Vec<u8>> = keys.iter().map(|key| payload(*key).to_vec()).collect();
            let keys = keys.into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>()?;
            connection.execute(&insert, &[&keys, &payloads])?;
        }
        Ok(connection.batch_execute("VACUUM ANALYZE micro")?)
    }

    fn client(&self, operation: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        let mut connection = self.connect()?;
        if operation.only_reads() {
            connection.batch_execute("SET default_transaction_read_only = on")?;
        }
        let update = connection.prepare("UPDATE micro SET counter = counter + 1 WHERE id = ANY($1)")?;
        let read = connection.prepare("SELECT counter, payload FROM micro WHERE id = ANY($1)")?;
        let insert = connection.prepare(INSERT)?;
        let scan =
            connection.prepare("SELECT counter, payload FROM micro WHERE id >= $1 ORDER BY id LIMIT $2")?;
        Ok(Box::new(PostgresClient { connection, update, read, insert, scan }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let mut connection = self.connect()?;
        let row =
            connection.query_one("SELECT count(*), coalesce(sum(counter), 0)::bigint FROM micro", &[])?;
        let (rows, counters): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Total { rows: rows.try_into()?, counters: counters.try_into()? })
    }
}

struct PostgresClient {
    connection: Connection,
    update: Statement,
    read: Statement,
    insert: Statement,
    scan: Statement,
}

/// The keys in order, so that transactions lock rows in the same order.
fn sorted(keys: &Keys) -> Result<Vec<i64>, Failure> {
    let mut keys = keys.iter().map(|key| i64::try_from(*key)).collect::<Result<Vec<_>, _>>()?;
    keys.sort_unstable();
    Ok(keys)
}

/// Repeats a statement until it does not conflict; returns the number of attempts, and its result.
fn again<T>(mut statement: impl FnMut() -> Result<T, postgres::Error>) -> Result<(u32, T), Failure> {
    for attempts in 1.. {
        match statement() {
            Ok(value) => return Ok((attempts, value)),
            Err(error)
                if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
                    || error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("no attempt succeeded".into())
}

fn digest_of(rows: &[postgres::Row]) -> Result<u64, Failure> {
    let mut sum = 0_u64;
    for row in rows {
        let (counter, payload): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        sum = sum.wrapping_add(digest(payload) ^ counter.cast_unsigned());
    }
    Ok(sum)
}

fn all_there(rows: usize, keys: &Keys) -> Result<(), Failure> {
    if rows == keys.len() {
        Ok(())
    } else {
        Err(format!("{rows} rows of the keys {keys:?} are there").into())
    }
}

impl Client for PostgresClient {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let sorted = sorted(keys)?;
        let parameters: [&(dyn ToSql + Sync); 1] = [&sorted];
        let (attempts, rows) = again(|| self.connection.execute(&self.update, &parameters))?;
        all_there(usize::try_from(rows)?, keys)?;
        Ok(attempts)
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let sorted = sorted(keys)?;
        let parameters: [&(dyn ToSql + Sync); 1] = [&sorted];
        let (attempts, rows) = again(|| self.connection.query(&self.read, &parameters))?;
        all_there(rows.len(), keys)?;
        Ok((attempts, digest_of(&rows)?))
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let ids = sorted(keys)?;
        let payloads: Vec<Vec<u8>> = keys.iter().map(|key| payload(*key).to_vec()).collect();
        let parameters: [&(dyn ToSql + Sync); 2] = [&ids, &payloads];
        let (attempts, _) = again(|| self.connection.execute(&self.insert, &parameters))?;
        Ok(attempts)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let (first_id, rows) = (i64::try_from(first)?, i64::try_from(ROWS_PER_SCAN)?);
        let parameters: [&(dyn ToSql + Sync); 2] = [&first_id, &rows];
        let (attempts, rows) = again(|| self.connection.query(&self.scan, &parameters))?;
        all_scanned(rows.len(), first)?;
        Ok((attempts, digest_of(&rows)?))
    }
}
