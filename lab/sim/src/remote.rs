//! Connections between machines: one direction each.
//!
//! A message is copied into the kernel of the sender's machine, passes the
//! [network](crate::network), and is copied out of the kernel of the receiver's machine. No memory
//! is shared. The kernels' buffers are outside the model; their cost is part of the costs of
//! sending and receiving in the description.
//!
//! Deviations: acknowledgements cost nothing; a sender knows at once that the receiver has taken
//! messages from a full link.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::link::{Bell, Limits, ReceiveError, SendError};
use platform::{Nanos, Platform};

use crate::network::Transmission;
use crate::{VirtualCore, VirtualMachine};

/// Messages under way.
#[derive(Default)]
struct Transit {
    /// Arrival and content of each message, in order.
    messages: VecDeque<(u64, Box<[u8]>)>,
    /// Moment at which the last message began to arrive.
    after_ps: u64,
}

/// One direction of a connection between two machines.
pub(crate) struct RemoteDirection {
    /// The sender's and the receiver's machine.
    machines: [usize; 2],
    bell: Arc<Bell<VirtualMachine>>,
    messages_max: usize,
    delay_ps: u64,
    made_ps: u64,
    transit: Mutex<Transit>,
}

impl RemoteDirection {
    /// A new direction from one machine to the receiver at `bell` on another machine.
    pub(crate) fn new(
        c: VirtualCore,
        machines: [usize; 2],
        bell: Arc<Bell<VirtualMachine>>,
        limits: Limits,
    ) -> RemoteDirection {
        let (delay_ps, made_ps) = (c.simulation().network().draw_delay(), c.fiber().clock_ps.get());
        let transit = Mutex::default();
        RemoteDirection { machines, bell, messages_max: limits.messages_max, delay_ps, made_ps, transit }
    }

    /// The planned cut of the link.
    fn cut_ps(&self, c: VirtualCore) -> u64 {
        c.simulation().network().cut_ps(self.machines, self.made_ps)
    }

    /// True if the link is cut.
    fn is_cut(&self, c: VirtualCore) -> bool {
        let now_ps = c.fiber().clock_ps.get();
        c.simulation().network().is_cut(self.machines, self.made_ps, now_ps)
    }

    fn transit(&self) -> MutexGuard<'_, Transit> {
        self.transit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that an end is used on its machine only.
    fn check(c: VirtualCore, machine: usize) {
        let here = c.machine();
        assert!(
            c.fiber().is_supervisor() || here == machine,
            "a core of machine {here} uses an end of a link that belongs to machine {machine}"
        );
    }

    pub(crate) fn send(&self, c: VirtualCore, message: &[u8]) -> Result<(), SendError> {
        RemoteDirection::check(c, self.machines[0]);
        let simulation = c.simulation();
        let costs = &simulation.config.model.costs;
        if !c.turn() {
            return Ok(());
        }
        if self.is_cut(c) {
            c.spend_in_system(costs.system_call_ps);
            return Err(SendError::Closed);
        }
        if self.transit().messages.len() >= self.messages_max {
            c.spend_in_system(costs.system_call_ps);
            return Err(SendError::Full);
        }
        c.spend_in_system(costs.sending_ps(message.len()));
        if !c.turn() {
            return Ok(());
        }
        let now_ps = c.fiber().clock_ps.get();
        let mut transit = self.transit();
        let (machines, delay_ps, after_ps) = (self.machines, self.delay_ps, transit.after_ps);
        let transmission = Transmission { machines, bytes: message.len(), delay_ps, after_ps };
        let (begins_ps, arrival_ps) = simulation.network().transmit(transmission, now_ps);
        transit.after_ps = begins_ps;
        transit.messages.push_back((arrival_ps, message.into()));
        drop(transit);
        // A message lost in a cut is noticed at the cut.
        simulation.ring_at(self.bell.rings(), arrival_ps.min(self.cut_ps(c)));
        Ok(())
    }

    /// Moment at which there is something to receive, a message or the end of the link, rounded up
    /// to the clock's nanoseconds.
    pub(crate) fn next(&self, c: VirtualCore) -> Option<Nanos> {
        let arrival = self.transit().messages.front().map(|(arrival_ps, _)| *arrival_ps);
        let next_ps = arrival.unwrap_or(u64::MAX).min(self.cut_ps(c));
        (next_ps != u64::MAX).then(|| Nanos(next_ps.div_ceil(1000)))
    }

    /// Receives the next message, which has arrived.
    pub(crate) fn receive(&self, c: VirtualCore, buffer: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        RemoteDirection::check(c, self.machines[1]);
        if !c.turn() {
            return Ok(None);
        }
        // Messages that would arrive after the cut are lost.
        let cut_ps = self.cut_ps(c);
        let mut transit = self.transit();
        let arrives = transit.messages.front().is_some_and(|(arrival_ps, _)| *arrival_ps < cut_ps);
        let next = if arrives { transit.messages.pop_front() } else { None };
        drop(transit);
        let Some((arrival_ps, message)) = next else {
            c.spend_in_system(c.simulation().config.model.costs.system_call_ps);
            return if self.is_cut(c) { Err(ReceiveError::Closed) } else { Ok(None) };
        };
        let simulation = c.simulation();
        let costs = &simulation.config.model.costs;
        let (core, now_ps) = (c.fiber().seat.get().core as usize, c.fiber().clock_ps.get());
        if simulation.network().interrupts(core, arrival_ps, now_ps) {
            c.spend_in_system(costs.interrupt_ps);
        }
        c.spend_in_system(costs.receiving_ps(message.len()));
        buffer[..message.len()].copy_from_slice(&message);
        Ok(Some(message.len()))
    }

    /// Charges a poll without a message.
    pub(crate) fn charge_poll(&self, c: VirtualCore) {
        c.spend_in_system(c.simulation().config.model.costs.system_call_ps);
    }

    /// Sleeps until a message may have arrived.
    pub(crate) fn sleep(&self, c: VirtualCore, deadline: Option<Nanos>) {
        let ready = &mut |c| self.next(c).is_some_and(|at| at <= VirtualMachine::now(c));
        self.bell.wait(c, 0, ready, deadline);
    }
}
