//! The platform's calls on the virtual machine.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use platform::{Address, Intent, LINE_BYTES, Nanos, Node, OutOfMemory, Place, Platform, RegionBytes, Work};

use crate::cost::{Access, LineNumber, PRIVATE_LINE};
use crate::error::WaitReason;
use crate::fiber::{Fiber, VirtualCore, picoseconds};
use crate::memory::VirtualRegion;
use crate::simulation::Simulation;
use crate::word::VirtualWord;
use crate::{Config, Outcome, SimError, Statistics, parallel};

/// Address of everything outside regions: one for all, because host addresses differ from run to run.
pub const PRIVATE_ADDRESS: Address = Address(1 << 63);

/// The platform that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct VirtualMachine;

impl VirtualMachine {
    /// Builds the machine and runs `main` on it, as a supervisor: its events cost no time, and it starts workers with
    /// [`Platform::parallel`]. All of it happens on the calling host thread; several machines may run on several threads.
    ///
    /// The result is `Send`, so that it cannot hold a handle of a core.
    ///
    /// A panic of any fiber goes on out of this call after all fibers are unwound, with their operations on shared memory
    /// suppressed.
    pub fn run<R: Send>(
        config: &Config,
        main: impl FnOnce(VirtualCore) -> R,
    ) -> Result<Outcome<R>, SimError> {
        let simulation = Simulation::new(config)?;
        let mut value = None;
        let slot = &mut value;
        // SAFETY: `main` and `slot` are borrowed until the fiber finishes in `drive`, or is discarded below.
        let first = unsafe { simulation.spawn(std::ptr::null(), |c| *slot = Some(main(c))) }?;
        first.set_supervisor(true);
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
        let statistics = simulation.statistics(first);
        drop(simulation);
        match value {
            Some(value) => Ok(Outcome { value, statistics }),
            None => unreachable!("the first fiber has finished"),
        }
    }

    /// What the machine has counted so far; `elapsed` is the caller's moment.
    pub fn statistics(c: VirtualCore) -> Statistics {
        c.fiber().simulation().statistics(c.fiber())
    }
}

impl Simulation {
    fn statistics(&self, fiber: &Fiber) -> Statistics {
        Statistics { elapsed: fiber.now(), ..self.cost().statistics }
    }
}

impl From<Intent> for Access {
    fn from(intent: Intent) -> Access {
        match intent {
            Intent::Read => Access::Read,
            Intent::Write => Access::Write,
        }
    }
}

/// An atomic operation on a word: waits for the core's turn, performs it, wakes who waited for the change.
#[inline(always)]
fn modify<T>(c: VirtualCore, word: &VirtualWord, access: Access, change: impl FnOnce() -> T) -> Option<T> {
    let fiber = c.fiber();
    let line = fiber.step(std::ptr::from_ref(word).addr(), access)?;
    let result = change();
    fiber.simulation().written(line, fiber.clock_ps.get(), false);
    Some(result)
}

/// Words from the `index`th on that lie in its line.
fn words_in_line(words: &[VirtualWord], index: usize) -> usize {
    let at = std::ptr::from_ref(&words[index]).addr();
    ((LINE_BYTES - at % LINE_BYTES) / size_of::<VirtualWord>()).min(words.len() - index)
}

/// Visits words line by line, each line in the core's turn. The misses overlap: one line's access starts
/// [`crate::Costs::issue_ps`] after the one before it, and the core goes on when all have arrived. `visit` gets the range
/// of words, the line and the moment of its arrival.
fn for_each_line(
    c: VirtualCore,
    words: &[VirtualWord],
    access: Access,
    mut visit: impl FnMut(std::ops::Range<usize>, LineNumber, u64),
) {
    let fiber = c.fiber();
    let simulation = fiber.simulation();
    let mut latest_ps = 0;
    let mut index = 0;
    while index < words.len() {
        let at = std::ptr::from_ref(&words[index]).addr();
        let line = simulation.line(at);
        fiber.announce(at, line);
        if !fiber.turn() {
            return;
        }
        // Private memory is one event whatever its size: host addresses must not decide how many.
        let count = if line == PRIVATE_LINE { words.len() - index } else { words_in_line(words, index) };
        let ready_ps = fiber.charge(line, access, fiber.clock_ps.get());
        visit(index..index + count, line, ready_ps);
        latest_ps = latest_ps.max(ready_ps);
        fiber.spend(simulation.config.costs.issue_ps);
        index += count;
    }
    fiber.clock_ps.set(fiber.clock_ps.get().max(latest_ps));
}

