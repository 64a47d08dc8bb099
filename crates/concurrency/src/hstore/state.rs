//! The state of a transaction and of a worker of `hstore`.

use platform::{OutOfMemory, Platform};
use storage::Table;
use storage::index::Witnesses;
use terms::{Abort, Epoch, Faults, Mode, Stamp};

use super::managers::Managers;
use super::row::{FoundRow, Row};
use super::scratch::Scratch;
use super::sites::{Site, Sites};
use super::steps::{Keys, UndoStep};
use crate::access::{DELETED_BEFORE, NO_SUCH_ROW, READ_ONLY, ROWS_MAX};
use crate::options::InstanceOptions;
use crate::scheme::{Context, RowNumber};
use crate::timestamps::{TimestampWorker, UnusedTimestamps};
use crate::ways::RowLock;
use crate::writes::{exchange, place};

/// The scheme.
pub struct Hstore;

pub(super) type Cx<'w, 'i, P> = Context<'w, 'i, P, Hstore>;

/// State that all workers share: the faults that tests plant, the sites, and timestamps.
pub struct HstoreShared<P: Platform> {
    pub(super) faults: Faults,
    pub(super) own: Sites<P>,
    /// In place of the locks of sites, to compare with.
    pub(super) managers: Option<Managers<P>>,
    pub(super) unused_timestamps: UnusedTimestamps<P>,
}

impl<P: Platform> HstoreShared<P> {
    pub(super) fn new(c: P::Core, workers: usize, options: &InstanceOptions) -> Result<Self, OutOfMemory> {
        let has_managers = options.ways.row_lock == RowLock::Latch;
        Ok(HstoreShared {
            faults: options.faults,
            own: Sites::new(c, workers)?,
            managers: has_managers.then(|| Managers::new(c, workers, options)).transpose()?,
            unused_timestamps: match has_managers {
                true => UnusedTimestamps::none(),
                false => UnusedTimestamps::new(c, options.timestamps, options.ways.timestamp_draws)?,
            },
        })
    }

    /// Releases a site; `worker` is the calling one.
    #[inline]
    pub(super) fn release(&self, c: P::Core, site: Site, worker: usize) {
        match &self.managers {
            None => self.own.release(c, site),
            Some(managers) => managers.release(c, site, worker),
        }
    }

    /// Leaves word of the caller's stamp with a site that it holds.
    #[inline]
    pub(super) fn set_stamp(&self, c: P::Core, site: Site, stamp: u64) {
        match &self.managers {
            None => self.own.set_stamp(c, site, stamp),
            Some(managers) => managers.set_stamp(c, site, stamp),
        }
    }
}

/// State of a transaction, reused from transaction to transaction.
pub(super) struct HstoreState<P: Platform> {
    pub(super) rows: Vec<FoundRow<P>>,
    /// Locked sites, and the stamps of their last holders.
    pub(super) held: Vec<Site>,
    pub(super) stamps: Vec<u64>,
    /// Sites to lock as soon as anything is touched.
    pub(super) wanted: Vec<Site>,
    /// The changes to take back, in order.
    pub(super) steps: Vec<UndoStep>,
    /// Steps that the coordinator of a branch has received.
    pub(super) reported: usize,
    /// Keys and former words that the steps speak of.
    pub(super) words: Vec<u64>,
    /// Rows that the transaction has deleted: their entries stay until it commits.
    pub(super) deletions: u32,
    /// True if the commit has entries or rows to remove.
    pub(super) leaves_waste: bool,
    /// Never filled: nothing appears in a locked partition.
    pub(super) witnesses: Witnesses,
    pub(super) mode: Mode,
    /// The epoch that the worker was in when the transaction began.
    pub(super) epoch: Epoch,
}

/// State of a worker: its last stamp, the memory of finished transactions, and what the last one
/// learned.
pub struct HstoreWorker<P: Platform> {
    pub(super) number: usize,
    pub(super) timestamps: TimestampWorker,
    pub(super) last: u64,
    // Boxed, so that beginning, preparing and committing move a pointer.
    #[allow(clippy::vec_box)]
    pub(super) free: Vec<Box<HstoreState<P>>>,
    /// Sites that an attempt should have begun with: the next transaction, most likely another
    /// attempt, does.
    pub(super) wanted: Vec<Site>,
    pub(super) redo: Scratch,
}

impl<P: Platform> HstoreState<P> {
    pub(super) fn new() -> Box<Self> {
        Box::new(HstoreState {
            rows: Vec::new(),
            held: Vec::new(),
            stamps: Vec::new(),
            wanted: Vec::new(),
            steps: Vec::new(),
            reported: 0,
            words: Vec::new(),
            deletions: 0,
            leaves_waste: false,
            witnesses: Witnesses::default(),
            mode: Mode::Single,
            epoch: Epoch(0),
        })
    }

    /// Returns true if the transaction is a branch, whose callers lock what it touches: it locks no
    /// sites.
    #[inline(always)]
    pub(super) fn is_branch(&self) -> bool {
        self.mode == Mode::Branch
    }

