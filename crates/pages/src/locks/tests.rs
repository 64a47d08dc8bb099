//! Locks step by step, and of several sessions at once against a model of their rights.
// Tests collect what workers saw behind the platform's back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Mutex;

use platform::{Hardware, Nanos, Place, Platform};
use sim::{Config, Shape, VirtualMachine};
use storage::{Optimisation, Optimisations};
use terms::random::Xorshift;
use terms::{Fault, Faults};

use super::LockMode::{Exclude, IntentExclude, IntentShare, Share};
use super::answer::{ImmediateAnswer, LockAnswer};
use super::nodes::{NodeLocks, NodeRequest, RequestId};
use super::waits::Waits;
use super::{LockManager, LockMode, LockRequest, TransactionLocks};
use crate::options::PagedOptions;

/// Two nodes and four sessions, whose numbers are the ages of their transactions, too.
struct Tables {
    nodes: NodeLocks<Hardware>,
    waits: Waits<Hardware>,
}

impl Tables {
    fn new() -> Self {
        let c = Hardware::core();
        let nodes = NodeLocks::new(c, 2, 4, false).expect("memory");
        Tables { nodes, waits: Waits::new(c, 4).expect("memory") }
    }

    fn request_lock(&self, session: usize, node: usize, mode: LockMode) -> ImmediateAnswer {
        let request = NodeRequest { mode, age: session as u64, waits: true };
        self.nodes.request_lock(Hardware::core(), &self.waits, RequestId { owner: session, node }, request)
    }

    /// The outcome of a wait for a node; a wait that has not ended ends now.
    fn answered(&self, session: usize, node: usize) -> LockAnswer {
        self.nodes.wait(Hardware::core(), &self.waits, RequestId { owner: session, node }, Some(Nanos(0)))
    }

    fn release(&self, session: usize, node: usize) {
        self.nodes.release(Hardware::core(), &self.waits, RequestId { owner: session, node });
    }

    fn bequeath(&self, session: usize, mode: LockMode) -> bool {
        self.nodes.bequeath(Hardware::core(), RequestId { owner: session, node: 0 }, mode)
    }

    fn take_over(&self, session: usize, mode: LockMode) -> bool {
        self.nodes.take_over(Hardware::core(), RequestId { owner: session, node: 0 }, mode, session as u64)
    }

    /// Requests that are granted, and that wait.
    fn census(&self, node: usize) -> (u64, u64) {
        self.nodes.census(Hardware::core(), node)
    }
}

#[test]
fn modes_are_granted_by_the_table() {
    for one in LockMode::ALL {
        for other in LockMode::ALL {
            let tables = Tables::new();
            assert_eq!(tables.request_lock(0, 0, one), ImmediateAnswer::Granted);
            let expected =
                if one.is_compatible(other) { ImmediateAnswer::Granted } else { ImmediateAnswer::Waits };
            assert_eq!(tables.request_lock(1, 0, other), expected, "{one:?}, {other:?}");
            // A conversion is granted what is compatible, too.
            let tables = Tables::new();
            assert_eq!(tables.request_lock(0, 0, IntentShare), ImmediateAnswer::Granted);
            let is_there = tables.request_lock(1, 0, one) == ImmediateAnswer::Granted;
            let is_free = !is_there || one.is_compatible(other);
            assert_eq!(
                tables.request_lock(0, 0, other) == ImmediateAnswer::Granted,
                is_free,
                "{one:?}, {other:?}"
            );
        }
    }
}

#[test]
fn whoever_waits_is_served_by_age() {
    let tables = Tables::new();
    assert_eq!(tables.request_lock(1, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 0, Share), ImmediateAnswer::Waits);
    // Not in the way of what is granted, and yet behind what waits.
    assert_eq!(tables.request_lock(3, 0, IntentExclude), ImmediateAnswer::Waits);
    // Older than what waits.
    assert_eq!(tables.request_lock(0, 0, IntentExclude), ImmediateAnswer::Granted);
    tables.release(1, 0);
    assert_eq!(tables.census(0), (1, 2));
    tables.release(0, 0);
    assert_eq!(tables.census(0), (1, 1));
    assert_eq!(tables.answered(2, 0), LockAnswer::Granted);
    tables.release(2, 0);
    assert_eq!(tables.answered(3, 0), LockAnswer::Granted);
}

