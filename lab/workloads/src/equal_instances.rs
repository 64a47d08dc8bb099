//! Parts of data in instances of equal size.

use terms::random::Random;

/// Instances with equally many workers, of which part `i` of the data belongs to worker `i` modulo
/// the number of workers. The number of parts is a multiple of that of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualInstances {
    /// Workers of all instances.
    pub workers: u64,
    /// Workers of one instance.
    pub size: u64,
}

impl EqualInstances {
    /// Draws one of this many parts in another instance than that of part `own`.
    pub fn part_of_another(self, random: &mut Random, own: u64, parts: u64) -> u64 {
        let EqualInstances { workers, size } = self;
        let first = own % workers / size * size;
        let worker = random.below(workers - size);
        let worker = if worker < first { worker } else { worker + size };
        worker + workers * random.below(parts / workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_other_instances_are_drawn_alike() {
        let instances = EqualInstances { workers: 6, size: 2 };
        let (mut random, mut drawn) = (Random::new(1, 0), [0; 12]);
        for _ in 0..8_000 {
            drawn[instances.part_of_another(&mut random, 9, 12) as usize] += 1;
        }
        // Part 9 belongs to worker 3, whose instance has the workers 2 and 3.
        for (part, count) in drawn.into_iter().enumerate() {
            let is_own = [2, 3].contains(&(part % 6));
            assert!(if is_own { count == 0 } else { (900..1_100).contains(&count) }, "{drawn:?}");
        }
    }
}
