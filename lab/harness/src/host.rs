//! The platforms of workloads: creation of databases, execution of procedures, and counters of the
//! platform.

use std::path::Path;

use boundary::{Database, Occupant, Progress, Recovered, SchemaBuilder};
use engine::instances::{Create, Open};
use fused::Compiled;
use pages::{PagedError, PagedOptions};
use platform::files::Files;
use platform::link::Links;
use platform::{Address, Hardware, Platform};
use sim::{Cut, PortKind, Statistics, VirtualMachine};

use crate::execution::executor::MakeInline;
use crate::execution::executors;
use crate::measurement::machine_use::{self, HotLine, MachineUse, PortUse};
use crate::measurement::values::{Counters, Measurement, Simulation};

/// The type of [`Host::OPEN_PAGED`].
pub type OpenPaged<P> = fn(
    <P as Platform>::Core,
    &PagedOptions,
    SchemaBuilder,
    Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<P>, Recovered), PagedError>;

/// Counters of a platform for one run.
#[derive(Default)]
pub struct Counts {
    counters: Counters,
    /// The cost of simulating the run; `None` on hardware.
    simulation: Option<Simulation>,
    statistics: Option<Statistics>,
}

/// A platform on which the harness runs workloads.
pub trait Host: Files + Links {
    /// Creates a database under a scheme: see [`engine::MemoryDatabase::create`].
    const CREATE: Create<Self>;
    /// Opens a durable database under a scheme: see [`engine::MemoryDatabase::open_with_progress`].
    const OPEN: Open<Self>;
    /// Opens or creates a database over pages: see [`pages::PagedDatabase::open`].
    const OPEN_PAGED: OpenPaged<Self>;
    /// Creates inline executors: compiled with the engine if real time is measured, else through
    /// the engine's dynamic boundary.
    fn inline<Q: Compiled>() -> MakeInline<Self, Q>;
    /// Sets the counters to zero, at the beginning of the measurement.
    fn reset_counters(c: Self::Core);
    /// Returns the counters since they were reset.
    fn counts(c: Self::Core) -> Counts;

    /// Makes this thread a worker of an instance. On machines with crashes the workers of an
    /// instance may end while others continue.
    fn join_instance(_: Self::Core, _instance: usize) {}
    /// Allows crashes of this worker from now on.
    fn allow_falls(_: Self::Core) {}
    /// The instance of crash number `number`, if it has happened.
    fn fallen_instance(_: Self::Core, _number: usize) -> Option<usize> {
        None
    }
    /// The cut of this number between two machines, if it has happened.
    fn cut(_: Self::Core, _number: usize) -> Option<Cut> {
        None
    }
    /// Prevents further crashes and cuts.
    fn cancel_faults(_: Self::Core) {}
    /// Reports that the users of a directory have crashed; with `power`, the data that they have
    /// not flushed are lost.
    fn lose_directory(_: Self::Core, _: &Path, _power: bool) {}
}

impl Host for Hardware {
    const CREATE: Create<Self> = engine_native::create;
    const OPEN: Open<Self> = engine_native::open;
    const OPEN_PAGED: OpenPaged<Self> = engine_native::open_paged;

    fn inline<Q: Compiled>() -> MakeInline<Self, Q> {
        executors::fused::<Q>
    }

    fn reset_counters(_: Self::Core) {}

    fn counts(_: Self::Core) -> Counts {
        Counts::default()
    }
}

impl Host for VirtualMachine {
    const CREATE: Create<Self> = engine_simulated::create;
    const OPEN: Open<Self> = engine_simulated::open;
    const OPEN_PAGED: OpenPaged<Self> = engine_simulated::open_paged;

    fn inline<Q: Compiled>() -> MakeInline<Self, Q> {
        executors::dynamic::<Self, Q>
    }

    fn reset_counters(c: Self::Core) {
        VirtualMachine::count_from_here(c);
    }

