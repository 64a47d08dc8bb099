//! Zipfian choice: rank `i` of `0..n` has a probability proportional to `1 / (i + 1)^theta`.
//!
//! The distribution is that of Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994), which YCSB made customary; [`Scrambled`] and [`Latest`] are YCSB's variants
//! (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010, section 5.2). Their
//! method is approximate and does not support `theta = 1`, so this one is another: rejection from a
//! step function. Ranks are divided into runs whose probabilities differ by less than 1/16; a run
//! is chosen by the alias method (Walker 1977, in the form of Vose 1991) as if all its ranks were
//! as likely as its first, a rank within it uniformly, and accepted with its probability relative
//! to the first's. The method is exact for every exponent and every interval of ranks. It takes
//! constant time: one line of a small table, and a power in less than 1 draw of 16. Rejection
//! inversion (Hörmann and Derflinger 1996) needs no table, but two transcendental functions a draw.

use terms::random::Random;

/// Least acceptance of a rank, relative to the first of its run.
const ACCEPTANCE_MIN: f64 = 15.0 / 16.0;

/// A run of ranks, and its entry of the alias table.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Share of this slot that belongs to the run itself, as a fraction of 2^64; the rest is
    /// `alias`'s.
    own: u64,
    /// First rank.
    first: u64,
    /// Ranks.
    count: u64,
    /// Acceptance of the last rank, as a fraction of 2^64: below it no power is needed.
    sure: u64,
    alias: u32,
}

/// Chooses ranks of an interval with Zipfian probabilities; uniformly with exponent 0.
#[derive(Clone, Debug)]
pub struct Zipf {
    runs: Vec<Run>,
    theta: f64,
}

/// `share` of 1 as a fraction of 2^64; 1 becomes the largest.
fn fraction(share: f64) -> u64 {
    // The conversion saturates.
    (share * 2f64.powi(64)) as u64
}

impl Zipf {
    /// Ranks `0..items` with exponent `theta`.
    ///
    /// Panics if there are no items, or if `theta` is negative or not finite.
    pub fn new(items: u64, theta: f64) -> Self {
        Zipf::within(0, items, theta)
    }

    /// Ranks `low..high`, with the probabilities that they have among all ranks, given that one of
    /// them is chosen.
    ///
    /// Panics if the interval is empty, or if `theta` is negative or not finite.
    pub fn within(low: u64, high: u64, theta: f64) -> Self {
        assert!(low < high, "no ranks to choose from");
        assert!(theta >= 0.0 && theta.is_finite(), "the exponent {theta} is not a number from 0 on");
        let mut runs = Vec::new();
        let mut weights = Vec::new();
        // The run from rank `first` may extend to ranks up to `(first + 1) * reach`.
        let reach = ACCEPTANCE_MIN.powf(-1.0 / theta);
        let mut first = low;
        while first < high {
            let number = (first + 1) as f64;
            // Saturates: with exponent 0 one run contains all ranks.
            let end = ((number * reach) as u64).clamp(first + 1, high);
            let sure = (number / end as f64).powf(theta);
            runs.push(Run { own: u64::MAX, first, count: end - first, sure: fraction(sure), alias: 0 });
            weights.push((end - first) as f64 * number.powf(-theta));
            first = end;
        }
        share_slots(&mut runs, &weights);
        Zipf { runs, theta }
    }

    /// The next rank.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            // The high half of the product chooses a slot, the low half is a uniform fraction.
            let product = u128::from(random.next()) * self.runs.len() as u128;
            let slot = &self.runs[(product >> 64) as usize];
            let run = if product as u64 <= slot.own { slot } else { &self.runs[slot.alias as usize] };
            if run.count == 1 {
                return run.first;
            }
            let product = u128::from(random.next()) * u128::from(run.count);
            let rank = run.first + (product >> 64) as u64;
            if product as u64 <= run.sure || self.accepts(run, rank, product as u64) {
                return rank;
            }
        }
    }

    #[cold]
    fn accepts(&self, run: &Run, rank: u64, level: u64) -> bool {
        level <= fraction(((run.first + 1) as f64 / (rank + 1) as f64).powf(self.theta))
    }
}

/// Divides the slots of the alias table so that each run gets its weight: a slot belongs to its run
/// up to `own`, and to one other run from there on.
fn share_slots(runs: &mut [Run], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    let scale = weights.len() as f64 / total;
    let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..left.len()).partition(|slot| left[*slot] < 1.0);
    while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
        runs[poor].own = fraction(left[poor]);
        runs[poor].alias = rich as u32;
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
}

/// Spreads ranks over items, so that popular items are not adjacent. YCSB hashes the rank, so that
/// several ranks fall on one item and some items are never chosen; this is a permutation
/// (multiplication by a number that is prime to the number of items, and near the golden section of
/// it), so that probabilities stay those of the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Scramble {
    items: u64,
    factor: u64,
}

impl Scramble {
    /// A permutation of `0..items`. Panics if there are none.
    pub fn new(items: u64) -> Self {
        assert!(items > 0, "no items to spread");
        let golden = (items as f64 * 0.618_033_988_749_894_9) as u64;
        let prime = |factor: &u64| greatest_common_divisor(*factor, items) == 1;
        let factor = (golden.max(1)..).find(prime).unwrap_or(1);
        Scramble { items, factor }
    }

    /// The item of a rank, which is less than the number of items.
    #[inline]
    pub fn item(&self, rank: u64) -> u64 {
        if self.items <= 1 << 32 {
            rank * self.factor % self.items
        } else {
            (u128::from(rank) * u128::from(self.factor) % u128::from(self.items)) as u64
        }
    }
}

fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// YCSB's scrambled Zipfian choice: popular items anywhere.
#[derive(Clone, Debug)]
pub struct Scrambled {
    zipf: Zipf,
    scramble: Scramble,
}

impl Scrambled {
    /// Items `0..items` with exponent `theta`; panics as [`Zipf::new`].
    pub fn new(items: u64, theta: f64) -> Self {
        Scrambled { zipf: Zipf::new(items, theta), scramble: Scramble::new(items) }
    }

    /// The next item.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.scramble.item(self.zipf.draw(random))
    }
}

/// YCSB's choice of the latest items: the newest is the most popular. If there are more items than
/// were given to [`Latest::new`], the oldest ones are not chosen.
#[derive(Clone, Debug)]
pub struct Latest {
    zipf: Zipf,
}

impl Latest {
    /// A choice among the `items` latest, with exponent `theta`; panics as [`Zipf::new`].
    pub fn new(items: u64, theta: f64) -> Self {
        Latest { zipf: Zipf::new(items, theta) }
    }

    /// Draws an age: the number of items that are newer than the chosen one.
    #[inline]
    pub fn age(&self, random: &mut Random) -> u64 {
        self.zipf.draw(random)
    }

    /// The item of this age when `newest` is the newest; ages beyond the oldest start again from
    /// the newest.
    #[inline]
    pub fn item(newest: u64, age: u64) -> u64 {
        if age <= newest { newest - age } else { newest - age % (newest + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn exact(low: u64, high: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (low..high).map(|rank| ((rank + 1) as f64).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// Pearson's statistic stays within five standard deviations of its mean: `cells - 1`.
    fn assert_fits(counts: &[u64], probabilities: &[f64], what: &str) {
        let draws = counts.iter().sum::<u64>() as f64;
        let squares = counts.iter().zip(probabilities).map(|(count, probability)| {
            let expected = probability * draws;
            (*count as f64 - expected).powi(2) / expected
        });
        let (statistic, freedom) = (squares.sum::<f64>(), (counts.len() - 1) as f64);
        assert!(
            (statistic - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(),
            "{what}: {statistic} of {freedom}"
        );
    }

    #[test]
    fn probabilities_are_exact() {
        for theta in [0.0, 0.25, 0.5, 0.75, 0.99, 1.0, 1.5] {
            for (low, high) in [(0, 100), (40, 240), (7, 9)] {
                let zipf = Zipf::within(low, high, theta);
                let mut random = Random::new(5, (theta * 100.0) as u64 ^ high);
                let mut counts = vec![0; (high - low) as usize];
                for _ in 0..DRAWS {
                    counts[(zipf.draw(&mut random) - low) as usize] += 1;
                }
                assert_fits(&counts, &exact(low, high, theta), &format!("{theta} in {low}..{high}"));
            }
        }
    }

    #[test]
    fn many_items_by_octave() {
        let items = 1 << 20;
        for theta in [0.5, 0.99, 1.0] {
            let zipf = Zipf::new(items, theta);
            let mut random = Random::new(6, 0);
            let octave = |rank: u64| (rank + 1).ilog2() as usize;
            let (mut counts, mut probabilities) = (vec![0; 21], vec![0.0; 21]);
            for _ in 0..DRAWS {
                counts[octave(zipf.draw(&mut random))] += 1;
            }
            for (rank, probability) in exact(0, items, theta).into_iter().enumerate() {
                probabilities[octave(rank as u64)] += probability;
            }
            // The last octave holds one rank: too few draws for the statistic.
            probabilities[19] += probabilities.pop().unwrap_or(0.0);
            counts[19] += counts.pop().unwrap_or(0);
            assert_fits(&counts, &probabilities, &format!("{theta}"));
        }
    }

    #[test]
    fn tables_are_small_and_draws_repeat() {
        let zipf = Zipf::new(10_000_000_000, 0.99);
        assert!(zipf.runs.len() < 400, "{} runs", zipf.runs.len());
        assert_eq!(Zipf::new(10_000_000_000, 0.0).runs.len(), 1);
        let draws = |seed| {
            let mut random = Random::new(seed, 0);
            std::array::from_fn::<u64, 20, _>(|_| zipf.draw(&mut random))
        };
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
        assert_eq!(Zipf::new(1, 0.99).draw(&mut Random::new(1, 1)), 0);
    }

    #[test]
    fn scrambling_is_a_permutation() {
        for items in [1, 2, 3, 10, 1000, 1024, 4093] {
            let scramble = Scramble::new(items);
            let mut seen = vec![false; items as usize];
            for rank in 0..items {
                assert!(!std::mem::replace(&mut seen[scramble.item(rank) as usize], true), "{items}: {rank}");
            }
        }
        let large = Scramble::new(1 << 40);
        assert!(large.item((1 << 40) - 1) < 1 << 40);
        let top: Vec<u64> = (0..8).map(|rank| Scramble::new(1_000_000).item(rank)).collect();
        for (index, item) in top.iter().enumerate() {
            let near = |other: &u64| item.abs_diff(*other) < 10_000;
            assert!(!top[index + 1..].iter().any(near), "{top:?}");
        }
    }

    #[test]
    fn the_latest_are_the_most_popular() {
        let latest = Latest::new(1000, 0.99);
        let mut random = Random::new(8, 0);
        let mut newest = 0;
        for _ in 0..10_000 {
            let item = Latest::item(4999, latest.age(&mut random));
            assert!((4000..5000).contains(&item));
            newest += u64::from(item == 4999);
        }
        assert!((1000..1700).contains(&newest), "{newest}");
        assert_eq!([0, 1, 4, 5, 11].map(|age| Latest::item(4, age)), [4, 3, 0, 4, 3]);
    }
}
