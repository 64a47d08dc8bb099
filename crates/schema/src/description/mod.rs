//! Descriptions of tables as values: what SQL, tools and directories know of a table, and what a
//! row type is checked against.
//!
//! A description is made of columns and keys by a [`TableBuilder`], or of a row type by
//! [`TableDescription::of`], and is sound from then on: rows can be read and written by it
//! ([`crate::row_format`] says how they look). Names are its own.

use crate::datum::{Datum, Misfit, value_in_words};
use crate::key::KEY_BYTES_MAX;
use crate::row::{IndexInfo, Row};
use crate::table_limits::{
    COLUMNS_MAX, INDEXES_MAX, KeyFault, NAME_BYTES_MAX, ROW_BYTES_MAX, TableError, TableFault,
};
use crate::value_type::{ValueType, align_up};

/// The name of the primary key among the indexes.
const PRIMARY: &str = "primary";

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ValueType,
    /// True if rows may have no value here.
    pub nullable: bool,
    /// The value of rows that were written without the column; without a default, no value.
    pub default: Option<Datum>,
    /// True if rows of the table may have been written without the column.
    pub added: bool,
}

impl ColumnDescription {
    /// A column in which every row has a value.
    pub fn new(name: impl Into<String>, kind: ValueType) -> Self {
        ColumnDescription { name: name.into(), kind, nullable: false, default: None, added: false }
    }

    /// Rows may have no value.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Sets the value of rows that are written without the column.
    #[must_use]
    pub fn with_default(mut self, default: Datum) -> Self {
        self.default = Some(default);
        self
    }

    /// True if a row can do without a value of its own.
    pub fn is_optional(&self) -> bool {
        self.nullable || self.default.is_some()
    }

    /// The value that a row has which was written without the column.
    pub fn absent_value(&self) -> &Datum {
        self.default.as_ref().unwrap_or(&Datum::Null)
    }

    /// The value of a row of which nothing is known: none, the default, zeros or an empty text.
    pub fn empty_value(&self) -> Datum {
        match (self.absent_value(), self.kind.bytes()) {
            (Datum::Null, Some(bytes)) if !self.nullable => {
                Datum::fetch(&self.kind, &vec![0; bytes]).unwrap_or(Datum::Null)
            }
            (Datum::Null, None) if !self.nullable => match self.kind {
                ValueType::String => Datum::Text(String::new()),
                _ => Datum::Bytes(Vec::new()),
            },
            (absent, _) => absent.clone(),
        }
    }
}

/// Where rows have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the fixed part.
    Fixed {
        /// First byte.
        offset: usize,
        /// Number of its bit among the null bits, if it is nullable.
        null: Option<usize>,
    },
    /// In the tail, which has several columns: its number there.
    Tail(usize),
    /// The tail is its value.
    WholeTail,
}

/// The form of the variable-length part of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailForm {
    /// There is none.
    None,
    /// The bytes of the last column.
    Whole,
    /// Columns behind a directory. More columns can be added while rows without them are there.
    Directory,
}

/// One index. The first of a table is the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// True if the declared columns alone are unique.
    pub unique: bool,
    /// Its columns: their numbers; completed with those of the primary key where it is not unique.
    pub columns: Vec<usize>,
    /// Length of its normalized keys.
    pub key_bits: u32,
}

/// A table: columns, keys, and how its rows are laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescription {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnDescription>,
    /// By column.
    pub(crate) places: Vec<Place>,
    pub(crate) tail: TailForm,
    /// Where the null bits begin.
    pub(crate) nulls_at: usize,
    pub(crate) row_bytes: usize,
    pub(crate) indexes: Vec<IndexDescription>,
}

/// An index as it is declared: the columns are named, and the primary key is not added yet.
struct DeclaredIndex {
    name: String,
    unique: bool,
    columns: Vec<String>,
}

/// Makes a [`TableDescription`]. Columns of fixed length lie in the fixed part in the order of
/// their declaration, each at the next multiple of its alignment, as those of a derived row do; all
/// others are in the tail.
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
}

impl TableBuilder {
    /// A table of this name.
    pub fn new(name: impl Into<String>) -> Self {
        let key = DeclaredIndex { name: PRIMARY.to_owned(), unique: true, columns: Vec::new() };
        TableBuilder {
            name: name.into(),
            columns: Vec::new(),
            indexes: vec![key],
            has_key: false,
            extensible: true,
        }
    }