    fn join_instance(c: Self::Core, instance: usize) {
        VirtualMachine::join_crew(c, instance as u16 + 1);
    }

    fn allow_falls(c: Self::Core) {
        VirtualMachine::allow_falls(c);
    }

    fn fallen_instance(c: Self::Core, number: usize) -> Option<usize> {
        VirtualMachine::fallen_crew(c, number).map(|crew| usize::from(crew) - 1)
    }

    fn cut(c: Self::Core, number: usize) -> Option<Cut> {
        VirtualMachine::cut(c, number)
    }

    fn cancel_faults(c: Self::Core) {
        VirtualMachine::cancel_faults(c);
    }

    fn lose_directory(c: Self::Core, path: &Path, power: bool) {
        VirtualMachine::lose_directory(c, path, power);
    }

    fn counts(c: Self::Core) -> Counts {
        let statistics = VirtualMachine::statistics(c);
        let counters = Counters::of_simulation(&statistics);
        let simulation = Simulation {
            events: statistics.counts.events,
            simulated_seconds: statistics.counted.0 as f64 / 1e9,
            host_seconds: VirtualMachine::host_seconds(c),
        };
        Counts { counters, simulation: Some(simulation), statistics: Some(statistics) }
    }
}

impl Counts {
    /// Adds the counters to a measurement; `occupants` returns the structures at these addresses,
    /// as far as they are known.
    pub(crate) fn enter(
        self,
        measured: &mut Measurement,
        occupants: impl FnOnce(&[Address]) -> Vec<Option<Occupant>>,
    ) {
        measured.machine_use = self.machine_use(occupants);
        measured.simulation = self.simulation;
        measured.counters = self.counters;
    }

    /// The use of the parts of the machine.
    fn machine_use(&self, occupants: impl FnOnce(&[Address]) -> Vec<Option<Occupant>>) -> Option<MachineUse> {
        let statistics = self.statistics.as_ref()?;
        let addresses: Vec<Address> = statistics.hot_lines.iter().map(|line| line.address).collect();
        let occupants = occupants(&addresses).into_iter().chain(std::iter::repeat(None));
        let counts = &statistics.counts;
        let all = (counts.near_misses + counts.far_misses).max(1) as f64;
        let hot_line = |(line, occupant): (&sim::HotLine, Option<Occupant>)| {
            let (structure, offset) = match (occupant, line.region) {
                (Some(Occupant { structure, offset }), _) => (structure, offset),
                (None, Some(region)) => (region.to_owned(), line.offset),
                (None, None) => ("memory that was returned".to_owned(), 0),
            };
            HotLine { structure, offset, misses: line.misses, share: line.misses as f64 / all }
        };
        let elapsed = statistics.counted.0.max(1) as f64;
        let port = |port: &sim::PortUse| {
            let node = port.node.0;
            let (kind, name) = match port.kind {
                PortKind::Memory => (machine_use::PortKind::Memory, format!("memory of node {node}")),
                PortKind::Link(link) => (machine_use::PortKind::Link, format!("link {link} of node {node}")),
                PortKind::NetworkOut => {
                    (machine_use::PortKind::Network, format!("network, out of the machine of node {node}"))
                }
                PortKind::NetworkIn => {
                    (machine_use::PortKind::Network, format!("network, into the machine of node {node}"))
                }
                PortKind::Outside => {
                    (machine_use::PortKind::Link, format!("link of node {node} to other chassis"))
                }
            };
            PortUse {
                name,
                node: node as usize,
                kind,
                bytes: port.bytes,
                busy_share: (port.busy.0 as f64 / elapsed).min(1.0),
            }
        };
        Some(MachineUse {
            ports: statistics.ports.iter().filter(|port| port.bytes > 0).map(port).collect(),
            hot_lines: statistics.hot_lines.iter().zip(occupants).map(hot_line).collect(),
        })
    }
}
