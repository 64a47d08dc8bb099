//! The changes of a transaction, which are undone from the last to the first. Pages may have been
//! split since: entries are found by their keys.

use boundary::PartOf;
use platform::files::{FileErrorKind, Files};
use terms::Fault;

use crate::error::PagedError;
use crate::key::KeyWords;
use crate::log::record::{Compensation, StepWords, Takeback};
use crate::page::RecordParts;
use crate::pool::PoolWorker;
use crate::tree::{Tree, WriteRoom};

/// A refused page is read again for at most this long, at this interval.
const REFUSED_NANOS_MAX: u64 = 3_000_000_000;
const AGAIN_NANOS: u64 = 1_000_000;

/// The undo of one change.
struct UndoStep {
    tree: Tree,
    key: KeyWords,
    what: What,
}

/// The same as [`Takeback`]; words lie in a buffer, from `at` on.
#[derive(Clone, Copy)]
enum What {
    Mark { ghost: bool },
    Put { at: usize, words: usize, tail_bytes: usize, ghost: bool },
    Write { first: usize, at: usize, words: usize },
}

/// The changes of a transaction at a savepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UndoMark {
    steps: usize,
    words: usize,
}

/// The changes of a transaction.
#[derive(Default)]
pub(crate) struct Undo {
    steps: Vec<UndoStep>,
    /// Words as they were before.
    before: Vec<u64>,
    /// Records that may be ghosts because of the transaction.
    ghosts: Vec<(Tree, KeyWords)>,
}

impl Undo {
    /// Remembers a change; `first` is where words were written.
    #[inline]
    pub(crate) fn push(&mut self, tree: Tree, key: &[u64], first: usize, takeback: Takeback<'_>) {
        let (key, at) = (KeyWords::of(key), self.before.len());
        let what = match takeback {
            Takeback::None => return,
            Takeback::Mark { ghost } => What::Mark { ghost },
            Takeback::Put { parts: RecordParts { words, tail_bytes }, ghost } => {
                self.before.extend_from_slice(words);
                What::Put { at, words: words.len(), tail_bytes, ghost }
            }
            Takeback::Write { words } => {
                self.before.extend_from_slice(words);
                What::Write { first, at, words: words.len() }
            }
        };
        // A record that takes back a ghost is one now.
        if matches!(what, What::Mark { ghost: false }) {
            self.ghosts.push((tree, key.clone()));
        }
        self.steps.push(UndoStep { tree, key, what });
    }

    /// Forgets the last change: it has been taken back.
    pub(crate) fn pop(&mut self) {
        if let Some(step) = self.steps.pop() {
            self.ghosts.push((step.tree, step.key));
        }
    }

    /// Appends all of it as words.
    pub(crate) fn encode(&self, to: &mut Vec<u64>) {
        for UndoStep { tree, key, what } in &self.steps {
            let (first, takeback) = match *what {
                What::Mark { ghost } => (0, Takeback::Mark { ghost }),
                What::Put { at, words, tail_bytes, ghost } => {
                    let parts = RecordParts { words: &self.before[at..at + words], tail_bytes };
                    (0, Takeback::Put { parts, ghost })
                }
                What::Write { first, at, words } => {
                    (first, Takeback::Write { words: &self.before[at..at + words] })
                }
            };
            StepWords { tree: tree.number, key, first, takeback }.put(to);
        }
    }

    /// Decodes words that [`Self::encode`] has written, for these trees; `None` if they are others.
    pub(crate) fn decode(mut words: &[u64], trees: &[Tree]) -> Option<Undo> {
        let mut undo = Undo::default();
        while !words.is_empty() {
            let StepWords { tree, key, first, takeback } = StepWords::take(&mut words)?;
            let tree = *trees.get(tree as usize).filter(|tree| tree.takes(key.len()))?;
            undo.push(tree, key, first, takeback);
        }
        Some(undo)
    }

