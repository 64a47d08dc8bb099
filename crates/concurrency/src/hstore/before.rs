//! Rows as they were before a prepared transaction of `hstore`, which has changed them in place.

use platform::Platform;
use storage::Table;

use super::row::Row;
use super::state::HstoreState;
use super::steps::UndoStep;
use crate::redo::Before;

impl<P: Platform> HstoreState<P> {
    /// The row with this primary key, whose site the transaction holds, as it was before the
    /// transaction.
    pub(super) fn before(&self, c: P::Core, tables: &[Table<P>], table: usize, key: &[u64]) -> Before {
        let schema = &tables[table];
        // The first row that had to leave its entry to another one had it before.
        let passed = self.steps.iter().find_map(|step| match *step {
            UndoStep::Pass { before, keys, position: 0 } if keys.table as usize == table => {
                schema.is_same_key(self.passed_key(keys), key).then_some(before)
            }
            _ => None,
        });
        let Some(bits) = passed.or_else(|| schema.indexes[0].partition(key).get(c, key).value) else {
            return Before::Absent;
        };
        let inserts = |step: &UndoStep| matches!(step, UndoStep::Insert { row, .. } if *row == bits);
        if self.steps.iter().any(inserts) {
            return Before::Absent;
        }
        // SAFETY: an index names the row, or named it until the transaction deleted it, whose
        // memory stays until the transaction ends.
        let row = unsafe { Row::<P>::from_bits(bits, schema.row_words) };
        let mut words = vec![0; row.words().len()];
        P::read_words(c, row.words(), &mut words);
        for step in self.steps.iter().rev() {
            if let UndoStep::Write { row: number, first, count, at } = *step
                && self.rows[number as usize].row.to_bits() == bits
            {
                let (first, count, at) = (first as usize, count as usize, at as usize);
                words[first..first + count].copy_from_slice(&self.words[at..at + count]);
            }
        }
        // SAFETY: the tail that the row had before the transaction is retired when the transaction
        // commits.
        unsafe { Before::row(c, schema, words) }
    }
}