    /// Returns true if the transaction has deleted the row that indexes name so.
    pub(super) fn has_deleted(&self, bits: u64) -> bool {
        self.steps.iter().any(|step| matches!(step, UndoStep::Delete { row, .. } if *row == bits))
    }

    /// Forgets the rows that were found and not written: nothing keeps them where they are from
    /// here on.
    pub(super) fn forget_read(&mut self) {
        let written = self.steps.iter().filter_map(|step| match step {
            UndoStep::Write { row, .. } => Some(*row as usize + 1),
            _ => None,
        });
        self.rows.truncate(written.max().unwrap_or(0));
    }

    /// Returns true if the site is held: most transactions hold one.
    #[inline(always)]
    pub(super) fn holds(&self, site: Site) -> bool {
        match self.held[..] {
            [] => false,
            [first, ..] if first == site => true,
            [_, ref others @ ..] => others.contains(&site),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, row: Row<P>, table: usize, read_only: bool) -> Result<RowNumber, Abort> {
        self.check_room_for(1)?;
        Ok(self.add(row, table, read_only))
    }

    /// Checks that this number of further rows fits.
    #[inline(always)]
    pub(super) fn check_room_for(&self, rows: usize) -> Result<(), Abort> {
        if self.rows.len() + rows > ROWS_MAX { Err(Abort::TooLarge { limit: ROWS_MAX }) } else { Ok(()) }
    }

    /// As [`Self::push`]; the caller has checked that there is room.
    #[inline(always)]
    pub(super) fn add(&mut self, row: Row<P>, table: usize, read_only: bool) -> RowNumber {
        self.rows.push(FoundRow { row, table: table as u32, read_only });
        (self.rows.len() - 1) as u32
    }

    /// The row, unless the transaction has deleted it.
    #[inline(always)]
    pub(super) fn get(&self, c: P::Core, number: RowNumber) -> Result<FoundRow<P>, Abort> {
        let taken = *self.rows.get(number as usize).ok_or(NO_SUCH_ROW)?;
        if self.deletions != 0 && taken.row.header().is_deleted(c) {
            return Err(DELETED_BEFORE);
        }
        Ok(taken)
    }

    #[inline(always)]
    pub(super) fn writable(&self, c: P::Core, number: RowNumber) -> Result<FoundRow<P>, Abort> {
        let taken = self.get(c, number)?;
        if taken.read_only { Err(READ_ONLY) } else { Ok(taken) }
    }

    /// Writes bytes of a row in place, and remembers the words that were there.
    #[inline(always)]
    pub(super) fn write(&mut self, c: P::Core, number: RowNumber, offset: usize, bytes: &[u8]) {
        let row = self.rows[number as usize].row;
        let (first, end) = (offset / 8, (offset + bytes.len()).div_ceil(8));
        let span = &row.words()[first..end];
        let (at, count) = (self.words.len(), end - first);
        match count {
            1 => self.words.extend_from_slice(&exchange::<P, 1>(c, span, offset, bytes)),
            2 => self.words.extend_from_slice(&exchange::<P, 2>(c, span, offset, bytes)),
            _ => self.write_words(c, span, offset, bytes),
        }
        self.steps.push(UndoStep::Write {
            row: number,
            first: first as u32,
            count: count as u32,
            at: at as u32,
        });
    }

    /// Overwrites words, and remembers what was there.
    fn write_words(&mut self, c: P::Core, span: &[P::Word], offset: usize, bytes: &[u8]) {
        let (at, count) = (self.words.len(), span.len());
        self.words.resize(at + count, 0);
        P::read_words(c, span, &mut self.words[at..]);
        self.words.extend_from_within(at..);
        place(&mut self.words[at + count..], offset, bytes);
        P::write_words(c, span, &self.words[at + count..]);
        self.words.truncate(at + count);
    }

    /// As [`crate::Accessing::stamp`]: rows have no stamps, but the last writer of a row held its
    /// site. Tables that are never written were filled before the transaction began.
    pub(super) fn stamp(&self, number: RowNumber) -> Stamp {
        let taken = &self.rows[number as usize];
        let site = taken.row.header().held_site();
        let place = self.held.iter().position(|held| *held == site).filter(|_| !taken.read_only);
        let filled = || self.epoch.last_stamp();
        Stamp(place.map_or_else(filled, |place| self.stamps[place]))
    }

    /// Remembers a step with the row's keys, one an index; the step's number.
    pub(super) fn remember(
        &mut self,
        row: Row<P>,
        (table, shape): (usize, &Table<P>),
        keys: &[&[u64]],
        step: impl FnOnce(u64, Keys) -> UndoStep,
    ) -> usize {
        let at = self.words.len() as u32;
        shape.keep_keys(keys, &mut self.words);
        self.steps.push(step(row.to_bits(), Keys { table: table as u32, at }));
        self.steps.len() - 1
    }
}
