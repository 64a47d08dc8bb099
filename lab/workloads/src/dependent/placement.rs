//! Partitions of the two tables by hand, as the publication compares them.

use std::collections::BTreeMap;

/// The owners of the partitions of both tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TablePlacement {
    /// A partition of each table for every worker: two a worker, and both rows of a transaction
    /// have one owner.
    #[default]
    EveryWorker,
    /// A partition of each table for every hardware thread, which has two workers side by side:
    /// each partition has a worker of its own, and those of the rows of a transaction share a
    /// hardware thread.
    EveryThread,
    /// This many partitions of each table, one a worker: the first table fills the first workers,
    /// the second one those behind them.
    Oblivious(u16),
    /// This many partitions of each table, one a worker: those with the same keys are on one
    /// socket.
    Together(u16),
}

impl TablePlacement {
    /// The owner of part `part` of `parts` of table number `table` (0: the first), where workers
    /// are in these sockets; `None`: the worker with the part's place.
    pub(super) fn owner(self, table: usize, part: usize, parts: usize, sockets: &[u32]) -> Option<usize> {
        let partition = |count: u16| part * usize::from(count) / parts;
        match self {
            TablePlacement::EveryWorker => None,
            TablePlacement::EveryThread => {
                let threads = sockets.len() / 2;
                Some(2 * (part * threads / parts) + table)
            }
            TablePlacement::Oblivious(count) => Some(table * usize::from(count) + partition(count)),
            TablePlacement::Together(count) => Some(pairs(sockets)[partition(count)][table]),
        }
    }
}

/// Pairs of workers of one socket, socket by socket; then pairs of those that are left.
fn pairs(sockets: &[u32]) -> Vec<[usize; 2]> {
    let mut workers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (worker, socket) in sockets.iter().enumerate() {
        workers.entry(*socket).or_default().push(worker);
    }
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for workers in workers.values() {
        let (paired, rest) = workers.as_chunks();
        pairs.extend_from_slice(paired);
        left.extend_from_slice(rest);
    }
    pairs.extend_from_slice(left.as_chunks().0);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_placed_by_hand() {
        // Two sockets of three workers.
        let sockets = [0, 0, 0, 1, 1, 1];
        let owners = |placement: TablePlacement| {
            [0, 1].map(|table| {
                (0..6).map(|part| placement.owner(table, part, 6, &sockets)).collect::<Option<Vec<_>>>()
            })
        };
        assert_eq!(owners(TablePlacement::EveryWorker), [None, None]);
        let threads = [vec![0, 0, 2, 2, 4, 4], vec![1, 1, 3, 3, 5, 5]];
        assert_eq!(owners(TablePlacement::EveryThread), threads.map(Some));
        let oblivious = [vec![0, 0, 1, 1, 2, 2], vec![3, 3, 4, 4, 5, 5]];
        assert_eq!(owners(TablePlacement::Oblivious(3)), oblivious.map(Some));
        // The last pair has the workers that are left, of two sockets.
        let together = [vec![0, 0, 3, 3, 2, 2], vec![1, 1, 4, 4, 5, 5]];
        assert_eq!(owners(TablePlacement::Together(3)), together.map(Some));
    }
}