    /// One more column.
    #[must_use]
    pub fn column(mut self, column: ColumnDescription) -> Self {
        self.columns.push(column);
        self
    }

    /// The columns of the primary key.
    #[must_use]
    pub fn key<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.indexes[0].columns = columns.into_iter().map(N::into).collect();
        self.has_key = true;
        self
    }

    /// One more index, which is not unique.
    #[must_use]
    pub fn index<N: Into<String>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Self {
        let columns = columns.into_iter().map(N::into).collect();
        self.indexes.push(DeclaredIndex { name: name.into(), unique: false, columns });
        self
    }

    /// One more unique index.
    #[must_use]
    pub fn unique_index<N: Into<String>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Self {
        let columns = columns.into_iter().map(N::into).collect();
        self.indexes.push(DeclaredIndex { name: name.into(), unique: true, columns });
        self
    }

    /// Rows as short as those of a row type: without a word for columns that are added while the
    /// table is in use, and with a tail that is a column's bytes if the last column alone has no
    /// fixed length, is of bytes, and is not nullable.
    #[must_use]
    pub fn compact(mut self) -> Self {
        self.extensible = false;
        self
    }

    /// The description.
    ///
    /// # Errors
    /// The first thing that is wrong, and what to do about it.
    pub fn build(self) -> Result<TableDescription, TableError> {
        let TableBuilder { name, columns, indexes, has_key, extensible } = self;
        let fail = |fault| Err(TableError { table: name.clone(), fault });
        if !has_key {
            return fail(TableFault::NoKey);
        }
        if let Err(fault) = check_columns(&name, &columns) {
            return fail(fault);
        }
        let tail = tail_form(&columns, extensible);
        let (places, nulls_at, row_bytes) = lay_out(&columns, tail);
        let mut table =
            TableDescription { name, columns, places, tail, nulls_at, row_bytes, indexes: Vec::new() };
        match indexes.iter().try_for_each(|index| table.add_index(index)).and_then(|()| table.check()) {
            Ok(()) => Ok(table),
            Err(fault) => Err(TableError { table: table.name, fault }),
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

/// Checks each column by itself.
fn check_columns(table: &str, columns: &[ColumnDescription]) -> Result<(), TableFault> {
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

/// The least tail that has room for the columns.
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

/// Where columns lie, where null bits begin, and how long the fixed part is.
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
    (places, end, align_up(end + nulls.div_ceil(8), 8))
}

impl TableDescription {
    /// The table of this row type.
    ///
    /// # Errors
    /// Rows of the type are too long, or the name is.
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
            let kind = if column.is_text { ValueType::String } else { ValueType::Bytes };
            let described = ColumnDescription::new(column.name, kind);
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
            columns: index.columns.iter().filter_map(position).collect(),
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
        };
        match check_columns(&table.name, &table.columns).and_then(|()| table.check()) {
            Ok(()) => Ok(table),
            Err(fault) => Err(TableError { table: table.name, fault }),
        }
    }

    /// Looks up the columns of an index and completes its key.
    fn add_index(&mut self, declared: &DeclaredIndex) -> Result<(), TableFault> {
        let fault = |column: &str, fault| {
            Err(TableFault::Key { index: declared.name.clone(), column: column.to_owned(), fault })
        };
        let mut columns = Vec::with_capacity(declared.columns.len());
        for name in &declared.columns {
            let Some(number) = self.column(name) else {
                return fault(name, KeyFault::Unknown { known: self.column_names() });
            };
            let column = &self.columns[number];
            match self.places[number] {
                _ if columns.contains(&number) => return fault(name, KeyFault::Twice),
                _ if column.kind.is_variable() => return fault(name, KeyFault::Variable),
                _ if column.added => return fault(name, KeyFault::Added),
                _ if column.nullable => return fault(name, KeyFault::Nullable),
                _ if !column.kind.is_key() => {
                    return fault(name, KeyFault::Type { kind: column.kind.to_string() });
                }
                _ => columns.push(number),
            }
        }
        if columns.is_empty() {
            return Err(TableFault::EmptyKey { index: declared.name.clone() });
        }
        if let Some(primary) = self.indexes.first().filter(|_| !declared.unique) {
            let missing: Vec<_> =
                primary.columns.iter().copied().filter(|column| !columns.contains(column)).collect();
            columns.extend(missing);
        }
        let key_bits = self.key_bits(&columns);
        self.indexes.push(IndexDescription {
            name: declared.name.clone(),
            unique: declared.unique,
            columns,
            key_bits,
        });
        Ok(())
    }

    /// Length of the normalized key that these columns make.
    pub fn key_bits(&self, columns: &[usize]) -> u32 {
        columns.iter().map(|column| self.columns[*column].kind.bytes().unwrap_or(0) as u32 * 8).sum()
    }

    /// Checks that the parts fit together.
    fn check(&self) -> Result<(), TableFault> {
        if self.row_bytes > ROW_BYTES_MAX {
            return Err(TableFault::RowTooLong { bytes: self.row_bytes });
        }
        if self.indexes.len() > INDEXES_MAX {
            return Err(TableFault::TooManyIndexes { indexes: self.indexes.len() });
        }
        for (number, index) in self.indexes.iter().enumerate() {
            let name = &index.name;
            if !is_name(name) {
                return Err(TableFault::Name { name: name.clone() });
            }
            if self.indexes.iter().take(number).skip(1).any(|other| other.name == *name) {
                return Err(TableFault::DuplicateIndex { index: name.clone() });
            }
            let bytes = index.key_bits.div_ceil(8) as usize;
            if bytes > KEY_BYTES_MAX {
                return Err(TableFault::KeyTooLong { index: name.clone(), bytes });
            }
            if bytes == 0 {
                return Err(TableFault::EmptyKey { index: name.clone() });
            }
        }
        Ok(())
    }

    /// The table with one more column, which rows of now are read with as if they had been written
    /// with the column's default.
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

    /// The number of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Where rows have this column.
    pub fn place(&self, column: usize) -> Place {
        self.places[column]
    }

    /// Its indexes, the primary key first.
    pub fn indexes(&self) -> &[IndexDescription] {
        &self.indexes
    }

    /// The name of an index in errors: that of the primary key is the table's.
    pub fn index_name(&self, index: usize) -> &str {
        match index {
            0 => &self.name,
            _ => self.indexes.get(index).map_or("", |index| &index.name),
        }
    }

    /// Bytes of a row's fixed part, a multiple of 8.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The form of the variable-length part of rows.
    pub fn tail(&self) -> TailForm {
        self.tail
    }

    /// True if rows have a part of variable length.
    pub fn has_tail(&self) -> bool {
        self.tail != TailForm::None
    }

    /// The values of these columns, which lie one after the other, in words.
    pub fn in_words(&self, columns: &[usize], mut values: &[u8]) -> String {
        let value = |column: &usize| {
            let column = &self.columns[*column];
            let bytes = column.kind.bytes().unwrap_or(0);
            let (value, others) = values.split_at(bytes.min(values.len()));
            values = others;
            format!("{}={}", column.name, value_in_words(&column.kind, value))
        };
        columns.iter().map(value).collect::<Vec<_>>().join(" ")
    }

    /// The names of these columns.
    pub fn names(&self, columns: &[usize]) -> String {
        let names: Vec<_> = columns.iter().map(|column| &*self.columns[*column].name).collect();
        names.join(", ")
    }

    fn column_names(&self) -> String {
        self.names(&(0..self.columns.len()).collect::<Vec<_>>())
    }

    /// Where these columns lie in the fixed part: start and end.
    pub fn spans(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        columns.iter().filter_map(|column| self.span(*column)).collect()
    }

    /// Where a column lies in the fixed part.
    pub fn span(&self, column: usize) -> Option<(usize, usize)> {
        match self.places[column] {
            Place::Fixed { offset, .. } => Some((offset, offset + self.columns[column].kind.bytes()?)),
            _ => None,
        }
    }

    /// Bytes of the fixed part that say which columns have no value.
    pub fn nulls_at(&self) -> usize {
        self.nulls_at
    }

    /// Bytes of the null bits.
    pub fn null_bytes(&self) -> usize {
        let nullable = |place: &&Place| matches!(place, Place::Fixed { null: Some(_), .. });
        self.places.iter().filter(nullable).count().div_ceil(8)
    }

    /// Bytes of a row that belong to keys: start and end of each column.
    pub fn key_spans(&self) -> Vec<(usize, usize)> {
        let is_key = |column: &usize| self.indexes.iter().any(|index| index.columns.contains(column));
        (0..self.columns.len()).filter(is_key).filter_map(|column| self.span(column)).collect()
    }
}

#[cfg(test)]
mod tests;
