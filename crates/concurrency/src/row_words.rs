//! The words that a scan reads of rows.

/// The words that a scan reads of each row ([`crate::Accessing::scan_words`]).
#[derive(Clone, Copy, Debug)]
pub struct RowWords {
    /// The first word.
    pub first: usize,
    /// How many words.
    pub count: usize,
    /// Rows that may be read before the first of them is shown, at most: 1 if the visitor changes
    /// rows.
    pub ahead: usize,
    /// Rows that the visitor wants, at most.
    pub most: u64,
}
