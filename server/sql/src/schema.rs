//! Tables as SQL sees them: made of the descriptions of the engine's tables, and of texts beside
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use isles::{Datum, Expression, ForeignKey, TableDescription};

use crate::error::{Result, SqlError, state};
use crate::types::SqlType;

/// Column of tables without a primary key: the number of the row.
pub const HIDDEN_KEY: &str = "isles row";
/// Table of the engine with the texts that descriptions have no place for.
pub const TEXTS: &str = "isles_sql";
/// Table of the engine with the sequences.
pub const SEQUENCES: &str = "isles_sequences";
/// The first number of objects that users make.
pub const FIRST_OID: u32 = 16_384;

/// Value of a column that a row is inserted without.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnDefault {
    /// Null.
    None,
    /// A constant.
    Value(Datum),
    /// The next number of a sequence; `true`: GENERATED ALWAYS.
    Sequence(String, bool),
    /// An expression of SQL.
    Text(String),
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// True if it has no nulls.
    pub not_null: bool,
    /// Its value in rows that are inserted without it.
    pub default: ColumnDefault,
    /// The expression that makes its value whenever a row is written.
    pub generated: Option<Expression>,
}

/// An index; the first one of a table is its primary key.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its number.
    pub oid: u32,
    /// Its name in SQL.
    pub name: String,
    /// True if its own columns are unique.
    pub unique: bool,
    /// Its own columns.
    pub columns: Vec<usize>,
    /// True if it belongs to a constraint.
    pub is_constraint: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its number.
    pub oid: u32,
    /// Its name in SQL.
    pub name: String,
    /// Its name in the engine.
    pub engine: String,
    /// Its columns, without that of a hidden key.
    pub columns: Vec<Column>,
    /// True if the table has no primary key: the engine's table has a last column for one.
    pub hidden_key: bool,
    /// Its indexes, by their numbers in the engine.
    pub indexes: Vec<Index>,
    /// Its description in the engine.
    pub description: TableDescription,
}

impl Table {
    /// Returns the place of a column.
    pub fn column(&self, name: &str) -> Result<usize> {
        let missing = || {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(state::NO_COLUMN, message)
        };
        self.columns.iter().position(|column| column.name == name).ok_or_else(missing)
    }

    /// Returns the number of columns of the engine's table.
    pub fn width(&self) -> usize {
        self.description.columns().len()
    }

    /// Returns the values of the primary key of a row of the engine.
    pub fn key(&self, row: &[Datum]) -> Vec<Datum> {
        self.description.indexes()[0].columns.iter().map(|column| row[*column].clone()).collect()
    }

    /// Returns true if statements that were bound to this table mean the same with the other one.
    pub fn is_like(&self, other: &Table) -> bool {
        let kinds =
            |table: &Table| table.columns.iter().map(|column| column.kind.clone()).collect::<Vec<_>>();
        self.description == other.description && kinds(self) == kinds(other)
    }

    /// Returns the foreign keys.
    pub fn foreign_keys(&self) -> &[ForeignKey] {
        &self.description.constraints().foreign_keys
    }
}

/// A view.
#[derive(Clone, Debug)]
pub struct View {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its query.
    pub query: String,
    /// Names of its columns, if they are not those of the query.
    pub columns: Vec<String>,
}

/// A text beside the descriptions.
#[derive(Clone, Debug, PartialEq)]
pub struct SideText {
    /// Its number.
    pub id: i64,
    /// Its kind: default, view, comment, sequence.
    pub kind: String,
    /// The object that it belongs to.
    pub object: String,
    /// The part of the object: a column.
    pub part: String,
    /// The text.
    pub body: String,
}

/// A sequence: its body has its options, and a second line with its name in the engine, which is
/// another one after each CREATE and RESTART, because the engine gives no number twice.
impl SideText {
    /// Returns the name in the engine of a sequence.
    pub fn engine_sequence(&self) -> &str {
        self.body.split_once('\n').map_or(&self.object, |(_, engine)| engine)
    }
}

/// All tables at one moment.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Number of changes so far.
    pub version: u64,
    /// Tables by their names.
    pub tables: BTreeMap<String, Arc<Table>>,
    /// Views by their names.
    pub views: BTreeMap<String, Arc<View>>,
    /// Sequences that users made, by their names.
    pub sequences: BTreeMap<String, u32>,
    /// Roles, and what they may do.
    pub roles: crate::roles::Roles,
    /// Texts beside the descriptions.
    pub texts: Vec<SideText>,
}

/// Returns a number for an object, which depends on its name only.
pub fn oid_of(kind: &str, name: &str) -> u32 {
    let bytes = kind.bytes().chain([0]).chain(name.bytes());
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    FIRST_OID + (hash % 0x3fff_0000) as u32
}

/// Returns the name in SQL of a table of the engine: a table that was made anew has a number behind
/// its name.
pub fn sql_name(engine: &str) -> &str {
    engine.split_once('#').map_or(engine, |(name, _)| name)
}

