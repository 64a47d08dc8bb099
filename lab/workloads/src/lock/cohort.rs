//! A hierarchical lock: the cohort lock C-TKT-TKT of Dice, Marathe and Shavit, "Lock cohorting: a
//! general technique for designing NUMA locks", PPoPP 2012.
//!
//! Each island has a ticket lock, and there is one ticket lock above them. The holder of both
//! passes the upper one on with the lower one, as long as a thread of its island waits, and at most
//! [`HANDOVERS_MAX`] times in a row. A ticket lock fits above, because a thread may release it that
//! has not acquired it, and below, because it shows whether a thread waits.

use std::sync::atomic::Ordering;

use platform::{Node, OutOfMemory, Platform};

use super::locks::{Lock, await_turn};
use super::types::{LockSpec, LockThread};
use crate::lines::Lines;

/// Handovers within an island before the other islands get their turn. The library with which the
/// benchmark is compared has the same bound for its hierarchical ticket lock (libslock,
/// `NB_TICKETS_LOCAL`).
pub(super) const HANDOVERS_MAX: u64 = 128;

/// Words of an island's lock.
const NEXT: usize = 0;
const SERVED: usize = 1;
/// 1 if the next holder of the island's lock inherits the upper one.
const INHERITED: usize = 2;
/// Handovers in a row so far.
const HANDOVERS: usize = 3;

/// C-TKT-TKT.
pub(super) struct Cohort<'a, P: Platform> {
    upper: Lines<P>,
    /// The locks of each island, on its memory node.
    islands: Vec<Lines<P>>,
    threads: &'a [LockThread],
}

impl<'a, P: Platform> Cohort<'a, P> {
    pub(super) fn new(c: P::Core, spec: &'a LockSpec) -> Result<Self, OutOfMemory> {
        let node = |island: usize| -> Option<Node> {
            spec.threads.iter().find(|thread| thread.island == island).and_then(|thread| thread.node)
        };
        let lower = |island: usize| Lines::new(c, node(island), spec.locks, "ticket locks of an island");
        Ok(Cohort {
            upper: Lines::new(c, spec.home(), spec.locks, "ticket locks above islands")?,
            islands: (0..spec.islands()).map(lower).collect::<Result<_, _>>()?,
            threads: &spec.threads,
        })
    }
}

impl<P: Platform> Lock<P> for Cohort<'_, P> {
    /// The thread's island.
    type ThreadState = usize;

    fn thread_state(&self, _: P::Core, number: usize) -> Result<usize, OutOfMemory> {
        Ok(self.threads[number].island)
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, island: &mut usize, body: impl FnOnce()) -> u64 {
        let lower = |word: usize| self.islands[*island].word(lock, word);
        let ticket = await_turn::<P>(c, lower(NEXT), lower(SERVED), 0);
        // Relaxed, here and below unless noted: ordered by the lower lock.
        if P::load(c, lower(INHERITED), Ordering::Relaxed) == 0 {
            await_turn::<P>(c, self.upper.word(lock, NEXT), self.upper.word(lock, SERVED), 0);
        }
        body();
        let handovers = P::load(c, lower(HANDOVERS), Ordering::Relaxed);
        // Relaxed: a waiter that is missed here gets the lower lock and inherits nothing.
        let waiting = P::load(c, lower(NEXT), Ordering::Relaxed) != ticket.wrapping_add(1);
        let inherits = waiting && handovers < HANDOVERS_MAX;
        P::store(c, lower(HANDOVERS), if inherits { handovers + 1 } else { 0 }, Ordering::Relaxed);
        P::store(c, lower(INHERITED), u64::from(inherits), Ordering::Relaxed);
        if !inherits {
            let served = self.upper.word(lock, SERVED);
            // Relaxed: only the holder changes it.
            let turn = P::load(c, served, Ordering::Relaxed);
            // Release: pairs with the acquire of the next holder, of any island.
            P::store(c, served, turn.wrapping_add(1), Ordering::Release);
        }
        // Release: pairs with the acquire of the next holder of this island.
        P::store(c, lower(SERVED), ticket.wrapping_add(1), Ordering::Release);
        0
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        // Behind the two words of the upper lock.
        self.upper.word(lock, SERVED + 1 + word)
    }
}
