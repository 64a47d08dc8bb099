//! Isles: the embedded library with its defaults. A commit returns when its epoch is on disk, with
//! one flush for all clients that wait. Transactions are serializable under all schemes; the scheme
//! is `Silo`, or two-phase locking with rows in pages.

use std::ops::ControlFlow;
use std::path::Path;

use isles::{Database, Row, Session, Table};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, PAYLOAD_BYTES, ROWS_PER_LOAD, ROWS_PER_SCAN, Total,
    all_scanned, digest, missing, payload,
};

/// A row.
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
}

/// The engine for the rows.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    InMemory,
    /// Pages of a file, with a buffer pool that holds all of them.
    InPages,
}

impl Isles {
    pub(super) fn open(directory: &Path, setup: &Setup, rows: Rows) -> Result<Self, Failure> {
        let builder = Database::at(directory.join("isles")).sessions(setup.clients_max + 1);
        let mut builder = match rows {
            Rows::InMemory => builder.memory_limit(setup.space_bytes()),
            Rows::InPages => builder.pages(setup.cache_bytes()),
        };
        let table = builder.table("micro");
        Ok(Isles { database: builder.open()?, table })
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
        let mut next = Some(0);
        // A transaction has at most a million rows.
        while let Some(first) = next {
            let rows = session.transaction(|t| {
                let rows = t.scan(self.table, first..).fields((Micro::ID, Micro::COUNTER));
                rows.take(ROWS_PER_LOAD as usize).collect::<Result<Vec<_>, _>>()
            })?;
            rows.iter().for_each(|(_, counter)| total.add(*counter));
            let full = rows.len() == ROWS_PER_LOAD as usize;
            next = rows.last().filter(|_| full).and_then(|(id, _)| id.checked_add(1));
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

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let table = self.table;
        Ok(self.session.transaction(|t| {
            t.insert_all(table, keys.iter().map(|id| Micro { id: *id, counter: 0, payload: payload(*id) }))?;
            Ok(t.attempt())
        })?)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let table = self.table;
        let (attempts, rows, sum) = self.session.transaction(|t| {
            let (mut rows, mut sum) = (0, 0_u64);
            t.scan(table, first..first + ROWS_PER_SCAN as u64).for_each(|row| {
                rows += 1;
                sum = sum.wrapping_add(digest(&row.payload) ^ row.counter);
                ControlFlow::Continue(())
            })?;
            Ok((t.attempt(), rows, sum))
        })?;
        all_scanned(rows, first)?;
        Ok((attempts, sum))
    }
}
