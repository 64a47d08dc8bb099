//! Which fiber runs next: a tournament tree over the fibers' keys.
//!
//! One leaf a fiber; each inner node holds the smaller key of its two children, so the root is the next to run. A
//! sleeping fiber has the key of its deadline, or [`NEVER`]. A wake-up overwrites the leaf in place: no stale entries.

use platform::Nanos;

/// A moment on the machine's clock.
pub(crate) fn picoseconds(moment: Nanos) -> u64 {
    moment.0.saturating_mul(1000)
}

/// Key of a fiber that waits for another fiber to wake it.
pub(crate) const NEVER: u128 = u128::MAX;

/// Packs (clock, priority, fiber): the smallest runs.
#[inline(always)]
pub(crate) fn key(clock: u64, order: u64) -> u128 {
    (u128::from(clock) << 64) | u128::from(order)
}

/// Packs the part of the key that decides between equal clocks.
#[inline(always)]
pub(crate) fn order(priority: u32, fiber: u32) -> u64 {
    (u64::from(priority) << 32) | u64::from(fiber)
}

/// The fiber of a key.
#[inline(always)]
pub(crate) fn fiber_of(key: u128) -> u32 {
    key as u32
}

/// The clock of a key.
#[inline(always)]
pub(crate) fn clock_of(key: u128) -> u64 {
    (key >> 64) as u64
}

/// Keys of all fibers.
pub(crate) struct ReadyQueue {
    /// Node 1 is the root, node `n` has children `2n` and `2n + 1`; the leaves are the second half.
    nodes: Vec<u128>,
}

impl ReadyQueue {
    pub(crate) fn new() -> ReadyQueue {
        ReadyQueue { nodes: vec![NEVER; 4] }
    }

    /// Gives a fiber its key.
    #[inline]
    pub(crate) fn set(&mut self, fiber: u32, key: u128) {
        while fiber as usize >= self.nodes.len() / 2 {
            self.grow();
        }
        let mut node = self.nodes.len() / 2 + fiber as usize;
        self.nodes[node] = key;
        while node > 1 {
            let smaller = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == smaller {
                break;
            }
            self.nodes[node] = smaller;
        }
    }

    /// The smallest key.
    #[inline(always)]
    pub(crate) fn first(&self) -> u128 {
        self.nodes[1]
    }

    /// The smallest key of all other fibers.
    #[inline]
    pub(crate) fn first_other(&self, fiber: u32) -> u128 {
        let mut node = self.nodes.len() / 2 + fiber as usize;
        let mut smallest = NEVER;
        while node > 1 {
            smallest = smallest.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        smallest
    }

    #[cold]
    fn grow(&mut self) {
        let leaves = self.nodes.split_off(self.nodes.len() / 2);
        self.nodes = vec![NEVER; leaves.len() * 4];
        for (fiber, key) in leaves.into_iter().enumerate() {
            self.set(fiber as u32, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn tree_agrees_with_a_scan() {
        let random = Random::new(1);
        let mut queue = ReadyQueue::new();
        let mut model = vec![NEVER; 300];
        for _ in 0..20_000 {
            let fiber = random.below(300) as u32;
            let value = if random.below(5) == 0 { NEVER } else { key(random.below(50), order(7, fiber)) };
            queue.set(fiber, value);
            model[fiber as usize] = value;
            assert_eq!(queue.first(), *model.iter().min().expect("not empty"));
            let asked = random.below(300) as u32;
            queue.set(asked, model[asked as usize]);
            let others = model.iter().enumerate().filter(|(index, _)| *index != asked as usize);
            assert_eq!(queue.first_other(asked), *others.map(|(_, key)| key).min().expect("not empty"));
        }
    }
}
