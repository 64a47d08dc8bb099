//! Consolidation of reservations: workers that reserve space in the log at the same time form a
//! group, and one of them reserves for all by one atomic step on the end of the log.
//!
//! After the consolidation array of Aether (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki,
//! PVLDB 2010, appendix A.2), as Shore-MT has it (`log_core.cpp`: `_join_slot`, `insert`).
//!
//! **Protocol.** A slot has a word with the *cell* of its open group, the group's members, and
//! their bytes. A worker joins by adding itself and its bytes; the sum from before is its offset in
//! the group. The first member of a group leads it. The leader waits for its *turn*, until the
//! leader of the group before has reserved; meanwhile the group grows. Then the leader closes the
//! group: it swaps in an empty one with another cell. It reserves for the sum, and publishes the
//! beginning in the cell of its group, where the other members wait for it. The last member that
//! has read the cell frees it.
//!
//! Each worker fills its own part of the space. It has opened its window before it joins, so that
//! the end of a group on the disk waits for each worker's record (decoupled fill).
//! No space: all members learn it, close their windows and make room.
//!
//! **Progress.** A leader waits for leaders only: a member that is not running delays no other
//! worker, as it holds nothing but a cell. There are as many cells as workers and slots together.
//! Each slot has one for its open group, and each worker is in one group at most, the searching
//! leader in an open one. So one is always free.
//!
//! **Deviations.**
//! - A slot serves workers of one memory node, so that only the leader's step on the end of the log
//!   crosses sockets. The published machine has one socket. Shore-MT lets 64 hardware threads
//!   share five slots (`SLOT_ACTIVE_COUNT`), hence [`SLOT_WORKERS`].
//! - One slot alone would move as often from core to core as the end of the log does without it:
//!   published reservations hold a mutex meanwhile, these are one atomic step. So there is no array
//!   unless there are two slots.
//! - The latch that leaders wait for is the slot's: the end of the log is one word, and one atomic
//!   step moves it.
//! - A worker joins by an addition, which never fails, instead of a compare and swap. The bytes of
//!   all workers together are limited instead ([`ConsolidationArray::bytes_max`]).
//! - A member leaves its cell when it has read the cell, not when it has filled its space: windows
//!   say when the space is filled.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};

use crate::limits::OWNERS_MAX;

/// Workers that share a slot: 64 hardware threads share five in Shore-MT.
const SLOT_WORKERS: usize = 13;

/// The longest record that is reserved in a group. Members wait for the leader, not for each
/// other's copies, so the limit only bounds a group.
const BYTES_MAX: u64 = 4 << 10;

/// States of a cell; any other value is the beginning of a group.
const FREE: u64 = 0;
/// The group is open, or closed and without space yet.
const PENDING: u64 = 1;
/// There is no space for the group.
const FULL: u64 = 2;

/// Words of a cell: its state, and the number of members that have not read it.
const STATE: usize = 0;
const LEFT: usize = 8;

const BYTES_BITS: u32 = 32;
const MEMBERS_BITS: u32 = 16;

const CELL_BITS: u32 = 15;

// One worker more than sessions writes records; each slot has a cell, and so has each worker.
const _: () = assert!(2 * (OWNERS_MAX + 1) < 1 << CELL_BITS);
const _: () = assert!(BYTES_BITS + MEMBERS_BITS + CELL_BITS + 1 == u64::BITS);
const _: () = assert!(OWNERS_MAX as u64 * BYTES_MAX < 1 << BYTES_BITS);

/// The word of a slot: the parity and the cell of the open group, its members, and their bytes.
#[derive(Clone, Copy)]
struct OpenGroup(u64);

impl OpenGroup {
    fn empty(parity: u64, cell: usize) -> Self {
        OpenGroup((parity << CELL_BITS | cell as u64) << (BYTES_BITS + MEMBERS_BITS))
    }

    /// Alternates from group to group of a slot.
    fn parity(self) -> u64 {
        self.0 >> (u64::BITS - 1)
    }

    fn cell(self) -> usize {
        (self.0 >> (BYTES_BITS + MEMBERS_BITS)) as usize & ((1 << CELL_BITS) - 1)
    }

    fn members(self) -> u64 {
        self.0 >> BYTES_BITS & ((1 << MEMBERS_BITS) - 1)
    }

    fn bytes(self) -> u64 {
        self.0 & ((1 << BYTES_BITS) - 1)
    }
}

/// A member's part of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupPart {
    /// The beginning of the member's space; none: there is no space.
    pub start: Option<u64>,
    /// True if the group has other members.
    pub is_shared: bool,
}

/// Slots in which workers form groups.
pub(super) struct ConsolidationArray<P: Platform> {
    /// Two lines for each slot: its word, and the parity of the group whose leader has its turn.
    slots: P::Region,
    slots_per_node: usize,
    nodes: usize,
    /// A line for each cell.
    cells: P::Region,
    cell_count: usize,
    bytes_max: u64,
}

