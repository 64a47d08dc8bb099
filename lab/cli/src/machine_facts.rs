//! Facts of a machine that a configuration depends on.

use std::collections::BTreeSet;

use machine::{Placement, Topology};

/// The name of the machine this process runs on.
pub const NATIVE: &str = "native";

/// Facts of the machine that runs a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// `native`, or the name of a simulated machine.
    pub name: String,
    /// Usable hardware threads when at most 1, 2, ... of each physical core are used; never empty.
    pub threads_by_smt: Vec<usize>,
    /// The socket of each of those threads, in the order in which they are used; as many lists as
    /// `threads_by_smt`.
    pub sockets_by_smt: Vec<Vec<u32>>,
    /// Machines that the threads are on, of equal numbers.
    pub machines: usize,
    /// Memory in bytes of the machine that holds the rows: this one, also for a simulated machine;
    /// `None` if unknown.
    pub host_memory_bytes: Option<u64>,
    /// Its description has TLBs.
    pub has_tlbs: bool,
}

/// Numbers of hardware threads, and their sockets, when at most 1, 2, ... of each core are used.
pub fn threads_by_smt(topology: &Topology) -> (Vec<usize>, Vec<Vec<u32>>) {
    let threads = |smt| topology.cores_limited(usize::MAX, smt);
    let socket = |thread| topology.socket_of(thread).unwrap_or(0);
    let sockets = |smt| threads(smt).into_iter().map(socket).collect::<Vec<u32>>();
    let sockets: Vec<_> = (1..=topology.smt().max(1)).map(sockets).collect();
    (sockets.iter().map(Vec::len).collect(), sockets)
}

impl MachineFacts {
    /// Sockets that this many workers are on, of which at most `smt` share a core. Machines are
    /// filled one after the other, or this many evenly.
    pub fn sockets(
        &self,
        workers: usize,
        smt: usize,
        placement: Placement,
        machines: Option<usize>,
    ) -> usize {
        let threads = &self.sockets_by_smt[smt - 1];
        let count = |threads: &[u32]| threads.iter().collect::<BTreeSet<_>>().len();
        let inside = self.threads_of_one(smt);
        let on_machine = |(machine, threads): (usize, &[u32])| {
            let here = match machines {
                Some(machines) if machine < machines => workers / machines,
                Some(_) => 0,
                None => workers.saturating_sub(machine * inside),
            };
            let here = here.min(threads.len());
            match placement {
                Placement::Spread => count(threads).min(here),
                Placement::Mix => count(threads).min(here.div_ceil(2)),
                Placement::Island | Placement::Os => count(&threads[..here]),
            }
        };
        threads.chunks(inside).enumerate().map(on_machine).sum()
    }

    /// Usable hardware threads of one machine.
    pub fn threads_of_one(&self, smt: usize) -> usize {
        (self.threads_by_smt[smt - 1] / self.machines).max(1)
    }

    /// Machines that this many workers are on, where each is filled before the next.
    pub fn machines_in_use(&self, workers: usize, smt: usize) -> usize {
        workers.div_ceil(self.threads_of_one(smt))
    }
}
