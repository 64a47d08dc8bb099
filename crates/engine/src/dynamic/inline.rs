//! Stored procedures through the dynamic boundary.

use cc::{Abort, Mode};

use super::session::AnySession;
use super::transaction::Transaction;
use super::typed::Session;
use crate::ending::{Bounds, Ending};
use crate::inline::{Attempt, run_inline};
use crate::procedure::Procedure;
use crate::routes::Routes;

impl Attempt for Transaction<'_> {
    fn enlists(&self) -> bool {
        self.enlists()
    }

    fn enlist(&mut self, mut fill: impl FnMut(&mut Routes)) {
        self.verbs().enlist(&mut fill);
    }
}

impl Session<'_> {
    /// Runs a stored procedure inline: see [`crate::Session::run`].
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn run<Q: Procedure>(
        &mut self,
        tables: &Q::Tables,
        procedure: &mut Q,
        actions: &mut Vec<Q::Action>,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        let mode = if procedure.read_only() { Mode::Snapshot } else { Mode::Single };
        run_as(self.object(), mode, (tables, procedure, actions), bounds)
    }
}

/// Runs a stored procedure inline in this mode, whatever it says of itself; `actions` is a buffer.
///
/// # Errors
/// See [`Abort`].
pub fn run_as<Q: Procedure>(
    session: &mut dyn AnySession<'_>,
    mode: Mode,
    (tables, procedure, actions): (&Q::Tables, &mut Q, &mut Vec<Q::Action>),
    bounds: &Bounds,
) -> Result<Ending<()>, Abort> {
    session.transact(mode, bounds, &mut |verbs| {
        run_inline(tables, procedure, actions, &mut Transaction::new(verbs))
    })
}
