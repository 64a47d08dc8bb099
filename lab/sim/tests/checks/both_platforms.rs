//! One program, generic over the platform, gives the same result on hardware and in the virtual
//! machine.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::common::small;
use platform::{Hardware, Intent, Node, Place, Platform, RegionBytes, Work};
use sim::VirtualMachine;

const WORKERS: usize = 4;
const ROUNDS: u64 = 50;
const ROW_WORDS: usize = 24;

fn words<P: Platform>(region: &P::Region) -> &[P::Word] {
    // SAFETY: zeroed memory of this length is a valid slice of words by `SharedWord`, and lives as
    // long as the region.
    unsafe { std::slice::from_raw_parts(region.base().cast(), region.bytes() / 8) }
}

fn acquire<P: Platform>(c: P::Core, lock: &P::Word) {
    while P::cas(c, lock, 0, 1, Acquire).is_err() {
        P::spin_while(c, lock, 1, None);
    }
}

/// Workers add to a row under a lock; the last to finish wakes the first, which is parked.
fn program<P: Platform>(c: P::Core) -> Vec<u64> {
    let region = P::region(c, Some(Node(0)), 4096, "row and lock").expect("memory");
    let (lock, finished, row) = {
        let words = words::<P>(&region);
        (&words[0], &words[8], &words[16..][..ROW_WORDS])
    };
    let worker = |c: P::Core, index: usize| {
        for round in 0..ROUNDS {
            P::work(c, Work::Random, 1);
            P::prefetch(c, row.as_ptr(), size_of_val(row), Intent::Write);
            acquire::<P>(c, lock);
            let mut copy = [0; ROW_WORDS];
            P::read_words(c, row, &mut copy);
            assert!(copy.iter().all(|word| *word == copy[0]));
            P::write_words(c, row, &copy.map(|word| word + round + index as u64));
            P::store(c, lock, 0, Release);
        }
        if P::fetch_add(c, finished, 1, AcqRel) + 1 == WORKERS as u64 {
            P::unpark(c, finished, u32::MAX);
        }
    };
    P::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |c| {
        loop {
            let seen = P::load(c, finished, Acquire);
            if seen == WORKERS as u64 {
                break;
            }
            let deadline = P::now(c).plus(1_000_000);
            P::park(c, finished, seen, Some(deadline));
        }
    });
    assert!(P::address(c, finished) > P::address(c, lock));
    row.iter().map(|word| P::load(c, word, Relaxed)).collect()
}

#[test]
fn both_platforms_agree() {
    let sum = WORKERS as u64 * (0..ROUNDS).sum::<u64>() + ROUNDS * (0..WORKERS as u64).sum::<u64>();
    assert_eq!(program::<Hardware>(Hardware::core()), [sum; ROW_WORDS]);
    for seed in 0..10 {
        for config in [small().with_seed(seed), small().with_seed(seed).perturbed()] {
            let outcome = VirtualMachine::run(&config, program::<VirtualMachine>);
            assert_eq!(outcome.expect("a run").value, [sum; ROW_WORDS]);
        }
    }
}

/// Words of many lines are copied unchanged, whatever the number of lines that are requested
/// together.
fn copied<P: Platform>(c: P::Core) -> bool {
    const WORDS: usize = 8 * 150;
    let region = P::region(c, Some(Node(0)), WORDS * 8, "many lines").expect("memory");
    let values: Vec<u64> = (1..=WORDS as u64).collect();
    P::write_words(c, &words::<P>(&region)[..WORDS], &values);
    (0..20).all(|first| {
        let mut copy = vec![0; WORDS - 2 * first];
        P::read_words(c, &words::<P>(&region)[first..WORDS - first], &mut copy);
        copy == values[first..WORDS - first]
    })
}

#[test]
fn long_copies_are_whole() {
    assert!(copied::<Hardware>(Hardware::core()));
    let outcome = VirtualMachine::run(&small(), |c| {
        let worker = |c, _: usize| assert!(copied::<VirtualMachine>(c));
        VirtualMachine::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
        copied::<VirtualMachine>(c)
    });
    assert!(outcome.expect("a run").value);
}

#[test]
fn secrets_follow_from_the_seed_in_a_virtual_machine_alone() {
    fn drawn<P: Platform>(c: P::Core) -> [u64; 3] {
        [(); 3].map(|()| P::secret(c))
    }
    let of_seed = |seed| {
        let outcome = VirtualMachine::run(&small().with_seed(seed), drawn::<VirtualMachine>);
        outcome.expect("a run").value
    };
    assert_eq!(of_seed(1), of_seed(1));
    let all =
        [of_seed(1), of_seed(2), drawn::<Hardware>(Hardware::core()), drawn::<Hardware>(Hardware::core())];
    let mut numbers = all.concat();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
}
