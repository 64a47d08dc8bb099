//! TRUNCATE.

use std::sync::Arc;

use isles::DescribedScan;
use sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption};

use crate::bind::{span_of, table_of};
use crate::catalog::sequence_of;
use crate::ddl::create::engine_sequence;
use crate::ddl::{Change, Draft, ROWS_TOGETHER};
use crate::error::{Result, SqlError, state};
use crate::roles::Privilege;
use crate::schema::{SideText, Table, sql_name};

/// Most rows that are deleted one by one: a table that is put in the place of another one takes a
/// place of the engine until the next opening.
const ROWS_DELETED: usize = 10_000;

impl Change<'_, '_, '_> {
    /// Empties tables.
    pub fn truncate(&mut self, truncate: &Truncate) -> Result<String> {
        let mut names = Vec::new();
        for target in &truncate.table_names {
            let name = table_of(&target.name)?;
            self.schema.table(&name).map_err(|error| error.at(span_of(&target.name)))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let cascade = truncate.cascade == Some(CascadeOption::Cascade);
        let mut number = 0;
        while number < names.len() {
            let name = names[number].clone();
            for other in
                self.referring(&name).into_iter().filter(|other| !names.contains(other)).collect::<Vec<_>>()
            {
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    return Err(SqlError::new(state::NOT_SUPPORTED, message)
                        .detail(format!("Table \"{other}\" references \"{name}\"."))
                        .hint(format!(
                            "Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE."
                        )));
                }
                self.notice("NOTICE", format!("truncate cascades to table \"{other}\""));
                names.push(other);
            }
            number += 1;
        }
        let (roles, user) = (&self.schema.roles, &self.x.context.user);
        names.iter().try_for_each(|name| roles.check(user, name, Privilege::Truncate))?;
        self.empty_tables(names.clone())?;
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            for name in names {
                let table = Arc::clone(self.schema.table(&name)?);
                for sequence in table.columns.iter().filter_map(sequence_of) {
                    self.restart_sequence(&sequence, None)?;
                }
            }
        }
        Ok("TRUNCATE TABLE".to_owned())
    }

    /// Empties tables, those before others to which their rows refer.
    fn empty_tables(&mut self, mut names: Vec<String>) -> Result<()> {
        while !names.is_empty() {
            let refers = |name: &String, to: &String| {
                let table = self.schema.tables.get(name);
                let mut keys = table.iter().flat_map(|table| table.foreign_keys());
                name != to && keys.any(|key| sql_name(&key.table) == to)
            };
            let is_free = |to: &String| !names.iter().any(|name| refers(name, to));
            let next = names.iter().position(is_free).unwrap_or(0);
            let name = names.remove(next);
            let table = Arc::clone(self.schema.table(&name)?);
            self.empty_table(&table)?;
        }
        Ok(())
    }

    fn empty_table(&mut self, table: &Table) -> Result<()> {
        let mut scan = DescribedScan::new(table.engine.as_str(), 0).for_update();
        let mut deleted = 0;
        loop {
            let rows = self.x.next_rows(table, &mut scan, ROWS_TOGETHER)?;
            if rows.is_empty() {
                return Ok(());
            }
            if deleted >= ROWS_DELETED {
                return self.replace_by_empty(table);
            }
            deleted += rows.len();
            for row in rows {
                self.x.check()?;
                self.x.delete(table, &table.key(&row))?;
            }
        }
    }

    /// Puts an empty table in the place of one. Tables that refer to it are empty by now: they get
    /// their foreign keys again.
    fn replace_by_empty(&mut self, table: &Table) -> Result<()> {
        let referring = self.referring(&table.name);
        let mut drafts = Vec::new();
        for name in referring {
            let other = Arc::clone(self.schema.table(&name)?);
            let whole = Draft::of(&other);
            let mut without = whole.clone();
            without.foreign_keys.retain(|key| sql_name(&key.table) != table.name);
            self.change_to(&other, without)?;
            drafts.push((name, whole));
        }
        self.x.transaction.truncate_table(&table.engine)?;
        for (name, whole) in drafts {
            let other = Arc::clone(self.schema.table(&name)?);
            self.change_to(&other, whole)?;
        }
        Ok(())
    }

    /// Has a sequence begin again, with this number or its first one.
    pub fn restart_sequence(&mut self, name: &str, with: Option<i64>) -> Result<()> {
        let missing = || SqlError::new(state::NO_TABLE, format!("relation \"{name}\" does not exist"));
        let old = self.schema.sequence(name).cloned().ok_or_else(missing)?;
        let (first, increment) = crate::context::sequence_numbers(&old.body);
        let engine = engine_sequence(name, self.x.context.bits());
        let body = format!("{} {increment}\n{engine}", with.unwrap_or(first));
        let new = SideText { body, ..old };
        self.change_texts(&|text| text.kind == "sequence" && text.object == name, vec![new])
    }
}
