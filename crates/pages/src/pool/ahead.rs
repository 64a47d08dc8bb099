//! Write-ahead logging: before a latched page changes, the log has the change.

use std::sync::atomic::Ordering;

use platform::files::Files;
use terms::{Category, Fault};

use super::Pool;
use super::frames::LatchedPage;
use super::records::Writing;
use super::store::{FREE, IN_USE};
use super::worker::PoolWorker;
use crate::error::PagedError;
use crate::log::Log;
use crate::log::record::{ChangeHead, Compensation, Encoder, End, ParticipantNote, Takeback};
use crate::lsn::Lsn;
use crate::page::Change;

/// Most pages that a change is made to.
const PAGES_MAX: usize = 3;

/// A page in a change.
#[derive(Clone, Copy)]
pub(crate) enum Role<'h, 'p, P: Files> {
    /// It was there before.
    Old(&'h LatchedPage<'p, P>),
    /// The change makes it.
    New(&'h LatchedPage<'p, P>),
    /// The change frees it.
    Gone(&'h LatchedPage<'p, P>),
}

impl<'h, 'p, P: Files> Role<'h, 'p, P> {
    fn held(self) -> &'h LatchedPage<'p, P> {
        match self {
            Role::Old(held) | Role::New(held) | Role::Gone(held) => held,
        }
    }
}

