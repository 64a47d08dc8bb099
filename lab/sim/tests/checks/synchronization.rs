//! Programs that synchronize have the same results as on a real machine.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::common::{Words, places, small, workers};
use platform::{Intent, Nanos, Place, Platform, Work};
use sim::{SimError, VirtualCore, VirtualMachine as Vm, VirtualWord, WaitReason};

#[test]
fn counter_loses_no_increment() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 8, "counter");
        workers(c, 8, |c, _| {
            for _ in 0..100 {
                Vm::fetch_add(c, words.line(0), 1, AcqRel);
            }
        });
        Vm::load(c, words.line(0), Acquire)
    });
    let outcome = outcome.expect("a run");
    assert_eq!(outcome.value, 800);
    assert_eq!(outcome.statistics.counts.events, 800);
    assert!(outcome.statistics.counts.near_misses > 0);
}

/// Test and test-and-set.
fn lock(c: VirtualCore, word: &VirtualWord) {
    while Vm::swap(c, word, 1, Acquire) != 0 {
        Vm::spin_while(c, word, 1, None);
    }
}

#[test]
fn lock_protects_plain_words() {
    for seed in 0..20 {
        let outcome = Vm::run(&small().with_seed(seed).perturbed(), |c| {
            let words = Words::new(c, 0, 64, "lock and data");
            workers(c, 16, |c, _| {
                for _ in 0..20 {
                    lock(c, words.line(0));
                    Vm::touch(c, words.line(1), 64, Intent::Write);
                    let before = Vm::peek(words.line(1));
                    let other = Vm::load(c, words.line(2), Relaxed);
                    assert_eq!(before, other, "somebody else was inside");
                    Vm::work(c, Work::Step, 10);
                    Vm::poke(words.line(1), before + 1);
                    Vm::store(c, words.line(2), other + 1, Relaxed);
                    Vm::store(c, words.line(0), 0, Release);
                }
            });
            Vm::peek(words.line(1))
        });
        let outcome = outcome.expect("a run");
        assert_eq!(outcome.value, 320);
        assert!(outcome.statistics.counts.wakes > 0);
    }
}

#[test]
fn messages_arrive_in_order_and_after_they_were_sent() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "mailbox");
        let received = Words::new(c, 0, 64, "received");
        let (full, message, sent_at) = (words.line(0), words.line(1), words.line(2));
        let worker = |c, index| {
            for number in 1..=50 {
                if index == 0 {
                    Vm::spin_while(c, full, 1, None);
                    Vm::store(c, message, number * number, Relaxed);
                    Vm::store(c, sent_at, Vm::timestamp(c), Relaxed);
                    Vm::store(c, full, 1, Release);
                } else {
                    Vm::spin_while(c, full, 0, None);
                    assert!(Vm::timestamp(c) > Vm::load(c, sent_at, Relaxed));
                    let value = Vm::load(c, message, Relaxed);
                    Vm::write_words(c, &received.all()[number as usize..][..1], &[value]);
                    Vm::store(c, full, 0, Release);
                }
            }
        };
        Vm::parallel(c, &places([0, 8]), &worker, &mut |_| ());
        let mut values = vec![0; 50];
        Vm::read_words(c, &received.all()[1..51], &mut values);
        values
    });
    assert_eq!(outcome.expect("a run").value, (1..=50).map(|n| n * n).collect::<Vec<u64>>());
}

#[test]
fn parked_cores_sleep_until_they_are_woken() {
    let config = small();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "parking");
        let woken_at = Words::new(c, 0, 64, "woken at");
        let worker = |c, index: usize| {
            while Vm::load(c, words.line(0), Acquire) == 0 {
                Vm::park(c, words.line(0), 0, None);
            }
            Vm::store(c, &woken_at.all()[index], Vm::now(c).0, Relaxed);
        };
        Vm::parallel(c, &places(0..4), &worker, &mut |c| {
            Vm::pause(c, 1_000_000);
            Vm::store(c, words.line(0), 1, Release);
            Vm::unpark(c, words.line(0), u32::MAX);
        });
        woken_at.all()[..4].iter().map(Vm::peek).collect::<Vec<u64>>()
    });
    for woken_at in outcome.expect("a run").value {
        assert!(
            (1_000_000 + config.model.costs().wake_ps / 1000..1_010_000).contains(&woken_at),
            "{woken_at}"
        );
    }
}

#[test]
fn unpark_wakes_in_the_order_of_arrival() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "parking");
        let worker = |c, index: usize| {
            Vm::pause(c, 10_000 * (3 - index as u64));
            Vm::park(c, words.line(0), 0, None);
            let turn = Vm::fetch_add(c, words.line(1), 1, AcqRel);
            Vm::store(c, &words.all()[16 + index], turn, Relaxed);
        };
        Vm::parallel(c, &places(0..3), &worker, &mut |c| {
            for _ in 0..3 {
                Vm::pause(c, 100_000);
                Vm::unpark(c, words.line(0), 1);
            }
        });
        words.all()[16..19].iter().map(Vm::peek).collect::<Vec<u64>>()
    });
    assert_eq!(outcome.expect("a run").value, [2, 1, 0]);
}

