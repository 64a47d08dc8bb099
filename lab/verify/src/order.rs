//! A growing partial order of transactions, which refuses cycles and can name them.

use std::collections::{BTreeMap, VecDeque};

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The second overwrote what the first wrote of this key.
    Overwrites(u64),
    /// The second read what the first wrote of this key.
    Reads(u64),
    /// The second saw that the first had removed this key, or given it another tag.
    ReadsAbsence(u64),
    /// The second overwrote what the first read of this key.
    ReadBefore(u64),
    /// The first had ended before the second began.
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

    /// Puts `from` before `to`; the cycle if it already comes after.
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

    /// A shortest way along edges: all nodes but the last.
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