impl Schema {
    /// Makes tables of those of the engine and the texts beside them.
    pub fn of(tables: &[TableDescription], texts: Vec<SideText>, version: u64) -> Schema {
        let roles = crate::roles::Roles::read(&texts);
        let mut schema = Schema { version, texts, roles, ..Schema::default() };
        for description in tables {
            let name = description.name();
            if name != TEXTS && name != SEQUENCES && !name.starts_with("isles_tables") {
                let table = schema.table_of(description);
                schema.tables.entry(table.name.clone()).or_insert(Arc::new(table));
            }
        }
        for text in &schema.texts {
            let name = text.object.clone();
            let oid = oid_of(&text.kind, &name);
            match text.kind.as_str() {
                "view" => {
                    let columns = text.part.split('\n').filter(|part| !part.is_empty());
                    let columns = columns.map(str::to_owned).collect();
                    let view = View { oid, name: name.clone(), query: text.body.clone(), columns };
                    schema.views.insert(name, Arc::new(view));
                }
                "sequence" => _ = schema.sequences.insert(name, oid),
                _ => {}
            }
        }
        schema
    }

    /// Returns the text of a sequence.
    pub fn sequence(&self, name: &str) -> Option<&SideText> {
        self.texts.iter().find(|text| text.kind == "sequence" && text.object == name)
    }

    /// Returns a text beside the description of an object.
    pub fn text(&self, kind: &str, object: &str, part: &str) -> Option<&str> {
        let is_it = |text: &&SideText| text.kind == kind && text.object == object && text.part == part;
        self.texts.iter().find(is_it).map(|text| text.body.as_str())
    }

    fn table_of(&self, description: &TableDescription) -> Table {
        let name = sql_name(description.name()).to_owned();
        let hidden_key = description.columns().last().is_some_and(|column| column.name == HIDDEN_KEY);
        let constraints = description.constraints();
        let visible = description.columns().len() - usize::from(hidden_key);
        let column = |place: usize| {
            let column = &description.columns()[place];
            let named = |(name, _): &&(String, _)| *name == column.name;
            let identity = self.text("identity", &name, &column.name).and_then(|body| body.split_once(' '));
            let default = if let Some((mode, sequence)) = identity {
                ColumnDefault::Sequence(sequence.to_owned(), mode == "always")
            } else if let Some(text) = self.text("default", &name, &column.name) {
                ColumnDefault::Text(text.to_owned())
            } else {
                let value = constraints.defaults.iter().find(|(name, _)| *name == column.name);
                value.map_or(ColumnDefault::None, |(_, value)| ColumnDefault::Value(value.clone()))
            };
            let not_null = !column.nullable || constraints.not_null.iter().any(|(_, of)| *of == column.name);
            let kind = SqlType::of_value(&column.kind).unwrap_or(SqlType::Text);
            let kind = match self.text("type", &name, &column.name) {
                Some(other) => SqlType::of_name(other).unwrap_or(kind),
                None => kind,
            };
            let generated = constraints.generated.iter().find(named).map(|(_, made)| made.clone());
            Column { name: column.name.clone(), kind, not_null, default, generated }
        };
        let columns = (0..visible).map(column).collect();
        let indexes = description.indexes().iter().enumerate().map(|(number, index)| {
            let own = self.own_columns(description, number);
            let index_name = match number {
                0 => self.text("key", &name, "").map_or_else(|| format!("{name}_pkey"), str::to_owned),
                _ => index.name.clone(),
            };
            let is_constraint = number == 0 || self.text("unique", &name, &index_name).is_some();
            let oid = oid_of("index", &format!("{name}.{index_name}"));
            Index { oid, name: index_name, unique: index.unique, columns: own, is_constraint }
        });
        let indexes = indexes.collect();
        let oid = oid_of("table", &name);
        let (engine, description) = (description.name().to_owned(), description.clone());
        Table { oid, name, engine, columns, hidden_key, indexes, description }
    }

    /// Returns the columns of an index without those of the primary key that complete it.
    fn own_columns(&self, description: &TableDescription, number: usize) -> Vec<usize> {
        let index = &description.indexes()[number];
        if number == 0 || index.unique {
            return index.columns.clone();
        }
        let declared = self.text("index", sql_name(description.name()), &index.name);
        let count = declared.and_then(|count| count.parse().ok());
        let completing = || {
            let key = &description.indexes()[0].columns;
            let is_key = |column: &&usize| key.contains(column);
            index.columns.len() - index.columns.iter().rev().take_while(is_key).count()
        };
        let count = count.unwrap_or_else(|| completing().max(1));
        index.columns[..count.min(index.columns.len())].to_vec()
    }

    /// Returns a table.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        let missing = || SqlError::new(state::NO_TABLE, format!("relation \"{name}\" does not exist"));
        self.tables.get(name).ok_or_else(missing)
    }
}
