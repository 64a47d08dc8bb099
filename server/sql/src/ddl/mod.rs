//! Statements that change tables and other objects.

mod alter;
mod checks;
mod create;
mod draft;
mod objects;
mod roles;

use std::sync::Arc;

use isles::{Database, Datum};
use sqlparser::ast::{ObjectType, Statement};

use crate::engine::{Engine, generation};
use crate::error::{Result, SqlError, state};
use crate::schema::{Schema, SideText, TEXTS, Table};

pub use checks::text_of;
pub use create::{column_of, expression_text};
pub use draft::{Draft, DraftIndex, DraftKey};
pub use roles::{is_password_alone, makes_superuser, set_password};

/// A statement that changes tables, while no transaction runs.
pub struct Change<'a> {
    /// State that all sessions share.
    pub engine: &'a Engine,
    /// The tables as they are.
    pub schema: Arc<Schema>,
    /// Notices for the client.
    pub notices: Vec<(&'static str, String)>,
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
            | Statement::Drop { .. }
            | Statement::Comment { .. }
            | Statement::CreateRole(_)
            | Statement::AlterRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
    )
}

impl Change<'_> {
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
            Statement::Comment { object_type, object_name, comment, .. } => {
                self.comment(object_type, object_name, comment.as_deref())
            }
            Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
                ObjectType::Table => self.drop_tables(names, *if_exists, *cascade),
                ObjectType::View => self.drop_views(names, *if_exists),
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

    fn database(&self) -> &Database {
        &self.engine.database
    }

    /// Reads the schema again.
    fn refresh(&mut self) -> Result<()> {
        self.schema = self.engine.refresh()?;
        Ok(())
    }

    /// Removes texts, and adds others. Those of a table that is made come before the table, so
    /// that a crash leaves texts without a table, never a table without its texts.
    fn change_texts(&mut self, is_old: &dyn Fn(&SideText) -> bool, new: Vec<SideText>) -> Result<()> {
        let old: Vec<_> = self.schema.texts.iter().filter(|text| is_old(text)).map(|text| text.id).collect();
        let first = self.schema.texts.iter().map(|text| text.id).max().unwrap_or(0) + 1;
        self.database().transaction(|t| {
            for id in &old {
                t.delete_dynamic(TEXTS, &[Datum::Signed(*id)])?;
            }
            for (text, id) in new.iter().zip(first..) {
                let words = [&text.kind, &text.object, &text.part, &text.body];
                let words = words.map(|word| Datum::Text(word.clone()));
                let row = std::iter::once(Datum::Signed(id)).chain(words).collect::<Vec<_>>();
                t.insert_dynamic(TEXTS, &row)?;
            }
            Ok(())
        })?;
        self.refresh()
    }

    /// Gives a table another form: in place if its key stays, else as a new table of the engine
    /// into which all rows are copied.
    fn change_to(&mut self, table: &Table, mut draft: Draft) -> Result<()> {
        draft.index_foreign_keys();
        let same_key =
            Draft::of(table).key.map(|(_, key)| key) == draft.key.as_ref().map(|(_, key)| key.clone());
        let own =
            |text: &SideText| text.object == table.name && draft::DRAFT_KINDS.contains(&text.kind.as_str());
        let texts = draft.texts();
        if same_key {
            let engine = table.engine.clone();
            draft::with_engine_names(&mut draft.foreign_keys, &self.schema, (&draft.name.clone(), &engine));
            let description = draft.describe(&engine)?;
            self.database().change_described_table(description).map_err(of_change)?;
            return self.change_texts(&own, texts);
        }
        let engine = format!("{}#{}", table.name, generation(&table.engine) + 1);
        draft::with_engine_names(&mut draft.foreign_keys, &self.schema, (&draft.name.clone(), &engine));
        let description = draft.describe(&engine)?;
        let referring = self.referring(&table.name);
        if let Some(other) = referring.first() {
            let message = format!("cannot change the key of table \"{}\"", table.name);
            return Err(SqlError::new(state::DEPENDENT, message)
                .detail(format!("Rows of table \"{other}\" refer to it.")));
        }
        self.database().create_described_table(description)?;
        let copied = self.copy_rows(table, &engine, &draft);
        if let Err(error) = copied {
            // The table as it was is untouched.
            self.database().drop_table(&engine)?;
            return Err(error);
        }
        self.database().drop_table(&table.engine)?;
        self.change_texts(&own, texts)
    }

    /// Copies all rows of a table, some in each transaction. A crash leaves both tables, of which
    /// the next opening drops the copy.
    fn copy_rows(&mut self, table: &Table, engine: &str, draft: &Draft) -> Result<()> {
        let rows_together = 1_000;
        let mut after: Option<Vec<Datum>> = None;
        let mut session = self.database().session()?;
        let mut hidden = 0_i64;
        loop {
            let rows = session
                .transaction(|t| t.scan_dynamic_after(&table.engine, after.as_deref(), rows_together))?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(table.key(last));
            let places: Vec<_> = draft.columns.iter().map(|column| table.column(&column.name).ok()).collect();
            let start = hidden;
            session
                .transaction(|t| {
                    hidden = start;
                    for row in &rows {
                        let value =
                            |place: &Option<usize>| place.map_or(Datum::Null, |place| row[place].clone());
                        let mut values: Vec<_> = places.iter().map(value).collect();
                        if draft.key.is_none() {
                            hidden += 1;
                            values.push(Datum::Signed(-hidden));
                        }
                        t.insert_dynamic(engine, &values)?;
                    }
                    Ok(())
                })
                .map_err(|error| match error {
                    isles::Error::Row(row) => SqlError::new(state::NOT_NULL, row.to_string()),
                    other => other.into(),
                })?;
        }
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
