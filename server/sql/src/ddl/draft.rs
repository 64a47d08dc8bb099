//! A table that is to be made or changed: parts by name, and the texts beside the description.

use ::schema::KeyColumn;
use isles::{
    ColumnDescription, Constraints, Datum, Expression, ForeignKey, TableBuilder, TableDescription, ValueType,
};

use crate::error::{Result, SqlError, state};
use crate::schema::{ColumnDefault, HIDDEN_KEY, Schema, SideText, Table};
use crate::types::SqlType;

/// A column.
#[derive(Clone, Debug)]
pub struct DraftColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// True if it has no nulls.
    pub not_null: bool,
    /// True if rows may be there that have a null: the engine keeps a constraint then.
    pub had_nulls: bool,
    /// Its value in rows that are inserted without it.
    pub default: ColumnDefault,
    /// The expression that makes its value.
    pub generated: Option<Expression>,
    /// The value of rows that are there already.
    pub fill: Option<Datum>,
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftKey {
    /// Its name.
    pub name: String,
    /// True if larger values come first.
    pub descending: bool,
    /// True if nulls come first.
    pub nulls_first: bool,
}

/// An index.
#[derive(Clone, Debug)]
pub struct DraftIndex {
    /// Its name.
    pub name: String,
    /// True if its columns are unique.
    pub unique: bool,
    /// True if nulls conflict like values.
    pub nulls_not_distinct: bool,
    /// Its columns.
    pub columns: Vec<DraftKey>,
    /// True if it belongs to a constraint.
    pub is_constraint: bool,
}

/// A table that is to be made or changed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its name in SQL.
    pub name: String,
    /// Its columns.
    pub columns: Vec<DraftColumn>,
    /// The name of the primary key, if it is not made of the table's, and its columns.
    pub key: Option<(String, Vec<String>)>,
    /// Its other indexes.
    pub indexes: Vec<DraftIndex>,
    /// Its checks.
    pub checks: Vec<(String, Expression)>,
    /// Its foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
}

impl DraftKey {
    /// Returns an ascending column.
    pub fn ascending(name: &str) -> Self {
        DraftKey { name: name.to_owned(), descending: false, nulls_first: false }
    }
}

impl Draft {
    /// Returns a table without columns.
    pub fn new(name: &str) -> Self {
        Draft {
            name: name.to_owned(),
            columns: Vec::new(),
            key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
        }
    }

    /// Returns a table as it is.
    pub fn of(table: &Table) -> Self {
        let constraints = table.description.constraints();
        let columns =
            table.columns.iter().zip(table.description.columns()).map(|(column, own)| DraftColumn {
                name: column.name.clone(),
                kind: column.kind.clone(),
                not_null: column.not_null,
                had_nulls: own.nullable,
                default: column.default.clone(),
                generated: column.generated.clone(),
                fill: None,
            });
        let name_of = |place: &usize| table.columns[*place].name.clone();
        let indexes = table.indexes.iter().enumerate().skip(1).map(|(number, index)| {
            let description = &table.description.indexes()[number];
            let columns = index.columns.iter().zip(&description.orders).map(|(place, order)| DraftKey {
                name: name_of(place),
                descending: order.descending,
                nulls_first: order.nulls_first,
            });
            DraftIndex {
                name: index.name.clone(),
                unique: index.unique,
                nulls_not_distinct: description.nulls_not_distinct,
                columns: columns.collect(),
                is_constraint: index.is_constraint,
            }
        });
        let key = (!table.hidden_key).then(|| {
            let index = &table.indexes[0];
            (index.name.clone(), index.columns.iter().map(name_of).collect())
        });
        let checks = constraints.checks.iter().map(|check| (check.name.clone(), check.condition.clone()));
        Draft {
            name: table.name.clone(),
            columns: columns.collect(),
            key,
            indexes: indexes.collect(),
            checks: checks.collect(),
            foreign_keys: constraints.foreign_keys.clone(),
        }
    }

    /// Returns a column.
    pub fn column(&mut self, name: &str) -> Result<&mut DraftColumn> {
        let missing = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
        let column = self.columns.iter_mut().find(|column| column.name == name);
        column.ok_or_else(|| SqlError::new(state::NO_COLUMN, missing))
    }

    /// Fails if a row has a null in a column of the primary key.
    pub fn check_key(&self, row: &[Datum]) -> Result<()> {
        let in_key = |name: &String| self.key.iter().any(|(_, key)| key.contains(name));
        let mut columns = self.columns.iter().zip(row);
        match columns.find(|(column, value)| **value == Datum::Null && in_key(&column.name)) {
            None => Ok(()),
            Some((column, _)) => {
                let message =
                    format!("column \"{}\" of relation \"{}\" contains null values", column.name, self.name);
                Err(SqlError::new(state::NOT_NULL, message))
            }
        }
    }

    /// Adds an index for a foreign key whose columns no index begins with.
    pub fn index_foreign_keys(&mut self) {
        for number in 0..self.foreign_keys.len() {
            let columns = self.foreign_keys[number].columns.clone();
            let begins = |names: Vec<&String>| {
                names.len() >= columns.len() && names.iter().zip(&columns).all(|(a, b)| **a == *b)
            };
            let has =
                self.indexes.iter().any(|index| begins(index.columns.iter().map(|key| &key.name).collect()))
                    || self.key.as_ref().is_some_and(|(_, key)| begins(key.iter().collect()));
            if !has {
                let name = self.free_name(&format!("{}_{}_idx", self.name, columns.join("_")));
                let columns = columns.iter().map(|name| DraftKey::ascending(name)).collect();
                self.indexes.push(DraftIndex {
                    name,
                    unique: false,
                    nulls_not_distinct: false,
                    columns,
                    is_constraint: false,
                });
            }
        }
    }

