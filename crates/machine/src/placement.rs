//! Hardware threads of the workers of one or several instances: [`place_workers`] chooses them,
//! [`place`] divides them among instances. Machines of a cluster are filled one after the other,
//! and each has whole instances.
//!
//! *Island* placement. Instances take `q` or `q + 1` threads. Sockets that can be filled exactly by
//! whole instances form a *component* of their own. Within a component of several sockets the
//! instances follow each other along a chain of close sockets. Summed over instances, the number of
//! sockets spanned is `instances + sockets - components`, because every socket of a component
//! beyond the first costs one instance that crosses over. So there are as many and as small
//! components as possible. Along a chain an instance spans at most one socket more than its size
//! alone requires. A component that is one socket is split in the same way among its memory nodes,
//! L3 domains, L2 groups and cores.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use terms::HardwareThread;

use crate::topology::{ThreadInfo, Topology};

/// Placement of instances on the hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Each instance on as few and as close sockets as possible.
    Island,
    /// Each instance on as many sockets as possible.
    Spread,
    /// As [`Placement::Island`], with threads of two cores of a socket, then of the next socket.
    Mix,
    /// Placement by the operating system: nothing is pinned, but workers stay on the machine of
    /// their instance. The sets then only give the number of threads of each instance. As a
    /// stand-in without any information about the machine, threads are dealt in turn by the
    /// operating system's numbers.
    Os,
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Placement::Island => "island",
            Placement::Spread => "spread",
            Placement::Mix => "mix",
            Placement::Os => "os",
        })
    }
}

impl FromStr for Placement {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "island" => Ok(Placement::Island),
            "spread" => Ok(Placement::Spread),
            "mix" => Ok(Placement::Mix),
            "os" => Ok(Placement::Os),
            _ => Err(PlaceError::UnknownPlacement(text.to_owned())),
        }
    }
}

/// Reasons for which threads cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A text that names no placement.
    #[error("`{0}` is no placement: expected island, spread or os")]
    UnknownPlacement(String),
    /// Zero instances were requested.
    #[error("0 instances: at least one is needed")]
    NoInstances,
    /// Some instances would get no thread.
    #[error("{instances} instances on {threads} hardware threads: each needs at least one")]
    TooManyInstances {
        /// Number of requested instances.
        instances: usize,
        /// Number of threads to divide among them.
        threads: usize,
    },
    /// A thread that the machine does not have, or that is not allowed.
    #[error("hardware thread {} is not one of the machine's allowed ones", .0.0)]
    UnknownThread(HardwareThread),
    /// A thread that was given twice.
    #[error("hardware thread {} is given twice", .0.0)]
    Repeated(HardwareThread),
    /// Fewer threads than workers.
    #[error("{wanted} workers: the machine has {available}")]
    TooFewThreads {
        /// Number of requested workers.
        wanted: usize,
        /// Number of available hardware threads.
        available: usize,
    },
    /// An instance would be on two machines.
    #[error(
        "{instances} instances of {threads} workers on {machines} machines: an instance would be on two of them"
    )]
    SpansMachines {
        /// Number of requested instances.
        instances: usize,
        /// Number of their workers.
        threads: usize,
        /// Number of machines of the workers.
        machines: usize,
    },
    /// Workers that cannot be divided evenly.
    #[error("{workers} workers cannot be divided evenly among {machines} machines")]
    Uneven {
        /// Number of workers.
        workers: usize,
        /// Number of machines.
        machines: usize,
    },
    /// The machine has no two such threads for peers.
    #[error("{0}")]
    NoPeers(&'static str),
}

/// Request for the placement of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRequest {
    /// Number of workers, one for each hardware thread.
    pub workers: usize,
    /// Largest number of hardware threads used on a physical core.
    pub smt: usize,
    /// Instances that share the workers.
    pub instances: usize,
    /// Placement of the instances.
    pub placement: Placement,
    /// Machines of a cluster among which the workers are divided evenly; `None` fills each machine
    /// before the next.
    pub machines: Option<usize>,
}

