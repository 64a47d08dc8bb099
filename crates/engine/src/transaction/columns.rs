//! The run-time catalog: how tables are described to code that was not compiled for them.
//!
//! A database that does without compiled access to rows ([`storage::Optimisation::CompiledRows`])
//! reads and writes them as an interpreter does (`transaction/interpreted.rs`): each column that a
//! transaction uses is looked up here, by a walk over the table's columns from the first one on, as
//! DBx1000 does in `Catalog::get_field_id`. Descriptions lie in shared memory like those of a
//! system that reads them from its catalog tables; they never change.

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform, Work};

use schema::description::Place;
use schema::{TableDescription, ValueType};

/// Words of one column's description: name, start, end, kind.
const COLUMN_WORDS: usize = 4;

/// How the bytes of a column are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum CopyKind {
    Byte = 1,
    Bytes2 = 2,
    Bytes4 = 4,
    Bytes8 = 8,
    /// Text, and values one after the other.
    Bytes = 0,
}

impl CopyKind {
    /// Returns how a number of this many bytes is copied.
    fn of(bytes: usize) -> CopyKind {
        match bytes {
            1 => CopyKind::Byte,
            2 => CopyKind::Bytes2,
            4 => CopyKind::Bytes4,
            8 => CopyKind::Bytes8,
            _ => CopyKind::Bytes,
        }
    }
}

/// One column as the catalog describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// First byte of the column in the row.
    pub start: usize,
    /// The byte behind the column.
    pub end: usize,
    pub kind: CopyKind,
}

/// The columns of all tables.
pub(crate) struct Columns<P: Platform> {
    region: P::Region,
    /// By table: its first column, and the one behind its last.
    tables: Vec<(usize, usize)>,
}

/// A name, and the column that has it.
type Named<'d> = (&'d str, Described);

/// The columns of the fixed part, without those that are made of others, in order of their places.
fn flatten(table: &TableDescription) -> Vec<Named<'_>> {
    let mut all = Vec::new();
    for (number, column) in table.columns().iter().enumerate() {
        if let Place::Fixed { offset, .. } = table.place(number) {
            flatten_value(&column.name, &column.kind, offset, &mut all);
        }
    }
    if table.null_bytes() > 0 {
        let (start, end) = (table.nulls_at(), table.nulls_at() + table.null_bytes());
        all.push(("null", Described { start, end, kind: CopyKind::Bytes }));
    }
    all.sort_by_key(|(_, column)| column.start);
    all
}

fn flatten_value<'d>(name: &'d str, kind: &'d ValueType, start: usize, out: &mut Vec<Named<'d>>) {
    let copy = match kind {
        ValueType::Group(members) => {
            for ((name, kind), offset) in members.iter().zip(ValueType::offsets(members).unwrap_or_default())
            {
                flatten_value(name, kind, start + offset, out);
            }
            return;
        }
        ValueType::Unsigned(bytes) | ValueType::Float(bytes) => CopyKind::of(*bytes),
        ValueType::Bool => CopyKind::Byte,
        _ => kind.integer_bytes().map_or(CopyKind::Bytes, CopyKind::of),
    };
    out.push((name, Described { start, end: start + kind.bytes().unwrap_or(0), kind: copy }));
}

/// The beginning of a name, as a catalog keeps it next to the column.
fn name_word(name: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_le_bytes(bytes)
}

impl<P: Platform> Columns<P> {
    /// Describes the columns of these tables.
    pub(crate) fn new(c: P::Core, tables: &[TableDescription]) -> Result<Self, OutOfMemory> {
        let mut all = Vec::new();
        let mut ranges = Vec::new();
        for table in tables {
            let first = all.len();
            all.append(&mut flatten(table));
            ranges.push((first, all.len()));
        }
        let region = P::region(c, None, (all.len() * COLUMN_WORDS * 8).max(8), "catalog")?;
        let catalog = Columns { region, tables: ranges };
        for (number, (name, column)) in all.iter().enumerate() {
            let words = [name_word(name), column.start as u64, column.end as u64, column.kind as u64];
            for (place, word) in words.into_iter().enumerate() {
                // Relaxed: no other core knows the catalog yet.
                P::store(c, catalog.word(number, place), word, Ordering::Relaxed);
            }
        }
        Ok(catalog)
    }

    fn word(&self, column: usize, place: usize) -> &P::Word {
        P::word_of(&self.region, (column * COLUMN_WORDS + place) * 8)
    }

