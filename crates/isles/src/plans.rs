//! Constraints of all tables, looked up once: what a transaction has to check when it changes a row
//! of a table.
//!
//! A transaction uses the plans that it began with. Plans are never freed while the database is
//! open, and change only when tables do, so that a transaction reads one word to have them, and
//! tests one pointer if no table has constraints.
// The list belongs to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use schema::{
    AnyKey, BoundForeignKey, Datum, ForeignAction, ForeignKey, IndexDescription, IndexKind, RowBytes,
    RowError, RowRules, TableDescription,
};
use terms::{Fault, Faults};

use crate::error::{Error, Result};
use crate::expiry::ExpiringTable;

/// Most times that plans change, as a power of two.
const CHUNKS: usize = 24;

/// Constraints of all tables.
pub(crate) struct Plans {
    /// By number of the table.
    tables: Vec<Option<TablePlan>>,
    pub(crate) references: Vec<Reference>,
    /// Tables whose rows expire.
    pub(crate) expiring: Vec<ExpiringTable>,
    /// A planted fault: referenced rows are looked up without concurrency control, before the row
    /// is there that refers to them.
    pub(crate) unprotected: bool,
}

/// Constraints that concern the rows of a table.
pub(crate) struct TablePlan {
    pub(crate) table: usize,
    pub(crate) description: TableDescription,
    pub(crate) rules: RowRules,
    /// The form that the rows will have, while a change of the table is under way.
    pub(crate) next: Option<NextForm>,
    /// References of its rows to others, by number.
    pub(crate) references: Vec<usize>,
    /// References to its rows.
    pub(crate) referring: Vec<usize>,
    /// Columns that get numbers of a sequence.
    pub(crate) identities: Vec<(usize, String)>,
}

/// A form that the rows of a table get.
pub(crate) struct NextForm {
    description: TableDescription,
    rules: RowRules,
    template: Option<RowTemplate>,
}

/// A foreign key between two tables.
#[derive(Clone)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) child: usize,
    pub(crate) parent: usize,
    pub(crate) key: BoundForeignKey,
    pub(crate) on_delete: ForeignAction,
    pub(crate) on_update: ForeignAction,
    pub(crate) deferred: bool,
}

/// A reference to check at the commit, if a row still refers with these values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeferredReference {
    /// Number of the reference.
    pub(crate) reference: usize,
    pub(crate) values: Vec<Datum>,
}

/// A row with the values of new columns: fixed part and tail.
pub(crate) type RowTemplate = (Vec<u8>, Vec<u8>);

/// A table, or a form of a table whose rows change.
#[derive(Clone, Copy)]
pub(crate) struct TableForm<'f> {
    pub(crate) number: usize,
    pub(crate) description: &'f TableDescription,
    /// The form that the rows will have, and a row with the values of new columns.
    pub(crate) next: Option<(&'f TableDescription, Option<&'f RowTemplate>)>,
}

