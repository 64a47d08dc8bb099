//! Statements that change tables and other objects.

mod alter;
mod checks;
mod create;
mod draft;
mod objects;
mod rename;
mod roles;
mod truncate;

use std::sync::Arc;

use isles::Datum;
use sqlparser::ast::{AlterIndexOperation, ObjectType, Statement};

use crate::engine::generation;
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::schema::{Schema, SideText, TEXTS, Table};

pub use checks::text_of;
pub use create::{column_of, expression_text};
pub use draft::{Draft, DraftIndex, DraftKey};
pub use roles::{is_password_alone, makes_superuser};

/// Rows that are read together.
const ROWS_TOGETHER: usize = 256;

/// A statement that changes tables, in the transaction that runs it.
pub struct Change<'x, 'a, 't> {
    /// The transaction.
    pub x: &'x mut Exec<'a, 't>,
    /// The tables, as the transaction sees them.
    pub schema: Arc<Schema>,
    /// Sequences of the engine that are dropped when the transaction has ended, unless the schema
    /// has them then.
    pub loose_sequences: Vec<String>,
}

/// Returns true if a statement changes tables or other objects.
pub fn is_change(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::CreateView(_)
            | Statement::CreateSequence { .. }
            | Statement::CreateSchema { .. }
            | Statement::CreateExtension(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::Truncate(_)
            | Statement::Drop { .. }
            | Statement::Comment { .. }
            | Statement::CreateRole(_)
            | Statement::AlterRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
    )
}

