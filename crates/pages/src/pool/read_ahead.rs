//! Pages that scans read before they are requested.
//!
//! A worker that scans names the leaves that come next. Those that no frame has are read into
//! buffers, neighbours in the file by one operation, several operations at a time, each in a
//! [lane](Lane) of its own, which the worker has until the scan ends. When the worker comes to such
//! a page it takes a frame for it, as for any other, and copies the page from the buffer, once it
//! is there and has been verified. No other worker sees the buffers or waits for them: no frame is
//! latched while a page is read ahead. So a page that is read ahead and not used costs time of the
//! device, and nothing else.
//!
//! Meanwhile another worker may have read the page, changed it and written it again.
//! [`Store::writes`] counts writes, in a word that some pages share: a page that was read ahead
//! counts only if that word is as it was before. The page is in no frame at that moment, so all of
//! its writes have ended, and are counted.

use platform::files::{Buffer, Files, Operation};

use super::lanes::{Lane, Lanes, Run};
use super::store::Store;

/// Reads of a worker that are under way at a time, each of some pages.
const LANES: usize = 4;
/// Pages of one read, at most.
const RUN_MAX: usize = 8;
/// A part of the pool: what all sessions together read ahead is no more.
const POOL_PART: usize = 4;

/// A worker's read-ahead.
pub(super) struct ReadAhead<P: Files> {
    lanes: Vec<Lane<P>>,
    /// Pages of one read.
    run_max: usize,
    /// The scan that reads ahead now.
    scan: u64,
}

impl<P: Files> ReadAhead<P> {
    /// No read-ahead, for a worker among `sessions`.
    pub(super) fn new(store: &Store<P>, sessions: usize) -> Self {
        let pages = store.frames() / POOL_PART / sessions.max(1);
        let run_max = if store.file.is_some() { (pages / LANES).min(RUN_MAX) } else { 0 };
        ReadAhead { lanes: Vec::new(), run_max, scan: 0 }
    }

    /// Most pages that are read ahead at a time.
    pub(super) fn most(&self) -> usize {
        self.run_max * LANES
    }

    /// Most pages of one read.
    pub(super) fn run_max(&self) -> usize {
        self.run_max
    }

    /// Begins the read-ahead of another scan.
    pub(super) fn begin_scan(&mut self) {
        self.scan += 1;
    }

    /// Ends the scan: other workers can read ahead.
    pub(super) fn end_scan(&mut self, c: P::Core, store: &Store<P>) {
        if !self.lanes.is_empty() {
            Lanes::give_back(&store.lanes, c, &mut self.lanes);
        }
    }

    /// Returns true if a page was read, or is being read, and not used.
    pub(super) fn has(&self, number: u64) -> bool {
        let runs = self.lanes.iter().filter_map(|lane| lane.run.as_ref());
        runs.into_iter().any(|run| run.place(number).is_some())
    }

    /// A lane without a read: a new one, an idle one, or one whose read has completed for a scan
    /// that is over.
    fn idle_lane(&mut self, c: P::Core, store: &Store<P>) -> Option<&mut Lane<P>> {
        let is_free = |lane: &Lane<P>| lane.run.is_none();
        if let Some(at) = self.lanes.iter().position(is_free) {
            return self.lanes.get_mut(at);
        }
        if self.lanes.len() < LANES
            && let Some(lane) = Lanes::take(&store.lanes, c, store.file.as_ref()?)
        {
            self.lanes.push(lane);
        }
        let scan = self.scan;
        let is_over = |lane: &mut Lane<P>| match &lane.run {
            None => true,
            Some(run) => run.scan != scan && lane.land(c, false),
        };
        let at = self.lanes.iter_mut().position(is_over)?;
        let lane = &mut self.lanes[at];
        lane.clear();
        Some(lane)
    }

    /// Reads pages, which lie one behind the other; false if there is no lane for them.
    pub(super) fn submit(&mut self, c: P::Core, store: &Store<P>, first: u64, count: usize) -> bool {
        let (scan, run_max) = (self.scan, self.run_max);
        let Some(file) = &store.file else { return false };
        let stride = file.stride();
        let Some(lane) = self.idle_lane(c, store) else { return false };
        let buffer = match lane.buffer.take() {
            Some(buffer) => buffer,
            None => match Buffer::new(c, None, run_max * stride, "pages that are read ahead") {
                Ok(buffer) => buffer,
                Err(_) => return false,
            },
        };
        // Counted before the read begins.
        let pages = (first..).take(count).map(|number| Some(store.writes(c, number))).collect();
        lane.run = Some(Run { first, pages, bytes: None, scan });
        let read = Operation::Read { file: file.handle(), offset: file.offset(first), buffer };
        P::submit(c, &mut lane.queue, read);
        true
    }

    /// Delivers a page that was read ahead, if it is as the file has it: `take` receives its bytes,
    /// and returns true if they are the page. False: the page has to be read.
    pub(super) fn take(
        &mut self,
        c: P::Core,
        store: &Store<P>,
        number: u64,
        take: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        let Some(file) = &store.file else { return false };
        let lane = self.lanes.iter_mut().find_map(|lane| {
            let place = lane.run.as_ref()?.place(number)?;
            Some((lane, place))
        });
        let Some((lane, place)) = lane else { return false };
        if !lane.land(c, true) {
            return false;
        }
        let Some(Run { pages, bytes: Some(buffer), .. }) = &mut lane.run else { return false };
        let writes = pages[place].take();
        let from = place * file.stride();
        let bytes = buffer.bytes().get(from..).unwrap_or_default();
        let is_read = writes == Some(store.writes(c, number)) && take(bytes);
        if pages.iter().all(Option::is_none) {
            lane.clear();
        }
        is_read
    }
}
