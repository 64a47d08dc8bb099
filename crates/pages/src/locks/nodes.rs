//! Locks of the database and of its tables: few places, which every transaction locks.
//!
//! A place is a node, and each owner has one request for each node, always at the same place, so
//! there is nothing to link and to search. A node's line has a latch, the number of granted
//! requests in each mode, and the number of waiting ones. A request for a mode that all granted
//! ones allow, while none waits, reads that line and its own words; a request that conflicts reads
//! all requests.
//!
//! **Inheritance** (Johnson, Pandis, Ailamaki, "Improving OLTP scalability using speculative lock
//! inheritance", PVLDB 2009): a transaction that ends leaves its lock with its owner, granted
//! still, but marked as inherited. The owner's next transaction takes it over by one compare and
//! swap on a line that no other owner needs; a request for the node in a mode that the inherited
//! one excludes revokes it, by a compare and swap, too, without waiting. Only the word [`STATE`]
//! decides:
//!
//! ```text
//!    none --request--> held --end--> inherited --next transaction--> held
//!                      held --excluded request waits--> held, wanted --end--> none     (through the latch, with grants)
//!                                     inherited --excluded request--> none
//! ```
//!
//! - *While a request waits, no lock that excludes it is inherited.* Before a request waits, it
//!   revokes the inherited locks that exclude it, and marks the held ones that do, with the node
//!   latched; a lock that is granted while a request waits is marked at once. So no wake-up is
//!   lost, as the end of a marked lock takes the latch and grants; and a lock that is taken over,
//!   of any age, excludes no waiting request.
//! - *Ages are stable*: a request's age is written before the request is taken over. Ages are
//!   compared only after the request was marked, so its owner cannot end without the latch.
//! - *Nothing outlives its owner*: an owner that ends releases the locks that it has inherited
//!   ([`NodeLocks::release`]).

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

use super::answer::{ImmediateAnswer, LockAnswer};
use super::latched::{get, latched, set};
use super::mode::LockMode;
use super::mode::MODES;
use super::waits::{ConflictingRequest, Rank, Waits};
use crate::limits::OWNERS_MAX;

/// Bits of each mode's count.
const COUNT_BITS: u32 = 12;
const _: () = assert!(MODES as u32 * COUNT_BITS <= u64::BITS && OWNERS_MAX < 1 << COUNT_BITS);

/// Words of a node. The first is its latch.
const COUNTS: usize = 1;
/// Requests that wait.
const WAITERS: usize = 2;
const NODE_WORDS: usize = 3;

/// Words of a request.
const STATE: usize = 0;
/// Mode that is waited for; 0: none.
const WANTED_MODE: usize = 1;
const AGE: usize = 2;
const REQUEST_WORDS: usize = 3;

/// Parts of a state: the granted mode; whether the transaction that had it is over; whether a
/// request waits that it excludes.
const MODE: u64 = 7;
const INHERITED: u64 = 8;
const WANTED: u64 = 16;

/// The place of an owner's request for a node.
#[derive(Clone, Copy)]
pub(super) struct RequestId {
    pub owner: usize,
    pub node: usize,
}

/// A request for a node.
#[derive(Clone, Copy)]
pub(super) struct NodeRequest {
    /// With what the transaction has already.
    pub mode: LockMode,
    pub age: u64,
    pub waits: bool,
}

/// All nodes of a database, and their locks.
pub(super) struct NodeLocks<P: Platform> {
    nodes: P::Region,
    requests: P::Region,
    node_count: usize,
    owners: usize,
    /// A mutant: inherited locks do not exclude, and stay.
    keeps_inherited: bool,
}

/// The unit in the count of a mode.
const fn unit(mode: LockMode) -> u64 {
    1 << ((mode as u64 as u32 - 1) * COUNT_BITS)
}

/// The counts of the modes that exclude this one.
fn excluded(mode: LockMode) -> u64 {
    let modes = LockMode::ALL.into_iter().filter(|other| !other.is_compatible(mode));
    modes.map(|other| unit(other) * OWNERS_MAX as u64).sum()
}

/// The mode in a state.
fn granted(state: u64) -> Option<LockMode> {
    (state & MODE != 0).then(|| LockMode::of(state & MODE))
}

impl<P: Platform> NodeLocks<P> {
    /// No locks.
    pub(super) fn new(
        c: P::Core,
        node_count: usize,
        owners: usize,
        keeps_inherited: bool,
    ) -> Result<Self, OutOfMemory> {
        let nodes = P::region(c, None, node_count * LINE_BYTES, "locks of tables")?;
        let bytes = owners * node_count * LINE_BYTES;
        let requests = P::region(c, None, bytes, "locks of tables, by owner")?;
        Ok(NodeLocks { nodes, requests, node_count, owners, keeps_inherited })
    }

