//! Latches of rows, as the public program of Bang et al., "The full story of 1000 cores", has them
//! under `occ` (DataManagementLab/DBx1000 at 0ada3f6).
//!
//! A transaction that copies a row holds the row's latch meanwhile (`Row_occ::access` of
//! `concurrency_control/row_occ.cpp`). A commit takes the latches of all rows that it has read or
//! written in the order of access, and keeps them to its end. If one is not free it pauses, and
//! aborts after the fourth pause; each row is checked when its latch is taken
//! (`OptCC::per_row_validate` of `concurrency_control/occ/occ.cpp`, `Row_occ::try_latch`). Without
//! the optimisation [`storage::Optimisation::BoundedSpin`] (`BOUNDED_SPINNING` false) it sorts the
//! rows first, and waits for each latch.
//!
//! Latches add their costs, and decide which transaction waits or aborts. Versions of rows decide
//! about correctness, as they do without latches: a commit also locks the version words of rows
//! that it writes, and checks those of rows that it has read. So parts of transactions over several
//! databases, which any worker may finish, use no latches to commit.
//!
//! A row's manager is a line of its own with the latch and the row's time of writing. The word of
//! the header that has this time without latches has the manager's address.

use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform};
use storage::Local;
use terms::{Category, Conflict};

use crate::meter::Meter;
use crate::optimistic::PAUSES_NANOS;
use crate::row_latch::{LatchNode, RowLatch, free_line, new_line, new_node, retire_line};
use crate::timestamps::Timestamp;

/// In place of a manager's address: the row is gone.
const GONE: u64 = 1;

/// The latch of a row, and when the row was written: a line. Zeroed memory is a free one.
#[repr(C, align(64))]
pub(super) struct RowManager<P: Platform> {
    latch: RowLatch<P>,
    /// Written by the holder of the row's version word.
    pub(super) written: P::Word,
}

/// How a transaction takes the latches of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Latching {
    /// Rows have no latches.
    #[default]
    None,
    /// Latches are queues.
    Queues,
    /// Latches are mutexes.
    Mutexes,
}

/// The latches of a transaction; reused from transaction to transaction.
#[derive(Default)]
pub(super) struct RowLatches {
    pub(super) latching: Latching,
    /// Addresses of managers by the number of the row; 0 or missing: none.
    managers: Vec<u64>,
    /// Addresses of nodes, one for each latch that may be held at a time; in no queue.
    nodes: Vec<u64>,
    /// Managers whose latches are held, each with its node.
    held: Vec<(u64, LatchNode)>,
}

impl<P: Platform> RowManager<P> {
    const LINE: () = assert!(size_of::<Self>() == LINE_BYTES);

    /// The manager at this address.
    ///
    /// # Safety
    /// A row's header has named it in the caller's epoch; the result is used no longer.
    unsafe fn at<'m>(address: u64) -> &'m Self {
        let () = Self::LINE;
        // SAFETY: made by `new_line`, and retired with the row.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }
}

/// Sets the time of writing of a row whose header has this word.
pub(super) fn set_written<P: Platform>(c: P::Core, header: &P::Word, Timestamp(time): Timestamp) {
    // Acquire: pairs with the release of the worker that made the manager.
    let address = P::load(c, header, Ordering::Acquire);
    if address > GONE {
        // SAFETY: the caller has the row locked.
        let manager = unsafe { RowManager::<P>::at(address) };
        // Relaxed: published by the row's version.
        P::store(c, &manager.written, time, Ordering::Relaxed);
    }
}

/// Retires the manager of a row that the caller has just taken out of all indexes.
pub(super) fn retire_manager<P: Platform>(c: P::Core, local: &mut Local<P>, header: &P::Word) {
    // AcqRel: acquires the manager, and no worker makes another one.
    let address = P::swap(c, header, GONE, Ordering::AcqRel);
    if address > GONE {
        // SAFETY: the row that names it is retired by this worker, which is in its epoch.
        unsafe { retire_line(c, local, address) };
    }
}

/// Prefetches the manager that a row's header names.
pub(super) fn prefetch_manager<P: Platform>(c: P::Core, header: &P::Word) {
    // Relaxed: nothing is read there.
    let address = P::load(c, header, Ordering::Relaxed);
    if address > GONE {
        P::prefetch(c, std::ptr::without_provenance::<u8>(address as usize), LINE_BYTES, Intent::Read);
    }
}

impl RowLatches {
    /// A transaction begins.
    pub(super) fn begin(&mut self, latching: Latching) {
        self.latching = latching;
        self.managers.clear();
    }

    /// Returns true if rows have latches.
    #[inline(always)]
    pub(super) fn are_used(&self) -> bool {
        self.latching != Latching::None
    }

