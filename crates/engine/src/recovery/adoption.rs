//! Parts in doubt: prepared before the database was opened, and neither committed nor rolled back
//! as far as the log knows.
//!
//! Each part is run again, from what its record says, in the mode of a participant, and prepared:
//! so every scheme locks what it locks for a part of these changes, by its own rules, before any
//! other transaction runs. What the part had only read is not locked again: the record does not
//! have it.

use boundary::directory::wire::Bytes;
use boundary::{AnyVerbs, OpenError, PartOf};
use concurrency::Scheme;
use platform::{Intent, Platform};
use schema::RowId;
use terms::{Abort, Fault, Stamp};

use crate::database::MemoryDatabase;
use crate::durable::codec::{Codecs, Decoder, Form, TableCodec, TypedChange};
use crate::durable::global::Item;
use crate::participants::undecided::PartRecord;
use crate::transaction::Transaction;

/// Attempts to adopt a part: where whole partitions are locked, an attempt learns which ones the
/// next has to begin with.
const ATTEMPTS_MAX: usize = 8;

/// Adopts these parts, each with its changes.
pub(super) fn adopt<P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &MemoryDatabase<P, S>,
    codecs: &Codecs,
    in_doubt: &[(PartOf, Vec<u8>)],
) -> Result<(), OpenError> {
    let Some(undecided) =
        database.undecided.as_ref().filter(|undecided| !undecided.has_fault(Fault::ForgottenParts))
    else {
        return Ok(());
    };
    if in_doubt.is_empty() {
        return Ok(());
    }
    let mut session =
        database.session(c, None, false).map_err(|error| OpenError::Contradiction(error.to_string()))?;
    for (part, changes) in in_doubt {
        let mut attempts = 0;
        let number = loop {
            attempts += 1;
            let mut body = Bytes::default();
            Item::Prepare(*part).put(&mut body);
            let body = [body.as_slice(), changes].concat();
            let record = PartRecord { part: *part, stamp: Stamp(0), body };
            match session.adopt(record, |transaction| repeat(transaction, codecs, changes)) {
                Ok(number) => break number,
                Err(abort) if abort.is_conflict() && attempts < ATTEMPTS_MAX => {}
                Err(Abort::OutOfMemory(error)) => return Err(OpenError::Memory(error)),
                Err(abort) => {
                    let what = match abort.is_conflict() {
                        true => {
                            format!("{} cannot hold it and another part in doubt, in one partition", S::NAME)
                        }
                        false => abort.to_string(),
                    };
                    return Err(OpenError::InDoubt { global: part.global, what });
                }
            }
        };
        undecided.doubt(c, *part, number);
    }
    Ok(())
}

/// Does what the changes of a part say.
fn repeat<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codecs: &Codecs,
    changes: &[u8],
) -> Result<(), Abort> {
    let mut decoder = Decoder::new(codecs, changes);
    while let Some((table, change)) =
        decoder.next().map_err(|_| Abort::Misuse("its record is not what this version writes"))?
    {
        let codec = &codecs[table];
        let key = change.key(codec);
        let key = key.words(codec.key_words);
        match change {
            TypedChange::Insert { row } => {
                declared(row.form)?;
                let mut inserted = Ok(());
                codec.keys_of(row.fixed, row.tail, &mut |keys| {
                    inserted = AnyVerbs::insert(transaction, table, keys, row.fixed, row.tail);
                });
                inserted?;
            }
            TypedChange::Update { form, changes, tail, .. } => {
                declared(form)?;
                let row = find(transaction, table, key)?;
                for (offset, bytes) in changes {
                    AnyVerbs::write(transaction, row, offset, bytes)?;
                }
                if let Some(tail) = tail {
                    AnyVerbs::write_tail(transaction, row, tail)?;
                }
            }
            TypedChange::Delete { .. } => {
                let row = find(transaction, table, key)?;
                delete(transaction, codec, row)?;
            }
        }
    }
    Ok(())
}

/// Refuses changes of rows to which columns were added since.
fn declared(form: Form) -> Result<(), Abort> {
    if form == Form::DECLARED { Ok(()) } else { Err(Abort::Misuse("columns were added to its tables since")) }
}

fn find<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    table: usize,
    key: &[u64],
) -> Result<RowId, Abort> {
    let found = AnyVerbs::find(transaction, table, 0, key, Intent::Write)?;
    found.ok_or(Abort::Misuse("a row that it changes is not there"))
}

fn delete<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codec: &TableCodec,
    row: RowId,
) -> Result<(), Abort> {
    let mut words = vec![0; codec.layout.row_bytes / 8];
    transaction.copy_words(row, 0, &mut words)?;
    let mut tail = Vec::new();
    if codec.layout.has_tail {
        AnyVerbs::read_tail(transaction, row, &mut tail)?;
    }
    let mut deleted = Ok(());
    codec.keys_of(bytemuck::cast_slice(&words), &tail, &mut |keys| {
        deleted = AnyVerbs::delete(transaction, row, keys);
    });
    deleted
}
