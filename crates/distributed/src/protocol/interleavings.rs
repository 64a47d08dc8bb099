//! All interleavings of small cases: one coordinator, up to three participants, messages that
//! arrive at any time, in order on each link, and logs that are flushed at any time. A case may
//! have messages that arrive twice, connections that break, and crashes of coordinator and
//! participants, which restart with exactly what is durable.
//!
//! A crash breaks the connections of the instance. Messages to the instance are lost; its own may
//! still arrive before the peer learns of the loss. An instance that restarts runs nothing before
//! its peers know of the loss: until then the rows that a participant has read are safe.

use std::collections::{BTreeSet, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};

use terms::{Fault, Faults};

use super::{
    Action, Attempt, Coordinator, Event, Flow, Participant, ParticipantAction as Reply,
    ParticipantEvent as Input, messages,
};

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelMessage {
    Request,
    Vote(bool),
    Decision(bool),
    Acknowledgement,
    Inquiry,
    /// The connection broke, and there is another one.
    Lost,
}

/// A record in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    Prepare,
    Commit,
    Abort,
    Decision,
    Forget,
}

/// A log, whose records up to some one are durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Log {
    records: Vec<Record>,
    durable: usize,
    /// True if a state machine waits for what is there to be durable.
    awaited: bool,
}

impl Log {
    fn count(&self, record: Record) -> usize {
        self.records.iter().filter(|one| **one == record).count()
    }

    fn has(&self, record: Record) -> bool {
        self.count(record) > 0
    }

    fn crash(&mut self) {
        self.records.truncate(self.durable);
        self.awaited = false;
    }
}

/// One instance with a part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Side {
    machine: Participant,
    /// True if its rows are locked.
    locked: bool,
    log: Log,
    /// Messages to it and back, each in order.
    to: Vec<ModelMessage>,
    back: Vec<ModelMessage>,
    /// True if the coordinator, or the participant, has not received yet that the other one was
    /// lost: its messages are lost.
    coordinator_unaware: bool,
    participant_unaware: bool,
}

/// The events that may happen in a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    pub flow: Flow,
    /// The number of participants before the own part's turn, if requests are sent in turn.
    pub own_after: Option<usize>,
    pub only_reads: &'a [bool],
    pub faults: Faults,
    /// True if a message may come twice.
    pub twice: bool,
    /// Crashes, at most.
    pub crashes: u32,
    /// Connections that break and are made again, at most.
    pub cuts: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Model {
    /// `None` once it is forgotten.
    coordinator: Option<Coordinator>,
    sides: Vec<Side>,
    /// By number of a participant of the coordinator: the side. A coordinator that came back has
    /// only those with changes.
    known: Vec<usize>,
    log: Log,
    /// The coordinator's own part holds its rows.
    own_locked: bool,
    /// How the attempt ended.
    outcome: Option<bool>,
    /// By number of a side: true if it got its request.
    requested: Vec<bool>,
    /// The answer that the program received.
    answer: Option<bool>,
    /// Messages sent.
    messages: u64,
    yes: u64,
    crashes: u32,
    cuts: u32,
    coordinator_crashed: bool,
}

/// A possible next event.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A participant takes the first message to it; if that is a request, its part is prepared or
    /// not. `keep`: the same message comes once more.
    Participant {
        number: usize,
        works: bool,
        keep: bool,
    },
    /// The coordinator takes the first message from a participant; if its own part runs, it commits
    /// or not.
    Coordinator {
        number: usize,
        works: bool,
        keep: bool,
    },
    /// All records of a participant's log become durable.
    Flush {
        number: usize,
    },
    /// All records of the coordinator's log become durable.
    FlushCoordinator,
    /// The resources of the coordinator's own part are free.
    Keep,
    /// A participant crashes and comes back; `arrives`: what it has sent arrives still.
    Crash {
        number: usize,
        arrives: bool,
    },
    CrashCoordinator {
        arrives: bool,
    },
    /// The connection to a participant breaks; only this many of the messages under way arrive each
    /// way.
    Cut {
        number: usize,
        to: usize,
        back: usize,
    },
}

