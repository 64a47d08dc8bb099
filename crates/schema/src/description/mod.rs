//! Descriptions of tables as values, for tools and directories. Row types are checked against them.
//!
//! A [`TableBuilder`] makes a description from columns and keys, and [`TableDescription::of`] from
//! a row type. A description is valid once it exists: rows can be read and written by it, in the
//! format of `row_format`. It owns its names.

use crate::constraints::Constraints;
use crate::datum::{Datum, Misfit};
use crate::key_order::{KeyColumn, KeyOrder};
use crate::row::{IndexInfo, Row};
use crate::table_limits::{COLUMNS_MAX, NAME_BYTES_MAX, TableError, TableFault};
use crate::value_type::{ValueType, align_up, row_bytes};

/// The name of the primary key among the indexes.
const PRIMARY: &str = "primary";

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ValueType,
    /// True if the column is nullable.
    pub nullable: bool,
    /// The value of rows written without the column; null if there is no default.
    pub default: Option<Datum>,
    /// True if some rows of the table may have been written without the column.
    pub added: bool,
}

impl ColumnDescription {
    /// Returns a column that is not nullable.
    pub fn new(name: impl Into<String>, kind: ValueType) -> Self {
        ColumnDescription { name: name.into(), kind, nullable: false, default: None, added: false }
    }

    /// Makes the column nullable.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Sets the value of rows written without the column.
    #[must_use]
    pub fn with_default(mut self, default: Datum) -> Self {
        self.default = Some(default);
        self
    }

    /// Returns true if a row need not have a value of its own.
    pub fn is_optional(&self) -> bool {
        self.nullable || self.default.is_some()
    }

    /// Returns the value of a row written without the column.
    pub fn absent_value(&self) -> &Datum {
        self.default.as_ref().unwrap_or(&Datum::Null)
    }

    /// Returns the value of an empty row: null, the default, zeros or an empty text.
    pub fn empty_value(&self) -> Datum {
        match self.absent_value() {
            Datum::Null if !self.nullable => Datum::empty(&self.kind),
            absent => absent.clone(),
        }
    }
}

/// Place of a column in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the fixed part.
    Fixed {
        /// First byte.
        offset: usize,
        /// Number of its bit among the null bits, if it is nullable.
        null: Option<usize>,
    },
    /// In a tail with a directory: its number there.
    Tail(usize),
    /// The whole tail.
    WholeTail,
}

/// Form of the variable-length part of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailForm {
    /// No tail.
    None,
    /// The bytes of the last column.
    Whole,
    /// Columns behind a directory. Columns can be added while rows without them exist.
    Directory,
}

/// An index. The first index of a table is the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// True if the declared columns alone are unique.
    pub unique: bool,
    /// True if the index is unique and nulls conflict like values. Otherwise any number of rows
    /// can lack a value in a column of a unique index.
    pub nulls_not_distinct: bool,
    /// Numbers of its columns, completed with those of the primary key if the index is not unique.
    pub columns: Vec<usize>,
    /// The order of each column.
    pub orders: Vec<KeyOrder>,
    /// Length of its normalized keys, in which a unique index with distinct nulls has the primary
    /// key behind its columns.
    pub key_bits: u32,
}

/// A table: columns, keys, and the layout of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescription {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnDescription>,
    /// Place of each column.
    pub(crate) places: Vec<Place>,
    pub(crate) tail: TailForm,
    /// First byte of the null bits.
    pub(crate) nulls_at: usize,
    pub(crate) row_bytes: usize,
    pub(crate) indexes: Vec<IndexDescription>,
    pub(crate) constraints: Constraints,
}

/// A declared index: columns by name, without the columns of the primary key.
pub(crate) struct DeclaredIndex {
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) nulls_not_distinct: bool,
    pub(crate) columns: Vec<KeyColumn>,
}

impl DeclaredIndex {
    fn new<N: Into<KeyColumn>>(name: impl Into<String>, columns: impl IntoIterator<Item = N>) -> Self {
        let columns = columns.into_iter().map(N::into).collect();
        DeclaredIndex { name: name.into(), unique: false, nulls_not_distinct: false, columns }
    }
}