    /// Returns a name that no index or constraint of the table has.
    pub fn free_name(&self, wish: &str) -> String {
        let is_taken = |name: &str| {
            self.indexes.iter().any(|index| index.name == name)
                || self.checks.iter().any(|(own, _)| own == name)
                || self.foreign_keys.iter().any(|key| key.name == name)
                || self.key.as_ref().is_some_and(|(own, _)| own == name)
        };
        let numbered = (1..).map(|number| format!("{wish}{number}"));
        std::iter::once(wish.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Returns the description of the engine's table of this name.
    pub fn describe(&self, engine: &str) -> Result<TableDescription> {
        let mut builder = TableBuilder::new(engine);
        let mut constraints = Constraints::new();
        for column in &self.columns {
            let kind = column.kind.to_value()?;
            let mut described = ColumnDescription::new(column.name.as_str(), kind);
            let is_key = self.key.as_ref().is_some_and(|(_, key)| key.contains(&column.name));
            if !is_key && (!column.not_null || column.had_nulls) {
                described = described.nullable();
                if column.not_null {
                    constraints = constraints.not_null(column.name.as_str(), column.name.as_str());
                }
            }
            if let Some(fill) = &column.fill {
                described = described.with_default(fill.clone());
            }
            builder = builder.column(described);
            if let ColumnDefault::Value(value) = &column.default {
                constraints = constraints.default_value(column.name.as_str(), value.clone());
            }
            if let Some(generated) = &column.generated {
                constraints = constraints.generated(column.name.as_str(), generated.clone());
            }
        }
        builder = match &self.key {
            Some((_, key)) => builder.key(key.iter()),
            None => {
                let hidden = ColumnDescription::new(HIDDEN_KEY, ValueType::Signed(8));
                builder.column(hidden).key([HIDDEN_KEY])
            }
        };
        for index in &self.indexes {
            let columns = index.columns.iter().map(|key| {
                let column = KeyColumn::new(key.name.as_str());
                let column = if key.descending { column.descending() } else { column };
                if key.nulls_first { column.nulls_first() } else { column.nulls_last() }
            });
            builder = match (index.unique, index.nulls_not_distinct) {
                (false, _) => builder.index(index.name.as_str(), columns),
                (true, false) => builder.unique_index(index.name.as_str(), columns),
                (true, true) => builder.unique_index_nulls_not_distinct(index.name.as_str(), columns),
            };
        }
        for (name, condition) in &self.checks {
            constraints = constraints.check(name.as_str(), condition.clone());
        }
        for key in &self.foreign_keys {
            constraints = constraints.foreign_key(key.clone());
        }
        let built = builder.constraints(constraints).build();
        built.map_err(|error| SqlError::new(state::INVALID_TABLE, error.to_string()))
    }

    /// Returns the texts that belong to the table, without its comments.
    pub fn texts(&self) -> Vec<SideText> {
        let text = |kind: &str, part: &str, body: String| SideText {
            id: 0,
            kind: kind.to_owned(),
            object: self.name.clone(),
            part: part.to_owned(),
            body,
        };
        let mut texts = Vec::new();
        for column in &self.columns {
            match &column.default {
                ColumnDefault::Sequence(sequence, always) => {
                    let mode = if *always { "always" } else { "default" };
                    texts.push(text("identity", &column.name, format!("{mode} {sequence}")));
                }
                ColumnDefault::Text(body) => texts.push(text("default", &column.name, body.clone())),
                _ => {}
            }
            // Types that a column of the engine shares with another one.
            if let Some(name) = match &column.kind {
                SqlType::VarChar(None) => Some("varchar"),
                SqlType::Jsonb => Some("jsonb"),
                SqlType::Name => Some("name"),
                SqlType::Oid => Some("oid"),
                _ => None,
            } {
                texts.push(text("type", &column.name, name.to_owned()));
            }
        }
        if let Some((name, _)) = &self.key
            && *name != format!("{}_pkey", self.name)
        {
            texts.push(text("key", "", name.clone()));
        }
        for index in &self.indexes {
            match index.is_constraint {
                true => texts.push(text("unique", &index.name, String::new())),
                false if !index.unique => {
                    texts.push(text("index", &index.name, index.columns.len().to_string()))
                }
                false => {}
            }
        }
        texts
    }
}

/// Kinds of texts that [`Draft::texts`] returns.
pub const DRAFT_KINDS: [&str; 6] = ["identity", "default", "type", "key", "unique", "index"];

/// Returns the name in the engine of a table that refers to others by their names in SQL.
pub fn with_engine_names(keys: &mut [ForeignKey], schema: &Schema, own: (&str, &str)) {
    for key in keys {
        let (name, engine) = own;
        if crate::schema::sql_name(&key.table) == name {
            engine.clone_into(&mut key.table);
        } else if let Some(table) = schema.tables.get(crate::schema::sql_name(&key.table)) {
            key.table.clone_from(&table.engine);
        }
    }
}
