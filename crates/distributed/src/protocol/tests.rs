//! Properties of all interleavings, the rules that they need, and the costs in messages.

use terms::{Fault, Faults};

use super::interleavings::{Case, explore};
use super::*;

const PARTS: [&[bool]; 8] = [
    &[false],
    &[true],
    &[false, false],
    &[false, true],
    &[true, true],
    &[false, false, false],
    &[false, true, false],
    &[true, true, true],
];

/// A case without crashes in which every message comes once.
fn plain(only_reads: &[bool]) -> Case<'_> {
    let (flow, faults) = (Flow::First, Faults::NONE);
    Case { flow, own_after: None, only_reads, faults, twice: false, crashes: 0, cuts: 0 }
}

/// Participants that get their requests one after the other, with the own part's turn at any place
/// between them.
#[test]
fn requests_in_turn_end_well() {
    for only_reads in PARTS {
        for own_after in 0..=only_reads.len() {
            let in_turn = Case { own_after: Some(own_after), ..plain(only_reads) };
            let run = |case| explore(case).unwrap_or_else(|what| panic!("{case:?}: {what}"));
            assert!(run(in_turn) >= 4 * only_reads.len());
            if only_reads.len() < 3 {
                run(Case { twice: true, ..in_turn });
                run(Case { crashes: 2, ..in_turn });
                run(Case { cuts: 1, ..in_turn });
            }
        }
    }
}

#[test]
fn every_interleaving_ends_well() {
    for only_reads in PARTS {
        let states = explore(plain(only_reads)).unwrap();
        assert!(states >= 4 * only_reads.len(), "{states} states");
    }
    assert!(explore(Case { flow: Flow::Last, ..plain(&[true]) }).unwrap() >= 2);
}

/// Decisions that are sent twice, and messages that come twice, change nothing.
#[test]
fn what_comes_twice_counts_once() {
    for only_reads in &PARTS[..5] {
        let sent_twice = Faults::of(&[Fault::DecisionSentTwice]);
        for faults in [Faults::NONE, sent_twice] {
            explore(Case { faults, twice: true, ..plain(only_reads) }).unwrap();
        }
    }
}

/// A worker that crashes between any two steps comes back with what is durable, and all sides agree
/// in the end.
#[test]
fn crashes_between_any_two_steps_end_well() {
    for (only_reads, crashes) in [(PARTS[0], 3), (PARTS[1], 3), (PARTS[2], 2), (PARTS[3], 2), (PARTS[4], 2)] {
        let states = explore(Case { crashes, ..plain(only_reads) });
        let states = states.unwrap_or_else(|what| panic!("{only_reads:?}: {what}"));
        assert!(states > 100, "{only_reads:?}: {states} states");
    }
    explore(Case { flow: Flow::Last, crashes: 2, ..plain(&[true]) }).unwrap();
}

/// Connections break and are made again, and no worker forgets anything; then a worker may crash as
/// well.
#[test]
fn broken_connections_end_well() {
    let run = |only_reads, cuts, crashes| {
        let states = explore(Case { cuts, crashes, ..plain(only_reads) });
        let states = states.unwrap_or_else(|what| panic!("{only_reads:?}: {what}"));
        assert!(states > 100, "{only_reads:?}: {states} states");
    };
    PARTS[..2].iter().for_each(|only_reads| run(only_reads, 2, 1));
    PARTS[2..4].iter().for_each(|only_reads| run(only_reads, 1, 0));
    explore(Case { flow: Flow::Last, cuts: 2, crashes: 1, ..plain(&[true]) }).unwrap();
    explore(Case { cuts: 1, twice: true, ..plain(&[false]) }).unwrap();
}

#[test]
fn broken_rules_of_durability_are_noticed() {
    let caught = |faults, only_reads, what: &str| {
        let found = explore(Case { faults, crashes: 2, ..plain(only_reads) });
        let found = found.expect_err(what);
        assert!(found.starts_with(what), "{found} where {what}");
    };
    let missing = "a part of a committed transaction is missing";
    caught(Faults::of(&[Fault::UnloggedPart]), &[false], missing);
    caught(Faults::of(&[Fault::EarlyVote]), &[false], missing);
    caught(Faults::of(&[Fault::LostDoubt]), &[false], missing);
    caught(Faults::of(&[Fault::EarlyAcknowledgement]), &[false], "a part is rolled back");
    let half = "a part is committed, the transaction is not";
    caught(Faults::of(&[Fault::EarlyDecision]), &[false], half);
    let lost = "a transaction that was acknowledged is lost";
    caught(Faults::of(&[Fault::UnloggedDecision]), &[false], lost);
    caught(Faults::of(&[Fault::EarlyAnswer]), &[false], lost);
    caught(Faults::of(&[Fault::MissingInquiry]), &[false], "a worker waits for ever");
    caught(Faults::of(&[Fault::UnabortedLosses]), &[true, false], "no outcome");
    let repeating = Faults::of(&[Fault::RepeatedDecision]);
    caught(repeating, &[false], "a decision is applied twice");
}

#[test]
fn broken_rules_are_noticed() {
    let caught = |faults, only_reads, what: &str| {
        let found = explore(Case { faults, ..plain(only_reads) });
        let found = found.expect_err(what);
        assert!(found.starts_with(what), "{found}");
    };
    let disobedient = Faults::of(&[Fault::IgnoredAborts]);
    caught(disobedient, &[false, false], "a part is committed, the transaction is not");
    let hasty = Faults::of(&[Fault::MissingVote]);
    caught(hasty, &[false, false], "decided when rows of a participant were not locked");
    let early = Faults::of(&[Fault::EarlyReadUnlock]);
    caught(early, &[true], "decided when rows of a participant were not locked");
    let repeating = Faults::of(&[Fault::RepeatedDecision, Fault::DecisionSentTwice]);
    caught(repeating, &[false], "a decision is applied twice");
}

/// A transition that no table has is an error that names state and event.
#[test]
fn other_transitions_are_illegal() {
    let mut act = Vec::new();
    let mut coordinator = Coordinator::new(Flow::First, [false].into_iter(), Faults::NONE);
    let error = coordinator.step(Event::Acknowledged { from: 0 }, &mut act).unwrap_err();
    assert_eq!(error.to_string(), "a coordinator that is Voting cannot go to Voting by Acknowledged");
    let error = coordinator.step(Event::Voted { from: 7, yes: true }, &mut act).unwrap_err();
    assert!(error.to_string().contains("participant\", 7"), "{error}");
    let mut participant = Participant::new(false, false, Faults::NONE);
    let error = participant.step(ParticipantEvent::Prepared, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a participant that is Unknown cannot go to any by Prepared".replace("any", "\"any\"")
    );
}

#[test]
fn costs_are_those_of_the_design() {
    // Two round trips for an update, one for a transaction that reads in one other instance.
    assert_eq!(messages(Flow::First, 1, 0, Attempt::Committed), 4);
    assert_eq!(messages(Flow::First, 2, 1, Attempt::Committed), 11);
    assert_eq!(messages(Flow::First, 0, 3, Attempt::Committed), 9);
    assert_eq!(messages(Flow::First, 2, 0, Attempt::Aborted { yes: 1 }), 5);
    assert_eq!(messages(Flow::Last, 0, 1, Attempt::Committed), 2);
    assert_eq!(messages(Flow::Last, 0, 1, Attempt::Aborted { yes: 0 }), 2);
}
