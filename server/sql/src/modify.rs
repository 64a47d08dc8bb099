//! Execution of statements that change rows.

use std::collections::BTreeSet;
use std::ops::Bound;

use isles::{Datum, DescribedScan};

use crate::bind::{ConflictPlan, ConflictTarget, InsertPlan, ModifyPlan};
use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Node, Row, all_rows};
use crate::expr::Expr;
use crate::schema::Table;
use crate::value::Key;

/// The number of rows that were changed, and what RETURNING returns of them.
#[derive(Debug, Default)]
pub struct Changed {
    /// Rows that were changed.
    pub rows: u64,
    /// Rows to return.
    pub returned: Vec<Row>,
}

impl ModifyPlan {
    /// Changes the rows.
    pub fn run(&self, x: &mut Exec<'_, '_>) -> Result<Changed> {
        match self {
            ModifyPlan::Insert(insert) => insert.run(x),
            ModifyPlan::Update(change, assignments) => {
                let mut changed = Changed::default();
                for mut row in targets(&change.table, &change.source, x)? {
                    let old = row[..change.table.width()].to_vec();
                    let new = assigned(&change.table, &old, assignments, &row, x)?;
                    update(&change.table, &old, &new, x)?;
                    changed.rows += 1;
                    if let Some(returning) = &change.returning {
                        let new = stored(&change.table, new, x)?;
                        row[..new.len()].clone_from_slice(&new);
                        changed.add(returning, &row, x)?;
                    }
                }
                Ok(changed)
            }
            ModifyPlan::Delete(change) => {
                let mut changed = Changed::default();
                for row in targets(&change.table, &change.source, x)? {
                    let key = change.table.key(&row);
                    if !x.delete(&change.table, &key)? {
                        continue;
                    }
                    changed.rows += 1;
                    if let Some(returning) = &change.returning {
                        changed.add(returning, &row, x)?;
                    }
                }
                Ok(changed)
            }
        }
    }
}

impl Changed {
    fn add(&mut self, returning: &[Expr], row: &[Datum], x: &mut Exec<'_, '_>) -> Result<()> {
        let row = returning.iter().map(|value| value.eval(row, x)).collect::<Result<Row>>()?;
        x.hold(&row)?;
        self.returned.push(row);
        Ok(())
    }
}

/// Returns the rows that a statement changes, each once. They are all read before the first one is
/// changed, because a changed row could come to lie ahead of the scan.
fn targets(table: &Table, source: &crate::plan::Plan, x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let mut rows = all_rows(source, x)?;
    if rows.first().is_some_and(|row| row.len() > table.width()) {
        let mut seen = BTreeSet::new();
        rows.retain(|row| seen.insert(Key(table.key(row))));
    }
    Ok(rows)
}

/// Returns a row with other values.
fn assigned(
    table: &Table,
    old: &[Datum],
    assignments: &[(usize, Expr)],
    row: &[Datum],
    x: &mut Exec<'_, '_>,
) -> Result<Row> {
    let mut new = old.to_vec();
    for (place, value) in assignments {
        new[*place] = value.eval(row, x)?;
    }
    check_nulls(table, &new)?;
    Ok(new)
}

/// Replaces a row.
fn update(table: &Table, old: &[Datum], new: &[Datum], x: &mut Exec<'_, '_>) -> Result<()> {
    x.update(table, &table.key(old), new)
}

/// Returns a row as it is stored, with its generated columns.
fn stored(table: &Table, row: Row, x: &mut Exec<'_, '_>) -> Result<Row> {
    if table.columns.iter().all(|column| column.generated.is_none()) {
        return Ok(row);
    }
    let found = x.row(table, &table.key(&row))?;
    Ok(found.unwrap_or(row))
}

/// Refuses nulls in columns that have none.
pub fn check_nulls(table: &Table, row: &[Datum]) -> Result<()> {
    let missing = table
        .columns
        .iter()
        .zip(row)
        .find(|(column, value)| column.not_null && **value == Datum::Null && column.generated.is_none());
    let Some((column, _)) = missing else { return Ok(()) };
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        column.name, table.name
    );
    Err(SqlError { table: Some(table.name.as_str().into()), ..SqlError::new(state::NOT_NULL, message) })
}

/// Inserts a row of the visible columns; returns it as it was inserted.
pub fn insert_row(table: &Table, mut row: Row, x: &mut Exec<'_, '_>) -> Result<Row> {
    check_nulls(table, &row)?;
    if table.hidden_key {
        row.push(Datum::Signed(x.context.next_row()?));
    }
    x.insert(table, &row)?;
    stored(table, row, x)
}

impl InsertPlan {
    fn run(&self, x: &mut Exec<'_, '_>) -> Result<Changed> {
        let mut changed = Changed::default();
        // A query may read the table into which its rows go.
        let is_query = !matches!(self.source, crate::plan::Plan::Values(_));
        let mut read = if is_query { Some(all_rows(&self.source, x)?.into_iter()) } else { None };
        let mut node = Node::new(&self.source);
        loop {
            let next = match &mut read {
                Some(rows) => rows.next(),
                None => node.next(&self.source, x)?,
            };
            let Some(row) = next else { return Ok(changed) };
            x.check()?;
            let inserted = match &self.conflict {
                None => Some(insert_row(&self.table, row, x)?),
                Some(conflict) => self.insert_or_else(conflict, row, x)?,
            };
            let Some(row) = inserted else { continue };
            changed.rows += 1;
            if let Some(returning) = &self.returning {
                changed.add(returning, &row, x)?;
            }
        }
    }

    /// Inserts a row, or does what is said where a key is taken; returns the row that was written.
    fn insert_or_else(&self, conflict: &ConflictPlan, row: Row, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        let indexes = match conflict.target {
            ConflictTarget::All => 0..self.table.indexes.len(),
            ConflictTarget::Index(index) => index..index + 1,
        };
        for index in indexes {
            let own = &self.table.indexes[index];
            if !own.unique || (index == 0 && self.table.hidden_key) {
                continue;
            }
            let key: Vec<_> = own.columns.iter().map(|column| row[*column].clone()).collect();
            if key.contains(&Datum::Null) {
                continue;
            }
            let bound = Bound::Included(key);
            let mut scan =
                DescribedScan::new(self.table.engine.as_str(), index).low(bound.clone()).high(bound);
            if conflict.update.is_some() {
                scan = scan.for_update();
            }
            let Some(found) = x.next_rows(&self.table, &mut scan, 1)?.pop() else { continue };
            let Some((assignments, filter)) = &conflict.update else { return Ok(None) };
            let mut both = found.clone();
            both.extend(row);
            both.resize(2 * self.table.width(), Datum::Null);
            if let Some(filter) = filter
                && !filter.holds(&both, x)?
            {
                return Ok(None);
            }
            let new = assigned(&self.table, &found, assignments, &both, x)?;
            update(&self.table, &found, &new, x)?;
            return stored(&self.table, new, x).map(Some);
        }
        insert_row(&self.table, row, x).map(Some)
    }
}
