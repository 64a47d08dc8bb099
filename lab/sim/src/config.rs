//! Configuration of a run: machine, seed and limits.

use machine::Description;
use platform::{HardwareThread, Nanos};

use crate::model::{Model, Shape};
use crate::{Costs, Disk, NetworkFaults, SimError};

/// Largest number of lines.
const LINES_MAX: usize = 1 << 32;
/// Smallest stack of a fiber: a panic with its message and unwinding need this much.
const STACK_BYTES_MIN: usize = 64 << 10;

/// Moment at which a machine crashes. The run then ends with [`SimError::Crashed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// When everything up to this moment has been simulated.
    At(Nanos),
    /// When this many cores were resumed after a wait for their turn.
    Event(u64),
    /// Before the operation of this number, from 1, is submitted to the disk.
    DiskOperation(u64),
}

/// The end of some workers while all others continue, as for the threads of processes that are
/// killed, or of one of several machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fall {
    /// The workers that have [joined](crate::VirtualMachine::join_crew) these crews, none of which
    /// is 0. They end together.
    pub crews: Vec<u16>,
    /// When one of them was resumed this many times after a wait for its turn, since [falls are
    /// allowed](crate::VirtualMachine::allow_falls) to it; later, if they are not allowed to all of
    /// them then.
    pub event: u64,
}

/// A hardware thread is withdrawn from the program for a while. [`platform::Platform::usable`]
/// reports that; workers on the thread run nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The hardware thread.
    pub thread: HardwareThread,
    /// Begin, from the moment at which [counting began](crate::VirtualMachine::count_from_here).
    pub from: Nanos,
    /// End: the thread is usable again.
    pub until: Nanos,
}

/// One run of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Model of the machine.
    pub model: Model,
    /// Decides between cores with equal clocks, how the operating system acts, and everything
    /// random under `perturb`.
    pub seed: u64,
    /// Explore schedules: costs get jitter and rare long stalls, and ties are broken anew each
    /// time, all by the seed.
    pub perturb: bool,
    /// Record the last events of each core, for the message of a deadlock. The host is slower, the
    /// run stays the same.
    pub trace: bool,
    /// The run fails with [`SimError::Undeclared`] if a core accesses regions without a
    /// declaration. The host is about a thousand times slower, the run stays the same.
    pub checks_touches: bool,
    /// Names of regions, and parts of the names of functions, whose accesses are not reported.
    pub unchecked: &'static [&'static str],
    /// Bytes of each fiber's stack.
    pub stack_bytes: usize,
    /// Address space for regions, committed as it is touched. The directory of lines needs half as
    /// much again.
    pub memory_bytes: usize,
    /// Bytes of it that the program is expected to touch, 0 if unknown: the run is refused if the
    /// host does not have as much.
    pub expected_bytes: usize,
    /// The run fails with [`SimError::TimeLimit`] when all cores have passed this moment.
    pub time_limit: Option<Nanos>,
    /// The disk. Its contents are there in the next run that uses it. In a cluster, the first
    /// machine's disk.
    pub disk: Option<Disk>,
    /// Disks of the other machines, in their order.
    pub more_disks: Vec<Disk>,
    /// Faults of the network between machines.
    pub network: NetworkFaults,
    /// The machine crashes: all its processes end at one moment.
    pub crash: Option<Crash>,
    /// Crews that end before the others. Crews that start in their place later may fall as well.
    pub falls: Vec<Fall>,
    /// The time slices of workers that share a hardware thread are divided by this number: for a
    /// run that stands for one that is as many times as long.
    pub slice_divisor: u64,
    /// Hardware threads that are withdrawn for a while.
    pub withdrawals: Vec<Withdrawal>,
}

impl Config {
    /// A machine of round figures, seed 0, 64 GiB for regions, 256 KiB stacks and no limit.
    ///
    /// An invalid shape (no socket, too many sockets) is refused by [`crate::VirtualMachine::run`].
    pub fn new(shape: Shape) -> Config {
        Config::with_model(shape.model_or_refusal())
    }

    /// The machine of a description; of a cluster, one of its machines.
    ///
    /// # Errors
    /// [`SimError::Config`]: a value that no machine can have, or more cores than can be simulated.
    pub fn of(description: &Description) -> Result<Config, SimError> {
        Config::of_machines(description, 1)
    }

    /// The first `machines` machines of a described cluster, and the network between them.
    ///
    /// # Errors
    /// As [`Config::of`]; also if the cluster has fewer machines, or no network between them.
    pub fn of_machines(description: &Description, machines: usize) -> Result<Config, SimError> {
        let model = Model::of_machines(description, machines)?;
        model.check()?;
        Ok(Config::with_model(model))
    }

    fn with_model(model: Model) -> Config {
        Config {
            model,
            seed: 0,
            perturb: false,
            trace: false,
            checks_touches: false,
            unchecked: &[],
            stack_bytes: 256 << 10,
            memory_bytes: 64 << 30,
            expected_bytes: 0,
            time_limit: None,
            disk: None,
            more_disks: Vec::new(),
            network: NetworkFaults::default(),
            crash: None,
            falls: Vec::new(),
            slice_divisor: 1,
            withdrawals: Vec::new(),
        }
    }

    /// The same run with another seed.
    pub fn with_seed(self, seed: u64) -> Config {
        Config { seed, ..self }
    }

    /// The same run, exploring schedules.
    pub fn perturbed(self) -> Config {
        Config { perturb: true, ..self }
    }

    /// The same run on a machine with other costs.
    pub fn with_costs(self, costs: Costs) -> Config {
        Config { model: self.model.with_costs(costs), ..self }
    }

    /// The same run with a disk.
    pub fn with_disk(self, disk: &Disk) -> Config {
        Config { disk: Some(disk.clone()), ..self }
    }

    /// The same run, which crashes.
    pub fn crashing(self, crash: Crash) -> Config {
        Config { crash: Some(crash), ..self }
    }

    /// All disks.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disk.iter().chain(&self.more_disks)
    }

    /// The disk of a machine.
    pub(crate) fn disk_of(&self, machine: usize) -> Option<&Disk> {
        match machine.checked_sub(1) {
            None => self.disk.as_ref(),
            Some(other) => self.more_disks.get(other),
        }
    }

    /// Checks the configuration. The error is one line.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        self.model.check()?;
        let refuse = |reason: String| Err(SimError::Config(reason));
        let memory_bytes_max = LINES_MAX * self.model.line_bytes();
        let tables = self.model.table_lines(self.memory_bytes.min(memory_bytes_max));
        let memory_bytes_max = memory_bytes_max - tables * self.model.line_bytes();
        if self.memory_bytes < 1 << 20 || self.memory_bytes > memory_bytes_max {
            let most = memory_bytes_max >> 30;
            return refuse(format!("{} bytes for regions; 1 MiB to {most} GiB", self.memory_bytes));
        }
        if self.stack_bytes < STACK_BYTES_MIN {
            return refuse(format!("stacks of {} bytes; at least {STACK_BYTES_MIN}", self.stack_bytes));
        }
        Ok(())
    }
}
