//! The database and the tables, as one owner has locked or inherited them.

use platform::{Nanos, Platform};

use super::answer::{ImmediateAnswer, LockAnswer};
use super::nodes::{NodeRequest, RequestId};
use super::{LockManager, LockMode};

/// The node of the database. Tables follow, in the order of their numbers.
const DATABASE: usize = 0;

/// A transaction's request for a lock of a node.
#[derive(Clone, Copy)]
pub(super) struct NodeLockRequest {
    pub node: usize,
    pub mode: LockMode,
    /// The age of the transaction: smaller is older.
    pub age: u64,
}

/// An owner's lock of a node.
#[derive(Clone, Copy, Default)]
struct HeldNode {
    /// The transaction's lock; or what an earlier transaction has left.
    mode: Option<LockMode>,
    /// True if an earlier transaction has left it: it may have been revoked.
    is_inherited: bool,
    /// Modes, as bits, in which the transaction locks what is below without more ado, as far as
    /// this node and the database are concerned.
    open: u8,
    /// Modes, as bits, in which it need not lock what is below.
    covered: u8,
    /// The number of locks below from which on the transaction requests the node instead; 0: the
    /// same number as for all others.
    escalates_at: usize,
}

/// The nodes that an owner has locked, or inherited.
pub(super) struct HeldNodes {
    owner: usize,
    nodes: Vec<HeldNode>,
    /// The nodes that the transaction has locked, in this order.
    locked: Vec<usize>,
}

impl HeldNodes {
    /// None, of the owner with this number.
    pub(super) fn new<P: Platform>(manager: &LockManager<P>, owner: usize) -> Self {
        let (nodes, locked) = (vec![HeldNode::default(); manager.nodes.count()], Vec::new());
        HeldNodes { owner, nodes, locked }
    }

    /// The mode in which the transaction has a node, if it has it.
    pub(super) fn mode(&self, node: usize) -> Option<LockMode> {
        self.nodes[node].mode.filter(|_| !self.nodes[node].is_inherited)
    }

    /// Returns true if the transaction may lock a place in a table in a mode, and has to.
    #[inline]
    pub(super) fn is_open(&self, node: usize, mode: LockMode) -> bool {
        self.nodes[node].open & mode.bit() != 0
    }

    /// Returns true if the transaction has a table in such a mode that it need not lock a place in
    /// it.
    pub(super) fn covers(&self, node: usize, mode: LockMode) -> bool {
        self.nodes[node].covered & mode.bit() != 0
    }

    /// Locks the database and a table, to lock what is below in a mode. What is inherited of a
    /// table counts when the transaction has the database.
    pub(super) fn enter<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: NodeLockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        let NodeLockRequest { node, mode, age } = request;
        for node in [DATABASE, node] {
            let request = NodeLockRequest { node, mode: mode.intent(), age };
            if !self.inherit(manager, c, request) {
                P::instructions(c, manager.lock_node_instructions);
                let answer = self.acquire(manager, c, request, waits, on_wait);
                if answer != LockAnswer::Granted {
                    return answer;
                }
            }
        }
        self.nodes[node].open = self.allowed(node) & !self.nodes[node].covered;
        LockAnswer::Granted
    }

    /// Modes, as bits, in which the transaction may lock places in a table, or need not.
    fn allowed(&self, node: usize) -> u8 {
        let allowed = |node: usize| self.mode(node).map_or(0, LockMode::allowed_below);
        allowed(DATABASE) & allowed(node)
    }

    /// Returns true if the transaction may have an exclusive lock in a table.
    pub(super) fn writes(&self, node: usize) -> bool {
        self.allowed(node) & LockMode::Exclude.bit() != 0
    }

    /// Takes a node over from an earlier transaction, if that has left it; returns true if the
    /// transaction has the node in a sufficient mode.
    #[inline]
    fn inherit<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: NodeLockRequest,
    ) -> bool {
        let NodeLockRequest { node, mode, age } = request;
        let held = &mut self.nodes[node];
        let Some(has) = held.mode else { return false };
        if held.is_inherited {
            held.is_inherited = false;
            if !manager.nodes.take_over(c, RequestId { owner: self.owner, node }, has, age) {
                held.mode = None;
                return false;
            }
            self.locked.push(node);
        }
        has.is_at_least(mode)
    }

    /// Locks a node, of which nothing is inherited. With `waits` the transaction waits as long as
    /// it may, until the deadline, if there is one; before that `on_wait` is called.
    pub(super) fn acquire<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: NodeLockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        let NodeLockRequest { node, mode, age } = request;
        let (id, held) = (RequestId { owner: self.owner, node }, &mut self.nodes[node]);
        let target = held.mode.map_or(mode, |has| has.join(mode));
        if held.mode == Some(target) {
            return LockAnswer::Granted;
        }
        let request = NodeRequest { mode: target, age, waits: waits.is_some() };
        let answer = match (manager.nodes.request_lock(c, &manager.waits, id, request), waits) {
            (ImmediateAnswer::Granted, _) => LockAnswer::Granted,
            (ImmediateAnswer::Refused, _) | (_, None) => LockAnswer::Refused,
            (ImmediateAnswer::Waits, Some(deadline)) => {
                on_wait();
                manager.nodes.wait(c, &manager.waits, id, deadline)
            }
        };
        if answer == LockAnswer::Granted {
            if held.mode.is_none() {
                self.locked.push(node);
            }
            held.mode = Some(target);
            held.covered = target.covered_below();
            held.open &= !held.covered;
        }
        answer
    }

    /// The number of locks below from which on the transaction requests a node, if it is `bound`
    /// for most.
    pub(super) fn escalates_at(&self, node: usize, bound: usize) -> usize {
        match self.nodes[node].escalates_at {
            0 => bound,
            at => at,
        }
    }

    /// Sets the number of locks below at which the transaction requests a node.
    pub(super) fn escalate_at(&mut self, node: usize, locks: usize) {
        self.nodes[node].escalates_at = locks;
    }

    /// Ends a transaction: intentions are left to the next one if owners inherit; everything else
    /// is given back.
    pub(super) fn release_all<P: Platform>(&mut self, manager: &LockManager<P>, c: P::Core) {
        while let Some(node) = self.locked.pop() {
            let (id, held) = (RequestId { owner: self.owner, node }, &mut self.nodes[node]);
            let mode = held.mode.filter(|mode| manager.inherits && mode.covered_below() == 0);
            let mode = mode.filter(|mode| manager.nodes.bequeath(c, id, *mode));
            if mode.is_none() {
                manager.nodes.release(c, &manager.waits, id);
            }
            *held = HeldNode { mode, is_inherited: mode.is_some(), ..HeldNode::default() };
        }
    }

    /// Gives back what the owner has inherited.
    pub(super) fn end<P: Platform>(&mut self, manager: &LockManager<P>, c: P::Core) {
        for (node, held) in self.nodes.iter_mut().enumerate() {
            if std::mem::take(held).is_inherited {
                manager.nodes.release(c, &manager.waits, RequestId { owner: self.owner, node });
            }
        }
    }
}