/// Chooses a hardware thread for each worker of each instance.
///
/// The threads are the first ones in fill order, of each machine in use. With [`Placement::Spread`]
/// they go round the sockets: the first thread of the first core of each socket, then of the second
/// core, and the cores' other threads last. [`Placement::Mix`] does the same with two cores of each
/// socket at a time. An instance's threads are in the order in which they were chosen.
///
/// # Errors
/// [`PlaceError`]: fewer threads than workers, no instances, more instances than workers.
pub fn place_workers(
    topology: &Topology,
    request: &WorkerRequest,
) -> Result<Vec<Vec<HardwareThread>>, PlaceError> {
    let WorkerRequest { smt, instances, placement, .. } = *request;
    let shares = shares(topology, request)?;
    let of_machine = |(machine, share): (usize, &usize)| match placement {
        Placement::Spread => round_the_sockets(topology, machine, *share, smt, 1),
        Placement::Mix => round_the_sockets(topology, machine, *share, smt, 2),
        Placement::Island | Placement::Os => in_fill_order(topology, machine, smt).take(*share).collect(),
    };
    let threads: Vec<HardwareThread> = shares.iter().enumerate().flat_map(of_machine).collect();
    let mut sets = place(topology, &threads, instances, placement)?;
    let order: BTreeMap<HardwareThread, usize> = threads.into_iter().zip(0..).collect();
    sets.iter_mut().for_each(|set| set.sort_unstable_by_key(|thread| order[thread]));
    Ok(sets)
}

/// The usable threads of a machine in fill order.
fn in_fill_order(
    topology: &Topology,
    machine: usize,
    smt: usize,
) -> impl Iterator<Item = HardwareThread> + '_ {
    let inside = move |thread: &HardwareThread| topology.machine_of(*thread).unwrap_or(0) as usize == machine;
    topology.cores_limited(usize::MAX, smt).into_iter().filter(inside)
}

/// Number of workers on each machine in use.
fn shares(topology: &Topology, request: &WorkerRequest) -> Result<Vec<usize>, PlaceError> {
    let WorkerRequest { workers, smt, machines, .. } = *request;
    if let Some(machines) = machines {
        let of = |machine: usize| in_fill_order(topology, machine, smt).count();
        let least = (0..machines).map(of).min().unwrap_or(0);
        if !workers.is_multiple_of(machines.max(1)) {
            return Err(PlaceError::Uneven { workers, machines });
        }
        if least * machines < workers {
            return Err(PlaceError::TooFewThreads { wanted: workers, available: least * machines });
        }
        return Ok(vec![workers / machines; machines]);
    }
    let mut shares = Vec::new();
    let threads = topology.cores_limited(workers, smt);
    if threads.len() < workers {
        return Err(PlaceError::TooFewThreads { wanted: workers, available: threads.len() });
    }
    for thread in threads {
        let machine = topology.machine_of(thread).unwrap_or(0) as usize;
        shares.resize(shares.len().max(machine + 1), 0);
        shares[machine] += 1;
    }
    Ok(shares)
}

