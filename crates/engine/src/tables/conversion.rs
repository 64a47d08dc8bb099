//! A table whose rows get another form while it is in use: both forms, and how a row of one becomes
//! a row of the other.
//!
//! The rows of the two forms are rows of two tables with the same primary keys.
//! [`Conversion::carry`] brings one row of one table to what the other table says, within a
//! transaction: a session that reads or writes rows of the first does that for each row that has
//! changed (`following.rs`), and the session that changes the table does it for all rows
//! (`converting.rs`). It may be done any number of times.

use platform::Intent;
use terms::Abort;

use boundary::{AnyVerbs, Span};
use schema::{AnyKey, KeyColumns, RowError, RowId, RowRules, TableDescription, key_words};

/// A row that no description can read.
const DAMAGED: &str = "a row is not what the description of its table says, and has no other form";

/// From which of the two tables transactions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The table as it was.
    Before,
    /// The table as it will be.
    After,
}

/// A row: fixed part and tail.
pub(crate) type RowImage = (Vec<u8>, Vec<u8>);

/// One of the two tables.
struct Side {
    /// Its number.
    table: usize,
    description: TableDescription,
    /// The rules for its rows.
    rules: RowRules,
    /// The columns that only this form has are as in this row, where the other form says nothing of
    /// them.
    template: RowImage,
}

/// The number and the description of one form of a table.
#[derive(Clone, Copy)]
pub(crate) struct TableForm<'a> {
    pub table: usize,
    pub description: &'a TableDescription,
}

/// Both forms of a table.
pub(crate) struct Conversion {
    before: Side,
    after: Side,
    /// Words of a primary key.
    pub(crate) key_words: usize,
}

impl Conversion {
    /// From a table to another one. Columns that rows do not have yet are as
    /// in `template`, a row of the table as it will be, or have no value.
    ///
    /// # Errors
    /// What is in the way, in words.
    pub(crate) fn new(
        before: TableForm<'_>,
        after: TableForm<'_>,
        template: Option<RowImage>,
    ) -> Result<Self, String> {
        if let Some(obstacle) = before.description.obstacle(after.description, template.is_some()) {
            return Err(obstacle);
        }
        let template = match template {
            Some((fixed, _)) if fixed.len() != after.description.row_bytes() => {
                return Err("the row with the values of new columns is none of the table".to_owned());
            }
            Some(template) => template,
            None => after.description.empty_row().map_err(|error| error.to_string())?,
        };
        let side = |TableForm { table, description }: TableForm<'_>, template| Side {
            table,
            description: description.clone(),
            rules: description.rules(),
            template,
        };
        let template_before = before.description.empty_row().map_err(|error| error.to_string())?;
        let key_words = key_words(before.description.indexes()[0].key_bits);
        Ok(Conversion { before: side(before, template_before), after: side(after, template), key_words })
    }

    /// The number of the table as it was.
    pub(crate) fn before(&self) -> usize {
        self.before.table
    }

    /// The number of the table as it will be.
    pub(crate) fn after(&self) -> usize {
        self.after.table
    }

    fn sides(&self, reads: Reads) -> (&Side, &Side) {
        match reads {
            Reads::Before => (&self.before, &self.after),
            Reads::After => (&self.after, &self.before),
        }
    }

    /// The tables that transactions use, and do not use.
    pub(crate) fn tables(&self, reads: Reads) -> (usize, usize) {
        let (used, other) = self.sides(reads);
        (used.table, other.table)
    }

    /// The primary key of a row that transactions use.
    pub(crate) fn key_of(&self, verbs: &mut dyn AnyVerbs, reads: Reads, row: RowId) -> Result<AnyKey, Abort> {
        let description = &self.sides(reads).0.description;
        let mut words = vec![0; description.row_bytes() / 8];
        verbs.read(row, Span { offset: 0, bytes: description.row_bytes() }, &mut words)?;
        let mut tail = Vec::new();
        if KeyColumns::of(description).are_in_tail() {
            verbs.read_tail(row, &mut tail)?;
        }
        Ok(description.key_of(0, bytemuck::cast_slice(&words), &tail))
    }

    /// Where the primary keys of rows that are inserted together lie in what their keys are
    /// together.
    pub(crate) fn key_stride(&self, reads: Reads) -> usize {
        let indexes = self.sides(reads).0.description.indexes();
        indexes.iter().map(|index| key_words(index.key_bits)).sum()
    }

    /// Has the other table say of this primary key what the table says that transactions use.
    pub(crate) fn carry(&self, verbs: &mut dyn AnyVerbs, reads: Reads, key: &[u64]) -> Result<(), Abort> {
        let (from, to) = self.sides(reads);
        let found = verbs.find(from.table, 0, key, Intent::Read)?;
        let there = verbs.find(to.table, 0, key, Intent::Write)?;
        let row = found.map(|found| from.read(verbs, found)).transpose()?;
        let old = there.map(|there| to.read(verbs, there)).transpose()?;
        match (row, there.zip(old)) {
            (None, None) => Ok(()),
            (None, Some((there, old))) => to.with_keys(&old, |keys| verbs.delete(there, keys)),
            (Some(row), None) => {
                let new = from.convert(to, &row, &to.template)?;
                to.check(reads, &new)?;
                to.with_keys(&new, |keys| verbs.insert(to.table, keys, &new.0, &new.1))
            }
            (Some(row), Some((there, old))) => {
                let new = from.convert(to, &row, &old)?;
                if new == old {
                    return Ok(());
                }
                to.check(reads, &new)?;
                to.with_keys(&old, |before| {
                    to.with_keys(&new, |after| verbs.replace(there, before, after, &new.0, &new.1))
                })
            }
        }
    }
}

impl Side {
    fn read(&self, verbs: &mut dyn AnyVerbs, row: RowId) -> Result<RowImage, Abort> {
        let span = Span { offset: 0, bytes: self.description.row_bytes() };
        let (mut words, mut tail) = (vec![0_u64; span.words()], Vec::new());
        verbs.read(row, span, &mut words)?;
        if self.description.has_tail() {
            verbs.read_tail(row, &mut tail)?;
        }
        Ok((bytemuck::cast_slice(&words).to_vec(), tail))
    }

    /// A row of this table as a row of the other one, with columns that this table does not have as
    /// in `template`.
    fn convert(&self, to: &Side, row: &RowImage, template: &RowImage) -> Result<RowImage, Abort> {
        let template = Some((&*template.0, &*template.1));
        let converted = self.description.convert(&to.description, &row.0, &row.1, template);
        converted.map_err(|error| match error {
            RowError::Damaged { .. } => Abort::Misuse(DAMAGED),
            // A value that a column of another type cannot have.
            error => Abort::Storage(error.to_string()),
        })
    }

    /// Checks a row of the form to come, which may have other constraints.
    fn check(&self, reads: Reads, (fixed, tail): &RowImage) -> Result<(), Abort> {
        match reads {
            Reads::Before => self
                .rules
                .check(&self.description, fixed, tail)
                .map_err(|violation| Abort::Storage(violation.to_string())),
            // The row was checked, and the form as it was has had its time.
            Reads::After => Ok(()),
        }
    }

    /// Calls `with` with the keys of a row, one an index.
    fn with_keys(
        &self,
        (fixed, tail): &RowImage,
        with: impl FnOnce(&[&[u64]]) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut keys = Vec::new();
        let put = self.description.put_keys(fixed, tail, &mut keys);
        put.map_err(|error| Abort::Storage(error.to_string()))?;
        with(&self.description.words_of(&keys))
    }
}
