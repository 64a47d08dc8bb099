//! Timing of the network between machines.

/// The network between machines: one switch to which each is connected by a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wires {
    /// Latency from the sender's port to the receiver's: the described one-way time without the
    /// shares of cores and ports.
    pub(crate) wire_ps: u64,
    /// Picoseconds for which a byte occupies a port; 0 without a description of it.
    pub(super) byte_ps: f64,
    pub(super) header_bytes: usize,
    pub(super) packet_bytes: usize,
}

// All fields are numbers, none of which is NaN: descriptions are checked.
impl Eq for Wires {}

impl Wires {
    /// Bytes of a message on the wire: its own, and the headers of its packets.
    pub(crate) fn bytes(&self, message: usize) -> usize {
        message + self.header_bytes * message.div_ceil(self.packet_bytes).max(1)
    }

    /// Time for which this many bytes on the wire occupy a port.
    pub(crate) fn passing_ps(&self, bytes: usize) -> u64 {
        (self.byte_ps * bytes as f64).round() as u64
    }
}
