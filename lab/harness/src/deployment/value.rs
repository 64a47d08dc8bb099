//! A deployment: instances, their workers, places and memory nodes, and how instances talk.

use std::fmt;

use machine::{HardwareThread, Node};
use platform::Place;
use platform::link::{KernelMechanism, Mechanism};
use serde::{Deserialize, Serialize};

use super::error::DeploymentError;
use crate::names::names;

/// Limit for rows and indexes where nothing else is known.
pub(crate) const MEMORY_BYTES_UNKNOWN: u64 = 8 << 30;

/// Where one worker runs, and where its rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerPlace {
    /// The hardware thread that the worker is pinned to; `None` leaves it to the operating system.
    pub thread: Option<HardwareThread>,
    /// The memory node of the worker's rows; `None` where the machine shows one node or none.
    pub node: Option<Node>,
    /// The socket that the worker runs on.
    pub socket: u32,
}

/// One instance of the engine: a database of its own, with its share of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    /// The machine that its workers are on, of several: 0 is the first.
    pub machine: u32,
    /// Its workers.
    pub workers: Vec<WorkerPlace>,
}

impl Default for Instance {
    /// One worker that runs anywhere.
    fn default() -> Self {
        Instance { machine: 0, workers: vec![WorkerPlace::default()] }
    }
}

impl Instance {
    /// The memory nodes of the workers' rows, each once.
    pub fn nodes_in_use(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.workers.iter().filter_map(|worker| worker.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// How the instances of a deployment on one machine talk to each other; those on two machines use
/// TCP. It means nothing if there is one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Rings in shared memory.
    #[default]
    Shm,
    /// Unix domain sockets.
    Uds,
    /// TCP.
    Tcp,
}

names! { Transport { Shm = "shm", Uds = "uds", Tcp = "tcp" } }

impl Transport {
    /// The mechanism of links.
    pub fn mechanism(self) -> Mechanism {
        match self {
            Transport::Shm => Mechanism::SharedMemory,
            Transport::Uds => Mechanism::Kernel(KernelMechanism::Unix),
            Transport::Tcp => Mechanism::Kernel(KernelMechanism::Tcp),
        }
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Uds => "uds",
            Transport::Tcp => "tcp",
        }
    }
}

/// How the parts of a workload's data are dealt to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// In turn.
    #[default]
    RoundRobin,
    /// In contiguous blocks.
    Blocks,
}

// The names of `--load`: where warehouses are loaded.
names! { Partitioning { RoundRobin = "home", Blocks = "block" } }

impl Partitioning {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Partitioning::RoundRobin => "round-robin",
            Partitioning::Blocks => "blocks",
        }
    }
}

/// Where a workload runs. Workers are numbered through all instances, in their order; a part of the
/// data belongs to the instance of the worker whose home it is. Displays as the file that it can be
/// read from ([`Deployment::from_toml`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deployment {
    /// How instances on one machine talk.
    pub transport: Transport,
    /// How the parts of the data are dealt to workers.
    pub partitioning: Partitioning,
    /// Limit for rows and indexes, of all instances together.
    pub memory_bytes_max: u64,
    /// The instances.
    pub instances: Vec<Instance>,
}

impl Default for Deployment {
    /// One instance with one worker, anywhere.
    fn default() -> Self {
        Deployment {
            transport: Transport::default(),
            partitioning: Partitioning::default(),
            memory_bytes_max: MEMORY_BYTES_UNKNOWN,
            instances: vec![Instance::default()],
        }
    }
}

impl Deployment {
    /// One instance whose workers run wherever the platform puts them, in one memory.
    pub fn unpinned(workers: usize, memory_bytes_max: u64) -> Self {
        let instance = Instance { machine: 0, workers: vec![WorkerPlace::default(); workers] };
        Deployment { memory_bytes_max, instances: vec![instance], ..Deployment::default() }
    }

    /// The same with the rows of worker `n` on node `nodes[n]`, beginning again where there are
    /// fewer nodes than workers.
    #[must_use]
    pub fn with_nodes(mut self, nodes: &[Node]) -> Self {
        let workers = self.instances.iter_mut().flat_map(|instance| &mut instance.workers);
        workers.zip(nodes.iter().cycle()).for_each(|(worker, node)| worker.node = Some(*node));
        self
    }

    /// Refuses what nothing can run: no instances or workers, two workers on one hardware thread,
    /// no memory.
    ///
    /// # Errors
    /// [`DeploymentError`]: what is wrong.
    pub fn check(&self) -> Result<(), DeploymentError> {
        self.check_apart()?;
        let all: Vec<&Instance> = self.instances.iter().collect();
        match repeated(&all) {
            Some(thread) => Err(DeploymentError::Repeated(thread)),
            None => Ok(()),
        }
    }

    /// As [`Self::check`], where each instance may be on a machine of its own.
    ///
    /// # Errors
    /// [`DeploymentError`]: what is wrong.
    pub fn check_apart(&self) -> Result<(), DeploymentError> {
        if self.instances.is_empty() {
            return Err(DeploymentError::NoInstances);
        }
        if let Some(empty) = self.instances.iter().position(|instance| instance.workers.is_empty()) {
            return Err(DeploymentError::NoWorkers(empty));
        }
        if self.memory_bytes_max == 0 {
            return Err(DeploymentError::NoMemory);
        }
        match self.instances.iter().find_map(|instance| repeated(&[instance])) {
            Some(thread) => Err(DeploymentError::Repeated(thread)),
            None => Ok(()),
        }
    }