/// Builds a [`TableDescription`]. Columns of fixed length lie in the fixed part in the order of
/// declaration, each at the next multiple of its alignment, like those of a derived row. All other
/// columns are in the tail.
///
/// ```
/// use schema::{ColumnDescription, TableBuilder, ValueType};
///
/// let people = TableBuilder::new("people")
///     .column(ColumnDescription::new("id", ValueType::Unsigned(8)))
///     .column(ColumnDescription::new("town", ValueType::Text(16)))
///     .column(ColumnDescription::new("age", ValueType::Unsigned(1)).nullable())
///     .column(ColumnDescription::new("name", ValueType::String))
///     .column(ColumnDescription::new("notes", ValueType::String).nullable())
///     .key(["id"])
///     .index("by_town", ["town"])
///     .build()?;
/// assert_eq!((people.row_bytes(), people.column("age")), (32, Some(2)));
/// # Ok::<(), schema::TableError>(())
/// ```
pub struct TableBuilder {
    name: String,
    columns: Vec<ColumnDescription>,
    /// The primary key first.
    indexes: Vec<DeclaredIndex>,
    has_key: bool,
    extensible: bool,
    constraints: Constraints,
}

impl TableBuilder {
    /// Begins the description of a table.
    pub fn new(name: impl Into<String>) -> Self {
        let none: [KeyColumn; 0] = [];
        let key = DeclaredIndex { unique: true, ..DeclaredIndex::new(PRIMARY, none) };
        TableBuilder {
            name: name.into(),
            columns: Vec::new(),
            indexes: vec![key],
            has_key: false,
            extensible: true,
            constraints: Constraints::default(),
        }
    }

    /// Adds a column.
    #[must_use]
    pub fn column(mut self, column: ColumnDescription) -> Self {
        self.columns.push(column);
        self
    }