impl Change<'_, '_, '_> {
    /// Runs the statement; returns its tag.
    pub fn run(&mut self, statement: &Statement) -> Result<String> {
        if let Some(done) = roles::run(self, statement) {
            return done;
        }
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::CreateView(create) => self.create_view(create),
            Statement::CreateSequence { if_not_exists, name, sequence_options, .. } => {
                self.create_sequence(name, sequence_options, *if_not_exists)
            }
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::AlterIndex { name, operation: AlterIndexOperation::RenameIndex { index_name } } => {
                self.rename_index(name, index_name)
            }
            Statement::Truncate(truncate) => self.truncate(truncate),
            Statement::Comment { object_type, object_name, comment, .. } => {
                self.comment(object_type, object_name, comment.as_deref())
            }
            Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
                ObjectType::Table => self.drop_tables(names, *if_exists, *cascade),
                ObjectType::View => self.drop_views(names, *if_exists, *cascade),
                ObjectType::Index => self.drop_indexes(names, *if_exists),
                ObjectType::Sequence => self.drop_sequences(names, *if_exists),
                ObjectType::Role | ObjectType::User => self.drop_roles(names, *if_exists),
                other => Err(SqlError::unsupported(format!("DROP {other}"))),
            },
            Statement::CreateSchema { if_not_exists: true, schema_name, .. }
                if schema_name.to_string().trim_matches('"') == "public" =>
            {
                Ok("CREATE SCHEMA".to_owned())
            }
            Statement::CreateSchema { .. } => {
                Err(SqlError::unsupported("CREATE SCHEMA").hint("All tables are in the schema public."))
            }
            other => Err(SqlError::unsupported(format!("the statement {other}"))),
        }
    }

    /// Adds a notice for the client.
    fn notice(&mut self, severity: &'static str, message: String) {
        self.x.context.notices.push((severity, message));
    }

    /// Takes the tables as they are now, with these texts.
    fn take_schema(&mut self, texts: Vec<SideText>) {
        let version = self.x.context.shared.new_version();
        let tables = self.x.transaction.tables();
        self.schema = Arc::new(Schema::of(&tables, texts, version));
        self.x.context.schema = Arc::clone(&self.schema);
    }

    /// Removes texts, and adds others.
    fn change_texts(&mut self, is_old: &dyn Fn(&SideText) -> bool, new: Vec<SideText>) -> Result<()> {
        let (old, mut texts): (Vec<_>, Vec<_>) = self.schema.texts.iter().cloned().partition(is_old);
        let first = self.schema.texts.iter().map(|text| text.id).max().unwrap_or(0) + 1;
        for text in old {
            self.x.transaction.delete_dynamic(TEXTS, &[Datum::Signed(text.id)])?;
            if text.kind == "sequence" {
                self.loose_sequences.push(text.engine_sequence().to_owned());
            }
        }
        for (mut text, id) in new.into_iter().zip(first..) {
            text.id = id;
            let words = [&text.kind, &text.object, &text.part, &text.body];
            let words = words.map(|word| Datum::Text(word.clone()));
            let row = std::iter::once(Datum::Signed(id)).chain(words).collect::<Vec<_>>();
            self.x.transaction.insert_dynamic(TEXTS, &row)?;
            if text.kind == "sequence" {
                self.loose_sequences.push(text.engine_sequence().to_owned());
            }
            texts.push(text);
        }
        self.take_schema(texts);
        Ok(())
    }

    /// Changes texts in place: those that `change` gives another form.
    fn map_texts(&mut self, change: &dyn Fn(&SideText) -> Option<SideText>) -> Result<()> {
        let changed = self.schema.texts.iter().filter_map(|text| Some((text.id, change(text)?)));
        let (old, new): (Vec<_>, Vec<_>) = changed.unzip();
        self.change_texts(&|text| old.contains(&text.id), new)
    }

    /// Gives a table another form.
    fn change_to(&mut self, table: &Table, mut draft: Draft) -> Result<()> {
        draft.index_foreign_keys();
        let own =
            |text: &SideText| text.object == table.name && draft::DRAFT_KINDS.contains(&text.kind.as_str());
        let texts = draft.texts();
        // Rows get numbers if the key goes. Columns of a key have no place for nulls.
        let in_key = |name: &String| draft.key.iter().any(|(_, key)| key.contains(name));
        let had_nulls = draft.columns.iter().any(|column| column.had_nulls && in_key(&column.name));
        let engine = match had_nulls || (draft.key.is_none() && !table.hidden_key) {
            true => format!("{}#{}", table.name, generation(&table.engine) + 1),
            false => table.engine.clone(),
        };
        draft::with_engine_names(&mut draft.foreign_keys, &self.schema, (&draft.name.clone(), &engine));
        let description = draft.describe(&engine)?;
        if engine == table.engine {
            self.x.transaction.change_described_table(description).map_err(of_change)?;
        } else {
            if let Some(other) = self.referring(&table.name).first() {
                let message = format!("cannot change the key of table \"{}\"", table.name);
                return Err(SqlError::new(state::DEPENDENT, message)
                    .detail(format!("Rows of table \"{other}\" refer to it.")));
            }
            self.x.transaction.create_described_table(description)?;
            self.copy_rows(table, &engine, &draft)?;
            self.x.transaction.drop_table(&table.engine)?;
        }
        self.change_texts(&own, texts)
    }

    /// Copies all rows of a table into one with another primary key, or without one.
    fn copy_rows(&mut self, table: &Table, engine: &str, draft: &Draft) -> Result<()> {
        let places: Vec<_> = draft.columns.iter().map(|column| table.column(&column.name).ok()).collect();
        let mut after: Option<Vec<Datum>> = None;
        let mut number = 0_i64;
        loop {
            let rows =
                self.x.transaction.scan_dynamic_after(&table.engine, after.as_deref(), ROWS_TOGETHER)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(table.key(last));
            for row in &rows {
                let value = |place: &Option<usize>| place.map_or(Datum::Null, |place| row[place].clone());
                let mut values: Vec<_> = places.iter().map(value).collect();
                if draft.key.is_none() {
                    number += 1;
                    values.push(Datum::Signed(-number));
                }
                draft.check_key(&values)?;
                self.x.check()?;
                self.x.transaction.insert_dynamic(engine, &values)?;
            }
        }
    }

    /// Fails if a view does not fit the tables any more, or drops it.
    fn check_views(&mut self, cascade: bool, what: &str) -> Result<()> {
        for view in self.schema.views.values().cloned().collect::<Vec<_>>() {
            let mut binder = crate::bind::Binder::new(Arc::clone(&self.schema), Vec::new());
            let fits = crate::parse::query(&view.query).and_then(|query| binder.query(&query, None));
            match (fits, cascade) {
                (Ok(_), _) => {}
                (Err(_), true) => {
                    self.notice("NOTICE", format!("drop cascades to view {}", view.name));
                    self.change_texts(&|text| text.kind == "view" && text.object == view.name, Vec::new())?;
                }
                (Err(error), false) => {
                    let message = format!("cannot {what} because other objects depend on it");
                    return Err(SqlError::new(state::DEPENDENT, message)
                        .detail(format!("View {} would not work any more: {}.", view.name, error.message))
                        .hint("Use DROP ... CASCADE to drop the dependent objects too."));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of tables whose rows refer to those of a table.
    fn referring(&self, name: &str) -> Vec<String> {
        let refers = |table: &&Arc<Table>| {
            table.name != name
                && table.foreign_keys().iter().any(|key| crate::schema::sql_name(&key.table) == name)
        };
        self.schema.tables.values().filter(refers).map(|table| table.name.clone()).collect()
    }
}

/// Returns the error of a change of a table that was refused.
fn of_change(error: isles::Error) -> SqlError {
    let text = error.to_string();
    match error {
        isles::Error::NotChanged { .. } if text.contains("same key") || text.contains("have the key") => {
            SqlError::new(state::UNIQUE, "could not create unique index").detail(text)
        }
        isles::Error::NotChanged { .. } => SqlError::new(state::CHECK, text),
        other => other.into(),
    }
}