impl Model {
    fn new(case: Case<'_>) -> Self {
        let count = case.only_reads.len();
        let last = case.flow == Flow::Last;
        let side = |only_reads: &bool| Side {
            machine: Participant::new(last, *only_reads, case.faults),
            locked: false,
            log: Log::default(),
            to: Vec::new(),
            back: Vec::new(),
            coordinator_unaware: false,
            participant_unaware: false,
        };
        let (only_reads, mut act) = (case.only_reads.iter().copied(), Vec::new());
        let coordinator = match case.own_after {
            Some(own_after) => Coordinator::in_turn(only_reads, own_after, case.faults, &mut act),
            None => {
                act.extend((0..count).map(|to| Action::SendRequest { to }));
                Coordinator::new(case.flow, only_reads, case.faults)
            }
        };
        let mut model = Model {
            coordinator: Some(coordinator),
            sides: case.only_reads.iter().map(side).collect(),
            known: (0..count).collect(),
            log: Log::default(),
            own_locked: last,
            outcome: None,
            requested: vec![false; count],
            answer: None,
            messages: 0,
            yes: 0,
            crashes: 0,
            cuts: 0,
            coordinator_crashed: false,
        };
        model.actions(act, case).expect("requests alone");
        model
    }

    fn choices(&self, case: Case<'_>, twice: bool) -> Vec<Next> {
        let mut choices = Vec::new();
        let cases = [(true, false), (false, false), (true, true), (false, true)];
        for (number, side) in self.sides.iter().enumerate() {
            for (works, keep) in cases.into_iter().filter(|(_, keep)| twice || !keep) {
                match side.to.first() {
                    // A part that comes again after its end runs again, and is rolled back: that
                    // changes nothing either.
                    Some(ModelMessage::Request | ModelMessage::Lost) if keep => {}
                    Some(ModelMessage::Request) => choices.push(Next::Participant { number, works, keep }),
                    Some(_) if works => choices.push(Next::Participant { number, works, keep }),
                    _ => {}
                }
                match side.back.first() {
                    None => {}
                    Some(ModelMessage::Lost) if keep => {}
                    Some(_) => choices.push(Next::Coordinator { number, works, keep }),
                }
            }
            if side.log.awaited || side.log.durable < side.log.records.len() {
                choices.push(Next::Flush { number });
            }
        }
        if self.log.awaited || self.log.durable < self.log.records.len() {
            choices.push(Next::FlushCoordinator);
        }
        if self.coordinator.as_ref().is_some_and(Coordinator::waits_for_own) {
            choices.push(Next::Keep);
        }
        if self.cuts < case.cuts && !choices.is_empty() {
            for (number, side) in self.sides.iter().enumerate() {
                for to in 0..=side.to.len() {
                    choices.extend((0..=side.back.len()).map(|back| Next::Cut { number, to, back }));
                }
            }
        }
        // Crashes that come after everything else are no new cases.
        if self.crashes < case.crashes && !choices.is_empty() {
            for arrives in [false, true] {
                choices.extend((0..self.sides.len()).map(|number| Next::Crash { number, arrives }));
                choices.push(Next::CrashCoordinator { arrives });
            }
        }
        choices
    }

