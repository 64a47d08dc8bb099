//! Items of the log about transactions over several databases, besides changes of rows.
//!
//! A record may begin with items, before its changes:
//!
//! ```text
//! item: number (which * 4 + 3), global id 16, then
//!   0 prepare:  number (coordinator); the changes of the record are those of the part, and count if the part commits
//!   1 commit:   the part, prepared by an earlier record, commits with the stamp of this record
//!   2 abort:    the part is rolled back
//!   3 decision: count, participants as numbers; this database decides to commit, with the changes of the record, if any
//!   4 forget:   all participants have acknowledged the decision
//! ```
//!
//! A prepared part is *in doubt* if no record says how it ended. Epochs keep the order: the record
//! of a commit or roll-back is of no earlier epoch than that of the part, so that no end is durable
//! without the part. Records of parts that are not decided, and of decisions that are not
//! forgotten, are left again when a checkpoint begins, behind its cut: they may be there twice.

use std::collections::{BTreeMap, BTreeSet};

use boundary::directory::wire::{Bytes, NUMBER_BYTES, Unreadable, read_exactly, read_number, read_size};
use boundary::{Decision, GlobalId, PartOf};

/// In place of the kind of a change.
const ITEM: u64 = 3;
const PREPARE: u64 = 0;
const COMMIT: u64 = 1;
const ABORT: u64 = 2;
const DECISION: u64 = 3;
const FORGET: u64 = 4;

/// One item of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Prepare(PartOf),
    Commit(GlobalId),
    Abort(GlobalId),
    Decision(Decision),
    Forget(GlobalId),
}

impl Item {
    /// Appends its bytes.
    pub(crate) fn put(&self, to: &mut Bytes) {
        let (which, global) = match self {
            Item::Prepare(part) => (PREPARE, part.global),
            Item::Commit(global) => (COMMIT, *global),
            Item::Abort(global) => (ABORT, *global),
            Item::Decision(decision) => (DECISION, decision.global),
            Item::Forget(global) => (FORGET, *global),
        };
        to.room(NUMBER_BYTES + 16);
        to.put_number(which << 2 | ITEM);
        to.put(&global.0.to_le_bytes());
        match self {
            Item::Prepare(part) => to.append_number(u64::from(part.coordinator)),
            Item::Decision(Decision { participants, .. }) => {
                to.append_number(participants.len() as u64);
                participants.iter().for_each(|instance| to.append_number(u64::from(*instance)));
            }
            Item::Commit(_) | Item::Abort(_) | Item::Forget(_) => {}
        }
    }

    /// Takes the next item from the beginning of what is left of a record; `None` if there are
    /// changes, or nothing.
    pub(crate) fn take(rest: &mut &[u8]) -> Result<Option<Item>, Unreadable> {
        match rest.first() {
            Some(first) if u64::from(*first) & ITEM == ITEM => Item::read(rest).map(Some).ok_or(Unreadable),
            _ => Ok(None),
        }
    }

    fn read(rest: &mut &[u8]) -> Option<Item> {
        let which = read_number(rest)? >> 2;
        let global = GlobalId(u128::from_le_bytes(read_exactly(rest, 16)?.try_into().ok()?));
        let instance = |rest: &mut &[u8]| u16::try_from(read_number(rest)?).ok();
        Some(match which {
            PREPARE => Item::Prepare(PartOf { global, coordinator: instance(rest)? }),
            COMMIT => Item::Commit(global),
            ABORT => Item::Abort(global),
            DECISION => {
                let count = read_size(rest)?;
                let participants = (0..count).map(|_| instance(rest)).collect::<Option<_>>()?;
                Item::Decision(Decision { global, participants })
            }
            FORGET => Item::Forget(global),
            _ => return None,
        })
    }
}

/// True if a record of the log decides that this transaction commits.
pub(crate) fn is_decision(mut body: &[u8], transaction: GlobalId) -> bool {
    while let Ok(Some(item)) = Item::take(&mut body) {
        if matches!(item, Item::Decision(decision) if decision.global == transaction) {
            return true;
        }
    }
    false
}

/// How a part committed: stamp, and epoch of the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommittedAt {
    pub stamp: u64,
    pub epoch: u64,
}

/// State of transactions over several databases, from the records that count, read in any order.
/// `T` is the place of a part's changes.
pub(crate) struct GlobalRecords<T> {
    prepared: BTreeMap<GlobalId, (PartOf, T)>,
    /// Parts that have ended; with `None` by a roll-back.
    ended: BTreeMap<GlobalId, Option<CommittedAt>>,
    decisions: BTreeMap<GlobalId, Vec<u16>>,
    forgotten: BTreeSet<GlobalId>,
}

/// The state that these records leave.
pub(crate) struct GlobalState<T> {
    /// Parts that have committed.
    pub committed: Vec<(T, CommittedAt)>,
    /// Parts that were prepared and have not ended, in the order of their ids.
    pub in_doubt: Vec<(PartOf, T)>,
    /// Decisions that are not forgotten.
    pub decisions: Vec<Decision>,
}