    /// The same with only the workers of one instance on threads and nodes of this machine.
    #[must_use]
    pub(crate) fn on_machine_of(mut self, instance: usize) -> Self {
        let others = self.instances.iter_mut().enumerate().filter(|(number, _)| *number != instance);
        let workers = others.flat_map(|(_, instance)| &mut instance.workers);
        workers.for_each(|worker| *worker = WorkerPlace { socket: worker.socket, ..WorkerPlace::default() });
        self
    }

    /// [`Self::check`], and refuses several instances, for those who run one.
    ///
    /// # Errors
    /// [`DeploymentError`]: what is wrong.
    pub fn check_single(&self) -> Result<(), DeploymentError> {
        match self.instances.len() {
            0 | 1 => self.check(),
            several => Err(DeploymentError::Several(several)),
        }
    }

    /// All workers.
    fn all(&self) -> impl Iterator<Item = &WorkerPlace> {
        self.instances.iter().flat_map(|instance| &instance.workers)
    }

    /// The instance of a worker.
    pub fn instance_of(&self, worker: usize) -> usize {
        let mut workers = self.instances.iter().scan(0, |end, instance| {
            *end += instance.workers.len();
            Some(*end)
        });
        workers.position(|end| worker < end).unwrap_or(self.instances.len() - 1)
    }

    /// Machines that instances are on.
    pub fn machines(&self) -> usize {
        self.instances.iter().map(|instance| instance.machine as usize + 1).max().unwrap_or(1)
    }

    /// How two instances talk.
    pub fn transport_between(&self, one: usize, other: usize) -> Transport {
        match self.instances[one].machine == self.instances[other].machine {
            true => self.transport,
            false => Transport::Tcp,
        }
    }

    /// The first worker of an instance.
    pub fn first_worker(&self, instance: usize) -> usize {
        self.instances[..instance].iter().map(|instance| instance.workers.len()).sum()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.instances.iter().map(|instance| instance.workers.len()).sum()
    }

    /// Where each worker runs.
    pub fn places(&self) -> Vec<Place> {
        self.all().map(|worker| Place { thread: worker.thread }).collect()
    }

    /// The memory node of each worker's rows.
    pub fn nodes(&self) -> Vec<Option<Node>> {
        self.all().map(|worker| worker.node).collect()
    }

    /// The socket of each worker.
    pub fn sockets(&self) -> Vec<u32> {
        self.all().map(|worker| worker.socket).collect()
    }

    /// The memory node of a worker's rows.
    pub fn node(&self, worker: usize) -> Option<Node> {
        self.all().nth(worker).and_then(|worker| worker.node)
    }

    /// The memory node of the first worker of an instance.
    pub(crate) fn node_of_instance(&self, instance: usize) -> Option<Node> {
        self.node(self.first_worker(instance))
    }

    /// The memory nodes of the workers' rows, each once.
    pub fn nodes_in_use(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.all().filter_map(|worker| worker.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The worker that loads part `part` of `parts`, on whose node the part then lies: the worker
    /// whose home it is, or, with [`Partitioning::Blocks`], the worker in whose block of about
    /// `parts / workers` parts it is, larger blocks first.
    pub fn loader(&self, part: usize, parts: usize) -> usize {
        let workers = self.workers();
        if self.partitioning == Partitioning::RoundRobin {
            return part % workers;
        }
        let (small, larger) = (parts / workers, parts % workers);
        let in_larger = larger * (small + 1);
        if part < in_larger { part / (small + 1) } else { larger + (part - in_larger) / small }
    }

    /// The node of part `part` of `parts`.
    pub fn home(&self, part: usize, parts: usize) -> Option<Node> {
        self.node(if part < parts { self.loader(part, parts) } else { part % self.workers() })
    }
}

/// A hardware thread that two workers of these instances have.
fn repeated(instances: &[&Instance]) -> Option<HardwareThread> {
    let workers = instances.iter().flat_map(|instance| &instance.workers);
    let mut threads: Vec<HardwareThread> = workers.filter_map(|worker| worker.thread).collect();
    threads.sort_unstable();
    threads.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl fmt::Display for Deployment {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "transport = \"{}\"", self.transport.name())?;
        writeln!(to, "partitioning = \"{}\"", self.partitioning.name())?;
        writeln!(to, "memory_bytes_max = {}", self.memory_bytes_max)?;
        for instance in &self.instances {
            writeln!(to, "\n[[instances]]")?;
            if instance.machine > 0 {
                writeln!(to, "machine = {}", instance.machine)?;
            }
            writeln!(to, "workers = [")?;
            for WorkerPlace { thread, node, socket } in &instance.workers {
                let thread = thread.map(|thread| format!("thread = {}, ", thread.0)).unwrap_or_default();
                let node = node.map(|node| format!("node = {}, ", node.0)).unwrap_or_default();
                writeln!(to, "    {{ {thread}{node}socket = {socket} }},")?;
            }
            writeln!(to, "]")?;
        }
        Ok(())
    }
}
