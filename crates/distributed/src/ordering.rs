//! Requests in order, where a part locks all that a worker has:
//! [`Setting::in_order`](crate::Setting::in_order).
//!
//! A worker that refused what it cannot prepare at once would receive it again soon, and nearly
//! always too soon; and two workers, each of which holds what the other one needs for its own part,
//! would both give up. So requests wait in a queue until there is room, and locks are taken in the
//! order of the instances: a worker that sends a later instance a request keeps its own part free
//! from then on, until the decision is sent, and lets parts for others wait; a worker that sends an
//! earlier instance a request serves others, since it waits for the earlier instance first. So of
//! two that need each other's partition, the one that gets that of the earlier instance gets the
//! other one too. The requests of a transaction to several instances leave one after the other, to
//! earlier instances first, and its own part has its turn among them: there it waits until the
//! parts of others have ended, and is kept free from then on. So a worker that waits for a
//! transaction waits for one that needs later instances alone, and no circle closes. Partitions
//! that several workers of an instance lock are in no such order: so waits have an end.

use boundary::{AnySession, Procedure};
use platform::link::Links;

use crate::flight::WaitingRequest;
use crate::member::Member;
use crate::messages::{Message, Refusal};
use crate::protocol::Event;
use crate::setting::MemberError;

/// Longest wait of a request: several times what two groups of a log take.
const WAIT_NANOS_MAX: u64 = 50_000_000;

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// Returns true if it holds a part of another worker, which keeps its rows.
    pub fn holds_part(&self) -> bool {
        self.held.iter().any(|held| held.prepared.is_some())
    }

    /// How many parts of other workers have let their rows go so far.
    pub fn parts_released(&self) -> u64 {
        self.released
    }

    /// Returns true if a transaction over several instances can be submitted that will not have to
    /// give up soon: always, unless parts are prepared in order.
    pub fn can_submit(&self) -> bool {
        let is_next = self.queue.is_empty() || self.own_turn.is_next;
        !self.setting.in_order || is_next && !self.holds_part() && !self.has_undecided()
    }

    /// Returns true if an own transaction is under way whose decision is not sent.
    fn has_undecided(&self) -> bool {
        self.flights.iter().any(|flight| flight.coordinator.is_open())
    }

    /// Sets whether the caller has transactions to submit as soon as it [can](Self::can_submit):
    /// then parts for others and own transactions take turns.
    pub fn wait_for_turn(&mut self, waits: bool) {
        self.own_turn.waits = waits;
    }

    /// Returns true if what this worker has is taken: by a part of another worker, or for its own
    /// part of a transaction with a request to a later instance.
    fn is_taken(&self) -> bool {
        let me = self.setting.me.instance;
        let is_later = |peer: usize| self.peers[peer].name.instance > me;
        self.holds_part()
            || self.own_turn.is_next && self.own_turn.waits && !self.has_undecided()
            || self.flights.iter().any(|flight| {
                let (coordinator, is_early) = (&flight.coordinator, flight.early.is_some());
                let mut requested = flight.parts[..coordinator.requested()].iter();
                let requests_later = coordinator.is_open() && requested.any(|part| is_later(part.peer));
                is_early || requests_later || coordinator.waits_for_own()
            })
    }

    /// Continues transactions whose own part has its turn, once this worker holds no part of
    /// another one.
    pub(crate) fn start_own_turns(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
    ) -> Result<(), MemberError> {
        while self.setting.in_order && !self.holds_part() {
            let waits = self.flights.iter().position(|flight| flight.coordinator.waits_for_own());
            let Some(flight) = waits else { break };
            self.step(c, session, flight, Event::Kept, self.setting.me)?;
        }
        Ok(())
    }

    /// Prepares a part for another worker, now or when its turn has come.
    pub(crate) fn serve_in_order(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        request: WaitingRequest<Q::Action>,
    ) -> Result<(), MemberError> {
        if self.queue.iter().any(|waiting| waiting.id == request.id) {
            // It was received twice.
            return Ok(());
        }
        let is_known = self.held.iter().any(|held| held.id == request.id);
        if self.setting.in_order && !is_known && (!self.queue.is_empty() || self.is_taken()) {
            self.queue.push_back(request);
            return Ok(());
        }
        self.own_turn.is_next = true;
        self.serve(c, session, request)
    }

    /// Continues requests whose turn has come, and refuses those that have waited too long.
    pub(crate) fn serve_queue(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
    ) -> Result<(), MemberError> {
        while !self.queue.is_empty() && !self.is_taken() {
            let Some(request) = self.queue.pop_front() else { break };
            self.own_turn.is_next = true;
            self.serve(c, session, request)?;
        }
        while let Some(waiting) = self.queue.front() {
            if P::now(c).since(waiting.since) < WAIT_NANOS_MAX {
                break;
            }
            let (peer, id) = (waiting.peer, waiting.id);
            self.queue.pop_front();
            self.counts.refused += 1;
            self.send(c, peer, &Message::Vote { id, result: Err(Refusal::Conflict) })?;
        }
        Ok(())
    }
}
