//! Faults of the network between machines.

use platform::Nanos;

/// Faults of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFaults {
    /// Each direction of each link gets an additional delay below this one, drawn from the seed.
    pub delay_max: Nanos,
    /// Lose one message in this many; 0: none. TCP notices after `again_after` and sends it again.
    /// Later messages of the link wait for it, messages of other links overtake it.
    pub loss_one_in: u64,
    /// Time until a lost message is sent again.
    pub again_after: Nanos,
    /// Duplicate one message in this many; 0: none. TCP delivers it once, and the ports carry it
    /// twice.
    pub duplicate_one_in: u64,
    /// Pairs of machines whose links are cut.
    pub cuts: Vec<Cut>,
}

/// The end of all links between two machines at a moment: messages that have not arrived then are
/// lost, and both ends see closed links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Numbers of the two machines.
    pub machines: [u16; 2],
    /// Moment of the cut.
    pub at: Nanos,
    /// Links that are made from this moment on work. Links that are made earlier are closed from
    /// the beginning.
    pub until: Nanos,
}
