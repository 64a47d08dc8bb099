//! Execution of a transaction's body.

use boundary::Body;
use platform::files::Files;
use terms::Abort;

use crate::context::Context;
use crate::transaction::Transaction;

/// Runs the body of a session's transaction, or of a part of it.
///
/// # Errors
/// Those of the body, or of a verb: the changes are to be undone.
pub(crate) fn run<P: Files>(context: &mut Context<'_, P>, body: &mut Body<'_>) -> Result<(), Abort> {
    let (c, deadline) = (context.worker.c, context.deadline);
    let mut transaction = Transaction { session: context, failed: None };
    let mut outcome = body(&mut transaction);
    // A verb that has failed ends the transaction, even if the body ignores the error.
    if let Some(failed) = transaction.failed.take()
        && (outcome.is_ok() || failed.is_conflict())
    {
        outcome = Err(failed);
    }
    if outcome.is_ok() && deadline.is_some_and(|deadline| P::now(c) >= deadline) {
        outcome = Err(Abort::Deadline);
    }
    outcome
}