    /// The keys that have changed.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Tree, KeyWords)> {
        self.steps.iter().map(|step| (step.tree, step.key.clone()))
    }

    /// Returns true if nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The records that may be ghosts.
    pub(crate) fn ghosts(&mut self) -> impl Iterator<Item = (Tree, KeyWords)> {
        self.ghosts.drain(..)
    }

    /// The changes up to here, to which [`Self::roll_back_to`] returns.
    pub(crate) fn mark(&self) -> UndoMark {
        UndoMark { steps: self.steps.len(), words: self.before.len() }
    }

    /// The records that were inserted since a savepoint, by their trees' numbers and keys.
    pub(crate) fn inserted_since(&self, mark: UndoMark) -> impl Iterator<Item = (u32, Vec<u64>)> {
        let inserts = |step: &&UndoStep| {
            matches!(step.what, What::Mark { ghost: true } | What::Put { ghost: true, .. })
        };
        self.steps[mark.steps..].iter().filter(inserts).map(|step| (step.tree.number, step.key.to_vec()))
    }

    /// Undoes the changes since a savepoint; as [`Self::roll_back`]. The transaction goes on.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn roll_back_to<P: Files>(
        &mut self,
        worker: &mut PoolWorker<'_, P>,
        mark: UndoMark,
    ) -> Result<(), PagedError> {
        // A mutant keeps the first change.
        let kept = usize::from(worker.pool.faults().has(Fault::KeptSavepointWrites));
        worker.compensate(Compensation::OfPart);
        let undone = self.undo_down_to(worker, mark.steps + kept);
        worker.goes_on();
        undone?;
        if kept == 0 {
            self.before.truncate(mark.words);
        }
        Ok(())
    }

    /// Undoes all changes. Records that were inserted become ghosts. A page that the system refuses
    /// to read is requested again for a while, since the database stops if a transaction cannot be
    /// undone.
    ///
    /// # Errors
    /// A page cannot be read, or the log has stopped; an entry is not there.
    pub(crate) fn roll_back<P: Files>(&mut self, worker: &mut PoolWorker<'_, P>) -> Result<(), PagedError> {
        worker.compensate(Compensation::OfAll);
        self.undo_down_to(worker, 0)
    }

    /// Undoes changes, from the last one, until this many are left.
    fn undo_down_to<P: Files>(
        &mut self,
        worker: &mut PoolWorker<'_, P>,
        left: usize,
    ) -> Result<(), PagedError> {
        let mut refused = None;
        while self.steps.len() > left {
            match self.take_back_last(worker) {
                Ok(true) => {
                    self.steps.pop();
                    refused = None;
                }
                Ok(false) => {
                    return Err(PagedError::NotUndone("an entry is not in its page any more".to_owned()));
                }
                Err(PagedError::File(error)) if error.kind != FileErrorKind::Stopped => {
                    let now = P::now(worker.c);
                    if now.since(*refused.get_or_insert(now)) >= REFUSED_NANOS_MAX {
                        return Err(error.into());
                    }
                    P::rest(worker.c, AGAIN_NANOS);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the last change back; false if its entry is not there. One that fails has changed
    /// nothing.
    fn take_back_last<P: Files>(&mut self, worker: &mut PoolWorker<'_, P>) -> Result<bool, PagedError> {
        let Some(UndoStep { tree, key, what }) = self.steps.last() else { return Ok(true) };
        let (tree, key) = (*tree, key.clone());
        if let What::Mark { ghost: true } | What::Put { ghost: true, .. } = *what {
            self.ghosts.push((tree, key.clone()));
        }
        Ok(match *what {
            What::Mark { ghost } => tree.mark(worker, &key, ghost)?.is_some(),
            What::Put { at, words, tail_bytes, ghost } => {
                let parts = RecordParts { words: &self.before[at..at + words], tail_bytes };
                tree.replace(worker, &key, parts, ghost)?.is_some()
            }
            What::Write { first, at, words } => {
                let before = &self.before[at..at + words];
                let mut now = vec![0; 2 * words];
                let (present, after) = now.split_at_mut(words);
                let room = WriteRoom { before: present, after };
                let written = tree.write(worker, &key, None, first, room, |after, _| {
                    after.copy_from_slice(before);
                    true
                });
                written?.is_some()
            }
        })
    }

    /// Removes the ghosts of a transaction that is over, if `may_join` allows that the gap below a
    /// key of a tree is joined with the one above. A ghost that cannot be removed stays, which is
    /// harmless.
    pub(crate) fn bury<P: Files>(
        &mut self,
        worker: &mut PoolWorker<'_, P>,
        mut may_join: impl FnMut(Tree, &[u64]) -> bool,
    ) {
        for (tree, key) in self.ghosts.drain(..) {
            // A page that cannot be read keeps its ghost.
            let _ = tree.remove_ghost(worker, &key, &mut |key| may_join(tree, key));
        }
        self.steps.clear();
        self.before.clear();
    }
}

/// A part in doubt.
pub(crate) struct PartInDoubt {
    /// Its number in the log.
    pub transaction: u64,
    pub part: PartOf,
    /// The undo of its changes.
    pub undo: Undo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_undone_is_read_as_written() {
        let trees = [Tree::of(0, 1, 2), Tree::of(1, 2, 1)];
        let parts = RecordParts { words: &[7, 8, 9], tail_bytes: 11 };
        let mut undo = Undo::default();
        undo.push(trees[0], &[1, 2], 0, Takeback::Mark { ghost: true });
        undo.push(trees[1], &[3], 0, Takeback::Mark { ghost: false });
        undo.push(trees[1], &[4], 0, Takeback::Put { parts, ghost: true });
        undo.push(trees[0], &[5, 6], 4, Takeback::Write { words: &[10] });
        let mut words = Vec::new();
        undo.encode(&mut words);
        let mut again = Undo::decode(&words, &trees).expect("all of it");
        let mut repeated = Vec::new();
        again.encode(&mut repeated);
        assert_eq!(words, repeated);
        let keys =
            |undo: &Undo| undo.keys().map(|(tree, key)| (tree.number, key.to_vec())).collect::<Vec<_>>();
        assert_eq!(keys(&again), [(0, vec![1, 2]), (1, vec![3]), (1, vec![4]), (0, vec![5, 6])]);
        assert_eq!(again.ghosts().count(), 1);
        assert!(Undo::decode(&words[..words.len() - 1], &trees).is_none(), "cut off");
        assert!(Undo::decode(&words, &trees[..1]).is_none(), "a tree that is not there");
    }
}
