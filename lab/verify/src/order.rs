//! A growing partial order of transactions, which refuses cycles and describes them.

use std::collections::{BTreeMap, VecDeque};

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The second transaction overwrote the first one's write of this key.
    Overwrites(u64),
    /// The second transaction read the first one's write of this key.
    Reads(u64),
    /// The second transaction saw that the first had deleted this key, or changed its tag.
    ReadsAbsence(u64),
    /// The second transaction overwrote the version of this key that the first read.
    ReadBefore(u64),
    /// The first transaction ended before the second began.
    Earlier,
}

/// Some steps of a cycle: each transaction (its place in the history) and why it comes before the
/// next.
pub(crate) type Cycle = Vec<(usize, Reason)>;

/// A transitively closed order of numbered nodes.
#[derive(Clone)]
pub(crate) struct Order {
    /// Nodes that come after each node, as a set of bits.
    after: Vec<Vec<u64>>,
    /// The edges that were added.
    edges: BTreeMap<usize, Vec<(usize, Reason)>>,
}

impl Order {
    pub(crate) fn new(nodes: usize) -> Self {
        Order { after: vec![vec![0; nodes.div_ceil(64)]; nodes], edges: BTreeMap::new() }
    }

    /// True if `from` comes before `to`.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        self.after[from][to / 64] >> (to % 64) & 1 != 0
    }

    /// Orders `from` before `to`; the error is the cycle if `to` already comes before `from`.
    pub(crate) fn add(&mut self, from: usize, to: usize, reason: Reason) -> Result<(), Cycle> {
        if from == to || self.reaches(to, from) {
            let mut cycle = vec![(from, reason)];
            cycle.extend(self.path(to, from));
            return Err(cycle);
        }
        if self.reaches(from, to) {
            return Ok(());
        }
        self.edges.entry(from).or_default().push((to, reason));
        let mut gained = self.after[to].clone();
        gained[to / 64] |= 1 << (to % 64);
        for node in 0..self.after.len() {
            if node == from || self.reaches(node, from) {
                for (word, more) in self.after[node].iter_mut().zip(&gained) {
                    *word |= more;
                }
            }
        }
        Ok(())
    }

    /// A shortest path along edges: all nodes but the last.
    fn path(&self, from: usize, to: usize) -> Cycle {
        let mut before: BTreeMap<usize, (usize, Reason)> = BTreeMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(node) = waiting.pop_front() {
            if node == to {
                break;
            }
            for (next, reason) in self.edges.get(&node).into_iter().flatten() {
                if *next != from && !before.contains_key(next) {
                    before.insert(*next, (node, *reason));
                    waiting.push_back(*next);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let Some((previous, reason)) = before.get(&node) else { break };
            path.push((*previous, *reason));
            node = *previous;
        }
        path.reverse();
        path
    }
}
