//! A worker's state in storage: its arena, its epoch announcement, and the blocks that it unlinked
//! and may not reuse yet.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Nanos, Node, OutOfMemory, Platform};

use crate::arena::{Arena, Memory};
use crate::epoch::{Epochs, Participant};
use crate::optimisations::Optimisations;
use terms::Epoch;

/// The date of a block that has none yet.
const UNDATED: Epoch = Epoch(u64::MAX);

struct RetiredBlock {
    /// A global epoch that was read after the block was unlinked.
    date: Epoch,
    block: NonNull<u8>,
    bytes: usize,
}

/// A block that [`Local::lend`] took and that no worker uses. A loan that is not taken back is
/// leaked to the end of the memory.
#[derive(Debug)]
pub struct Loan {
    block: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block belongs to the holder of the loan, and cannot be reached through the loan.
unsafe impl Send for Loan {}

/// The memory of a database that one worker holds.
pub struct Local<P: Platform> {
    arena: Arena<P>,
    epochs: *const Epochs<P>,
    participant: Participant,
    /// Unlinked blocks in the order of their dates; the last [`Self::undated`] have no date yet.
    retired: VecDeque<RetiredBlock>,
    undated: usize,
    /// The horizon when the worker entered in its epoch.
    horizon: Epoch,
    optimisations: Optimisations,
}

// SAFETY: `epochs` is Sync and outlives the value (see `Local::new`); retired blocks belong to the
// holder of the value.
unsafe impl<P: Platform> Send for Local<P> {}

impl<P: Platform> Local<P> {
    /// Worker number `worker`, with memory on `node`.
    ///
    /// # Safety
    /// `memory` and `epochs` stay at their places and outlive the value, and no other `Local` has
    /// this number.
    pub unsafe fn new(memory: &Memory<P>, epochs: &Epochs<P>, worker: usize, node: Option<Node>) -> Self {
        Local {
            // SAFETY: passed on to the caller.
            arena: unsafe { Arena::new(memory, worker, node) },
            epochs,
            participant: Participant::new(worker),
            optimisations: memory.optimisations(),
            retired: VecDeque::new(),
            undated: 0,
            horizon: Epoch(0),
        }
    }

    fn epochs(&self) -> &Epochs<P> {
        // SAFETY: `new` demands that the epochs outlive the value.
        unsafe { &*self.epochs }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.participant.worker()
    }

    /// The epoch that the worker has entered in; the global epoch may be later, by any number.
    /// Panics when idle.
    pub fn epoch(&self) -> Epoch {
        self.participant.epoch()
    }

    /// No worker that is inside, or ever will be, has entered in an epoch before this one: the
    /// horizon at the moment at which this worker entered in its epoch.
    #[inline(always)]
    pub fn horizon(&self) -> Epoch {
        self.horizon
    }

    /// Draws the epoch of a commit; see [`Participant::announce_commit`]. The epoch is not complete
    /// before [`Self::retract_commit`], [`Self::enter`] or [`Self::leave`].
    #[inline]
    pub fn announce_commit(&mut self, c: P::Core) -> Epoch {
        // SAFETY: `new` demands that the epochs outlive the value; the borrow ends with the
        // statement.
        let epochs = unsafe { &*self.epochs };
        self.participant.announce_commit(c, epochs)
    }

    /// The epoch of the commit under way.
    pub fn announced_commit(&self) -> Option<Epoch> {
        self.participant.announced_commit()
    }

    /// The commit, if one was announced, has left all that it has to leave.
    #[inline]
    pub fn retract_commit(&mut self, c: P::Core) {
        // SAFETY: as in `announce_commit`.
        let epochs = unsafe { &*self.epochs };
        self.participant.retract_commit(c, epochs);
    }

    /// The shared epochs.
    pub fn epochs_shared(&self) -> &Epochs<P> {
        self.epochs()
    }

    /// Begins a transaction: everything found from now on stays readable until the next `enter` or
    /// `leave`.
    #[inline]
    pub fn enter(&mut self, c: P::Core) {
        // SAFETY: `new` demands that the epochs outlive the value; the borrow ends with the
        // statement.
        let epochs = unsafe { &*self.epochs };
        if self.participant.enter(c, epochs) {
            self.reclaim(c);
        }
    }

    /// Becomes idle: nothing found before may be used any more.
    pub fn leave(&mut self, c: P::Core) {
        // SAFETY: as in `enter`.
        let epochs = unsafe { &*self.epochs };
        self.participant.leave(c, epochs);
        self.arena.publish();
        if self.undated > 0 {
            // SeqCst: `D` of the text of `epoch`, between the unlinking and the reading of the
            // date.
            P::fence(c, Ordering::SeqCst);
            let date = epochs.current(c);
            self.date(date);
        }
    }

    /// True between `enter` and `leave`.
    pub fn inside(&self) -> bool {
        self.participant.inside()
    }

    /// Advances the epoch if it is time, and has memory provided ahead: see [`Arena::tend`].
    #[inline]
    pub fn tend(&mut self, c: P::Core, now: Nanos) {
        self.epochs().tend(c, now);
        self.arena.tend(c);
    }

    /// A block with arbitrary contents; see [`Arena::allocate`].
    #[inline]
    pub fn allocate(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        self.arena.allocate(c, bytes)
    }

    /// Blocks of one length; see [`Arena::allocate_several`].
    #[inline]
    pub fn allocate_several(
        &mut self,
        c: P::Core,
        bytes: usize,
        blocks: &mut [NonNull<u8>],
    ) -> Result<(), OutOfMemory> {
        self.arena.allocate_several(c, bytes, blocks)
    }

