//! `isles convert`: a database in memory becomes one in pages, or the other way round.
//!
//! The rows are copied table by table into a directory of another name, which gets the name that
//! the user gave when it is whole. The old directory stays as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use isles::{Database, Datum, Session, TableDescription, Transaction};

use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::numbers::thousands;
use crate::progress::Progress;
use crate::readable::Readable;
use crate::rows::{MEMORY_LIMIT, POOL_BYTES, open};
use crate::values;

const EXAMPLES: &str = "Examples:
  isles convert data data-in-pages                     the other engine than data has
  isles convert data copy --engine memory

All tables are copied with their descriptions, constraints, sequences and rows. PATH keeps what it has; TO is a directory that is not there,
and is there only when it is whole. If another process has the database open, a copy of it is converted, which lies in the directory for
temporary files (TMPDIR) meanwhile. Exit status: 0 done, 1 failed, 2 bad input.";

/// Rows that are read at a time, and inserted in one transaction.
const ROWS_AT_ONCE: usize = 10_000;
/// The table of sequences. Insertions into tables whose columns get numbers change its rows, too.
const SEQUENCES: &str = "isles_sequences";
const ENGINES: &str = "memory, paged";

/// Flags of `isles convert`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConvertArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Directory to make
    #[arg(value_name = "TO")]
    pub to: String,
    /// Engine of the new database: memory or paged [default: the one that PATH does not have]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// Buffer pool, through which rows in pages are written
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub pool: Option<String>,
}

/// Copies a database to another engine; what to say of it.
///
/// # Errors
/// The database cannot be opened, the new one cannot be made, or there is something of its name.
pub fn convert(arguments: &ConvertArguments) -> Result<String, Failure> {
    let (from, to) = (Path::new(&arguments.path), Path::new(&arguments.to));
    let into_pages = match arguments.engine.as_deref() {
        None => !pages::holds_pages(from),
        Some("memory") => false,
        Some("paged") => true,
        Some(other) => return Err(BadInput::value("--engine", other, "unknown", ENGINES).into()),
    };
    let pool = match &arguments.pool {
        Some(text) => values::bytes("--pool", text, &((1 << 20)..=(1 << 40)))?,
        None => POOL_BYTES,
    };
    let making = name_while_made(to)?;
    let readable = Readable::of(from)?;
    let old = open(readable.path()).map_err(|failure| readable.report(Err(failure)).unwrap_err())?;
    let mut builder = Database::at(&making).memory_limit(MEMORY_LIMIT);
    if into_pages {
        builder = builder.pages(pool);
    }
    old.tables().into_iter().for_each(|table| builder.described_table(table.clone()));
    let made = builder.open().and_then(|new| {
        let rows = copy_rows(&old, &new, &Progress::of_directory(readable.path()))?;
        new.close()?;
        Ok(rows)
    });
    let rows = made.inspect_err(|_| remove(&making)).map_err(|error| Failure::at(from, &error))?;
    old.close().map_err(|error| Failure::at(from, &error))?;
    std::fs::rename(&making, to).map_err(|error| Failure::at(to, &error))?;
    let tables: String =
        rows.iter().map(|(name, rows)| format!("  {name}: {} rows\n", thousands(*rows))).collect();
    let engine = if into_pages { "in pages" } else { "in memory" };
    Ok(format!("{}{}: ok, rows {engine}\n{tables}", readable.note(), to.display()))
}

/// The name of the directory until it is whole. Nothing has either name.
fn name_while_made(to: &Path) -> Result<PathBuf, Failure> {
    let mut name = to.as_os_str().to_owned();
    name.push(".converting");
    let making = PathBuf::from(name);
    for (path, hint) in [
        (to, "name a directory that is not there"),
        (&making, "left by a conversion that was ended: remove it"),
    ] {
        if path.symlink_metadata().is_ok() {
            return Err(Failure::at(path, &format!("it is there already: {hint}")));
        }
    }
    Ok(making)
}