/// The first `count` threads of a machine when its sockets are filled in turn with this many cores
/// at a time: first one thread of each core, then their siblings.
fn round_the_sockets(
    topology: &Topology,
    machine: usize,
    count: usize,
    smt: usize,
    cores: usize,
) -> Vec<HardwareThread> {
    let threads = topology.threads();
    let rank = |info: &ThreadInfo| {
        let before = threads.iter().filter(|other| other.package == info.package && other.core < info.core);
        before.filter(|other| other.sibling == 0).count()
    };
    let usable =
        threads.iter().filter(|info| info.machine as usize == machine && (info.sibling as usize) < smt);
    let key = |info: &ThreadInfo| (info.sibling, rank(info) / cores, info.package, rank(info) % cores);
    let mut keyed: Vec<_> = usable.map(|info| (key(info), info.thread)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().take(count).map(|(_, thread)| thread).collect()
}

/// Divides hardware threads among instances.
///
/// Every thread belongs to exactly one instance, and sizes differ by at most one. Instances are
/// ordered by their first thread in fill order, except for [`Placement::Os`]; their members are in
/// fill order.
///
/// # Errors
/// [`PlaceError`]: no instances, more instances than threads, unknown or repeated threads.
pub fn place(
    topology: &Topology,
    threads: &[HardwareThread],
    instances: usize,
    placement: Placement,
) -> Result<Vec<Vec<HardwareThread>>, PlaceError> {
    if instances == 0 {
        return Err(PlaceError::NoInstances);
    }
    if instances > threads.len() {
        return Err(PlaceError::TooManyInstances { instances, threads: threads.len() });
    }
    let mut positions = Vec::with_capacity(threads.len());
    for &thread in threads {
        positions.push(topology.fill_position(thread).ok_or(PlaceError::UnknownThread(thread))?);
    }
    positions.sort_unstable();
    if let Some(pair) = positions.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PlaceError::Repeated(topology.threads()[pair[0]].thread));
    }
    let machines = positions
        .chunk_by(|one, other| topology.threads()[*one].machine == topology.threads()[*other].machine);
    let mut sets = Vec::with_capacity(instances);
    for (positions, instances) in on_machines(machines.collect(), instances)? {
        let positions = positions.to_vec();
        sets.extend(match placement {
            Placement::Island | Placement::Mix => Divider::new(topology).divide(positions, instances, 0),
            Placement::Spread => spread(topology, positions, instances),
            Placement::Os => divide_in_turn(topology, positions, instances),
        });
    }
    sets.iter_mut().for_each(|set| set.sort_unstable());
    if placement != Placement::Os {
        sets.sort_unstable();
    }
    let name = |position: usize| topology.threads()[position].thread;
    Ok(sets.into_iter().map(|set| set.into_iter().map(name).collect()).collect())
}

/// Divides instances among machines, whose threads are given, so that each instance is within one
/// machine.
fn on_machines(machines: Vec<&[usize]>, instances: usize) -> Result<Vec<(&[usize], usize)>, PlaceError> {
    let threads = machines.iter().map(|threads| threads.len()).sum::<usize>();
    let ranges: Vec<_> = machines.iter().map(|inside| fitting(inside.len(), threads / instances)).collect();
    let fewest: usize = ranges.iter().map(|range| range.0).sum();
    let most: usize = ranges.iter().map(|range| range.1).sum();
    if ranges.iter().any(|range| range.0 > range.1) || !(fewest..=most).contains(&instances) {
        return Err(PlaceError::SpansMachines { instances, threads, machines: machines.len() });
    }
    let mut missing = instances - fewest;
    let settled = machines.into_iter().zip(ranges).map(|(inside, (fewest, most))| {
        let more = missing.min(most - fewest);
        missing -= more;
        (inside, fewest + more)
    });
    Ok(settled.collect())
}

/// Positions in fill order.
type Positions = Vec<usize>;

/// Levels by which a component is split, from coarse to fine.
const LEVELS: [fn(&ThreadInfo) -> u32; 6] = [
    |info| info.package,
    |info| info.die,
    |info| info.neighbourhood,
    |info| info.l3_domain,
    |info| info.l2_group,
    |info| info.core,
];

/// Divides threads into islands.
struct Divider<'a> {
    topology: &'a Topology,
    /// Positions of nodes in the distance matrix, by hardware thread position.
    node_positions: Vec<usize>,
}

/// A socket, or a smaller unit, with the threads that are to be assigned.
#[derive(Clone)]
struct Unit {
    threads: Positions,
}

/// Units that whole instances fill exactly.
struct Component {
    units: Vec<Unit>,
    instances: usize,
}

/// Numbers of instances of `small` or `small + 1` threads that can fill exactly `threads`: a range,
/// empty if none can.
fn fitting(threads: usize, small: usize) -> (usize, usize) {
    (threads.div_ceil(small + 1), threads / small)
}

