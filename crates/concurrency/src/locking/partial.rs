//! Savepoints under locks. Locks stay, but for the gap below a row that is not deleted after all.

use platform::Platform;
use terms::Fault;

use super::parts::{LockingTransaction, TwoPhase};
use super::policy::WaitPolicy;
use super::state::LockHeader;
use crate::access::{Access, PartialRules};
use crate::savepoints::SavepointMark;
use crate::scheme::{Context, Savepoints};

impl<P: Platform, Q: WaitPolicy> Savepoints<P> for TwoPhase<Q> {
    fn set_savepoint(transaction: &mut LockingTransaction<P>) -> SavepointMark {
        transaction.state.rows.set_savepoint()
    }

    fn roll_back_to(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        mark: SavepointMark,
    ) {
        let (c, faults) = (cx.c, cx.shared.faults);
        let rules = PartialRules {
            // The deletion is pending no more: others may lock the gap, which stays as it is.
            undeleted: |access: &Access<P, LockHeader<P>>| {
                if !faults.has(Fault::UnlockedGaps) {
                    access.row.header().lock.unlock_pending(c);
                }
            },
            was_there: |_: &_| true,
            keeps_writes: faults.has(Fault::KeptSavepointWrites),
        };
        transaction.state.rows.roll_back_to(c, &mut cx.worker.local, cx.tables, mark, rules);
    }

    fn release_savepoints(transaction: &mut LockingTransaction<P>, cx: &mut Context<'_, '_, P, Self>) {
        transaction.state.rows.release_savepoints(cx.c, &mut cx.worker.local);
    }
}
