//! Faults between the instances of one process, for tests; `in_trouble` causes them.

use platform::link::Wire;
use terms::random::Random;

use crate::deployment::Transport;

/// Faults between instances. The machine decides which instances end early
/// ([`crate::Host::fallen_instance`]) and which machines are cut off from each other
/// ([`crate::Host::cut`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Decides everything that is left open.
    pub seed: u64,
    /// Connections that break and are made again.
    pub cuts: u64,
    /// Each connection within a machine takes so long at most, drawn from the seed, where it is
    /// TCP.
    pub delay_nanos_max: u64,
    /// True if the disk forgets what an instance that ends has not flushed.
    pub loses_power: bool,
    /// An instance that has ended is away for so long at most, drawn from the seed.
    pub away_nanos_max: u64,
    /// True if of instances that are away together the next one comes back when the one before runs
    /// transactions again.
    pub in_turn: bool,
}

/// Faults that happened between instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TroublesMet {
    /// Connections that were broken and made again.
    pub cuts: u64,
    /// Connections within a machine that are slower than others.
    pub delays: u64,
    /// Messages that were heard twice.
    pub echoes: u64,
    /// Links that were made again after machines were cut off from each other.
    pub mended: u64,
    /// Most instances that were away at one time.
    pub away_max: u64,
}

impl Troubles {
    /// The wire of a connection.
    pub(crate) fn wire(&self, random: &mut Random, transport: Transport) -> Option<Wire> {
        let delays = transport == Transport::Tcp && self.delay_nanos_max > 0;
        let one_way_nanos = || random.below(self.delay_nanos_max);
        delays.then(one_way_nanos).map(|one_way_nanos| Wire { one_way_nanos, bytes_per_second: None })
    }
}
