//! What one worker does for its own transactions over several instances, and for those of others.
//!
//! A member has one session, which runs local transactions too; the caller hands it in. [`Member::submit`] begins a
//! transaction, and [`Member::turn`], which the worker calls between its local transactions, takes what has come from other
//! workers: it prepares parts for them, hears votes, runs its own part when all are there, and finishes what is decided. What is
//! to be said leaves at the end of the turn.

use std::collections::VecDeque;
use std::sync::Arc;

use cc::{Abort, Category};
use engine::dynamic::{AnyPrepared, AnySession};
use engine::{Bounds, Epoch, Outcome, Plan, Procedure, Routes};
use platform::link::{Bell, Links, ReceiveError};
use platform::{Intent, Nanos, Work};

use crate::flight::{End, Flight, Held, Own, Part};
use crate::map::{Where, WorkerName};
use crate::messages::{GlobalId, Message, MessageError, Refusal, SEQUENCE_BITS, VERSION, encode};
use crate::peer::{LINK_BYTES_MAX, Peer};
use crate::protocol::{Action, Answer, Attempt, Coordinator, Event, Flow, messages};
use crate::setting::{Connection, Counts, Done, MemberError, Setting};

/// How soon a worker tries again to send what a full link has left.
const FULL_NANOS: u64 = 5_000;
/// Turns in which a worker looks at its links after something has come, whether or not its bell rings: more follows soon.
const BUSY_TURNS: u32 = 8;
/// How often a worker whose bell does not ring looks at its links all the same, in turns: the end of a process rings no bell.
const LOOK_TURNS: u32 = 256;

/// What members tell each other of procedures `Q`.
type Said<Q> = Message<<Q as Procedure>::Action, <Q as Procedure>::Output>;

