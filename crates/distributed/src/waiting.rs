//! A member's waits for durability, and its answers about transactions that have ended.

use boundary::{AnySession, Procedure};
use platform::Nanos;
use platform::link::Links;

use crate::member::{DurabilityWaiter, Member};
use crate::messages::{GlobalId, Message};
use crate::protocol::Event;
use crate::setting::{MemberError, Setting};

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// A part of the peer is in doubt.
    pub(crate) fn receive_inquiry(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        id: GlobalId,
    ) -> Result<(), MemberError> {
        let (from, coordinator) = (self.peers[peer].name, id.coordinator);
        if let Some((flight, part)) = self.part_here(id, from.instance) {
            // The worker that has found the part in doubt need not be the one that got the request.
            self.flights[flight].parts[part].peer = peer;
            return self.step(c, session, flight, Event::Inquired { from: part }, from);
        }
        // Decisions of earlier incarnations are at the worker that gets the inquiry
        // (`rejoining::home`).
        let Setting { me, incarnation, .. } = self.setting;
        if coordinator != me && (coordinator.instance != me.instance || id.incarnation() >= incarnation) {
            return Err(MemberError::Inquiry { from, coordinator });
        }
        // Presumed abort: this worker forgets what is decided only when all have applied it.
        self.send(c, peer, &Message::Decision { id, commit: false })
    }

    /// Acknowledges decisions whose parts other workers here have held, and hold no more.
    pub(crate) fn acknowledge_late(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
    ) -> Result<(), MemberError> {
        for number in (0..self.late.len()).rev() {
            let (id, peer) = self.late[number];
            if session.is_over(id.number()) {
                self.late.swap_remove(number);
                self.send(c, peer, &Message::Acknowledgement { id })?;
            }
        }
        Ok(())
    }

    /// Goes on with what has become durable.
    pub(crate) fn advance_durable(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
    ) -> Result<(), MemberError> {
        while let Some((epoch, waiter)) = self.waiting.front().copied() {
            if !session.is_durable(epoch) {
                break;
            }
            self.waiting.pop_front();
            match waiter {
                DurabilityWaiter::Part(id) => self.part_is_durable(c, session, id)?,
                DurabilityWaiter::Decision(id) => {
                    if let Some(number) = self.flights.iter().position(|flight| flight.id == id) {
                        self.step(c, session, number, Event::Durable, self.setting.me)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Has what waits to be durable become so soon: until then parts keep rows from others.
    pub fn hurry(&self, session: &mut (dyn AnySession<'d> + 'd)) {
        if let Some((epoch, _)) = self.waiting.back() {
            session.hurry(*epoch);
        }
    }

    /// Checks that the waiting epochs can still become durable.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn check_log(&self, session: &mut (dyn AnySession<'d> + 'd)) -> Result<(), MemberError> {
        let Some((epoch, _)) = self.waiting.front() else { return Ok(()) };
        session.wait_durable_until(*epoch, Some(Nanos(0))).map_err(MemberError::Log).map(drop)
    }
}