    fn apply(&mut self, next: Next, case: Case<'_>) -> Result<(), String> {
        match next {
            Next::Participant { number, works, keep } => {
                let message = take(&mut self.sides[number].to, keep);
                self.participant(number, message, works, case)
            }
            Next::Coordinator { number, works, keep } => {
                let message = take(&mut self.sides[number].back, keep);
                self.coordinator(number, message, works, case)
            }
            Next::Flush { number } => {
                let log = &mut self.sides[number].log;
                log.durable = log.records.len();
                match std::mem::take(&mut log.awaited) {
                    true => self.step_participant(number, Input::Durable, case),
                    false => Ok(()),
                }
            }
            Next::FlushCoordinator => {
                self.log.durable = self.log.records.len();
                if self.outcome == Some(true) {
                    self.answer = Some(true);
                }
                match std::mem::take(&mut self.log.awaited) {
                    true => self.step_coordinator(Event::Durable, true, case),
                    false => Ok(()),
                }
            }
            Next::Keep => self.step_coordinator(Event::Kept, true, case),
            Next::Crash { number, arrives } => self.crash(number, arrives, case),
            Next::CrashCoordinator { arrives } => self.crash_coordinator(arrives, case),
            Next::Cut { number, to, back } => {
                self.cuts += 1;
                let side = &mut self.sides[number];
                // An earlier loss that a side has not received yet still arrives.
                let arriving = |queue: &mut Vec<ModelMessage>, arrive: usize| {
                    let lost = queue.iter().rposition(|message| *message == ModelMessage::Lost);
                    queue.truncate(arrive.max(lost.map_or(0, |lost| lost + 1)));
                    queue.push(ModelMessage::Lost);
                };
                arriving(&mut side.to, to);
                arriving(&mut side.back, back);
                (side.participant_unaware, side.coordinator_unaware) = (true, true);
                Ok(())
            }
        }
    }

    fn crash(&mut self, number: usize, arrives: bool, case: Case<'_>) -> Result<(), String> {
        self.crashes += 1;
        let side = &mut self.sides[number];
        side.to.clear();
        if side.participant_unaware || !arrives {
            side.back.clear();
        }
        side.participant_unaware = false;
        side.coordinator_unaware = true;
        side.back.push(ModelMessage::Lost);
        side.log.crash();
        let ended = side.log.has(Record::Commit) || side.log.has(Record::Abort);
        let in_doubt = side.log.has(Record::Prepare) && !ended && !case.faults.has(Fault::LostDoubt);
        side.locked = in_doubt;
        let mut act = Vec::new();
        side.machine = match in_doubt {
            true => Participant::in_doubt(case.faults, &mut act),
            false => Participant::new(case.flow == Flow::Last, case.only_reads[number], case.faults),
        };
        self.answers(number, act, case)
    }

    fn crash_coordinator(&mut self, arrives: bool, case: Case<'_>) -> Result<(), String> {
        self.crashes += 1;
        self.coordinator_crashed = true;
        self.own_locked = false;
        self.log.crash();
        for side in &mut self.sides {
            side.back.clear();
            if side.coordinator_unaware || !arrives {
                side.to.clear();
            }
            side.coordinator_unaware = false;
            side.participant_unaware = true;
            side.to.push(ModelMessage::Lost);
        }
        self.coordinator = None;
        // If no worker has to receive it, the decision is a commit like any other.
        let sends = case.only_reads.contains(&false);
        if sends && self.log.has(Record::Decision) && !self.log.has(Record::Forget) {
            let all = 0..self.sides.len();
            self.known = all.filter(|number| !case.only_reads[*number]).collect();
            let mut act = Vec::new();
            self.coordinator = Some(Coordinator::decided(self.known.len(), case.faults, &mut act));
            return self.actions(act, case);
        }
        Ok(())
    }

    fn participant(
        &mut self,
        number: usize,
        message: ModelMessage,
        works: bool,
        case: Case<'_>,
    ) -> Result<(), String> {
        let side = &mut self.sides[number];
        match message {
            ModelMessage::Decision(commit) => self.step_participant(number, Input::Decided { commit }, case),
            ModelMessage::Lost => {
                side.participant_unaware = false;
                self.step_participant(number, Input::Lost, case)
            }
            ModelMessage::Request => {
                let mut act = Vec::new();
                side.machine.step(Input::Requested, &mut act).map_err(|error| error.to_string())?;
                if act != [Reply::Prepare] {
                    return Ok(());
                }
                side.locked = works;
                if works && !case.only_reads[number] && !case.faults.has(Fault::UnloggedPart) {
                    side.log.records.push(Record::Prepare);
                }
                self.step_participant(number, if works { Input::Prepared } else { Input::Failed }, case)
            }
            other => Err(format!("a participant receives {other:?}")),
        }
    }

    fn step_participant(&mut self, number: usize, event: Input, case: Case<'_>) -> Result<(), String> {
        let mut act = Vec::new();
        self.sides[number].machine.step(event, &mut act).map_err(|error| error.to_string())?;
        self.answers(number, act, case)
    }