/// One worker of a deployment of several instances. `T` is what its caller knows transactions by.
pub struct Member<'d, P: Links, Q: Procedure, T> {
    pub(crate) setting: Setting<'d, Q>,
    bell: Arc<Bell<P>>,
    pub(crate) peers: Vec<Peer<P>>,
    /// By the number of the worker: of the peer.
    peer_of: Vec<Option<u32>>,
    /// In boxes: procedures are long, and what is under way moves from place to place.
    #[allow(clippy::vec_box)]
    pub(crate) flights: Vec<Box<Flight<'d, Q, T>>>,
    pub(crate) held: Vec<Held<'d, Q::Output>>,
    /// What waits to be durable, in the order in which it will be, or a little later.
    pub(crate) waiting: VecDeque<(Epoch, Waiter)>,
    done: Vec<Done<Q, T>>,
    sequence: u64,
    pub(crate) counts: Counts,
    buffer: Vec<u8>,
    routes: Routes,
    actions: Vec<Q::Action>,
    /// Whether it has said goodbye.
    leaving: bool,
    act: Vec<Action>,
    pub(crate) answers: Vec<Answer>,
    /// Whether all links ring the bell.
    all_ring: bool,
    /// Turns since something has come, or was waited for.
    quiet_turns: u32,
    /// Whether something is to be sent.
    unsent: bool,
}

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// A member that waits at `bell` and has these connections, one to each worker of each other instance.
    pub fn new(
        setting: Setting<'d, Q>,
        bell: Arc<Bell<P>>,
        connections: Vec<Connection<P>>,
    ) -> Result<Self, MemberError> {
        let most = connections.iter().map(|connection| usize::from(connection.to.worker) + 1).max();
        let mut peer_of = vec![None; most.unwrap_or(0)];
        let mut peers = Vec::with_capacity(connections.len());
        for (number, Connection { to, end, limits }) in connections.into_iter().enumerate() {
            peer_of[usize::from(to.worker)] = Some(number as u32);
            peers.push(Peer::new(to, end, limits));
        }
        let sequence = setting.incarnation << SEQUENCE_BITS;
        let all_ring = peers.iter().all(|peer: &Peer<P>| peer.end.receiver.rings());
        let mut member = Member {
            setting,
            bell,
            peers,
            peer_of,
            flights: Vec::new(),
            held: Vec::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            sequence,
            counts: Counts::default(),
            buffer: vec![0; LINK_BYTES_MAX],
            routes: Routes::new(),
            actions: Vec::new(),
            leaving: false,
            act: Vec::new(),
            answers: Vec::new(),
            all_ring,
            quiet_turns: 0,
            unsent: true,
        };
        for peer in &mut member.peers {
            let Setting { me, fingerprint, .. } = setting;
            let hello: Said<Q> = Message::Hello { version: VERSION, fingerprint, from: me, to: peer.name };
            encode(&hello, &mut peer.out).map_err(|error| MemberError::Message { from: peer.name, error })?;
        }
        Ok(member)
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Transactions that were submitted and have not ended.
    pub fn open(&self) -> usize {
        self.flights.iter().filter(|flight| flight.work.is_some()).count()
    }

    /// Says goodbye, once it has nothing under way: the caller submits no more transactions. Tells whether all others have, too,
    /// and nobody waits for this member any more.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn leave(&mut self, c: P::Core) -> Result<bool, MemberError> {
        if !self.leaving && self.flights.is_empty() {
            self.leaving = true;
            for peer in &mut self.peers {
                let from = peer.name;
                encode(&Said::<Q>::Goodbye, &mut peer.out)
                    .map_err(|error| MemberError::Message { from, error })?;
            }
            self.flush(c)?;
        }
        let holds = self.held.iter().any(|held| held.prepared.is_some());
        let holds = holds || !self.waiting.is_empty();
        Ok(self.leaving && !holds && self.peers.iter().all(|peer| peer.left && !peer.has_more()))
    }

    /// Whether another worker has said goodbye.
    pub fn misses_somebody(&self) -> bool {
        self.peers.iter().any(|peer| peer.left)
    }

    /// Where a transaction runs, as far as its procedure says ([`Procedure::homes`]).
    #[inline]
    pub fn whereabouts(&self, procedure: &Q) -> Where {
        let Setting { me, map, .. } = self.setting;
        let mut here = true;
        match procedure.homes(&mut |column| here &= map.owner(column).instance == me.instance) {
            false => Where::Unknown,
            true if here => Where::Here,
            true => Where::Elsewhere,
        }
    }

    /// As [`Self::whereabouts`], for a procedure that does not say: plans its first phase, which is forgotten.
    pub fn is_here(&mut self, procedure: &mut Q) -> Result<bool, Abort> {
        let Setting { me, map, tables, .. } = self.setting;
        self.actions.clear();
        if procedure.plan(0, &mut self.actions) != Plan::Run {
            return Ok(true);
        }
        let mut here = true;
        for action in &self.actions {
            self.routes.clear();
            Q::route(tables, action, &mut self.routes);
            here &= map.place(&self.routes)?.instance == me.instance;
        }
        Ok(here)
    }

    /// Begins an attempt of a transaction over several instances. Its end comes with a later [`Self::turn`].
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn submit(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        (procedure, ticket): (Q, T),
        bounds: Bounds,
    ) -> Result<(), MemberError> {
        self.begin(c, session, (procedure, ticket), bounds, true)
    }

    fn begin(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        (mut procedure, ticket): (Q, T),
        bounds: Bounds,
        may_be_last: bool,
    ) -> Result<(), MemberError> {
        let mut actions = std::mem::take(&mut self.actions);
        actions.clear();
        let divided = match procedure.plan(0, &mut actions) {
            Plan::Run => self.divide(&mut actions),
            Plan::Commit => Ok(Divided::default()),
            Plan::RollBack => Err(Abort::RollBack),
        };
        self.actions = actions;
        let Divided { here, parts } = match divided {
            Ok(divided) => divided,
            Err(abort) => {
                self.done.push(Done { procedure, ticket, end: End::of(abort) });
                return Ok(());
            }
        };
        let mut own = self.own();
        if parts.is_empty() {
            let prepared = own.prepare(session, &bounds, &mut procedure, &here, Some(Vec::new()));
            self.done.push(Done { procedure, ticket, end: committed(session, prepared) });
            return Ok(());
        }
        let flow = match procedure.read_only() && may_be_last && parts.len() == 1 {
            true => Flow::Last,
            false => Flow::First,
        };
        let mut early = None;
        if flow == Flow::Last {
            match own.prepare(session, &bounds, &mut procedure, &here, None) {
                Ok(prepared) => early = Some(prepared),
                Err(abort) => {
                    self.done.push(Done { procedure, ticket, end: End::of(abort) });
                    return Ok(());
                }
            }
        }
        self.sequence += 1;
        let id = GlobalId { coordinator: self.setting.me, sequence: self.sequence };
        let only_reads: Vec<bool> = parts.iter().map(|part| part.only_reads).collect();
        let coordinator = Coordinator::new(flow, &only_reads, self.setting.rules);
        let mut asked = Vec::with_capacity(parts.len());
        for AskedPart { owner, only_reads, numbers, actions } in parts {
            let peer = self.peer(owner)?;
            let request = Message::Request { id, is_last: flow == Flow::Last, only_reads, actions };
            self.say(c, peer, &request)?;
            asked.push(Part { peer, actions: numbers });
        }
        let flight = Flight {
            id,
            work: Some((procedure, ticket)),
            bounds,
            coordinator,
            parts: asked,
            here,
            outputs: Vec::new(),
            early,
            refused: None,
            decided: None,
        };
        self.flights.push(Box::new(flight));
        Ok(())
    }

    fn own(&mut self) -> Own<'d, '_, Q> {
        let Setting { me, tables, map, .. } = self.setting;
        Own { tables, map, me, actions: &mut self.actions }
    }

    /// Which actions run here, and which parts elsewhere.
    fn divide(&mut self, actions: &mut Vec<Q::Action>) -> Result<Divided<Q::Action>, Abort> {
        let Setting { me, map, tables, .. } = self.setting;
        let mut divided = Divided::default();
        for (number, action) in actions.drain(..).enumerate() {
            self.routes.clear();
            Q::route(tables, &action, &mut self.routes);
            let owner = map.place(&self.routes)?;
            if owner.instance == me.instance {
                divided.here.push((number, action));
                continue;
            }
            let only_reads = self.routes.entries().iter().all(|route| route.intent == Intent::Read);
            let same = |part: &&mut AskedPart<_>| part.owner.instance == owner.instance;
            match divided.parts.iter_mut().find(same) {
                Some(part) => {
                    part.only_reads &= only_reads;
                    part.numbers.push(number);
                    part.actions.push(action);
                }
                None => {
                    let (numbers, actions) = (vec![number], vec![action]);
                    divided.parts.push(AskedPart { owner, only_reads, numbers, actions });
                }
            }
        }
        Ok(divided)
    }

    fn peer(&self, name: WorkerName) -> Result<usize, MemberError> {
        let peer = self.peer_of.get(usize::from(name.worker)).copied().flatten();
        peer.map(|number| number as usize).ok_or(MemberError::NoLink(name))
    }

    /// Adds a message to what leaves at the end of the turn.
    pub(crate) fn say(&mut self, c: P::Core, peer: usize, message: &Said<Q>) -> Result<(), MemberError> {
        let peer = &mut self.peers[peer];
        let before = peer.out.len();
        encode(message, &mut peer.out).map_err(|error| MemberError::Message { from: peer.name, error })?;
        // It is copied to the stream, and summed.
        P::work(c, Work::CopyWord, 2 * ((peer.out.len() - before) as u32).div_ceil(8));
        self.counts.messages += 1;
        self.unsent = true;
        Ok(())
    }

    /// Whether it is time to look at the links: something has come, or may have.
    #[inline]
    fn is_to_look(&mut self, c: P::Core) -> bool {
        self.quiet_turns = self.quiet_turns.wrapping_add(1);
        self.quiet_turns <= BUSY_TURNS
            || !self.all_ring
            || self.quiet_turns.is_multiple_of(LOOK_TURNS)
            || self.bell.take_news(c)
    }

    /// Takes what has come, does what follows from it, and sends what is to be said. What has ended is appended to `done`.
    /// Tells whether anything has come.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn turn(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        done: &mut Vec<Done<Q, T>>,
    ) -> Result<bool, MemberError> {
        let looks = self.is_to_look(c);
        let mut result = Ok(false);
        let durable = self.waiting.front().is_some_and(|(epoch, _)| session.is_durable(*epoch));
        if looks || self.unsent || durable {
            session.measure(Some(Category::Communication));
            result = self.take_turn(c, session, looks);
            session.measure(None);
        }
        done.append(&mut self.done);
        result
    }

    fn take_turn(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        looks: bool,
    ) -> Result<bool, MemberError> {
        let mut some = false;
        for number in 0..if looks { self.peers.len() } else { 0 } {
            let peer = &mut self.peers[number];
            let from = peer.name;
            let came = match peer.receive(c, &mut self.buffer) {
                // It has left as it should.
                Err(ReceiveError::Closed) if self.peers[number].left => false,
                came => came.map_err(|error| MemberError::Receive { from, error })?,
            };
            if !came {
                continue;
            }
            some = true;
            loop {
                let next = self.peers[number].inbox.take::<Q::Action, Q::Output>();
                let next = next.map_err(|error| MemberError::Message { from, error })?;
                let Some((message, bytes)) = next else { break };
                P::work(c, Work::CopyWord, 2 * (bytes as u32).div_ceil(8));
                self.hear(c, session, number, message)?;
            }
        }
        self.look_for_durable(c, session)?;
        if some {
            // There may be more than is taken in one turn.
            self.quiet_turns = 0;
        }
        self.flush(c)?;
        Ok(some)
    }

    /// Sends what is to be said, as far as links take it.
    fn flush(&mut self, c: P::Core) -> Result<(), MemberError> {
        self.unsent = false;
        for peer in &mut self.peers {
            let sent = if peer.has_more() { peer.flush(c) } else { Ok(0) };
            self.counts.packets += sent.map_err(|error| MemberError::Send { to: peer.name, error })?;
            self.unsent |= peer.has_more();
        }
        Ok(())
    }

    /// Waits until something comes, or the deadline has passed, which counts for this category. May return early.
    pub fn wait(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        (category, deadline): (Category, Nanos),
    ) {
        let soon = P::now(c).plus(FULL_NANOS);
        let full = self.unsent;
        let deadline = if full { deadline.min(soon) } else { deadline };
        let open = self.peers.iter().filter(|peer| !peer.closed);
        let receivers: Vec<_> = open.map(|peer| &peer.end.receiver).collect();
        session.idle();
        session.measure(Some(category));
        platform::link::wait(c, &self.bell, &receivers, &mut |_| false, Some(deadline));
        session.measure(None);
        self.quiet_turns = 0;
    }

    fn hear(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        message: Said<Q>,
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        let is_hello = matches!(message, Message::Hello { .. });
        let is_late = matches!(message, Message::Request { .. }) && self.peers[peer].left;
        if is_hello == self.peers[peer].greeted || is_late {
            return Err(MemberError::Message { from, error: MessageError::Greeting });
        }
        match message {
            Message::Hello { version, fingerprint, from: who, to } => {
                let result = self.greet(peer, version, fingerprint, (who, to));
                result.map_err(|error| MemberError::Message { from, error })
            }
            Message::Request { id, is_last, only_reads, actions } => {
                self.serve(c, session, peer, (id, is_last, only_reads), &actions)
            }
            Message::Vote { id, result } => self.hear_vote(c, session, peer, id, result),
            Message::Decision { id, commit } => self.hear_decision(c, session, peer, (id, commit)),
            Message::Acknowledgement { id } => {
                let known = self.flights.iter().position(|flight| flight.id == id);
                let Some(flight) = known else { return Ok(()) };
                let Some(part) = self.flights[flight].part_of(peer) else { return Ok(()) };
                self.step(c, session, flight, Event::Acknowledged { from: part }, from)
            }
            Message::Inquiry { id } => self.hear_inquiry(c, session, peer, id),
            Message::Goodbye => {
                self.peers[peer].left = true;
                Ok(())
            }
        }
    }

    fn greet(
        &mut self,
        peer: usize,
        version: u32,
        fingerprint: u32,
        (from, to): (WorkerName, WorkerName),
    ) -> Result<(), MessageError> {
        let (expected, me) = (self.peers[peer].name, self.setting.me);
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        if fingerprint != self.setting.fingerprint {
            return Err(MessageError::Fingerprint(fingerprint));
        }
        if from != expected || to != me {
            return Err(MessageError::Peer { from, to, expected, me });
        }
        self.peers[peer].greeted = true;
        Ok(())
    }

    fn hear_vote(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        id: GlobalId,
        result: Result<Vec<Q::Output>, Refusal>,
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        let Some(number) = self.flights.iter().position(|flight| flight.id == id) else {
            // Nothing is known of it, so it is not committed.
            return match result {
                Ok(_) => self.say(c, peer, &Message::Decision { id, commit: false }),
                Err(_) => Ok(()),
            };
        };
        let flight = &mut self.flights[number];
        let part = flight.part_of(peer).ok_or(MemberError::Vote(from))?;
        let yes = result.is_ok();
        match result {
            Ok(outputs) => {
                let numbers = &flight.parts[part].actions;
                if outputs.len() != numbers.len() {
                    return Err(MemberError::Vote(from));
                }
                flight.outputs.reserve_exact(outputs.len());
                flight.outputs.extend(numbers.iter().copied().zip(outputs));
            }
            Err(refusal) => flight.refused = Some(End::refused(refusal, from)),
        }
        self.step(c, session, number, Event::Voted { from: part, yes }, from)
    }

    /// Tells a coordinator what has happened, and does what it wants.
    pub(crate) fn step(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        flight: usize,
        event: Event,
        from: WorkerName,
    ) -> Result<(), MemberError> {
        let illegal = |error| MemberError::Illegal { from, error };
        let mut flight = self.flights.swap_remove(flight);
        let mut act = std::mem::take(&mut self.act);
        flight.coordinator.step(event, &mut act).map_err(illegal)?;
        let mut forget = false;
        let mut again = None;
        let mut next = 0;
        while let Some(action) = act.get(next).copied() {
            next += 1;
            match action {
                Action::Run => {
                    let committed = self.run_own(session, &mut flight);
                    flight.coordinator.step(Event::Ran { committed }, &mut act).map_err(illegal)?;
                }
                Action::AwaitDurable => match flight.decided {
                    Some(epoch) if !session.is_durable(epoch) => {
                        self.waiting.push_back((epoch, Waiter::Decision(flight.id)));
                    }
                    _ => flight.coordinator.step(Event::Durable, &mut act).map_err(illegal)?,
                },
                Action::Tell { to, commit } => {
                    let (id, peer) = (flight.id, flight.parts[to].peer);
                    self.say(c, peer, &Message::Decision { id, commit })?;
                }
                Action::End { committed } => again = self.end(session, &mut flight, committed),
                Action::Forget => forget = true,
            }
        }
        act.clear();
        self.act = act;
        if !forget {
            self.flights.push(flight);
        } else if flight.decided.is_some() {
            session.forget(flight.id.number());
        }
        match again {
            Some((work, bounds)) => self.begin(c, session, work, bounds, false),
            None => Ok(()),
        }
    }

    /// Runs the own part after all others, and commits it.
    fn run_own(&mut self, session: &mut (dyn AnySession<'d> + 'd), flight: &mut Flight<'d, Q, T>) -> bool {
        let Some((procedure, _)) = &mut flight.work else { return false };
        let outputs = Some(std::mem::take(&mut flight.outputs));
        let prepared = self.own().prepare(session, &flight.bounds, procedure, &flight.here, outputs);
        let end = match prepared {
            Ok(prepared) if self.leaves_decision(flight) => {
                let peer = |part: &Part| self.peers[part.peer].name.instance;
                let participants: Vec<u16> = flight.parts.iter().map(peer).collect();
                let outcome = Outcome::Decide { global: flight.id.number(), participants: &participants };
                let end = finished(session, prepared, outcome);
                if let End::Committed(commit) = &end {
                    flight.decided = Some(commit.durable_with);
                }
                end
            }
            prepared => committed(session, prepared),
        };
        let is_committed = matches!(end, End::Committed(_));
        flight.refused = Some(end);
        is_committed
    }

    /// Whether others have to hear of its decision, also after a crash.
    fn leaves_decision(&self, flight: &Flight<'d, Q, T>) -> bool {
        let (changing, _) = flight.coordinator.counts();
        self.setting.durable && self.setting.rules.records_decisions && changing > 0
    }

    /// The attempt is over. The transaction, if it needs an attempt of another kind.
    #[allow(clippy::type_complexity)]
    fn end(
        &mut self,
        session: &mut (dyn AnySession<'d> + 'd),
        flight: &mut Flight<'d, Q, T>,
        committed: bool,
    ) -> Option<((Q, T), Bounds)> {
        let attempt = match committed {
            true => Attempt::Committed,
            false => Attempt::Aborted { yes: flight.coordinator.yes() },
        };
        let (flow, counts) = (flight.coordinator.flow(), flight.coordinator.counts());
        self.counts.expected += messages(flow, counts, attempt);
        let (mut procedure, ticket) = flight.work.take()?;
        let mut end = flight.refused.take().unwrap_or(End::Conflict);
        if let Some(early) = flight.early.take().filter(|_| flight.is_last()) {
            if committed {
                let outputs = std::mem::take(&mut flight.outputs);
                outputs.into_iter().for_each(|(number, output)| procedure.absorb(0, number, output));
                self.actions.clear();
                match procedure.plan(1, &mut self.actions) {
                    Plan::Commit => end = finished(session, early, Outcome::Commit),
                    Plan::RollBack => {
                        session.finish(early, false);
                        end = End::RolledBack;
                    }
                    // More is to be read, and the other instance has let its rows go.
                    Plan::Run => {
                        session.finish(early, false);
                        return Some(((procedure, ticket), flight.bounds));
                    }
                }
            } else {
                session.finish(early, false);
            }
        }
        self.done.push(Done { procedure, ticket, end });
        None
    }
}

/// Commits a part that is prepared.
fn committed<'d>(session: &mut (dyn AnySession<'d> + 'd), prepared: Result<AnyPrepared<'d>, Abort>) -> End {
    match prepared {
        Ok(prepared) => finished(session, prepared, Outcome::Commit),
        Err(abort) => End::of(abort),
    }
}

fn finished<'d>(
    session: &mut (dyn AnySession<'d> + 'd),
    prepared: AnyPrepared<'d>,
    outcome: Outcome<'_>,
) -> End {
    let commit = session.finish_as(prepared, outcome);
    commit.map_or(End::Conflict, End::Committed)
}

/// What goes on when it is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    /// A part: its vote, or the acknowledgement of its commit.
    Part(GlobalId),
    /// A decision.
    Decision(GlobalId),
}

/// The actions of a first phase.
struct Divided<A> {
    here: Vec<(usize, A)>,
    parts: Vec<AskedPart<A>>,
}

impl<A> Default for Divided<A> {
    fn default() -> Self {
        Divided { here: Vec::new(), parts: Vec::new() }
    }
}

/// What another instance is asked for.
struct AskedPart<A> {
    owner: WorkerName,
    only_reads: bool,
    numbers: Vec<usize>,
    actions: Vec<A>,
}