impl<'a> Divider<'a> {
    fn new(topology: &'a Topology) -> Self {
        let position = |info: &ThreadInfo| topology.node_position(info.node).unwrap_or(0);
        Self { topology, node_positions: topology.threads().iter().map(position).collect() }
    }

    /// Divides `threads` among `instances`, splitting by `LEVELS[level]` first.
    fn divide(&self, threads: Positions, instances: usize, level: usize) -> Vec<Positions> {
        if instances == 1 {
            return vec![threads];
        }
        let Some(key) = LEVELS.get(level) else { return cut(&threads, instances) };
        let mut units: BTreeMap<u32, Unit> = BTreeMap::new();
        for &position in &threads {
            let unit = units.entry(key(&self.topology.threads()[position]));
            unit.or_insert_with(|| Unit { threads: Vec::new() }).threads.push(position);
        }
        let units: Vec<Unit> = units.into_values().collect();
        let mut sets = Vec::with_capacity(instances);
        for Component { mut units, instances } in self.components(units, instances) {
            if units.len() == 1 {
                sets.extend(self.divide(units.remove(0).threads, instances, level + 1));
            } else {
                let chain: Positions = units.into_iter().flat_map(|unit| unit.threads).collect();
                sets.extend(cut(&chain, instances));
            }
        }
        sets
    }

    /// Finds many small groups of close units that whole instances fill exactly. The remaining
    /// units are the last component.
    fn components(&self, mut rest: Vec<Unit>, instances: usize) -> Vec<Component> {
        let total: usize = rest.iter().map(|unit| unit.threads.len()).sum();
        let small = total / instances;
        let mut found: Vec<(Vec<Unit>, (usize, usize))> = Vec::new();
        let (mut fewest, mut most) = (0, 0);
        let mut size = 1;
        while size < rest.len() {
            let fits = |group: &[usize]| {
                let inside: usize = group.iter().map(|&index| rest[index].threads.len()).sum();
                let outside = rest.iter().map(|unit| unit.threads.len()).sum::<usize>() - inside;
                let (group, remainder) = (fitting(inside, small), fitting(outside, small));
                let exact = group.0 <= group.1 && remainder.0 <= remainder.1;
                let reachable =
                    fewest + group.0 + remainder.0 <= instances && instances <= most + group.1 + remainder.1;
                (exact && reachable).then_some(group)
            };
            let candidates = (0..rest.len()).map(|seed| self.close_group(&rest, seed, size));
            let chosen = candidates.into_iter().find_map(|group| fits(&group).map(|range| (group, range)));
            let Some((group, range)) = chosen else {
                size += 1;
                continue;
            };
            fewest += range.0;
            most += range.1;
            let units = group.iter().map(|&index| rest[index].clone()).collect();
            found.push((units, range));
            rest = remove(rest, &group);
        }
        let order = self.close_group(&rest, 0, rest.len());
        let left: usize = rest.iter().map(|unit| unit.threads.len()).sum();
        found.push((order.iter().map(|&index| rest[index].clone()).collect(), fitting(left, small)));
        settle(found, instances)
    }

    /// Indices of `size` units close to each other, grown from `seed` so that neighbours in the
    /// list are close.
    fn close_group(&self, units: &[Unit], seed: usize, size: usize) -> Vec<usize> {
        let mut group = vec![seed];
        while group.len() < size {
            let last = group[group.len() - 1];
            let cost = |&candidate: &usize| {
                let to_all: u64 =
                    group.iter().map(|&member| self.distance(&units[member], &units[candidate])).sum();
                (to_all, self.distance(&units[last], &units[candidate]), candidate)
            };
            let others = (0..units.len()).filter(|index| !group.contains(index));
            let Some(next) = others.min_by_key(cost) else { break };
            group.push(next);
        }
        group
    }

