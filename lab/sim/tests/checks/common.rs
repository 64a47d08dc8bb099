//! Shared helpers of the tests: words in regions, and workers on the first hardware threads.

use machine::{Access, LineState};
use platform::{HardwareThread, Node, Place, Platform, RegionBytes};
use sim::{Config, Shape, VirtualCore, VirtualMachine, VirtualRegion, VirtualWord};

/// A machine of 2 sockets with 8 cores each and little memory.
pub fn small() -> Config {
    Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 8, 1)) }
}

/// A region that is seen as words.
pub struct Words(pub VirtualRegion);

impl Words {
    pub fn new(c: VirtualCore, node: u32, words: usize, name: &'static str) -> Words {
        Words(VirtualMachine::region(c, Some(Node(node)), words * 8, name).expect("memory"))
    }

    pub fn all(&self) -> &[VirtualWord] {
        // SAFETY: zeroed memory of this length, which is a valid slice of words, and lives as long
        // as the region.
        unsafe { std::slice::from_raw_parts(self.0.base().cast(), self.0.bytes() / 8) }
    }

    /// The first word of a line.
    pub fn line(&self, line: usize) -> &VirtualWord {
        &self.all()[line * 8]
    }
}

/// Workers on these hardware threads.
pub fn places(threads: impl IntoIterator<Item = u32>) -> Vec<Place> {
    threads.into_iter().map(|thread| Place { thread: Some(HardwareThread(thread)) }).collect()
}

/// Runs workers without a main program.
pub fn workers(c: VirtualCore, count: u32, worker: impl Fn(VirtualCore, usize) + Sync) {
    VirtualMachine::parallel(c, &places(0..count), &worker, &mut |_| ());
}

/// The time in which a line moves between these hardware threads.
pub fn transfer(config: &Config, access: Access, state: LineState, to: u32, from: u32) -> u64 {
    config.model.transfer_ps(access, state, HardwareThread(to), HardwareThread(from)).expect("threads")
}
