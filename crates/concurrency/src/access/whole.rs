//! Copies of whole rows, where a transaction makes them ([`RowCopies::Rows`](crate::RowCopies)).

/// The copies of one transaction.
#[derive(Default)]
pub(super) struct WholeRows {
    pub(super) words: Vec<u64>,
    /// By the row's number: where its copy begins in `words`, plus 1; 0 or missing if there is
    /// none.
    pub(super) starts: Vec<usize>,
}

impl WholeRows {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
    }

    /// The beginning of a row's copy.
    pub(super) fn start(&self, number: u32) -> Option<usize> {
        self.starts.get(number as usize).and_then(|start| start.checked_sub(1))
    }
}
