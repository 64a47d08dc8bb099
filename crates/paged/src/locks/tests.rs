//! Locks step by step, and of several sessions at once against a model of who may do what.
// Tests collect what workers saw behind the platform's back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Mutex;

use platform::{Hardware, Nanos, Place, Platform};
use sim::{Config, Shape, VirtualMachine};
use storage::{Optimisation, Optimisations};

use super::LockMode::{Exclude, IntentExclude, IntentShare, Share, ShareIntentExclude};
use super::nodes::{NodeLocks, NodeWish};
use super::{Answer, Asked, LockManager, LockMode, TransactionLocks, Wish};
use crate::options::{Broken, PagedOptions};

type Nodes = NodeLocks<Hardware>;

fn nodes() -> Nodes {
    Nodes::new(Hardware::core(), (1, 4), false).expect("memory")
}

/// Asks for the only node; the session's number is its age, too.
fn ask(nodes: &Nodes, session: usize, mode: LockMode) -> Asked {
    nodes.ask(Hardware::core(), (session, 0), NodeWish { mode, age: session as u64, waits: true })
}

/// How a wait has ended, or that it has not.
fn answered(nodes: &Nodes, session: usize) -> Answer {
    nodes.wait(Hardware::core(), (session, 0), Some(Nanos(0)))
}

#[test]
fn modes_are_granted_as_the_table_says() {
    for one in LockMode::ALL {
        for other in LockMode::ALL {
            let nodes = nodes();
            assert_eq!(ask(&nodes, 0, one), Asked::Granted);
            let asked = ask(&nodes, 1, other);
            assert_eq!(asked == Asked::Granted, one.is_compatible(other), "{one:?}, {other:?}");
            // The younger one does not wait.
            assert_ne!(asked, Asked::Waits);
        }
    }
}

#[test]
fn an_older_one_waits_and_is_granted_in_turn() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 2, Share), Asked::Waits);
    // Not in the way of what is granted, and yet behind what waits: only if older.
    assert_eq!(ask(&nodes, 1, IntentExclude), Asked::Waits);
    assert_eq!(ask(&nodes, 0, IntentShare), Asked::Granted);
    assert_eq!(nodes.census(c, 0), (2, 2));
    nodes.release(c, (3, 0));
    assert_eq!(answered(&nodes, 2), Answer::Granted);
    assert_eq!(nodes.census(c, 0), (2, 1));
    nodes.release(c, (2, 0));
    assert_eq!(answered(&nodes, 1), Answer::Granted);
}

#[test]
fn a_wait_ends_at_its_deadline_and_those_behind_go_on() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 2, Share), Asked::Waits);
    assert_eq!(ask(&nodes, 1, IntentExclude), Asked::Waits);
    assert_eq!(answered(&nodes, 2), Answer::Late);
    assert_eq!(answered(&nodes, 1), Answer::Granted);
    assert_eq!(nodes.census(c, 0), (2, 0));
}

#[test]
fn a_conversion_refuses_the_younger_that_it_overtakes() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 0, IntentShare), Asked::Granted);
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 2, Share), Asked::Waits);
    // Were it left to wait, a younger one would wait for an older one, which may come to wait for it.
    assert_eq!(ask(&nodes, 0, IntentExclude), Asked::Granted);
    assert_eq!(nodes.census(c, 0), (2, 0));
    assert_eq!(answered(&nodes, 2), Answer::Refused);
}

#[test]
fn a_conversion_that_is_granted_later_refuses_the_younger_too() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 0, IntentShare), Asked::Granted);
    assert_eq!(ask(&nodes, 2, IntentShare), Asked::Granted);
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 0, ShareIntentExclude), Asked::Waits);
    assert_eq!(ask(&nodes, 2, Share), Asked::Waits);
    nodes.release(c, (3, 0));
    assert_eq!(answered(&nodes, 0), Answer::Granted);
    assert_eq!(answered(&nodes, 2), Answer::Refused);
    assert_eq!(nodes.census(c, 0), (2, 0));
}

