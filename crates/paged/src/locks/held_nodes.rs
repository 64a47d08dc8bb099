//! The database and the tables, as one session has locked or inherited them.

use platform::{Nanos, Platform};

use super::nodes::{NodeLocks, NodeWish};
use super::{Answer, Asked, LockMode};

/// What a session has of a node.
#[derive(Clone, Copy, Default)]
struct HeldNode {
    /// The transaction's lock.
    mode: Option<LockMode>,
    /// What an earlier transaction has left, unless it has been taken away.
    inherited: Option<LockMode>,
    /// Locks of what is below.
    rows: usize,
    /// From so many on the transaction asks for the node instead.
    escalates_at: usize,
}

/// The nodes that a session has locked, or inherited.
pub(super) struct HeldNodes {
    session: usize,
    nodes: Vec<HeldNode>,
    /// Those that the transaction has locked, in this order.
    locked: Vec<usize>,
}

impl HeldNodes {
    /// None, of the session with this number.
    pub(super) fn new<P: Platform>(nodes: &NodeLocks<P>, session: usize) -> Self {
        let (nodes, locked) = (vec![HeldNode::default(); nodes.count()], Vec::new());
        HeldNodes { session, nodes, locked }
    }

    /// How the transaction has a node, if at all.
    #[inline]
    pub(super) fn mode(&self, node: usize) -> Option<LockMode> {
        self.nodes[node].mode
    }

    /// Whether the transaction has a node at least so.
    #[inline]
    pub(super) fn has(&self, node: usize, mode: LockMode) -> bool {
        self.nodes[node].mode.is_some_and(|has| has.join(mode) == has)
    }

    /// Locks a node. With `waits` the transaction waits as long as it may, until the deadline, if there is one; before that `on_wait` is
    /// called.
    pub(super) fn acquire<P: Platform>(
        &mut self,
        (table, c): (&NodeLocks<P>, P::Core),
        (node, mode, age): (usize, LockMode, u64),
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        let seat = (self.session, node);
        let held = &mut self.nodes[node];
        if held.mode.is_none()
            && let Some(left) = held.inherited.take()
            && table.take_over(c, seat, left, age)
        {
            held.mode = Some(left);
            self.locked.push(node);
        }
        let target = held.mode.map_or(mode, |has| has.join(mode));
        if held.mode == Some(target) {
            return Answer::Granted;
        }
        let wish = NodeWish { mode: target, age, waits: waits.is_some() };
        let answer = match (table.ask(c, seat, wish), waits) {
            (Asked::Granted, _) => Answer::Granted,
            (Asked::Refused, _) | (_, None) => Answer::Refused,
            (Asked::Waits, Some(deadline)) => {
                on_wait();
                table.wait(c, seat, deadline)
            }
        };
        if answer == Answer::Granted {
            if held.mode.is_none() {
                self.locked.push(node);
            }
            held.mode = Some(target);
        }
        answer
    }

    /// Counts a lock of what is below a node.
    pub(super) fn add_row(&mut self, node: usize) {
        self.nodes[node].rows += 1;
    }

    /// Locks of what is below a node have been given back; `bound`: how many more there may be.
    pub(super) fn take_rows(&mut self, node: usize, count: usize, bound: usize) {
        let held = &mut self.nodes[node];
        held.rows -= count;
        held.escalates_at = held.rows + bound;
    }

    /// Whether so many locks are below a node that the transaction asks for the node; at the earliest at `bound`.
    pub(super) fn is_full(&self, node: usize, bound: usize) -> bool {
        let HeldNode { rows, escalates_at, .. } = self.nodes[node];
        rows >= if escalates_at == 0 { bound } else { escalates_at }
    }

    /// The transaction asks for a node once it has so many more locks below.
    pub(super) fn escalate_after(&mut self, node: usize, rows: usize) {
        let held = &mut self.nodes[node];
        held.escalates_at = held.rows + rows;
    }

    /// The node with most locks below.
    pub(super) fn fullest(&self) -> Option<usize> {
        self.locked.iter().copied().max_by_key(|node| self.nodes[*node].rows)
    }

    /// Ends a transaction: intentions are left to the next one if sessions inherit; everything else is given back.
    pub(super) fn release_all<P: Platform>(&mut self, (table, c): (&NodeLocks<P>, P::Core), inherits: bool) {
        while let Some(node) = self.locked.pop() {
            let seat = (self.session, node);
            let held = &mut self.nodes[node];
            let mode = held.mode.take().filter(|mode| inherits && mode.intent() == *mode);
            (held.rows, held.escalates_at) = (0, 0);
            held.inherited = mode.filter(|mode| table.bequeath(c, seat, *mode));
            if held.inherited.is_none() {
                table.release(c, seat);
            }
        }
    }

    /// Gives back what the session has inherited.
    pub(super) fn end<P: Platform>(&mut self, (table, c): (&NodeLocks<P>, P::Core)) {
        for (node, held) in self.nodes.iter_mut().enumerate() {
            if held.inherited.take().is_some() {
                table.release(c, (self.session, node));
            }
        }
    }
}