impl<'f> TableForm<'f> {
    pub(crate) fn of((number, description): (usize, &'f TableDescription)) -> Self {
        TableForm { number, description, next: None }
    }
}

/// A reference before the plans of tables name it.
struct FoundReference {
    reference: Reference,
    /// True if it is checked for rows of the child.
    is_checked: bool,
    /// True if changes of the parent have consequences for rows of the child.
    is_followed: bool,
}

/// Refuses a table with a foreign key whose referring rows are found by a hash index, in which rows
/// are not found by a part of their key.
pub(crate) fn check_ordered(table: &TableDescription, kinds: &[IndexKind]) -> Result<()> {
    let is_hash = |number: usize| kinds.get(number).is_some_and(|kind| *kind != IndexKind::Ordered);
    if table.expiry_index().is_some_and(is_hash) {
        let reason = "the index by which expired rows are found is a hash index: make it an ordered one";
        return Err(Error::Declaration { table: table.name().to_owned(), reason: reason.to_owned() });
    }
    for key in &table.constraints().foreign_keys {
        let name = |column: &usize| &table.columns()[*column].name;
        let begins = |index: &IndexDescription| {
            index.columns.iter().map(name).take(key.columns.len()).eq(&key.columns)
        };
        let number = table.indexes().iter().position(begins);
        if number.is_some_and(is_hash) {
            let reason = format!(
                "constraint {:?}: the index by which referring rows are found is a hash index: make it an ordered one",
                key.name
            );
            return Err(Error::Declaration { table: table.name().to_owned(), reason });
        }
    }
    Ok(())
}

impl Plans {
    /// Makes the plans for these tables; `None` if no table has constraints. Of two forms of one
    /// table, which have its name, transactions read the first.
    ///
    /// # Errors
    /// [`Error::Declaration`]: a foreign key that the tables cannot keep.
    pub(crate) fn of(forms: &[TableForm<'_>], faults: Faults) -> Result<Option<Plans>> {
        let mut found = Vec::new();
        for child in forms {
            for key in &child.description.constraints().foreign_keys {
                find_references(forms, child, key, &mut found)?;
            }
        }
        let count = forms.iter().map(|form| form.number + 1).max().unwrap_or(0);
        let mut plans: Vec<Option<TablePlan>> = (0..count).map(|_| None).collect();
        for form in forms {
            let is_referred_to = found.iter().any(|found| found.reference.parent == form.number);
            if is_referred_to || form.description.constraints().concern_changes() || form.next.is_some() {
                plans[form.number] = Some(TablePlan::of(form, &found));
            }
        }
        let unprotected = faults.has(Fault::UnprotectedReferences);
        let expiring: Vec<_> = forms.iter().filter_map(|form| ExpiringTable::of(form.description)).collect();
        let is_empty = plans.iter().all(Option::is_none) && expiring.is_empty();
        let references = found.into_iter().map(|found| found.reference).collect();
        Ok((!is_empty).then_some(Plans { tables: plans, references, expiring, unprotected }))
    }

    /// Returns the plan of a table, if its rows have constraints.
    #[inline]
    pub(crate) fn table(&self, number: usize) -> Option<&TablePlan> {
        self.tables.get(number)?.as_ref()
    }

    /// Returns the name of a table with a plan.
    pub(crate) fn table_name(&self, number: usize) -> &str {
        self.table(number).map_or("", |plan| plan.description.name())
    }
}

/// Finds the tables of a foreign key of `child`.
fn find_references(
    forms: &[TableForm<'_>],
    child: &TableForm<'_>,
    key: &ForeignKey,
    to: &mut Vec<FoundReference>,
) -> Result<()> {
    let TableForm { number, description, .. } = *child;
    let fail = |reason: String| Error::Declaration {
        table: description.name().to_owned(),
        reason: format!("constraint {:?}: {reason}", key.name),
    };
    let is_first = forms.iter().find(|form| form.description.name() == description.name());
    let is_first = is_first.is_none_or(|first| first.number == number);
    let mut parents: Vec<_> = forms.iter().filter(|form| form.description.name() == key.table).collect();
    // Rows of a form refer to rows of the same form.
    parents.sort_by_key(|parent| parent.number != number);
    if parents.is_empty() {
        return Err(fail(format!("there is no table {:?}", key.table)));
    }
    for (place, parent) in parents.into_iter().enumerate() {
        let (is_checked, is_followed) = (place == 0, is_first);
        if !is_checked && !is_followed {
            continue;
        }
        let reference = Reference {
            name: key.name.clone(),
            child: number,
            parent: parent.number,
            key: description.bind_foreign_key(key, parent.description).map_err(fail)?,
            on_delete: key.on_delete,
            on_update: key.on_update,
            deferred: key.deferred,
        };
        to.push(FoundReference { reference, is_checked, is_followed });
    }
    Ok(())
}

impl TablePlan {
    fn of(form: &TableForm<'_>, found: &[FoundReference]) -> Self {
        let TableForm { number, description, next } = *form;
        let with = |test: &dyn Fn(&FoundReference) -> bool| {
            (0..found.len()).filter(|number| test(&found[*number])).collect()
        };
        let column =
            |(name, sequence): &(String, String)| Some((description.column(name)?, sequence.clone()));
        TablePlan {
            table: number,
            description: description.clone(),
            rules: description.rules(),
            next: next.map(|(next, template)| NextForm {
                description: next.clone(),
                rules: next.rules(),
                template: template.cloned(),
            }),
            references: with(&|found| found.is_checked && found.reference.child == number),
            referring: with(&|found| found.is_followed && found.reference.parent == number),
            identities: description.constraints().identities.iter().filter_map(column).collect(),
        }
    }

    /// Makes the keys of a row.
    ///
    /// # Errors
    /// A key is too long.
    pub(crate) fn add_keys(&self, row: &mut RowBytes) -> Result<(), RowError> {
        if row.keys.len() == self.description.indexes().len() {
            return Ok(());
        }
        self.description.put_keys(&row.fixed, &row.tail, &mut row.keys)
    }

    /// Returns the words of the keys of a row.
    pub(crate) fn words<'k>(&self, keys: &'k [AnyKey]) -> Vec<&'k [u64]> {
        self.description.words_of(keys)
    }

