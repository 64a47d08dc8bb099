//! `silo`: optimistic concurrency control with per-row version words and epochs.
//!
//! Source: Tu, Zheng, Kohler, Liskov, Madden, "Speedy transactions in multicore in-memory
//! databases", SOSP 2013.
//!
//! The version word of a row ([`crate::optimistic`]) is the stamp (TID) of its last writer: the
//! epoch in the high half, a number within it below. `prepare` locks the rows to write in the order
//! of their places, reads the epoch (the serialization point), and validates: rows read still have
//! the version seen, and leaves (or buckets) where keys were absent or ranges were scanned are
//! unchanged. `commit` applies the writes and unlocks with a stamp larger than all seen.
//!
//! Deviations:
//! - Rows are written field by field, in place; only changed bytes are kept and applied.
//! - A deleted row leaves its indexes at once, instead of when no snapshot needs it. The paper
//!   keeps it so that a later insertion of the same key gets a larger TID; here the leaf remembers
//!   the largest stamp removed from it ([`storage::tree`]), with the same effect and no dead rows
//!   in the way of scans.
//! - `prepare` does not wait for a locked row, where the paper spins: a thread that has locked a
//!   row is
//!   about to change it (`docs/decisions/0020-commits-do-not-wait.md`).
//! - A part of a transaction over several databases marks the rows that it has only read, until it
//!   ends ([`crate::optimistic`]).

use platform::{OutOfMemory, Platform};
use terms::{Conflict, Mode};

use crate::optimistic::{
    Method, MethodContext, Optimistic, OptimisticState, Version, lock_at_once, lock_in_order, unchanged,
    validate_versions,
};
use crate::timestamps::TimestampSource;
use crate::ways::CommitLocks;

/// The scheme.
pub type Silo = Optimistic<SiloMethod>;

/// The method of `silo`.
pub struct SiloMethod;

impl<P: Platform> Method<P> for SiloMethod {
    const NAME: &'static str = "silo";
    const REMEMBERS_VERSIONS: bool = true;
    type Header = Version<P>;
    type SharedState = ();
    type WorkerState = ();
    type Own = ();

    fn shared(_: P::Core, _: usize, _: TimestampSource) -> Result<(), OutOfMemory> {
        Ok(())
    }

    fn worker(_: usize) {}

    #[inline(always)]
    fn begin(_: &mut MethodContext<'_, '_, P, Self>, (): &mut (), _: Mode) {}

    #[inline]
    fn lock(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        _: Mode,
    ) -> Result<(), Conflict> {
        match cx.shared.ways.commit_locks {
            CommitLocks::Ordered => lock_in_order(state, cx, false),
            CommitLocks::NoWait => lock_at_once(state, cx, false),
        }
    }

    #[inline]
    fn validate(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        validate_versions(state, cx)
    }

    fn check(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        unchanged(state, cx)
    }

    #[inline(always)]
    fn version_at(stamp: u64) -> u64 {
        stamp
    }
}
