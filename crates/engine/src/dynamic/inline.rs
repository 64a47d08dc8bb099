//! Stored procedures through the dynamic boundary.

use cc::{Abort, Mode};

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
        self.object().transact(mode, bounds, &mut |verbs| {
            run_inline(tables, procedure, actions, &mut Transaction::new(verbs))
        })
    }
}
