//! The coordinator of one attempt of a transaction.

use terms::{Fault, Faults};

use super::legal::{Illegal, Row, check};

/// When the coordinator's own part locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The other parts lock first, the coordinator's own last: its commit is the decision.
    First,
    /// The one other part locks last, and lets go at its vote. Nothing changes rows.
    Last,
}

/// An event of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A participant, by its number, votes.
    Voted {
        /// Which.
        from: usize,
        /// True if its part is prepared.
        yes: bool,
    },
    /// The turn of the coordinator's own part has come ([`Coordinator::waits_for_own`]): what it
    /// needs is free, and kept for it.
    Kept,
    /// The coordinator's own part has ended.
    Ran {
        /// True if it committed.
        committed: bool,
    },
    /// The epoch of [`Action::AwaitDurable`] is durable.
    Durable,
    /// A participant has applied the decision, durably.
    Acknowledged {
        /// Which.
        from: usize,
    },
    /// The connection to a participant broke. Messages of the participant may be lost, and what it
    /// has read is free.
    Lost {
        /// Which.
        from: usize,
    },
    /// A participant that lost its connection, or came back, has a part in doubt.
    Inquired {
        /// Which.
        from: usize,
    },
}

/// An action of a coordinator; actions are performed in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The participant receives the request of its part.
    SendRequest {
        /// Which.
        to: usize,
    },
    /// The own part runs, and commits if it can: [`Event::Ran`] reports that.
    Run,
    /// The decision is in the log, and is sent when it is durable: [`Event::Durable`] reports that.
    AwaitDurable,
    /// The participant receives the decision.
    SendDecision {
        /// Which.
        to: usize,
        /// The decision.
        commit: bool,
    },
    /// The attempt has this outcome.
    End {
        /// True if all of it is committed.
        committed: bool,
    },
    /// No worker will inquire about the attempt any more.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CoordinatorState {
    /// Waits for votes.
    Voting,
    /// Its own part runs.
    Running,
    /// A participant has refused; other votes are under way.
    Refused,
    /// Committed, and not durably so far.
    Deciding,
    /// Committed, durably; acknowledgements are under way.
    Committed,
    /// Over.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Yes,
    No,
    Kept,
    Committed,
    Failed,
    Durable,
    Acknowledged,
    Lost,
    Inquired,
}

use CoordinatorState::{Committed, Deciding, Over, Refused, Running, Voting};

