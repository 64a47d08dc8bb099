//! A deployment: instances, their workers with places and memory nodes, and their transport.

use std::fmt;

use machine::{HardwareThread, Node};
use platform::Place;
use platform::link::{KernelMechanism, Mechanism};
use serde::{Deserialize, Serialize};

use super::error::DeploymentError;
use crate::names::names;

/// Limit for rows and indexes if the memory of the host is not known.
pub(crate) const MEMORY_BYTES_UNKNOWN: u64 = 8 << 30;

/// The place of one worker, and the memory node of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerPlace {
    /// The hardware thread that the worker is pinned to; `None` leaves it to the operating system.
    pub thread: Option<HardwareThread>,
    /// The memory node of the worker's rows; `None` if the machine has at most one node.
    pub node: Option<Node>,
    /// The socket that the worker runs on.
    pub socket: u32,
}

/// One instance of the engine: a database of its own, with its share of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    /// The number of the machine of its workers; 0 is the first.
    pub machine: u32,
    /// Its workers.
    pub workers: Vec<WorkerPlace>,
}

impl Default for Instance {
    /// One worker that is not pinned.
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

/// The transport between instances on one machine; instances on two machines use TCP. It has no
/// effect if there is one instance.
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

/// How the parts of a workload's data are assigned to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// In turn.
    #[default]
    RoundRobin,
    /// In contiguous blocks.
    Blocks,
}

// The names of the flag `--load`.
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

/// A deployment of a workload. Workers are numbered across all instances, in their order; a part of
/// the data belongs to the instance of the worker for which it is home. Displays as a file that can
/// be read again ([`Deployment::from_toml`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deployment {
    /// The transport between instances on one machine.
    pub transport: Transport,
    /// How the parts of the data are assigned to workers.
    pub partitioning: Partitioning,
    /// Most workers on one hardware thread.
    pub workers_per_thread: usize,
    /// Limit for rows and indexes, of all instances together.
    pub memory_bytes_max: u64,
    /// The instances.
    pub instances: Vec<Instance>,
}

impl Default for Deployment {
    /// One instance with one worker, which is not pinned.
    fn default() -> Self {
        Deployment {
            transport: Transport::default(),
            partitioning: Partitioning::default(),
            workers_per_thread: 1,
            memory_bytes_max: MEMORY_BYTES_UNKNOWN,
            instances: vec![Instance::default()],
        }
    }
}

impl Deployment {
    /// One instance whose workers are not pinned, with one memory.
    pub fn unpinned(workers: usize, memory_bytes_max: u64) -> Self {
        let instance = Instance { machine: 0, workers: vec![WorkerPlace::default(); workers] };
        Deployment { memory_bytes_max, instances: vec![instance], ..Deployment::default() }
    }

    /// The same deployment with the rows of worker `n` on node `nodes[n % nodes.len()]`.
    #[must_use]
    pub fn with_nodes(mut self, nodes: &[Node]) -> Self {
        let workers = self.instances.iter_mut().flat_map(|instance| &mut instance.workers);
        workers.zip(nodes.iter().cycle()).for_each(|(worker, node)| worker.node = Some(*node));
        self
    }

    /// Refuses an invalid deployment: one without instances, workers or memory, or with more
    /// workers on one hardware thread than [`Self::workers_per_thread`].
    ///
    /// # Errors
    /// [`DeploymentError`]: the problem.
    pub fn check(&self) -> Result<(), DeploymentError> {
        self.check_apart()?;
        let all: Vec<&Instance> = self.instances.iter().collect();
        match repeated(&all, self.workers_per_thread) {
            Some(thread) => Err(DeploymentError::Repeated(thread)),
            None => Ok(()),
        }
    }

    /// As [`Self::check`], for instances that may each be on a machine of its own.
    ///
    /// # Errors
    /// [`DeploymentError`]: the problem.
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
        let several = |instance| repeated(&[instance], self.workers_per_thread);
        match self.instances.iter().find_map(several) {
            Some(thread) => Err(DeploymentError::Repeated(thread)),
            None => Ok(()),
        }
    }

    /// The same deployment, with the workers of other instances not placed on this machine.
    #[must_use]
    pub(crate) fn on_machine_of(mut self, instance: usize) -> Self {
        let others = self.instances.iter_mut().enumerate().filter(|(number, _)| *number != instance);
        let workers = others.flat_map(|(_, instance)| &mut instance.workers);
        workers.for_each(|worker| *worker = WorkerPlace { socket: worker.socket, ..WorkerPlace::default() });
        self
    }

    /// As [`Self::check`]; also refuses several instances.
    ///
    /// # Errors
    /// [`DeploymentError`]: the problem.
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

    /// Number of machines.
    pub fn machines(&self) -> usize {
        self.instances.iter().map(|instance| instance.machine as usize + 1).max().unwrap_or(1)
    }

    /// The transport between two instances.
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

    /// The place of each worker.
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

    /// The worker that loads part `part` of `parts`, on its own node: the worker for which the part
    /// is home, or, with [`Partitioning::Blocks`], the worker to whose block of about
    /// `parts / workers` parts it belongs, larger blocks first.
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

/// A hardware thread to which two workers of these instances are pinned.
fn repeated(instances: &[&Instance], most: usize) -> Option<HardwareThread> {
    let workers = instances.iter().flat_map(|instance| &instance.workers);
    let mut threads: Vec<HardwareThread> = workers.filter_map(|worker| worker.thread).collect();
    threads.sort_unstable();
    threads.chunk_by(|one, other| one == other).find(|same| same.len() > most.max(1)).map(|same| same[0])
}

impl fmt::Display for Deployment {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "transport = \"{}\"", self.transport.name())?;
        writeln!(to, "partitioning = \"{}\"", self.partitioning.name())?;
        if self.workers_per_thread != 1 {
            writeln!(to, "workers_per_thread = {}", self.workers_per_thread)?;
        }
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