    /// Number of nodes.
    pub(super) fn count(&self) -> usize {
        self.node_count
    }

    fn node(&self, node: usize) -> &[P::Word] {
        P::words_of(&self.nodes, node * LINE_BYTES, NODE_WORDS)
    }

    #[inline]
    fn request(&self, RequestId { owner, node }: RequestId) -> &[P::Word] {
        let number = owner * self.node_count + node;
        P::words_of(&self.requests, number * LINE_BYTES, REQUEST_WORDS)
    }

    /// The requests of all other owners.
    fn others(&self, RequestId { owner, node }: RequestId) -> impl Iterator<Item = (usize, &[P::Word])> {
        let all = (0..self.owners).filter(move |other| *other != owner);
        all.map(move |other| (other, self.request(RequestId { owner: other, node })))
    }

    /// Leaves a lock to the owner's next transaction; false if a request waits that it excludes.
    #[inline]
    pub(super) fn bequeath(&self, c: P::Core, id: RequestId, mode: LockMode) -> bool {
        let state = &self.request(id)[STATE];
        // Release: what the transaction did is before what is done by the thread that takes the
        // lock away.
        P::cas(c, state, mode as u64, mode as u64 | INHERITED, Ordering::AcqRel).is_ok()
    }

    /// Takes over what the owner's last transaction has left; false if it was taken away.
    #[inline]
    pub(super) fn take_over(&self, c: P::Core, id: RequestId, mode: LockMode, age: u64) -> bool {
        let words = self.request(id);
        set::<P>(c, &words[AGE], age);
        // Release: pairs with the acquire in `is_blocking`, after which the age is read. Acquire:
        // as after any lock.
        P::cas(c, &words[STATE], mode as u64 | INHERITED, mode as u64, Ordering::AcqRel).is_ok()
    }

    /// Requests a mode. The request waits if it may, and if the transaction allows that.
    ///
    /// Pre: the owner has inherited nothing of the node.
    pub(super) fn request_lock(
        &self,
        c: P::Core,
        waits: &Waits<P>,
        id: RequestId,
        request: NodeRequest,
    ) -> ImmediateAnswer {
        let (words, own) = (self.node(id.node), self.request(id));
        latched::<P, _>(c, words, || {
            let held = granted(get::<P>(c, &own[STATE]));
            let counts = get::<P>(c, &words[COUNTS]) - held.map_or(0, unit);
            let waiting = get::<P>(c, &words[WAITERS]);
            let mut asked = ImmediateAnswer::Granted;
            if waiting != 0 || counts & excluded(request.mode) != 0 {
                let conflicts = self.find_conflicts(c, id, request, held.is_none());
                if !conflicts.is_empty() {
                    asked = waits.decide(c, id.owner, request.age, &conflicts, request.waits);
                }
            }
            if asked != ImmediateAnswer::Refused {
                set::<P>(c, &own[AGE], request.age);
            }
            match asked {
                ImmediateAnswer::Granted => self.give(c, id, request.mode),
                ImmediateAnswer::Waits => {
                    set::<P>(c, &own[WANTED_MODE], request.mode as u64);
                    set::<P>(c, &words[WAITERS], waiting + 1);
                }
                ImmediateAnswer::Refused => {}
            }
            asked
        })
    }

    /// All other requests that conflict with a request, which is new or a conversion. Inherited
    /// locks that exclude it are revoked.
    #[cold]
    fn find_conflicts(
        &self,
        c: P::Core,
        id: RequestId,
        request: NodeRequest,
        is_new: bool,
    ) -> Vec<ConflictingRequest> {
        let conflicts = self.others(id).map(|(owner, words)| {
            let granted = self.is_blocking(c, id.node, words, request.mode);
            let wanted = get::<P>(c, &words[WANTED_MODE]);
            let wanted = wanted != 0 && !LockMode::of(wanted).is_compatible(request.mode);
            // What is marked now does not end without the latch: its age is that of the transaction
            // that has it.
            let rank = self.rank(c, words);
            let own = Rank { is_new, age: request.age };
            ConflictingRequest::of(owner, rank, own, granted, wanted)
        });
        conflicts.filter(ConflictingRequest::matters).collect()
    }

    /// The rank of a request.
    fn rank(&self, c: P::Core, words: &[P::Word]) -> Rank {
        let is_new = granted(get::<P>(c, &words[STATE])).is_none();
        Rank { is_new, age: get::<P>(c, &words[AGE]) }
    }

