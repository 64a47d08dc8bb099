//! A run of a machine from beginning to end, and operations for programs beyond those of the
//! platform.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use platform::{Address, Nanos};

use crate::bandwidth::PortTraffic;
use crate::host::processor_seconds;
use crate::line::LineNumber;
use crate::simulation::Simulation;
use crate::virtual_core::{VirtualCore, spawn};
use crate::{
    Config, CoreEvents, Cut, FaultCounts, HotLine, Outcome, PortKind, PortUse, SimError, Statistics,
    VirtualMachine,
};

/// Number of lines that are reported as hot.
const HOT_LINES: usize = 32;

impl VirtualMachine {
    /// Builds the machine and runs `main` on it as a supervisor: its events cost no time, and it
    /// starts workers with [`platform::Platform::parallel`]. All of the run happens on the calling
    /// host thread; several machines may run on several threads.
    ///
    /// The result is `Send`, so that it cannot hold a handle of a core.
    ///
    /// A panic of any fiber continues out of this call after all fibers are unwound, with their
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

    /// Counters so far; `elapsed` is the caller's moment.
    pub fn statistics(c: VirtualCore) -> Statistics {
        statistics(c.simulation(), c.fiber().now())
    }

    /// The last events of each core that ran, if [`Config::trace`] is set.
    pub fn last_events(c: VirtualCore) -> Vec<CoreEvents> {
        c.simulation().all_events()
    }

    /// Processor time of the host thread in seconds since counting began, with the run or at
    /// [`Self::count_from_here`]. Other work of the host is not included.
    pub fn host_seconds(c: VirtualCore) -> f64 {
        processor_seconds() - c.simulation().host_counted_from.get()
    }

    /// Adds the worker to a crew, not 0, which may [fall](crate::Fall) once that is allowed to all
    /// of its workers.
    pub fn join_crew(c: VirtualCore, crew: u16) {
        c.fiber().crew.set(crew);
    }

    /// The crew that fell as number `number`, from 0.
    pub fn fallen_crew(c: VirtualCore, number: usize) -> Option<u16> {
        c.simulation().falls.fallen(number)
    }

    /// Allows the worker's crew to fall from now on, once all of its workers have called this.
    pub fn allow_falls(c: VirtualCore) {
        c.fiber().may_fall.set(true);
    }

    /// Cancels all falls and all cuts between machines that are still to come.
    pub fn cancel_faults(c: VirtualCore) {
        c.simulation().falls.end();
        c.simulation().network().end_cuts(c.fiber().clock_ps.get());
    }

    /// The cut with this index, by the order of their moments, if it has happened.
    pub fn cut(c: VirtualCore, number: usize) -> Option<Cut> {
        c.simulation().network().cut(number, c.fiber().clock_ps.get())
    }

    /// Restarts the counters: loading and warming up are not part of the measurement.
    pub fn count_from_here(c: VirtualCore) {
        if c.turn() {
            c.simulation().counted_from.set(c.fiber().now());
            c.simulation().host_counted_from.set(processor_seconds());
            c.simulation().cost().coherence.reset_counts();
            c.simulation().network().reset();
        }
    }
}

/// Counters of a machine up to this moment.
fn statistics(simulation: &Simulation, now: Nanos) -> Statistics {
    let counts = simulation.counts(now);
    let (coherence, model) = (&simulation.cost().coherence, &simulation.config.model);
    let node = |position: usize| model.nodes[position];
    let port = |traffic: PortTraffic| PortUse {
        node: node(traffic.node),
        kind: traffic.kind,
        bytes: traffic.bytes,
        busy: Nanos(traffic.busy_ps / 1000),
        waited: Nanos(traffic.waited_ps / 1000),
    };
    let traffic = coherence.ports.traffic().chain(simulation.network().traffic(model));
    let mut ports: Vec<PortUse> = traffic.map(port).collect();
    ports.sort_by_key(|port| std::cmp::Reverse(port.busy));
    let memory = ports.iter().filter(|port| port.kind == PortKind::Memory);
    let hot_line = |(line, misses, home): (LineNumber, u32, usize)| {
        let place = simulation.memory.locate((line as usize) << model.line_shift);
        let (region, offset) = place.map_or((None, 0), |(name, offset)| (Some(name), offset));
        let address = Address((line as u64) << model.line_shift);
        HotLine { address, region, offset, node: node(home), misses: u64::from(misses) }
    };
    Statistics {
        counts,
        instructions: crate::instructions::instructions(&counts),
        cycles: model.cycles(counts.running_ps.saturating_sub(counts.system_ps)),
        stalled_cycles: model.cycles(counts.stalled_ps),
        shared_cycles: model.cycles(counts.shared_ps),
        translation_cycles: model.cycles(counts.translation_ps),
        faults: FaultCounts { falls: simulation.falls.count(), ..simulation.network().faults(now) },
        interconnect_bytes: coherence.ports.crossed_bytes(),
        memory_bytes: memory.map(|port| port.bytes).sum(),
        hot_lines: coherence.hot_lines(HOT_LINES).into_iter().map(hot_line).collect(),
        ports,
        elapsed: now,
        counted: Nanos(now.since(simulation.counted_from.get())),
    }
}