impl<T> Default for GlobalRecords<T> {
    fn default() -> Self {
        GlobalRecords {
            prepared: BTreeMap::new(),
            ended: BTreeMap::new(),
            decisions: BTreeMap::new(),
            forgotten: BTreeSet::new(),
        }
    }
}

impl<T> GlobalRecords<T> {
    /// A record begins with this item, and is of this stamp and epoch; `place` says where the
    /// changes are that follow.
    pub(crate) fn note(&mut self, item: Item, stamp: u64, epoch: u64, place: impl FnOnce() -> T) {
        match item {
            Item::Prepare(part) => {
                self.prepared.entry(part.global).or_insert_with(|| (part, place()));
            }
            Item::Commit(global) => _ = self.ended.insert(global, Some(CommittedAt { stamp, epoch })),
            Item::Abort(global) => _ = self.ended.insert(global, None),
            Item::Decision(Decision { global, participants }) => {
                self.decisions.insert(global, participants);
            }
            Item::Forget(global) => _ = self.forgotten.insert(global),
        }
    }

    /// Takes what others have read.
    pub(crate) fn absorb(&mut self, other: Self) {
        let GlobalRecords { prepared, ended, decisions, forgotten } = other;
        self.prepared.extend(prepared);
        self.ended.extend(ended);
        self.decisions.extend(decisions);
        self.forgotten.extend(forgotten);
    }

    /// The state after all records.
    ///
    /// # Errors
    /// A transaction of which a part has committed that was never prepared.
    pub(crate) fn state(mut self) -> Result<GlobalState<T>, GlobalId> {
        let mut committed = Vec::new();
        for (global, end) in self.ended {
            match (self.prepared.remove(&global), end) {
                (Some((_, place)), Some(at)) => committed.push((place, at)),
                (None, Some(_)) => return Err(global),
                // A checkpoint does not carry parts that were rolled back.
                (_, None) => {}
            }
        }
        let decided = self.decisions.into_iter().filter(|(global, _)| !self.forgotten.contains(global));
        let decisions = decided.map(|(global, participants)| Decision { global, participants });
        Ok(GlobalState {
            committed,
            in_doubt: self.prepared.into_values().collect(),
            decisions: decisions.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_written_and_no_shorter() {
        let global = GlobalId(0x0123_4567_89ab_cdef_0000_0000_ffff_ffff);
        let items = [
            Item::Prepare(PartOf { global, coordinator: 700 }),
            Item::Commit(global),
            Item::Abort(global),
            Item::Decision(Decision { global, participants: vec![0, 3, u16::MAX] }),
            Item::Forget(global),
        ];
        for item in items {
            let mut bytes = Bytes::default();
            item.put(&mut bytes);
            let written = bytes.into_vec();
            for length in 1..written.len() {
                assert_eq!(Item::take(&mut &written[..length]), Err(Unreadable), "{item:?}");
            }
            let followed = [&written[..], &[4]].concat();
            let mut rest = &followed[..];
            assert_eq!(Item::take(&mut rest), Ok(Some(item)));
            assert_eq!((Item::take(&mut rest), rest), (Ok(None), &[4][..]));
        }
        assert_eq!(Item::take(&mut &[5 << 2 | 3, 0][..]), Err(Unreadable));
    }

    #[test]
    fn parts_end_and_decisions_are_forgotten_in_any_order_of_reading() {
        let part = |id| PartOf { global: GlobalId(id), coordinator: 1 };
        let decision = |id| Item::Decision(Decision { global: GlobalId(id), participants: vec![2] });
        let notes = [
            (Item::Commit(GlobalId(1)), 90),
            (Item::Prepare(part(1)), 10),
            (Item::Prepare(part(2)), 20),
            (Item::Abort(GlobalId(3)), 0),
            (Item::Prepare(part(3)), 30),
            (Item::Prepare(part(2)), 21),
            (decision(7), 0),
            (Item::Forget(GlobalId(8)), 0),
            (decision(8), 0),
        ];
        let mut records = GlobalRecords::default();
        for (item, place) in notes {
            let mut other = GlobalRecords::default();
            other.note(item, place, 9, || place);
            records.absorb(other);
        }
        let state = records.state().unwrap_or_else(|_| panic!("no contradiction"));
        let committed: Vec<_> = state.committed.iter().map(|(place, at)| (*place, at.stamp)).collect();
        assert_eq!(committed, [(10, 90)]);
        assert_eq!(state.in_doubt, [(part(2), 21)]);
        assert_eq!(state.decisions, [Decision { global: GlobalId(7), participants: vec![2] }]);

        let mut records = GlobalRecords::default();
        records.note(Item::Commit(GlobalId(1)), 0, 0, || ());
        assert_eq!(records.state().map(drop), Err(GlobalId(1)));
    }
}
