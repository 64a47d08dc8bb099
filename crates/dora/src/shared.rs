//! State that all owners of partitions share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform};
use storage::Latched;
use terms::{Faults, Stamp};

use crate::central::{Central, Sharing};
use crate::inbox::{Inbox, SPIN_NANOS};
use crate::map::Map;

/// The node and socket of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its memory node.
    pub node: Option<Node>,
    /// Its socket.
    pub socket: u32,
}

/// Lines of the words that all share.
const VERSION: usize = 0;
const LEAVING: usize = 1;
const GONE: usize = 2;
const STAMPS: usize = 3;
const LINES: usize = 4;

/// State that all workers share.
pub struct Shared<P: Platform> {
    pub(crate) central: Central<P>,
    pub(crate) inboxes: Vec<Inbox<P>>,
    map: Latched<P, Arc<Map>>,
    words: P::Region,
    pub(crate) faults: Faults,
    /// How long a worker spins for a message before it sleeps.
    pub(crate) spin_nanos: u64,
}

impl<P: Platform> Shared<P> {
    /// The state of workers at these sites, which own the partitions of the map.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(c: P::Core, sites: &[Site], map: Map, sharing: Sharing) -> Result<Self, OutOfMemory> {
        let workers: Vec<_> = sites.iter().map(|site| (site.node, site.socket)).collect();
        let inbox = |(node, _): &(Option<Node>, u32)| Inbox::new(c, *node, sites.len());
        Ok(Shared {
            central: Central::new(c, &workers, sharing)?,
            inboxes: workers.iter().map(inbox).collect::<Result<_, _>>()?,
            map: Latched::new(c, "map of partitions", Arc::new(map))?,
            words: P::region(c, None, LINES * LINE_BYTES, "owners of partitions")?,
            faults: Faults::NONE,
            spin_nanos: SPIN_NANOS,
        })
    }

    /// The same with these rules faults: for tests.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Shared { faults, ..self }
    }

    /// The same, whose workers sleep as soon as there is no message, as those of the published
    /// system do (docs/like-shore-mt.md): for workers that share their hardware threads.
    #[must_use]
    pub fn sleeping_at_once(self) -> Self {
        Shared { spin_nanos: 0, ..self }
    }

    /// Workers.
    pub fn workers(&self) -> usize {
        self.inboxes.len()
    }

    fn word(&self, line: usize) -> &P::Word {
        P::word_of(&self.words, line * LINE_BYTES)
    }

    /// The version of the map. It does not change while a transaction is active.
    #[inline]
    pub(crate) fn version(&self, c: P::Core) -> u64 {
        // Relaxed: the lock of the map orders it.
        P::load(c, self.word(VERSION), Ordering::Relaxed)
    }

    /// The map.
    pub(crate) fn map(&self, c: P::Core) -> Arc<Map> {
        self.map.with(c, |map| Arc::clone(map))
    }

    /// The largest stamp of all workers when the map last changed.
    pub(crate) fn stamps_before(&self, c: P::Core) -> Stamp {
        // Relaxed: the lock of the map orders it.
        Stamp(P::load(c, self.word(STAMPS), Ordering::Relaxed))
    }

    /// Another map from here on; all workers together have given no larger stamp than this one.
    /// Pre: the lock of the map is held alone.
    pub(crate) fn set_map(&self, c: P::Core, map: Map, stamps_before: Stamp) {
        let version = map.version();
        if stamps_before > Stamp(0) {
            // Relaxed: the lock of the map orders it.
            P::store(c, self.word(STAMPS), stamps_before.0, Ordering::Relaxed);
        }
        self.map.with(c, |old| *old = Arc::new(map));
        // Relaxed: the lock of the map orders it.
        P::store(c, self.word(VERSION), version, Ordering::Relaxed);
    }

    /// A worker begins no transaction any more.
    pub(crate) fn leave(&self, c: P::Core) {
        // AcqRel: a worker that sees that all have left sees all that they have sent.
        P::fetch_add(c, self.word(LEAVING), 1, Ordering::AcqRel);
    }

    /// Returns true if no worker begins a transaction any more.
    pub(crate) fn have_all_left(&self, c: P::Core) -> bool {
        P::load(c, self.word(LEAVING), Ordering::Acquire) == self.workers() as u64
    }

    /// A worker is gone that others may wait for.
    pub(crate) fn lose(&self, c: P::Core) {
        // Relaxed: nothing but the fact is handed on.
        P::store(c, self.word(GONE), 1, Ordering::Relaxed);
    }

    /// Returns true if a worker is gone.
    pub(crate) fn has_lost(&self, c: P::Core) -> bool {
        P::load(c, self.word(GONE), Ordering::Relaxed) != 0
    }
}
