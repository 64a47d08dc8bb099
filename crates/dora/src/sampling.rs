//! A worker's counts for the placement of partitions: costs of actions, and sub-partitions that
//! transactions synchronize.
//!
//! The arrays ([`repartitioning::Arrays`]; ATraPos, section V) are the worker's own: no other
//! worker reads them, and another worker that needs them requests them of this worker, which hands
//! them over and begins anew. All actions are counted, by the table that they belong to and by the
//! worker that requested them; one run of actions in [`SAMPLE`] is measured by the clock. Of
//! transactions that touch several sub-partitions one in this many is a synchronization point of
//! all of these.

use platform::{LINE_BYTES, Nanos, Platform, Work};
use repartitioning::{Arrays, SYNCHRONIZATION_SETS_MAX};
use schema::Route;

use crate::counting::{Counting, For, SAMPLE, class, empty, is_due};
use crate::map::Map;
use crate::worker::{Attempt, OwnerWorker};

/// Bytes of a synchronization point: a request, an answer, and the end of the transaction, each a
/// line.
const SYNCHRONIZATION_BYTES: u64 = 3 * LINE_BYTES as u64;
/// Words of a set in the table of sets that were synchronized.
const SET_WORDS: usize = 8;

impl<P: Platform> OwnerWorker<'_, P> {
    /// Counts from now on.
    pub fn count(&mut self) {
        self.counting = Some(Counting::of(&self.map));
    }

    /// Counts since they were last taken, or since the map changed; `None` if it does not count.
    pub fn take_arrays(&mut self) -> Option<Arrays> {
        let counting = self.counting.as_mut()?;
        // New ones are made, and these are handed over.
        P::work(self.c, Work::CopyWord, words(&self.map));
        Some(std::mem::replace(&mut counting.arrays, empty(&self.map)))
    }

    /// The map is another one.
    pub(crate) fn recount(&mut self) {
        if let Some(counting) = &mut self.counting {
            P::work(self.c, Work::CopyWord, words(&self.map));
            counting.arrays.clear(self.map.version(), self.map.sub_partitions());
        }
    }

    /// When a run of actions begins, if it is to be measured.
    #[inline]
    pub(crate) fn begin_sample(&mut self) -> Option<Nanos> {
        let counting = self.counting.as_mut()?;
        is_due(&mut counting.until_run).then(|| P::now(self.c))
    }

    /// When a poll for a message begins, if the next message is to be measured: taking it is part
    /// of its cost.
    #[inline]
    pub(crate) fn begin_poll(&self) -> Option<Nanos> {
        let counting = self.counting.as_ref()?;
        (counting.until_message == 0).then(|| P::now(self.c))
    }

    /// A message has come: when its cost for this worker began, if it is to be measured.
    #[inline]
    pub(crate) fn end_poll(&mut self, polled: Option<Nanos>) -> Option<Nanos> {
        let counting = self.counting.as_mut()?;
        is_due(&mut counting.until_message).then_some(polled).flatten()
    }

    /// The end of another worker's transaction began then and is over: its time belongs to the
    /// actions of the transaction, by the class of which it is known.
    pub(crate) fn end_their_end(&mut self, began: Option<Nanos>, class: Option<usize>) {
        if let (Some(began), Some(class), Some(counting)) = (began, class, &mut self.counting) {
            counting.arrays.measure(class, 0, P::now(self.c).since(began));
        }
    }

    /// Waits for a message, but not for long, and counts how long there was nothing to do.
    pub(crate) fn rest(&mut self, nanos: u64) {
        let waited = self.wait(nanos);
        if let Some(counting) = &mut self.counting {
            counting.arrays.rest(waited);
        }
    }

    /// The same while answers are missing.
    pub(crate) fn wait_for_answers(&mut self, nanos: u64) {
        let waited = self.wait(nanos);
        if let Some(counting) = &mut self.counting {
            counting.arrays.wait(waited);
        }
    }

    fn wait(&self, nanos: u64) -> u64 {
        let began = P::now(self.c);
        self.post.wait(began.plus(nanos));
        P::now(self.c).since(began)
    }

    /// Some actions, of which this is the first one's home, began then and are over.
    pub(crate) fn end_sample(&mut self, began: Nanos, home: Option<Route>, actions: usize, whose: For) {
        if let (Some(counting), Some(home)) = (&mut self.counting, home) {
            let nanos = P::now(self.c).since(began);
            counting.arrays.measure(class(&home, whose), actions as u64, nanos);
        }
    }

    /// The actions of the phase that belong to this worker run.
    #[inline]
    pub(crate) fn count_own(&mut self) {
        let Some(counting) = &mut self.counting else { return };
        P::work(self.c, Work::Step, 2 * self.attempt.ends.len() as u32);
        homes(&self.attempt, self.me).for_each(|home| counting.act(&self.map, home, For::Own));
    }

    /// Counts the actions of the phase that were requested from others.
    pub(crate) fn count_requested(&mut self) {
        let Some(counting) = &mut self.counting else { return };
        P::work(self.c, Work::Step, 2 * self.attempt.ends.len() as u32);
        let of_others = homes_where(&self.attempt, |owner| owner != self.me);
        of_others
            .filter_map(|home| self.map.sub_partition(home))
            .for_each(|sub| counting.arrays.count_request(sub));
    }

    /// Another worker's action with this home has come.
    #[inline]
    pub(crate) fn count_other(&mut self, home: Option<&Route>) {
        if let (Some(counting), Some(home)) = (&mut self.counting, home) {
            P::work(self.c, Work::Step, 2);
            counting.act(&self.map, home, For::Other);
        }
    }

    /// A transaction of the worker's own has committed.
    #[inline]
    pub(crate) fn count_synchronization(&mut self) {
        let Some(counting) = &mut self.counting else { return };
        let mut subs = self.attempt.routes.entries().iter().filter_map(|route| self.map.sub_partition(route));
        let Some(first) = subs.next() else { return };
        if subs.any(|sub| sub != first) && is_due(&mut counting.until_synchronization) {
            let routes = self.attempt.routes.entries();
            P::work(self.c, Work::Step, 4 * routes.len() as u32);
            let subs = routes.iter().filter_map(|route| self.map.sub_partition(route));
            counting.arrays.count_synchronization(subs, SAMPLE, SAMPLE * SYNCHRONIZATION_BYTES);
        }
    }
}

/// Words of a worker's arrays: a count of 32 bits by sub-partition and class, of which a table has
/// two, and one by sub-partition of the requested actions; and the sets that were synchronized.
fn words(map: &Map) -> u32 {
    let counts = map.sub_partitions() * (2 * map.tables() + 1);
    (counts.div_ceil(2) + SYNCHRONIZATION_SETS_MAX * SET_WORDS) as u32
}

/// The homes of the actions of the phase that belong to this worker.
pub(crate) fn homes(attempt: &Attempt, me: u16) -> impl Iterator<Item = &Route> {
    homes_where(attempt, move |owner| owner == me)
}

/// The homes of the actions of the phase that belong to such owners.
fn homes_where(attempt: &Attempt, is_such: impl Fn(u16) -> bool) -> impl Iterator<Item = &Route> {
    let begins = std::iter::once(&attempt.from).chain(&attempt.ends);
    let all = begins.zip(&attempt.ends).zip(&attempt.owners);
    let own = all.filter(move |((begin, end), owner)| is_such(**owner) && begin < end);
    own.map(|((begin, _), _)| &attempt.routes.entries()[*begin])
}
