//! Changes of rows of tables with constraints. All verbs of the library that change rows come here
//! if the table has a plan, whatever the engine, and use the engine's verbs.
//!
//! A change that breaks a constraint fails the attempt, like a key that is taken: a savepoint cures
//! it. The engine commits nothing of a failed attempt, and reports the violation only if the rows
//! that led to it were current.

use boundary::{AnyVerbs, Direction};
use platform::{Hardware, Intent, Platform};
use schema::{ConstraintKind, Datum, ForeignAction, RowBytes, RowId, RuleError, Violation};
use terms::Abort;
use terms::rows::KeyBounds;

use crate::attempt::{Failure, Transaction, part_of};
use crate::error::{Error, Result};
use crate::plans::{DeferredReference, Plans, Reference, TablePlan};

/// The engine's reason for the end of an attempt that breaks a constraint.
const VIOLATED: &str = "a change of rows breaks a constraint of their table";

/// Rows of a table that are checked in one transaction, when the table gets a foreign key.
const ROWS_CHECKED: usize = 256;

/// Time between the check of a reference and the insertion of the row, with a planted fault.
const FAULT_PAUSE_NANOS: u64 = 300_000;

/// A referenced key that a row had, and that no row has any more.
struct DepartedKey {
    /// Number of the reference.
    reference: usize,
    values: Vec<Datum>,
    /// The key that the row has now, unless it was deleted.
    now: Option<Vec<Datum>>,
}

