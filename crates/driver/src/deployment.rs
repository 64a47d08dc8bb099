//! Where the workers of a run are and where their memory lies.

use machine::{HardwareThread, Node, ThreadInfo, Topology};
use platform::Place;

use crate::bad_input::BadInput;
use crate::choices::{Memory, Peers, Placement, TpccLoad};
use crate::config::{Config, Workload};
use crate::errors::Failure;

/// Share of the host's memory that rows and indexes may take.
const MEMORY_SHARE_PERCENT: u64 = 85;
/// Limit where the machine does not say how much memory it has.
const MEMORY_BYTES_UNKNOWN: u64 = 8 << 30;

/// Workers, their places and nodes.
pub(crate) struct Setting {
    /// One place a worker.
    pub places: Vec<Place>,
    /// The memory node of each worker's rows, by `--memory`; `None` where the machine shows one node or none.
    pub nodes: Vec<Option<Node>>,
    /// The socket of each worker.
    pub sockets: Vec<u32>,
    /// Limit for rows and indexes.
    pub memory_bytes_max: u64,
    /// Whether parts of the data are dealt in contiguous blocks instead of in turn.
    blocks: bool,
}

impl Setting {
    /// The first threads of the machine in the order in which they are filled.
    pub(crate) fn of_topology(config: &Config, topology: &Topology) -> Result<Setting, Failure> {
        let hops = hops_by_distance(topology);
        Setting::of_threads(config, topology, &hops, topology.memory_bytes())
    }

    /// As [`Self::of_topology`], with the `hops` between the nodes of `topology`, on a host with this much memory (0 where
    /// it does not say): what is simulated lives there too.
    pub(crate) fn of_threads(
        config: &Config,
        topology: &Topology,
        hops: &[Vec<u32>],
        host_memory_bytes: u64,
    ) -> Result<Setting, Failure> {
        let threads = match (&config.workload, config.placement) {
            (Workload::Ipc(ipc), _) => peers(topology, ipc.peers)?,
            (_, Placement::Spread) => spread(topology, config.cores, config.smt),
            _ => topology.cores_limited(config.cores, config.smt),
        };
        if threads.len() < config.cores {
            let (wanted, there) = (config.cores, threads.len());
            return Err(Failure::Failed(format!("--cores {wanted}: the machine has {there}")));
        }
        let pinned = config.placement != Placement::Os;
        let places = threads.iter().map(|thread| Place { thread: pinned.then_some(*thread) }).collect();
        let sockets = threads.iter().map(|thread| topology.socket_of(*thread).unwrap_or(0)).collect();
        let memory = match host_memory_bytes {
            0 => MEMORY_BYTES_UNKNOWN,
            bytes => bytes / 100 * MEMORY_SHARE_PERCENT,
        };
        Ok(Setting {
            places,
            nodes: memory_nodes(config.memory, topology, hops, &threads)?,
            sockets,
            memory_bytes_max: memory,
            blocks: matches!(&config.workload, Workload::Tpcc(tpcc) if tpcc.load == TpccLoad::Block),
        })
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.places.len()
    }

