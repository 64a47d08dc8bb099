//! The two forms of the rows: narrow ones, and wide ones with another column and two indexes.

use boundary::{Database, Transaction, Verbs};
use platform::Intent;
use schema::{Inspector, Row, Table};
use sim::{VirtualCore, VirtualMachine};
use terms::Abort;

/// Value of the new column in existing rows.
pub(super) const EXTRA: u64 = 7;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(worker, id))]
pub(super) struct Narrow {
    pub worker: u32,
    pub id: u32,
    pub value: u64,
    #[row(tail)]
    pub note: Vec<u8>,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(worker, id), index(by_value(value)), unique_index(by_name(worker, value, id)))]
pub(super) struct Wide {
    pub worker: u32,
    pub id: u32,
    pub extra: u64,
    pub value: u64,
    #[row(tail)]
    pub note: Vec<u8>,
}

/// The contents of a row in either form: worker, number, value and new column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Content {
    pub worker: u32,
    pub id: u32,
    pub value: u64,
    pub extra: u64,
}

pub(super) fn note(value: u64) -> Vec<u8> {
    // Several values in sequence have the same note.
    vec![(value / 4) as u8; value as usize / 4 % 50]
}

/// One of the two forms.
pub(super) trait Form: Row<Key = (u32, u32)> + Clone {
    fn make(content: Content) -> Self;
    fn content(&self) -> Content;
    fn note(&self) -> &[u8];
    /// Writes the columns that differ.
    fn change(
        t: &mut Transaction<'_>,
        row: schema::Handle<Self>,
        table: Table<Self>,
        new: &Self,
    ) -> Result<(), Abort>;
    /// True if the indexes find the row, and do not find it under another value.
    fn is_indexed(&self, t: &mut Transaction<'_>, table: Table<Self>) -> Result<bool, Abort>;
    /// All rows as each index returns them.
    fn by_indexes(database: &Database<VirtualMachine>, c: VirtualCore, table: Table<Self>) -> Vec<Vec<Self>>;
}

impl Form for Narrow {
    fn make(Content { worker, id, value, .. }: Content) -> Self {
        Narrow { worker, id, value, note: note(value) }
    }

    fn content(&self) -> Content {
        Content { worker: self.worker, id: self.id, value: self.value, extra: EXTRA }
    }

    fn note(&self) -> &[u8] {
        &self.note
    }

    fn change(
        t: &mut Transaction<'_>,
        row: schema::Handle<Self>,
        _: Table<Self>,
        new: &Self,
    ) -> Result<(), Abort> {
        match t.row(row)?.note == new.note {
            true => t.put(row, Narrow::VALUE, &new.value),
            false => t.replace(row, new),
        }
    }

    fn is_indexed(&self, _: &mut Transaction<'_>, _: Table<Self>) -> Result<bool, Abort> {
        Ok(true)
    }

    fn by_indexes(_: &Database<VirtualMachine>, _: VirtualCore, _: Table<Self>) -> Vec<Vec<Self>> {
        Vec::new()
    }
}

impl Form for Wide {
    fn make(Content { worker, id, value, extra }: Content) -> Self {
        Wide { worker, id, value, extra, note: note(value) }
    }

    fn content(&self) -> Content {
        Content { worker: self.worker, id: self.id, value: self.value, extra: self.extra }
    }

    fn note(&self) -> &[u8] {
        &self.note
    }

    fn change(
        t: &mut Transaction<'_>,
        row: schema::Handle<Self>,
        _: Table<Self>,
        new: &Self,
    ) -> Result<(), Abort> {
        t.replace(row, new)
    }

    fn is_indexed(&self, t: &mut Transaction<'_>, table: Table<Self>) -> Result<bool, Abort> {
        let (worker, id, value) = (self.worker, self.id, self.value);
        let there = t.find(table.index(Wide::BY_VALUE), &(value, worker, id), Intent::Read)?.is_some();
        let named = t.find(table.index(Wide::BY_NAME), &(worker, value, id), Intent::Read)?.is_some();
        let other = t.find(table.index(Wide::BY_VALUE), &(value ^ 1, worker, id), Intent::Read)?.is_some();
        Ok(there && named && !other)
    }

    fn by_indexes(database: &Database<VirtualMachine>, c: VirtualCore, table: Table<Self>) -> Vec<Vec<Self>> {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let mut inspector = database.inspector(c);
        let (low, high) = ((0, 0, 0), (u64::MAX, u32::MAX, u32::MAX));
        inspector.scan(table.index(Wide::BY_VALUE), &low, &high, &mut |row: &Wide| one.push(row.clone()));
        let (low, high) = ((0, 0, 0), (u32::MAX, u64::MAX, u32::MAX));
        inspector.scan(table.index(Wide::BY_NAME), &low, &high, &mut |row: &Wide| two.push(row.clone()));
        vec![one, two]
    }
}
