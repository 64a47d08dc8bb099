//! A machine that checks touches reports each undeclared access of a program.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, Platform, RegionBytes, Work};
use sim::{Config, SimError, UndeclaredAccess, VirtualCore, VirtualMachine};

use crate::common::{Words, small, workers};

/// Undeclared accesses of two workers.
fn undeclared(work: impl Fn(VirtualCore, &Words) + Sync) -> Vec<UndeclaredAccess> {
    let config = Config { checks_touches: true, memory_bytes: 64 << 20, ..small() };
    let run = VirtualMachine::run(&config, |c| {
        let words = Words::new(c, 0, 1024, "records");
        // Loading is not timed.
        words.all().iter().for_each(|word| VirtualMachine::poke(word, 7));
        workers(c, 2, |c, _| work(c, &words));
    });
    match run {
        Ok(_) => Vec::new(),
        Err(SimError::Undeclared(accesses)) => accesses,
        Err(error) => panic!("{error}"),
    }
}

fn touch(c: VirtualCore, words: &Words, line: usize, intent: Intent) {
    VirtualMachine::touch(c, words.line(line), LINE_BYTES, intent);
}

#[test]
fn declared_accesses_pass() {
    let found = undeclared(|c, words| {
        touch(c, words, 1, Intent::Read);
        VirtualMachine::peek(words.line(1));
        touch(c, words, 2, Intent::Write);
        VirtualMachine::poke(words.line(2), VirtualMachine::peek(words.line(2)) + 1);
        VirtualMachine::fetch_add(c, words.line(3), 1, Ordering::Relaxed);
        VirtualMachine::write_words(c, &words.all()[40..140], &[5; 100]);
        let mut copy = [0; 600];
        VirtualMachine::read_words(c, &words.all()[20..620], &mut copy);
        VirtualMachine::peek(words.line(30));
        VirtualMachine::untimed(c, true);
        VirtualMachine::poke(words.line(100), 1);
        VirtualMachine::untimed(c, false);
    });
    assert_eq!(found, []);
}

#[test]
fn an_access_without_its_declaration_is_found() {
    type Forgetful = fn(VirtualCore, &Words);
    let forgetful: [(Forgetful, u64, bool); 6] = [
        (|_, words| assert_eq!(VirtualMachine::peek(words.line(5)), 7), 5, false),
        (|_, words| VirtualMachine::poke(words.line(6), 1), 6, true),
        // SAFETY: inside the region; the two workers run one after the other.
        (|_, words| unsafe { words.0.base().add(7 * LINE_BYTES).write_volatile(1) }, 7, true),
        (
            |c, words| {
                touch(c, words, 8, Intent::Read);
                VirtualMachine::poke(words.line(8), 1);
            },
            8,
            true,
        ),
        (
            |c, words| {
                touch(c, words, 9, Intent::Write);
                VirtualMachine::work(c, Work::Transaction, 1);
                VirtualMachine::poke(words.line(9), 1);
            },
            9,
            true,
        ),
        (
            |c, words| {
                VirtualMachine::prefetch(c, words.line(10), LINE_BYTES, Intent::Write);
                VirtualMachine::peek(words.line(10));
            },
            10,
            false,
        ),
    ];
    for (forget, line, writes) in forgetful {
        let found = undeclared(forget);
        let [access] = &found[..] else { panic!("line {line}: {found:?}") };
        let expected = (Some("records"), line * LINE_BYTES as u64, writes, 2);
        assert_eq!((access.region, access.offset, access.writes, access.count), expected);
        assert!(access.calls.iter().any(|call| call.contains("touches")), "{access}");
    }
}

#[test]
fn checks_do_not_change_a_run() {
    let run = |checks_touches| {
        let config = Config { checks_touches, memory_bytes: 64 << 20, ..small() };
        let outcome = VirtualMachine::run(&config, |c| {
            let words = Words::new(c, 0, 64, "counters");
            workers(c, 4, |c, index| {
                for round in 0..50 {
                    VirtualMachine::fetch_add(c, words.line((index + round) % 8), 1, Ordering::Relaxed);
                    VirtualMachine::work(c, Work::Transaction, 1);
                }
            });
        });
        outcome.expect("no undeclared access").statistics
    };
    assert_eq!(run(false), run(true));
}
