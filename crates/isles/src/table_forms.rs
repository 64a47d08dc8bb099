//! Changes of tables that are under way, and what transactions have to check meanwhile.
//!
//! The plans of constraints follow from the tables that are there and from these changes. A thread
//! that changes either makes the plans anew, one thread at a time.
// The list belongs to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use schema::TableDescription;
use terms::Faults;

use crate::error::Result;
use crate::plans::{Plans, RowTemplate, TableForm};

/// Changes of tables that are under way.
#[derive(Default)]
pub(crate) struct ChangingTables(Mutex<Changes>);

/// The changes, for one thread at a time.
pub(crate) type LockedChanges<'l> = MutexGuard<'l, Changes>;

/// Changes of tables.
#[derive(Default)]
pub(crate) struct Changes {
    /// Numbers of tables that are created, and not used yet.
    pub(crate) created: Vec<usize>,
    pub(crate) forms: Vec<FormChange>,
}

/// A table whose rows get another form.
pub(crate) struct FormChange {
    /// The table's number.
    pub(crate) before: usize,
    /// The table as it was, with foreign keys that it gets.
    pub(crate) description: TableDescription,
    /// The number of the form to come, when it has one.
    pub(crate) after: Option<usize>,
    /// The form to come.
    pub(crate) next: TableDescription,
    /// A row with the values of new columns.
    pub(crate) template: Option<RowTemplate>,
    /// True if transactions that begin read the form to come.
    pub(crate) counts: bool,
}

impl ChangingTables {
    /// Waits for the list.
    pub(crate) fn lock(&self) -> LockedChanges<'_> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changes {
    /// Makes the plans for these tables, which are present, and these changes.
    ///
    /// # Errors
    /// [`Error::Declaration`](crate::Error::Declaration): a foreign key that tables cannot keep.
    pub(crate) fn plans<'t>(
        &'t self,
        present: impl Iterator<Item = (usize, &'t TableDescription)>,
        all: &'t [TableDescription],
        faults: Faults,
    ) -> Result<Option<Plans>> {
        let changes =
            |number| self.forms.iter().any(|form| form.before == number || form.after == Some(number));
        let created = self.created.iter().filter_map(|number| Some((*number, all.get(*number)?)));
        let mut forms: Vec<_> =
            present.filter(|(number, _)| !changes(*number)).chain(created).map(TableForm::of).collect();
        for form in &self.forms {
            let next = Some((&form.next, form.template.as_ref()));
            let before = TableForm { number: form.before, description: &form.description, next };
            let after = form.after.map(|number| TableForm::of((number, &form.next)));
            match form.counts {
                true => forms.extend(after.into_iter().chain([before])),
                false => forms.extend(std::iter::once(before).chain(after)),
            }
        }
        Plans::of(&forms, faults)
    }
}