    /// The first column of the table that ends behind byte `at` of the row, found by a walk over
    /// all before it.
    pub(crate) fn find(&self, c: P::Core, table: usize, at: usize) -> Option<Described> {
        let (first, end) = self.tables[table];
        for column in first..end {
            P::work(c, Work::KeyCompare, 1);
            // Relaxed, all of them: never written after it was made.
            let column_end = P::load(c, self.word(column, 2), Ordering::Relaxed) as usize;
            if column_end > at {
                let kind = match P::load(c, self.word(column, 3), Ordering::Relaxed) {
                    1 => CopyKind::Byte,
                    2 => CopyKind::Bytes2,
                    4 => CopyKind::Bytes4,
                    8 => CopyKind::Bytes8,
                    _ => CopyKind::Bytes,
                };
                let start = P::load(c, self.word(column, 1), Ordering::Relaxed) as usize;
                return Some(Described { start, end: column_end, kind });
            }
        }
        None
    }

    /// Calls `visit` with each column, or part of one, that lies in these bytes of the row,
    /// each looked up anew.
    pub(crate) fn for_each<E>(
        &self,
        c: P::Core,
        table: usize,
        bytes: Range<usize>,
        visit: &mut dyn FnMut(Described) -> Result<(), E>,
    ) -> Result<(), E> {
        let Range { start, end } = bytes;
        let mut at = start;
        while at < end {
            let Some(column) = self.find(c, table, at).filter(|column| column.start < end) else { break };
            let part = Described { start: column.start.max(start), end: column.end.min(end), ..column };
            // A part of an integer is no integer.
            let whole = (part.start, part.end) == (column.start, column.end);
            visit(Described { kind: if whole { column.kind } else { CopyKind::Bytes }, ..part })?;
            at = column.end;
        }
        Ok(())
    }
}

/// Copies one value the way its type says.
pub(crate) fn copy_value(kind: CopyKind, from: &[u8], to: &mut [u8]) {
    match kind {
        CopyKind::Byte => to[0] = from[0],
        CopyKind::Bytes2 => to[..2].copy_from_slice(&from[..2]),
        CopyKind::Bytes4 => to[..4].copy_from_slice(&from[..4]),
        CopyKind::Bytes8 => to[..8].copy_from_slice(&from[..8]),
        CopyKind::Bytes => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;
    use schema::{ColumnDescription, TableBuilder};

    fn first() -> TableDescription {
        let inner = vec![("a".to_owned(), ValueType::Float(4)), ("b".to_owned(), ValueType::Text(3))];
        let list = ValueType::Array(Box::new(ValueType::Unsigned(8)), 2);
        let builder = TableBuilder::new("first")
            .column(ColumnDescription::new("key", ValueType::Unsigned(2)))
            .column(ColumnDescription::new("group", ValueType::Group(inner)))
            .column(ColumnDescription::new("list", list).nullable());
        builder.key(["key"]).build().expect("a table")
    }

    fn second() -> TableDescription {
        let only = ColumnDescription::new("only", ValueType::Signed(8));
        TableBuilder::new("second").column(only).key(["only"]).build().expect("a table")
    }

    fn columns(
        catalog: &Columns<Hardware>,
        table: usize,
        span: Range<usize>,
    ) -> Vec<(usize, usize, CopyKind)> {
        let mut seen = Vec::new();
        let all: Result<(), ()> = catalog.for_each(Hardware::core(), table, span, &mut |column| {
            seen.push((column.start, column.end, column.kind));
            Ok(())
        });
        assert_eq!(all, Ok(()));
        seen
    }

    #[test]
    fn columns_are_found_by_their_places() {
        let catalog = Columns::<Hardware>::new(Hardware::core(), &[first(), second()]).expect("memory");
        let (key, a) = ((0, 2, CopyKind::Bytes2), (4, 8, CopyKind::Bytes4));
        let (b, list) = ((8, 11, CopyKind::Bytes), (16, 32, CopyKind::Bytes));
        let nulls = (32, 33, CopyKind::Bytes);
        assert_eq!(columns(&catalog, 0, 0..40), [key, a, b, list, nulls]);
        assert_eq!(columns(&catalog, 0, 4..12), [a, b], "a group");
        assert_eq!(columns(&catalog, 0, 24..32), [(24, 32, CopyKind::Bytes)], "an element");
        assert_eq!(columns(&catalog, 0, 12..16), [], "padding");
        assert_eq!(columns(&catalog, 1, 0..8), [(0, 8, CopyKind::Bytes8)]);
    }
}
