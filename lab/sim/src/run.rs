//! A machine from its beginning to its end, and what programs ask of it beside the platform's
//! calls.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use platform::{Address, Nanos};

use crate::bandwidth::Carried;
use crate::host::processor_seconds;
use crate::line::LineNumber;
use crate::simulation::Simulation;
use crate::virtual_core::{VirtualCore, spawn};
use crate::{
    Config, CoreEvents, Cut, FaultCounts, HotLine, Outcome, PortKind, PortUse, SimError, Statistics,
    VirtualMachine,
};

/// Lines that are reported as hot.
const HOT_LINES: usize = 32;

impl VirtualMachine {
    /// Builds the machine and runs `main` on it, as a supervisor: its events cost no time, and it
    /// starts workers with [`platform::Platform::parallel`]. All of it happens on the calling host
    /// thread; several machines may run on several threads.
    ///
    /// The result is `Send`, so that it cannot hold a handle of a core.
    ///
    /// A panic of any fiber goes on out of this call after all fibers are unwound, with their
    /// operations on shared memory suppressed.
    pub fn run<R: Send>(
        config: &Config,
        main: impl FnOnce(VirtualCore) -> R,
    ) -> Result<Outcome<R>, SimError> {
        let simulation = Simulation::new(config)?;
        let mut value = None;
        let slot = &mut value;
        // SAFETY: `main` and `slot` are borrowed until the fiber finishes in `drive`, or is
        // discarded below.
        let core = unsafe { spawn(&simulation, std::ptr::null(), |c| *slot = Some(main(c))) }?;
        core.set_supervisor(true);
        let first = core.fiber();
        simulation.wake(first, 0);
        match catch_unwind(AssertUnwindSafe(|| simulation.drive())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                simulation.discard(first);
                return Err(error);
            }
            Err(panic) => {
                simulation.discard(first);
                drop(simulation);
                resume_unwind(panic);
            }
        }
        let undeclared = simulation.guard.as_ref().map(|guard| guard.undeclared()).unwrap_or_default();
        if !undeclared.is_empty() {
            return Err(SimError::Undeclared(undeclared));
        }
        let statistics = statistics(&simulation, first.now());
        drop(simulation);
        match value {
            Some(value) => Ok(Outcome { value, statistics }),
            None => unreachable!("the first fiber has finished"),
        }
    }

    /// What the machine has counted so far; `elapsed` is the caller's moment.
    pub fn statistics(c: VirtualCore) -> Statistics {
        statistics(c.simulation(), c.fiber().now())
    }

    /// The last events of each core that ran, if [`Config::trace`] is set.
    pub fn last_events(c: VirtualCore) -> Vec<CoreEvents> {
        c.simulation().all_events()
    }

    /// Processor time of the host in seconds since counting began, with the run or at
    /// [`Self::count_from_here`]: what else the host does meanwhile is not in it.
    pub fn host_seconds(c: VirtualCore) -> f64 {
        processor_seconds() - c.simulation().host_counted_from.get()
    }

    /// The worker belongs to a crew, not 0, which may [fall](crate::Fall) once that is allowed to
    /// all of its workers.
    pub fn join_crew(c: VirtualCore, crew: u16) {
        c.fiber().crew.set(crew);
    }

    /// The crew that was the one of this number to fall, from 0.
    pub fn fallen_crew(c: VirtualCore, number: usize) -> Option<u16> {
        c.simulation().falling.fallen(number)
    }

    /// From now on the worker's crew may fall, if all of its workers have said so.
    pub fn allow_falls(c: VirtualCore) {
        c.fiber().may_fall.set(true);
    }

    /// From now on no crew falls any more, and no link between machines is cut any more.
    pub fn end_troubles(c: VirtualCore) {
        c.simulation().falling.end();
        c.simulation().network().end_cuts(c.fiber().clock_ps.get());
    }

    /// The cut of this number, in the order of their moments from 0, if it has happened.
    pub fn cut(c: VirtualCore, number: usize) -> Option<Cut> {
        c.simulation().network().cut(number, c.fiber().clock_ps.get())
    }

    /// Counts from zero from now on: what was loaded and warmed up before is not part of the
    /// measurement.
    pub fn count_from_here(c: VirtualCore) {
        if c.turn() {
            c.simulation().counted_from.set(c.fiber().now());
            c.simulation().host_counted_from.set(processor_seconds());
            c.simulation().cost().coherence.reset_counts();
            c.simulation().network().reset();
        }
    }
}

/// What a machine has counted up to this moment.
fn statistics(simulation: &Simulation, now: Nanos) -> Statistics {
    let coherence = &simulation.cost().coherence;
    let node = |position: usize| simulation.config.model.nodes[position];
    let port = |carried: Carried| PortUse {
        node: node(carried.node),
        kind: carried.kind,
        bytes: carried.bytes,
        busy: Nanos(carried.busy_ps / 1000),
        waited: Nanos(carried.waited_ps / 1000),
    };
    let carried = coherence.ports.carried().chain(simulation.network().carried(&simulation.config.model));
    let mut ports: Vec<PortUse> = carried.map(port).collect();
    ports.sort_by_key(|port| std::cmp::Reverse(port.busy));
    let memory = ports.iter().filter(|port| port.kind == PortKind::Memory);
    let hot_line = |(line, misses, home): (LineNumber, u32, usize)| {
        let place = simulation.memory.locate((line as usize) << simulation.config.model.line_shift);
        let (region, offset) = place.map_or((None, 0), |(name, offset)| (Some(name), offset));
        let address = Address((line as u64) << simulation.config.model.line_shift);
        HotLine { address, region, offset, node: node(home), misses: u64::from(misses) }
    };
    Statistics {
        counts: coherence.counts,
        faults: FaultCounts { falls: simulation.falling.count(), ..simulation.network().faults(now) },
        interconnect_bytes: coherence.ports.crossed_bytes(),
        memory_bytes: memory.map(|port| port.bytes).sum(),
        hot_lines: coherence.hot_lines(HOT_LINES).into_iter().map(hot_line).collect(),
        ports,
        elapsed: now,
        counted: Nanos(now.since(simulation.counted_from.get())),
    }
}
