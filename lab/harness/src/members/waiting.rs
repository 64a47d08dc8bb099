//! Transactions of a worker of one of several instances that wait: for their next attempt, or until
//! the worker can ask others.

use std::collections::VecDeque;

use platform::Nanos;

use crate::members::pace::Pace;
use crate::retry::Deferred;

/// The worker's name for a transaction over several instances.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    pub began: Nanos,
    pub attempts: u32,
}

/// The same of several that are submitted as one.
pub(crate) struct Tickets {
    pub first: Ticket,
    pub more: Vec<Ticket>,
    pub submitted: Nanos,
}

impl Tickets {
    pub(crate) fn one(first: Ticket, submitted: Nanos) -> Self {
        Tickets { first, more: Vec::new(), submitted }
    }

    /// There is at least one.
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
    /// True if its next attempt is its own, where several could be one.
    pub alone: bool,
    /// How many parts the worker had let go when one of them kept it out: another number says that
    /// it can be tried again.
    pub met: Option<u64>,
}

/// A transaction over several instances that waits until its worker can ask others.
pub(crate) struct Gathered<Q> {
    pub transaction: Deferred<Q>,
    /// The only other instance, if it may be submitted together with others.
    pub to: Option<u16>,
}

/// The transactions over several instances that are not under way.
pub(crate) struct Distributed<Q> {
    /// Those that met another one, and wait for their next attempt.
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

    /// The one that is to be tried again first, if its pause is over.
    pub(crate) fn take_ready(&mut self, now: Nanos) -> Option<Waiting<Q>> {
        let ready = self.later.iter().enumerate().filter(|(_, waiting)| waiting.ready <= now);
        let (first, _) = ready.min_by_key(|(_, waiting)| waiting.ready)?;
        Some(self.later.swap_remove(first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.later.is_empty() && self.gathered.is_empty()
    }
}