/// The transitions that there are. Votes and acknowledgements that come twice are in it.
const LEGAL: &[Row<CoordinatorState, EventKind>] = &[
    (Voting, EventKind::Yes, &[Voting, Running, Over]),
    (Voting, EventKind::No, &[Refused, Over]),
    (Voting, EventKind::Kept, &[Voting, Running]),
    (Voting, EventKind::Lost, &[Refused, Over]),
    (Voting, EventKind::Inquired, &[Refused, Over]),
    (Running, EventKind::Committed, &[Deciding, Over]),
    (Running, EventKind::Failed, &[Over]),
    (Refused, EventKind::Yes, &[Refused, Over]),
    (Refused, EventKind::No, &[Refused, Over]),
    (Refused, EventKind::Lost, &[Refused, Over]),
    (Refused, EventKind::Inquired, &[Refused, Over]),
    (Deciding, EventKind::Yes, &[Deciding]),
    (Deciding, EventKind::Durable, &[Committed]),
    (Deciding, EventKind::Acknowledged, &[Deciding]),
    (Deciding, EventKind::Lost, &[Deciding]),
    (Deciding, EventKind::Inquired, &[Deciding]),
    (Committed, EventKind::Yes, &[Committed]),
    (Committed, EventKind::Acknowledged, &[Committed, Over]),
    (Committed, EventKind::Lost, &[Committed]),
    (Committed, EventKind::Inquired, &[Committed]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Branch {
    only_reads: bool,
    vote: Option<bool>,
    acknowledged: bool,
}

/// The coordinator of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    flow: Flow,
    state: CoordinatorState,
    parts: Vec<Branch>,
    /// The number of participants that have a request, which are the first ones: fewer than all
    /// only where requests are sent in turn.
    requested: usize,
    /// Where the own part has a turn that has not come: the number of participants that get their
    /// requests before it.
    own_after: Option<usize>,
    faults: Faults,
}

impl Coordinator {
    /// The coordinator of participants that get their requests now; each value is true if the part
    /// only reads. With [`Flow::Last`] there is one.
    pub fn new(flow: Flow, only_reads: impl Iterator<Item = bool>, faults: Faults) -> Self {
        let part = |only_reads| Branch { only_reads, vote: None, acknowledged: false };
        let parts: Vec<Branch> = only_reads.map(part).collect();
        debug_assert!(match flow {
            Flow::First => !parts.is_empty(),
            Flow::Last => matches!(&parts[..], [Branch { only_reads: true, .. }]),
        });
        let requested = parts.len();
        Coordinator { flow, state: Voting, parts, requested, own_after: None, faults }
    }

    /// The coordinator of participants that get their requests one after the other, each when those
    /// before it have voted. The resources of the own part are locked in its turn, which comes
    /// after the first `own_after` of them; the part itself runs when all have voted.
    pub fn in_turn(
        only_reads: impl Iterator<Item = bool>,
        own_after: usize,
        faults: Faults,
        act: &mut Vec<Action>,
    ) -> Self {
        let all = Coordinator::new(Flow::First, only_reads, faults);
        let mut coordinator = Coordinator { requested: 0, own_after: Some(own_after), ..all };
        coordinator.request_next(act);
        coordinator
    }

    /// The coordinator of a transaction that an earlier incarnation decided to commit, and did not
    /// forget: it sends the decision again.
    pub fn decided(participants: usize, faults: Faults, act: &mut Vec<Action>) -> Self {
        let part = Branch { only_reads: false, vote: Some(true), acknowledged: false };
        let (parts, requested) = (vec![part; participants], participants);
        let coordinator =
            Coordinator { flow: Flow::First, state: Committed, parts, requested, own_after: None, faults };
        (0..participants).for_each(|to| coordinator.send_decision(to, true, act));
        coordinator
    }

    /// When the own part locks.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Numbers of participants that have a request: those whose parts change rows, and those whose
    /// parts only read.
    pub fn counts(&self) -> (u64, u64) {
        let reading = self.parts[..self.requested].iter().filter(|part| part.only_reads).count();
        ((self.requested - reading) as u64, reading as u64)
    }

    /// The number of participants that have a request, which are the first ones.
    pub fn requested(&self) -> usize {
        self.requested
    }

    /// Returns true if it is the turn of the own part: no other worker gets a request
    /// before [`Event::Kept`].
    pub fn waits_for_own(&self) -> bool {
        self.state == Voting && self.own_after == Some(self.requested) && self.yes() == self.requested as u64
    }

    /// Returns true if no decision was sent yet: some part may be prepared, or will be.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, Committed | Over)
    }

    /// Votes for it so far.
    pub fn yes(&self) -> u64 {
        self.parts.iter().filter(|part| part.vote == Some(true)).count() as u64
    }

    /// Adds what is to be done after `event`.
    ///
    /// # Errors
    /// The event does not fit the state: a bug of a peer, or here.
    pub fn step(&mut self, event: Event, act: &mut Vec<Action>) -> Result<(), Illegal> {
        let before = self.state;
        let kind = match event {
            Event::Voted { yes: true, .. } => EventKind::Yes,
            Event::Voted { yes: false, .. } => EventKind::No,
            Event::Kept => EventKind::Kept,
            Event::Ran { committed: true } => EventKind::Committed,
            Event::Ran { committed: false } => EventKind::Failed,
            Event::Durable => EventKind::Durable,
            Event::Acknowledged { .. } => EventKind::Acknowledged,
            Event::Lost { .. } => EventKind::Lost,
            Event::Inquired { .. } => EventKind::Inquired,
        };
        match event {
            Event::Voted { from, yes } => self.voted(from, yes, act)?,
            Event::Kept => {
                self.own_after = None;
                self.advance(act);
            }
            Event::Ran { committed } => self.ran(committed, act),
            Event::Durable => {
                self.state = Committed;
                self.send_changes(act);
            }
            Event::Acknowledged { from } => self.acknowledged(from)?,
            Event::Lost { from } => self.lost(from, act)?,
            Event::Inquired { from } => self.inquired(from, act)?,
        }
        if self.faults.is_none_but(Fault::DecisionSentTwice) {
            check("coordinator", LEGAL, before, kind, self.state)?;
        }
        if self.state == Over {
            act.push(Action::Forget);
        }
        Ok(())
    }

    fn voted(&mut self, from: usize, yes: bool, act: &mut Vec<Action>) -> Result<(), Illegal> {
        let illegal = |state, what| Illegal::new("coordinator", state, (what, from), "any");
        let state = self.state;
        let part = self.parts[..self.requested].get_mut(from);
        let part = part.ok_or_else(|| illegal(state, "a vote of participant"))?;
        if part.vote == Some(yes) {
            return Ok(());
        }
        if part.vote.is_some() {
            return Err(illegal(state, "another vote of participant"));
        }
        part.vote = Some(yes);
        match (self.state, yes) {
            (Voting, true) => self.advance(act),
            (Voting, false) => self.refuse(act),
            (Refused, true) => self.send_decision(from, false, act),
            _ => {}
        }
        self.end_if_refused(act);
        Ok(())
    }

    fn refuse(&mut self, act: &mut Vec<Action>) {
        self.state = Refused;
        self.send_all(false, act);
    }

    fn end_if_refused(&mut self, act: &mut Vec<Action>) {
        if self.state == Refused && self.parts[..self.requested].iter().all(|part| part.vote.is_some()) {
            self.state = Over;
            act.push(Action::End { committed: false });
        }
    }

    /// A participant lost before the decision counts as a no vote: rows that it read may change
    /// from now on. A decision, or its acknowledgement, may be lost too.
    fn lost(&mut self, from: usize, act: &mut Vec<Action>) -> Result<(), Illegal> {
        let missing = Illegal::new("coordinator", self.state, ("the loss of participant", from), "any");
        let part = self.parts.get_mut(from).ok_or(missing)?;
        if self.faults.has(Fault::UnabortedLosses) {
            return Ok(());
        }
        if matches!(self.state, Voting | Refused) {
            part.vote = Some(false);
        }
        let sends = self.state == Committed && !part.only_reads && !part.acknowledged;
        if sends {
            self.send_decision(from, true, act);
        }
        if self.state == Voting {
            self.refuse(act);
        }
        self.end_if_refused(act);
        Ok(())
    }

    fn inquired(&mut self, from: usize, act: &mut Vec<Action>) -> Result<(), Illegal> {
        if matches!(self.state, Voting | Refused) {
            self.lost(from, act)?;
        }
        match self.state {
            // A part that only reads gets the decision at once: nothing depends on it.
            Deciding if self.parts.get(from).is_some_and(|part| part.only_reads) => {
                self.send_decision(from, true, act)
            }
            // The answer follows when it is durable.
            Deciding => {}
            Committed => self.send_decision(from, true, act),
            _ => self.send_decision(from, false, act),
        }
        Ok(())
    }

    /// Sends the next request when all participants that have one have voted, unless it is the turn
    /// of the own part.
    fn request_next(&mut self, act: &mut Vec<Action>) {
        if self.yes() == self.requested as u64 && self.own_after != Some(self.requested) {
            act.push(Action::SendRequest { to: self.requested });
            self.requested += 1;
        }
    }

    /// Runs the own part when all votes are there.
    fn advance(&mut self, act: &mut Vec<Action>) {
        if self.requested < self.parts.len() {
            return self.request_next(act);
        }
        if self.own_after.is_some() {
            return;
        }
        let enough =
            self.parts.len() - usize::from(self.faults.has(Fault::MissingVote) && self.parts.len() > 1);
        if self.yes() < enough as u64 {
            return;
        }
        match self.flow {
            Flow::First => {
                self.state = Running;
                act.push(Action::Run);
            }
            Flow::Last => {
                self.state = Over;
                act.push(Action::End { committed: true });
            }
        }
    }

    fn ran(&mut self, committed: bool, act: &mut Vec<Action>) {
        if !committed {
            self.send_all(false, act);
            act.push(Action::End { committed });
            self.state = Over;
            return;
        }
        // What is only read is free at the decision, durable or not: nothing depends on it.
        for to in 0..self.parts.len() {
            if self.parts[to].only_reads {
                self.send_decision(to, true, act);
            }
        }
        act.push(Action::End { committed });
        if self.parts.iter().all(|part| part.only_reads) {
            self.state = Over;
        } else if !self.faults.has(Fault::EarlyDecision) {
            self.state = Deciding;
            act.push(Action::AwaitDurable);
        } else {
            self.state = Committed;
            self.send_changes(act);
        }
    }

    /// Sends the commit to those whose parts change rows.
    fn send_changes(&self, act: &mut Vec<Action>) {
        for to in 0..self.parts.len() {
            if !self.parts[to].only_reads {
                self.send_decision(to, true, act);
            }
        }
    }

    fn acknowledged(&mut self, from: usize) -> Result<(), Illegal> {
        let state = self.state;
        let illegal =
            || Illegal::new("coordinator", state, ("an acknowledgement of participant", from), "any");
        let part = self.parts.get_mut(from).ok_or_else(illegal)?;
        // A part that only reads gets the decision at once, and is forgotten: a decision that comes
        // twice is acknowledged, because no worker has the part any more.
        if part.only_reads {
            return Ok(());
        }
        if state == Deciding {
            return Err(illegal());
        }
        part.acknowledged = true;
        self.forget_if_done();
        Ok(())
    }

    fn forget_if_done(&mut self) {
        let all = self.parts.iter().all(|part| part.only_reads || part.acknowledged);
        if self.state == Committed && all {
            self.state = Over;
        }
    }

    /// Sends a decision to all that have voted yes.
    fn send_all(&self, commit: bool, act: &mut Vec<Action>) {
        for to in 0..self.parts.len() {
            if self.parts[to].vote == Some(true) {
                self.send_decision(to, commit, act);
            }
        }
    }

    fn send_decision(&self, to: usize, commit: bool, act: &mut Vec<Action>) {
        act.push(Action::SendDecision { to, commit });
        if self.faults.has(Fault::DecisionSentTwice) {
            act.push(Action::SendDecision { to, commit });
        }
    }
}