    fn answers(&mut self, number: usize, act: Vec<Reply>, case: Case<'_>) -> Result<(), String> {
        let side = &mut self.sides[number];
        for answer in act {
            let message = match answer {
                Reply::Finish { commit } => {
                    // A part that changes nothing leaves no record.
                    if !case.only_reads[number] {
                        side.log.records.push(if commit { Record::Commit } else { Record::Abort });
                    }
                    side.locked = false;
                    continue;
                }
                Reply::AwaitDurable => {
                    side.log.awaited = true;
                    continue;
                }
                Reply::Vote { yes } => ModelMessage::Vote(yes),
                Reply::Acknowledge => ModelMessage::Acknowledgement,
                Reply::Inquire => ModelMessage::Inquiry,
                Reply::Prepare => return Err("a part is prepared twice".to_owned()),
                Reply::Forget => {
                    side.log.awaited = false;
                    continue;
                }
            };
            self.messages += 1;
            if !side.participant_unaware {
                side.back.push(message);
            }
        }
        Ok(())
    }

    fn coordinator(
        &mut self,
        number: usize,
        message: ModelMessage,
        works: bool,
        case: Case<'_>,
    ) -> Result<(), String> {
        let side = &mut self.sides[number];
        if message == ModelMessage::Lost {
            side.coordinator_unaware = false;
        }
        let from = self.known.iter().position(|known| *known == number);
        let (Some(_), Some(from)) = (&self.coordinator, from) else {
            // Nothing is known of it: a worker that is prepared for it aborts.
            if matches!(message, ModelMessage::Vote(true) | ModelMessage::Inquiry) {
                self.messages += 1;
                if !side.coordinator_unaware {
                    side.to.push(ModelMessage::Decision(false));
                }
            }
            return Ok(());
        };
        let event = match message {
            ModelMessage::Vote(yes) => Event::Voted { from, yes },
            ModelMessage::Acknowledgement => Event::Acknowledged { from },
            ModelMessage::Lost => Event::Lost { from },
            ModelMessage::Inquiry => Event::Inquired { from },
            other => return Err(format!("a coordinator receives {other:?}")),
        };
        self.step_coordinator(event, works, case)
    }

    fn step_coordinator(&mut self, event: Event, works: bool, case: Case<'_>) -> Result<(), String> {
        let Some(coordinator) = &mut self.coordinator else { return Ok(()) };
        let mut act = Vec::new();
        coordinator.step(event, &mut act).map_err(|error| error.to_string())?;
        self.yes = coordinator.yes();
        if let Some(run) = act.iter().position(|action| *action == Action::Run) {
            act.remove(run);
            if works {
                // The decision: all that was read and written is locked at this moment.
                if self.sides.iter().any(|side| !side.locked && !side.coordinator_unaware) {
                    return Err("decided when rows of a participant were not locked".to_owned());
                }
                if !case.faults.has(Fault::UnloggedDecision) {
                    self.log.records.push(Record::Decision);
                }
            }
            let ran = Event::Ran { committed: works };
            coordinator.step(ran, &mut act).map_err(|error| error.to_string())?;
        }
        self.actions(act, case)
    }