    /// Returns the values of these columns of a row; `None` if one of them is null.
    pub(crate) fn values(&self, columns: &[usize], row: &RowBytes) -> Result<Option<Vec<Datum>>, RowError> {
        let values = columns.iter().map(|column| {
            let value = self.description.decode_column(*column, &row.fixed, &row.tail)?;
            Ok((value != Datum::Null).then_some(value))
        });
        values.collect()
    }
}

impl NextForm {
    /// Checks that a row can have this form.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn check(&self, before: &TableDescription, row: &RowBytes) -> Result<(), schema::RuleError> {
        if self.rules.is_empty() {
            return Ok(());
        }
        let template = self.template.as_ref().map(|(fixed, tail)| (&fixed[..], &tail[..]));
        let (fixed, tail) = before.convert(&self.description, &row.fixed, &row.tail, template)?;
        Ok(self.rules.check(&self.description, &fixed, &tail)?)
    }
}

/// The plans of a database, the present ones and all earlier ones.
pub(crate) struct PlanList {
    /// Number of the present plans, counted from 1; 0 if no table has constraints.
    current: AtomicUsize,
    /// Chunk `n` has room for 2^n plans.
    chunks: [OnceLock<Box<[OnceLock<Plans>]>>; CHUNKS],
    /// Number of all plans so far.
    count: Mutex<usize>,
}

impl Default for PlanList {
    fn default() -> Self {
        PlanList {
            current: AtomicUsize::new(0),
            chunks: [const { OnceLock::new() }; CHUNKS],
            count: Mutex::new(0),
        }
    }
}

impl PlanList {
    /// Returns the present plans.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Plans> {
        // Acquire: pairs with the store after the plans were put into their place.
        match self.current.load(Ordering::Acquire) {
            0 => None,
            number => self.get(number),
        }
    }

    /// Returns the number of the present plans; 0 if no table has constraints.
    pub(crate) fn current_number(&self) -> usize {
        self.current.load(Ordering::Acquire)
    }

    /// Returns the plans of this number; `None` of number 0.
    pub(crate) fn numbered(&self, number: usize) -> Option<&Plans> {
        if number == 0 { None } else { self.get(number) }
    }

    fn get(&self, number: usize) -> Option<&Plans> {
        let chunk = number.ilog2() as usize;
        self.chunks.get(chunk)?.get()?.get(number - (1 << chunk))?.get()
    }

    /// Has transactions that begin from now on use these plans.
    ///
    /// # Errors
    /// [`Error::Misuse`] after 16 million changes.
    pub(crate) fn publish(&self, plans: Option<Plans>) -> Result<()> {
        let number = plans.map_or(Ok(0), |plans| self.add(plans))?;
        self.set_current(number);
        Ok(())
    }

    /// Has transactions that begin from now on use the plans of this number; none if it is 0.
    pub(crate) fn set_current(&self, number: usize) {
        // Release: pairs with the load of transactions that begin.
        self.current.store(number, Ordering::Release);
    }

    /// Keeps plans, which transactions do not use yet; their number.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub(crate) fn add(&self, plans: Plans) -> Result<usize> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *count + 1;
        let chunk = number.ilog2() as usize;
        let Some(places) = self.chunks.get(chunk) else {
            return Err(Error::Misuse("constraints have changed too often: open the database again"));
        };
        let places = places.get_or_init(|| (0..1 << chunk).map(|_| OnceLock::new()).collect());
        let _ = places[number - (1 << chunk)].set(plans);
        *count = number;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_plans_stay() {
        let list = PlanList::default();
        assert!(list.current().is_none());
        let plans = |unprotected| Plans {
            tables: Vec::new(),
            references: Vec::new(),
            expiring: Vec::new(),
            unprotected,
        };
        let mut all = Vec::new();
        for number in 0..40 {
            list.publish(Some(plans(number % 3 == 0))).expect("there is room");
            all.push(list.current().expect("they are there"));
        }
        assert!(all.iter().enumerate().all(|(number, plans)| plans.unprotected == (number % 3 == 0)));
        list.publish(None).expect("no plans");
        assert!(list.current().is_none());
    }
}
