//! Every kind on both platforms, under perturbed schedules, and with one thread; and mutants that
//! the checks detect.

use std::sync::atomic::Ordering;

use platform::{Hardware, HardwareThread, Node, OutOfMemory, Place};
use sim::{Config, Shape, VirtualCore, VirtualMachine};

use super::operation::Operation;
use super::*;
use crate::Outcome;
use crate::lines::Lines;

const ALL: [LockKind; 11] = [
    LockKind::TestAndSet,
    LockKind::TestAndTestAndSet,
    LockKind::Ticket,
    LockKind::Mcs,
    LockKind::Clh,
    LockKind::Hierarchical,
    LockKind::CompareAndSwap,
    LockKind::RefusedCompareAndSwap,
    LockKind::FetchAndAdd,
    LockKind::Swap,
    LockKind::Poll,
];

/// Two sockets of four cores, one hardware thread each.
fn machine() -> Config {
    Config::new(Shape::new(2, 4, 1))
}

/// Threads of [`machine`], spread over its sockets in turn.
fn spread(count: usize) -> Vec<LockThread> {
    let thread = |number: usize| {
        let socket = number % 2;
        let place = Place { thread: Some(HardwareThread((socket * 4 + number / 2) as u32)) };
        LockThread { place, node: Some(Node(socket as u32)), island: socket }
    };
    (0..count).map(thread).collect()
}

fn spec(kind: LockKind, threads: usize) -> LockSpec {
    LockSpec { critical: 5, delay: 20, ..LockSpec::new(kind, spread(threads), 100_000) }
}

fn watch<P: Platform>(measuring: &mut dyn FnMut(P::Core)) -> Watch<'_, P> {
    Watch { observe: &|_, _| (), measuring, stop: &|| false }
}

fn simulate_on(config: &Config, spec: &LockSpec) -> LockResult {
    let program = |c| run_lock::<VirtualMachine>(c, spec, watch(&mut |_| ()));
    VirtualMachine::run(config, program).expect("the run ends").value.expect("memory")
}

fn simulate(spec: &LockSpec) -> LockResult {
    simulate_on(&machine(), spec)
}

/// Runs an operation that no [`LockKind`] names.
fn simulate_operation<O: Operation<VirtualMachine>>(
    spec: &LockSpec,
    operation: impl FnOnce(VirtualCore) -> O + Send,
) -> LockResult {
    let program = |c| {
        let operation = operation(c);
        run::run::<VirtualMachine, O>(c, spec, &operation, watch(&mut |_| ()))
    };
    VirtualMachine::run(&machine(), program).expect("the run ends").value.expect("memory")
}

/// Fewest and most operations of a thread.
fn extremes(result: &LockResult) -> (u64, u64) {
    let operations = || result.threads.iter().map(|thread| thread.operations);
    (operations().min().unwrap_or(0), operations().max().unwrap_or(0))
}

#[test]
fn every_kind_is_right_on_any_schedule() {
    for kind in ALL {
        for seed in 0..6 {
            let config = machine().with_seed(seed).perturbed();
            let spec = LockSpec {
                seed,
                locks: if seed == 5 && kind != LockKind::Poll { 3 } else { 1 },
                ..spec(kind, 8)
            };
            let result = simulate_on(&config, &spec);
            assert_eq!(result.check.1, Outcome::Ok, "{kind:?}, seed {seed}: {result:?}");
            assert!(result.throughput() > 0.0, "{kind:?}, seed {seed}: {result:?}");
        }
    }
}

#[test]
fn one_thread_gets_every_lock_and_waits_for_nobody() {
    for kind in ALL.into_iter().filter(|kind| *kind != LockKind::Poll) {
        let result = simulate(&LockSpec { critical: 0, delay: 0, ..spec(kind, 1) });
        assert_eq!(result.check.1, Outcome::Ok, "{kind:?}");
        let counts = result.threads[0];
        assert_eq!(counts.refused, 0, "{kind:?}");
        let mean_nanos = counts.timed_nanos as f64 / counts.timed as f64;
        assert!(counts.timed > 0 && mean_nanos < 100.0, "{kind:?}: {mean_nanos} ns");
        // An operation on uncontended lines takes tens of cycles, without a transfer from another
        // core.
        assert!((1e6..1e9).contains(&result.throughput()), "{kind:?}: {}", result.throughput());
    }
}

#[test]
fn locks_in_order_of_arrival_are_fair() {
    for kind in [LockKind::Ticket, LockKind::Mcs, LockKind::Clh] {
        let spec = LockSpec { warm_up_nanos: 20_000, ..spec(kind, 8) };
        let (least, most) = extremes(&simulate(&spec));
        assert!(least > 10 && most <= least + least / 10 + 2, "{kind:?}: {least} to {most}");
    }
}

#[test]
fn an_unfair_lock_shows_as_such() {
    // Without a delay the thread that has released the lock acquires it again first.
    let spec = LockSpec { critical: 0, delay: 0, ..spec(LockKind::TestAndTestAndSet, 8) };
    let (least, most) = extremes(&simulate(&spec));
    assert!(most > 2 * least.max(1), "{least} to {most}");
}

