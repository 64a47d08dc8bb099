//! The operations of [`Platform`] on the virtual machine.

use std::sync::atomic::Ordering;

use platform::{
    Address, Code, HardwareThread, Intent, LINE_BYTES, Nanos, Node, OutOfMemory, Place, Platform,
    RegionBytes, Work,
};

use crate::VirtualMachine;
use crate::config::Config;
use crate::cost::Ready;
use crate::disk::Call;
use crate::error::WaitReason;
use crate::line::{Access, LineNumber, PRIVATE_LINE};
use crate::memory::VirtualRegion;
use crate::parallel::parallel;
use crate::ready::picoseconds;
use crate::simulation::Simulation;
use crate::virtual_core::VirtualCore;
use crate::word::VirtualWord;

/// Lines of a copy that are requested together.
const BATCH: usize = 32;

/// Address of everything outside regions. One address for all of it, because host addresses differ
/// from run to run.
pub const PRIVATE_ADDRESS: Address = Address(1 << 63);

/// An atomic operation on a word: waits for the core's turn, performs the change, wakes the cores
/// that waited for it.
#[inline(always)]
fn modify<T>(c: VirtualCore, word: &VirtualWord, access: Access, change: impl FnOnce() -> T) -> Option<T> {
    let fiber = c.fiber();
    let line = c.step(std::ptr::from_ref(word).addr(), access)?;
    let result = change();
    c.simulation().written(line, fiber.clock_ps.get(), false);
    Some(result)
}

/// Cuts words into runs of one line each. Private memory is one run whatever its size, because the
/// number of runs must not depend on host addresses.
fn runs<'a>(
    simulation: &'a Simulation,
    words: &'a [VirtualWord],
) -> impl Iterator<Item = (std::ops::Range<usize>, LineNumber)> + 'a {
    let mut index = 0;
    std::iter::from_fn(move || {
        let at = std::ptr::from_ref(words.get(index)?).addr();
        let line = simulation.line(at);
        let line_bytes = simulation.config.model.line_bytes();
        let count = match line {
            PRIVATE_LINE => words.len() - index,
            _ => ((line_bytes - at % line_bytes) / size_of::<VirtualWord>()).min(words.len() - index),
        };
        index += count;
        Some((index - count..index, line))
    })
}

/// Overlapped accesses: they are issued one after another, each as soon as the core has a fill
/// buffer for it.
struct Overlap {
    next_ps: u64,
    issue_ps: u64,
}

impl Overlap {
    fn new(simulation: &Simulation, start_ps: u64) -> Overlap {
        Overlap { next_ps: start_ps, issue_ps: simulation.config.model.costs().issue_ps }
    }

    /// Charges the next access, once it may start.
    fn charge(&mut self, c: VirtualCore, line: LineNumber, access: Access) -> Ready {
        loop {
            match c.charge(line, access, self.next_ps) {
                Ready::Later(start_ps) => self.next_ps = start_ps,
                ready => {
                    self.next_ps += self.issue_ps;
                    return ready;
                }
            }
        }
    }
}

/// Reads the words of one run, in the core's turn.
fn read_run(c: VirtualCore, from: &[VirtualWord], to: &mut [u64], line: LineNumber) {
    let fiber = c.fiber();
    let ready = Overlap::new(c.simulation(), fiber.clock_ps.get()).charge(c, line, Access::Read);
    let (Ready::Now(ready_ps) | Ready::Arrives(ready_ps) | Ready::Later(ready_ps)) = ready;
    if matches!(ready, Ready::Arrives(_)) {
        fiber.clock_ps.set(fiber.clock_ps.get().max(ready_ps));
        c.turn();
    }
    from.iter().zip(to).for_each(|(word, slot)| *slot = word.get());
    if !fiber.is_supervisor() {
        fiber.clock_ps.set(fiber.clock_ps.get().max(ready_ps));
    }
}

