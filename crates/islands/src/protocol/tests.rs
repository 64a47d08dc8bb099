//! All interleavings of small cases: one coordinator, up to three participants, messages that arrive at any time, in order on
//! each link, and, where the case says so, twice.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::*;

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Letter {
    Request,
    Vote(bool),
    Decision(bool),
    Acknowledgement,
}

/// What an instance has done with its part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Work {
    /// Whether its rows are locked.
    locked: bool,
    prepared: bool,
    commits: u8,
    aborts: u8,
}

/// What may happen in a case.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    flow: Flow,
    only_reads: &'a [bool],
    rules: Rules,
    /// Whether a message may come twice.
    twice: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Model {
    /// `None` once it is forgotten.
    coordinator: Option<Coordinator>,
    participants: Vec<Participant>,
    work: Vec<Work>,
    own: Work,
    /// To participants and back, each in order.
    to: Vec<Vec<Letter>>,
    back: Vec<Vec<Letter>>,
    outcome: Option<bool>,
    /// Messages sent.
    messages: u64,
    yes: u64,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A participant takes the first message to it; if that is a request, its part is prepared or not. `keep`: the same message
    /// comes once more.
    Participant { number: usize, works: bool, keep: bool },
    /// The coordinator takes the first message from a participant; if its own part runs, it commits or not.
    Coordinator { number: usize, works: bool, keep: bool },
}

impl Model {
    fn new(case: Case<'_>) -> Self {
        let count = case.only_reads.len();
        let last = case.flow == Flow::Last;
        let participant = |only_reads: &bool| Participant::new(last, *only_reads, case.rules);
        Model {
            coordinator: Some(Coordinator::new(case.flow, case.only_reads, case.rules)),
            participants: case.only_reads.iter().map(participant).collect(),
            work: vec![Work::default(); count],
            own: Work { locked: last, prepared: last, ..Work::default() },
            to: vec![vec![Letter::Request]; count],
            back: vec![Vec::new(); count],
            outcome: None,
            messages: count as u64,
            yes: 0,
        }
    }

    fn choices(&self, twice: bool) -> Vec<Next> {
        let mut choices = Vec::new();
        let cases = [(true, false), (false, false), (true, true), (false, true)];
        for number in 0..self.participants.len() {
            for (works, keep) in cases.into_iter().filter(|(_, keep)| twice || !keep) {
                match self.to[number].first() {
                    // A part that comes again after its end runs again, and is rolled back: that changes nothing either.
                    Some(Letter::Request) if keep => {}
                    Some(Letter::Request) => choices.push(Next::Participant { number, works, keep }),
                    Some(_) if works => choices.push(Next::Participant { number, works, keep }),
                    _ => {}
                }
                if !self.back[number].is_empty() {
                    choices.push(Next::Coordinator { number, works, keep });
                }
            }
        }
        choices
    }

    fn go(&mut self, next: Next, case: Case<'_>) -> Result<(), String> {
        match next {
            Next::Participant { number, works, keep } => {
                let letter = take(&mut self.to[number], keep);
                self.participant(number, letter, works)
            }
            Next::Coordinator { number, works, keep } => {
                let letter = take(&mut self.back[number], keep);
                self.coordinator(number, letter, works, case)
            }
        }
    }

    fn participant(&mut self, number: usize, letter: Letter, works: bool) -> Result<(), String> {
        let heard = match letter {
            Letter::Request => Heard::Asked,
            Letter::Decision(commit) => Heard::Told { commit },
            other => return Err(format!("a participant hears {other:?}")),
        };
        let mut act = Vec::new();
        let participant = &mut self.participants[number];
        participant.step(heard, &mut act).map_err(|error| error.to_string())?;
        if act == [Answer::Prepare] {
            act.clear();
            self.work[number].prepared = works;
            self.work[number].locked = works;
            let heard = if works { Heard::Prepared } else { Heard::Failed };
            participant.step(heard, &mut act).map_err(|error| error.to_string())?;
        }
        for answer in act {
            let work = &mut self.work[number];
            match answer {
                Answer::Finish { commit } => {
                    *(if commit { &mut work.commits } else { &mut work.aborts }) += 1;
                    (work.locked, work.prepared) = (false, false);
                }
                Answer::Vote { yes } => {
                    self.back[number].push(Letter::Vote(yes));
                    self.messages += 1;
                }
                Answer::Acknowledge => {
                    self.back[number].push(Letter::Acknowledgement);
                    self.messages += 1;
                }
                Answer::Prepare => return Err("a part is prepared twice".to_owned()),
                Answer::Forget => {}
            }
        }
        Ok(())
    }

