//! Attempts of the memory engine as executors of procedures use them.

use boundary::Attempt;
use concurrency::Scheme;
use platform::Platform;
use schema::Routes;

use crate::transaction::Transaction;

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