/// First and last line of a range of bytes in the machine's memory; `None` for private memory and
/// for no bytes.
fn lines(simulation: &Simulation, at: usize, bytes: usize) -> Option<(LineNumber, LineNumber)> {
    let first = simulation.offset(at)?;
    let last = first.checked_add(bytes.checked_sub(1)?)?.min(simulation.memory.bytes() - 1);
    let shift = simulation.config.model.line_shift;
    Some(((first >> shift) as LineNumber, (last >> shift) as LineNumber))
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
        let simulation = c.simulation();
        // Regions are allocated in the order of virtual time.
        c.turn();
        let disk = simulation.config.disk_of(c.machine());
        if disk.is_some_and(|disk| disk.state().refuses(Call::Map)) {
            let reason = Call::Map.refusal().to_string();
            return Err(OutOfMemory { requested: bytes, name, reason });
        }
        let model = &simulation.config.model;
        let here = match fiber.is_supervisor() {
            true => model.first_node(c.machine()),
            false => usize::from(model.cores[fiber.seat.get().core as usize].node),
        };
        let position = node.map_or(Some(here), |node| model.node_position(node));
        let Some(position) = position else {
            let named = node.map_or(0, |node| node.0);
            let reason = format!("the virtual machine has {} nodes, not node {named}", model.nodes.len());
            return Err(OutOfMemory { requested: bytes, name, reason });
        };
        let region = simulation.memory.region(model.nodes[position], bytes, name)?;
        simulation.cost().coherence.place(Address(region.offset()), region.bytes(), position);
        c.spend_in_system(model.costs.system_call_ps);
        Ok(region)
    }

    fn secret(c: VirtualCore) -> u64 {
        c.simulation().secrets.next()
    }

    /// The region belongs to none of several machines: an access costs as much as an access to
    /// private memory.
    fn control_region(
        c: VirtualCore,
        bytes: usize,
        name: &'static str,
    ) -> Result<VirtualRegion, OutOfMemory> {
        let simulation = c.simulation();
        match &simulation.control {
            None => VirtualMachine::region(c, None, bytes, name),
            Some(control) => {
                c.turn();
                control.region(simulation.config.model.nodes[0], bytes, name)
            }
        }
    }

    fn work_for(c: VirtualCore, node: Option<Node>) {
        let simulation = c.simulation();
        let model = &simulation.config.model;
        let position = node.and_then(|node| model.node_position(node)).unwrap_or(0);
        let machine = usize::from(model.node_machines[position]);
        if c.fiber().thread.get().is_some() {
            simulation.move_to_machine(c.fiber(), machine);
        } else {
            simulation.works_for.set(machine);
        }
    }

    fn populate(_: VirtualCore, _: *mut u8, _: usize) {
        // Page faults are not modelled.
    }

    #[inline]
    fn address<T>(c: VirtualCore, object: *const T) -> Address {
        match c.simulation().offset(object.addr()) {
            Some(offset) => Address(offset as u64),
            None => PRIVATE_ADDRESS,
        }
    }

    #[inline]
    fn load(c: VirtualCore, word: &VirtualWord, _: Ordering) -> u64 {
        c.step(std::ptr::from_ref(word).addr(), Access::Read);
        word.get()
    }

    #[inline]
    fn store(c: VirtualCore, word: &VirtualWord, value: u64, order: Ordering) {
        // A sequentially consistent store is an exchange, as on x86.
        let access = if order == Ordering::SeqCst { Access::Atomic } else { Access::Write };
        modify(c, word, access, || word.set(value));
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
        // For a fiber that is being unwound the operation succeeds, so that its loops end.
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
        // The order in which fibers run is the order of their events, so weaker fences need no
        // work.
        if order == Ordering::SeqCst && c.turn() && !fiber.is_supervisor() {
            let simulation = c.simulation();
            let drained_ps = simulation.cost().drain(fiber.seat.get(), fiber.clock_ps.get());
            fiber.clock_ps.set(drained_ps);
            c.spend(simulation.config.model.costs.atomic_ps);
        }
    }

    /// All lines of a batch are requested in one turn; each is copied when it has arrived.
    fn read_words(c: VirtualCore, from: &[VirtualWord], to: &mut [u64]) {
        assert_eq!(from.len(), to.len());
        let fiber = c.fiber();
        let simulation = c.simulation();
        let mut runs = runs(simulation, from).peekable();
        while let Some((range, line)) = runs.peek() {
            c.announce(std::ptr::from_ref(&from[range.start]).addr(), *line);
            if !c.turn() {
                return;
            }
            if range.len() == from.len() {
                return read_run(c, from, to, *line);
            }
            if *line != PRIVATE_LINE {
                let more = (from.len() - range.start) / (LINE_BYTES / size_of::<VirtualWord>());
                c.announce_lines(*line + 1..=*line + more.min(BATCH) as LineNumber);
            }
            let mut overlap = Overlap::new(simulation, fiber.clock_ps.get());
            let mut batch: [(std::ops::Range<usize>, Ready); BATCH] =
                [const { (0..0, Ready::Now(0)) }; BATCH];
            let mut asked = 0;
            // The batch first, so that a full batch takes no further line from `runs`.
            for (slot, (range, line)) in batch.iter_mut().zip(runs.by_ref()) {
                *slot = (range, overlap.charge(c, line, Access::Read));
                asked += 1;
            }
            let mut latest_ps = 0;
            for (range, ready) in &batch[..asked] {
                match *ready {
                    Ready::Arrives(arrival_ps) if !fiber.is_supervisor() => {
                        fiber.clock_ps.set(fiber.clock_ps.get().max(arrival_ps));
                        c.turn();
                    }
                    Ready::Arrives(ready_ps) | Ready::Now(ready_ps) | Ready::Later(ready_ps) => {
                        latest_ps = latest_ps.max(ready_ps);
                    }
                }
                for (word, slot) in from[range.clone()].iter().zip(&mut to[range.clone()]) {
                    *slot = word.get();
                }
            }
            if !fiber.is_supervisor() {
                fiber.clock_ps.set(fiber.clock_ps.get().max(latest_ps));
            }
        }
    }

    /// One turn for each line: stores take effect one after another.
    fn write_words(c: VirtualCore, to: &[VirtualWord], from: &[u64]) {
        assert_eq!(from.len(), to.len());
        let fiber = c.fiber();
        let simulation = c.simulation();
        let mut latest_ps = 0;
        for (range, line) in runs(simulation, to) {
            c.announce(std::ptr::from_ref(&to[range.start]).addr(), line);
            if !c.turn() {
                return;
            }
            let ready = loop {
                match c.charge(line, Access::Write, fiber.clock_ps.get()) {
                    Ready::Later(later_ps) => fiber.clock_ps.set(later_ps),
                    ready => break ready,
                }
                c.turn();
            };
            let (Ready::Now(ready_ps) | Ready::Arrives(ready_ps) | Ready::Later(ready_ps)) = ready;
            if matches!(ready, Ready::Arrives(_)) {
                fiber.clock_ps.set(ready_ps);
                c.turn();
            }
            for (word, value) in to[range.clone()].iter().zip(&from[range]) {
                word.set(*value);
            }
            simulation.written(line, ready_ps, false);
            latest_ps = latest_ps.max(ready_ps);
            c.spend(simulation.config.model.costs.issue_ps);
        }
        fiber.clock_ps.set(fiber.clock_ps.get().max(latest_ps));
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
        let simulation = c.simulation();
        let Some((first, last)) = lines(simulation, at.addr(), bytes) else {
            return c.spend(simulation.config.model.costs.l1_ps);
        };
        c.announce(at.addr(), first);
        if !c.turn() {
            return;
        }
        let start_ps = fiber.clock_ps.get();
        let written = |latest_ps: u64| {
            if intent == Intent::Write {
                (first..=last).for_each(|line| simulation.written(line, latest_ps, true));
            }
        };
        if fiber.is_supervisor() {
            return written(start_ps + u64::from(last - first) * simulation.config.model.costs.issue_ps);
        }
        c.announce_lines(first + 1..=last);
        let mut overlap = Overlap::new(simulation, start_ps);
        let mut latest_ps = start_ps;
        let mut waits = false;
        for line in first..=last {
            let ready = overlap.charge(c, line, intent.into());
            waits |= matches!(ready, Ready::Arrives(_));
            let (Ready::Now(ready_ps) | Ready::Arrives(ready_ps) | Ready::Later(ready_ps)) = ready;
            latest_ps = latest_ps.max(ready_ps);
        }
        fiber.clock_ps.set(latest_ps);
        // The accesses take effect when the last line has arrived, or now without any wait.
        if waits {
            c.turn();
        }
        written(latest_ps);
    }

    fn prefetch<T>(c: VirtualCore, at: *const T, bytes: usize, intent: Intent) {
        let fiber = c.fiber();
        let simulation = c.simulation();
        let Some((first, last)) = lines(simulation, at.addr(), bytes) else { return };
        c.announce(at.addr(), first);
        if !c.turn() || fiber.is_supervisor() {
            return;
        }
        c.announce_lines(first..=last);
        for line in first..=last {
            let start_ps =
                simulation.cost().prefetch(fiber.seat.get(), line, intent.into(), fiber.clock_ps.get());
            fiber.clock_ps.set(start_ps);
            c.spend(simulation.config.model.costs.issue_ps);
        }
    }

    #[inline]
    fn instructions(c: VirtualCore, count: u32) {
        c.compute_path(count);
    }

    #[inline]
    fn code(c: VirtualCore, code: Code) {
        c.enter_code(code);
    }

    #[inline]
    fn work(c: VirtualCore, work: Work, units: u32) {
        if work == Work::Transaction {
            c.forget_declarations();
        }
        c.compute_units(work, units);
    }

    fn now(c: VirtualCore) -> Nanos {
        c.read_clock();
        c.fiber().now()
    }

    /// Picoseconds of virtual time.
    fn timestamp(c: VirtualCore) -> u64 {
        c.read_clock();
        c.fiber().clock_ps.get()
    }

    fn untimed(c: VirtualCore, on: bool) {
        if c.turn() {
            c.set_supervisor(on);
        }
    }

    fn spin_while(c: VirtualCore, word: &VirtualWord, seen: u64, deadline: Option<Nanos>) -> u64 {
        let fiber = c.fiber();
        loop {
            let live = c.step(std::ptr::from_ref(word).addr(), Access::Read).is_some();
            let value = word.get();
            let expired = deadline.is_some_and(|end| picoseconds(end) <= fiber.clock_ps.get());
            if !live || value != seen || expired || !c.sleep(WaitReason::Spin, word, seen, deadline) {
                return value;
            }
        }
    }

    fn pause(c: VirtualCore, nanos: u64) {
        let busy_ps = c.keep_busy(nanos);
        let costs = &c.simulation().config.model.costs;
        c.simulation().cost().counts().pause_turns += busy_ps / (costs.clock_ps + costs.pause_ps).max(1);
    }

    /// Sleeps, as on hardware: a resting worker may wait for a worker that does not run.
    fn rest(c: VirtualCore, nanos: u64) {
        let fiber = c.fiber();
        if !fiber.is_suppressed() {
            let costs = &c.simulation().config.model.costs;
            let calls_ps = if fiber.is_supervisor() { 0 } else { costs.system_call_ps + costs.wake_ps };
            c.asleep(|| {
                fiber.advance(picoseconds(Nanos(nanos)).saturating_add(calls_ps));
                c.turn()
            });
            c.take_processor();
        }
    }

    fn park(c: VirtualCore, word: &VirtualWord, seen: u64, deadline: Option<Nanos>) {
        let fiber = c.fiber();
        let live = c.step(std::ptr::from_ref(word).addr(), Access::Read).is_some();
        if !live || word.get() != seen {
            return;
        }
        let simulation = c.simulation();
        let costs = &simulation.config.model.costs;
        c.spend_in_system(costs.system_call_ps);
        let expired = deadline.is_some_and(|end| picoseconds(end) <= fiber.clock_ps.get());
        if expired || (!fiber.is_supervisor() && simulation.wakes_early()) {
            return;
        }
        c.sleep(WaitReason::Park, word, seen, deadline);
        // A hardware thread that has executed others meanwhile does not wake up.
        if !fiber.has_waited.get() {
            c.spend_in_system(costs.wake_ps);
        }
    }

    fn unpark(c: VirtualCore, word: &VirtualWord, count: u32) {
        let fiber = c.fiber();
        if c.turn() {
            let simulation = c.simulation();
            c.spend_in_system(simulation.config.model.costs.system_call_ps);
            let each_ps = if fiber.is_supervisor() { 0 } else { simulation.config.model.costs.wake_each_ps };
            let woken = simulation.unpark(word, count, fiber.clock_ps.get(), each_ps);
            c.spend_in_system(woken * each_ps);
        }
    }

    fn is_gone(c: VirtualCore) -> bool {
        c.fiber().is_suppressed()
    }

    fn usable(c: VirtualCore) -> Option<Vec<HardwareThread>> {
        let simulation = c.simulation();
        let Config { model, withdrawals, .. } = &simulation.config;
        let elapsed = Nanos(Self::now(c).since(simulation.counted_from.get()));
        let is_withdrawn = |thread: &HardwareThread| {
            withdrawals.iter().any(|one| one.thread == *thread && one.from <= elapsed && elapsed < one.until)
        };
        let threads = model.threads.iter().map(|(thread, _)| *thread);
        (!withdrawals.is_empty()).then(|| threads.filter(|thread| !is_withdrawn(thread)).collect())
    }

    fn bind(c: VirtualCore, threads: &[HardwareThread]) -> bool {
        c.simulation().bind(c.fiber(), threads)
    }

    fn parallel(
        c: VirtualCore,
        places: &[Place],
        worker: &(dyn Fn(VirtualCore, usize) + Sync),
        main: &mut dyn FnMut(VirtualCore),
    ) {
        parallel(c, places, worker, main);
    }
}
