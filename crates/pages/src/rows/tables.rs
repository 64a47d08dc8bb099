//! The tables of a database: shapes of rows, and their trees.

use concurrency::TableShape;
use platform::files::Files;
use schema::TableDescription;
use schema::row::TAIL_BYTES_MAX;
use terms::Abort;
use terms::rows::{KeyBytes, word_set};

use crate::error::PagedError;
use crate::key::is_long;
use crate::page::{record_words_max, takes_entry};
use crate::pool::PoolWorker;
use crate::rows::overflow::{self, Division};
use crate::tree::Tree;

/// A table. Its rows lie in the leaves of the tree of its primary key, long ones by their first
/// words; other trees have the primary keys.
pub(crate) struct Table {
    /// Words of the fixed part of a row.
    pub fixed_words: usize,
    pub has_tail: bool,
    /// Never written after loading.
    pub read_only: bool,
    /// Words that are never written after loading: see [`TableShape::constant`].
    pub constant: u64,
    /// Bytes of the fixed part that belong to keys.
    pub key_bytes: Vec<KeyBytes>,
    /// Columns of the tail that belong to keys, by their numbers in its directory.
    pub key_tail: Vec<usize>,
    /// By number of the index; the first is that of the primary key.
    pub trees: Vec<Tree>,
    /// Has what of rows does not fit a record, if there can be such rows.
    pub overflow: Option<Tree>,
    pub division: Division,
}

const SPAN: Abort = Abort::Misuse("bytes that rows of the table do not have");
const LENGTH: Abort = Abort::Misuse("a row of another length than those of the table");
const KEYS: Abort = Abort::Misuse("other keys than the table's indexes have");
const CONSTANT: Abort = Abort::Misuse("a column that was declared never to be written");
const SAME_ROWS: Abort = Abort::Misuse("the table has the same rows as when it was loaded");
const TAIL: Abort = Abort::Misuse("rows of the table have no tail");
const TAIL_LENGTH: Abort = Abort::Misuse("a tail of more than 1 MiB");
const ENTRY: Abort = Abort::Misuse(
    "the key of an index and the primary key are together longer than a page takes: shorten them, or make pages larger",
);
const _: () = assert!(TAIL_BYTES_MAX == 1 << 20);

impl Table {
    /// Makes a table with these trees, or with new empty ones: `first` is the number of the first
    /// one then.
    pub(crate) fn create<P: Files>(
        worker: &mut PoolWorker<'_, P>,
        description: &TableDescription,
        shape: TableShape,
        first: u32,
        known: Option<&[Tree]>,
    ) -> Result<Self, PagedError> {
        let fixed_words = description.row_bytes() / 8;
        let primary = shape.indexes[0].words;
        let page_words = worker.pool.page_words();
        // Long keys differ in length: whether one fits is said of each.
        let words = |number: usize| if number == 0 || is_long(primary) { 1 } else { primary };
        for (number, index) in shape.indexes.iter().enumerate() {
            let max = record_words_max(page_words, index.words + usize::from(number == 0));
            if words(number) > max {
                return Err(PagedError::KeyTooLong {
                    table: description.name().to_owned(),
                    words: primary,
                    max,
                });
            }
        }
        let mut widths: Vec<usize> = shape.indexes.iter().map(|index| index.words).collect();
        let overflows = overflow::is_needed(description, page_words);
        widths.extend(overflows.then_some(primary + 1));
        let mut trees = match known {
            Some(trees) => trees.to_vec(),
            None => {
                let trees =
                    (first..).zip(&widths).map(|(number, width)| Tree::create(worker, number, *width));
                trees.collect::<Result<_, _>>()?
            }
        };
        let overflow = if overflows { trees.pop() } else { None };
        let division = Division::new(fixed_words, primary, page_words);
        let TableShape { has_tail, read_only, constant, key_bytes, key_tail, .. } = shape;
        Ok(Table {
            fixed_words,
            has_tail,
            read_only,
            constant,
            key_bytes,
            key_tail,
            trees,
            overflow,
            division,
        })
    }

    /// The trees of its indexes, then that of pieces of rows, if there is one: the order of their
    /// numbers.
    pub(crate) fn all_trees(&self) -> impl Iterator<Item = Tree> {
        self.trees.iter().copied().chain(self.overflow)
    }

    /// An index, and a key as the index takes it.
    pub(crate) fn tree<'k>(&self, index: usize, key: &'k [u64]) -> Result<(Tree, &'k [u64]), Abort> {
        match self.trees.get(index) {
            Some(tree) if tree.takes(key.len()) => Ok((*tree, tree.key(key))),
            Some(_) => Err(Abort::Misuse("a key of another length than those of the index")),
            None => Err(Abort::Misuse("no such table or index")),
        }
    }

    /// Checks the shape of a row.
    pub(crate) fn check_row(&self, fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        if fixed.len() != self.fixed_words * 8 {
            return Err(LENGTH);
        }
        if !tail.is_empty() {
            self.check_tail()?;
        }
        if tail.len() > TAIL_BYTES_MAX { Err(TAIL_LENGTH) } else { Ok(()) }
    }

    /// Checks that rows have a tail.
    pub(crate) fn check_tail(&self) -> Result<(), Abort> {
        if self.has_tail { Ok(()) } else { Err(TAIL) }
    }

    /// Checks that a row with such keys, one an index, may be inserted or deleted.
    pub(crate) fn check_keys(&self, keys: &[&[u64]], is_loaded: bool) -> Result<(), Abort> {
        if self.is_closed(is_loaded) {
            return Err(SAME_ROWS);
        }
        let as_long = || self.trees.iter().zip(keys).all(|(tree, key)| tree.takes(key.len()));
        if self.trees.len() == keys.len() && as_long() { Ok(()) } else { Err(KEYS) }
    }

    fn is_closed(&self, is_loaded: bool) -> bool {
        is_loaded && (self.read_only || self.constant != 0)
    }

    /// Checks that a page of `page_words` words takes the entries of a row with these keys.
    pub(crate) fn check_entries(&self, page_words: usize, keys: &[&[u64]]) -> Result<(), Abort> {
        let primary = self.trees[0];
        if !is_long(primary.width) {
            return Ok(());
        }
        let record = primary.key(keys[0]).len();
        let mut others = self.trees.iter().zip(keys).skip(1);
        match others.all(|(tree, key)| takes_entry(page_words, tree.width, tree.key(key), record)) {
            true => Ok(()),
            false => Err(ENTRY),
        }
    }

    /// Checks that rows have these words.
    pub(crate) fn check_read(&self, first: usize, count: usize) -> Result<(), Abort> {
        let is_inside = first <= self.fixed_words && count <= self.fixed_words - first;
        if is_inside { Ok(()) } else { Err(SPAN) }
    }

    /// Checks that rows have bytes from `offset` on that a transaction may write.
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

    /// Returns true if all of these words are never written any more.
    pub(crate) fn is_constant(&self, words: u64, is_loaded: bool) -> bool {
        is_loaded && (self.read_only || (words != 0 && self.constant & words == words))
    }
}