    /// Sets the columns of the primary key.
    #[must_use]
    pub fn key<N: Into<KeyColumn>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.indexes[0].columns = columns.into_iter().map(N::into).collect();
        self.has_key = true;
        self
    }

    /// Adds an index that is not unique. Columns are given by their names, or as [`KeyColumn`]s
    /// with another order.
    #[must_use]
    pub fn index<N: Into<KeyColumn>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Self {
        self.indexes.push(DeclaredIndex::new(name, columns));
        self
    }

    /// Adds a unique index. Nulls are distinct: rows that lack a value in one of the columns do not
    /// conflict.
    #[must_use]
    pub fn unique_index<N: Into<KeyColumn>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Self {
        self.indexes.push(DeclaredIndex { unique: true, ..DeclaredIndex::new(name, columns) });
        self
    }

    /// Adds a unique index in which nulls conflict like values.
    #[must_use]
    pub fn unique_index_nulls_not_distinct<N: Into<KeyColumn>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Self {
        let index = DeclaredIndex::new(name, columns);
        self.indexes.push(DeclaredIndex { unique: true, nulls_not_distinct: true, ..index });
        self
    }

    /// Makes rows as short as those of a row type: without room for columns that are added later,
    /// and with a tail without a directory if only the last column has a variable length, has the
    /// type `Bytes`, and is not nullable.
    #[must_use]
    pub fn compact(mut self) -> Self {
        self.extensible = false;
        self
    }

    /// Sets the constraints.
    #[must_use]
    pub fn constraints(mut self, constraints: Constraints) -> Self {
        self.constraints = constraints;
        self
    }

    /// Builds the description.
    ///
    /// # Errors
    /// The first fault, and its remedy.
    pub fn build(self) -> Result<TableDescription, TableError> {
        let TableBuilder { name, columns, indexes, has_key, extensible, constraints } = self;
        let fail = |fault| Err(TableError { table: name.clone(), fault });
        if !has_key {
            return fail(TableFault::NoKey);
        }
        if let Err(fault) = check_columns(&name, &columns) {
            return fail(fault);
        }
        let tail = tail_form(&columns, extensible);
        let (places, nulls_at, row_bytes) = lay_out(&columns, tail);
        let mut table = TableDescription {
            name,
            columns,
            places,
            tail,
            nulls_at,
            row_bytes,
            indexes: Vec::new(),
            constraints: Constraints::default(),
        };
        match indexes.iter().try_for_each(|index| table.add_index(index)).and_then(|()| table.check()) {
            Ok(()) => table.with_constraints(constraints),
            Err(fault) => Err(TableError { table: table.name, fault }),
        }
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

/// Checks each column by itself.
pub(crate) fn check_columns(table: &str, columns: &[ColumnDescription]) -> Result<(), TableFault> {
    if let Some(name) =
        std::iter::once(table).chain(columns.iter().map(|column| &*column.name)).find(|name| !is_name(name))
    {
        return Err(TableFault::Name { name: name.to_owned() });
    }
    if columns.len() > COLUMNS_MAX {
        return Err(TableFault::TooManyColumns { columns: columns.len() });
    }
    for (number, column) in columns.iter().enumerate() {
        let name = column.name.clone();
        if columns[..number].iter().any(|other| other.name == name) {
            return Err(TableFault::DuplicateColumn { column: name });
        }
        if !column.kind.is_sound() {
            return Err(TableFault::Type { column: name, kind: column.kind.to_string() });
        }
        if column.added && !column.is_optional() {
            return Err(TableFault::NoDefault { column: name });
        }
        if !column.added && columns[..number].iter().any(|other| other.added) {
            return Err(TableFault::AddedBefore { column: name });
        }
        let Some(default) = &column.default else { continue };
        let fits = match default {
            Datum::Null if column.nullable => Ok(()),
            default => default.append(&column.kind, &mut Vec::new()),
        };
        if let Err(Misfit::Type | Misfit::Range) = fits {
            let (kind, default) = (column.kind.to_string(), default.to_string());
            return Err(TableFault::Default { column: name, kind, default });
        }
    }
    Ok(())
}

/// Returns the shortest form of tail for the columns.
fn tail_form(columns: &[ColumnDescription], extensible: bool) -> TailForm {
    let mut in_tail = columns.iter().filter(|column| is_in_tail(column));
    match (in_tail.next(), in_tail.next()) {
        (None, _) if !extensible => TailForm::None,
        (Some(only), None) if !extensible => {
            let is_last = columns.last().is_some_and(|last| last.name == only.name);
            let is_plain = !only.nullable && !only.added && only.kind == ValueType::Bytes;
            if is_last && is_plain { TailForm::Whole } else { TailForm::Directory }
        }
        _ => TailForm::Directory,
    }
}

fn is_in_tail(column: &ColumnDescription) -> bool {
    column.added || column.kind.is_variable()
}

/// Returns the places of the columns, the first byte of the null bits, and the length of the fixed
/// part.
fn lay_out(columns: &[ColumnDescription], tail: TailForm) -> (Vec<Place>, usize, usize) {
    let (mut places, mut end, mut nulls, mut in_tail) = (Vec::with_capacity(columns.len()), 0, 0, 0);
    for column in columns {
        places.push(match column.kind.bytes() {
            Some(bytes) if !column.added => {
                let offset = align_up(end, column.kind.align());
                end = offset + bytes;
                let null = column.nullable.then_some(nulls);
                nulls += usize::from(column.nullable);
                Place::Fixed { offset, null }
            }
            _ if tail == TailForm::Whole => Place::WholeTail,
            _ => {
                in_tail += 1;
                Place::Tail(in_tail - 1)
            }
        });
    }
    (places, end, row_bytes(end + nulls.div_ceil(8)))
}

impl TableDescription {
    /// Describes the table of a row type.
    ///
    /// # Errors
    /// Rows of the type, or the name, are too long.
    pub fn of<R: Row>(name: impl Into<String>) -> Result<Self, TableError> {
        let mut columns = Vec::with_capacity(R::COLUMNS.len() + 1);
        let mut places = Vec::with_capacity(R::COLUMNS.len() + 1);
        let (mut nulls, mut nulls_at) = (0, 0);
        for column in R::COLUMNS {
            let null = column.nullable.then_some(nulls);
            nulls += usize::from(column.nullable);
            nulls_at = nulls_at.max(column.offset + column.bytes);
            let described = ColumnDescription::new(column.name, (column.kind)());
            columns.push(if column.nullable { described.nullable() } else { described });
            places.push(Place::Fixed { offset: column.offset, null });
        }
        for (number, column) in R::TAIL_COLUMNS.iter().enumerate() {
            let described = ColumnDescription::new(column.name, (column.kind)());
            columns.insert(column.position, if column.nullable { described.nullable() } else { described });
            places.insert(column.position, Place::Tail(number));
        }
        let tail = match (R::HAS_TAIL, R::TAIL_COLUMNS) {
            (false, _) => TailForm::None,
            (true, []) => TailForm::Whole,
            (true, _) => TailForm::Directory,
        };
        if tail == TailForm::Whole {
            columns.push(ColumnDescription::new(R::TAIL_NAME, ValueType::Bytes));
            places.push(Place::WholeTail);
        }
        let position =
            |name: &&str| columns.iter().position(|column: &ColumnDescription| column.name == *name);
        let index = |index: &IndexInfo| IndexDescription {
            name: index.name.to_owned(),
            unique: index.unique,
            nulls_not_distinct: index.nulls_not_distinct,
            columns: index.columns.iter().filter_map(position).collect(),
            orders: (0..index.columns.len()).map(|column| index.order(column)).collect(),
            key_bits: index.key_bits,
        };
        let indexes = R::INDEXES.iter().map(index).collect();
        let table = TableDescription {
            name: name.into(),
            columns,
            places,
            tail,
            nulls_at,
            row_bytes: R::BYTES,
            indexes,
            constraints: Constraints::default(),
        };
        match check_columns(&table.name, &table.columns).and_then(|()| table.check()) {
            Ok(()) => Ok(table),
            Err(fault) => Err(TableError { table: table.name, fault }),
        }
    }

    /// Returns the table with one more column. Existing rows read the column's default.
    ///
    /// # Errors
    /// The column has neither a default nor is it nullable, there is a column of its name, the rows
    /// of the table have no room for more columns ([`TailForm::Directory`]), or there are too many.
    pub fn with_column(&self, mut column: ColumnDescription) -> Result<TableDescription, TableError> {
        let fail = |fault| Err(TableError { table: self.name.clone(), fault });
        if self.tail != TailForm::Directory {
            return fail(TableFault::NotExtensible { column: column.name });
        }
        column.added = true;
        let mut table = self.clone();
        table.columns.push(column);
        let in_tail = self.places.iter().filter(|place| matches!(place, Place::Tail(_))).count();
        table.places.push(Place::Tail(in_tail));
        match check_columns(&table.name, &table.columns) {
            Ok(()) => Ok(table),
            Err(fault) => fail(fault),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub fn columns(&self) -> &[ColumnDescription] {
        &self.columns
    }

    /// Returns the number of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the place of this column.
    pub fn place(&self, column: usize) -> Place {
        self.places[column]
    }

    /// Returns its indexes, the primary key first.
    pub fn indexes(&self) -> &[IndexDescription] {
        &self.indexes
    }

    /// Returns the name of an index for errors: the table's name for the primary key.
    pub fn index_name(&self, index: usize) -> &str {
        match index {
            0 => &self.name,
            _ => self.indexes.get(index).map_or("", |index| &index.name),
        }
    }

    /// Returns the bytes of a row's fixed part, a multiple of 8.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Form of the variable-length part of rows.
    pub fn tail(&self) -> TailForm {
        self.tail
    }

    /// Returns true if rows have a variable-length part.
    pub fn has_tail(&self) -> bool {
        self.tail != TailForm::None
    }

    /// Returns the names of these columns.
    pub fn names(&self, columns: &[usize]) -> String {
        let names: Vec<_> = columns.iter().map(|column| &*self.columns[*column].name).collect();
        names.join(", ")
    }

    pub(crate) fn column_names(&self) -> String {
        self.names(&(0..self.columns.len()).collect::<Vec<_>>())
    }

    /// Returns start and end of these columns in the fixed part.
    pub fn spans(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        columns.iter().filter_map(|column| self.span(*column)).collect()
    }

    /// Returns start and end of a column in the fixed part.
    pub fn span(&self, column: usize) -> Option<(usize, usize)> {
        match self.places[column] {
            Place::Fixed { offset, .. } => Some((offset, offset + self.columns[column].kind.bytes()?)),
            _ => None,
        }
    }

    /// Returns the range of the null bits in the fixed part.
    pub fn nulls_at(&self) -> usize {
        self.nulls_at
    }

    /// Returns the number of bytes of the null bits.
    pub fn null_bytes(&self) -> usize {
        let nullable = |place: &&Place| matches!(place, Place::Fixed { null: Some(_), .. });
        self.places.iter().filter(nullable).count().div_ceil(8)
    }
}

#[cfg(test)]
mod tests;