    /// A block with arbitrary contents that begins with a line; see [`Arena::allocate_lines`].
    pub fn allocate_lines(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        self.arena.allocate_lines(c, bytes)
    }

    /// The optimisations that the instance has.
    #[inline(always)]
    pub fn optimisations(&self) -> Optimisations {
        self.optimisations
    }

    /// A block that no worker uses, for as long as the loan lasts.
    pub fn lend(&mut self, c: P::Core, bytes: usize) -> Result<Loan, OutOfMemory> {
        Ok(Loan { block: self.arena.allocate(c, bytes)?, bytes })
    }

    /// Takes back blocks that workers of the same memory have lent.
    ///
    /// # Safety
    /// The loans come from the same [`Memory`].
    pub unsafe fn take_back(&mut self, c: P::Core, loans: impl Iterator<Item = Loan>) {
        // SAFETY: allocated by `lend` with these sizes, and no core has ever seen the blocks.
        unsafe { self.arena.free_all(c, loans.map(|loan| (loan.block, loan.bytes))) };
    }

    /// Has memory ready: see [`Arena::get_ready`].
    pub fn get_ready(&mut self, c: P::Core) {
        self.arena.get_ready(c);
    }

    /// Has memory provided for what is to come: see [`Arena::provide`].
    pub fn provide(&mut self, c: P::Core, bytes: usize) -> usize {
        self.arena.provide(c, bytes)
    }

    /// Bytes that were not used before and are now, or were.
    pub fn bytes_cut(&self) -> u64 {
        self.arena.bytes_cut()
    }

    /// Gives back a block that was never published.
    ///
    /// # Safety
    /// As [`Arena::free`].
    pub unsafe fn free(&mut self, c: P::Core, block: NonNull<u8>, bytes: usize) {
        // SAFETY: passed on to the caller.
        unsafe { self.arena.free(c, block, bytes) };
    }

    /// Gives back a block that was unlinked but that other cores may still read: the block is
    /// reused when no core can read it any more.
    ///
    /// # Safety
    /// As [`Arena::free`], but cores that found the block before it was unlinked may read it until
    /// they leave their epoch.
    pub unsafe fn retire(&mut self, _: P::Core, block: NonNull<u8>, bytes: usize) {
        self.retired.push_back(RetiredBlock { date: UNDATED, block, bytes });
        self.undated += 1;
    }

    /// Blocks that wait for their epoch to pass.
    pub fn retired_blocks(&self) -> usize {
        self.retired.len()
    }

    /// Bytes in blocks handed out by this worker and not reclaimed by it; only the sum over all
    /// workers means something.
    pub fn bytes_live(&self) -> u64 {
        self.arena.bytes_live()
    }

    /// Dates what has no date yet.
    fn date(&mut self, date: Epoch) {
        let first = self.retired.len() - self.undated;
        self.retired.range_mut(first..).for_each(|retired| retired.date = date);
        self.undated = 0;
    }

    /// The worker has entered anew: its epoch was read after a fence behind everything that it
    /// unlinked before.
    #[cold]
    fn reclaim(&mut self, c: P::Core) {
        self.arena.publish();
        self.date(self.participant.epoch());
        self.horizon = self.epochs().horizon(c);
        while self.retired.front().is_some_and(|oldest| oldest.date < self.horizon) {
            if let Some(oldest) = self.retired.pop_front() {
                // SAFETY: `retire` demanded a proper block, and all workers have left that entered
                // before the block was unlinked: no core can reach it any more.
                unsafe { self.arena.free(c, oldest.block, oldest.bytes) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn retired_blocks_wait_for_readers() {
        let c = Hardware::core();
        let memory = Memory::<Hardware>::new(c, 1 << 30).expect("memory");
        let epochs = Epochs::new(c, 2, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after; the numbers differ.
        let (mut writer, mut reader) =
            unsafe { (Local::new(&memory, &epochs, 0, None), Local::new(&memory, &epochs, 1, None)) };
        writer.enter(c);
        reader.enter(c);
        let block = writer.allocate(c, 64).expect("memory");
        // SAFETY: allocated above; the reader below never touches it.
        unsafe { writer.retire(c, block, 64) };
        for _ in 0..10 {
            assert!(epochs.try_advance(c), "a worker inside does not hold the epoch");
            writer.enter(c);
        }
        assert_eq!(writer.retired_blocks(), 1, "the reader is still inside");
        for _ in 0..10 {
            reader.enter(c);
            writer.enter(c);
            epochs.try_advance(c);
        }
        assert_eq!(writer.retired_blocks(), 0);
        assert_eq!(writer.allocate(c, 64).expect("memory"), block);
    }

    #[test]
    fn blocks_of_an_idle_worker_grow_older() {
        let c = Hardware::core();
        let memory = Memory::<Hardware>::new(c, 1 << 30).expect("memory");
        let epochs = Epochs::new(c, 1, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after.
        let mut worker = unsafe { Local::new(&memory, &epochs, 0, None) };
        worker.enter(c);
        let block = worker.allocate(c, 64).expect("memory");
        // SAFETY: allocated above; no core reads it.
        unsafe { worker.retire(c, block, 64) };
        worker.leave(c);
        assert!(epochs.try_advance(c) && epochs.try_advance(c));
        worker.enter(c);
        assert_eq!(worker.allocate(c, 64).expect("memory"), block, "dated when the worker left");
    }
}
