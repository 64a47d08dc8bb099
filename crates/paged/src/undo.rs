//! What a transaction has changed, to be undone from the last change to the first. Pages may have been split since: entries are found by
//! their keys.

use platform::files::Files;

use crate::key::KeyWords;
use crate::options::PagedError;
use crate::page::RecordParts;
use crate::pool::Worker;
use crate::tree::{Replaced, Tree};

/// One change.
pub(crate) struct Change {
    pub tree: Tree,
    pub key: KeyWords,
    pub what: Changed,
}

/// What was changed.
pub(crate) enum Changed {
    /// A record was inserted; in place of this ghost, if there was one.
    Inserted(Option<Replaced>),
    /// A record became a ghost.
    Deleted,
    /// Words of a record were written, from number `first` on; `words` of those before lie behind number `at`.
    Written { first: usize, at: usize, words: usize },
    /// A record was replaced.
    Replaced(Replaced),
}

/// The changes of a transaction.
#[derive(Default)]
pub(crate) struct Undo {
    changes: Vec<Change>,
    /// Words as they were before.
    pub before: Vec<u64>,
    /// Records that are ghosts because of the transaction.
    ghosts: Vec<(Tree, KeyWords)>,
}

impl Undo {
    pub(crate) fn push(&mut self, tree: Tree, key: &[u64], what: Changed) {
        let key = KeyWords::of(key);
        if matches!(what, Changed::Deleted) {
            self.ghosts.push((tree, key));
        }
        self.changes.push(Change { tree, key, what });
    }

    /// Whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Takes all changes back. Records that were inserted become ghosts.
    pub(crate) fn roll_back<P: Files>(&mut self, worker: &mut Worker<'_, P>) -> Result<(), PagedError> {
        let c = worker.c;
        while let Some(Change { tree, key, what }) = self.changes.pop() {
            match what {
                Changed::Inserted(before) => {
                    if let Some(before) = before {
                        let parts = RecordParts { words: &before.words, tail_bytes: before.tail_bytes };
                        tree.replace(worker, &key, parts)?;
                    }
                    tree.change(worker, (&key, None), |page, place, _| page.set_ghost(c, place, true))?;
                    self.ghosts.push((tree, key));
                }
                Changed::Deleted => {
                    tree.change(worker, (&key, None), |page, place, _| page.set_ghost(c, place, false))?;
                }
                Changed::Written { first, at, words } => {
                    let before = &self.before[at..at + words];
                    tree.change(worker, (&key, None), |page, _, slot| {
                        if let Some(record) = page.record(slot, first, words) {
                            P::write_words(c, record, before);
                        }
                    })?;
                }
                Changed::Replaced(before) => {
                    let parts = RecordParts { words: &before.words, tail_bytes: before.tail_bytes };
                    tree.replace(worker, &key, parts)?;
                }
            }
        }
        Ok(())
    }

    /// The transaction is over: its ghosts leave, as far as `may_join` says that the gap below a key of a tree may be joined with the one
    /// above. A ghost that cannot leave stays, which harms nobody.
    pub(crate) fn bury<P: Files>(
        &mut self,
        worker: &mut Worker<'_, P>,
        mut may_join: impl FnMut(Tree, &[u64]) -> bool,
    ) {
        for (tree, key) in self.ghosts.drain(..) {
            // A page that cannot be read keeps its ghost.
            let _ = tree.remove_ghost(worker, &key, &mut |key| may_join(tree, key));
        }
        self.changes.clear();
        self.before.clear();
    }
}
