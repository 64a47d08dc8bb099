//! What is simulated: shape, costs, seed and limits.

use platform::{Nanos, Work};

use crate::SimError;

/// Most sockets of a machine: a line's sharers are a bit mask of sockets.
pub(crate) const SOCKETS_MAX: usize = 64;
/// Most outstanding misses of one core.
pub(crate) const FILL_BUFFERS_MAX: usize = 16;
/// Largest reservation: a line's number has 32 bits.
const MEMORY_BYTES_MAX: usize = 64 << 32;
/// Least stack of a fiber: a panic with its message and unwinding need this much.
const STACK_BYTES_MIN: usize = 64 << 10;

/// Sockets, cores and hardware threads. One memory node per socket, of the same number.
///
/// Hardware threads are numbered as Linux mostly does: thread `t` is SMT thread `t / cores` of core `t % cores`, and
/// socket `s` has the cores from `s * cores_per_socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets, 1 to 64.
    pub sockets: usize,
    /// Physical cores of each socket.
    pub cores_per_socket: usize,
    /// Hardware threads of each core; they share its private cache.
    pub smt: usize,
    /// Links between each two sockets, row by row (`sockets * sockets` values); empty: one link between any two.
    pub hops: Vec<u32>,
}

impl Shape {
    /// A machine whose sockets are all one link from each other.
    pub fn new(sockets: usize, cores_per_socket: usize, smt: usize) -> Shape {
        Shape { sockets, cores_per_socket, smt, hops: Vec::new() }
    }

    /// The same machine with this many links between sockets, row by row.
    pub fn with_hops(self, hops: Vec<u32>) -> Shape {
        Shape { hops, ..self }
    }

    /// Physical cores of the machine.
    pub fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket
    }

    /// Hardware threads of the machine.
    pub fn threads(&self) -> usize {
        self.cores() * self.smt
    }

    /// Links between two sockets; 0 within one.
    pub(crate) fn hops_between(&self, from: usize, to: usize) -> u32 {
        if from == to {
            0
        } else if self.hops.is_empty() {
            1
        } else {
            self.hops[from * self.sockets + to]
        }
    }
}

/// What operations cost, in picoseconds. The defaults are round figures of a recent two-socket server, no machine's in
/// particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Access to a line in the core's own cache.
    pub hit_ps: u64,
    /// Line from another core or the shared cache of the same socket.
    pub near_ps: u64,
    /// Line from, or invalidation in, a socket one link away.
    pub far_ps: u64,
    /// Line from the memory of the core's own socket.
    pub memory_local_ps: u64,
    /// Line from the memory of a socket one link away.
    pub memory_remote_ps: u64,
    /// Each further link on the way to a line or memory of another socket.
    pub hop_ps: u64,
    /// What an atomic read-modify-write costs more than a store.
    pub atomic_ps: u64,
    /// A sequentially consistent fence; weaker ones are free.
    pub fence_ps: u64,
    /// Between the starts of two overlapped accesses of one core.
    pub issue_ps: u64,
    /// How long a clean line's holder is busy with one reader; a written line is busy until it has arrived.
    pub share_ps: u64,
    /// Reading the clock.
    pub clock_ps: u64,
    /// A system call that does not wait.
    pub system_call_ps: u64,
    /// From the wake-up of a parked core to its next instruction.
    pub wake_ps: u64,
    /// Bytes of a core's private cache: a power of two.
    pub cache_bytes: usize,
    /// Outstanding prefetches of a core, 1 to 16; one more waits for the first to arrive.
    pub fill_buffers: usize,
    /// One unit of each kind of [`Work`], in the order of [`Work::ALL`].
    pub work_ps: [u64; Work::ALL.len()],
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            hit_ps: 1_500,
            near_ps: 40_000,
            far_ps: 120_000,
            memory_local_ps: 85_000,
            memory_remote_ps: 140_000,
            hop_ps: 60_000,
            atomic_ps: 5_000,
            fence_ps: 8_000,
            issue_ps: 1_000,
            share_ps: 4_000,
            clock_ps: 8_000,
            system_call_ps: 500_000,
            wake_ps: 4_000_000,
            cache_bytes: 1 << 20,
            fill_buffers: 12,
            work_ps: default_work(),
        }
    }
}

