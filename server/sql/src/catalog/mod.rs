//! The catalog: tables about tables, made of the schema when they are read.

use isles::Datum;

use crate::bind::OutputColumn;
use crate::context::Context;
use crate::exec::Row;
use crate::schema::{Column, ColumnDefault, oid_of};
use crate::types::SqlType;

mod information;
mod objects;
pub mod roles;
mod tables;
mod texts;

pub use texts::{comment, constraint_text, index_text, view_text};

/// Makes the rows of a table of the catalog.
type MakeRows = fn(&Context) -> Vec<Row>;

/// The definition of a table of the catalog.
pub struct Definition {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its columns: name and name of the type.
    pub columns: &'static [(&'static str, &'static str)],
    /// Its rows.
    pub rows: MakeRows,
}

/// A table of the catalog.
#[derive(Clone, Copy)]
pub struct CatalogTable(&'static Definition);

impl std::fmt::Debug for CatalogTable {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.0.name)
    }
}

/// Returns all tables of the catalog.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    tables::TABLES.iter().chain(objects::TABLES).chain(information::TABLES)
}

impl CatalogTable {
    /// Returns the table of this name; without a schema only those of `pg_catalog` are found.
    pub fn of_name(schema: Option<&str>, name: &str) -> Option<CatalogTable> {
        let schema = schema.unwrap_or("pg_catalog");
        definitions().find(|table| table.schema == schema && table.name == name).map(CatalogTable)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the columns.
    pub fn columns(self) -> Vec<OutputColumn> {
        let oid = oid_of("catalog", self.0.name);
        let column = |(number, (name, kind)): (usize, &(&str, &str))| OutputColumn {
            name: (*name).to_owned(),
            kind: SqlType::of_name(kind).unwrap_or(SqlType::Text),
            origin: Some((oid, number as i16 + 1)),
        };
        self.0.columns.iter().enumerate().map(column).collect()
    }

    /// Returns the rows.
    pub fn rows(self, context: &Context) -> Vec<Row> {
        (self.0.rows)(context)
    }
}

/// The number of the schema `pg_catalog`.
pub const PG_CATALOG: u32 = 11;
/// The number of the schema `public`.
pub const PUBLIC: u32 = 2200;
/// The number of the schema `information_schema`.
pub const INFORMATION_SCHEMA: u32 = 13_000;
/// The number of the first role.
pub const OWNER: u32 = 10;

/// Returns the name of a type in the catalog.
pub fn type_name(kind: &SqlType) -> String {
    let found = crate::types::TYPES.iter().find(|facts| facts.oid == kind.oid());
    found.map_or_else(|| kind.name(), |facts| facts.name.to_owned())
}

/// Returns the sequence from which a column gets its values.
pub fn sequence_of(column: &Column) -> Option<String> {
    match &column.default {
        ColumnDefault::Sequence(name, _) => Some(name.clone()),
        ColumnDefault::Text(text) => {
            let name = text.strip_prefix("nextval('")?.split_once('\'')?.0;
            Some(name.trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// Returns the number of a table, view, index or sequence.
pub fn relation_number(name: &str, context: &Context) -> Option<u32> {
    let schema = &context.schema;
    if let Some(table) = schema.tables.get(name) {
        return Some(table.oid);
    }
    if let Some(view) = schema.views.get(name) {
        return Some(view.oid);
    }
    if let Some(oid) = schema.sequences.get(name) {
        return Some(*oid);
    }
    let indexes = schema.tables.values().flat_map(|table| &table.indexes);
    let index = indexes.into_iter().find(|index| index.name == name).map(|index| index.oid);
    let of_catalog =
        || definitions().find(|table| table.name == name).map(|table| oid_of("catalog", table.name));
    index.or_else(of_catalog)
}

/// Returns the name of a table, view, index or sequence.
pub fn relation_name(oid: u32, context: &Context) -> Option<String> {
    let schema = &context.schema;
    let table = schema.tables.values().find(|table| table.oid == oid).map(|table| table.name.clone());
    let view = || schema.views.values().find(|view| view.oid == oid).map(|view| view.name.clone());
    let sequence = || schema.sequences.iter().find(|(_, own)| **own == oid).map(|(name, _)| name.clone());
    let index = || {
        let mut indexes = schema.tables.values().flat_map(|table| &table.indexes);
        indexes.find(|index| index.oid == oid).map(|index| index.name.clone())
    };
    let catalog = || {
        let table = definitions().find(|table| oid_of("catalog", table.name) == oid)?;
        Some(table.name.to_owned())
    };
    let schema = match oid {
        PUBLIC => Some("public"),
        PG_CATALOG => Some("pg_catalog"),
        INFORMATION_SCHEMA => Some("information_schema"),
        _ => None,
    };
    let schema = schema.map(str::to_owned);
    table.or_else(view).or_else(sequence).or_else(index).or_else(catalog).or(schema)
}

/// Returns true if an object can be named without its schema.
pub fn is_in_search_path(oid: i64, context: &Context) -> bool {
    let oid = u32::try_from(oid).unwrap_or(0);
    let is_information = definitions()
        .any(|table| table.schema == "information_schema" && oid_of("catalog", table.name) == oid);
    !is_information && relation_name(oid, context).is_some()
}

/// Values of rows of the catalog.
fn name(text: &str) -> Datum {
    Datum::Text(text.to_owned())
}

fn oid(number: u32) -> Datum {
    Datum::Signed(number.into())
}

fn number(number: usize) -> Datum {
    Datum::Signed(number as i64)
}

fn yes(truth: bool) -> Datum {
    Datum::Bool(truth)
}
