//! Lines that transactions of Shore-MT write although they share no rows: state locks in read mode,
//! and the list of active transactions.
//!
//! Nothing here needs them: no thread ever takes a lock in write mode, and no thread walks the
//! list. They are there where a database imitates Shore-MT (`PagedOptions::latches_reads`), so that
//! a simulated machine charges the transfers of these lines. `docs/like-shore-mt.md` names the
//! places in the source.
//!
//! A lock in read mode is one addition to a counter and one subtraction (`occ_rwlock`). The list is
//! without a latch (`xct_list`): a transaction puts itself behind the tail by an exchange, reads
//! the number of the one before and links itself to it; it leaves by a compare-and-swap on the
//! state of its own entry. That the first entry hands its place on, and that entries of ended
//! transactions are unlinked, is left out.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform};

/// Words of an entry of the list. The name of an entry is its owner's number and 1.
const NEXT: usize = 0;
const STATE: usize = 8;
const NUMBER: usize = 16;
/// States of an entry.
const LEFT: u64 = 0;
const ACTIVE: u64 = 1;

/// A lock that all transactions take in read mode.
struct StateLock<P: Platform>(P::Region);

impl<P: Platform> StateLock<P> {
    fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        P::region(c, node, LINE_BYTES, "state lock").map(StateLock)
    }

    /// Takes the lock in read mode and releases it.
    fn pass(&self, c: P::Core) {
        let readers = P::word_of(&self.0, 0);
        P::fetch_add(c, readers, 1, Ordering::AcqRel);
        P::fetch_add(c, readers, u64::MAX, Ordering::AcqRel);
    }
}

/// The lines.
pub(crate) struct CentralLines<P: Platform> {
    volumes: StateLock<P>,
    checkpoints: StateLock<P>,
    directory: StateLock<P>,
    /// By node: the lock of the map of latches of trees.
    trees: Vec<StateLock<P>>,
    tail: P::Region,
    /// By number of the owner.
    entries: Vec<P::Region>,
}

impl<P: Platform> CentralLines<P> {
    /// Lines for this many owners of transactions, whose threads run on these nodes.
    pub(crate) fn new(c: P::Core, owners: usize, nodes: &[Node]) -> Result<Self, OutOfMemory> {
        let last = nodes.iter().map(|node| node.0 as usize).max().unwrap_or(0);
        let tree_lock = |number: usize| {
            let node = nodes.iter().copied().find(|node| node.0 as usize == number);
            StateLock::new(c, node)
        };
        let entry = |_| P::region(c, None, LINE_BYTES, "active transaction");
        Ok(CentralLines {
            volumes: StateLock::new(c, None)?,
            checkpoints: StateLock::new(c, None)?,
            directory: StateLock::new(c, None)?,
            trees: (0..=last).map(tree_lock).collect::<Result<_, _>>()?,
            tail: P::region(c, None, LINE_BYTES, "list of active transactions")?,
            entries: (0..owners).map(entry).collect::<Result<_, _>>()?,
        })
    }

    /// The transaction of an owner begins.
    pub(crate) fn begin(&self, c: P::Core, owner: usize) {
        self.volumes.pass(c);
        let name = owner as u64 + 1;
        P::store(c, self.word(name, NEXT), 0, Ordering::Relaxed);
        P::store(c, self.word(name, STATE), ACTIVE, Ordering::Relaxed);
        let before = P::swap(c, P::word_of(&self.tail, 0), name, Ordering::AcqRel);
        // An entry of this owner that has ended has no successor.
        let number = if before == 0 || before == name {
            1
        } else {
            let number = P::load(c, self.word(before, NUMBER), Ordering::Acquire);
            P::store(c, self.word(before, NEXT), name, Ordering::Release);
            number + 1
        };
        P::store(c, self.word(name, NUMBER), number, Ordering::Release);
    }

    /// The transaction of an owner ends, with as many records that serialize with checkpoints.
    pub(crate) fn end(&self, c: P::Core, owner: usize, records: usize) {
        (0..records).for_each(|_| self.checkpoints.pass(c));
        let name = owner as u64 + 1;
        P::load(c, self.word(name, NEXT), Ordering::Acquire);
        // Only this thread ends the transaction.
        _ = P::cas(c, self.word(name, STATE), ACTIVE, LEFT, Ordering::AcqRel);
    }

    /// The transaction uses a table for the first time: its description is looked up in a tree.
    pub(crate) fn open_table(&self, c: P::Core, node: Option<Node>) {
        self.directory.pass(c);
        self.search_tree(c, node);
    }

    /// A key is searched in a tree: the tree's latch is found twice.
    pub(crate) fn search_tree(&self, c: P::Core, node: Option<Node>) {
        let number = node.map_or(0, |node| node.0 as usize) % self.trees.len();
        self.trees[number].pass(c);
        self.trees[number].pass(c);
    }

    fn word(&self, name: u64, word: usize) -> &P::Word {
        P::word_of(&self.entries[name as usize - 1], word)
    }
}
