//! Epochs of versions and snapshots.

use platform::Platform;
use storage::Local;
use terms::Epoch;

/// No snapshot is of an older epoch than that in which its worker has entered less this.
const SNAPSHOT_EPOCHS: u64 = 2;

/// The epoch of a version or stamp.
#[inline(always)]
pub(super) fn epoch_of(version: u64) -> u64 {
    Epoch::of_stamp(version).0
}

/// The oldest epoch that a snapshot may show now.
pub(super) fn oldest_snapshot<P: Platform>(local: &Local<P>) -> u64 {
    local.horizon().0.saturating_sub(SNAPSHOT_EPOCHS)
}