    /// Relative distance between two units, from the memories of their first threads.
    fn distance(&self, one: &Unit, other: &Unit) -> u64 {
        let node = |unit: &Unit| self.node_positions[unit.threads[0]];
        let (from, to) = (node(one), node(other));
        match self.topology.distances() {
            Some(matrix) => u64::from(matrix[from][to]) + u64::from(matrix[to][from]),
            None => u64::from(from != to),
        }
    }
}

fn remove(units: Vec<Unit>, group: &[usize]) -> Vec<Unit> {
    let kept = units.into_iter().enumerate().filter(|(index, _)| !group.contains(index));
    kept.map(|(_, unit)| unit).collect()
}

/// Chooses the number of instances of each component within its range so that the numbers add up.
fn settle(found: Vec<(Vec<Unit>, (usize, usize))>, instances: usize) -> Vec<Component> {
    let mut missing = instances - found.iter().map(|(_, range)| range.0).sum::<usize>();
    let mut components = Vec::with_capacity(found.len());
    for (units, (fewest, most)) in found {
        let more = missing.min(most - fewest);
        missing -= more;
        components.push(Component { units, instances: fewest + more });
    }
    assert_eq!(missing, 0, "components are only taken while their ranges reach the number of instances");
    components.retain(|component| component.instances > 0);
    components
}

/// Cuts a sequence into runs whose lengths differ by at most one, the longer ones first.
fn cut(sequence: &[usize], instances: usize) -> Vec<Positions> {
    let (small, longer) = (sequence.len() / instances, sequence.len() % instances);
    let mut rest = sequence;
    let mut runs = Vec::with_capacity(instances);
    for instance in 0..instances {
        let (run, remainder) = rest.split_at(small + usize::from(instance < longer));
        runs.push(run.to_vec());
        rest = remainder;
    }
    runs
}

/// Gives every instance in turn threads of as many sockets as it can, always from the sockets with
/// the most threads left.
fn spread(topology: &Topology, positions: Positions, instances: usize) -> Vec<Positions> {
    let bundle = bundle_size(topology, &positions, instances);
    let mut sockets: BTreeMap<u32, Vec<Positions>> = BTreeMap::new();
    for chunk in positions.chunks(bundle) {
        let socket = topology.threads()[chunk[0]].package;
        sockets.entry(socket).or_default().push(chunk.to_vec());
    }
    let mut left: Vec<std::collections::VecDeque<Positions>> =
        sockets.into_values().map(Into::into).collect();
    let bundles = positions.len() / bundle;
    let (small, longer) = (bundles / instances, bundles % instances);
    let mut sets = Vec::with_capacity(instances);
    for instance in 0..instances {
        let mut taken = vec![0_usize; left.len()];
        let mut set = Vec::new();
        for _ in 0..small + usize::from(instance < longer) {
            let stocked = (0..left.len()).filter(|&socket| !left[socket].is_empty());
            let choice = |&socket: &usize| (taken[socket], std::cmp::Reverse(left[socket].len()), socket);
            let Some(socket) = stocked.min_by_key(choice) else { break };
            taken[socket] += 1;
            set.extend(left[socket].pop_front().into_iter().flatten());
        }
        sets.push(set);
    }
    sets
}

/// Number of threads that are dealt together: those of a core if that keeps sizes equal, so that
/// instances do not share cores; otherwise one.
fn bundle_size(topology: &Topology, positions: &[usize], instances: usize) -> usize {
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for &position in positions {
        *sizes.entry(topology.threads()[position].core).or_default() += 1;
    }
    let first = sizes.values().next().copied().unwrap_or(1);
    let alike = sizes.values().all(|&size| size == first);
    if alike && sizes.len().is_multiple_of(instances) { first } else { 1 }
}

/// Deals threads in turn by the operating system's numbers.
fn divide_in_turn(topology: &Topology, mut positions: Positions, instances: usize) -> Vec<Positions> {
    positions.sort_by_key(|&position| topology.threads()[position].thread);
    let mut sets = vec![Vec::new(); instances];
    for (turn, position) in positions.into_iter().enumerate() {
        sets[turn % instances].push(position);
    }
    sets
}
