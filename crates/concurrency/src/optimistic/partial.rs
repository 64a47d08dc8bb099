//! Savepoints of optimistic transactions.

use platform::Platform;
use terms::Fault;

use super::method::{Method, Optimistic, Running, was_there};
use crate::access::PartialRules;
use crate::savepoints::SavepointMark;
use crate::scheme::{Context, Savepoints};

impl<P: Platform, M: Method<P>> Savepoints<P> for Optimistic<M> {
    fn set_savepoint(transaction: &mut Running<P, M>) -> SavepointMark {
        transaction.state.rows.set_savepoint()
    }

    fn roll_back_to(transaction: &mut Running<P, M>, cx: &mut Context<'_, '_, P, Self>, mark: SavepointMark) {
        let state = &mut *transaction.state;
        let rules = PartialRules {
            undeleted: |_: &_| {},
            was_there: was_there::<P, M>,
            keeps_writes: state.faults.has(Fault::KeptSavepointWrites),
        };
        state.rows.roll_back_to(cx.c, &mut cx.worker.local, cx.tables, mark, rules);
    }

    fn release_savepoints(transaction: &mut Running<P, M>, cx: &mut Context<'_, '_, P, Self>) {
        transaction.state.rows.release_savepoints(cx.c, &mut cx.worker.local);
    }
}
