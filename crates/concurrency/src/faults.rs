//! State that all workers of a scheme share, beside the faults that tests plant.

use terms::Faults;

/// State that all workers share: the faults, and the scheme's own state.
pub struct WithFaults<T> {
    /// The faults.
    pub(crate) faults: Faults,
    /// The rest.
    pub(crate) own: T,
}