impl<P: Platform> ConsolidationArray<P> {
    /// Slots for these workers, on this number of memory nodes, if they need more than one. `room`
    /// bytes can be reserved at once.
    pub(super) fn new(
        c: P::Core,
        workers: usize,
        nodes: usize,
        room: u64,
    ) -> Result<Option<Self>, OutOfMemory> {
        let nodes = nodes.clamp(1, workers);
        let slots_per_node = workers.div_ceil(nodes).div_ceil(SLOT_WORKERS);
        let slot_count = nodes * slots_per_node;
        if slot_count == 1 {
            return Ok(None);
        }
        let cell_count = workers + slot_count;
        let array = ConsolidationArray {
            slots: P::region(c, None, 2 * slot_count * LINE_BYTES, "slots of the log")?,
            slots_per_node,
            nodes,
            cells: P::region(c, None, cell_count * LINE_BYTES, "groups of the log")?,
            cell_count,
            bytes_max: BYTES_MAX.min(room / workers as u64),
        };
        for slot in 0..slot_count {
            let cell = array.first_cell(slot);
            // Relaxed, both: no worker has begun.
            P::store(c, array.cell(cell, STATE), PENDING, Ordering::Relaxed);
            P::store(c, array.group(slot), OpenGroup::empty(0, cell).0, Ordering::Relaxed);
        }
        Ok(Some(array))
    }

    /// The longest record that is reserved in a group: all workers together have room.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The slot of a worker on the node at this position among the nodes, if it is known.
    pub(super) fn slot(&self, worker: usize, node: Option<usize>) -> usize {
        let node = node.unwrap_or(worker) % self.nodes;
        node * self.slots_per_node + worker % self.slots_per_node
    }

    fn group(&self, slot: usize) -> &P::Word {
        P::word_of(&self.slots, 2 * slot * LINE_BYTES)
    }

    fn turn(&self, slot: usize) -> &P::Word {
        P::word_of(&self.slots, (2 * slot + 1) * LINE_BYTES)
    }

    fn cell(&self, cell: usize, word: usize) -> &P::Word {
        P::word_of(&self.cells, cell * LINE_BYTES + word)
    }

    /// Cells that a slot uses in turn while they are free: workers of other nodes use others.
    fn cells_per_slot(&self) -> usize {
        self.cell_count / (self.nodes * self.slots_per_node)
    }

    fn first_cell(&self, slot: usize) -> usize {
        slot * self.cells_per_slot()
    }

    /// Reserves `bytes` bytes, up to [`Self::bytes_max`], together with other workers of the slot;
    /// `reserve` reserves for all of them.
    pub(super) fn reserve(
        &self,
        c: P::Core,
        slot: usize,
        bytes: u64,
        reserve: impl FnOnce(u64) -> Option<u64>,
    ) -> GroupPart {
        // AcqRel: pairs with the swap that opened the group: its cell is pending.
        let before = P::fetch_add(c, self.group(slot), 1 << BYTES_BITS | bytes, Ordering::AcqRel);
        let before = OpenGroup(before);
        match before.members() {
            0 => self.lead(c, slot, before, reserve),
            _ => self.follow(c, before),
        }
    }

    fn lead(
        &self,
        c: P::Core,
        slot: usize,
        opened: OpenGroup,
        reserve: impl FnOnce(u64) -> Option<u64>,
    ) -> GroupPart {
        let (cell, next_parity) = (opened.cell(), 1 - opened.parity());
        let next = self.claim(c, slot, cell);
        let turn = self.turn(slot);
        // Two parities are enough: one leader at a time waits, as the next group is opened by this
        // one. Acquire: pairs with the release of the leader before.
        P::spin_while(c, turn, next_parity, None);
        // AcqRel: pairs with workers that join.
        let opened = OpenGroup::empty(next_parity, next);
        let closed = OpenGroup(P::swap(c, self.group(slot), opened.0, Ordering::AcqRel));
        let start = reserve(closed.bytes());
        let is_shared = closed.members() > 1;
        if is_shared {
            // Relaxed: the next store publishes it.
            P::store(c, self.cell(cell, LEFT), closed.members() - 1, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of members that wait, and of the leader that claims the
        // cell.
        let state = if is_shared { start.unwrap_or(FULL) } else { FREE };
        P::store(c, self.cell(cell, STATE), state, Ordering::Release);
        // Release: pairs with the acquire of the next leader.
        P::store(c, turn, next_parity, Ordering::Release);
        GroupPart { start, is_shared }
    }

    fn follow(&self, c: P::Core, before: OpenGroup) -> GroupPart {
        let state = self.cell(before.cell(), STATE);
        let start = P::spin_while(c, state, PENDING, None);
        // AcqRel: the last one frees the cell after all others have read it.
        if P::fetch_add(c, self.cell(before.cell(), LEFT), u64::MAX, Ordering::AcqRel) == 1 {
            // Release: pairs with the acquire of the leader that claims the cell.
            P::store(c, state, FREE, Ordering::Release);
        }
        GroupPart { start: (start != FULL).then_some(start + before.bytes()), is_shared: true }
    }

    /// Takes a free cell for the next group of a slot whose open group has `cell`. There is one.
    fn claim(&self, c: P::Core, slot: usize, cell: usize) -> usize {
        let (first, count) = (self.first_cell(slot), self.cells_per_slot());
        let mut next = if (first..first + count - 1).contains(&cell) { cell + 1 } else { first };
        // Acquire: pairs with the release of the worker that freed the cell.
        while P::cas(c, self.cell(next, STATE), FREE, PENDING, Ordering::Acquire).is_err() {
            next = (next + 1) % self.cell_count;
        }
        next
    }
}
