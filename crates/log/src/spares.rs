//! Buffers that are set aside for records before their commit takes place.
//!
//! Protocol: while a commit can be refused, it sets aside a buffer for each of its records
//! ([`Log::reserve`](crate::Log::reserve)); a part of a transaction over several databases keeps
//! its own until it is finished. A record goes to such a buffer only where the machine has no
//! memory for another one, so that a commit that cannot be refused any more is always logged.

use platform::Platform;
use platform::files::Buffer;

use crate::format::{ALIGNMENT, BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES};

/// Room of the shortest buffer. A buffer of one block would be kept for marks once it was written,
/// and not for records.
const BYTES_MIN: usize = 4 * ALIGNMENT;
/// Buffers that are kept when a commit has ended: parts give back what they have not used.
const KEPT_MAX: usize = 64;

/// Buffers set aside.
pub struct Spares<P: Platform> {
    buffers: Vec<Buffer<P>>,
}

impl<P: Platform> Default for Spares<P> {
    fn default() -> Self {
        Spares { buffers: Vec::new() }
    }
}

/// Bytes of a buffer with room for a record with a body of `body` bytes.
pub(crate) fn buffer_bytes(body: usize) -> usize {
    // The word that late records have, too.
    (BLOCK_HEADER_BYTES + RECORD_HEADER_BYTES + size_of::<u64>() + body).next_power_of_two().max(BYTES_MIN)
}

impl<P: Platform> Spares<P> {
    /// Returns true if there is a buffer for each of the records with bodies of these lengths.
    #[inline]
    pub fn suffice(&self, bodies: impl IntoIterator<Item = usize>) -> bool {
        bodies.into_iter().enumerate().all(|(number, bytes)| self.has(number, buffer_bytes(bytes)))
    }

    /// Returns true if the buffer for this record is there.
    pub(crate) fn has(&self, number: usize, least: usize) -> bool {
        self.buffers.get(number).is_some_and(|buffer| buffer.capacity() >= least)
    }

    /// Sets a buffer aside for this record; those for the records before it are there.
    pub(crate) fn put(&mut self, number: usize, buffer: Buffer<P>) {
        match self.buffers.get_mut(number) {
            Some(shorter) => *shorter = buffer,
            None => self.buffers.push(buffer),
        }
    }

    /// Takes the shortest buffer with at least `least` bytes: longer ones may be those of other
    /// records.
    pub(crate) fn take(&mut self, least: usize) -> Option<Buffer<P>> {
        let fitting = self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.capacity() >= least);
        let shortest = fitting.min_by_key(|(_, buffer)| buffer.capacity());
        shortest.map(|(number, _)| number).map(|number| self.buffers.swap_remove(number))
    }

    /// Takes out a buffer for each of the records with bodies of these lengths, for which they
    /// [suffice](Self::suffice).
    #[must_use]
    pub fn split(&mut self, bodies: impl IntoIterator<Item = usize>) -> Spares<P> {
        let buffers = bodies.into_iter().filter_map(|bytes| self.take(buffer_bytes(bytes))).collect();
        Spares { buffers }
    }

    /// Adds the buffers of `others`, up to the number that is kept.
    pub fn join(&mut self, mut others: Spares<P>) {
        self.shrink();
        self.buffers.append(&mut others.buffers);
    }

    /// Gives back what a session does not keep between commits.
    pub fn shrink(&mut self) {
        self.buffers.truncate(KEPT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Hardware;

    #[test]
    fn each_record_finds_a_buffer_in_any_order() {
        let c = Hardware::core();
        let bodies = [100_000, 10, 40_000];
        let mut spares = Spares::<Hardware>::default();
        assert!(spares.suffice([]) && !spares.suffice(bodies));
        for (number, body) in bodies.into_iter().enumerate() {
            spares.put(number, Buffer::new(c, None, buffer_bytes(body), "test").expect("memory"));
        }
        assert!(spares.suffice(bodies) && !spares.suffice([10, 100_000]));
        assert!(spares.take(buffer_bytes(200_000)).is_none());
        let mut others = spares.split([10, 100_000]);
        assert!(!spares.suffice([100_000]) && spares.suffice([40_000]) && !spares.suffice([1, 1]));
        assert!(others.take(buffer_bytes(100_000)).is_some() && others.take(BYTES_MIN).is_some());
        assert!(others.take(1).is_none());
    }
}