    fn actions(&mut self, act: Vec<Action>, case: Case<'_>) -> Result<(), String> {
        for action in act {
            match action {
                Action::Run => return Err("the own part runs twice".to_owned()),
                Action::AwaitDurable => self.log.awaited = true,
                Action::SendRequest { to } => {
                    self.messages += 1;
                    if std::mem::replace(&mut self.requested[to], true) {
                        return Err("a participant gets two requests".to_owned());
                    }
                    if !self.sides[to].coordinator_unaware {
                        self.sides[to].to.push(ModelMessage::Request);
                    }
                }
                Action::SendDecision { to, commit } => {
                    self.messages += 1;
                    let side = &mut self.sides[self.known[to]];
                    if !side.coordinator_unaware {
                        side.to.push(ModelMessage::Decision(commit));
                    }
                }
                Action::End { committed } => {
                    if self.outcome.replace(committed).is_some() {
                        return Err("an attempt ends twice".to_owned());
                    }
                    // Of a transaction that only reads, nothing can be lost.
                    if !committed || case.flow == Flow::Last || case.faults.has(Fault::EarlyAnswer) {
                        self.answer = Some(committed);
                    }
                    self.own_locked = false;
                }
                Action::Forget => {
                    self.coordinator = None;
                    if self.log.has(Record::Decision) && case.only_reads.contains(&false) {
                        self.log.records.push(Record::Forget);
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that hold at any moment.
    fn check(&self, case: Case<'_>) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}: {:?}", self.sides));
        if self.sides.iter().any(|side| side.log.count(Record::Commit) > 1) {
            return fail("a decision is applied twice");
        }
        let decided = self.log.has(Record::Decision);
        let committed = self.sides.iter().any(|side| side.log.has(Record::Commit));
        let aborted = self.sides.iter().any(|side| side.log.has(Record::Abort));
        if committed && !decided {
            return fail("a part is committed, the transaction is not");
        }
        if aborted && decided && !case.faults.has(Fault::UnloggedDecision) {
            return fail("a part is rolled back, the transaction is committed");
        }
        if self.answer == Some(true) && case.flow == Flow::First && !decided {
            return fail("a transaction that was acknowledged is lost");
        }
        Ok(())
    }

    /// Checks that hold when no message is under way, and all logs are durable.
    fn check_end(&self, case: Case<'_>) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}: {:?}", self.sides));
        if self.outcome.is_none() && !self.coordinator_crashed {
            return fail("no outcome");
        }
        if self.coordinator.is_some() || self.own_locked || self.sides.iter().any(|side| side.locked) {
            return fail("a worker waits for ever");
        }
        let decided = self.log.has(Record::Decision);
        let mut changing = self.sides.iter().zip(case.only_reads).filter(|(_, only_reads)| !**only_reads);
        if decided && changing.any(|(side, _)| side.log.count(Record::Commit) != 1) {
            return fail("a part of a committed transaction is missing");
        }
        if case.flow == Flow::First && !self.coordinator_crashed && self.outcome != Some(decided) {
            return fail("the own part has another outcome");
        }
        if self.crashes == 0 && self.answer != self.outcome {
            return fail("the program gets no answer");
        }
        let Some(outcome) = self.outcome.filter(|_| self.crashes + self.cuts == 0) else { return Ok(()) };
        let requested = self.requested.iter().zip(case.only_reads).filter(|(requested, _)| **requested);
        let reading = requested.clone().filter(|(_, only_reads)| **only_reads).count() as u64;
        let changing = requested.count() as u64 - reading;
        let attempt = if outcome { Attempt::Committed } else { Attempt::Aborted { yes: self.yes } };
        let expected = messages(case.flow, changing, reading, attempt);
        if !case.twice && !case.faults.has(Fault::DecisionSentTwice) && self.messages != expected {
            return fail(&format!("{} messages where the protocol takes {expected}", self.messages));
        }
        Ok(())
    }
}

fn take(queue: &mut Vec<ModelMessage>, keep: bool) -> ModelMessage {
    if keep { queue[0] } else { queue.remove(0) }
}

fn hash(model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.hash(&mut hasher);
    hasher.finish()
}

/// Explores all possible orders of events; returns the number of states.
pub(super) fn explore(case: Case<'_>) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![(Model::new(case), 0)];
    while let Some((model, copies)) = open.pop() {
        // Copies are bounded, or a link would never be empty.
        let choices = model.choices(case, case.twice && copies < 2);
        if choices.is_empty() {
            model.check_end(case)?;
        }
        for next in choices {
            let mut after = model.clone();
            after.apply(next, case)?;
            after.check(case)?;
            let keeps =
                matches!(next, Next::Participant { keep: true, .. } | Next::Coordinator { keep: true, .. });
            let copies = copies + u32::from(keeps);
            if seen.insert((hash(&after), copies)) {
                open.push((after, copies));
            }
        }
    }
    Ok(seen.len())
}
