//! Tables as a program declares them, before they are made.

use concurrency::{IndexShape, TableShape};
use storage::hash::Spread;
use storage::index::Shape;

use schema::row_keys::with_keys;
use schema::table_limits::{HASH_KEY_BYTES_MAX, ROWS_EXPECTED_MAX};
use schema::{
    HashPlan, IndexKind, KeyColumns, Partitioning, Row, Schema, Table, TableDescription, TableError,
    TableFault, TableOptions, key_words,
};

/// Declared tables, before they are made.
#[derive(Default)]
pub struct SchemaBuilder {
    /// In the order of their numbers.
    pub tables: Vec<Declared>,
    /// Names of tables that go if the directory has them.
    pub dropped: Vec<String>,
}

/// How a declared table can be divided over several instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDivision {
    /// Its name.
    pub name: String,
    /// Its partitions, if it has any.
    pub partitioning: Option<Partitioning>,
    /// True if it is never written after loading, so that each instance can have all of it.
    pub read_only: bool,
}

/// A declared table.
pub struct Declared {
    /// Columns, keys and indexes.
    pub description: TableDescription,
    /// The structures that hold its rows.
    pub shape: TableShape,
    /// How keys are made of a row.
    pub keys: RowKeys,
}

/// Calls back with a row's keys, one slice an index.
pub type KeysOf = fn(&[u8], &[u8], &mut dyn FnMut(&[&[u64]]));

/// How keys are made of rows.
#[derive(Clone, Copy)]
pub enum RowKeys {
    /// By the row type, from a row's fixed part and tail.
    Typed(KeysOf),
    /// By the table's description.
    Described,
}

impl RowKeys {
    /// Keys of rows of type `R`.
    pub fn of<R: Row>() -> Self {
        RowKeys::Typed(|fixed, tail, visit| with_keys(&R::fetch(fixed, tail), visit))
    }
}

impl SchemaBuilder {
    /// No tables.
    pub fn new() -> Self {
        SchemaBuilder::default()
    }

    /// Declares a table that is described at run time; gives its number in the catalog.
    /// [`Table::view`] gives a typed view of it.
    ///
    /// # Errors
    /// Another table has its name, or the options contradict the description.
    pub fn declare(
        &mut self,
        description: TableDescription,
        options: &TableOptions,
    ) -> Result<usize, TableError> {
        self.add(description, RowKeys::Described, options)
    }

    /// Declares a table of rows of type `R`, as [`Schema::table`] does.
    ///
    /// # Errors
    /// The table cannot be as it is declared.
    pub fn declare_rows<R: Row>(
        &mut self,
        name: impl Into<String>,
        options: &TableOptions,
    ) -> Result<Table<R>, TableError> {
        let description = TableDescription::of::<R>(name)?;
        self.add(description, RowKeys::of::<R>(), options).map(Table::new)
    }

    /// Says that a table is not wanted any more: if the directory has a table of this name, the
    /// table is removed with its rows. If not, nothing happens, so that a program can keep the
    /// line. A table that is declared later under the name is a new table.
    pub fn drop_table(&mut self, name: impl Into<String>) {
        self.dropped.push(name.into());
    }

    /// Descriptions of the declared tables, by their numbers.
    pub fn descriptions(&self) -> impl Iterator<Item = &TableDescription> {
        self.tables.iter().map(|declared| &declared.description)
    }

    /// Descriptions of the declared tables and the structures that hold their rows, by their
    /// numbers: for storage managers that make structures of their own.
    pub fn into_tables(self) -> Vec<(TableDescription, TableShape)> {
        self.tables.into_iter().map(|declared| (declared.description, declared.shape)).collect()
    }

    /// How the declared tables can be divided, by their numbers.
    pub fn divisions(&self) -> Vec<TableDivision> {
        let division = |Declared { description, shape, .. }: &Declared| {
            let index = &shape.indexes[0];
            let count = index.partitions.len() as u16;
            let partitioning = index.first.map(|first| Partitioning { first, count });
            TableDivision { name: description.name().to_owned(), partitioning, read_only: shape.read_only }
        };
        self.tables.iter().map(division).collect()
    }

    /// Says that only these partitions will have rows: the others take next to no memory.
    pub fn keep_partitions(&mut self, kept: impl Fn(usize) -> bool) {
        let divided = self.tables.iter_mut().flat_map(|declared| &mut declared.shape.indexes);
        for index in divided.filter(|index| index.first.is_some()) {
            let others = index.partitions.iter_mut().enumerate().filter(|(number, _)| !kept(*number));
            for (_, (shape, _)) in others {
                match shape {
                    Shape::Hash(Spread::Mixed(rows) | Spread::Dense(rows, _)) => *rows = 1,
                    Shape::Tree(_) => {}
                }
            }
        }
    }

    fn add(
        &mut self,
        description: TableDescription,
        keys: RowKeys,
        options: &TableOptions,
    ) -> Result<usize, TableError> {
        let description = match options.constraints.is_empty() {
            true => description,
            false => description.with_constraints(options.constraints.clone())?,
        };
        let fail = |fault| Err(TableError { table: description.name().to_owned(), fault });
        if self.descriptions().any(|other| other.name() == description.name()) {
            return fail(TableFault::DuplicateTable);
        }
        if options.rows > ROWS_EXPECTED_MAX {
            return fail(TableFault::TooManyRows { rows: options.rows });
        }
        let shape = match shape_of(&description, options) {
            Ok(shape) => shape,
            Err(fault) => return fail(fault),
        };
        self.tables.push(Declared { description, shape, keys });
        Ok(self.tables.len() - 1)
    }
}

/// The structures that hold the rows of a table.
fn shape_of(table: &TableDescription, options: &TableOptions) -> Result<TableShape, TableFault> {
    let mut indexes = Vec::with_capacity(table.indexes().len());
    for (number, index) in table.indexes().iter().enumerate() {
        let kind = options.kinds.get(number).copied().unwrap_or(IndexKind::Ordered);
        let words = key_words(index.key_bits);
        let bytes = index.key_bits.div_ceil(8) as usize;
        if bytes > HASH_KEY_BYTES_MAX && kind != IndexKind::Ordered {
            return Err(TableFault::HashKeyTooLong { index: index.name.clone(), bytes });
        }
        let first = options.partitioning.map(|by| by.first);
        let count = options.partitioning.map_or(1, |by| by.count.max(1));
        let rows = options.rows.div_ceil(u64::from(count)).max(1);
        let shape = match kind {
            IndexKind::Ordered => Shape::Tree(words),
            IndexKind::Hash(HashPlan::Mixed) => Shape::Hash(Spread::Mixed(rows)),
            IndexKind::Hash(HashPlan::Dense(dense)) => Shape::Hash(Spread::Dense(rows, dense)),
        };
        indexes.push(IndexShape { words, first, partitions: vec![(shape, None); usize::from(count)] });
    }
    Ok(TableShape {
        row_words: (table.row_bytes() / 8) as u32 + u32::from(table.has_tail()),
        has_tail: table.has_tail(),
        read_only: options.read_only,
        constant: options.constant.words(),
        key_bytes: table.key_bytes(),
        key_tail: table.key_tail_columns(),
        key_in_tail: KeyColumns::of(table).are_in_tail(),
        indexes,
    })
}

impl Schema for SchemaBuilder {
    fn table<R: Row>(&mut self, name: &str, options: TableOptions) -> Table<R> {
        match self.declare_rows(name, &options) {
            Ok(table) => table,
            Err(error) => panic!("{error}"),
        }
    }
}