    /// Notes the manager of a row that was found, and makes it if there is none. False: the row is
    /// gone.
    #[cold]
    pub(super) fn note<P: Platform>(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: usize,
        header: &P::Word,
    ) -> Result<bool, OutOfMemory> {
        // Acquire: pairs with the release below.
        let mut address = P::load(c, header, Ordering::Acquire);
        if address == 0 {
            let made = new_line(c, local)?;
            // AcqRel: publishes the line, or acquires the one of another worker.
            address = P::cas(c, header, 0, made, Ordering::AcqRel).map_or_else(|other| other, |_| made);
            if address != made {
                // SAFETY: made above, and no row names it.
                unsafe { free_line(c, local, made) };
            }
        }
        while self.latching == Latching::Queues && self.nodes.len() <= number {
            self.nodes.push(new_node(c, local)?);
        }
        if self.managers.len() <= number {
            self.managers.resize(number + 1, 0);
        }
        self.managers[number] = if address == GONE { 0 } else { address };
        Ok(address != GONE)
    }

    /// The manager of a row of the transaction.
    ///
    /// # Safety
    /// The result is used within the epoch of the transaction.
    unsafe fn manager<'m, P: Platform>(&self, number: usize) -> Option<(u64, &'m RowManager<P>)> {
        let address = self.managers.get(number).copied().filter(|address| *address != 0)?;
        // SAFETY: noted in the epoch of the transaction.
        Some((address, unsafe { RowManager::at(address) }))
    }

    fn node(&self, place: usize) -> LatchNode {
        match self.latching {
            Latching::Queues => LatchNode::Queue(self.nodes[place]),
            Latching::None | Latching::Mutexes => LatchNode::Mutex,
        }
    }

    /// Copies a row with its latch held, unless the row was written after `began`: `None`.
    /// `version` reads the row's version, which shows whether a transaction without latches came
    /// between.
    pub(super) fn copy<P: Platform, R>(
        &self,
        c: P::Core,
        number: usize,
        Timestamp(began): Timestamp,
        version: impl Fn() -> u64,
        mut copy: impl FnMut() -> R,
    ) -> Option<R> {
        // SAFETY: the transaction is running.
        let Some((_, manager)) = (unsafe { self.manager::<P>(number) }) else { return Some(copy()) };
        let section = || {
            // Relaxed: the version of the row decides about correctness.
            let is_older = || P::load(c, &manager.written, Ordering::Relaxed) <= began;
            let before = version();
            if !is_older() {
                return None;
            }
            let copied = copy();
            // Waiting transactions have taken the manager's line: it is read once.
            (version() == before || is_older()).then_some(copied)
        };
        // SAFETY: the transaction holds no latch while it runs, so the node is in no queue.
        unsafe { manager.latch.read(c, self.node(0), section) }
    }

    /// Takes the latch of a row to commit, and checks that the row was not written after `began`.
    pub(super) fn lock<P: Platform>(
        &mut self,
        c: P::Core,
        meter: &mut Meter,
        number: usize,
        began: Option<Timestamp>,
        waits: bool,
    ) -> Result<(), Conflict> {
        // SAFETY: the transaction is running.
        let Some((address, manager)) = (unsafe { self.manager::<P>(number) }) else { return Ok(()) };
        let node = self.node(self.held.len());
        if waits {
            let before = meter.enter::<P>(c, Category::Wait);
            // SAFETY: a node of its own for each latch that is held.
            unsafe { manager.latch.acquire(c, node) };
            meter.leave::<P>(c, before);
        } else {
            let mut pauses = PAUSES_NANOS.into_iter();
            // SAFETY: as above.
            while !unsafe { manager.latch.try_acquire(c, node) } {
                let Some(nanos) = pauses.next() else { return Err(Conflict::Locked) };
                let before = meter.enter::<P>(c, Category::Wait);
                P::pause(c, nanos);
                meter.leave::<P>(c, before);
            }
        }
        self.held.push((address, node));
        // Relaxed: the version of the row decides about correctness.
        let is_newer = |Timestamp(began)| P::load(c, &manager.written, Ordering::Relaxed) > began;
        if began.is_some_and(is_newer) { Err(Conflict::ReadChanged) } else { Ok(()) }
    }

    /// Releases all latches.
    #[inline(always)]
    pub(super) fn unlock<P: Platform>(&mut self, c: P::Core) {
        if !self.held.is_empty() {
            self.unlock_all::<P>(c);
        }
    }

    #[cold]
    fn unlock_all<P: Platform>(&mut self, c: P::Core) {
        while let Some((address, node)) = self.held.pop() {
            // SAFETY: noted in the epoch of the transaction, which ends after this; acquired with
            // this node.
            unsafe { RowManager::<P>::at(address).latch.release(c, node) };
        }
    }
}