#[test]
fn a_wait_ends_at_its_deadline_and_those_behind_go_on() {
    let tables = Tables::new();
    assert_eq!(tables.request_lock(1, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 0, Share), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(3, 0, IntentExclude), ImmediateAnswer::Waits);
    assert_eq!(tables.answered(2, 0), LockAnswer::Late);
    assert_eq!(tables.answered(3, 0), LockAnswer::Granted);
    assert_eq!(tables.census(0), (2, 0));
}

#[test]
fn whom_an_older_one_waits_for_waits_for_younger_ones_only() {
    let tables = Tables::new();
    assert_eq!(tables.request_lock(2, 0, Exclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(0, 0, Exclude), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(3, 1, IntentShare), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 1, Exclude), ImmediateAnswer::Waits);
    // One more that is in its way, and older.
    assert_eq!(tables.request_lock(1, 1, IntentShare), ImmediateAnswer::Granted);
    assert_eq!(tables.answered(2, 1), LockAnswer::Refused);
    assert_eq!(tables.request_lock(2, 1, Exclude), ImmediateAnswer::Refused);
    assert_eq!(tables.census(1), (2, 0));
}

#[test]
fn whoever_waits_for_an_older_one_is_refused_when_an_older_one_waits_for_it() {
    let tables = Tables::new();
    assert_eq!(tables.request_lock(2, 0, Exclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(1, 1, Exclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 1, Share), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(0, 0, Exclude), ImmediateAnswer::Waits);
    assert_eq!(tables.answered(2, 1), LockAnswer::Refused);
    assert_eq!(tables.census(1), (1, 0));
}

#[test]
fn two_owners_who_convert_do_not_wait_for_each_other() {
    for (first, second) in [(0, 1), (1, 0)] {
        let tables = Tables::new();
        for session in [0, 1] {
            assert_eq!(tables.request_lock(session, 0, IntentExclude), ImmediateAnswer::Granted);
        }
        assert_eq!(tables.request_lock(first, 0, Exclude), ImmediateAnswer::Waits);
        let expected = if second == 1 { ImmediateAnswer::Refused } else { ImmediateAnswer::Waits };
        assert_eq!(tables.request_lock(second, 0, Exclude), expected);
        if second == 0 {
            assert_eq!(tables.answered(1, 0), LockAnswer::Refused);
        }
        // The younger one rolls back.
        tables.release(1, 0);
        assert_eq!(tables.answered(0, 0), LockAnswer::Granted);
    }
}

#[test]
fn a_conversion_that_overtakes_keeps_the_rule() {
    // An older conversion overtakes a wounded transaction, which waits for a younger one.
    let tables = Tables::new();
    assert_eq!(tables.request_lock(1, 0, IntentShare), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(3, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 1, Exclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 0, Share), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(0, 1, Exclude), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(1, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.answered(2, 0), LockAnswer::Refused);

    // A younger conversion overtakes an older transaction, and is wounded by that.
    let tables = Tables::new();
    assert_eq!(tables.request_lock(0, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(0, 1, Exclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 0, IntentShare), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(1, 0, Share), ImmediateAnswer::Waits);
    assert_eq!(tables.request_lock(2, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(2, 1, Share), ImmediateAnswer::Refused);
    // Were it inherited, an older transaction could take it over, of which no thread had recorded
    // that an older one waits for it.
    assert!(!tables.bequeath(2, IntentExclude));
    tables.release(0, 0);
    assert_eq!(tables.census(0), (1, 1));
    tables.release(2, 0);
    assert_eq!(tables.answered(1, 0), LockAnswer::Granted);
}

#[test]
fn what_is_inherited_is_taken_over_or_away() {
    let tables = Tables::new();
    for session in [0, 1] {
        assert_eq!(tables.request_lock(session, 0, IntentExclude), ImmediateAnswer::Granted);
        assert!(tables.bequeath(session, IntentExclude));
    }
    assert_eq!(tables.census(0), (2, 0));
    assert!(tables.take_over(0, IntentExclude));
    assert!(tables.bequeath(0, IntentExclude));
    // No thread waits, and the youngest gets it.
    assert_eq!(tables.request_lock(3, 0, Share), ImmediateAnswer::Granted);
    assert_eq!(tables.census(0), (1, 0));
    assert!(!tables.take_over(0, IntentExclude) && !tables.take_over(1, IntentExclude));
    // What is compatible stays.
    tables.release(3, 0);
    assert_eq!(tables.request_lock(2, 0, IntentShare), ImmediateAnswer::Granted);
    assert!(tables.bequeath(2, IntentShare));
    assert_eq!(tables.request_lock(1, 0, Share), ImmediateAnswer::Granted);
    assert!(tables.take_over(2, IntentShare));
}

#[test]
fn locks_that_are_waited_for_are_not_inherited() {
    let tables = Tables::new();
    assert_eq!(tables.request_lock(3, 0, IntentExclude), ImmediateAnswer::Granted);
    assert_eq!(tables.request_lock(1, 0, Exclude), ImmediateAnswer::Waits);
    assert!(!tables.bequeath(3, IntentExclude));
    tables.release(3, 0);
    assert_eq!(tables.answered(1, 0), LockAnswer::Granted);
}

/// A request for a place of a table.
#[derive(Clone, Copy)]
struct PlaceRequest {
    table: usize,
    place: usize,
    mode: LockMode,
}

const TABLES: usize = 2;
const PLACES: usize = 6;
const SESSIONS: usize = 4;

/// The rights of each session's transaction to each place of each table.
#[derive(Default)]
struct Rights([[[Option<LockMode>; PLACES]; TABLES]; SESSIONS]);

impl Rights {
    /// Adds a right; false if another session has one that it excludes.
    fn add(&mut self, session: usize, request: PlaceRequest) -> bool {
        let PlaceRequest { table, place, mode } = request;
        let own = &mut self.0[session][table][place];
        *own = Some(own.map_or(mode, |has| has.join(mode)));
        let mut others = (0..SESSIONS).filter(|other| *other != session);
        others.all(|other| self.0[other][table][place].is_none_or(|has| has.is_compatible(mode)))
    }
}

/// Result of a run of sessions that lock at random.
#[derive(Debug, PartialEq, Eq)]
struct RandomRun {
    /// The number of locks that were granted against the model.
    clashes: usize,
    /// True if a session has inherited a lock.
    has_inherited: bool,
}

fn run_at_random(seed: u64, faults: Faults, optimisations: Optimisations) -> RandomRun {
    let shape = Shape::new(2, SESSIONS / 2, 1);
    let config = Config { memory_bytes: 64 << 20, ..Config::new(shape).with_seed(seed).perturbed() };
    let run = VirtualMachine::run(&config, |c| {
        let options = PagedOptions {
            sessions_max: SESSIONS,
            lock_lists: 4,
            locks_max: 8,
            escalation: 3,
            faults,
            optimisations,
            ..PagedOptions::default()
        };
        let manager = LockManager::<VirtualMachine>::new(c, &options, TABLES).expect("memory");
        let (rights, clashes) = (Mutex::new(Rights::default()), Mutex::new(0));
        let inherited = Mutex::new(false);
        let worker = |c, session: usize| {
            let mut random = Xorshift::new(seed * 31 + session as u64 + 1);
            let mut below = |bound: usize| (random.next() >> 9) as usize % bound;
            let mut locks = TransactionLocks::new(&manager, session);
            for _ in 0..40 {
                let age = VirtualMachine::timestamp(c) << 12 | session as u64;
                let requests: Vec<_> = (0..1 + below(7))
                    .map(|_| PlaceRequest {
                        table: below(TABLES),
                        place: below(PLACES),
                        mode: if below(3) == 0 { Exclude } else { Share },
                    })
                    .collect();
                let is_whole = below(4) == 0;
                let attempt = Attempt { session, age, requests: &requests, is_whole };
                while !try_all(&manager, c, &mut locks, attempt, &rights, &clashes) {
                    VirtualMachine::pause(c, 200 + below(400) as u64);
                }
                *inherited.lock().expect("no panic") |= manager.nodes.census(c, 0).0 > 0;
            }
            locks.end(&manager, c);
        };
        VirtualMachine::parallel(c, &[Place { thread: None }; SESSIONS], &worker, &mut |_| ());
        // Nothing survives its session.
        for node in 0..=TABLES {
            assert_eq!(manager.nodes.census(c, node), (0, 0), "seed {seed}, node {node}");
        }
        let clashes = *clashes.lock().expect("no panic");
        RandomRun { clashes, has_inherited: inherited.into_inner().expect("no panic") }
    });
    match run {
        Ok(outcome) => outcome.value,
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

/// An attempt of a transaction.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    session: usize,
    age: u64,
    requests: &'a [PlaceRequest],
    /// True if the transaction expects to lock the whole table of its first request.
    is_whole: bool,
}

/// Runs an attempt; false if it was refused.
fn try_all<P: Platform>(
    manager: &LockManager<P>,
    c: P::Core,
    locks: &mut TransactionLocks,
    attempt: Attempt<'_>,
    rights: &Mutex<Rights>,
    clashes: &Mutex<usize>,
) -> bool {
    let Attempt { session, age, requests, is_whole } = attempt;
    if is_whole {
        locks.expect_whole(requests[0].table);
    }
    let mut is_granted = true;
    for place_request in requests {
        let PlaceRequest { table, place, mode } = *place_request;
        let request = LockRequest { table, name: (table * PLACES + place) as u64 + 1, mode, age };
        let answer = locks.acquire(manager, c, request, Some(None), &mut || ());
        if answer != LockAnswer::Granted {
            is_granted = false;
            break;
        }
        let mut rights = rights.lock().expect("no panic");
        let mut is_sound = rights.add(session, *place_request);
        for mode in [Share, Exclude] {
            if locks.covers(table, mode) {
                is_sound &= (0..PLACES).all(|place| rights.add(session, PlaceRequest { table, place, mode }));
            }
        }
        *clashes.lock().expect("no panic") += usize::from(!is_sound);
        drop(rights);
        P::pause(c, 50);
    }
    rights.lock().expect("no panic").0[session] = Default::default();
    locks.release_all(manager, c);
    is_granted
}

#[test]
fn sessions_never_have_what_excludes_each_other() {
    for seed in 0..60 {
        let run = run_at_random(seed, Faults::NONE, Optimisations::ALL);
        assert_eq!(run, RandomRun { clashes: 0, has_inherited: true }, "seed {seed}");
        let plain = Optimisations::ALL.without(Optimisation::InheritedLocks);
        assert_eq!(run_at_random(seed, Faults::NONE, plain).clashes, 0, "seed {seed}, without inheritance");
    }
}

#[test]
fn mutants_of_the_hierarchy_are_caught() {
    let intents = Faults::of(&[Fault::MissingIntents]);
    let keeps = Faults::of(&[Fault::KeptInheritedLocks]);
    for (what, faults) in [("no intentions", intents), ("inherited locks stay", keeps)] {
        let caught = (0..40).any(|seed| run_at_random(seed, faults, Optimisations::ALL).clashes > 0);
        assert!(caught, "{what}: no check has failed");
    }
}