    /// The memory nodes of the workers' rows, each once.
    pub(crate) fn nodes_in_use(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.nodes.iter().copied().flatten().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The worker that loads part `part` of `parts`, on whose node it then lies: the one whose home it is, or, with
    /// `--load block`, the one whose block of about `parts / workers` parts it is in, larger blocks first.
    pub(crate) fn loader(&self, part: usize, parts: usize) -> usize {
        let workers = self.workers();
        if !self.blocks {
            return part % workers;
        }
        let (small, larger) = (parts / workers, parts % workers);
        let in_larger = larger * (small + 1);
        if part < in_larger { part / (small + 1) } else { larger + (part - in_larger) / small }
    }

    /// The node of part `part` of `parts`.
    pub(crate) fn home(&self, part: usize, parts: usize) -> Option<Node> {
        self.nodes[if part < parts { self.loader(part, parts) } else { part % self.workers() }]
    }
}

/// Two threads of one socket, on two cores if it has them, or the first of two sockets.
fn peers(topology: &Topology, peers: Peers) -> Result<Vec<HardwareThread>, BadInput> {
    let threads = topology.threads();
    let fault = |problem| {
        BadInput::value("--peers", peers.name(), problem, "same-socket, other-socket where there are two")
    };
    let Some(first) = threads.first() else { return Err(fault("the machine has no hardware thread")) };
    let second = match peers {
        Peers::OtherSocket => threads.iter().find(|info| info.package != first.package),
        Peers::SameSocket => {
            let here = |info: &&ThreadInfo| info.package == first.package && info.thread != first.thread;
            let other_core = threads.iter().filter(here).find(|info| info.core != first.core);
            other_core.or_else(|| threads.iter().find(here))
        }
    };
    let second = second.ok_or_else(|| match peers {
        Peers::OtherSocket => fault("the machine has one socket"),
        Peers::SameSocket => fault("every socket has one hardware thread"),
    })?;
    Ok(vec![first.thread, second.thread])
}

/// The first `count` threads when sockets are filled in turn: first one thread of each core, then their siblings.
fn spread(topology: &Topology, count: usize, smt: usize) -> Vec<HardwareThread> {
    let threads = topology.threads();
    let rank = |info: &ThreadInfo| {
        let before = threads.iter().filter(|other| other.package == info.package && other.core < info.core);
        before.filter(|other| other.sibling == 0).count()
    };
    let usable = threads.iter().filter(|info| (info.sibling as usize) < smt);
    let mut keyed: Vec<_> =
        usable.map(|info| ((info.sibling, rank(info), info.package), info.thread)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().take(count).map(|(_, thread)| thread).collect()
}

/// Hops between the nodes of a real machine: the rank of the distance that its firmware reports.
fn hops_by_distance(topology: &Topology) -> Vec<Vec<u32>> {
    let nodes: Vec<Node> = topology.nodes().iter().map(|memory| memory.node).collect();
    let mut hops = Vec::with_capacity(nodes.len());
    for from in &nodes {
        let distances: Vec<u32> = nodes.iter().map(|to| topology.distance(*from, *to)).collect();
        let mut others: Vec<u32> = nodes
            .iter()
            .zip(&distances)
            .filter(|(to, _)| *to != from)
            .map(|(_, distance)| *distance)
            .collect();
        others.sort_unstable();
        others.dedup();
        let rank =
            |distance| others.iter().position(|other| *other == distance).map_or(1, |rank| rank as u32 + 1);
        let row = nodes.iter().zip(&distances);
        hops.push(row.map(|(to, distance)| if to == from { 0 } else { rank(*distance) }).collect());
    }
    hops
}

/// The memory node of each worker's rows. Of several nodes at the distance asked for, a worker takes the next one after
/// its own, so that workers of different nodes load different memories.
fn memory_nodes(
    memory: Memory,
    topology: &Topology,
    hops: &[Vec<u32>],
    threads: &[HardwareThread],
) -> Result<Vec<Option<Node>>, BadInput> {
    let nodes = topology.nodes();
    let own = |thread: &HardwareThread| {
        topology.node_of(*thread).and_then(|node| topology.node_position(node)).unwrap_or(0)
    };
    let distance = |from: usize, to: usize| hops.get(from).and_then(|row| row.get(to)).copied().unwrap_or(1);
    let wanted = |from: usize| {
        let after = (1..=nodes.len()).map(|step| (from + step) % nodes.len());
        match memory {
            Memory::Local | Memory::Hops(0) => Some(from),
            Memory::Central => threads.first().map(own),
            Memory::Remote => after.into_iter().find(|to| *to != from),
            Memory::Hops(hops) => after.into_iter().find(|to| *to != from && distance(from, *to) == hops),
        }
    };
    let fault = |from: usize| {
        let mut there: Vec<u32> = (0..nodes.len()).map(|to| distance(from, to)).collect();
        there.sort_unstable();
        there.dedup();
        let there: Vec<String> = there.into_iter().skip(1).map(|hops| format!("hops={hops}")).collect();
        let (problem, more) = match nodes.len() {
            0 | 1 => ("the machine has one memory node".to_owned(), String::new()),
            _ => (format!("no such node seen from node {}", nodes[from].node.0), ", remote, ".to_owned()),
        };
        let accepted = format!("local, central{more}{}", there.join(", "));
        BadInput::value("--memory", &memory.to_string(), problem, accepted)
    };
    let several = nodes.len() > 1;
    let node_of = |thread: &HardwareThread| {
        if !several && matches!(memory, Memory::Local | Memory::Central | Memory::Hops(0)) {
            return Ok(None);
        }
        let from = own(thread);
        let to = if several { wanted(from) } else { None }.ok_or_else(|| fault(from))?;
        Ok(Some(nodes[to].node))
    };
    threads.iter().map(node_of).collect()
}

#[cfg(test)]
mod tests {
    use machine::Description;

    use super::*;
    use crate::config::tests::resolved_on;

    /// The setting of a command line on a machine that ships with Isles.
    fn setting(machine: &str, line: &str) -> Result<Setting, Failure> {
        let description = Description::shipped(machine).expect("shipped");
        let config = resolved_on(&description.topology, line);
        Setting::of_threads(&config, &description.topology, &description.hops, 0)
    }

    fn nodes(machine: &str, line: &str) -> Vec<u32> {
        let setting = setting(machine, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        setting.nodes.iter().map(|node| node.expect("several nodes").0).collect()
    }

    fn fault(machine: &str, line: &str) -> String {
        match setting(machine, line) {
            Ok(_) => panic!("{line}: accepted"),
            Err(Failure::BadInput(fault)) => fault.to_string(),
            Err(other) => panic!("{line}: {other}"),
        }
    }

    #[test]
    fn memory_lies_where_asked() {
        // Six cores a socket.
        assert_eq!(nodes("quad-socket", "micro --cores 7"), [0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(nodes("quad-socket", "micro --cores 7 --memory central"), [0; 7]);
        assert_eq!(nodes("quad-socket", "micro --cores 7 --memory remote"), [1, 1, 1, 1, 1, 1, 2]);
        let remote = nodes("quad-socket", "micro --memory remote");
        assert_eq!(remote[18..], [0; 6], "the last socket reads the first one's memory");
        assert_eq!(nodes("quad-socket", "micro --cores 1 --memory hops=0"), [0]);
        let description = Description::shipped("octo-socket").expect("shipped");
        for hops in [1, 2] {
            let nodes = nodes("octo-socket", &format!("micro --memory hops={hops}"));
            for (worker, node) in nodes.iter().enumerate() {
                assert_eq!(description.hops[worker / 10][*node as usize], hops, "worker {worker}");
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        assert_eq!(
            fault("octo-socket", "micro --memory hops=3"),
            "--memory hops=3: no such node seen from node 0 (accepted: local, central, remote, hops=1, hops=2)"
        );
        let native = machine::discover(None).expect("this machine");
        if native.nodes().len() == 1 {
            let config = resolved_on(&native, "micro --cores 1 --memory remote");
            let fault = Setting::of_topology(&config, &native).err().expect("refused").to_string();
            assert_eq!(fault, "--memory remote: the machine has one memory node (accepted: local, central)");
        }
    }

    #[test]
    fn spread_goes_round_the_sockets() {
        let sockets = |line| setting("quad-socket", line).expect("a setting").sockets;
        assert_eq!(sockets("micro --cores 5 --placement spread"), [0, 1, 2, 3, 0]);
        assert_eq!(sockets("micro --cores 5"), [0; 5]);
        let places =
            setting("superdome-flex", "micro --cores 60 --placement spread").expect("a setting").places;
        let description = Description::shipped("superdome-flex").expect("shipped");
        let cores = places
            .iter()
            .map(|place| description.topology.thread(place.thread.expect("pinned")).expect("a thread").core);
        let mut cores: Vec<u32> = cores.collect();
        cores.sort_unstable();
        cores.dedup();
        assert_eq!(cores.len(), 60, "no two on one core while others are free");
        assert!(
            setting("quad-socket", "micro --placement os").expect("a setting").places[0].thread.is_none()
        );
    }

    #[test]
    fn peers_are_where_asked() {
        let sockets = |line| setting("quad-socket", line).expect("a setting").sockets;
        assert_eq!(sockets("ipc"), [0, 0]);
        assert_eq!(sockets("ipc --peers other-socket"), [0, 1]);
        let places = setting("superdome-flex", "ipc").expect("a setting").places;
        let description = Description::shipped("superdome-flex").expect("shipped");
        let core = |place: &Place| {
            description.topology.thread(place.thread.expect("pinned")).expect("a thread").core
        };
        assert_ne!(core(&places[0]), core(&places[1]), "two cores, not two siblings");
        let native = machine::discover(None).expect("this machine");
        if native.socket_count() == 1 && native.threads().len() > 1 {
            let config = resolved_on(&native, "ipc --peers other-socket");
            let fault = Setting::of_topology(&config, &native).err().expect("refused").to_string();
            assert!(
                fault.starts_with("--peers other-socket: the machine has one socket (accepted: "),
                "{fault}"
            );
        }
    }

    #[test]
    fn blocks_are_contiguous_and_the_larger_ones_come_first() {
        let loaders = |line| {
            let setting = setting("quad-socket", line).expect("a setting");
            (0..10).map(|part| setting.loader(part, 10)).collect::<Vec<_>>()
        };
        assert_eq!(loaders("tpcc --cores 4 --warehouses 10 --load block"), [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(loaders("tpcc --cores 4 --warehouses 10"), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
        assert_eq!(loaders("tpcc --warehouses 10 --load block"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn distances_rank_as_hops() {
        let description = Description::shipped("quad-socket").expect("shipped");
        // It reports no distances: all others are one hop away.
        let hops = hops_by_distance(&description.topology);
        assert_eq!(hops[1], [1, 0, 1, 1]);
    }
}
