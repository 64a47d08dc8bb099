//! A member's own transactions over several instances: it begins them, receives votes, runs its own
//! part, and ends them.

use boundary::{AnySession, Bounds, Outcome, Plan, Procedure};
use platform::Intent;
use platform::link::Links;
use terms::{Abort, Fault};

use crate::flight::{End, Failure, Flight, Numbered, OwnPart, OwnPartRunner, Part};
use crate::map::WorkerName;
use crate::member::{DurabilityWaiter, Member, ProcedureMessage};
use crate::messages::{GlobalId, Message, Refusal, SEQUENCE_BITS, encode};
use crate::protocol::{Action, Attempt, Coordinator, Event, Flow, messages};
use crate::setting::{Done, MemberError, Setting};

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// Begins an attempt of a transaction over several instances. Its end comes with a later
    /// [`Self::turn`].
    ///
    /// # Errors
    /// The deployment is broken.
    pub fn submit(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        procedure: Q,
        ticket: T,
        bounds: Bounds,
    ) -> Result<(), MemberError> {
        self.own_turn.is_over();
        self.begin(c, session, procedure, ticket, bounds, true)
    }

    fn begin(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut procedure: Q,
        ticket: T,
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
        let missing = parts.iter().find(|part| self.is_missing(part.owner));
        if let Some(worker) = missing.map(|part| part.owner) {
            self.done.push(Done { procedure, ticket, end: End::Missing(worker) });
            return Ok(());
        }
        if !parts.is_empty() && !has_number_after(self.sequence) {
            let what = "this instance has used up the numbers of its transactions: open it anew";
            self.done.push(Done { procedure, ticket, end: End::of(Abort::Misuse(what)) });
            return Ok(());
        }
        // The own part would lock first, and the other instance comes before this one.
        let Setting { me, in_order, own_first, .. } = self.setting;
        let is_out_of_order = in_order && parts.iter().any(|part| part.owner.instance < me.instance);
        let mut own = self.own();
        if parts.is_empty() {
            let prepared = own.prepare(session, &bounds, &mut procedure, &here, Some(Vec::new()));
            self.done.push(Done { procedure, ticket, end: committed(session, prepared) });
            return Ok(());
        }
        let flow = match procedure.read_only() && may_be_last && parts.len() == 1 && !is_out_of_order {
            true => Flow::Last,
            false => Flow::First,
        };
        let locks_first = own_first && !in_order && !here.is_empty() && procedure.has_one_phase();
        let mut early = None;
        if flow == Flow::Last || locks_first {
            match own.prepare(session, &bounds, &mut procedure, &here, None) {
                Ok(part) if !part.rolls_back => early = Some(part),
                ended => {
                    self.done.push(Done { procedure, ticket, end: committed(session, ended) });
                    return Ok(());
                }
            }
        }
        self.sequence += 1;
        let id = GlobalId { coordinator: self.setting.me, sequence: self.sequence };
        let requested = match in_order && flow == Flow::First {
            true => self.request_in_turn(id, parts)?,
            false => self.send_requests(c, id, flow, parts)?,
        };
        let RequestedParts { coordinator, parts, requests, act } = match requested {
            Ok(requested) => requested,
            Err(failure) => {
                if let Some(early) = early {
                    session.finish(early.prepared, false);
                }
                self.done.push(Done { procedure, ticket, end: End::Failed(failure) });
                return Ok(());
            }
        };
        let flight = Flight {
            id,
            work: Some((procedure, ticket)),
            bounds,
            coordinator,
            parts,
            requests,
            here,
            outputs: Vec::new(),
            early,
            refused: None,
            decided: None,
        };
        self.perform(c, session, Box::new(flight), act, me)?;
        self.start_own_turns(c, session)
    }

    /// Sends the first request, in the order of the instances. All requests are made now: so all of
    /// them can be sent, or none is.
    fn request_in_turn(
        &mut self,
        id: GlobalId,
        mut parts: Vec<PartRequest<Q::Action>>,
    ) -> Result<Result<RequestedParts, Failure>, MemberError> {
        let Setting { me, faults, .. } = self.setting;
        parts.sort_unstable_by_key(|part| part.owner.instance);
        let own_after = parts.partition_point(|part| part.owner.instance < me.instance);
        let mut act = std::mem::take(&mut self.act);
        let only_reads = parts.iter().map(|part| part.only_reads);
        let coordinator = Coordinator::in_turn(only_reads, own_after, faults, &mut act);
        let (mut requested, mut requests) =
            (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for PartRequest { owner, only_reads, numbers, actions } in parts {
            let mut frame = Vec::new();
            let request: ProcedureMessage<Q> = Message::Request { id, is_last: false, only_reads, actions };
            if let Err(why) = encode(&request, &mut frame) {
                return Ok(Err(Failure::UnsendableRequest { at: owner, why }));
            }
            requests.push(frame);
            requested.push(Part { peer: self.peer(owner)?, actions: numbers });
        }
        Ok(Ok(RequestedParts { coordinator, parts: requested, requests, act }))
    }

    /// Sends all requests, or none of them if one cannot be sent.
    fn send_requests(
        &mut self,
        c: P::Core,
        id: GlobalId,
        flow: Flow,
        parts: Vec<PartRequest<Q::Action>>,
    ) -> Result<Result<RequestedParts, Failure>, MemberError> {
        let only_reads = parts.iter().map(|part| part.only_reads);
        let coordinator = Coordinator::new(flow, only_reads, self.setting.faults);
        let mut requested: Vec<Part> = Vec::with_capacity(parts.len());
        for PartRequest { owner, only_reads, numbers, actions } in parts {
            let peer = self.peer(owner)?;
            self.peers[peer].mark();
            let request = Message::Request { id, is_last: flow == Flow::Last, only_reads, actions };
            if let Err(why) = self.try_send(c, peer, &request) {
                for part in requested {
                    self.counts.messages -= u64::from(self.peers[part.peer].take_back());
                }
                return Ok(Err(Failure::UnsendableRequest { at: owner, why }));
            }
            requested.push(Part { peer, actions: numbers });
        }
        let act = std::mem::take(&mut self.act);
        Ok(Ok(RequestedParts { coordinator, parts: requested, requests: Vec::new(), act }))
    }

    fn own(&mut self) -> OwnPartRunner<'d, '_, Q> {
        let Setting { me, tables, map, .. } = self.setting;
        OwnPartRunner { tables, map, me, actions: &mut self.actions, routes: &mut self.routes }
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
            let same = |part: &&mut PartRequest<_>| part.owner.instance == owner.instance;
            match divided.parts.iter_mut().find(same) {
                Some(part) => {
                    part.only_reads &= only_reads;
                    part.numbers.push(number);
                    part.actions.push(action);
                }
                None => {
                    let (numbers, actions) = (vec![number], vec![action]);
                    divided.parts.push(PartRequest { owner, only_reads, numbers, actions });
                }
            }
        }
        Ok(divided)
    }

    pub(crate) fn receive_vote(
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
                Ok(_) => self.send(c, peer, &Message::Decision { id, commit: false }),
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
        self.step(c, session, number, Event::Voted { from: part, yes }, from)?;
        self.start_own_turns(c, session)
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
        self.perform(c, session, flight, act, from)
    }

    /// Does what a coordinator wants.
    pub(crate) fn perform(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut flight: Box<Flight<'d, Q, T>>,
        mut act: Vec<Action>,
        from: WorkerName,
    ) -> Result<(), MemberError> {
        let illegal = |error| MemberError::Illegal { from, error };
        let mut forget = false;
        let mut again = None;
        let mut next = 0;
        while let Some(action) = act.get(next).copied() {
            next += 1;
            match action {
                Action::SendRequest { to } => {
                    let frame = std::mem::take(&mut flight.requests[to]);
                    self.send_frame(c, flight.parts[to].peer, &frame);
                }
                Action::Run => {
                    let committed = self.run_own(session, &mut flight);
                    flight.coordinator.step(Event::Ran { committed }, &mut act).map_err(illegal)?;
                }
                Action::AwaitDurable => match flight.decided {
                    Some(epoch) if !session.is_durable(epoch) => {
                        self.waiting.push_back((epoch, DurabilityWaiter::Decision(flight.id)));
                    }
                    _ => flight.coordinator.step(Event::Durable, &mut act).map_err(illegal)?,
                },
                Action::SendDecision { to, commit } => {
                    let (id, peer) = (flight.id, flight.parts[to].peer);
                    self.send(c, peer, &Message::Decision { id, commit })?;
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
            Some(((procedure, ticket), bounds)) => self.begin(c, session, procedure, ticket, bounds, false),
            None => Ok(()),
        }
    }

    /// Runs the own part after all others, unless it has locked already, and commits it.
    fn run_own(&mut self, session: &mut (dyn AnySession<'d> + 'd), flight: &mut Flight<'d, Q, T>) -> bool {
        let Some((procedure, _)) = &mut flight.work else { return false };
        let outputs = std::mem::take(&mut flight.outputs);
        let prepared = match flight.early.take() {
            Some(early) => {
                let rolls_back = plan_after(procedure, outputs, &mut self.actions) != Plan::Commit;
                Ok(OwnPart { rolls_back, ..early })
            }
            None => self.own().prepare(session, &flight.bounds, procedure, &flight.here, Some(outputs)),
        };
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

    /// Returns true if others have to receive its decision, also after a crash.
    fn leaves_decision(&self, flight: &Flight<'d, Q, T>) -> bool {
        let (changing, _) = flight.coordinator.counts();
        self.setting.durable && !self.setting.faults.has(Fault::UnloggedDecision) && changing > 0
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
        let (changing, reading) = flight.coordinator.counts();
        self.counts.expected += messages(flight.coordinator.flow(), changing, reading, attempt);
        let (mut procedure, ticket) = flight.work.take()?;
        let mut end = flight.refused.take().unwrap_or(End::Conflict);
        if let Some(early) = flight.early.take() {
            if committed {
                let outputs = std::mem::take(&mut flight.outputs);
                match plan_after(&mut procedure, outputs, &mut self.actions) {
                    Plan::Commit => end = finished(session, early, Outcome::Commit),
                    Plan::RollBack => {
                        session.finish(early.prepared, false);
                        end = End::RolledBack(early.read_until);
                    }
                    // More is to be read, and the other instance has let its rows go.
                    Plan::Run => {
                        session.finish(early.prepared, false);
                        return Some(((procedure, ticket), flight.bounds));
                    }
                }
            } else {
                session.finish(early.prepared, false);
            }
        }
        self.done.push(Done { procedure, ticket, end });
        None
    }
}

/// The plan of an own part that has locked already, after phase 0 has run in all instances.
fn plan_after<Q: Procedure>(
    procedure: &mut Q,
    outputs: Numbered<Q::Output>,
    actions: &mut Vec<Q::Action>,
) -> Plan {
    outputs.into_iter().for_each(|(number, output)| procedure.absorb(0, number, output));
    actions.clear();
    procedure.plan(1, actions)
}

/// Returns true if another number of the same incarnation comes after this one.
fn has_number_after(sequence: u64) -> bool {
    (sequence + 1) >> SEQUENCE_BITS == sequence >> SEQUENCE_BITS
}

/// Commits a part that is prepared, or rolls it back if its procedure does.
fn committed<'d>(session: &mut (dyn AnySession<'d> + 'd), prepared: Result<OwnPart<'d>, Abort>) -> End {
    match prepared {
        Ok(prepared) => finished(session, prepared, Outcome::Commit),
        Err(abort) => End::of(abort),
    }
}

fn finished<'d>(
    session: &mut (dyn AnySession<'d> + 'd),
    OwnPart { prepared, rolls_back, read_until }: OwnPart<'d>,
    outcome: Outcome<'_>,
) -> End {
    if rolls_back {
        session.finish(prepared, false);
        return End::RolledBack(read_until);
    }
    let commit = session.finish_as(prepared, outcome);
    commit.map_or(End::Conflict, End::Committed)
}

/// The actions of a first phase.
struct Divided<A> {
    here: Vec<(usize, A)>,
    parts: Vec<PartRequest<A>>,
}

impl<A> Default for Divided<A> {
    fn default() -> Self {
        Divided { here: Vec::new(), parts: Vec::new() }
    }
}

/// A transaction whose requests were sent, or are about to be.
struct RequestedParts {
    coordinator: Coordinator,
    parts: Vec<Part>,
    requests: Vec<Vec<u8>>,
    /// The first actions of the coordinator.
    act: Vec<Action>,
}

/// The part that is requested from another instance.
struct PartRequest<A> {
    owner: WorkerName,
    only_reads: bool,
    numbers: Vec<usize>,
    actions: Vec<A>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_before_those_of_the_next_incarnation() {
        let first = 3 << SEQUENCE_BITS;
        assert!(has_number_after(first) && has_number_after((4 << SEQUENCE_BITS) - 2));
        assert!(!has_number_after((4 << SEQUENCE_BITS) - 1));
    }
}
