//! What a worker counts for whoever places partitions: what actions cost, and which sub-partitions meet in transactions.
//!
//! The arrays ([`adapt::Arrays`]; ATraPos, section V) are the worker's own: nobody else looks at them, and whoever wants them asks the worker, which
//! gives them away and begins anew. One run of actions in [`SAMPLE`] is measured by the clock, and stands for all of them; and one transaction in so many
//! that touches several sub-partitions is a synchronization point of all of these.

use adapt::{Arrays, MEETINGS_MAX};
use engine::{Procedure, Route};
use platform::{LINE_BYTES, Nanos, Platform, Work};

use crate::map::Map;
use crate::worker::Worker;

/// One in so many is measured. A prime: transactions of two or four runs of actions are not always measured in the same one.
const SAMPLE: u64 = 7;
/// What takes place at a synchronization point: a request, an answer, and how the transaction has ended, each a line.
const MEETING_BYTES: u64 = 3 * LINE_BYTES as u64;
/// Words of a set in the table of those that met.
const MEETING_WORDS: usize = 8;

/// What a worker has counted.
pub(crate) struct Counting {
    arrays: Arrays,
    /// Runs of actions until one is measured.
    until_run: u64,
    /// Transactions of several sub-partitions until one is counted.
    until_meeting: u64,
}

impl Counting {
    fn of(map: &Map) -> Box<Self> {
        let arrays = Arrays::new(map.version(), map.sub_partitions(), MEETINGS_MAX);
        Box::new(Counting { arrays, until_run: 0, until_meeting: 0 })
    }
}

/// Whether it is the turn of one in [`SAMPLE`].
#[inline]
fn is_due(until: &mut u64) -> bool {
    let due = *until == 0;
    *until = if due { SAMPLE - 1 } else { *until - 1 };
    due
}

impl<P: Platform, Q: Procedure> Worker<'_, P, Q> {
    /// Counts from now on.
    pub fn count(&mut self) {
        self.counting = Some(Counting::of(&self.map));
    }

    /// What it has counted since it was last asked, or since the map changed; `None` if it does not count.
    pub fn take_arrays(&mut self) -> Option<Arrays> {
        let counting = self.counting.as_mut()?;
        // New ones are made, and these are handed over.
        let words = self.map.sub_partitions() + MEETINGS_MAX * MEETING_WORDS;
        P::work(self.c, Work::CopyWord, words as u32);
        let empty = Arrays::new(self.map.version(), self.map.sub_partitions(), MEETINGS_MAX);
        Some(std::mem::replace(&mut counting.arrays, empty))
    }

    /// The map is another one.
    pub(crate) fn recount(&mut self) {
        if let Some(counting) = &mut self.counting {
            counting.arrays.clear(self.map.version(), self.map.sub_partitions());
        }
    }

    /// When a run of actions begins, if it is to be measured.
    #[inline]
    pub(crate) fn begin_sample(&mut self) -> Option<Nanos> {
        let counting = self.counting.as_mut()?;
        is_due(&mut counting.until_run).then(|| P::now(self.c))
    }

    /// A run of actions with these homes is over.
    pub(crate) fn end_sample(&mut self, began: Nanos, homes: &[Route]) {
        let Some(counting) = &mut self.counting else { return };
        let nanos = SAMPLE * P::now(self.c).since(began) / homes.len().max(1) as u64;
        P::work(self.c, Work::Step, 2 * homes.len() as u32);
        for home in homes {
            if let Some(sub) = self.map.sub_partition(home) {
                counting.arrays.act(sub, nanos);
            }
        }
    }

    /// A transaction of the worker's own has committed.
    #[inline]
    pub(crate) fn count_meeting(&mut self) {
        let Some(counting) = &mut self.counting else { return };
        let mut subs = self.attempt.routes.entries().iter().filter_map(|route| self.map.sub_partition(route));
        let Some(first) = subs.next() else { return };
        if subs.any(|sub| sub != first) && is_due(&mut counting.until_meeting) {
            let routes = self.attempt.routes.entries();
            P::work(self.c, Work::Step, 4 * routes.len() as u32);
            let met = routes.iter().filter_map(|route| self.map.sub_partition(route));
            counting.arrays.meet(met, SAMPLE, SAMPLE * MEETING_BYTES);
        }
    }
}