    fn coordinator(
        &mut self,
        number: usize,
        letter: Letter,
        works: bool,
        case: Case<'_>,
    ) -> Result<(), String> {
        let event = match letter {
            Letter::Vote(yes) => Event::Voted { from: number, yes },
            Letter::Acknowledgement => Event::Acknowledged { from: number },
            other => return Err(format!("a coordinator hears {other:?}")),
        };
        let Some(coordinator) = &mut self.coordinator else {
            // Nothing is known of it: whoever is prepared for it aborts.
            if letter == Letter::Vote(true) {
                self.to[number].push(Letter::Decision(false));
                self.messages += 1;
            }
            return Ok(());
        };
        let mut act = Vec::new();
        coordinator.step(event, &mut act).map_err(|error| error.to_string())?;
        self.yes = coordinator.yes();
        if let Some(run) = act.iter().position(|action| *action == Action::Run) {
            act.remove(run);
            if works {
                self.own.commits += 1;
                // The decision: all that was read and written is locked at this moment.
                if self.work.iter().any(|work| !work.locked) {
                    return Err("decided when rows of a participant were not locked".to_owned());
                }
            }
            let ran = Event::Ran { committed: works };
            coordinator.step(ran, &mut act).map_err(|error| error.to_string())?;
        }
        for action in act {
            match action {
                Action::Run => return Err("the own part runs twice".to_owned()),
                Action::Tell { to, commit } => {
                    self.to[to].push(Letter::Decision(commit));
                    self.messages += 1;
                }
                Action::End { committed } => {
                    if self.outcome.replace(committed).is_some() {
                        return Err("an attempt ends twice".to_owned());
                    }
                    if case.flow == Flow::Last {
                        self.own.commits += u8::from(committed);
                        self.own.locked = false;
                    }
                }
                Action::Forget => self.coordinator = None,
            }
        }
        Ok(())
    }

    /// What must hold at any moment.
    fn check(&self) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}: {:?}", self.work));
        if self.work.iter().any(|work| work.commits > 1 || work.aborts > 1) {
            return fail("a decision is applied twice");
        }
        let committed = self.work.iter().any(|work| work.commits > 0);
        let aborted = self.work.iter().any(|work| work.aborts > 0);
        if committed && self.outcome == Some(false) {
            return fail("a part is committed, the transaction is not");
        }
        if aborted && self.outcome == Some(true) {
            return fail("a part is rolled back, the transaction is committed");
        }
        Ok(())
    }

    /// What must hold when no message is under way.
    fn check_end(&self, case: Case<'_>) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}: {:?}", self.work));
        let Some(outcome) = self.outcome else { return fail("no outcome") };
        if self.coordinator.is_some() || self.work.iter().any(|work| work.locked || work.prepared) {
            return fail("somebody waits for ever");
        }
        if outcome && self.work.iter().any(|work| work.commits != 1) {
            return fail("a part of a committed transaction is missing");
        }
        if outcome != (self.own.commits == 1) {
            return fail("the own part has another outcome");
        }
        let reading = case.only_reads.iter().filter(|only_reads| **only_reads).count() as u64;
        let changing = case.only_reads.len() as u64 - reading;
        let attempt = if outcome { Attempt::Committed } else { Attempt::Aborted { yes: self.yes } };
        let expected = messages(case.flow, (changing, reading), attempt);
        if !case.twice && case.rules.tells_once && self.messages != expected {
            return fail(&format!("{} messages where the protocol takes {expected}", self.messages));
        }
        Ok(())
    }
}

fn take(letters: &mut Vec<Letter>, keep: bool) -> Letter {
    if keep { letters[0] } else { letters.remove(0) }
}