/// Placeholders until they are calibrated on hardware: what a few dependent instructions take at about 3 GHz.
fn default_work() -> [u64; Work::ALL.len()] {
    Work::ALL.map(|work| match work {
        Work::Hash => 3_000,
        Work::KeyCompare => 2_000,
        Work::CopyWord => 300,
        Work::Access => 5_000,
        Work::Transaction => 50_000,
        Work::Random => 5_000,
        Work::Step => 2_000,
    })
}

/// One run of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The machine.
    pub shape: Shape,
    /// Its costs.
    pub costs: Costs,
    /// Decides between cores with equal clocks, and everything random under `perturb`.
    pub seed: u64,
    /// Explore schedules: costs get jitter and rare long stalls, ties are broken anew each time, all by the seed.
    pub perturb: bool,
    /// Stack of each fiber.
    pub stack_bytes: usize,
    /// Address space for regions, committed as it is touched; half as much again for what is known about each line.
    pub memory_bytes: usize,
    /// The run fails with [`SimError::TimeLimit`] when all cores have passed this moment.
    pub time_limit: Option<Nanos>,
}

impl Config {
    /// This machine with default costs, seed 0, 64 GiB for regions, 256 KiB stacks and no limit.
    pub fn new(shape: Shape) -> Config {
        Config {
            shape,
            costs: Costs::default(),
            seed: 0,
            perturb: false,
            stack_bytes: 256 << 10,
            memory_bytes: 64 << 30,
            time_limit: None,
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

    /// Says in one line what is wrong.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let Shape { sockets, cores_per_socket, smt, hops } = &self.shape;
        let sockets = *sockets;
        let refuse = |reason: String| Err(SimError::Config(reason));
        if sockets == 0 || sockets > SOCKETS_MAX {
            return refuse(format!("{sockets} sockets; a machine has 1 to {SOCKETS_MAX}"));
        }
        if *cores_per_socket == 0 || *smt == 0 {
            return refuse(format!("{cores_per_socket} cores of {smt} threads a socket; each at least 1"));
        }
        if self.shape.threads() > usize::from(u16::MAX) {
            return refuse(format!("{} hardware threads; at most {}", self.shape.threads(), u16::MAX));
        }
        if !hops.is_empty() && hops.len() != sockets * sockets {
            return refuse(format!(
                "{} hops for {sockets} sockets; {} needed",
                hops.len(),
                sockets * sockets
            ));
        }
        for (index, hops) in hops.iter().enumerate() {
            if *hops == 0 && index / sockets != index % sockets {
                return refuse(format!(
                    "no link between sockets {} and {}",
                    index / sockets,
                    index % sockets
                ));
            }
        }
        if !self.costs.cache_bytes.is_power_of_two() || self.costs.cache_bytes < 4096 {
            return refuse(format!(
                "a private cache of {} bytes; a power of two from 4096",
                self.costs.cache_bytes
            ));
        }
        if !(1..=FILL_BUFFERS_MAX).contains(&self.costs.fill_buffers) {
            return refuse(format!("{} fill buffers; 1 to {FILL_BUFFERS_MAX}", self.costs.fill_buffers));
        }
        if self.memory_bytes < 1 << 20 || self.memory_bytes > MEMORY_BYTES_MAX {
            return refuse(format!("{} bytes for regions; 1 MiB to 256 GiB", self.memory_bytes));
        }
        if self.stack_bytes < STACK_BYTES_MIN {
            return refuse(format!("stacks of {} bytes; at least {STACK_BYTES_MIN}", self.stack_bytes));
        }
        Ok(())
    }
}
