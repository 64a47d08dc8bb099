//! The tables of a database: what rows look like, and their trees.

use cc::{Abort, TableShape};
use engine::TableDescription;
use platform::files::Files;
use storage::word_set;

use crate::options::PagedError;
use crate::page::record_words_max;
use crate::pool::Worker;
use crate::tree::Tree;

/// A table. Its rows lie in the leaves of the tree of its primary key; other trees have the primary keys.
pub(crate) struct Table {
    /// Words of the fixed part of a row.
    pub fixed_words: usize,
    pub has_tail: bool,
    /// Never written after loading.
    pub read_only: bool,
    /// Words that are never written after loading: see [`TableShape::constant`].
    pub constant: u64,
    /// Bytes of the fixed part that belong to keys.
    pub key_bytes: Vec<(usize, usize)>,
    /// By number of the index; the first is that of the primary key.
    pub trees: Vec<Tree>,
}

const SPAN: Abort = Abort::Misuse("bytes that rows of the table do not have");
const LENGTH: Abort = Abort::Misuse("a row of another length than those of the table");
const KEYS: Abort = Abort::Misuse("other keys than the table's indexes have");
const CONSTANT: Abort = Abort::Misuse("a column that was declared never to be written");
const SAME_ROWS: Abort = Abort::Misuse("the table has the same rows as when it was loaded");
const TAIL: Abort = Abort::Misuse("rows of the table have no tail");

impl Table {
    /// Makes a table, whose trees are these, or are made, empty: `first` is the number of the first one then.
    pub(crate) fn create<P: Files>(
        worker: &mut Worker<'_, P>,
        (description, shape): (&TableDescription, TableShape),
        (first, known): (u32, Option<&[Tree]>),
    ) -> Result<Self, PagedError> {
        let fixed_words = description.row_bytes() / 8;
        let primary = shape.indexes[0].words;
        for (number, index) in shape.indexes.iter().enumerate() {
            let max = record_words_max(worker.pool.page_words(), index.words);
            let words = if number == 0 { fixed_words } else { primary };
            if words > max {
                return Err(PagedError::RowTooLong { table: description.name().to_owned(), words, max });
            }
        }
        let trees = match known {
            Some(trees) => trees.to_vec(),
            None => {
                let numbered = (first..).zip(&shape.indexes);
                let trees = numbered.map(|(number, index)| Tree::create(worker, number, index.words));
                trees.collect::<Result<_, _>>()?
            }
        };
        let TableShape { has_tail, read_only, constant, key_bytes, .. } = shape;
        Ok(Table { fixed_words, has_tail, read_only, constant, key_bytes, trees })
    }

    /// An index.
    pub(crate) fn tree(&self, index: usize, key: &[u64]) -> Result<Tree, Abort> {
        match self.trees.get(index) {
            Some(tree) if tree.width == key.len() => Ok(*tree),
            Some(_) => Err(Abort::Misuse("a key of another length than those of the index")),
            None => Err(Abort::Misuse("no such table or index")),
        }
    }

    /// Whether a row may look like this.
    pub(crate) fn check_row(&self, fixed: &[u8], tail: &[u8], words: usize) -> Result<(), Abort> {
        if fixed.len() != self.fixed_words * 8 {
            return Err(LENGTH);
        }
        if !tail.is_empty() {
            self.check_tail()?;
        }
        let max = record_words_max(words, self.trees[0].width);
        if self.fixed_words + tail.len().div_ceil(8) > max {
            let bytes = max.saturating_sub(self.fixed_words) * 8;
            return Err(Abort::Storage(format!(
                "a tail of {} bytes does not fit a page, which takes {bytes}: rows do not span pages yet",
                tail.len()
            )));
        }
        Ok(())
    }

    /// Whether rows have a tail.
    pub(crate) fn check_tail(&self) -> Result<(), Abort> {
        if self.has_tail { Ok(()) } else { Err(TAIL) }
    }

    /// Whether a row with such keys, one an index, may come or go.
    pub(crate) fn check_keys(&self, keys: &[&[u64]], is_loaded: bool) -> Result<(), Abort> {
        if self.is_closed(is_loaded) {
            return Err(SAME_ROWS);
        }
        let as_long = || self.trees.iter().zip(keys).all(|(tree, key)| tree.width == key.len());
        if self.trees.len() == keys.len() && as_long() { Ok(()) } else { Err(KEYS) }
    }

    fn is_closed(&self, is_loaded: bool) -> bool {
        is_loaded && (self.read_only || self.constant != 0)
    }

    /// Whether rows have these words.
    pub(crate) fn check_read(&self, first: usize, count: usize) -> Result<(), Abort> {
        let is_inside = first <= self.fixed_words && count <= self.fixed_words - first;
        if is_inside { Ok(()) } else { Err(SPAN) }
    }

    /// Whether rows have bytes from `offset` on that a transaction may write.
    pub(crate) fn check_write(&self, offset: usize, bytes: usize, is_loaded: bool) -> Result<(), Abort> {
        let fixed = self.fixed_words * 8;
        if offset > fixed || bytes > fixed - offset {
            return Err(SPAN);
        }
        if !is_loaded {
            return Ok(());
        }
        if self.read_only {
            return Err(SAME_ROWS);
        }
        let written = word_set(offset / 8, (offset + bytes).div_ceil(8));
        if written & self.constant != 0 { Err(CONSTANT) } else { Ok(()) }
    }

    /// Whether all of these words are never written any more.
    pub(crate) fn is_constant(&self, words: u64, is_loaded: bool) -> bool {
        is_loaded && (self.read_only || (words != 0 && self.constant & words == words))
    }
}
