//! Rows read and written by a walk over the catalog, column by column: what compiled access is
//! compared with.
//!
//! The scheme sees one access a column where compiled code makes one for a whole field or row; the
//! bytes are the same.

use concurrency::{Holder, Scheme};
use platform::{Platform, Work};
use terms::Abort;

use super::Transaction;
use crate::transaction::columns::{Columns, copy_value};

/// Declares the copy of one value.
fn declare<P: Platform>(c: P::Core, bytes: usize) {
    // The switch on its type.
    P::work(c, Work::Step, 1);
    P::work(c, Work::CopyWord, 2 * bytes.div_ceil(8) as u32);
}

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// Reads bytes `start..start + bytes` of a row, each column for itself.
    #[cold]
    pub(super) fn read_columns(
        &mut self,
        columns: &Columns<P>,
        row: u32,
        start: usize,
        bytes: usize,
    ) -> Result<Vec<u8>, Abort> {
        let c = self.session.core();
        let mut value = vec![0; bytes];
        let mut words = std::mem::take(&mut self.scratch.words);
        let (inner, _) = self.parts();
        let table = S::table_of(inner, row);
        let read: Result<(), Abort> = columns.for_each(c, table, start..start + bytes, &mut |column| {
            let (first, end) = (column.start / 8, column.end.div_ceil(8));
            words.clear();
            words.resize(end - first, 0);
            call!(self, |inner, cx| S::read(inner, cx, row, first, &mut words))?;
            declare::<P>(c, column.end - column.start);
            let from: &[u8] = bytemuck::cast_slice(&words);
            let from = &from[column.start - first * 8..column.end - first * 8];
            copy_value(column.kind, from, &mut value[column.start - start..column.end - start]);
            Ok(())
        });
        self.scratch.words = words;
        read.map(|()| value)
    }

    /// Writes `bytes` from byte `start` of a row on, each column for itself.
    #[cold]
    pub(super) fn write_columns(
        &mut self,
        columns: &Columns<P>,
        row: u32,
        start: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let c = self.session.core();
        let (inner, _) = self.parts();
        let table = S::table_of(inner, row);
        let mut value = [0; 64];
        columns.for_each(c, table, start..start + bytes.len(), &mut |column| {
            let from = &bytes[column.start - start..column.end - start];
            declare::<P>(c, from.len());
            for (part, from) in from.chunks(value.len()).enumerate() {
                let to = &mut value[..from.len()];
                copy_value(column.kind, from, to);
                call!(self, |inner, cx| S::write(inner, cx, row, column.start + part * 64, to))?;
            }
            Ok(())
        })
    }

    /// Makes the content of a new row, each column for itself.
    #[cold]
    pub(super) fn make_columns(&mut self, columns: &Columns<P>, table: usize, bytes: &[u8]) -> Vec<u8> {
        let c = self.session.core();
        let mut row = vec![0; bytes.len()];
        let made: Result<(), Abort> = columns.for_each(c, table, 0..bytes.len(), &mut |column| {
            declare::<P>(c, column.end - column.start);
            let span = column.start..column.end;
            copy_value(column.kind, &bytes[span.clone()], &mut row[span]);
            Ok(())
        });
        debug_assert_eq!(made, Ok(()), "copying does not fail");
        row
    }
}
