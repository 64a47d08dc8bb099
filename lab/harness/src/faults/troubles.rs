//! Faults between the instances of one process, for tests; `in_trouble` causes them.

use platform::link::Wire;
use terms::random::Random;

use crate::deployment::Transport;

/// Faults between instances. The machine determines which instances crash
/// ([`crate::Host::fallen_instance`]) and which machines are cut off from each other
/// ([`crate::Host::cut`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Seed of the random choices.
    pub seed: u64,
    /// Number of connections that break and are made again.
    pub cuts: u64,
    /// Longest delay of a TCP connection within a machine; the delay of each is random.
    pub delay_nanos_max: u64,
    /// True if the disk loses the data that a crashed instance has not flushed.
    pub loses_power: bool,
    /// Longest time for which a crashed instance is down; the time of each is random.
    pub away_nanos_max: u64,
    /// True if, of several instances that are down, the next one returns only when the one before
    /// runs transactions again.
    pub in_turn: bool,
}

/// Faults that happened between instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TroubleCounts {
    /// Connections that were broken and made again.
    pub cuts: u64,
    /// Connections within a machine that are slower than others.
    pub delays: u64,
    /// Messages that were received twice.
    pub echoes: u64,
    /// Links that were made again after machines were cut off from each other.
    pub mended: u64,
    /// Most instances that were down at one time.
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