impl<P: Files> PoolWorker<'_, P> {
    /// Attributes all changes from now on to this transaction of an owner.
    pub(crate) fn begin_transaction(&mut self, transaction: u64, owner: usize) {
        self.ahead.writing = Writing { transaction, owner: Some(owner), ..Writing::default() };
    }

    /// The number of the transaction.
    pub(crate) fn transaction(&self) -> u64 {
        self.ahead.writing.transaction
    }

    /// Leaves a transaction as it is; another worker may resume it.
    pub(crate) fn lay_aside(&mut self) -> Writing {
        std::mem::take(&mut self.ahead.writing)
    }

    /// Resumes a transaction.
    pub(crate) fn resume(&mut self, writing: Writing) {
        self.ahead.writing = writing;
    }

    /// Marks all changes from now on as compensations: the transaction is undone, or a part of it.
    pub(crate) fn compensate(&mut self, what: Compensation) {
        self.ahead.writing.compensates = Some(what);
    }

    /// Changes from now on are the transaction's again, a part of which was undone.
    pub(crate) fn goes_on(&mut self) {
        self.ahead.writing.compensates = None;
    }

    /// Removes the transaction's beginning from the checkpoints' view: it is over, or carried
    /// otherwise.
    pub(crate) fn rests(&mut self) {
        let writing = &mut self.ahead.writing;
        if let (Some(owner), Some(log)) =
            (writing.owner.filter(|_| writing.is_under_way), &self.pool.store.log)
        {
            log.buffer.rests(self.c, owner);
            writing.is_under_way = false;
        }
    }

    /// Logs a change of latched pages, all of which have its LSN then; the caller makes the change.
    /// A change without a transaction stays even if transactions abort.
    ///
    /// # Errors
    /// The log has stopped: the change must not be made.
    pub(crate) fn write_ahead(
        &mut self,
        tree: u32,
        width: usize,
        parts: &[Role<'_, '_, P>],
        change: Change<'_>,
        takeback: Takeback<'_>,
    ) -> Result<(), PagedError> {
        let (c, pool) = (self.c, self.pool);
        let Some(log) = &pool.store.log else { return Ok(()) };
        let is_own = matches!(change, Change::Put { .. } | Change::Mark { .. } | Change::Write { .. });
        let ahead = &mut self.ahead;
        let Writing { transaction, compensates, .. } = ahead.writing;
        let (transaction, compensates) = if is_own { (transaction, compensates) } else { (0, None) };
        let compensates = compensates.filter(|_| !pool.store.faults.has(Fault::MissingCompensation));
        let takeback = if compensates.is_some() { Takeback::None } else { takeback };
        let mut numbers = [0; PAGES_MAX];
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.held().number;
        }
        let numbers = &numbers[..parts.len()];
        let before = self.meter.enter::<P>(c, Category::Log);
        loop {
            let begins = ahead.writing.begins().filter(|_| transaction != 0);
            let window = log.buffer.open(c, &mut ahead.writer, begins);
            ahead.writing.is_under_way |= begins.is_some();
            let floor = log.buffer.image_floor(c);
            let image = |page: usize, to: &mut Vec<u64>| {
                if let Role::Old(held) = parts[page]
                    && held.page(width).lsn() <= floor
                    && !pool.store.faults.has(Fault::MissingImages)
                {
                    held.page(width).append_image(c, to);
                }
            };
            let encoder = Encoder::new(&mut ahead.record);
            let head = ChangeHead { transaction, compensates, tree, width };
            encoder.change(head, numbers, image, change, takeback);
            let lsn = log.buffer.fill(c, &mut ahead.writer, &window, &mut ahead.record);
            if let Some(lsn) = lsn {
                for part in parts {
                    pool.enter(c, *part);
                    part.held().page(width).set_lsn(lsn);
                }
                ahead.writing.has_written |= transaction != 0;
            }
            log.buffer.close(c, window);
            if lsn.is_some() {
                self.meter.leave::<P>(c, before);
                return Ok(());
            }
            log.make_room(c)?;
        }
    }

    /// Logs how the transaction ends; where the record ends, or what the transaction has read may
    /// end, if it has changed nothing. It is under way until it [rests](Self::rests).
    ///
    /// # Errors
    /// The log has stopped.
    pub(crate) fn end_transaction(&mut self, end: End<'_>) -> Result<Lsn, PagedError> {
        let Some(log) = &self.pool.store.log else { return Ok(Lsn(0)) };
        let Writing { transaction, has_written, .. } = self.ahead.writing;
        let is_needed = match end {
            End::Decided(_) => true,
            End::Committed | End::CommittedWith(_) => has_written,
            End::RolledBack => has_written && !self.pool.store.faults.has(Fault::MissingCompensation),
        };
        if !is_needed {
            return Ok(log.buffer.end(self.c));
        }
        let lsn = self.append(log, &|to| to.ending(transaction, end))?;
        self.ahead.writing.has_written = false;
        Ok(lsn)
    }

    /// Logs that a transaction commits of which these are the branches that have written something;
    /// where the record ends, or what the transaction has read may end, if there are none.
    ///
    /// Pre: no transaction is resumed.
    ///
    /// # Errors
    /// The log has stopped.
    pub(crate) fn end_branches(&mut self, branches: &[u64]) -> Result<Lsn, PagedError> {
        let Some(log) = &self.pool.store.log else { return Ok(Lsn(0)) };
        match branches {
            [] => Ok(log.buffer.end(self.c)),
            [alone] => self.append(log, &|to| to.ending(*alone, End::Committed)),
            [first, others @ ..] => self.append(log, &|to| to.ending(*first, End::CommittedWith(others))),
        }
    }

    /// Notes something of the transaction, which is under way from here on; where the record ends.
    ///
    /// # Errors
    /// The log has stopped.
    pub(crate) fn note(&mut self, note: ParticipantNote) -> Result<Lsn, PagedError> {
        let Some(log) = &self.pool.store.log else { return Ok(Lsn(0)) };
        let transaction = self.ahead.writing.transaction;
        self.append(log, &|to| to.note(transaction, note))
    }

    /// Appends a record of the transaction that changes no page.
    fn append(&mut self, log: &Log<P>, encode: &dyn Fn(Encoder<'_>)) -> Result<Lsn, PagedError> {
        let (c, ahead) = (self.c, &mut self.ahead);
        let before = self.meter.enter::<P>(c, Category::Log);
        loop {
            let begins = ahead.writing.begins();
            let window = log.buffer.open(c, &mut ahead.writer, begins);
            ahead.writing.is_under_way |= begins.is_some();
            encode(Encoder::new(&mut ahead.record));
            let lsn = log.buffer.fill(c, &mut ahead.writer, &window, &mut ahead.record);
            log.buffer.close(c, window);
            if let Some(lsn) = lsn {
                self.meter.leave::<P>(c, before);
                return Ok(lsn);
            }
            log.make_room(c)?;
        }
    }
}

impl<P: Files> Pool<P> {
    /// A page is in use that no record makes: the checkpoint that follows has it.
    pub(crate) fn is_in_use(&self, c: P::Core, held: &LatchedPage<'_, P>) {
        self.enter(c, Role::New(held));
    }

    /// Remembers which pages are in use. Within the window of the change's record: what a
    /// checkpoint finds here is in the log.
    fn enter(&self, c: P::Core, part: Role<'_, '_, P>) {
        let (number, state) = match part {
            Role::Old(_) => return,
            Role::New(held) => (held.number, IN_USE),
            Role::Gone(held) => (held.number, FREE),
        };
        if let Some(word) = self.store.state(number) {
            P::store(c, word, state, Ordering::Relaxed);
        }
    }
}
