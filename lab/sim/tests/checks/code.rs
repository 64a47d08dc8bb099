//! Instruction caches: code that stays, code that does not fit, siblings, and declared paths.

use platform::{Code, Platform};
use sim::{Config, InstructionCache, Shape, Statistics, VirtualCore, VirtualMachine as Vm};

use crate::common::{places, small};

/// 512 lines, 8 ways.
const CACHE: InstructionCache = InstructionCache { bytes: 32 << 10, ways: 8, line_bytes: 64 };

/// A wait of 3 ns for each missing line.
fn with_cache(config: Config) -> Config {
    let costs = sim::Costs { code_miss_ps: 3_000, ..config.model.costs().clone() };
    Config { model: config.model.clone().with_instruction_cache(CACHE).with_costs(costs), ..config }
}

fn procedure(number: u8, lines: u16) -> Code {
    Code::Procedure { number, lines }
}

/// One core that executes code a hundred times in this order.
fn repeated(config: &Config, codes: &[Code]) -> Statistics {
    let worker = |c, _| (0..100).for_each(|_| codes.iter().for_each(|code| Vm::code(c, *code)));
    Vm::run(config, |c| Vm::parallel(c, &places([0]), &worker, &mut |_| ())).expect("a run").statistics
}

#[test]
fn a_loop_over_one_segment_misses_its_lines_once() {
    let alone = repeated(&with_cache(small()), &[procedure(0, 300)]).counts;
    assert_eq!(alone.code_misses(), 300);
    assert_eq!(alone.code_stalled_ps, 300 * 3_000);
}

#[test]
fn segments_that_do_not_fit_together_evict_each_other() {
    let fits = repeated(&with_cache(small()), &[procedure(0, 100), procedure(1, 100)]);
    assert!(fits.counts.code_misses() < 250, "{fits:?}");
    let evicts = repeated(&with_cache(small()), &[procedure(0, 500), procedure(1, 500)]);
    assert!(evicts.counts.code_misses() > 90_000, "{evicts:?}");
    assert!(evicts.elapsed > fits.elapsed);
}

#[test]
fn code_costs_nothing_without_an_instruction_cache() {
    let codes = [procedure(0, 500), procedure(1, 500)];
    let without = repeated(&small(), &codes);
    assert_eq!((without.counts.code_misses(), without.counts.code_stalled_ps), (0, 0));
}

/// Lines that two workers on these hardware threads miss, which alternate: each executes its code.
fn alternating(threads: [u32; 2], codes: [Code; 2]) -> u64 {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 2)) };
    let worker = |c: VirtualCore, index: usize| {
        Vm::pause(c, 500 * index as u64);
        for _ in 0..100 {
            Vm::code(c, codes[index]);
            Vm::pause(c, 100_000);
        }
    };
    let run = |c| Vm::parallel(c, &places(threads), &worker, &mut |_| ());
    Vm::run(&with_cache(config), run).expect("a run").statistics.counts.code_misses()
}

#[test]
fn siblings_share_the_instruction_cache_of_their_core() {
    // Hardware thread 2 is the sibling of thread 0, thread 1 is on another core.
    let (same, other) = ([procedure(0, 400); 2], [procedure(0, 400), procedure(1, 400)]);
    assert_eq!(alternating([0, 1], same), 800);
    assert_eq!(alternating([0, 2], same), 400, "one loads for both");
    assert_eq!(alternating([0, 1], other), 800);
    assert!(alternating([0, 2], other) > 50_000, "each evicts the other's code");
}

#[test]
fn a_run_with_declared_paths_pays_for_code_by_their_rate() {
    let worker = |c, _| {
        Vm::instructions(c, 1_000);
        Vm::code(c, procedure(0, 300));
    };
    let run = |c| Vm::parallel(c, &places([0]), &worker, &mut |_| ());
    let counts = Vm::run(&with_cache(small()), run).expect("a run").statistics.counts;
    assert_eq!((counts.code_misses(), counts.path_instructions), (0, 1_000));
}

#[test]
fn code_is_fetched_alike_in_every_run() {
    let codes = [procedure(0, 200), procedure(1, 250), Code::Begin, Code::Commit];
    let config = with_cache(small());
    assert_eq!(repeated(&config, &codes), repeated(&config, &codes));
}

#[test]
fn impossible_instruction_caches_are_refused() {
    let model = small().model.with_instruction_cache(InstructionCache { ways: 0, ..CACHE });
    let refused = Vm::run(&Config { model, ..small() }, |_| ()).expect_err("no ways");
    assert!(refused.to_string().contains("instruction cache"), "{refused}");
}
