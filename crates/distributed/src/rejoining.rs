//! A member's work when the connection to a peer breaks, and when there is a new one; and how an
//! instance that went down comes back while others run on.
//!
//! A peer is *lost* from the moment at which its link closes until the member
//! [reconnects](Member::reconnect) it over another one. At both moments the state machines get an
//! event: coordinators abort what they have not decided, and send again what was not acknowledged;
//! participants roll back what they have not voted for, and inquire about what is in doubt.
//! What was under way on the old link is gone with it. Whether the peer's instance was down or only
//! the connection, makes no difference.
//!
//! An instance that comes back has parts in doubt and decisions that are not forgotten
//! ([`Adopted`]). Its first worker holds all those parts. Decisions are at the worker that made
//! them, or at the first if there is no such worker any more: so participants have an address for
//! inquiries ([`home`]). Coordinators have only the instance of a part: the worker that receives
//! their decision acknowledges when its instance has no part any more that could be in doubt
//! (`AnySession::is_over`).
//!
//! Rows that a part only read are not locked any more when its instance comes back. So the members
//! of the instance run nothing, and prepare nothing for others, until all workers of all other
//! instances have greeted all of them (`gate.rs`): then those have detected that the instance was
//! gone, and have aborted what they had not decided. Instances that are down at that moment have
//! lost what they had not decided, and are not waited for: each comes back by itself.

use boundary::{AnyPrepared, AnySession, Bounds, Database, Decision, PartOf, Procedure};
use platform::Platform;
use platform::link::{Limits, Links};
use terms::{Epoch, Fault};

use crate::flight::{Flight, Part, PreparedPart};
use crate::gate::Gate;
use crate::map::WorkerName;
use crate::member::Member;
use crate::messages::GlobalId;
use crate::peer::Peer;
use crate::protocol::{Coordinator, Event, Participant, ParticipantEvent};
use crate::setting::{Connection, MemberError};

/// Returns the worker that has the decision of a transaction, of `workers`: all workers, or those
/// of the coordinator's instance.
pub fn home(id: GlobalId, workers: impl Iterator<Item = WorkerName> + Clone) -> Option<WorkerName> {
    let here = workers.filter(|worker| worker.instance == id.coordinator.instance);
    here.clone().find(|worker| *worker == id.coordinator).or_else(|| here.min_by_key(|worker| worker.worker))
}

/// Parts and decisions that an instance that comes back has found in its log.
#[derive(Default)]
pub struct Adopted<'d> {
    /// Parts in doubt.
    pub parts: Vec<(PartOf, AnyPrepared<'d>)>,
    /// Decisions that are not forgotten.
    pub decisions: Vec<Decision>,
}

