//! What goes wrong between machines.

use platform::Nanos;

/// What goes wrong in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFaults {
    /// Each direction of each link is slower by a time below this one, drawn from the seed.
    pub delay_max: Nanos,
    /// Pairs of machines whose links are cut.
    pub cuts: Vec<Cut>,
}

/// All links between two machines end at a moment: what has not arrived then is lost, and both ends see them closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The machines, by number.
    pub machines: [u16; 2],
    /// The moment.
    pub at: Nanos,
}
