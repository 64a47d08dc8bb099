//! Random rows: the generator SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014).

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator.
pub struct Random(u64);

fn scrambled(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// A pseudo-random number that depends on both arguments.
pub fn mix(first: u64, second: u64) -> u64 {
    scrambled(scrambled(first.wrapping_add(GAMMA)).wrapping_add(second.wrapping_mul(GAMMA)))
}

impl Random {
    /// The stream with this number, for this seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(mix(seed, stream))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        scrambled(self.0)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Distinct keys below `rows`, which is at least `COUNT`.
    pub fn keys<const COUNT: usize>(&mut self, rows: u64) -> [u64; COUNT] {
        let mut keys = [0; COUNT];
        for number in 0..COUNT {
            let mut key = self.below(rows);
            while keys[..number].contains(&key) {
                key = self.below(rows);
            }
            keys[number] = key;
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinct_and_uniform() {
        let mut random = Random::new(1, 0);
        let mut counts = [0; 20];
        for _ in 0..2_000 {
            let mut keys: [u64; 10] = random.keys(20);
            keys.iter().for_each(|key| counts[*key as usize] += 1);
            keys.sort_unstable();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn streams_differ() {
        let keys = |stream| -> [u64; 10] { Random::new(1, stream).keys(1_000_000) };
        assert_ne!(keys(0), keys(1));
        assert_eq!(keys(1), keys(1));
    }
}