fn hash(model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.hash(&mut hasher);
    hasher.finish()
}

/// Goes through all that can happen; the number of states.
fn explore(case: Case<'_>) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![(Model::new(case), 0)];
    while let Some((model, copies)) = open.pop() {
        // Copies are bounded, or a link would never be empty.
        let choices = model.choices(case.twice && copies < 2);
        if choices.is_empty() {
            model.check_end(case)?;
        }
        for next in choices {
            let mut after = model.clone();
            after.go(next, case)?;
            after.check()?;
            let (Next::Participant { keep, .. } | Next::Coordinator { keep, .. }) = next;
            let copies = copies + u32::from(keep);
            if seen.insert((hash(&after), copies)) {
                open.push((after, copies));
            }
        }
    }
    Ok(seen.len())
}

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

#[test]
fn every_interleaving_ends_well() {
    for only_reads in PARTS {
        let case = Case { flow: Flow::First, only_reads, rules: Rules::SOUND, twice: false };
        let states = explore(case).unwrap();
        assert!(states >= 4 * only_reads.len(), "{states} states");
    }
    let case = Case { flow: Flow::Last, only_reads: &[true], rules: Rules::SOUND, twice: false };
    assert!(explore(case).unwrap() >= 2);
}

/// Decisions that are told twice, and messages that come twice, change nothing.
#[test]
fn what_comes_twice_counts_once() {
    for only_reads in &PARTS[..5] {
        let told_twice = Rules { tells_once: false, ..Rules::SOUND };
        for rules in [Rules::SOUND, told_twice] {
            explore(Case { flow: Flow::First, only_reads, rules, twice: true }).unwrap();
        }
    }
}

#[test]
fn broken_rules_are_noticed() {
    let sound = Rules::SOUND;
    let caught = |rules, only_reads, what: &str| {
        let found = explore(Case { flow: Flow::First, only_reads, rules, twice: false });
        let found = found.expect_err(what);
        assert!(found.starts_with(what), "{found}");
    };
    let disobedient = Rules { obeys_aborts: false, ..sound };
    caught(disobedient, &[false, false], "a part is committed, the transaction is not");
    let hasty = Rules { awaits_votes: false, ..sound };
    caught(hasty, &[false, false], "decided when rows of a participant were not locked");
    let early = Rules { keeps_reads: false, ..sound };
    caught(early, &[true], "decided when rows of a participant were not locked");
    let repeating = Rules { applies_once: false, tells_once: false, ..sound };
    caught(repeating, &[false], "a decision is applied twice");
}

/// What no table has is an error that names state and event.
#[test]
fn other_transitions_are_illegal() {
    let mut act = Vec::new();
    let mut coordinator = Coordinator::new(Flow::First, &[false], Rules::SOUND);
    let error = coordinator.step(Event::Acknowledged { from: 0 }, &mut act).unwrap_err();
    assert_eq!(error.to_string(), "a coordinator that is Asking cannot go to Asking by Acknowledged");
    let error = coordinator.step(Event::Voted { from: 7, yes: true }, &mut act).unwrap_err();
    assert!(error.to_string().contains("participant\", 7"), "{error}");
    let mut participant = Participant::new(false, false, Rules::SOUND);
    let error = participant.step(Heard::Prepared, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a participant that is Unknown cannot go to any by Prepared".replace("any", "\"any\"")
    );
}

#[test]
fn costs_are_those_of_the_design() {
    // Two round trips for an update, one for a transaction that reads in one other instance.
    assert_eq!(messages(Flow::First, (1, 0), Attempt::Committed), 4);
    assert_eq!(messages(Flow::First, (2, 1), Attempt::Committed), 11);
    assert_eq!(messages(Flow::First, (0, 3), Attempt::Committed), 9);
    assert_eq!(messages(Flow::First, (2, 0), Attempt::Aborted { yes: 1 }), 5);
    assert_eq!(messages(Flow::Last, (0, 1), Attempt::Committed), 2);
    assert_eq!(messages(Flow::Last, (0, 1), Attempt::Aborted { yes: 0 }), 2);
}
