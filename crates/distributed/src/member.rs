//! A member: one worker's transactions over several instances, and its parts of those of others.
//!
//! A member has one session, which runs local transactions too; the caller hands it in.
//! [`Member::submit`] begins a transaction, and [`Member::turn`], which the worker calls between
//! its local transactions, takes what has come from other workers: it prepares parts for them,
//! receives votes, runs its own part when all are there, and finishes what is decided. Its messages
//! leave at the end of the turn.

use std::collections::VecDeque;
use std::sync::Arc;

use boundary::{AnySession, Plan, Procedure};
use platform::link::{Bell, Links, ReceiveError, Receiver, Watch};
use platform::{Nanos, Work};
use schema::Routes;
use terms::{Abort, Category, Epoch};

use crate::echoes::Echoes;
use crate::flight::{Flight, OwnTurn, PreparedPart, WaitingRequest};
use crate::gate::Gate;
use crate::map::{HomeInstance, WorkerName};
use crate::messages::{GlobalId, Message, MessageError, SEQUENCE_BITS, Unsendable, VERSION, encode};
use crate::peer::{LINK_BYTES_MAX, Peer};
use crate::protocol::{Action, Event, ParticipantAction};
use crate::setting::{Connection, Counts, Done, MemberError, Setting};

/// How soon a worker tries again to send what a full link has left.
const FULL_NANOS: u64 = 5_000;
/// Poll the links for this many turns after a message, if polling needs no system call: more
/// messages follow soon.
const BUSY_TURNS: u32 = 8;
/// Poll the links once in this many turns even if the bell does not ring: the end of a process
/// rings no bell.
const POLL_TURNS: u32 = 256;

/// A message between members about procedures `Q`.
pub(crate) type ProcedureMessage<Q> = Message<<Q as Procedure>::Action, <Q as Procedure>::Output>;

