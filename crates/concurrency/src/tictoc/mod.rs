//! `tictoc`: optimistic concurrency control in which the data decides when a transaction commits.
//!
//! Source: Yu, Pavlo, Sanchez, Devadas, "TicToc: time traveling optimistic concurrency control",
//! SIGMOD 2016; the version word is that of section 3.6, the waiting of `prepare` that of section
//! 5.1.
//!
//! A row's version word has the time from which (`wts`, the time of its last writer) to which
//! (`rts`) its contents are known to be valid ([`times`]). `prepare` locks the rows to write, in
//! any order, and waits for no row while it holds another. The commit's time is then the smallest
//! that is larger than the `wts` of all rows read and the `rts` of all rows written. A row that is
//! known to be valid at that time needs no further check, even if another transaction has
//! overwritten it since; of any other row, `rts` is moved on to that time, provided that the row is
//! neither overwritten nor locked by another transaction.
//!
//! Why commits are serializable, phantoms included: if one transaction has to come before another,
//! it has the smaller time.
//! - A transaction that reads or overwrites a row which another wrote has a larger time than the
//!   row's `wts`. A transaction that overwrites a row which another read has a larger time than the
//!   row's `rts`, which the reader moved on.
//! - A transaction that saw that a key is absent, by a lookup or a scan, comes after the
//!   transaction that removed the key: its time is larger than that of the last removal in the
//!   partition (`removed` in [`GapWords`](storage::index::GapWords)), which is raised before the
//!   key leaves the index.
//! - A transaction that inserts a key comes after the transactions that saw the key to be absent.
//!   Such a reader writes its time into the partition (`absent`) and then checks that the leaves
//!   and buckets have not changed. The inserting transaction changes the leaf or bucket, then reads
//!   `absent`, and takes a larger time. Either the reader sees the change, or the inserting
//!   transaction sees the reader's time.
//! - A transaction that inserts a key comes after the transaction that removed the key: the leaf
//!   knows the time of the removal.
//!
//! Deviations:
//! - The time of a reader is larger than the `wts` of what it read, instead of at least that:
//!   stamps ascend along reads.
//! - Times begin with the epoch that is current at validation, for logs; so commits are in the
//!   order of real time from epoch to epoch, but not within one: as in the paper, a transaction can
//!   miss a commit and see a later one.
//! - Once a database has seen a participant of a transaction over several databases
//!   ([`Mode::Participant`]), all rows read are checked as in `silo`, and commits are in the order
//!   of real time: no other order would fit those of the other databases.
//! - Fields are read where they lie, not from a copy of the row: once a row is overwritten, reading
//!   more of it aborts.

mod shared;
mod times;
mod validation;

use platform::{OutOfMemory, Platform};

use shared::Participants;
use terms::{Conflict, Epoch, Mode, Stamp};
use times::{DELTA_BITS, first_of, stamp_of, word_at, wts};
use validation::{agree, lock_all, postpone, prolong};

pub use shared::TicTocMethod;

use crate::access::{DELETED, INSERTED, WRITTEN};
use crate::optimistic::{Method, MethodContext, Optimistic, OptimisticState, Version, VersionHeader};
use crate::timestamps::TimestampSource;

/// The scheme.
pub type TicToc = Optimistic<TicTocMethod>;

impl<P: Platform> Method<P> for TicTocMethod {
    const NAME: &'static str = "tictoc";
    const STRICT: bool = false;
    const VERSION_BITS: u64 = !DELTA_BITS;
    const BY_DATA: bool = true;
    type Header = Version<P>;
    type SharedState = Participants<P>;
    type WorkerState = ();
    type Own = ();

    fn shared(c: P::Core, _: usize, _: TimestampSource) -> Result<Participants<P>, OutOfMemory> {
        Participants::new(c)
    }

    fn worker(_: usize) {}

    #[inline(always)]
    fn begin(cx: &mut MethodContext<'_, '_, P, Self>, (): &mut (), mode: Mode) {
        if mode == Mode::Participant {
            cx.shared.own.note(cx.c);
        }
    }

    #[inline]
    fn lock(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        _: Mode,
    ) -> Result<(), Conflict> {
        lock_all(state, cx)
    }

    #[inline]
    fn validate(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        let changes = WRITTEN | INSERTED | DELETED;
        let commits = state.rows.list.iter().any(|access| access.flags & changes != 0);
        agree(state, cx, commits)
    }

    fn check(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        // Without locks: as for a transaction that only read.
        agree(state, cx, false)
    }

    #[inline(always)]
    fn version_at(stamp: u64) -> u64 {
        word_at(stamp)
    }

    fn first_version(epoch: Epoch) -> u64 {
        word_at(first_of(epoch))
    }

    fn written_at(version: u64) -> u64 {
        wts(version)
    }

    fn leave_read(c: P::Core, header: &Version<P>, stamp: u64) {
        prolong::<P>(c, header.word(), stamp);
    }

    fn renew(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        stamp: u64,
    ) -> u64 {
        postpone(state, cx, stamp)
    }

    fn stamp(stamp: u64) -> Stamp {
        stamp_of(stamp)
    }
}
