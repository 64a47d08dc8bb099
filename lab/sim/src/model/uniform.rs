//! A machine of round figures for tests, like those of a recent two-socket server.

use machine::{Access, HardwareThread, LineState, Node};

use super::{ACCESSES, CacheSizes, Core, Model, STATES, estimated, index_threads, stretches};
use crate::SimError;

/// Sockets, cores and hardware threads. One memory node per socket, of the same number.
///
/// Hardware threads are numbered as Linux mostly does: thread `t` is SMT thread `t / cores` of core
/// `t % cores`, and socket `s` has the cores from `s * cores_per_socket`. All sockets are one link
/// from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets, 1 to 64.
    pub sockets: usize,
    /// Physical cores of each socket.
    pub cores_per_socket: usize,
    /// Hardware threads of each core; they share its caches and issue slots.
    pub smt: usize,
}

const CYCLE_PS: f64 = 333.3;
const NEAR_PS: u32 = 40_000;
const FAR_PS: u32 = 120_000;
const MEMORY_LOCAL_PS: u32 = 85_000;
const MEMORY_REMOTE_PS: u32 = 140_000;
/// Picoseconds for a line: 100 GB/s of a node's memory, 20 GB/s of a link.
const LINE_LOCAL_PS: u32 = 640;
const LINE_REMOTE_PS: u32 = 3_200;

impl Shape {
    /// A machine of this shape.
    pub fn new(sockets: usize, cores_per_socket: usize, smt: usize) -> Shape {
        Shape { sockets, cores_per_socket, smt }
    }

    /// Physical cores of the machine.
    pub fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket
    }

    /// Hardware threads of the machine.
    pub fn threads(&self) -> usize {
        self.cores() * self.smt
    }

    /// The machine, or the reason for which the shape is invalid.
    pub(crate) fn model(&self) -> Result<Model, SimError> {
        let Shape { sockets, cores_per_socket, smt } = *self;
        let refuse = |reason: String| Err(SimError::Config(reason));
        if sockets == 0 || sockets > super::GROUPS_MAX {
            return refuse(format!("{sockets} sockets; a machine has 1 to {}", super::GROUPS_MAX));
        }
        if cores_per_socket == 0 || smt == 0 {
            return refuse(format!("{cores_per_socket} cores of {smt} threads a socket; each at least 1"));
        }
        let all = cores_per_socket.checked_mul(sockets).and_then(|cores| cores.checked_mul(smt));
        if all.is_none_or(|all| all >= usize::from(u16::MAX)) {
            return refuse(format!("{sockets} sockets of {cores_per_socket} cores; at most 65534 threads"));
        }
        Ok(self.uniform())
    }

    /// The model of this shape, or a stand-in that reports the reason when it is to run.
    pub(crate) fn model_or_refusal(&self) -> Model {
        self.model().unwrap_or_else(|refusal| {
            let reason = match refusal {
                SimError::Config(reason) => reason,
                other => other.to_string(),
            };
            Model { refusal: Some(reason), ..Shape::new(1, 1, 1).uniform() }
        })
    }

    fn uniform(self) -> Model {
        let Shape { sockets, cores_per_socket, smt } = self;
        let pairs = |own: u32, other: u32| {
            let pairs = (0..sockets).flat_map(move |from| (0..sockets).map(move |to| (from, to)));
            pairs.map(move |(from, to)| if from == to { own } else { other })
        };
        let mut transfer_ps = Vec::new();
        for access in ACCESSES {
            for state in STATES {
                let scale = |ps: u32| scaled(access, state, ps);
                transfer_ps.extend(pairs(scale(NEAR_PS), scale(FAR_PS)));
            }
        }
        let threads: Vec<_> =
            (0..self.threads()).map(|t| (HardwareThread(t as u32), (t % self.cores()) as u16)).collect();
        let core = |core: usize| Core {
            group: (core / cores_per_socket) as u8,
            node: (core / cores_per_socket) as u16,
        };
        Model {
            name: format!("{sockets} x {cores_per_socket} cores"),
            slot_of: index_threads(&threads),
            threads,
            cores: (0..self.cores()).map(core).collect(),
            nodes: (0..sockets).map(|node| Node(node as u32)).collect(),
            groups: sockets,
            group_nodes: (0..sockets).collect(),
            refusal: None,
            transfer_ps,
            memory_ps: pairs(MEMORY_LOCAL_PS, MEMORY_REMOTE_PS).collect(),
            line_ps: pairs(LINE_LOCAL_PS, LINE_REMOTE_PS).collect(),
            near_nodes: vec![true; sockets * sockets],
            node_machines: vec![0; sockets],
            wires: None,
            lanes: sockets.saturating_sub(1).clamp(1, 3) as u32,
            caches: CacheSizes { l1_bytes: 32 << 10, l2_bytes: 1 << 20, l3_bytes: 32 << 20 },
            instruction_cache: None,
            translation: None,
            line_shift: 6,
            clock_khz: (1e9 / CYCLE_PS).round() as u64,
            smt_stretch: stretches(smt, &|siblings| match siblings {
                0 | 1 => 1.0,
                siblings => 1.2 / siblings as f64,
            }),
            costs: estimated(CYCLE_PS, 1_500, 5_000, 18_000, 6_500),
        }
    }
}

/// A store or atomic costs 5 % more than a load, a shared line a fifth less than a modified one:
/// the rules of the descriptions.
fn scaled(access: Access, state: LineState, ps: u32) -> u32 {
    let ps = if state == LineState::Shared { ps / 5 * 4 } else { ps };
    if access == Access::Load { ps } else { ps + ps / 20 }
}
