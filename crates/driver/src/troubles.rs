//! What goes wrong between the instances of one process, for tests: `in_trouble` does it.

use platform::link::Wire;
use workloads::Random;

use crate::deployment::Transport;

/// What goes wrong between instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Decides everything that is left open.
    pub seed: u64,
    /// Connections that break and are made again.
    pub cuts: u64,
    /// Each connection takes so long at most, drawn from the seed, where it is TCP.
    pub delay_nanos_max: u64,
    /// Whether the disk forgets what an instance that ends has not flushed.
    pub loses_power: bool,
}

impl Troubles {
    /// What a connection goes over.
    pub(crate) fn wire(&self, random: &mut Random, transport: Transport) -> Option<Wire> {
        let delays = transport == Transport::Tcp && self.delay_nanos_max > 0;
        let one_way_nanos = || random.below(self.delay_nanos_max);
        delays.then(one_way_nanos).map(|one_way_nanos| Wire { one_way_nanos, bytes_per_second: None })
    }
}
