//! Words of requests, and the bound on overtaking.

use platform::Hardware;

use super::super::Detecting;
use super::*;
use crate::options::Lockers;

const WRITE: Want = Want::Exclusive { shared: false, gap: false };

/// How often a worker that sleeps was overtaken later than it may be, until it got the lock; at
/// most three times.
fn late_overtakings(faults: Faults) -> u32 {
    let c = Hardware::core();
    let queues = Queues::<Hardware>::new(c, 1, faults).expect("memory");
    let region = Hardware::region(c, None, LINE_BYTES, "lock").expect("memory");
    let lock = LockWord::<Hardware>::from_word(Hardware::word_of(&region, 0));
    lock.acquire::<Detecting>(c, Lockers::Several, WRITE, 2).expect("it is free");
    queues.with_list(c, name_of(lock), |list| {
        let words = queues.worker(0);
        set::<Hardware>(c, &words[LOCK], name_of(lock));
        set::<Hardware>(c, &words[REQUEST], to_word(WRITE, false));
        set::<Hardware>(c, &words[HOLDER_TAG], 1);
        queues.append(c, list, 0, name_of(lock), false);
        let seen = lock.state(c);
        lock.exchange(c, seen, seen.slept_for(true)).expect("no other thread");
    });
    let (mut began, mut late) = (None, 0);
    while late < 3 {
        lock.unlock_exclusive(c, Lockers::Several, false);
        queues.gave_back(c, lock);
        if !queues.is_waiting(c, 0) {
            assert_eq!(lock.state(c).holder_tag(), 1);
            break;
        }
        let now = Hardware::now(c);
        late += u32::from(now.since(*began.get_or_insert(now)) > OVERTAKEN_NANOS_MAX);
        lock.acquire::<Detecting>(c, Lockers::Several, WRITE, 2).expect("it is left free");
        let closed = lock.acquire::<Detecting>(c, Lockers::Several, Want::Gap, 3);
        assert!(closed.is_err(), "one transaction at a time overtakes");
    }
    late
}

#[test]
fn who_sleeps_is_overtaken_for_a_while_and_no_longer() {
    // The clock may have passed the bound between two looks at it.
    assert!(late_overtakings(Faults::NONE) <= 1);
    assert_eq!(late_overtakings(Faults::of(&[Fault::EndlessOvertaking])), 3, "a mutant");
}

#[test]
fn requests_are_words() {
    let wants = [
        Want::Shared { gap: true },
        Want::Shared { gap: false },
        Want::Exclusive { shared: true, gap: false },
        Want::Exclusive { shared: false, gap: true },
        Want::Gap,
        Want::Pend { own: 3 },
        Want::Open { own: 7 },
    ];
    for want in wants {
        for has_part in [false, true] {
            assert_eq!(of_word(to_word(want, has_part)), (want, has_part));
        }
    }
}
