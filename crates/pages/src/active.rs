//! The list of active transactions, as Shore-MT has it: one list behind one latch, which every
//! transaction enters when it begins and leaves when it ends.
//!
//! Nothing here needs the list; it is there where a database imitates Shore-MT
//! (`PagedOptions::latches_reads`).

use platform::{LINE_BYTES, OutOfMemory, Platform};
use storage::{ActiveEntries, ActiveList, LatchSeat};

/// The transactions that are active.
pub(crate) struct ActiveTransactions<P: Platform> {
    list: ActiveList<P>,
    /// By number of the owner.
    entries: Vec<P::Region>,
}

/// A session's place in the list.
pub(crate) struct ActiveSeat<P: Platform> {
    latch: Option<LatchSeat<P>>,
    /// The owner that has entered the list.
    owner: Option<usize>,
}

impl<P: Platform> Default for ActiveSeat<P> {
    /// Not in the list.
    fn default() -> Self {
        ActiveSeat { latch: None, owner: None }
    }
}

impl<P: Platform> ActiveTransactions<P> {
    /// An empty list with room for this many owners.
    pub(crate) fn new(c: P::Core, owners: usize) -> Result<Self, OutOfMemory> {
        let entries = (0..owners).map(|_| P::region(c, None, 2 * LINE_BYTES, "active transaction"));
        Ok(ActiveTransactions {
            list: ActiveList::new(c, None)?,
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// The transaction of an owner begins.
    pub(crate) fn enter(&self, c: P::Core, seat: &mut ActiveSeat<P>, owner: usize) {
        self.leave(c, seat);
        if seat.latch.is_none() {
            seat.latch = LatchSeat::new(c, None).ok();
        }
        if let Some(latch) = &mut seat.latch {
            self.list.enter(c, latch, &ActiveEntries(&self.entries), owner, owner as u64);
            seat.owner = Some(owner);
        }
    }

    /// The transaction of the session ends, if it has entered the list.
    pub(crate) fn leave(&self, c: P::Core, seat: &mut ActiveSeat<P>) {
        if let (Some(latch), Some(owner)) = (&mut seat.latch, seat.owner.take()) {
            self.list.leave(c, latch, &ActiveEntries(&self.entries), owner);
        }
    }
}
