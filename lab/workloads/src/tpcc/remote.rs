//! Warehouses among which the remote ones of a worker's transactions are drawn.

use terms::random::Random;

/// The warehouses for each worker, by W_ID ascending. Workers that have the same ones, those of a
/// memory node, share a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteWarehouses {
    lists: Vec<Vec<u16>>,
    list_of_worker: Vec<usize>,
}

impl RemoteWarehouses {
    /// Worker `n` draws from list `list_of_worker[n]`. Each list has a warehouse that is not the
    /// home of the workers that draw from it.
    pub fn new(mut lists: Vec<Vec<u16>>, list_of_worker: Vec<usize>) -> Self {
        lists.iter_mut().for_each(|list| list.sort_unstable());
        RemoteWarehouses { lists, list_of_worker }
    }

    /// Draws one for this worker, other than `w_id`; or `w_id` if there is no other.
    pub(super) fn draw(&self, random: &mut Random, worker: usize, w_id: u16) -> u16 {
        let list = &self.lists[self.list_of_worker[worker % self.list_of_worker.len()]];
        let own = list.binary_search(&w_id).ok();
        let others = list.len() - usize::from(own.is_some());
        if others == 0 {
            return w_id;
        }
        let drawn = random.below(others as u64) as usize;
        list[if own.is_some_and(|own| drawn >= own) { drawn + 1 } else { drawn }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_other_warehouse_of_the_list_is_drawn_alike() {
        let remote = RemoteWarehouses::new(vec![vec![4, 2, 1], vec![3, 5]], vec![0, 0, 1, 0, 1]);
        let (mut random, mut near, mut far) = (Random::new(1, 0), [0; 6], [0; 6]);
        for _ in 0..8_000 {
            near[usize::from(remote.draw(&mut random, 1, 2))] += 1;
            far[usize::from(remote.draw(&mut random, 2, 1))] += 1;
        }
        for (drawn, expected) in [(near, [1, 4]), (far, [3, 5])] {
            for (w_id, count) in drawn.into_iter().enumerate() {
                let is_one = expected.contains(&w_id);
                assert!(if is_one { (3_800..4_200).contains(&count) } else { count == 0 }, "{drawn:?}");
            }
        }
        assert_eq!(RemoteWarehouses::new(vec![vec![2]], vec![0]).draw(&mut random, 0, 2), 2);
    }
}
