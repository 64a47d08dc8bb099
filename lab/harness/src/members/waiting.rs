//! Transactions of a worker of one of several instances that wait: for their next attempt, or until
//! the worker can send requests.

use std::collections::VecDeque;

use platform::Nanos;

use crate::members::pace::Pace;
use crate::requests::Origin;
use crate::retry::Deferred;

/// The record of a transaction over several instances, while it is in flight.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    pub began: Nanos,
    pub attempts: u32,
    pub origin: Origin,
}

/// The records of transactions that are submitted as one.
pub(crate) struct Tickets {
    pub first: Ticket,
    pub more: Vec<Ticket>,
    pub submitted: Nanos,
}

impl Tickets {
    pub(crate) fn one(first: Ticket, submitted: Nanos) -> Self {
        Tickets { first, more: Vec::new(), submitted }
    }

    /// The records of several transactions, at least one.
    pub(crate) fn all(mut tickets: Vec<Ticket>, submitted: Nanos) -> Self {
        let more = tickets.split_off(1);
        Tickets { first: tickets[0], more, submitted }
    }

    pub(crate) fn of(&self, number: usize) -> Ticket {
        number.checked_sub(1).map_or(self.first, |number| self.more[number])
    }
}

/// A transaction that waits for its next attempt, or for its first.
pub(crate) struct Waiting<Q> {
    pub transaction: Deferred<Q>,
    pub ready: Nanos,
    pub is_here: bool,
    /// True if the transaction is not batched with others in its next attempt.
    pub alone: bool,
    /// Number of branches that the worker had released when one of them blocked the transaction: it
    /// can be tried again once the number changes.
    pub blocked_at: Option<u64>,
}

/// A transaction over several instances that waits until its worker can send requests.
pub(crate) struct Gathered<Q> {
    pub transaction: Deferred<Q>,
    /// The only other instance, if the transaction may be batched with others.
    pub to: Option<u16>,
}

/// The transactions over several instances that are not in flight.
pub(crate) struct Distributed<Q> {
    /// Transactions that conflicted, and wait for their next attempt.
    pub later: Vec<Waiting<Q>>,
    pub gathered: VecDeque<Gathered<Q>>,
    pub(crate) pace: Pace,
    pub in_order: bool,
}

impl<Q> Distributed<Q> {
    pub(crate) fn new(pace: Pace, in_order: bool) -> Self {
        Distributed { later: Vec::new(), gathered: VecDeque::new(), pace, in_order }
    }

    pub(crate) fn clear(&mut self) {
        self.later.clear();
        self.gathered.clear();
    }

    /// Takes the transaction that is due first, if its pause is over.
    pub(crate) fn take_ready(&mut self, now: Nanos) -> Option<Waiting<Q>> {
        let ready = self.later.iter().enumerate().filter(|(_, waiting)| waiting.ready <= now);
        let (first, _) = ready.min_by_key(|(_, waiting)| waiting.ready)?;
        Some(self.later.swap_remove(first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.later.is_empty() && self.gathered.is_empty()
    }
}
