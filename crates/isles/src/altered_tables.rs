//! The changes of tables that a transaction has made so far.

/// The changes of tables that a transaction has made so far.
#[derive(Clone, Default)]
pub(crate) struct Altered {
    /// Tables that it has made, and not dropped since.
    pub(crate) made: Vec<usize>,
    /// Tables that it has dropped, of those that were there before.
    pub(crate) gone: Vec<usize>,
    /// Tables that were there before, and that it has alone.
    pub(crate) held: Vec<usize>,
    /// Number of the plans for the tables as they are for it.
    pub(crate) plans: usize,
    /// The state of tables at each savepoint since.
    pub(crate) savepoints: Vec<(boundary::Savepoint, Forms)>,
}

/// Tables that were made and dropped, and the number of the plans.
pub(crate) type Forms = (Vec<usize>, Vec<usize>, usize);

impl Altered {
    pub(crate) fn forms(&self) -> Forms {
        (self.made.clone(), self.gone.clone(), self.plans)
    }
}