#[test]
fn a_hierarchical_lock_stays_on_its_island_and_leaves_it() {
    let spec = |kind| LockSpec { critical: 0, delay: 0, ..spec(kind, 8) };
    let (ticket, cohort) = (simulate(&spec(LockKind::Ticket)), simulate(&spec(LockKind::Hierarchical)));
    // The tickets alternate between the sockets, so each handover crosses from one to the other.
    assert!(cohort.throughput() > 1.3 * ticket.throughput(), "{cohort:?} {ticket:?}");
    let islands: Vec<u64> = (0..2)
        .map(|first| cohort.threads.iter().skip(first).step_by(2).map(|t| t.operations).sum())
        .collect();
    assert!(islands.iter().all(|operations| *operations > 100), "{islands:?}");
}

#[test]
fn a_longer_critical_section_bounds_the_rate() {
    for kind in ALL.into_iter().filter(|kind| kind.is_lock()) {
        let rate = |critical| simulate(&LockSpec { critical, delay: 0, ..spec(kind, 4) }).throughput();
        let (short, long) = (rate(0), rate(2_000));
        // 2000 units of three cycles: with at least 1 GHz and at most 5 GHz, 6 to 1.2 us.
        assert!(
            (1e9 / 7_000.0..1e9 / 1_200.0).contains(&long) && short > 3.0 * long,
            "{kind:?} {short} {long}"
        );
    }
}

