//! Tables as a program declares them, before they are made.

use cc::{IndexShape, TableShape};
use storage::hash::Spread;
use storage::index::Shape;

use crate::durable::DeclaredTable;
use crate::key::key_words;
use crate::row::{Column, Row};
use crate::row_keys::key_bytes;
use crate::schema::{HashPlan, IndexKind, Schema, TableOptions};
use crate::table::Table;

/// Declared tables, before they are made.
#[derive(Default)]
pub struct SchemaBuilder {
    pub(crate) tables: Vec<Declared>,
    pub(crate) dropped: Vec<String>,
}

pub(crate) struct Declared {
    pub shape: TableShape,
    pub columns: &'static [Column],
    /// What a directory knows of the table.
    pub durable: DeclaredTable,
}

impl SchemaBuilder {
    /// No tables.
    pub fn new() -> Self {
        SchemaBuilder::default()
    }

    /// Says that a table is not wanted any more: if the directory has a table of this name, the table is removed with its rows.
    /// If not, nothing happens, so that a program can keep the line. A table that is declared later under the name is a new
    /// table.
    pub fn drop_table(&mut self, name: impl Into<String>) {
        self.dropped.push(name.into());
    }
}

impl Schema for SchemaBuilder {
    fn table<R: Row>(&mut self, name: &'static str, options: TableOptions) -> Table<R> {
        assert!(self.tables.iter().all(|table| table.shape.name != name), "two tables are called {name}");
        assert!(
            R::BYTES <= cc::ROW_BYTES_MAX - 8,
            "rows of {name} are longer than {}",
            cc::ROW_BYTES_MAX - 8
        );
        let indexes = R::INDEXES.iter().enumerate().map(|(number, info)| {
            let kind = options.kinds.get(number).copied().unwrap_or(IndexKind::Ordered);
            let words = key_words(info.key_bits);
            assert!(
                words == 1 || kind == IndexKind::Ordered,
                "hash index {} has keys over 8 bytes",
                info.name
            );
            let first = options.partitioning.map(|by| by.first);
            let count = options.partitioning.map_or(1, |by| by.count.max(1));
            let rows = options.rows.div_ceil(u64::from(count)).max(1);
            let shape = match kind {
                IndexKind::Ordered => Shape::Tree(words),
                IndexKind::Hash(HashPlan::Mixed) => Shape::Hash(Spread::Mixed(rows)),
                IndexKind::Hash(HashPlan::Dense(dense)) => Shape::Hash(Spread::Dense(rows, dense)),
            };
            // Errors about the primary key name the table.
            let name = if number == 0 { name } else { info.name };
            IndexShape { name, words, first, partitions: vec![(shape, None); usize::from(count)] }
        });
        let shape = TableShape {
            name,
            row_words: (R::BYTES / 8) as u32 + u32::from(R::HAS_TAIL),
            has_tail: R::HAS_TAIL,
            read_only: options.read_only,
            key_bytes: key_bytes::<R>(),
            indexes: indexes.collect(),
        };
        self.tables.push(Declared { shape, columns: R::COLUMNS, durable: DeclaredTable::of::<R>(name) });
        Table::new(self.tables.len() - 1)
    }
}
