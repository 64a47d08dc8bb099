//! The verbs over the model, with an undo log.

use boundary::{Direction, Verbs, Visitor};
use platform::{Intent, Work};
use schema::{ColumnSet, Field, Handle, Index, Key, KeyBuffer, Row, RowPart, Table, Value};
use terms::Abort;

use super::{Model, Stored, partition};

/// A row that was found.
#[derive(Clone, Copy)]
struct Access {
    table: usize,
    key: KeyBuffer,
    intent: Intent,
}

/// One transaction.
pub struct Transaction<'a> {
    pub model: &'a mut Model,
    /// The partition that the current action is routed to.
    pub partition: u64,
    read_only: bool,
    accesses: Vec<Access>,
    undo: Vec<(usize, KeyBuffer, Option<Stored>)>,
}

impl<'a> Transaction<'a> {
    pub fn new(model: &'a mut Model, read_only: bool) -> Self {
        Transaction { model, partition: 0, read_only, accesses: Vec::new(), undo: Vec::new() }
    }

    /// Restores the rows as they were before.
    pub fn undo(&mut self) {
        for (table, key, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.model.relations[table].set(key, before);
        }
    }

    /// Tables and primary keys of the rows that were found to be written, in order.
    pub fn found_to_write(&self) -> impl Iterator<Item = (usize, KeyBuffer)> {
        let written = self.accesses.iter().filter(|access| access.intent == Intent::Write);
        written.map(|access| (access.table, access.key))
    }

    fn check_place(&self, table: usize, key: &KeyBuffer) {
        let options = &self.model.relations[table].options;
        assert!(
            options.read_only || options.partitioning.is_none() || partition(key) == self.partition,
            "an action leaves its partition"
        );
    }

    fn handle<R>(&mut self, table: usize, key: KeyBuffer, intent: Intent) -> Handle<R> {
        self.accesses.push(Access { table, key, intent });
        Handle::new(self.accesses.len() as u32 - 1)
    }

    fn access<R>(&self, row: Handle<R>) -> Access {
        self.accesses[row.access() as usize]
    }

    fn stored<R: Row>(&self, row: Handle<R>) -> &Stored {
        let access = self.access(row);
        self.model.relations[access.table].rows.get(&access.key).expect("the row is still there")
    }

    fn set(&mut self, table: usize, key: KeyBuffer, row: Option<Stored>) {
        assert!(!self.read_only, "a transaction that only reads writes");
        assert!(!self.model.relations[table].options.read_only, "a table that is only read is written");
        let before = self.model.relations[table].set(key, row);
        self.undo.push((table, key, before));
    }

    fn writable<R>(&self, row: Handle<R>) -> Access {
        let access = self.access(row);
        assert_eq!(access.intent, Intent::Write, "found with the intent to read");
        access
    }
}

impl<'m> Verbs for Transaction<'m> {
    type InScan<'x> = Transaction<'m>;

    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        let (table, key) = (index.table().number(), KeyBuffer::of(key));
        self.check_place(table, &key);
        let found = self.model.relations[table].find(index.number(), &key);
        Ok(found.map(|primary| self.handle(table, primary, intent)))
    }

    fn find_constant<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        columns: ColumnSet<R>,
    ) -> Result<Option<RowPart<R>>, Abort> {
        Ok(self.find(index, key, Intent::Read)?.map(|row| RowPart::new(row, columns)))
    }

    fn find_unvalidated<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.find(index, key, Intent::Read)
    }

    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        for key in keys {
            let row = self.find(index, key, intent)?;
            found.extend([row]);
        }
        Ok(())
    }

    fn scan<'v, R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        low: &K,
        high: &K,
        direction: Direction,
        intent: Intent,
        visit: Visitor<'v, Self, R>,
    ) -> Result<(), Abort>
    where
        Self: 'v,
    {
        let table = index.table().number();
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        self.check_place(table, &low);
        self.check_place(table, &high);
        let mut keys = self.model.relations[table].range(index.number(), &low, &high);
        if direction == Direction::Reverse {
            keys.reverse();
        }
        for key in keys {
            let row = self.handle(table, key, intent);
            if visit(self, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, _intent: Intent) {
        assert!(field.offset() + V::BYTES <= R::BYTES);
        self.stored(row);
    }

    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort> {
        Ok(V::fetch(&self.stored(row).fixed[field.offset()..]))
    }

    fn get_part<R: Row, V: Value>(&mut self, part: RowPart<R>, field: Field<R, V>) -> Result<V, Abort> {
        self.get(part.row_for(field).expect("a column that the row was looked up for"), field)
    }

    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort> {
        let access = self.writable(row);
        let mut stored = self.stored(row).clone();
        value.store(&mut stored.fixed[field.offset()..]);
        assert_eq!(Stored::of(&stored.row::<R>()).keys, stored.keys, "a key is changed in place");
        self.set(access.table, access.key, Some(stored));
        Ok(())
    }

    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort> {
        Ok(self.stored(row).row())
    }

    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort> {
        let access = self.writable(row);
        let stored = Stored::of(value);
        self.set(access.table, access.key, None);
        self.set(access.table, stored.keys[0], Some(stored));
        Ok(())
    }

    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        let stored = Stored::of(value);
        self.check_place(table.number(), &stored.keys[0]);
        if let Some(index) = self.model.relations[table.number()].duplicate(&stored) {
            return Err(Abort::duplicate(table.number(), index));
        }
        self.set(table.number(), stored.keys[0], Some(stored));
        Ok(())
    }

    fn insert_unindexed<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.check_place(table.number(), &Stored::of(value).keys[0]);
        Ok(())
    }

    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort> {
        let access = self.writable(row);
        self.set(access.table, access.key, None);
        Ok(())
    }

    fn work(&mut self, _work: Work, _units: u32) {}
}
