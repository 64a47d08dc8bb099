//! Committed changes as a program sees them.

use boundary::{ChangedRow, CommittedChanges};
use schema::{Datum, KeyColumns, Row, TableDescription};

use crate::error::{Error, Result};
use crate::position::ChangePosition;

/// The changes of one transaction, given by [`Changes`](crate::Changes), which has an example.
///
/// Under [`Scheme::TicToc`](crate::Scheme::TicToc) this may be several transactions that share no
/// data and have committed at the same moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CommittedTransaction {
    /// The position behind the transaction.
    pub position: ChangePosition,
    /// The changes, in an order in which they can be repeated: each row that was changed, with the
    /// effect of the whole transaction. A row may occur twice, as inserted and then updated.
    pub changes: Vec<RowChange>,
}

impl CommittedTransaction {
    pub(crate) fn of(committed: CommittedChanges) -> Self {
        let changes = committed.rows.into_iter().map(|inner| RowChange { inner }).collect();
        CommittedTransaction { position: ChangePosition::of(committed.position), changes }
    }
}

/// Kind of a change of a row: [`RowChange::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The row is new. The change has the whole row.
    Insert,
    /// The row has changed. The change has the changed part: apply it to a copy of the row.
    Update,
    /// The row is gone. The change has its primary key.
    Delete,
}

/// The change of one row, as [`CommittedTransaction::changes`] has it. [`Changes`](crate::Changes)
/// has an example.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    pub(crate) inner: ChangedRow,
}

impl RowChange {
    /// Returns the table's description, as it was when the row was changed.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn table(&self) -> &TableDescription {
        &self.inner.table.description
    }

    /// Returns the number of the table's form: tables that have the same name one after the other
    /// have different numbers, and so have the forms of a table before and after
    /// [`Database::change_table`](crate::Database::change_table). While a table is being changed,
    /// its changes are given in both forms, and the rows that are copied as insertions of the new
    /// form.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn table_id(&self) -> u32 {
        self.inner.table.id
    }

    /// Returns what happened to the row.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn kind(&self) -> ChangeKind {
        match &self.inner.change {
            boundary::RowChange::Inserted { .. } => ChangeKind::Insert,
            boundary::RowChange::Updated { .. } => ChangeKind::Update,
            boundary::RowChange::Deleted { .. } => ChangeKind::Delete,
        }
    }

    /// Returns the values of the row's primary key, in the order of the key's columns.
    ///
    /// Errors: [`Error::Row`] if a value is none of the column's type, which only damage explains.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn key(&self) -> Result<Vec<Datum>> {
        let (fixed, tail) = self.with_key();
        let columns = self.table().indexes()[0].columns.iter();
        columns.map(|column| self.table().decode_column(*column, &fixed, &tail).map_err(Error::Row)).collect()
    }

    /// Returns a fixed part and a tail that have the columns of the primary key at least.
    pub(crate) fn with_key(&self) -> (Vec<u8>, Vec<u8>) {
        let key = match &self.inner.change {
            boundary::RowChange::Inserted { fixed, tail } => return (fixed.clone(), tail.clone()),
            boundary::RowChange::Updated { key, .. } | boundary::RowChange::Deleted { key } => &key[..],
        };
        let (mut fixed, mut tail) = (Vec::new(), Vec::new());
        KeyColumns::of(self.table()).row(key, &mut fixed, &mut tail);
        (fixed, tail)
    }

    /// Returns one value for each column of a row that was inserted; `None` for other changes.
    ///
    /// Errors: as [`Self::key`].
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn values(&self) -> Result<Option<Vec<Datum>>> {
        match &self.inner.change {
            boundary::RowChange::Inserted { fixed, tail } => {
                self.table().decode_row(fixed, tail).map(Some).map_err(Error::Row)
            }
            _ => Ok(None),
        }
    }

    /// Returns a row that was inserted; `None` for other changes.
    ///
    /// Errors: [`Error::NoSuchTable`] if rows of this form of the table are not of type `R`.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn row<R: Row>(&self) -> Result<Option<R>> {
        self.check_type::<R>()?;
        match &self.inner.change {
            boundary::RowChange::Inserted { fixed, tail } => Ok(Some(R::fetch(fixed, tail))),
            _ => Ok(None),
        }
    }

    /// Applies an update to a copy of the row: columns that did not change stay as they are.
    /// Without effect for other changes.
    ///
    /// Errors: [`Error::NoSuchTable`] if rows of this form of the table are not of type `R`.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn apply<R: Row>(&self, row: &mut R) -> Result<()> {
        self.check_type::<R>()?;
        let (mut fixed, mut tail) = (vec![0; R::BYTES], row.tail().into_owned());
        row.store(&mut fixed);
        if self.apply_bytes(&mut fixed, &mut tail) {
            *row = R::fetch(&fixed, &tail);
        }
        Ok(())
    }

    /// As [`Self::apply`], for a row as one value for each column.
    ///
    /// Errors: [`Error::Row`] if the values form no row of the table.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn apply_to_values(&self, values: &mut Vec<Datum>) -> Result<()> {
        let mut row = schema::RowBytes::default();
        self.table().encode_row(values, &mut row).map_err(Error::Row)?;
        if self.apply_bytes(&mut row.fixed, &mut row.tail) {
            *values = self.table().decode_row(&row.fixed, &row.tail).map_err(Error::Row)?;
        }
        Ok(())
    }

    /// Applies an update to the bytes of a row; false for other changes.
    fn apply_bytes(&self, fixed: &mut [u8], tail: &mut Vec<u8>) -> bool {
        let boundary::RowChange::Updated { parts, tail: new_tail, .. } = &self.inner.change else {
            return false;
        };
        for (offset, bytes) in parts {
            fixed[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        if let Some(new_tail) = new_tail {
            tail.clone_from(new_tail);
        }
        true
    }

    fn check_type<R: Row>(&self) -> Result<()> {
        let view = schema::Table::<R>::view(0, self.table());
        view.map(drop).map_err(|error| Error::NoSuchTable(error.to_string()))
    }
}