#[test]
fn an_older_one_stays_when_a_conversion_overtakes_it() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 2, IntentShare), Asked::Granted);
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 1, Share), Asked::Waits);
    assert_eq!(ask(&nodes, 2, IntentExclude), Asked::Granted);
    // Were it inherited, a transaction that is older still could take it over, and the one that waits would wait for an older one.
    assert!(!nodes.bequeath(c, (2, 0), IntentExclude));
    nodes.release(c, (3, 0));
    assert_eq!(nodes.census(c, 0), (1, 1));
    nodes.release(c, (2, 0));
    assert_eq!(answered(&nodes, 1), Answer::Granted);
}

#[test]
fn what_is_inherited_is_taken_over_or_away() {
    let (nodes, c) = (nodes(), Hardware::core());
    for session in [0, 1] {
        assert_eq!(ask(&nodes, session, IntentExclude), Asked::Granted);
        assert!(nodes.bequeath(c, (session, 0), IntentExclude));
    }
    assert_eq!(nodes.census(c, 0), (2, 0));
    assert!(nodes.take_over(c, (0, 0), IntentExclude, 0));
    assert!(nodes.bequeath(c, (0, 0), IntentExclude));
    // Nobody waits, and the youngest gets it.
    assert_eq!(ask(&nodes, 3, Share), Asked::Granted);
    assert_eq!(nodes.census(c, 0), (1, 0));
    for session in [0, 1] {
        assert!(!nodes.take_over(c, (session, 0), IntentExclude, session as u64));
    }
    // What is compatible stays.
    nodes.release(c, (3, 0));
    assert_eq!(ask(&nodes, 2, IntentShare), Asked::Granted);
    assert!(nodes.bequeath(c, (2, 0), IntentShare));
    assert_eq!(ask(&nodes, 1, Share), Asked::Granted);
    assert!(nodes.take_over(c, (2, 0), IntentShare, 2));
}

#[test]
fn what_somebody_waits_for_is_not_inherited() {
    let (nodes, c) = (nodes(), Hardware::core());
    assert_eq!(ask(&nodes, 3, IntentExclude), Asked::Granted);
    assert_eq!(ask(&nodes, 1, Exclude), Asked::Waits);
    assert!(!nodes.bequeath(c, (3, 0), IntentExclude));
    nodes.release(c, (3, 0));
    assert_eq!(answered(&nodes, 1), Answer::Granted);
}

const TABLES: usize = 2;
const PLACES: usize = 6;
const SESSIONS: usize = 4;

/// What each session's transaction may do with each place of each table.
#[derive(Default)]
struct Rights([[[Option<LockMode>; PLACES]; TABLES]; SESSIONS]);

impl Rights {
    /// Adds a right; false if somebody else has one that it excludes.
    fn add(&mut self, session: usize, (table, place): (usize, usize), mode: LockMode) -> bool {
        let own = &mut self.0[session][table][place];
        *own = Some(own.map_or(mode, |has| has.join(mode)));
        let mut others = (0..SESSIONS).filter(|other| *other != session);
        others.all(|other| self.0[other][table][place].is_none_or(|has| has.is_compatible(mode)))
    }
}

