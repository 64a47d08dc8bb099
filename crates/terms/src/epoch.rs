//! Epochs, and stamps: the place of a commit in the order of commits.

/// Bits of a stamp below its epoch: 262,144 commits that depend on each other, in steps of four. A
/// commit that an epoch has no number for gets a number of the next epoch.
pub const STAMP_NUMBER_BITS: u32 = 20;

/// Number of an epoch; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The last epoch: the global epoch stays there. Later epochs are room for stamps that run
    /// ahead of the global epoch. At five thousand epochs a second, which is more than are drawn in
    /// the long run, the last epoch comes after 111 years.
    pub const LAST: Epoch = Epoch((1 << (64 - STAMP_NUMBER_BITS)) - (1 << 20));

    /// The epoch of a stamp.
    #[inline(always)]
    pub const fn of_stamp(stamp: u64) -> Epoch {
        Epoch(stamp >> STAMP_NUMBER_BITS)
    }

    /// The smallest stamp of the epoch.
    #[inline(always)]
    pub const fn first_stamp(self) -> u64 {
        self.0 << STAMP_NUMBER_BITS
    }

    /// The largest stamp of the epoch.
    #[inline(always)]
    pub const fn last_stamp(self) -> u64 {
        self.first_stamp() | ((1 << STAMP_NUMBER_BITS) - 1)
    }
}

/// The place of a commit in the order of commits. A transaction that reads or overwrites a row
/// which another transaction wrote, or inserts a key which another deleted, has the larger stamp. A
/// transaction that comes later in any other way (by overwriting what another only read, by seeing
/// that a key was deleted) has a stamp of the same epoch or of a later one ([`Stamp::epoch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Distance from one stamp of an epoch to the next: the bits below are for a scheme's flags.
    const STEP: u64 = 4;

    /// The smallest stamp that is larger than `largest` and of this epoch, or of a later epoch if
    /// this one has no number left.
    #[inline]
    pub fn after(largest: u64, epoch: Epoch) -> Stamp {
        Stamp((largest + Self::STEP).max(epoch.first_stamp()))
    }

    /// The epoch in which the commit is durable.
    #[inline(always)]
    pub const fn epoch(self) -> Epoch {
        Epoch::of_stamp(self.0)
    }

    /// The smallest stamp of the epoch.
    pub fn first_of_epoch(self) -> Stamp {
        Stamp(self.epoch().first_stamp())
    }
}
