//! How a stored procedure runs inline: by the worker that began it, in one transaction.

use concurrency::Scheme;
use platform::{Platform, Work};
use terms::Abort;

use crate::procedure::{Plan, Procedure};
use crate::transaction::Transaction;
use crate::verbs::Verbs;
use schema::Routes;

/// An attempt of a transaction as executors see it.
pub(crate) trait Attempt: Verbs {
    /// Whether the attempt wants to hear of keys before its first verb.
    fn enlists(&self) -> bool;
    /// Announces what `fill` adds.
    fn enlist(&mut self, fill: impl FnMut(&mut Routes));
}

impl<P: Platform, S: Scheme<P>> Attempt for Transaction<'_, '_, P, S> {
    #[inline(always)]
    fn enlists(&self) -> bool {
        S::ENLISTS
    }

    #[inline]
    fn enlist(&mut self, fill: impl FnMut(&mut Routes)) {
        Transaction::enlist(self, fill);
    }
}

/// Runs one attempt of a procedure: its phases in order, each action in the order planned.
/// `actions` is a buffer.
#[inline]
pub(crate) fn run_inline<Q: Procedure>(
    tables: &Q::Tables,
    procedure: &mut Q,
    actions: &mut Vec<Q::Action>,
    transaction: &mut impl Attempt,
) -> Result<(), Abort> {
    // What is copied: the procedure from its generator, actions from the procedure, outputs to the
    // procedure.
    let words = |bytes: usize| bytes.div_ceil(8) as u32;
    transaction.work(Work::CopyWord, words(size_of::<Q>()));
    for phase in 0.. {
        actions.clear();
        match procedure.plan(phase, actions) {
            Plan::Commit => break,
            Plan::RollBack => return Err(Abort::RollBack),
            Plan::Run => {
                let moved = words(size_of::<Q::Action>()) + words(size_of::<Q::Output>());
                transaction.work(Work::CopyWord, moved * actions.len() as u32);
                if phase == 0 && transaction.enlists() {
                    transaction.enlist(|to| actions.iter().for_each(|action| Q::route(tables, action, to)));
                }
                for (number, action) in actions.iter().enumerate() {
                    let output = Q::execute(tables, action, transaction)?;
                    procedure.absorb(phase, number, output);
                }
            }
        }
    }
    Ok(())
}
