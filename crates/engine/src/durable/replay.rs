//! Repeats what a log says in an empty database.
//!
//! Records are repeated in the order of their stamps: of two changes of one row the later commit has the larger one, and
//! who inserts a key that another deleted has the larger one too.

use cc::{Abort, Scheme};
use platform::{Intent, Platform};
use storage::log::Record;

use super::OpenError;
use super::codec::{Change, Decoder, TableCodec};
use crate::database::{Database, Ending};
use crate::transaction::erased::ErasedVerbs;
use crate::transaction::{Bounds, Transaction};

/// Records that are repeated in one transaction.
const RECORDS_AT_ONCE: usize = 32;

/// Inserts the rows of a checkpoint; how many there are.
pub(crate) fn load<'a, P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &Database<P, S>,
    codecs: &[TableCodec],
    rows: impl Iterator<Item = &'a [u8]>,
) -> Result<u64, OpenError> {
    let mut count = 0;
    let records = rows.map(|body| {
        count += 1;
        Record { stamp: 0, epoch: 0, body }
    });
    replay(c, database, codecs, records)?;
    Ok(count)
}

/// Repeats the records; how many there were.
pub(crate) fn replay<'a, P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &Database<P, S>,
    codecs: &[TableCodec],
    records: impl Iterator<Item = Record<'a>>,
) -> Result<u64, OpenError> {
    let mut records: Vec<(u64, &[u8])> = records.map(|record| (record.stamp, record.body)).collect();
    // Stable: the parts of a transaction stay in their order.
    records.sort_by_key(|(stamp, _)| *stamp);
    let session = database.session(c, None, false);
    let mut session = session.map_err(|error| OpenError::Contradiction(error.to_string()))?;
    for group in records.chunks(RECORDS_AT_ONCE) {
        let mut missing = None;
        let outcome = session.transact(&Bounds::default(), |transaction| {
            group.iter().try_for_each(|(stamp, body)| {
                repeat(transaction, codecs, body).map_err(|problem| match problem {
                    Problem::Abort(abort) => abort,
                    Problem::Says(what) => {
                        missing = Some(format!("{what} (commit {stamp:#x})"));
                        Abort::RollBack
                    }
                })
            })
        });
        match (outcome, missing) {
            (_, Some(what)) => return Err(OpenError::Contradiction(what)),
            (Ok(Ending::Committed(..)), None) => {}
            (Ok(Ending::RolledBack), None) => {}
            (Err(Abort::OutOfMemory(error)), None) => return Err(OpenError::Memory(error)),
            (Err(abort), None) => return Err(OpenError::Contradiction(abort.to_string())),
        }
        session.tend(P::now(c));
    }
    Ok(records.len() as u64)
}

enum Problem {
    Abort(Abort),
    Says(String),
}

impl From<Abort> for Problem {
    fn from(abort: Abort) -> Self {
        Problem::Abort(abort)
    }
}

/// Repeats the changes of one record.
fn repeat<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codecs: &[TableCodec],
    body: &[u8],
) -> Result<(), Problem> {
    let mut decoder = Decoder::new(codecs, body);
    while !decoder.is_at_end() {
        let Some((table, change)) = decoder.next() else {
            return Err(Problem::Says("a record is not what this version writes".into()));
        };
        let codec = &codecs[table];
        let missing = || Problem::Says(format!("a row of {} changes that is not there", codec.name));
        match change {
            Change::Insert { fixed, tail } => {
                let mut inserted = Ok(());
                (codec.keys_of)(fixed, tail, &mut |keys| {
                    inserted = transaction.insert(table, keys, fixed, tail);
                });
                inserted?;
            }
            Change::Update { key, changes, tail } => {
                let row = transaction.find(table, 0, key.words(codec.key_words), Intent::Write)?;
                let row = row.ok_or_else(missing)?;
                for (offset, bytes) in changes {
                    transaction.write(row, offset, bytes)?;
                }
                if let Some(tail) = tail {
                    transaction.write_tail(row, tail)?;
                }
            }
            Change::Delete { key } => {
                let row = transaction.find(table, 0, key.words(codec.key_words), Intent::Write)?;
                let row = row.ok_or_else(missing)?;
                delete(transaction, codec, row)?;
            }
        }
    }
    Ok(())
}

fn delete<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codec: &TableCodec,
    row: u32,
) -> Result<(), Abort> {
    let mut words = vec![0; codec.row_bytes / 8];
    transaction.read(row, 0, &mut words)?;
    let mut tail = Vec::new();
    if codec.has_tail {
        transaction.read_tail(row, &mut tail)?;
    }
    let mut deleted = Ok(());
    (codec.keys_of)(bytemuck::cast_slice(&words), &tail, &mut |keys| {
        deleted = transaction.delete(row, keys);
    });
    deleted
}