/// One worker of a deployment of several instances. `T` is its caller's ticket of a
/// transaction.
pub struct Member<'d, P: Links, Q: Procedure, T> {
    pub(crate) setting: Setting<'d, Q>,
    bell: Arc<Bell<P>>,
    pub(crate) peers: Vec<Peer<P>>,
    /// By the number of the worker: of the peer.
    pub(crate) peer_of: Vec<Option<u32>>,
    /// In boxes: procedures are long, and what is under way moves from place to place.
    #[allow(clippy::vec_box)]
    pub(crate) flights: Vec<Box<Flight<'d, Q, T>>>,
    pub(crate) held: Vec<PreparedPart<'d>>,
    /// Waits for durability, in the order of their epochs, or a little later.
    pub(crate) waiting: VecDeque<(Epoch, DurabilityWaiter)>,
    /// Requests that wait for their turn, where parts are prepared in order.
    pub(crate) queue: VecDeque<WaitingRequest<Q::Action>>,
    pub(crate) own_turn: OwnTurn,
    /// Parts of others that have let their rows go.
    pub(crate) released: u64,
    pub(crate) done: Vec<Done<Q, T>>,
    pub(crate) sequence: u64,
    pub(crate) counts: Counts,
    buffer: Vec<u8>,
    pub(crate) routes: Routes,
    pub(crate) actions: Vec<Q::Action>,
    /// True if it has sent its goodbye.
    pub(crate) leaving: bool,
    echoes: Echoes<Q::Action, Q::Output>,
    /// Decisions that it received, of parts that another worker here holds: acknowledged when
    /// those have ended.
    pub(crate) late: Vec<(GlobalId, usize)>,
    /// Closed until all others have detected that its instance was gone.
    pub(crate) gate: Option<Gate<P>>,
    pub(crate) act: Vec<Action>,
    pub(crate) answers: Vec<ParticipantAction>,
    /// True if all links ring the bell.
    pub(crate) all_ring: bool,
    /// True if polling the links is a system call.
    polls_by_call: bool,
    /// Polls all links in one call, where there are several.
    watch: Option<Watch<P>>,
    /// Numbers of the peers that the watch is for.
    watched: Vec<usize>,
    /// Places of links that may have something: empty but within a poll.
    found: Vec<usize>,
    /// True if there may be something that no bell rings for again.
    more: bool,
    /// Turns since something has come, or was waited for.
    pub(crate) quiet_turns: u32,
    /// True if something is to be sent.
    pub(crate) unsent: bool,
}

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// A member that waits at `bell` and has these connections, one to each worker of each other
    /// instance.
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
        let mut member = Member {
            setting,
            bell,
            peers,
            peer_of,
            flights: Vec::new(),
            held: Vec::new(),
            waiting: VecDeque::new(),
            queue: VecDeque::new(),
            own_turn: OwnTurn::default(),
            released: 0,
            done: Vec::new(),
            sequence,
            counts: Counts::default(),
            buffer: vec![0; LINK_BYTES_MAX],
            routes: Routes::new(),
            actions: Vec::new(),
            leaving: false,
            echoes: Echoes::default(),
            late: Vec::new(),
            gate: None,
            act: Vec::new(),
            answers: Vec::new(),
            all_ring: false,
            polls_by_call: false,
            watch: None,
            watched: Vec::new(),
            found: Vec::new(),
            more: false,
            quiet_turns: 0,
            unsent: true,
        };
        member.links_changed();
        for number in 0..member.peers.len() {
            member.send_hello(number)?;
        }
        Ok(member)
    }

    /// Links have come or gone.
    pub(crate) fn links_changed(&mut self) {
        self.all_ring = self.peers.iter().filter_map(Peer::receiver).all(Receiver::rings);
        self.polls_by_call = self.peers.iter().filter_map(Peer::receiver).any(Receiver::calls);
        self.watch = None;
        self.peers.iter_mut().for_each(|peer| peer.ready = true);
    }

    /// Sends a peer the greeting, which is the first message of a link.
    pub(crate) fn send_hello(&mut self, peer: usize) -> Result<(), MemberError> {
        let Setting { me, fingerprint, .. } = self.setting;
        let peer = &mut self.peers[peer];
        let hello: ProcedureMessage<Q> =
            Message::Hello { version: VERSION, fingerprint, from: me, to: peer.name };
        encode(&hello, &mut peer.out).map_err(|why| MemberError::Unsendable { to: peer.name, why })
    }

    /// Sends a peer the goodbye.
    pub(crate) fn send_goodbye(&mut self, peer: usize) -> Result<(), MemberError> {
        let peer = &mut self.peers[peer];
        let goodbye = encode(&ProcedureMessage::<Q>::Goodbye, &mut peer.out);
        goodbye.map_err(|why| MemberError::Unsendable { to: peer.name, why })
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The messages to each of this many instances.
    pub fn messages_to(&self, instances: usize) -> Vec<u64> {
        let mut messages = vec![0; instances];
        for peer in &self.peers {
            messages[usize::from(peer.name.instance)] += peer.messages;
        }
        messages
    }

    /// Transactions that were submitted and have not ended.
    pub fn open(&self) -> usize {
        self.flights.iter().filter(|flight| flight.work.is_some()).count()
    }

    /// Sends the goodbye, once it has nothing under way: the caller submits no more transactions.
    /// Returns true if all others have, too, and no worker waits for this member any more. A peer
    /// that is lost has not: what comes back needs this member.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn leave(&mut self, c: P::Core) -> Result<bool, MemberError> {
        // What has ended and was not reported yet may be tried again.
        if !self.leaving && self.flights.is_empty() && self.done.is_empty() {
            self.leaving = true;
            for number in 0..self.peers.len() {
                if self.peers[number].is_reachable() {
                    self.send_goodbye(number)?;
                }
            }
            self.flush(c)?;
        }
        let holds = self.held.iter().any(|held| held.prepared.is_some());
        let holds = holds || !self.waiting.is_empty() || !self.queue.is_empty();
        Ok(self.leaving && !holds && self.peers.iter().all(|peer| peer.left && !peer.has_more()))
    }

    /// Returns true if it has nothing to do until something comes: nothing is under way, nor to be
    /// sent, nor to become durable.
    pub fn is_idle(&self) -> bool {
        let holds = !self.held.is_empty() || !self.queue.is_empty();
        self.flights.is_empty() && !holds && self.waiting.is_empty() && !self.unsent
    }

    /// Returns true if another worker has sent its goodbye.
    pub fn has_departed_peer(&self) -> bool {
        self.peers.iter().any(|peer| peer.left)
    }

    /// Returns where a transaction runs, as far as its procedure has that ([`Procedure::homes`]).
    #[inline]
    pub fn home_instance(&self, procedure: &impl Procedure) -> HomeInstance {
        let Setting { me, map, .. } = self.setting;
        let mut here = true;
        match procedure.homes(&mut |column| here &= map.owner(column).instance == me.instance) {
            false => HomeInstance::Unknown,
            true if here => HomeInstance::Here,
            true => HomeInstance::Elsewhere,
        }
    }

    /// As [`Self::home_instance`], for a procedure without [`Procedure::homes`]: plans its first
    /// phase, which is forgotten.
    pub fn is_here(&mut self, procedure: &mut impl Procedure<Action = Q::Action>) -> Result<bool, Abort> {
        let mut here = true;
        self.instances_of(procedure, &mut |_, is_here| here &= is_here)?;
        Ok(here)
    }

    /// The only other instance that a transaction touches in its first phase, which is forgotten;
    /// `None` if there are several.
    pub fn other_instance(
        &mut self,
        procedure: &mut impl Procedure<Action = Q::Action>,
    ) -> Result<Option<u16>, Abort> {
        let (mut other, mut several) = (None, false);
        self.instances_of(procedure, &mut |instance, is_here| {
            several |= !is_here && other.is_some_and(|other| other != instance);
            other = if is_here { other } else { Some(instance) };
        })?;
        Ok(other.filter(|_| !several))
    }

    /// Calls `visit` with the instance of each action of a transaction's first phase, and true if
    /// that is this one.
    fn instances_of(
        &mut self,
        procedure: &mut impl Procedure<Action = Q::Action>,
        visit: &mut dyn FnMut(u16, bool),
    ) -> Result<(), Abort> {
        let mut actions = std::mem::take(&mut self.actions);
        actions.clear();
        let planned = procedure.plan(0, &mut actions) == Plan::Run;
        let me = self.setting.me.instance;
        let visited = actions.iter().filter(|_| planned).try_for_each(|action| {
            let instance = self.instance_of(action)?;
            visit(instance, instance == me);
            Ok(())
        });
        self.actions = actions;
        visited
    }

    /// The instance to which an action belongs.
    pub fn instance_of(&mut self, action: &Q::Action) -> Result<u16, Abort> {
        let Setting { map, tables, .. } = self.setting;
        self.routes.clear();
        Q::route(tables, action, &mut self.routes);
        map.place(&self.routes).map(|owner| owner.instance)
    }

    pub(crate) fn peer(&self, name: WorkerName) -> Result<usize, MemberError> {
        let peer = self.peer_of.get(usize::from(name.worker)).copied().flatten();
        peer.map(|number| number as usize).ok_or(MemberError::NoLink(name))
    }

    /// Adds a message to what leaves at the end of the turn.
    pub(crate) fn send(
        &mut self,
        c: P::Core,
        peer: usize,
        message: &ProcedureMessage<Q>,
    ) -> Result<(), MemberError> {
        let to = self.peers[peer].name;
        self.try_send(c, peer, message).map_err(|why| MemberError::Unsendable { to, why })
    }

    /// As [`Self::send`], of a message that may be too long.
    pub(crate) fn try_send(
        &mut self,
        c: P::Core,
        peer: usize,
        message: &ProcedureMessage<Q>,
    ) -> Result<(), Unsendable> {
        let to = &mut self.peers[peer];
        if !to.is_reachable() {
            return Ok(());
        }
        let before = to.out.len();
        encode(message, &mut to.out)?;
        let bytes = to.out.len() - before;
        self.count_message(c, peer, bytes);
        Ok(())
    }

    /// As [`Self::send`], of a message that is a frame already.
    pub(crate) fn send_frame(&mut self, c: P::Core, peer: usize, frame: &[u8]) {
        let to = &mut self.peers[peer];
        if to.is_reachable() {
            to.out.extend_from_slice(frame);
            self.count_message(c, peer, frame.len());
        }
    }

    /// A message of this many bytes is to leave.
    fn count_message(&mut self, c: P::Core, peer: usize, bytes: usize) {
        // It is copied to the stream, and summed.
        P::work(c, Work::CopyWord, 2 * (bytes as u32).div_ceil(8));
        self.peers[peer].messages += 1;
        self.counts.messages += 1;
        self.unsent = true;
    }

    /// Returns true if it is time to poll the links: a message has come, or may have.
    #[inline]
    fn is_poll_due(&mut self, c: P::Core) -> bool {
        self.quiet_turns = self.quiet_turns.wrapping_add(1);
        self.quiet_turns <= BUSY_TURNS && !self.polls_by_call
            || !self.all_ring
            || self.more
            || self.quiet_turns.is_multiple_of(POLL_TURNS)
            || self.bell.take_news(c)
    }

    /// Receives messages, processes them, and sends messages. What has ended is appended to `done`.
    /// Returns true if a message has come.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn turn(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        done: &mut Vec<Done<Q, T>>,
    ) -> Result<bool, MemberError> {
        let polls = self.is_poll_due(c);
        let mut result = Ok(false);
        let durable = self.waiting.front().is_some_and(|(epoch, _)| session.is_durable(*epoch));
        if polls || self.unsent || durable || !self.late.is_empty() || !self.queue.is_empty() {
            session.measure(Some(Category::Communication));
            result = self.take_turn(c, session, polls);
            session.measure(None);
        }
        done.append(&mut self.done);
        result
    }

    fn take_turn(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        polls: bool,
    ) -> Result<bool, MemberError> {
        let mut some = false;
        if polls {
            self.poll(c);
        }
        for number in 0..if polls { self.peers.len() } else { 0 } {
            let peer = &mut self.peers[number];
            if !peer.ready && !peer.more {
                continue;
            }
            let from = peer.name;
            let came = match peer.receive(c, &mut self.buffer) {
                // It has left as it should.
                Err(end) if end.is_end() && peer.left && (self.leaving || !self.setting.durable) => false,
                Err(ReceiveError::Closed | ReceiveError::Damaged(_)) if self.setting.durable => {
                    self.lose_peer(c, session, number)?;
                    false
                }
                came => came.map_err(|error| MemberError::Receive { from, error })?,
            };
            self.more |= self.peers[number].more;
            if !came {
                continue;
            }
            some = true;
            loop {
                let next = self.peers[number].inbox.take::<Q::Action, Q::Output>();
                let next = next.map_err(|error| MemberError::Message { from, error })?;
                let Some((message, bytes)) = next else { break };
                P::work(c, Work::CopyWord, 2 * (bytes as u32).div_ceil(8));
                let one_in = self.setting.duplicate_one_in;
                let again =
                    if one_in == 0 { Vec::new() } else { self.echoes.after(number, &message, one_in) };
                self.receive(c, session, number, message)?;
                self.receive_again(c, session, number, again)?;
            }
        }
        self.advance_durable(c, session)?;
        self.acknowledge_late(c, session)?;
        self.start_own_turns(c, session)?;
        self.serve_queue(c, session)?;
        self.check_gate(c);
        if some {
            // There may be more than is taken in one turn.
            self.quiet_turns = 0;
        }
        self.flush(c)?;
        Ok(some)
    }

    /// Receives messages again, for tests.
    fn receive_again(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        again: Vec<ProcedureMessage<Q>>,
    ) -> Result<(), MemberError> {
        for message in again {
            // What is answered to it is no message of the protocol's count.
            let messages = self.counts.messages;
            self.receive(c, session, peer, message)?;
            self.counts.messages = messages;
            self.counts.echoes += 1;
        }
        Ok(())
    }

    /// Finds out which links may have something.
    fn poll(&mut self, c: P::Core) {
        self.more = false;
        if !self.polls_by_call || self.peers.len() < 2 {
            return;
        }
        let Member { peers, watch, watched, found, .. } = self;
        let watch = watch.get_or_insert_with(|| {
            *watched = (0..peers.len()).filter(|peer| peers[*peer].linked().is_some()).collect();
            Watch::new(c, &peers.iter().filter_map(Peer::linked).collect::<Vec<_>>())
        });
        peers.iter_mut().for_each(|peer| peer.ready = false);
        watch.poll(c, peers.iter().filter_map(Peer::linked), |place| found.push(watched[place]));
        found.drain(..).for_each(|peer| peers[peer].ready = true);
    }

    /// Sends messages, as far as links take them.
    fn flush(&mut self, c: P::Core) -> Result<(), MemberError> {
        self.unsent = false;
        for peer in &mut self.peers {
            let sent = if peer.has_more() { peer.flush(c, self.setting.durable) } else { Ok(0) };
            self.counts.packets += sent.map_err(|error| MemberError::Send { to: peer.name, error })?;
            self.unsent |= peer.has_more();
        }
        Ok(())
    }

    /// Waits until something comes, or the deadline has passed, which counts for this category. May
    /// return early.
    pub fn wait(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        category: Category,
        deadline: Nanos,
    ) {
        self.wait_or(c, session, category, deadline, &mut |_| false);
    }

    /// As [`Self::wait`], or until `ready` returns true: a worker that makes it true rings this
    /// worker's bell afterwards.
    pub fn wait_or(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        category: Category,
        deadline: Nanos,
        ready: &mut dyn FnMut(P::Core) -> bool,
    ) {
        let soon = P::now(c).plus(FULL_NANOS);
        let full = self.unsent;
        let deadline = if full { deadline.min(soon) } else { deadline };
        let receivers = self.peers.iter().filter_map(Peer::receiver);
        session.idle();
        session.measure(Some(category));
        platform::link::wait(c, &self.bell, receivers, ready, Some(deadline));
        session.measure(None);
        self.quiet_turns = 0;
        self.more = true;
    }

    fn receive(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        message: ProcedureMessage<Q>,
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        let is_hello = matches!(message, Message::Hello { .. });
        let is_late = matches!(message, Message::Request { .. }) && self.peers[peer].left;
        if is_hello == self.peers[peer].greeted || is_late {
            return Err(MemberError::Message { from, error: MessageError::Greeting });
        }
        match message {
            Message::Hello { version, fingerprint, from: who, to } => {
                let result = self.greet(peer, version, fingerprint, who, to);
                result.map_err(|error| MemberError::Message { from, error })
            }
            Message::Request { id, is_last, only_reads, actions } => {
                let request = WaitingRequest { peer, id, is_last, only_reads, actions, since: P::now(c) };
                self.serve_in_order(c, session, request)
            }
            Message::Vote { id, result } => self.receive_vote(c, session, peer, id, result),
            Message::Decision { id, commit } => self.receive_decision(c, session, peer, id, commit),
            Message::Acknowledgement { id } => {
                let Some((flight, part)) = self.part_here(id, from.instance) else { return Ok(()) };
                self.step(c, session, flight, Event::Acknowledged { from: part }, from)
            }
            Message::Inquiry { id } => self.receive_inquiry(c, session, peer, id),
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
        from: WorkerName,
        to: WorkerName,
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
}

/// The step that continues when its epoch is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DurabilityWaiter {
    /// A part: its vote, or the acknowledgement of its commit.
    Part(GlobalId),
    /// A decision.
    Decision(GlobalId),
}
