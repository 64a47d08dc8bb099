//! Modes of transactions.

/// The mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A transaction that reads and writes in this database alone.
    Single,
    /// A participant of a transaction over several databases (two-phase commit). From `prepare` to
    /// `commit`, rows that were read stay protected like those that were written, since the other
    /// participants may be validated later.
    Participant,
    /// A transaction that only reads. Schemes that keep versions show the database as it was a
    /// little before the transaction began (up to three epochs, and without the worker's own last
    /// commits); other schemes treat this mode like [`Mode::Single`].
    Snapshot,
    /// The branch of one of several workers in a transaction of which each executes a part, under a
    /// scheme that has branches (`Scheme::BRANCHES`). It locks nothing: from the first verb to the
    /// end the callers keep whatever it touches, rows and absent keys alike, from all other
    /// transactions that would change it, and what it changes from those that would read it. A
    /// branch may go on in another epoch (`Accessing::lay_aside`), and a worker that commits the
    /// transaction announces the commit.
    Branch,
}