#[test]
fn deadlines_end_every_wait() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "never written");
        workers(c, 3, |c, index| {
            let end = Nanos(50_000 + index as u64);
            assert_eq!(Vm::spin_while(c, words.line(0), 0, Some(end)), 0);
            assert!(Vm::now(c) >= end && Vm::now(c) < end.plus(1000));
            let end = Nanos(100_000);
            Vm::park(c, words.line(0), 0, Some(end));
            assert!(Vm::now(c) >= end && Vm::now(c) < end.plus(10_000));
        });
        // The supervisor waits like any worker.
        Vm::spin_while(c, words.line(0), 0, Some(Nanos(1_000_000)));
    });
    assert_eq!(outcome.expect("a run").statistics.elapsed, Nanos(1_000_000));
}

#[test]
fn private_words_synchronize_too() {
    let outcome = Vm::run(&small(), |c| {
        let word = VirtualWord::default();
        let worker = |c, index| match index {
            0 => {
                Vm::pause(c, 1000);
                Vm::store(c, &word, 1, Release);
            }
            _ => assert_eq!(Vm::spin_while(c, &word, 0, None), 1),
        };
        Vm::parallel(c, &[Place { thread: None }; 5], &worker, &mut |_| ());
        Vm::address(c, &raw const word)
    });
    assert_eq!(outcome.expect("a run").value, sim::PRIVATE_ADDRESS);
}

#[test]
fn poked_words_wake_their_spinners() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "record");
        workers(c, 4, |c, index| {
            if index == 0 {
                Vm::pause(c, 1000);
                Vm::touch(c, words.line(0), 64, Intent::Write);
                Vm::poke(words.line(0), 5);
            } else {
                assert_eq!(Vm::spin_while(c, words.line(0), 0, None), 5);
            }
        });
    });
    outcome.expect("a run");
}

#[test]
fn a_deadlock_names_what_everybody_waits_for() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "two locks");
        let _elsewhere = Words::new(c, 0, 64, "elsewhere");
        workers(c, 3, |c, index| match index {
            2 => Vm::park(c, words.line(5), 0, None),
            _ => {
                lock(c, words.line(index));
                Vm::pause(c, 1000);
                lock(c, words.line(1 - index));
            }
        });
    });
    let Err(error) = outcome else { panic!("a deadlock was not noticed") };
    let text = error.to_string();
    let SimError::Deadlock { waiting, .. } = error else { panic!("{text}") };
    let found: Vec<_> =
        waiting.iter().map(|w| (w.thread.map(|t| t.0), w.reason, w.region, w.offset)).collect();
    let region = Some("two locks");
    assert_eq!(
        found,
        [
            (None, WaitReason::Join, None, 0),
            (Some(0), WaitReason::Spin, region, 64),
            (Some(1), WaitReason::Spin, region, 0),
            (Some(2), WaitReason::Park, region, 320),
        ]
    );
    assert!(text.contains("thread 1 spins on two locks+0 with value 1"), "{text}");
    assert!(!text.contains("after"), "events are remembered on request only: {text}");
}

#[test]
fn a_traced_deadlock_shows_the_last_events() {
    let program = |c| {
        let words = Words::new(c, 0, 64, "words");
        workers(c, 1, |c, _| {
            (0..20).for_each(|_| Vm::store(c, words.line(3), 1, Relaxed));
            Vm::fetch_add(c, words.line(2), 1, Relaxed);
            Vm::spin_while(c, words.line(1), 0, None);
        });
    };
    let config = sim::Config { trace: true, ..small() };
    let text = Vm::run(&config, program).expect_err("a deadlock").to_string();
    assert!(text.contains(", store words+192 at"), "{text}");
    let atomic = text.find("atomic words+128 at").expect("the atomic");
    assert!(text[atomic..].contains(", load words+64 at"), "{text}");
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        workers(c, 2, |c, index| _ = Vm::load(c, words.line(index), Relaxed));
        Vm::last_events(c).into_iter().map(|core| (core.thread.0, core.events.len())).collect::<Vec<_>>()
    });
    assert_eq!(outcome.expect("a run").value, [(0, 1), (1, 1)]);
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let config = sim::Config { time_limit: Some(Nanos(1_000_000)), ..small() };
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "flag");
        workers(c, 1, |c, _| while Vm::load(c, words.line(0), SeqCst) == 0 {});
    });
    assert_eq!(outcome, Err(SimError::TimeLimit { limit: Nanos(1_000_000) }));
}

#[test]
fn a_supervisor_alone_may_work_long_but_not_for_ever() {
    let config = sim::Config { time_limit: Some(Nanos(1_000_000)), ..small() };
    let polls = |times: u64| {
        Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "flag");
            Vm::parallel(c, &places([0]), &|_, _| {}, &mut |c| {
                (0..times).for_each(|_| assert_eq!(Vm::load(c, words.line(0), SeqCst), 0));
            });
        })
    };
    assert!(polls(100_000).is_ok());
    assert_eq!(polls(u64::MAX).map(|_| ()), Err(SimError::TimeLimit { limit: Nanos(1_000_000) }));
}

#[test]
fn a_polling_supervisor_lets_time_pass() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "flag");
        let worker = |c, _| {
            for _ in 0..1000 {
                Vm::fetch_add(c, words.line(1), 1, Relaxed);
            }
            Vm::store(c, words.line(0), 1, Release);
        };
        let mut polls = 0;
        Vm::parallel(c, &places([0, 1]), &worker, &mut |c| {
            while Vm::load(c, words.line(0), Acquire) == 0 {
                polls += 1;
            }
            let end = Vm::now(c).plus(100);
            while Vm::now(c) < end && Vm::load(c, words.line(1), Acquire) < 2000 {}
        });
        polls
    });
    assert!(outcome.expect("a run").value > 0);
}
