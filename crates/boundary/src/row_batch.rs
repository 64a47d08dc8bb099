//! Rows that are inserted together: encoded one behind the other.

use concurrency::NewRows;

use schema::Row;
use schema::row_keys::with_keys;

/// New rows of one table, as bytes, with their keys as words. The memory is kept from batch to
/// batch.
#[derive(Default)]
pub struct RowBatch {
    count: usize,
    keys: Vec<u64>,
    words: Vec<u64>,
}

impl RowBatch {
    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.count = 0;
        self.keys.clear();
        self.words.clear();
    }

    /// Adds a row, which has no tail.
    #[inline(always)]
    pub fn push<R: Row>(&mut self, row: &R) {
        let start = self.words.len();
        self.words.resize(start + R::BYTES / 8, 0);
        row.store(bytemuck::cast_slice_mut(&mut self.words[start..]));
        with_keys(row, |keys| keys.iter().for_each(|key| self.keys.extend_from_slice(key)));
        self.count += 1;
    }

    /// The rows, in the order in which they were added.
    pub fn rows(&self) -> NewRows<'_> {
        NewRows { count: self.count, keys: &self.keys, fixed: bytemuck::cast_slice(&self.words) }
    }
}
