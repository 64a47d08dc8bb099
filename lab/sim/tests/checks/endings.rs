//! Runs that fail end cleanly: panics come out, destructors run without effects, memory outlives
//! its machine.

// The tests count destructors outside the simulated memory, which destructors cannot change.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Words, places, small, workers};
use platform::{Nanos, Node, Platform, RegionBytes};
use sim::{Config, SimError, VirtualCore, VirtualMachine as Vm};

/// Counts its drops, and tries to change shared memory in each.
struct Guard<'a> {
    c: VirtualCore,
    words: &'a Words,
    drops: &'a AtomicUsize,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        Vm::fetch_add(self.c, self.words.line(7), 1, Relaxed);
        while Vm::cas(self.c, self.words.line(0), 100, 0, Acquire).is_err() {
            Vm::pause(self.c, 100);
        }
        Vm::write_words(self.c, &self.words.all()[60..62], &[1, 1]);
        Vm::park(self.c, self.words.line(0), 0, None);
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn message(result: std::thread::Result<()>) -> String {
    let payload = result.expect_err("a panic");
    payload.downcast_ref::<&str>().map_or_else(|| "something else".into(), ToString::to_string)
}

#[test]
fn a_panic_comes_out_and_unwinds_everybody_without_effects() {
    let drops = AtomicUsize::new(0);
    let suppressed = AtomicUsize::new(usize::MAX);
    struct PeekOnDrop<'a>(&'a Words, &'a AtomicUsize);
    impl Drop for PeekOnDrop<'_> {
        fn drop(&mut self) {
            let changed = Vm::peek(self.0.line(7)) + Vm::peek(&self.0.all()[60]);
            self.1.store(changed as usize, Ordering::Relaxed);
        }
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        let outcome = Vm::run(&small(), |c| {
            let words = Words::new(c, 0, 64, "words");
            let peek = PeekOnDrop(&words, &suppressed);
            workers(c, 6, |c, index| {
                if index == 5 {
                    Vm::pause(c, 1000);
                    panic!("worker 5 has had enough");
                }
                let _guard = Guard { c, words: &words, drops: &drops };
                match index {
                    0 => _ = Vm::spin_while(c, words.line(0), 0, None),
                    1 => Vm::park(c, words.line(0), 0, Some(Nanos(1 << 40))),
                    2 => loop {
                        Vm::load(c, words.line(0), Relaxed);
                    },
                    // A caller of `parallel` is unwound with its workers.
                    _ => workers(c, 3, |c, _| {
                        let _guard = Guard { c, words: &words, drops: &drops };
                        Vm::spin_while(c, words.line(1), 0, None);
                    }),
                }
            });
            drop(peek);
        });
        outcome.expect("no result");
    }));
    assert_eq!(message(result), "worker 5 has had enough");
    assert_eq!(drops.load(Ordering::Relaxed), 5 + 2 * 3);
    assert_eq!(suppressed.load(Ordering::Relaxed), 0);
}

#[test]
fn a_panic_of_the_main_program_unwinds_its_workers() {
    let drops = AtomicUsize::new(0);
    for nested in [false, true] {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let program = |c: VirtualCore| {
                let words = Words::new(c, 0, 64, "words");
                let worker = |c, _| {
                    let _guard = Guard { c, words: &words, drops: &drops };
                    Vm::spin_while(c, words.line(0), 0, None);
                };
                Vm::parallel(c, &places(0..4), &worker, &mut |c| {
                    Vm::pause(c, 1000);
                    panic!("the main program has had enough");
                });
            };
            let outcome = Vm::run(&small(), |c| match nested {
                false => program(c),
                true => workers(c, 1, |c, _| program(c)),
            });
            outcome.expect("no result");
        }));
        assert_eq!(message(result), "the main program has had enough");
    }
    assert_eq!(drops.load(Ordering::Relaxed), 8);
}

#[test]
fn a_caught_panic_changes_nothing() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "words");
        workers(c, 4, |c, _| {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let unlock = Unlock(c, &words);
                Vm::store(c, words.line(1), 1, Relaxed);
                if Vm::now(c).0 > 0 {
                    panic!("caught");
                }
                drop(unlock);
            }));
            assert_eq!(message(result), "caught");
        });
        Vm::load(c, words.line(0), Acquire)
    });
    struct Unlock<'a>(VirtualCore, &'a Words);
    impl Drop for Unlock<'_> {
        fn drop(&mut self) {
            Vm::fetch_add(self.0, self.1.line(0), 1, Release);
        }
    }
    assert_eq!(outcome.expect("a run").value, 4);
}

#[test]
fn a_deadlock_unwinds_everybody() {
    let drops = AtomicUsize::new(0);
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "words");
        workers(c, 4, |c, _| {
            let _guard = Guard { c, words: &words, drops: &drops };
            Vm::spin_while(c, words.line(0), 0, None);
        });
    });
    assert!(matches!(outcome, Err(SimError::Deadlock { .. })));
    assert_eq!(drops.load(Ordering::Relaxed), 4);
}

#[test]
fn regions_outlive_their_machine() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 1, 1024, "kept");
        Vm::store(c, words.line(3), 42, Relaxed);
        (words, Vm::region(c, Some(Node(0)), 1 << 20, "also kept").expect("memory"))
    });
    let (words, other) = outcome.expect("a run").value;
    drop(other);
    let dropper = std::thread::scope(|scope| {
        scope
            .spawn(move || {
                assert_eq!((Vm::peek(words.line(3)), words.0.node()), (42, Node(1)));
                drop(words);
            })
            .join()
    });
    dropper.expect("no panic");
}

#[test]
fn memory_is_zeroed_again_and_bounded() {
    let config = Config { memory_bytes: 16 << 20, ..small() };
    let outcome = Vm::run(&config, |c| {
        for round in 0..100 {
            let words = Words::new(c, 0, 1 << 19, "all there is, almost");
            assert!(words.all().iter().step_by(1000).all(|word| Vm::peek(word) == 0), "round {round}");
            Vm::write_words(c, &words.all()[..2000], &[7; 2000]);
            assert_eq!(words.0.base().align_offset(4096), 0);
        }
        let small = Words::new(c, 0, 1, "small");
        let address = |word| Vm::address(c, std::ptr::from_ref(word));
        assert!(address(small.line(0)) < address(small.line(1)));
        let absent = Vm::region(c, Some(Node(2)), 1, "nowhere").expect_err("no such node");
        assert_eq!(absent.reason, "the virtual machine has 2 nodes, not node 2");
        Vm::region(c, None, 32 << 20, "too much").expect_err("more than there is").to_string()
    });
    let text = outcome.expect("a run").value;
    assert!(text.contains("for too much") && text.contains("16777216 bytes"), "{text}");
}

#[test]
fn a_place_that_does_not_exist_is_named() {
    let result = catch_unwind(|| {
        let outcome = Vm::run(&small(), |c| {
            Vm::parallel(c, &places([0, 16]), &|_, _| (), &mut |_| ());
        });
        outcome.expect("no result");
    });
    let text = result.expect_err("a panic");
    let text = text.downcast_ref::<String>().expect("a message");
    assert_eq!(text, "a worker is placed on hardware thread 16, which 2 x 8 cores does not have");
}
