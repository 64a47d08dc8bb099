//! ALTER TABLE.

use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, DataType, DropBehavior, Expr as Ast,
    Ident, RenameTableNameKind, TableConstraint,
};

use crate::bind::{Binder, name_of, span_of, table_of};
use crate::ddl::{Change, Draft, ROWS_TOGETHER};
use crate::error::{Result, SqlError, state};
use crate::schema::{ColumnDefault, Table};
use crate::types::SqlType;

impl Change<'_, '_, '_> {
    /// Changes a table.
    pub fn alter_table(&mut self, alter: &AlterTable) -> Result<String> {
        let name = table_of(&alter.name)?;
        let tag = "ALTER TABLE".to_owned();
        let table = match self.schema.table(&name) {
            Ok(table) => std::sync::Arc::clone(table),
            Err(_)
                if let [
                    AlterTableOperation::RenameTable {
                        table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to),
                    },
                ] = &alter.operations[..] =>
            {
                self.rename_relation(&alter.name, to)?;
                return Ok(tag);
            }
            Err(_) if alter.if_exists => {
                self.notice("NOTICE", format!("relation \"{name}\" does not exist, skipping"));
                return Ok(tag);
            }
            Err(error) => return Err(error.at(span_of(&alter.name))),
        };
        if let [operation] = &alter.operations[..] {
            match operation {
                AlterTableOperation::RenameTable {
                    table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to),
                } => {
                    self.rename_relation(&alter.name, to)?;
                    return Ok(tag);
                }
                AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                    self.rename_column(&table, old_column_name, new_column_name)?;
                    return Ok(tag);
                }
                AlterTableOperation::RenameConstraint { old_name, new_name } => {
                    self.rename_constraint(&table, old_name, new_name)?;
                    return Ok(tag);
                }
                _ => {}
            }
        }
        let mut draft = Draft::of(&table);
        let (mut sequences, mut fills) = (Vec::new(), Vec::new());
        let mut is_changed = false;
        for operation in &alter.operations {
            is_changed |= match operation {
                AlterTableOperation::OwnerTo { .. }
                | AlterTableOperation::ReplicaIdentity { .. }
                | AlterTableOperation::SetOptionsParens { .. }
                | AlterTableOperation::ValidateConstraint { .. } => false,
                AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
                    self.add_new_column(&mut draft, column_def, *if_not_exists, &mut sequences, &mut fills)?
                }
                operation => {
                    self.alter(&mut draft, &table, operation)?;
                    true
                }
            };
        }
        if is_changed {
            let texts: Vec<_> = sequences
                .into_iter()
                .map(|sequence: super::create::OwnedSequence| sequence.text(&name))
                .collect();
            self.change_to(&table, draft)?;
            let cascades = |operation: &AlterTableOperation| {
                matches!(
                    operation,
                    AlterTableOperation::DropColumn { drop_behavior: Some(DropBehavior::Cascade), .. }
                )
            };
            self.check_views(alter.operations.iter().any(cascades), "alter the table")?;
            if !texts.is_empty() {
                self.change_texts(&|_| false, texts)?;
            }
            if !fills.is_empty() {
                self.fill(&name, &fills)?;
            }
        }
        Ok(tag)
    }

    fn add_new_column(
        &mut self,
        draft: &mut Draft,
        column: &ColumnDef,
        if_not_exists: bool,
        sequences: &mut Vec<super::create::OwnedSequence>,
        fills: &mut Vec<(String, bool)>,
    ) -> Result<bool> {
        let name = name_of(&column.name);
        if draft.columns.iter().any(|other| other.name == name) {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", draft.name);
            if if_not_exists {
                self.notice("NOTICE", format!("{message}, skipping"));
                return Ok(false);
            }
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        self.add_column(draft, column, sequences)?;
        let added = draft.column(&name)?;
        match &added.default {
            ColumnDefault::Value(value) => added.fill = Some(value.clone()),
            ColumnDefault::None => {}
            // Rows that are there get their values one by one, when the column is there.
            _ => {
                fills.push((name, added.not_null));
                added.not_null = false;
            }
        }
        Ok(true)
    }

    /// Gives new columns their defaults in all rows.
    fn fill(&mut self, name: &str, fills: &[(String, bool)]) -> Result<()> {
        let table = std::sync::Arc::clone(self.schema.table(name)?);
        let defaults = Binder::new(std::sync::Arc::clone(&self.schema), Vec::new()).defaults(&table)?;
        let places = fills.iter().map(|(name, _)| table.column(name)).collect::<Result<Vec<_>>>()?;
        let mut scan = isles::DescribedScan::new(table.engine.as_str(), 0).for_update();
        loop {
            let rows = self.x.next_rows(&table, &mut scan, ROWS_TOGETHER)?;
            if rows.is_empty() {
                break;
            }
            for mut row in rows {
                self.x.check()?;
                for place in &places {
                    row[*place] = defaults[*place].eval(&[], self.x)?;
                }
                self.x.update(&table, &table.key(&row), &row)?;
            }
        }
        let mut draft = Draft::of(&table);
        for (name, _) in fills.iter().filter(|(_, not_null)| *not_null) {
            draft.column(name)?.not_null = true;
        }
        self.change_to(&table, draft)
    }

    fn alter(&mut self, draft: &mut Draft, table: &Table, operation: &AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::AddConstraint { constraint, .. } => {
                if let TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) =
                    constraint
                {
                    return Err(SqlError::unsupported("a constraint of an index"));
                }
                self.add_constraint(draft, constraint)
            }
            AlterTableOperation::DropConstraint { if_exists, name, .. } => {
                self.drop_constraint(draft, name, *if_exists)
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                column_names.iter().try_for_each(|name| drop_column(draft, &name_of(name), *if_exists))
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(draft, &name_of(column_name), op)
            }
            _ => Err(SqlError::unsupported(format!("ALTER TABLE {} {operation}", table.name))),
        }
    }

    fn drop_constraint(&mut self, draft: &mut Draft, name: &Ident, if_exists: bool) -> Result<()> {
        let name = name_of(name);
        let before = (draft.checks.len(), draft.foreign_keys.len(), draft.indexes.len());
        draft.checks.retain(|(own, _)| *own != name);
        draft.foreign_keys.retain(|key| key.name != name);
        draft.indexes.retain(|index| index.name != name || !index.is_constraint);
        if before != (draft.checks.len(), draft.foreign_keys.len(), draft.indexes.len()) {
            return Ok(());
        }
        if draft.key.as_ref().is_some_and(|(own, _)| *own == name) {
            draft.key = None;
            return Ok(());
        }
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", draft.name);
        if if_exists {
            self.notice("NOTICE", format!("{message}, skipping"));
            return Ok(());
        }
        Err(SqlError::new(state::NO_OBJECT, message))
    }

    fn alter_column(
        &mut self,
        draft: &mut Draft,
        name: &str,
        operation: &AlterColumnOperation,
    ) -> Result<()> {
        let kind = draft.column(name)?.kind.clone();
        match operation {
            AlterColumnOperation::SetNotNull => draft.column(name)?.not_null = true,
            AlterColumnOperation::DropNotNull => {
                if draft.key.as_ref().is_some_and(|(_, key)| key.iter().any(|own| own == name)) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(state::INVALID_TABLE, message));
                }
                draft.column(name)?.not_null = false;
            }
            AlterColumnOperation::SetDefault { value } => {
                draft.column(name)?.default = self.default_of(value, &kind, name)?;
            }
            AlterColumnOperation::DropDefault => draft.column(name)?.default = ColumnDefault::None,
            AlterColumnOperation::SetDataType { data_type, using, .. }
                if using.as_ref().is_none_or(|using| is_plain(using, name, data_type)) =>
            {
                let to = SqlType::of_ast(data_type)?;
                let default = match std::mem::replace(&mut draft.column(name)?.default, ColumnDefault::None) {
                    ColumnDefault::Value(value) => {
                        ColumnDefault::Value(crate::value::cast(value, &kind, &to, false)?)
                    }
                    other => other,
                };
                let column = draft.column(name)?;
                (column.kind, column.default) = (to, default);
            }
            other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
        }
        Ok(())
    }
}

/// Returns true if an expression is the column itself, or its conversion to the new type.
fn is_plain(using: &Ast, name: &str, to: &DataType) -> bool {
    match using {
        Ast::Identifier(ident) => name_of(ident) == name,
        Ast::Nested(of) => is_plain(of, name, to),
        Ast::Cast { expr, data_type, .. } => data_type == to && is_plain(expr, name, to),
        _ => false,
    }
}

/// Removes a column, with the indexes and constraints that need it.
fn drop_column(draft: &mut Draft, name: &str, if_exists: bool) -> Result<()> {
    match draft.column(name) {
        Err(_) if if_exists => return Ok(()),
        found => _ = found?,
    }
    draft.columns.retain(|column| column.name != name);
    draft.indexes.retain(|index| index.columns.iter().all(|key| key.name != name));
    draft.foreign_keys.retain(|key| !key.columns.iter().any(|own| own == name));
    draft.checks.retain(|(_, condition)| !condition.names(name));
    if draft.key.as_ref().is_some_and(|(_, key)| key.iter().any(|own| own == name)) {
        draft.key = None;
    }
    // Rows of the engine have at least one column.
    if draft.columns.is_empty() {
        return Err(SqlError::unsupported("a table without columns"));
    }
    Ok(())
}
