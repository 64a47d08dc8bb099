//! Several new rows at once: their keys often follow each other, so that they enter an index
//! together.

use std::ops::Range;

use platform::Platform;
use storage::index::{GapGuard, Witnesses};
use storage::tree::Run;
use storage::{Index, Local, RecordHeader, Table};

use super::Accesses;
use super::allocation::new_rows;
use super::row::{INSERTED, WRITTEN};
use super::shape::check_rows;
use crate::new_rows::NewRows;
use terms::Abort;

/// Rows that enter an index under one latch, at most.
const RUN_ROWS: usize = 16;

/// Enters rows into an index, by their names and with these keys, one behind the other: the first
/// of them, as many as follow right behind the last insertion of the transaction that the witnesses
/// belong to, if that was here.
///
/// # Safety
/// The names are those of rows of the index's table, and as in
/// [`storage::index::Partition::insert`].
#[inline]
pub(crate) unsafe fn enter_run<P: Platform, G: GapGuard<P>>(
    c: P::Core,
    index: &Index<P>,
    keys: &[u64],
    names: impl Iterator<Item = u64>,
    guard: &mut G,
    witnesses: &mut Witnesses,
) -> Run {
    let number = index.number(keys);
    let mut run = [0; RUN_ROWS];
    let mut count = 0;
    for ((key, name), place) in keys.chunks_exact(index.words).zip(names).zip(&mut run) {
        if index.number(key) != number {
            break;
        }
        *place = name;
        count += 1;
    }
    let partition = &index.all_partitions()[number];
    // SAFETY: passed on to the caller.
    unsafe { partition.insert_run(c, &keys[..count * index.words], &run[..count], guard, witnesses) }
}

/// Enters new rows of the table into its indexes, in order, up to the first failure. With the
/// transaction, and numbers of the rows from 0 on: `one` enters a row into the index at a position;
/// `many` enters rows, from a number on and with these keys, into the only index, as many as it
/// can, and returns their number.
#[inline(always)]
pub(crate) fn enter_rows<P: Platform, T>(
    transaction: &mut T,
    table: &Table<P>,
    rows: NewRows<'_>,
    mut one: impl FnMut(&mut T, usize, usize, &[u64]) -> Result<(), Abort>,
    mut many: impl FnMut(&mut T, usize, &[u64]) -> usize,
) -> Result<(), Abort> {
    let (mut keys, mut number) = (rows.keys, 0);
    while number < rows.count {
        for (position, index) in table.indexes.iter().enumerate() {
            let (key, others) = keys.split_at(index.words);
            one(transaction, number, position, key)?;
            keys = others;
        }
        number += 1;
        if let ([index], false) = (&table.indexes[..], keys.is_empty()) {
            let run = many(transaction, number, keys);
            keys = &keys[run * index.words..];
            number += run;
        }
    }
    Ok(())
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// As [`Self::create`], for several rows; their numbers.
    pub(crate) fn create_all(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: usize,
        table: &Table<P>,
        rows: NewRows<'_>,
    ) -> Result<Range<u32>, Abort> {
        check_rows(table, rows)?;
        let (first, width) = (self.list.len() as u32, table.key_words() as u32);
        let mut keys = self.keys.len() as u32;
        self.keys.extend_from_slice(rows.keys);
        self.check_room_for(rows.count)?;
        new_rows(c, local, table, rows.fixed, |row| {
            let place = P::address(c, row.start());
            let access = self.add(row, place, number, 0, INSERTED | WRITTEN);
            self.list[access as usize].keys = keys;
            keys += width;
        })?;
        Ok(first..self.list.len() as u32)
    }

    /// Enters the last rows of the list, from number `first` on, which the transaction inserts,
    /// into the only index of their table, as far as [`enter_run`] can.
    pub(crate) fn link_run<G: GapGuard<P>>(
        &mut self,
        c: P::Core,
        table: &Table<P>,
        first: u32,
        guard: &mut G,
    ) -> Run {
        let Accesses { list, keys, witnesses, .. } = self;
        let list = &mut list[first as usize..];
        let keys = &keys[list.first().map_or(0, |access| access.keys as usize)..];
        let names = list.iter().map(|access| access.row.to_bits());
        // SAFETY: rows of this table, which the transaction inserts.
        let run = unsafe { enter_run(c, &table.indexes[0], keys, names, guard, witnesses) };
        list[..run.inserted].iter_mut().for_each(|access| access.linked = 1);
        self.stamp_seen = self.stamp_seen.max(run.stamp);
        run
    }
}
