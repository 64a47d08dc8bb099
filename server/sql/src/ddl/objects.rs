//! Tables that go, indexes, views, sequences, comments.

use sqlparser::ast::{CommentObject, CreateIndex, CreateView, ObjectName, SequenceOptions};

use crate::bind::{Binder, name_of, object_of, span_of, table_of};
use crate::catalog::sequence_of;
use crate::ddl::create::{engine_sequence, keys_of, options_text};
use crate::ddl::{Change, Draft, DraftIndex};
use crate::error::{Result, SqlError, state};
use crate::schema::{SideText, Table, sql_name};

impl Change<'_, '_, '_> {
    fn missing(&mut self, kind: &str, name: &str, if_exists: bool) -> Result<()> {
        let message = format!("{kind} \"{name}\" does not exist");
        if if_exists {
            self.notice("NOTICE", format!("{message}, skipping"));
            return Ok(());
        }
        let code =
            if matches!(kind, "table" | "view" | "sequence") { state::NO_TABLE } else { state::NO_OBJECT };
        Err(SqlError::new(code, message))
    }

    /// Drops tables.
    pub fn drop_tables(&mut self, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<String> {
        let mut tables = Vec::new();
        for name in names {
            let table = table_of(name)?;
            match self.schema.tables.get(&table) {
                Some(found) => tables.push(std::sync::Arc::clone(found)),
                None => self.missing("table", &table, if_exists).map_err(|error| error.at(span_of(name)))?,
            }
        }
        let dropped: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
        for table in &tables {
            let others = self.referring(&table.name).into_iter().filter(|other| !dropped.contains(other));
            for other in others.collect::<Vec<_>>() {
                if !cascade {
                    let message =
                        format!("cannot drop table {} because other objects depend on it", table.name);
                    return Err(SqlError::new(state::DEPENDENT, message)
                        .detail(format!("A constraint on table {other} depends on table {}.", table.name))
                        .hint("Use DROP ... CASCADE to drop the dependent objects too."));
                }
                self.drop_references(&other, &table.name)?;
            }
        }
        // Tables that refer to others go before them.
        let mut left = tables;
        while !left.is_empty() {
            let is_free = |table: &std::sync::Arc<Table>| {
                let refers = |other: &std::sync::Arc<Table>| {
                    let mut keys = other.foreign_keys().iter();
                    other.name != table.name && keys.any(|key| sql_name(&key.table) == table.name)
                };
                !left.iter().any(refers)
            };
            let Some(next) = left.iter().position(is_free) else {
                // Tables that refer to each other.
                for table in &mut left {
                    let mut draft = Draft::of(table);
                    draft.foreign_keys.clear();
                    self.change_to(table, draft)?;
                    *table = std::sync::Arc::clone(self.schema.table(&table.name)?);
                }
                continue;
            };
            let table = left.remove(next);
            self.drop_table(&table)?;
        }
        self.check_views(cascade, &format!("drop table {}", dropped.join(", ")))?;
        Ok("DROP TABLE".to_owned())
    }

    fn drop_table(&mut self, table: &Table) -> Result<()> {
        self.x.transaction.drop_table(&table.engine)?;
        let owner = format!("{}.", table.name);
        let is_own = |text: &SideText| {
            (text.object == table.name && text.kind != "sequence" && text.kind != "view")
                || (text.kind == "sequence" && text.part.starts_with(&owner))
        };
        self.change_texts(&is_own, Vec::new())
    }

    /// Removes the foreign keys of a table that refer to another one.
    fn drop_references(&mut self, table: &str, to: &str) -> Result<()> {
        let table = std::sync::Arc::clone(self.schema.table(table)?);
        let mut draft = Draft::of(&table);
        draft.foreign_keys.retain(|key| sql_name(&key.table) != to);
        self.notice("NOTICE", format!("drop cascades to constraints on table {}", table.name));
        self.change_to(&table, draft)
    }

    /// Makes an index.
    pub fn create_index(&mut self, create: &CreateIndex) -> Result<String> {
        let tag = "CREATE INDEX".to_owned();
        let name = table_of(&create.table_name)?;
        let table = self.schema.table(&name).map_err(|error| error.at(span_of(&create.table_name)))?;
        let table = std::sync::Arc::clone(table);
        if create.predicate.is_some() || !create.include.is_empty() {
            return Err(SqlError::unsupported("an index with a condition or with included columns"));
        }
        let mut draft = Draft::of(&table);
        let columns = keys_of(&create.columns)?;
        for key in &columns {
            draft.column(&key.name)?;
        }
        let names: Vec<_> = columns.iter().map(|key| key.name.as_str()).collect();
        let index = match &create.name {
            Some(name) => object_of(name)?.1,
            None => draft.free_name(&format!("{name}_{}_idx", names.join("_"))),
        };
        let mut all = self.schema.tables.values().flat_map(|table| &table.indexes);
        if all.any(|other| other.name == index) {
            let message = format!("relation \"{index}\" already exists");
            if create.if_not_exists {
                self.notice("NOTICE", format!("{message}, skipping"));
                return Ok(tag);
            }
            return Err(SqlError::new(state::DUPLICATE_TABLE, message));
        }
        draft.indexes.push(DraftIndex {
            name: index,
            unique: create.unique,
            nulls_not_distinct: create.nulls_distinct == Some(false),
            columns,
            is_constraint: false,
        });
        self.change_to(&table, draft)?;
        Ok(tag)
    }

    /// Drops indexes.
    pub fn drop_indexes(&mut self, names: &[ObjectName], if_exists: bool) -> Result<String> {
        for name in names {
            let (_, index) = object_of(name)?;
            let has = |table: &&std::sync::Arc<Table>| table.indexes.iter().any(|own| own.name == index);
            let Some(table) = self.schema.tables.values().find(has).cloned() else {
                self.missing("index", &index, if_exists)?;
                continue;
            };
            let own = table.indexes.iter().find(|own| own.name == index);
            if own.is_some_and(|own| own.is_constraint) {
                let message = format!("cannot drop index {index} because a constraint requires it");
                return Err(SqlError::new(state::DEPENDENT, message));
            }
            let mut draft = Draft::of(&table);
            draft.indexes.retain(|own| own.name != index);
            self.change_to(&table, draft)?;
        }
        Ok("DROP INDEX".to_owned())
    }

    /// Makes a view.
    pub fn create_view(&mut self, create: &CreateView) -> Result<String> {
        if create.materialized {
            return Err(SqlError::unsupported("a materialized view"));
        }
        let name = table_of(&create.name)?;
        let is_view = self.schema.views.contains_key(&name);
        if self.schema.tables.contains_key(&name) || (is_view && !create.or_replace) {
            return Err(SqlError::new(state::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        let mut binder = Binder::new(std::sync::Arc::clone(&self.schema), Vec::new());
        binder.query(&create.query, None)?;
        let columns: Vec<_> = create.columns.iter().map(|column| name_of(&column.name)).collect();
        let text = SideText {
            id: 0,
            kind: "view".to_owned(),
            object: name.clone(),
            part: columns.join("\n"),
            body: create.query.to_string(),
        };
        self.change_texts(&|text| text.kind == "view" && text.object == name, vec![text])?;
        Ok("CREATE VIEW".to_owned())
    }

    /// Drops views.
    pub fn drop_views(&mut self, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<String> {
        for name in names {
            let view = table_of(name)?;
            if self.schema.views.contains_key(&view) {
                self.change_texts(&|text| text.kind == "view" && text.object == view, Vec::new())?;
            } else {
                self.missing("view", &view, if_exists)?;
            }
        }
        self.check_views(cascade, "drop the view")?;
        Ok("DROP VIEW".to_owned())
    }

    /// Makes a sequence.
    pub fn create_sequence(
        &mut self,
        name: &ObjectName,
        options: &[SequenceOptions],
        if_not_exists: bool,
    ) -> Result<String> {
        let tag = "CREATE SEQUENCE".to_owned();
        let name = table_of(name)?;
        if self.schema.sequences.contains_key(&name) || self.schema.tables.contains_key(&name) {
            let message = format!("relation \"{name}\" already exists");
            if if_not_exists {
                self.notice("NOTICE", format!("{message}, skipping"));
                return Ok(tag);
            }
            return Err(SqlError::new(state::DUPLICATE_TABLE, message));
        }
        let engine = engine_sequence(&name, self.x.context.bits());
        let body = format!("{}\n{engine}", options_text(options)?);
        let text = SideText { id: 0, kind: "sequence".to_owned(), object: name, part: String::new(), body };
        self.change_texts(&|_| false, vec![text])?;
        Ok(tag)
    }

    /// Drops sequences.
    pub fn drop_sequences(&mut self, names: &[ObjectName], if_exists: bool) -> Result<String> {
        for name in names {
            let sequence = table_of(name)?;
            if !self.schema.sequences.contains_key(&sequence) {
                self.missing("sequence", &sequence, if_exists)?;
                continue;
            }
            let mut columns = self.schema.tables.values().flat_map(|table| &table.columns);
            if columns.any(|column| sequence_of(column).as_deref() == Some(&sequence)) {
                let message = format!("cannot drop sequence {sequence} because other objects depend on it");
                return Err(SqlError::new(state::DEPENDENT, message));
            }
            self.change_texts(&|text| text.kind == "sequence" && text.object == sequence, Vec::new())?;
        }
        Ok("DROP SEQUENCE".to_owned())
    }

    /// Sets a comment.
    pub fn comment(&mut self, kind: &CommentObject, name: &ObjectName, text: Option<&str>) -> Result<String> {
        let (object, part) = match kind {
            CommentObject::Table | CommentObject::View | CommentObject::Index | CommentObject::Sequence => {
                (object_of(name)?.1, String::new())
            }
            CommentObject::Column => {
                let (table, column) = object_of(name)?;
                let table = table.unwrap_or_default();
                self.schema.table(&table)?.column(&column)?;
                (table, column)
            }
            _ => return Ok("COMMENT".to_owned()),
        };
        let new = text.map(|text| SideText {
            id: 0,
            kind: "comment".to_owned(),
            object: object.clone(),
            part: part.clone(),
            body: text.to_owned(),
        });
        let is_old = |text: &SideText| text.kind == "comment" && text.object == object && text.part == part;
        self.change_texts(&is_old, new.into_iter().collect())?;
        Ok("COMMENT".to_owned())
    }
}