/// Sessions lock at random; what was granted against the model, and whether anything was inherited.
fn clashes(seed: u64, broken: Broken, optimisations: Optimisations) -> (usize, bool) {
    let shape = Shape::new(2, SESSIONS / 2, 1);
    let config = Config { memory_bytes: 64 << 20, ..Config::new(shape).with_seed(seed).perturbed() };
    let run = VirtualMachine::run(&config, |c| {
        let options = PagedOptions {
            sessions_max: SESSIONS,
            lock_lists: 4,
            locks_max: 8,
            escalation: 3,
            broken,
            optimisations,
            ..PagedOptions::default()
        };
        let manager = LockManager::<VirtualMachine>::new(c, &options, TABLES).expect("memory");
        let (rights, clashes) = (Mutex::new(Rights::default()), Mutex::new(0));
        let inherited = Mutex::new(false);
        let worker = |c, session: usize| {
            let mut random = seed * 31 + session as u64 + 1;
            let mut below = |bound: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 9) as usize % bound
            };
            let mut locks = TransactionLocks::new(&manager, session);
            for _ in 0..40 {
                let age = VirtualMachine::timestamp(c) << 12 | session as u64;
                let wishes: Vec<_> = (0..1 + below(7))
                    .map(|_| ((below(TABLES), below(PLACES)), if below(3) == 0 { Exclude } else { Share }))
                    .collect();
                let is_whole = below(4) == 0;
                while !try_all(
                    (&manager, c),
                    (&mut locks, &rights, &clashes),
                    (session, age),
                    (&wishes, is_whole),
                ) {
                    VirtualMachine::pause(c, 200 + below(400) as u64);
                }
                *inherited.lock().expect("no panic") |= manager.nodes.census(c, 0).0 > 0;
            }
            locks.end((&manager, c));
        };
        VirtualMachine::parallel(c, &[Place { thread: None }; SESSIONS], &worker, &mut |_| ());
        // Nothing survives its session.
        for node in 0..=TABLES {
            assert_eq!(manager.nodes.census(c, node), (0, 0), "seed {seed}, node {node}");
        }
        let clashes = *clashes.lock().expect("no panic");
        (clashes, inherited.into_inner().expect("no panic"))
    });
    match run {
        Ok(outcome) => outcome.value,
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

/// One attempt of a transaction; false if it was refused.
fn try_all<P: Platform>(
    (manager, c): (&LockManager<P>, P::Core),
    (locks, rights, clashes): (&mut TransactionLocks, &Mutex<Rights>, &Mutex<usize>),
    (session, age): (usize, u64),
    (wishes, is_whole): (&[((usize, usize), LockMode)], bool),
) -> bool {
    if is_whole {
        locks.expect_whole(wishes[0].0.0);
    }
    let mut is_granted = true;
    for ((table, place), mode) in wishes {
        let wish = Wish { table: *table, name: (table * PLACES + place) as u64 + 1, mode: *mode, age };
        let answer = locks.acquire((manager, c), wish, Some(None), &mut || ());
        if answer != Answer::Granted {
            is_granted = false;
            break;
        }
        let mut rights = rights.lock().expect("no panic");
        let mut is_sound = rights.add(session, (*table, *place), *mode);
        for mode in [Share, Exclude] {
            if locks.covers(*table, mode) {
                is_sound &= (0..PLACES).all(|place| rights.add(session, (*table, place), mode));
            }
        }
        *clashes.lock().expect("no panic") += usize::from(!is_sound);
        drop(rights);
        P::pause(c, 50);
    }
    rights.lock().expect("no panic").0[session] = Default::default();
    locks.release_all((manager, c));
    is_granted
}

#[test]
fn sessions_never_have_what_excludes_each_other() {
    for seed in 0..60 {
        assert_eq!(clashes(seed, Broken::default(), Optimisations::ALL), (0, true), "seed {seed}");
        let plain = Optimisations::ALL.without(Optimisation::InheritedLocks);
        assert_eq!(clashes(seed, Broken::default(), plain).0, 0, "seed {seed}, without inheritance");
    }
}

#[test]
fn mutants_of_the_hierarchy_are_caught() {
    let intents = Broken { intents: true, ..Broken::default() };
    let keeps = Broken { keeps_inherited: true, ..Broken::default() };
    for (what, broken) in [("no intentions", intents), ("inherited locks stay", keeps)] {
        let caught = (0..40).any(|seed| clashes(seed, broken, Optimisations::ALL).0 > 0);
        assert!(caught, "{what}: nobody has noticed");
    }
}