/// Removes what this process has made and cannot finish.
fn remove(making: &Path) {
    // The message is about the cause; what stays is refused by name at the next conversion.
    let _ = std::fs::remove_dir_all(making);
}

/// Copies the rows of all tables; names of tables and how many rows they have.
fn copy_rows(old: &Database, new: &Database, progress: &Progress) -> isles::Result<Vec<(String, u64)>> {
    let (mut source, mut target) = (old.session()?, new.session()?);
    let options = isles::TransactionOptions::new().without_deadline();
    source.set_options(options.clone());
    target.set_options(options);
    let mut rows = Vec::new();
    progress.copying();
    for tables in in_order(old.tables()) {
        match tables[..] {
            [table] if !refers_to(table, table.name()) => {
                rows.push((table.name().to_owned(), copy_table(table, &mut source, &mut target)?));
            }
            [table] => rows.push((table.name().to_owned(), copy_tree(table, &mut source, &mut target)?)),
            _ => rows.extend(copy_circle(&tables, &mut source, &mut target)?),
        }
    }
    progress.done();
    rows.sort();
    Ok(rows)
}

/// True if rows of a table refer to rows of the table of this name.
fn refers_to(table: &TableDescription, name: &str) -> bool {
    table.constraints().foreign_keys.iter().any(|key| key.table == name)
}

/// Tables in an order in which those come first to which others refer. Tables that refer to each
/// other in a circle are together, with those that refer to them. The table of sequences is last.
fn in_order(mut tables: Vec<&TableDescription>) -> Vec<Vec<&TableDescription>> {
    let mut ordered: Vec<Vec<&TableDescription>> = Vec::new();
    let mut sequences = Vec::new();
    if let Some(place) = tables.iter().position(|table| table.name() == SEQUENCES) {
        sequences.push(vec![tables.remove(place)]);
    }
    while !tables.is_empty() {
        let is_free = |table: &&TableDescription| {
            let mut others = tables.iter().filter(|other| other.name() != table.name());
            !others.any(|other| refers_to(table, other.name()))
        };
        match tables.iter().position(is_free) {
            Some(next) => ordered.push(vec![tables.remove(next)]),
            None => ordered.push(std::mem::take(&mut tables)),
        }
    }
    ordered.append(&mut sequences);
    ordered
}

/// Calls `with` with the rows of a table, some at a time; how many there were.
fn read(
    table: &TableDescription,
    source: &mut Session,
    mut with: impl FnMut(Vec<Vec<Datum>>) -> isles::Result<()>,
) -> isles::Result<u64> {
    let (mut count, mut after) = (0, None::<Vec<Datum>>);
    loop {
        let rows =
            source.transaction(|t| t.scan_dynamic_after(table.name(), after.as_deref(), ROWS_AT_ONCE))?;
        count += rows.len() as u64;
        after = rows.last().map(|row| key_of(table, row));
        let is_last = rows.len() < ROWS_AT_ONCE;
        with(rows)?;
        if is_last {
            return Ok(count);
        }
    }
}

/// Copies the rows of a table.
fn copy_table(table: &TableDescription, source: &mut Session, target: &mut Session) -> isles::Result<u64> {
    read(table, source, |rows| target.transaction(|t| insert(table, t, &rows)))
}

/// Copies the rows of a table that refer to other rows of it: those first to which others refer.
fn copy_tree(table: &TableDescription, source: &mut Session, target: &mut Session) -> isles::Result<u64> {
    let mut rows = Vec::new();
    let count = read(table, source, |more| {
        rows.extend(more);
        Ok(())
    })?;
    let (order, has_circle) = referred_first(&references(table, &rows));
    let at_once = if has_circle { order.len() } else { ROWS_AT_ONCE };
    for places in order.chunks(at_once.max(1)) {
        target
            .transaction(|t| places.iter().try_for_each(|place| insert(table, t, &rows[*place..=*place])))?;
    }
    Ok(count)
}

