//! The database and the tables, as one session has locked or inherited them.

use platform::{Nanos, Platform};

use super::nodes::NodeWish;
use super::{Answer, Asked, LockManager, LockMode};

/// The node of the database. Tables follow, in the order of their numbers.
const DATABASE: usize = 0;

/// What a session has of a node.
#[derive(Clone, Copy, Default)]
struct HeldNode {
    /// The transaction's lock.
    mode: Option<LockMode>,
    /// What an earlier transaction has left, unless it has been taken away.
    inherited: Option<LockMode>,
    /// Modes, as bits, in which the transaction may lock what is below, as far as this node and the database are concerned.
    allowed: u8,
    /// Modes, as bits, in which it need not.
    covered: u8,
    /// From so many locks below on the transaction asks for the node instead; 0: as many as for all others.
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
    pub(super) fn new<P: Platform>(manager: &LockManager<P>, session: usize) -> Self {
        let (nodes, locked) = (vec![HeldNode::default(); manager.nodes.count()], Vec::new());
        HeldNodes { session, nodes, locked }
    }

    /// How the transaction has a node, if at all.
    pub(super) fn mode(&self, node: usize) -> Option<LockMode> {
        self.nodes[node].mode
    }

    /// Whether the transaction has all that is above a place in a table so that it may lock the place in a mode.
    #[inline]
    pub(super) fn allows(&self, node: usize, mode: LockMode) -> bool {
        self.nodes[node].allowed & mode.bit() != 0
    }

    /// Whether the transaction has a table so that it need not lock a place in it in a mode.
    #[inline]
    pub(super) fn covers(&self, node: usize, mode: LockMode) -> bool {
        self.nodes[node].covered & mode.bit() != 0
    }

    /// Locks the database and a table, to lock what is below in a mode. What is inherited of a table counts when the transaction has the
    /// database.
    pub(super) fn enter<P: Platform>(
        &mut self,
        manager: (&LockManager<P>, P::Core),
        (node, mode, age): (usize, LockMode, u64),
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        for node in [DATABASE, node] {
            let answer = self.acquire(manager, (node, mode.intent(), age), waits, on_wait);
            if answer != Answer::Granted {
                return answer;
            }
        }
        let allows = |node: usize| self.nodes[node].mode.map_or(0, LockMode::allowed_below);
        self.nodes[node].allowed = allows(DATABASE) & allows(node);
        Answer::Granted
    }

    /// Locks a node. With `waits` the transaction waits as long as it may, until the deadline, if there is one; before that `on_wait` is
    /// called.
    pub(super) fn acquire<P: Platform>(
        &mut self,
        (manager, c): (&LockManager<P>, P::Core),
        (node, mode, age): (usize, LockMode, u64),
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        let seat = (self.session, node);
        let held = &mut self.nodes[node];
        if held.mode.is_none()
            && let Some(left) = held.inherited.take()
            && manager.nodes.take_over(c, seat, left, age)
        {
            held.mode = Some(left);
            held.covered = 0;
            self.locked.push(node);
        }
        let target = held.mode.map_or(mode, |has| has.join(mode));
        if held.mode == Some(target) {
            return Answer::Granted;
        }
        let at = (c, &manager.waits);
        let wish = NodeWish { mode: target, age, waits: waits.is_some() };
        let answer = match (manager.nodes.ask(at, seat, wish), waits) {
            (Asked::Granted, _) => Answer::Granted,
            (Asked::Refused, _) | (_, None) => Answer::Refused,
            (Asked::Waits, Some(deadline)) => {
                on_wait();
                manager.nodes.wait(at, seat, deadline)
            }
        };
        if answer == Answer::Granted {
            if held.mode.is_none() {
                self.locked.push(node);
            }
            held.mode = Some(target);
            held.covered = target.covered_below();
        }
        answer
    }

    /// From how many locks below on the transaction asks for a node, where it is `bound` for most.
    pub(super) fn escalates_at(&self, node: usize, bound: usize) -> usize {
        match self.nodes[node].escalates_at {
            0 => bound,
            at => at,
        }
    }

    /// The transaction asks for a node when it has so many locks below.
    pub(super) fn escalate_at(&mut self, node: usize, locks: usize) {
        self.nodes[node].escalates_at = locks;
    }

    /// Ends a transaction: intentions are left to the next one if sessions inherit; everything else is given back.
    pub(super) fn release_all<P: Platform>(&mut self, (manager, c): (&LockManager<P>, P::Core)) {
        while let Some(node) = self.locked.pop() {
            let (seat, held) = ((self.session, node), &mut self.nodes[node]);
            let before = std::mem::take(held);
            if let Some(mode) = before.mode
                && manager.inherits
                && mode.intent() == mode
                && manager.nodes.bequeath(c, seat, mode)
            {
                held.inherited = Some(mode);
            } else {
                manager.nodes.release((c, &manager.waits), seat);
            }
        }
    }

    /// Gives back what the session has inherited.
    pub(super) fn end<P: Platform>(&mut self, (manager, c): (&LockManager<P>, P::Core)) {
        for (node, held) in self.nodes.iter_mut().enumerate() {
            if held.inherited.take().is_some() {
                manager.nodes.release((c, &manager.waits), (self.session, node));
            }
        }
    }
}