#[test]
fn simulated_runs_repeat_and_seeds_differ() {
    let run = |seed| simulate(&LockSpec { seed, locks: 4, ..spec(LockKind::Mcs, 4) });
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_warm_up_is_not_counted() {
    let kinds = [LockKind::Ticket, LockKind::Poll];
    for kind in kinds {
        let operations = |warm_up_nanos| {
            let result = simulate(&LockSpec { warm_up_nanos, ..spec(kind, 4) });
            assert!((100_000..110_000).contains(&result.elapsed_nanos), "{result:?}");
            result.threads.iter().map(|thread| thread.operations).sum::<u64>() as f64
        };
        let ratio = operations(1_000_000) / operations(0);
        assert!((0.8..1.25).contains(&ratio), "{kind:?}: {ratio}");
    }
}

#[test]
fn a_stop_ends_a_run_early() {
    let spec = LockSpec { nanos: 1_000_000_000, ..spec(LockKind::Mcs, 4) };
    let program = |c| {
        let watch = Watch { observe: &|_, _| (), measuring: &mut |_| (), stop: &|| true };
        run_lock::<VirtualMachine>(c, &spec, watch)
    };
    let result = VirtualMachine::run(&machine(), program).expect("the run ends").value.expect("memory");
    assert!(result.elapsed_nanos < 1_000_000 && result.check.1 == Outcome::Ok, "{result:?}");
}

#[test]
fn words_on_the_line_of_a_lock_are_counted_too() {
    for kind in ALL.into_iter().filter(|kind| kind.is_lock()) {
        for held_line in [HeldLine::Own, HeldLine::Lock] {
            let spec = LockSpec { held_words: HELD_WORDS_MAX, held_line, locks: 2, ..spec(kind, 4) };
            let result = simulate(&spec);
            assert_eq!(result.check, ("lock_exclusion", Outcome::Ok), "{kind:?} {held_line:?}");
        }
    }
}

#[test]
fn backoff_changes_the_locks_that_have_it() {
    for kind in ALL.into_iter().filter(|kind| kind.backs_off()) {
        let run = |backoff_nanos| simulate(&LockSpec { backoff_nanos, ..spec(kind, 8) });
        let (without, with) = (run(0), run(2_000));
        assert!(with.check.1 == Outcome::Ok && with.throughput() != without.throughput(), "{kind:?}");
    }
}

#[test]
fn pollers_see_changes_soon_and_none_twice() {
    let result = simulate(&LockSpec { delay: 10_000, ..spec(LockKind::Poll, 4) });
    let written = result.threads[0].operations;
    assert!(written > 2 && result.check.1 == Outcome::Ok, "{result:?}");
    for poller in &result.threads[1..] {
        assert!((written - 1..=written + 1).contains(&poller.operations), "{result:?}");
        let mean = poller.timed_nanos / poller.timed.max(1);
        assert!((1..2_000).contains(&mean), "{mean} ns");
    }
}

#[test]
fn hardware_runs_every_kind_with_two_threads() {
    for kind in ALL {
        let thread = |island| LockThread { place: Place { thread: None }, node: None, island };
        let spec = LockSpec {
            warm_up_nanos: 100_000,
            locks: if kind == LockKind::Poll { 1 } else { 2 },
            ..LockSpec::new(kind, vec![thread(0), thread(1)], 3_000_000)
        };
        let result = run_lock::<Hardware>(Hardware::core(), &spec, watch(&mut |_| ())).expect("memory");
        assert_eq!(result.check.1, Outcome::Ok, "{kind:?}: {result:?}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let run = |spec: &LockSpec| run_lock::<Hardware>(Hardware::core(), spec, watch(&mut |_| ()));
    let few = LockError::TooFewThreads { wanted: 2, threads: 1 };
    assert_eq!(run(&spec(LockKind::Poll, 1)).expect_err("refused"), few);
    let few = LockError::TooFewThreads { wanted: 1, threads: 0 };
    assert_eq!(run(&spec(LockKind::Mcs, 0)).expect_err("refused"), few);
    for wrong in [
        LockSpec { locks: 0, ..spec(LockKind::Mcs, 1) },
        LockSpec { held_words: 0, ..spec(LockKind::Mcs, 1) },
        LockSpec { held_words: HELD_WORDS_MAX + 1, ..spec(LockKind::Mcs, 1) },
    ] {
        assert!(matches!(run(&wrong), Err(LockError::Shape { .. })), "{wrong:?}");
    }
}

/// A test-and-set lock that reads and writes in two steps, with time for other threads between
/// them.
struct Torn<P: Platform>(Lines<P>);

impl<P: Platform> Lock<P> for Torn<P> {
    type ThreadState = ();

    fn thread_state(&self, _: P::Core, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    fn hold(&self, c: P::Core, lock: usize, (): &mut (), body: impl FnOnce()) -> u64 {
        let word = self.0.word(lock, 0);
        while P::spin_while(c, word, 1, None) == 1 {}
        P::pause(c, 200);
        P::store(c, word, 1, Ordering::SeqCst);
        body();
        P::store(c, word, 0, Ordering::SeqCst);
        0
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.0.word(lock, 2 + word)
    }
}

#[test]
fn a_lock_that_lets_two_in_is_caught() {
    for held_line in [HeldLine::Own, HeldLine::Lock] {
        let spec = LockSpec { held_line, critical: 100, ..spec(LockKind::TestAndSet, 8) };
        let result = simulate_operation(&spec, |c| {
            let lock = Torn::<VirtualMachine>(Lines::new(c, None, 1, "torn").expect("memory"));
            Held::new(c, &spec, lock).expect("memory")
        });
        assert!(matches!(result.check, ("lock_exclusion", Outcome::Violated(_))), "{result:?}");
    }
}

/// An atomic operation that is torn into a load and a store.
enum TornAtomic<P: Platform> {
    Add(FetchAndAdd<P>),
    Refused(RefusedCompareAndSwap<P>),
    Swap(Swap<P>),
}

impl<P: Platform> TornAtomic<P> {
    fn words(&self) -> &Words<P> {
        match self {
            TornAtomic::Add(FetchAndAdd(words)) | TornAtomic::Refused(RefusedCompareAndSwap(words)) => words,
            TornAtomic::Swap(swap) => swap.words(),
        }
    }
}

impl<P: Platform> Operation<P> for TornAtomic<P> {
    type ThreadState = u64;

    fn thread_state(&self, _: P::Core, number: usize) -> Result<u64, OutOfMemory> {
        Ok(if matches!(self, TornAtomic::Swap(_)) { number as u64 } else { 0 })
    }

    fn perform(&self, c: P::Core, item: usize, state: &mut u64, then: impl FnOnce()) -> u64 {
        let word = self.words().word(item);
        let value = P::load(c, word, Ordering::SeqCst);
        let new = match self {
            TornAtomic::Add(_) => value + 1,
            TornAtomic::Refused(_) => 2,
            TornAtomic::Swap(_) => std::mem::replace(state, value),
        };
        P::store(c, word, new, Ordering::SeqCst);
        then();
        0
    }

    fn leave(&self, state: u64) -> u64 {
        state
    }

    fn check(&self, operations: u64, left: &[u64]) -> (&'static str, Outcome) {
        match self {
            TornAtomic::Add(atomic) => Operation::<P>::check(atomic, operations, left),
            TornAtomic::Refused(atomic) => Operation::<P>::check(atomic, operations, left),
            TornAtomic::Swap(atomic) => Operation::<P>::check(atomic, operations, left),
        }
    }
}

type MakeTorn = fn(VirtualCore, Words<VirtualMachine>) -> TornAtomic<VirtualMachine>;

#[test]
fn atomics_that_are_none_are_caught() {
    let spec = spec(LockKind::FetchAndAdd, 8);
    let make: [MakeTorn; 3] = [
        |_, words| TornAtomic::Add(FetchAndAdd(words)),
        |_, words| TornAtomic::Refused(RefusedCompareAndSwap(words)),
        |c, words| TornAtomic::Swap(Swap::new(c, words)),
    ];
    for make in make {
        let result = simulate_operation(&spec, |c| make(c, Words::new(c, &spec).expect("memory")));
        assert!(matches!(result.check.1, Outcome::Violated(_)), "{result:?}");
    }
}