/// First and last line of a range of bytes in the machine's memory; `None` for private memory and for no bytes.
fn lines(simulation: &Simulation, at: usize, bytes: usize) -> Option<(LineNumber, LineNumber)> {
    let first = simulation.offset(at)?;
    let last = first.checked_add(bytes.checked_sub(1)?)?.min(simulation.memory.bytes() - 1);
    Some(((first / LINE_BYTES) as LineNumber, (last / LINE_BYTES) as LineNumber))
}

impl Platform for VirtualMachine {
    type Core = VirtualCore;
    type Word = VirtualWord;
    type Region = VirtualRegion;

    const VIRTUAL: bool = true;

    fn region(
        c: VirtualCore,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<VirtualRegion, OutOfMemory> {
        let fiber = c.fiber();
        let simulation = fiber.simulation();
        // Regions are handed out in the order of virtual time.
        fiber.turn();
        let shape = &simulation.config.shape;
        let here = if fiber.is_supervisor() { 0 } else { fiber.core.get() / shape.cores_per_socket };
        let node = node.unwrap_or(Node(here as u32));
        if node.0 as usize >= shape.sockets {
            let reason = format!("the virtual machine has {} nodes, not node {}", shape.sockets, node.0);
            return Err(OutOfMemory { requested: bytes, name, reason });
        }
        let region = simulation.memory.region(node, bytes, name)?;
        simulation.cost().place(Address(region.offset()), region.bytes(), node);
        fiber.spend(simulation.config.costs.system_call_ps);
        Ok(region)
    }

    fn populate(_: VirtualCore, _: *mut u8, _: usize) {
        // Page faults are not modelled.
    }

    #[inline]
    fn address<T>(c: VirtualCore, object: *const T) -> Address {
        match c.fiber().simulation().offset(object.addr()) {
            Some(offset) => Address(offset as u64),
            None => PRIVATE_ADDRESS,
        }
    }

    #[inline]
    fn load(c: VirtualCore, word: &VirtualWord, _: Ordering) -> u64 {
        c.fiber().step(std::ptr::from_ref(word).addr(), Access::Read);
        word.get()
    }

    #[inline]
    fn store(c: VirtualCore, word: &VirtualWord, value: u64, _: Ordering) {
        modify(c, word, Access::Write, || word.set(value));
    }

    #[inline]
    fn cas(c: VirtualCore, word: &VirtualWord, current: u64, new: u64, _: Ordering) -> Result<u64, u64> {
        let swapped = modify(c, word, Access::Atomic, || {
            let seen = word.get();
            if seen != current {
                return Err(seen);
            }
            word.set(new);
            Ok(seen)
        });
        // A fiber that is being unwound is told that it succeeded, so that it does not try for ever.
        swapped.unwrap_or(Ok(current))
    }

    #[inline]
    fn swap(c: VirtualCore, word: &VirtualWord, value: u64, _: Ordering) -> u64 {
        let change = || {
            let seen = word.get();
            word.set(value);
            seen
        };
        modify(c, word, Access::Atomic, change).unwrap_or_else(|| word.get())
    }

    #[inline]
    fn fetch_add(c: VirtualCore, word: &VirtualWord, value: u64, _: Ordering) -> u64 {
        let change = || {
            let seen = word.get();
            word.set(seen.wrapping_add(value));
            seen
        };
        modify(c, word, Access::Atomic, change).unwrap_or_else(|| word.get())
    }

    #[inline]
    fn fence(c: VirtualCore, order: Ordering) {
        let fiber = c.fiber();
        if fiber.turn() && order == Ordering::SeqCst {
            fiber.spend(fiber.simulation().config.costs.fence_ps);
        }
    }

    fn read_words(c: VirtualCore, from: &[VirtualWord], to: &mut [u64]) {
        assert_eq!(from.len(), to.len());
        for_each_line(c, from, Access::Read, |range, _, _| {
            for (word, slot) in from[range.clone()].iter().zip(&mut to[range]) {
                *slot = word.get();
            }
        });
    }

    fn write_words(c: VirtualCore, to: &[VirtualWord], from: &[u64]) {
        assert_eq!(from.len(), to.len());
        let simulation = c.fiber().simulation();
        for_each_line(c, to, Access::Write, |range, line, ready_ps| {
            for (word, value) in to[range.clone()].iter().zip(&from[range]) {
                word.set(*value);
            }
            simulation.written(line, ready_ps, false);
        });
    }

    #[inline(always)]
    fn peek(word: &VirtualWord) -> u64 {
        word.get()
    }

    #[inline(always)]
    fn poke(word: &VirtualWord, value: u64) {
        word.set(value);
    }

    fn touch<T>(c: VirtualCore, at: *const T, bytes: usize, intent: Intent) {
        let fiber = c.fiber();
        let simulation = fiber.simulation();
        let Some((first, last)) = lines(simulation, at.addr(), bytes) else {
            return fiber.spend(simulation.config.costs.hit_ps);
        };
        fiber.announce(at.addr(), first);
        if !fiber.turn() {
            return;
        }
        let mut start_ps = fiber.clock_ps.get();
        let mut latest_ps = start_ps;
        for line in first..=last {
            let ready_ps = fiber.charge(line, intent.into(), start_ps);
            if intent == Intent::Write {
                simulation.written(line, ready_ps, true);
            }
            latest_ps = latest_ps.max(ready_ps);
            start_ps += simulation.config.costs.issue_ps;
        }
        if !fiber.is_supervisor() {
            fiber.clock_ps.set(latest_ps);
        }
    }

    fn prefetch<T>(c: VirtualCore, at: *const T, bytes: usize, intent: Intent) {
        let fiber = c.fiber();
        let simulation = fiber.simulation();
        let Some((first, last)) = lines(simulation, at.addr(), bytes) else { return };
        if !fiber.turn() || fiber.is_supervisor() {
            return;
        }
        for line in first..=last {
            let start_ps =
                simulation.cost().prefetch(fiber.core.get(), line, intent.into(), fiber.clock_ps.get());
            fiber.clock_ps.set(start_ps);
            fiber.spend(simulation.config.costs.issue_ps);
        }
    }

    #[inline]
    fn work(c: VirtualCore, work: Work, units: u32) {
        let fiber = c.fiber();
        fiber.spend(fiber.simulation().config.costs.work_ps[work as usize] * u64::from(units));
    }

    fn now(c: VirtualCore) -> Nanos {
        let fiber = c.fiber();
        if fiber.is_supervisor() {
            fiber.turn();
        }
        fiber.spend(fiber.simulation().config.costs.clock_ps);
        fiber.now()
    }

    /// Picoseconds of virtual time.
    fn timestamp(c: VirtualCore) -> u64 {
        let fiber = c.fiber();
        if fiber.is_supervisor() {
            fiber.turn();
        }
        fiber.spend(fiber.simulation().config.costs.clock_ps);
        fiber.clock_ps.get()
    }

    fn spin_while(c: VirtualCore, word: &VirtualWord, seen: u64, deadline: Option<Nanos>) -> u64 {
        let fiber = c.fiber();
        loop {
            let live = fiber.step(std::ptr::from_ref(word).addr(), Access::Read).is_some();
            let value = word.get();
            let expired = deadline.is_some_and(|end| picoseconds(end) <= fiber.clock_ps.get());
            if !live || value != seen || expired || !fiber.sleep(WaitReason::Spin, word, seen, deadline) {
                return value;
            }
        }
    }

    fn pause(c: VirtualCore, nanos: u64) {
        let fiber = c.fiber();
        if !fiber.is_suppressed() {
            fiber.advance(picoseconds(Nanos(nanos)));
            fiber.turn();
        }
    }

    fn park(c: VirtualCore, word: &VirtualWord, seen: u64, deadline: Option<Nanos>) {
        let fiber = c.fiber();
        let live = fiber.step(std::ptr::from_ref(word).addr(), Access::Read).is_some();
        if !live || word.get() != seen {
            return;
        }
        let simulation = fiber.simulation();
        let costs = &simulation.config.costs;
        fiber.spend(costs.system_call_ps);
        let expired = deadline.is_some_and(|end| picoseconds(end) <= fiber.clock_ps.get());
        if expired || (!fiber.is_supervisor() && simulation.wakes_early()) {
            return;
        }
        fiber.sleep(WaitReason::Park, word, seen, deadline);
        fiber.spend(costs.wake_ps);
    }

    fn unpark(c: VirtualCore, word: &VirtualWord, count: u32) {
        let fiber = c.fiber();
        if fiber.turn() {
            let simulation = fiber.simulation();
            fiber.spend(simulation.config.costs.system_call_ps);
            simulation.unpark(word, count, fiber.clock_ps.get());
        }
    }

    fn parallel(
        c: VirtualCore,
        places: &[Place],
        worker: &(dyn Fn(VirtualCore, usize) + Sync),
        main: &mut dyn FnMut(VirtualCore),
    ) {
        parallel::parallel(c, places, worker, main);
    }
}
