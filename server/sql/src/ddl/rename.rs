//! Other names of tables, columns, indexes, constraints, views and sequences.

use std::sync::Arc;

use sqlparser::ast::{Ident, ObjectName};

use crate::bind::{name_of, object_of, span_of, table_of};
use crate::ddl::create::check_name;
use crate::ddl::{Change, Draft};
use crate::error::{Result, SqlError, state};
use crate::schema::{SideText, Table};

impl Change<'_, '_, '_> {
    fn check_free(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let schema = &self.schema;
        let mut indexes = schema.tables.values().flat_map(|table| &table.indexes);
        if schema.tables.contains_key(name)
            || schema.views.contains_key(name)
            || schema.sequences.contains_key(name)
            || indexes.any(|index| index.name == name)
        {
            return Err(SqlError::new(state::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        Ok(())
    }

    /// Renames a table, a view, a sequence or an index: ALTER TABLE does all of that.
    pub fn rename_relation(&mut self, name: &ObjectName, to: &ObjectName) -> Result<()> {
        let (from, to) = (table_of(name)?, table_of(to)?);
        self.check_free(&to)?;
        if let Some(table) = self.schema.tables.get(&from).cloned() {
            return self.rename_table(&table, &to);
        }
        for kind in ["view", "sequence"] {
            if self.schema.texts.iter().any(|text| text.kind == kind && text.object == from) {
                let renamed = |text: &SideText| {
                    let is_it = text.object == from && (text.kind == kind || text.kind == "comment");
                    // An identity names its mode and its sequence.
                    match text.body.split_once(' ') {
                        _ if is_it => Some(SideText { object: to.clone(), ..with_engine(text) }),
                        Some((mode, sequence)) if text.kind == "identity" && sequence == from => {
                            Some(SideText { body: format!("{mode} {to}"), ..text.clone() })
                        }
                        _ => None,
                    }
                };
                self.map_texts(&renamed)?;
                return self.check_views(false, "rename it");
            }
        }
        self.rename_index_of(&from, &to).map_err(|error| error.at(span_of(name)))
    }

    fn rename_table(&mut self, table: &Table, to: &str) -> Result<()> {
        self.x.transaction.rename_table(&table.engine, to)?;
        let owner = format!("{}.", table.name);
        // The name of the primary key stays.
        let key = (!table.hidden_key).then(|| SideText {
            id: 0,
            kind: "key".to_owned(),
            object: to.to_owned(),
            part: String::new(),
            body: table.indexes[0].name.clone(),
        });
        self.map_texts(&|text| {
            if text.kind == "sequence" {
                let column = text.part.strip_prefix(&owner)?;
                return Some(SideText { part: format!("{to}.{column}"), ..text.clone() });
            }
            let is_own = text.object == table.name && text.kind != "view" && text.kind != "key";
            is_own.then(|| SideText { object: to.to_owned(), ..text.clone() })
        })?;
        let is_old = |text: &SideText| text.kind == "key" && text.object == table.name;
        self.change_texts(&is_old, key.into_iter().collect())?;
        self.check_views(false, "rename the table")
    }

    /// Renames a column.
    pub fn rename_column(&mut self, table: &Table, from: &Ident, to: &Ident) -> Result<()> {
        let (from, to) = (name_of(from), name_of(to));
        check_name(&to)?;
        table.column(&from)?;
        if table.column(&to).is_ok() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        self.x.transaction.rename_column(&table.engine, &from, &to)?;
        let (before, after) = (format!("{}.{from}", table.name), format!("{}.{to}", table.name));
        self.map_texts(&|text| match text.kind.as_str() {
            "sequence" if text.part == before => Some(SideText { part: after.clone(), ..text.clone() }),
            "identity" | "default" | "type" | "comment" if text.object == table.name && text.part == from => {
                Some(SideText { part: to.clone(), ..text.clone() })
            }
            _ => None,
        })?;
        self.check_views(false, "rename the column")
    }

    /// Renames a constraint.
    pub fn rename_constraint(&mut self, table: &Arc<Table>, from: &Ident, to: &Ident) -> Result<()> {
        let (from, to) = (name_of(from), name_of(to));
        let mut draft = Draft::of(table);
        let names = draft.checks.iter_mut().map(|(name, _)| name);
        let names = names.chain(draft.foreign_keys.iter_mut().map(|key| &mut key.name));
        match names.into_iter().find(|name| **name == from) {
            Some(name) => *name = to,
            None => return self.rename_index_of(&from, &to),
        }
        self.change_to(table, draft)
    }

    /// Renames an index.
    pub fn rename_index(&mut self, name: &ObjectName, to: &ObjectName) -> Result<String> {
        let (from, to) = (object_of(name)?.1, object_of(to)?.1);
        self.check_free(&to)?;
        self.rename_index_of(&from, &to)?;
        Ok("ALTER INDEX".to_owned())
    }

    fn rename_index_of(&mut self, from: &str, to: &str) -> Result<()> {
        let has = |table: &&Arc<Table>| table.indexes.iter().any(|index| index.name == from);
        let Some(table) = self.schema.tables.values().find(has).cloned() else {
            return Err(SqlError::new(state::NO_TABLE, format!("relation \"{from}\" does not exist")));
        };
        let mut draft = Draft::of(&table);
        if let Some((name, _)) = draft.key.as_mut().filter(|(name, _)| name == from) {
            to.clone_into(name);
        } else if let Some(index) = draft.indexes.iter_mut().find(|index| index.name == from) {
            to.clone_into(&mut index.name);
        }
        self.change_to(&table, draft)
    }
}

/// A sequence of an earlier version has the name in the engine that it was made with.
fn with_engine(text: &SideText) -> SideText {
    if text.kind != "sequence" || text.body.contains('\n') {
        return text.clone();
    }
    SideText { body: format!("{}\n{}", text.body, text.object), ..text.clone() }
}
