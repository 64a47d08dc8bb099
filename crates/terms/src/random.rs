//! Random numbers: the same for the same seed. [`Random`] is for workloads and tests, [`SplitMix`]
//! where a word of state has to do, and [`Xorshift`] where three instructions have to do.

/// The increment of SplitMix64: 2^64 divided by the golden ratio. Multiplied by it, neighbours lie
/// far apart.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection that makes neighbours unlike.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the name generators have; it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `0..bound`; `bound` is not 0. The bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        bounded(self.next(), bound)
    }
}

/// A number in `0..bound` of a random one; `bound` is not 0. The bias is below `bound / 2^64`.
#[inline]
pub fn bounded(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
#[derive(Clone, Copy, Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        // A state of 0 stays 0.
        Xorshift(if seed == 0 { 1 } else { seed })
    }

    /// 64 random bits, which are never all 0.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the name generators have; it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
/// seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator number `stream` of a run with this seed: streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut words = SplitMix::new(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        Random { state: std::array::from_fn(|_| words.next()) }
    }

    /// 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the name generators have; it is no iterator")]
    pub fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`; `bound` is not 0. The bias is below 2^-32 for bounds up to 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        bounded(self.next(), bound)
    }

    /// True for this many percent of all draws.
    #[inline]
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Uniform in `low..=high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Uniform in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn bounds_are_reached() {
        let mut random = Random::new(7, 0);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[(random.between(3, 7) - 3) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
