//! Isles: the embedded library with its defaults. A commit returns when its epoch is on disk, one flush for all clients that
//! wait; transactions are serializable under all schemes, this one is `Silo`; or, with rows in pages, two-phase locking.

use std::path::Path;

use isles::{Database, Row, Session, Table};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, PAYLOAD_BYTES, ROWS_PER_LOAD, Total, digest, missing, payload,
};

/// A row: 248 bytes.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Micro {
    id: u64,
    counter: u64,
    payload: [u8; PAYLOAD_BYTES],
}

pub(super) struct Isles {
    database: Database,
    table: Table<Micro>,
    rows: u64,
}

/// Where rows lie.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    InMemory,
    /// In a file, with a pool that holds all of them.
    InPages,
}

impl Isles {
    pub(super) fn open(directory: &Path, setup: &Setup, rows: Rows) -> Result<Self, Failure> {
        let builder = Database::at(directory.join("isles")).sessions(setup.clients_max + 1);
        let mut builder = match rows {
            Rows::InMemory => builder.memory_limit(setup.memory_bytes()),
            Rows::InPages => builder.pages(setup.memory_bytes()),
        };
        let table = builder.table("micro");
        Ok(Isles { database: builder.open()?, table, rows: setup.rows })
    }
}

impl Engine for Isles {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        let mut session = self.database.session()?;
        for first in (0..rows).step_by(ROWS_PER_LOAD as usize) {
            session.transaction(|t| {
                (first..rows.min(first + ROWS_PER_LOAD))
                    .try_for_each(|id| t.insert(self.table, &Micro { id, counter: 0, payload: payload(id) }))
            })?;
        }
        Ok(())
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(IslesClient { session: self.database.session()?, table: self.table }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let mut session = self.database.session()?;
        let mut total = Total::default();
        // A transaction has at most a million rows. The last part has no end, to find rows that should not be.
        for first in (0..self.rows).step_by(ROWS_PER_LOAD as usize) {
            let end = if first + ROWS_PER_LOAD < self.rows { first + ROWS_PER_LOAD } else { u64::MAX };
            let rows = session.transaction(|t| t.scan(self.table, first..end).collect())?;
            rows.iter().for_each(|row| total.add(row.counter));
        }
        Ok(total)
    }
}

struct IslesClient {
    session: Session,
    table: Table<Micro>,
}

impl Client for IslesClient {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let table = self.table;
        let mut absent = None;
        let attempts = self.session.transaction(|t| {
            for key in keys {
                match t.get_field(table, key, Micro::COUNTER)? {
                    Some(counter) => t.set_field(table, key, Micro::COUNTER, &(counter + 1)).map(drop)?,
                    None => absent = Some(*key),
                }
            }
            Ok(t.attempt())
        })?;
        absent.map_or(Ok(attempts), |key| Err(missing(key)))
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let table = self.table;
        let mut absent = None;
        let read = self.session.transaction(|t| {
            let mut sum = 0_u64;
            for key in keys {
                match t.get(table, key)? {
                    Some(row) => sum = sum.wrapping_add(digest(&row.payload) ^ row.counter),
                    None => absent = Some(*key),
                }
            }
            Ok((t.attempt(), sum))
        })?;
        absent.map_or(Ok(read), |key| Err(missing(key)))
    }
}
