//! What goes wrong between machines.

use platform::Nanos;

/// What goes wrong in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFaults {
    /// Each direction of each link is slower by a time below this one, drawn from the seed.
    pub delay_max: Nanos,
    /// One message in so many is lost; 0: none. TCP notices after `again_after` and sends it again;
    /// what follows on the link waits for it, and what is on other links overtakes it.
    pub loss_one_in: u64,
    /// How long it takes until a message that is lost is sent again.
    pub again_after: Nanos,
    /// One message in so many comes twice; 0: none. TCP takes it once, and the ports carry it
    /// twice.
    pub duplicate_one_in: u64,
    /// Pairs of machines whose links are cut.
    pub cuts: Vec<Cut>,
}

/// All links between two machines end at a moment: what has not arrived then is lost, and both ends
/// see them closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The machines, by number.
    pub machines: [u16; 2],
    /// The moment.
    pub at: Nanos,
    /// Links that are made from this moment on are whole. Those that are made earlier are closed
    /// from the beginning.
    pub until: Nanos,
}