/// For each row the rows to which it refers, by their places.
fn references(table: &TableDescription, rows: &[Vec<Datum>]) -> Vec<Vec<usize>> {
    let values = |row: &[Datum], names: &[String]| -> String {
        let columns = names.iter().filter_map(|name| table.column(name));
        columns.map(|column| format!("{:?},", row[column])).collect()
    };
    let mut references = vec![Vec::new(); rows.len()];
    for key in table.constraints().foreign_keys.iter().filter(|key| key.table == table.name()) {
        let places: BTreeMap<String, usize> =
            rows.iter().enumerate().map(|(place, row)| (values(row, &key.references), place)).collect();
        for (place, row) in rows.iter().enumerate() {
            references[place].extend(places.get(&values(row, &key.columns)).filter(|other| **other != place));
        }
    }
    references
}

/// The places of rows, each behind those to which it refers, and whether rows refer to each other
/// in a circle, so that there is no such order.
fn referred_first(references: &[Vec<usize>]) -> (Vec<usize>, bool) {
    let (mut order, mut has_circle) = (Vec::with_capacity(references.len()), false);
    let mut states = vec![State::New; references.len()];
    for first in 0..references.len() {
        let mut path = vec![first];
        while let Some(&place) = path.last() {
            match states[place] {
                State::New => {
                    states[place] = State::OnPath;
                    has_circle |= references[place].iter().any(|other| states[*other] == State::OnPath);
                    path.extend(references[place].iter().filter(|other| states[**other] == State::New));
                }
                State::OnPath => {
                    states[place] = State::Ordered;
                    order.push(place);
                    path.pop();
                }
                State::Ordered => drop(path.pop()),
            }
        }
    }
    (order, has_circle)
}

/// How far a row is, when rows are put in order.
#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    OnPath,
    Ordered,
}

/// Copies tables that refer to each other in a circle, in one transaction: their references are
/// checked when it commits.
fn copy_circle(
    tables: &[&TableDescription],
    source: &mut Session,
    target: &mut Session,
) -> isles::Result<Vec<(String, u64)>> {
    let mut copied = Vec::new();
    for table in tables {
        let mut rows = Vec::new();
        read(table, source, |more| {
            rows.extend(more);
            Ok(())
        })?;
        copied.push((*table, rows));
    }
    target.transaction(|t| copied.iter().try_for_each(|(table, rows)| insert(table, t, rows)))?;
    Ok(copied.iter().map(|(table, rows)| (table.name().to_owned(), rows.len() as u64)).collect())
}

/// Inserts rows. The rows of sequences replace those that insertions have made.
fn insert(table: &TableDescription, t: &mut Transaction<'_>, rows: &[Vec<Datum>]) -> isles::Result<()> {
    for row in rows {
        if table.name() == SEQUENCES {
            t.delete_dynamic(SEQUENCES, &key_of(table, row))?;
        }
        t.insert_dynamic(table.name(), row)?;
    }
    Ok(())
}

/// The primary key of a row.
fn key_of(table: &TableDescription, row: &[Datum]) -> Vec<Datum> {
    table.indexes()[0].columns.iter().map(|column| row[*column].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::referred_first;

    #[test]
    fn rows_come_behind_those_to_which_they_refer() {
        let chain: Vec<Vec<usize>> = (1..=999).map(|place| vec![place]).chain([vec![]]).collect();
        assert_eq!(referred_first(&chain), ((0..1_000).rev().collect(), false));
        let (order, has_circle) = referred_first(&[vec![1, 2], vec![2], vec![], vec![0, 1]]);
        assert_eq!((&order[..], has_circle), (&[2, 1, 0, 3][..], false));
        assert!(referred_first(&[vec![1], vec![2], vec![0], vec![]]).1);
        assert!(!referred_first(&[vec![2, 1], vec![2], vec![]]).1, "two ways to one row");
    }
}