impl<'d> Adopted<'d> {
    /// The part of a database's findings that is for the worker `me` of these workers of its
    /// instance. Parts are found once.
    pub fn of<P: Platform>(
        c: P::Core,
        database: &'d Database<P>,
        me: WorkerName,
        workers: impl Iterator<Item = WorkerName> + Clone,
    ) -> Adopted<'d> {
        let is_first = workers.clone().all(|worker| me.worker <= worker.worker);
        let parts = if is_first { database.in_doubt(c) } else { Vec::new() };
        let mut decisions = database.decisions(c);
        decisions.retain(|decision| home(GlobalId::of(decision.global), workers.clone()) == Some(me));
        Adopted { parts, decisions }
    }
}

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// Takes over what its instance has found, and keeps to itself until the gate is open. The
    /// first call after [`Self::new`].
    ///
    /// # Errors
    /// Something is of an instance that there is not.
    pub fn come_back(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        gate: Gate<P>,
        adopted: Adopted<'d>,
    ) -> Result<(), MemberError> {
        self.gate = Some(gate);
        let faults = self.setting.faults;
        for (part, prepared) in adopted.parts {
            let id = GlobalId::of(part.global);
            if faults.has(Fault::LostDoubt) {
                session.finish(prepared, false);
                continue;
            }
            let names = self.peers.iter().map(|peer| peer.name);
            let peer = self.peer(home(id, names).ok_or(MemberError::NoLink(id.coordinator))?)?;
            let mut act = Vec::new();
            let participant = Participant::in_doubt(faults, &mut act);
            let (prepared, vote, request) = (Some(prepared), None, Vec::new());
            let held = PreparedPart { id, peer, participant, prepared, vote, epoch: Epoch(0), request };
            self.answer(c, session, held, act)?;
        }
        for Decision { global, participants } in adopted.decisions {
            let (id, mut act) = (GlobalId::of(global), Vec::new());
            let first = |instance: &u16| {
                let same = |peer: &Peer<P>| peer.name.instance == *instance;
                let missing = MemberError::NoLink(WorkerName { instance: *instance, worker: 0 });
                let peer = self.peers.iter().position(same).ok_or(missing)?;
                Ok(Part { peer, actions: Vec::new() })
            };
            let parts = participants.iter().map(first).collect::<Result<Vec<_>, MemberError>>()?;
            let flight = Flight {
                id,
                work: None,
                bounds: Bounds::default(),
                coordinator: Coordinator::decided(parts.len(), faults, &mut act),
                parts,
                requests: Vec::new(),
                here: Vec::new(),
                outputs: Vec::new(),
                early: None,
                refused: None,
                decided: Some(Epoch(0)),
            };
            let me = self.setting.me;
            self.perform(c, session, Box::new(flight), act, me)?;
        }
        Ok(())
    }

    /// Peers whose instances are down, and may come back: the first call after [`Self::new`], which
    /// has no connections to them. No worker waits for them: an instance that comes back serves,
    /// and sends the ends of its own transactions, while they are down.
    pub fn expect(&mut self, missing: &[WorkerName]) {
        for name in missing {
            let worker = usize::from(name.worker);
            if self.peer_of.len() <= worker {
                self.peer_of.resize(worker + 1, None);
            }
            self.peer_of[worker] = Some(self.peers.len() as u32);
            self.peers.push(Peer::lost(*name).newly(true));
        }
    }

    /// The link to a worker of another instance is gone, if there is one.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn lose(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        worker: WorkerName,
    ) -> Result<(), MemberError> {
        let peer = self.peer(worker)?;
        self.lose_peer(c, session, peer)
    }

    /// There is another link to a worker of another instance; if there was one, it is gone.
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn reconnect(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        connection: Connection<P>,
    ) -> Result<(), MemberError> {
        let Connection { to, end, limits } = connection;
        let peer = self.peer(to)?;
        self.lose_peer(c, session, peer)?;
        self.replace(peer, end, limits)?;
        self.report_loss(c, session, peer)
    }

    fn replace(
        &mut self,
        peer: usize,
        end: platform::link::End<P>,
        limits: Limits,
    ) -> Result<(), MemberError> {
        let Peer { name, is_new, .. } = self.peers[peer];
        self.peers[peer] = Peer::new(name, end, limits).newly(is_new);
        self.links_changed();
        self.send_hello(peer)?;
        if self.leaving {
            self.send_goodbye(peer)?;
        }
        self.unsent = true;
        self.quiet_turns = 0;
        Ok(())
    }

    /// A worker that is lost, if there is one.
    pub fn missing(&self) -> Option<WorkerName> {
        self.peers.iter().find(|peer| peer.is_lost()).map(|peer| peer.name)
    }

    pub(crate) fn is_missing(&self, worker: WorkerName) -> bool {
        self.peer(worker).is_ok_and(|peer| self.peers[peer].is_lost())
    }

    /// Returns true if it may run transactions: not before all others know that its instance was
    /// gone.
    pub fn is_open(&self) -> bool {
        self.gate.is_none()
    }

    pub(crate) fn check_gate(&mut self, c: P::Core) {
        let Some(gate) = &mut self.gate else { return };
        if gate.is_open(c, || self.peers.iter().all(|peer| peer.greeted || peer.is_new)) {
            self.gate = None;
        }
    }

    pub(crate) fn lose_peer(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
    ) -> Result<(), MemberError> {
        if self.peers[peer].is_lost() {
            return Ok(());
        }
        let Peer { name, is_new, .. } = self.peers[peer];
        self.peers[peer] = Peer::lost(name).newly(is_new);
        self.links_changed();
        self.queue.retain(|request| request.peer != peer);
        self.counts.losses += 1;
        self.report_loss(c, session, peer)
    }

    /// Reports a loss to the state machines: when the link is gone, and again when there is another
    /// one.
    fn report_loss(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        let touched = self.flights.iter().filter(|flight| flight.part_of(peer).is_some());
        for id in touched.map(|flight| flight.id).collect::<Vec<_>>() {
            let flight = self.flights.iter().position(|flight| flight.id == id);
            let Some(flight) = flight else { continue };
            let Some(part) = self.flights[flight].part_of(peer) else { continue };
            self.step(c, session, flight, Event::Lost { from: part }, from)?;
        }
        let touched = self.held.iter().filter(|held| held.peer == peer);
        for id in touched.map(|held| held.id).collect::<Vec<_>>() {
            let Some(number) = self.held.iter().position(|held| held.id == id) else { continue };
            let held = self.held.swap_remove(number);
            self.step_participant(c, session, held, ParticipantEvent::Lost)?;
        }
        Ok(())
    }

    /// The flight of a transaction, and its part in an instance.
    pub(crate) fn part_here(&self, id: GlobalId, instance: u16) -> Option<(usize, usize)> {
        let flight = self.flights.iter().position(|flight| flight.id == id)?;
        let part = self.flights[flight].part_in(instance, |peer| self.peers[peer].name.instance)?;
        Some((flight, part))
    }
}