impl<'t> Transaction<'t> {
    /// Returns the plan of a table with constraints.
    #[inline]
    pub(crate) fn plan(&self, table: usize) -> Option<&'t TablePlan> {
        self.plans()?.table(table)
    }

    /// Fails the attempt with an error of the program.
    #[cold]
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let failure = || Failure { abort: Abort::Misuse(VIOLATED), error };
        self.state.failed.get_or_insert_with(failure).error.clone()
    }

    #[cold]
    fn violated(&mut self, plan: &TablePlan, violation: Violation) -> Error {
        let Violation { constraint, kind, reason } = violation;
        let table = plan.description.name().to_owned();
        self.fail(Error::Constraint { table, constraint, kind, reason })
    }

    /// Completes a row that is to be written, and checks the rules that need no other row.
    pub(crate) fn prepare(&mut self, plan: &TablePlan, row: &mut RowBytes) -> Result<()> {
        let mut checked = plan.description.complete(&plan.rules, row);
        if checked.is_ok() {
            let rules = plan.rules.check(&plan.description, &row.fixed, &row.tail);
            checked = rules.map_err(RuleError::Violation);
        }
        if let (Ok(()), Some(next)) = (&checked, &plan.next) {
            checked = next.check(&plan.description, row);
        }
        match checked.and_then(|()| plan.add_keys(row).map_err(RuleError::Row)) {
            Ok(()) => Ok(()),
            Err(RuleError::Row(error)) => Err(Error::Row(error)),
            Err(RuleError::Violation(violation)) => Err(self.violated(plan, violation)),
        }
    }

    /// Inserts a row; returns it as it was written.
    pub(crate) fn insert_kept(&mut self, plan: &'t TablePlan, mut row: RowBytes) -> Result<RowBytes> {
        self.prepare(plan, &mut row)?;
        let words = plan.words(&row.keys);
        self.check_share(plan.table, Some(part_of(words[0])), Intent::Write)?;
        let checks_early = self.plans().is_some_and(|plans| plans.unprotected);
        if checks_early {
            self.check_references(plan, &row)?;
            // The planted fault has the time in which the other row can go.
            Hardware::rest(Hardware::core(), FAULT_PAUSE_NANOS);
        }
        let inserted = self.verbs.insert(plan.table, &words, &row.fixed, &row.tail);
        self.check_written(inserted, &row)?;
        // The row is inserted first: a deletion of the other row finds this one, or has ended.
        if !checks_early {
            self.check_references(plan, &row)?;
        }
        Ok(row)
    }

    /// Checks that the rows exist to which a row of the table refers.
    fn check_references(&mut self, plan: &'t TablePlan, row: &RowBytes) -> Result<()> {
        plan.references.iter().try_for_each(|number| self.check_reference(plan, *number, row))
    }

    /// Inserts a row, unless a unique key of it is taken.
    pub(crate) fn insert_kept_or_ignore(&mut self, plan: &'t TablePlan, mut row: RowBytes) -> Result<bool> {
        self.prepare(plan, &mut row)?;
        let words = plan.words(&row.keys);
        self.check_share(plan.table, Some(part_of(words[0])), Intent::Write)?;
        let unique = plan.description.indexes().iter().map(|index| index.unique);
        for (index, key) in
            words.iter().enumerate().zip(unique).filter(|(_, unique)| *unique).map(|(of, _)| of)
        {
            let found = self.verbs.find(plan.table, index, key, Intent::Read);
            if self.check(found)?.is_some() {
                return Ok(false);
            }
        }
        self.insert_kept(plan, row).map(|_| true)
    }

    /// Replaces a row that was read.
    pub(crate) fn rewrite_kept(
        &mut self,
        plan: &'t TablePlan,
        found: RowId,
        old: RowBytes,
        new: RowBytes,
    ) -> Result<()> {
        let mut departed = Vec::new();
        self.replace_kept(plan, found, (old, new), None, &mut departed)?;
        self.follow(departed)
    }

    /// Replaces a row, and appends the referenced keys that are gone. `except` is a reference that
    /// is not checked.
    fn replace_kept(
        &mut self,
        plan: &'t TablePlan,
        found: RowId,
        (mut old, mut new): (RowBytes, RowBytes),
        except: Option<usize>,
        departed: &mut Vec<DepartedKey>,
    ) -> Result<()> {
        self.prepare(plan, &mut new)?;
        plan.add_keys(&mut old).map_err(|error| self.fail(Error::Row(error)))?;
        let (before, after) = (plan.words(&old.keys), plan.words(&new.keys));
        if before != after {
            self.check_share(plan.table, Some(part_of(after[0])), Intent::Write)?;
            let replaced = self.verbs.replace(found, &before, &after, &new.fixed, &new.tail);
            self.check_written(replaced, &new)?;
        } else {
            let mut written = Ok(());
            if old.fixed != new.fixed {
                written = self.verbs.write(found, 0, &new.fixed);
            }
            if written.is_ok() && old.tail != new.tail {
                written = self.verbs.write_tail(found, &new.tail);
            }
            self.check(written)?;
        }
        let plans = self.plans_of(plan)?;
        for number in plan.references.iter().filter(|number| Some(**number) != except) {
            let columns = &plans.references[*number].key.columns;
            if self.values(plan, columns, &old)? != self.values(plan, columns, &new)? {
                self.check_reference(plan, *number, &new)?;
            }
        }
        for number in &plan.referring {
            let columns = &plans.references[*number].key.referenced_columns;
            let now = self.values(plan, columns, &new)?;
            if let Some(values) = self.values(plan, columns, &old)?
                && now.as_ref() != Some(&values)
            {
                // Rows cannot follow to a key that is no key.
                let now = Some(now.unwrap_or_else(|| vec![Datum::Null; columns.len()]));
                departed.push(DepartedKey { reference: *number, values, now });
            }
        }
        Ok(())
    }

    /// Deletes a row that was read.
    pub(crate) fn delete_kept(&mut self, plan: &'t TablePlan, found: RowId, old: RowBytes) -> Result<()> {
        let mut departed = Vec::new();
        self.remove_kept(plan, found, old, &mut departed)?;
        self.follow(departed)
    }

    fn remove_kept(
        &mut self,
        plan: &'t TablePlan,
        found: RowId,
        mut old: RowBytes,
        departed: &mut Vec<DepartedKey>,
    ) -> Result<()> {
        plan.add_keys(&mut old).map_err(|error| self.fail(Error::Row(error)))?;
        let deleted = self.verbs.delete(found, &plan.words(&old.keys));
        self.check(deleted)?;
        let plans = self.plans_of(plan)?;
        for number in &plan.referring {
            let columns = &plans.references[*number].key.referenced_columns;
            if let Some(values) = self.values(plan, columns, &old)? {
                departed.push(DepartedKey { reference: *number, values, now: None });
            }
        }
        Ok(())
    }

    /// Returns the plans that a plan belongs to.
    fn plans_of(&mut self, _: &'t TablePlan) -> Result<&'t Plans> {
        self.plans().ok_or(Error::Misuse("the transaction has no plans of constraints"))
    }

    fn values(&mut self, plan: &TablePlan, columns: &[usize], row: &RowBytes) -> Result<Option<Vec<Datum>>> {
        plan.values(columns, row).map_err(|error| self.fail(Error::Row(error)))
    }

    /// Reads a row.
    pub(crate) fn read_kept(&mut self, plan: &TablePlan, found: RowId) -> Result<RowBytes> {
        let (fixed, tail) = self.read_image(&plan.description, found)?;
        Ok(RowBytes { fixed, tail, keys: Vec::new() })
    }

    /// Checks that the row exists to which a row of the table refers, now or at the commit.
    fn check_reference(&mut self, plan: &'t TablePlan, number: usize, row: &RowBytes) -> Result<()> {
        let plans = self.plans_of(plan)?;
        let reference = &plans.references[number];
        let Some(values) = self.values(plan, &reference.key.columns, row)? else { return Ok(()) };
        if reference.deferred {
            self.defer(number, values);
            return Ok(());
        }
        match self.finds_referenced(plans, reference, &values)? {
            true => Ok(()),
            false => Err(self.refers_to_nothing(plans, reference, &values)),
        }
    }

    fn defer(&mut self, reference: usize, values: Vec<Datum>) {
        let deferred = DeferredReference { reference, values };
        if self.state.deferred.last() != Some(&deferred) {
            self.state.deferred.push(deferred);
        }
    }

    /// Returns true if a row has this key; the answer holds at the commit.
    fn finds_referenced(&mut self, plans: &Plans, reference: &Reference, values: &[Datum]) -> Result<bool> {
        let Some(parent) = plans.table(reference.parent) else { return Ok(false) };
        let index = reference.key.referenced_index;
        let key = parent.description.encode_key(index, &reference.key.in_order(values));
        let key = key.map_err(|error| self.fail(Error::Row(error)))?;
        if key.is_too_long() {
            return Ok(false);
        }
        let words = key.words(schema::key_words(parent.description.indexes()[index].key_bits));
        let found = match plans.unprotected {
            true => self.verbs.find_unvalidated(reference.parent, index, words),
            false => self.verbs.find(reference.parent, index, words, Intent::Read),
        };
        Ok(self.check(found)?.is_some())
    }

    #[cold]
    fn refers_to_nothing(&mut self, plans: &Plans, reference: &Reference, values: &[Datum]) -> Error {
        let parent = plans.table_name(reference.parent);
        let reason = format!("table {parent} has no row with the key {}", listed(values));
        self.reference_broken(plans, reference, reason)
    }

    #[cold]
    fn is_referred_to(&mut self, plans: &Plans, reference: &Reference, values: &[Datum]) -> Error {
        let parent = plans.table_name(reference.parent);
        let reason = format!("rows refer to {} of table {parent}", listed(values));
        self.reference_broken(plans, reference, reason)
    }

    fn reference_broken(&mut self, plans: &Plans, reference: &Reference, reason: String) -> Error {
        let table = plans.table_name(reference.child).to_owned();
        let (constraint, kind) = (reference.name.clone(), ConstraintKind::ForeignKey);
        self.fail(Error::Constraint { table, constraint, kind, reason })
    }

    /// Finds the rows that refer to a key, or the first of them.
    fn referring_rows(
        &mut self,
        plans: &Plans,
        reference: &Reference,
        values: &[Datum],
        (intent, most): (Intent, usize),
    ) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        let Some(child) = plans.table(reference.child) else { return Ok(rows) };
        let range = child.description.prefix_range(reference.key.index, values);
        let range = range.map_err(|error| self.fail(Error::Row(error)))?;
        let Some([low, high]) = range else { return Ok(rows) };
        let bounds = KeyBounds { low: &low, high: &high };
        let visit = &mut |_: &mut dyn AnyVerbs, row| {
            rows.push(row);
            Ok(rows.len() < most)
        };
        let (table, index) = (reference.child, reference.key.index);
        let scanned = self.verbs.scan(table, index, bounds, Direction::Forward, intent, visit);
        self.check(scanned)?;
        Ok(rows)
    }

    /// Does to rows that refer to keys which are gone what their references say.
    fn follow(&mut self, mut departed: Vec<DepartedKey>) -> Result<()> {
        let Some(plans) = self.plans() else { return Ok(()) };
        while let Some(DepartedKey { reference: number, values, now }) = departed.pop() {
            let reference = &plans.references[number];
            let action = if now.is_some() { reference.on_update } else { reference.on_delete };
            if action == ForeignAction::Restrict {
                if reference.deferred {
                    self.defer(number, values);
                } else if !self.referring_rows(plans, reference, &values, (Intent::Read, 1))?.is_empty() {
                    return Err(self.is_referred_to(plans, reference, &values));
                }
                continue;
            }
            let rows = self.referring_rows(plans, reference, &values, (Intent::Write, usize::MAX))?;
            let Some(child) = plans.table(reference.child) else { continue };
            if !self.shared.presences.is_plainly_present(reference.child) {
                self.check_presence(reference.child)?;
            }
            for found in rows {
                self.check_cancelled()?;
                let old = self.read_kept(child, found)?;
                let values = match (action, &now) {
                    (ForeignAction::Cascade, None) => {
                        self.remove_kept(child, found, old, &mut departed)?;
                        continue;
                    }
                    (ForeignAction::Cascade, Some(now)) => now.clone(),
                    _ => vec![Datum::Null; reference.key.columns.len()],
                };
                let new = self.with_values(child, &reference.key.columns, values, &old);
                let done = new
                    .and_then(|new| self.replace_kept(child, found, (old, new), Some(number), &mut departed));
                // The row that is referred to has changed already.
                done.map_err(|error| self.fail(error))?;
            }
        }
        Ok(())
    }

    /// Returns a row with other values in these columns.
    fn with_values(
        &mut self,
        plan: &TablePlan,
        columns: &[usize],
        values: Vec<Datum>,
        old: &RowBytes,
    ) -> Result<RowBytes> {
        let mut all = plan.description.decode_row(&old.fixed, &old.tail)?;
        columns.iter().zip(values).for_each(|(column, value)| all[*column] = value);
        let mut new = RowBytes::default();
        plan.description.encode_row(&all, &mut new)?;
        Ok(new)
    }

    /// Checks some rows of a table from behind this primary key on: that the rows are there to
    /// which they refer by these foreign keys. Returns the primary key of the last row, if there
    /// may be more.
    pub(crate) fn check_referring_rows(
        &mut self,
        name: &str,
        keys: &[String],
        after: Option<&[Datum]>,
    ) -> Result<Option<Vec<Datum>>> {
        let (number, table) = self.described(name)?;
        let rows = self.scan_dynamic_after(name, after, ROWS_CHECKED)?;
        let (Some(plan), Some(plans)) = (self.plan(number), self.plans()) else { return Ok(None) };
        let is_asked = |number: &&usize| keys.contains(&plans.references[**number].name);
        for values in &rows {
            let mut row = RowBytes::default();
            table.encode_row(values, &mut row).map_err(Error::Row)?;
            for number in plan.references.iter().filter(is_asked) {
                self.check_reference(plan, *number, &row)?;
            }
        }
        let last = rows.last().filter(|_| rows.len() == ROWS_CHECKED);
        let key = &table.indexes()[0].columns;
        Ok(last.map(|row| key.iter().map(|column| row[*column].clone()).collect()))
    }

    /// Checks the references that were left for the commit. An error has failed the attempt.
    pub(crate) fn check_deferred(&mut self) -> Result<()> {
        self.check_running()?;
        let Some(plans) = self.plans() else { return Ok(()) };
        for DeferredReference { reference, values } in std::mem::take(&mut self.state.deferred) {
            let reference = &plans.references[reference];
            if self.finds_referenced(plans, reference, &values)? {
                continue;
            }
            if !self.referring_rows(plans, reference, &values, (Intent::Read, 1))?.is_empty() {
                return Err(self.refers_to_nothing(plans, reference, &values));
            }
        }
        Ok(())
    }
}

fn listed(values: &[Datum]) -> String {
    values.iter().map(Datum::to_string).collect::<Vec<_>>().join(", ")
}