    /// Returns true if a request is granted in a mode that excludes this one. Revokes it if it is
    /// inherited, and marks it if it is held.
    ///
    /// Pre: the node is latched.
    fn is_blocking(&self, c: P::Core, node: usize, words: &[P::Word], mode: LockMode) -> bool {
        // Acquire: pairs with the release of the thread that took the request over, or left it.
        let mut state = P::load(c, &words[STATE], Ordering::Acquire);
        loop {
            let Some(has) = granted(state).filter(|has| !has.is_compatible(mode)) else { return false };
            let is_inherited = state & INHERITED != 0;
            if is_inherited && self.keeps_inherited {
                return false;
            }
            if state & WANTED != 0 {
                return true;
            }
            let new = if is_inherited { 0 } else { state | WANTED };
            match P::cas(c, &words[STATE], state, new, Ordering::AcqRel) {
                Ok(_) => {
                    if is_inherited {
                        let counts = &self.node(node)[COUNTS];
                        set::<P>(c, counts, get::<P>(c, counts) - unit(has));
                    }
                    return !is_inherited;
                }
                Err(seen) => state = seen,
            }
        }
    }

    /// Grants a mode.
    ///
    /// Pre: the node is latched, and nothing is in the way.
    fn give(&self, c: P::Core, id: RequestId, mode: LockMode) {
        let (words, own) = (self.node(id.node), self.request(id));
        let held = granted(get::<P>(c, &own[STATE])).map_or(0, unit);
        set::<P>(c, &words[COUNTS], get::<P>(c, &words[COUNTS]) - held + unit(mode));
        // Wanted, as far as is known here, when a thread waits.
        let wanted = if get::<P>(c, &words[WAITERS]) == 0 { 0 } else { WANTED };
        set::<P>(c, &own[STATE], mode as u64 | wanted);
    }

    /// A request waits no longer.
    fn retire(&self, c: P::Core, node: &[P::Word], words: &[P::Word]) {
        set::<P>(c, &words[WANTED_MODE], 0);
        set::<P>(c, &node[WAITERS], get::<P>(c, &node[WAITERS]) - 1);
    }

    /// Grants what waits and need not wait any more.
    ///
    /// Pre: the node is latched.
    #[cold]
    fn grant(&self, c: P::Core, waits: &Waits<P>, node: usize) {
        let waiting = (0..self.owners).filter_map(|owner| {
            let words = self.request(RequestId { owner, node });
            let wanted = get::<P>(c, &words[WANTED_MODE]);
            let rank = self.rank(c, words);
            (wanted != 0).then(|| (rank, owner, LockMode::of(wanted)))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(rank, ..)| *rank);
        for (place, (_, owner, mode)) in waiting.iter().enumerate() {
            if !waiting[..place].iter().all(|(.., before)| before.is_compatible(*mode)) {
                continue;
            }
            let id = RequestId { owner: *owner, node };
            let in_the_way = |(_, words)| self.is_blocking(c, node, words, *mode);
            // All of them are checked: each that is in the way is marked.
            let is_free = self.others(id).filter(|other| in_the_way(*other)).count() == 0;
            if is_free && waits.claim(c, *owner) {
                self.retire(c, self.node(node), self.request(id));
                self.give(c, id, *mode);
                // Last: from here on the state is the owner's.
                waits.wake(c, *owner);
            }
        }
    }

    /// Waits until a request is granted.
    pub(super) fn wait(
        &self,
        c: P::Core,
        waits: &Waits<P>,
        id: RequestId,
        deadline: Option<Nanos>,
    ) -> LockAnswer {
        if waits.wait(c, id.owner, deadline) {
            return LockAnswer::Granted;
        }
        let node = self.node(id.node);
        latched::<P, _>(c, node, || {
            let answer = waits.stop(c, id.owner);
            if answer != LockAnswer::Granted {
                self.retire(c, node, self.request(id));
                self.grant(c, waits, id.node);
            }
            answer
        })
    }

    /// Gives a lock back, held or inherited, unless it was taken away.
    pub(super) fn release(&self, c: P::Core, waits: &Waits<P>, id: RequestId) {
        let (node, words) = (self.node(id.node), self.request(id));
        latched::<P, _>(c, node, || {
            let Some(mode) = granted(get::<P>(c, &words[STATE])) else { return };
            set::<P>(c, &words[STATE], 0);
            set::<P>(c, &node[COUNTS], get::<P>(c, &node[COUNTS]) - unit(mode));
            if get::<P>(c, &node[WAITERS]) != 0 {
                self.grant(c, waits, id.node);
            }
        });
    }

    /// The numbers of granted and of waiting requests.
    #[cfg(test)]
    pub(super) fn census(&self, c: P::Core, node: usize) -> (u64, u64) {
        let words = self.node(node);
        let counts = get::<P>(c, &words[COUNTS]);
        let granted = (0..MODES as u32).map(|mode| counts >> (mode * COUNT_BITS) & OWNERS_MAX as u64).sum();
        (granted, get::<P>(c, &words[WAITERS]))
    }
}
