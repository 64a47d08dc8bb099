//! The secret by which a hash index spreads keys.

/// The second factor of all indexes. The first one is secret, so that no difference of two keys has
/// a known image here.
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;

/// A secret odd factor. An attacker with the factor of an index could choose keys that all go to
/// one bucket, whose chain each lookup of them then walks. Keys chosen without the factor have
/// images that are as good as random.
///
/// The secret is one word, which lies on the line that a lookup reads in any case; two would not
/// fit there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadSecret(u64);

impl SpreadSecret {
    /// The secret that these random bits make.
    pub fn of(bits: u64) -> Self {
        SpreadSecret(bits | 1)
    }

    /// 32 bits of a key's hash.
    #[inline(always)]
    pub(crate) fn spread(self, key: u64) -> u64 {
        let mixed = key.wrapping_mul(self.0);
        (mixed ^ (mixed >> 32)).wrapping_mul(SECOND) >> 32
    }

    /// The upper `bits` bits of the product, 1 to 63: two keys share them with a probability of at
    /// most `2 / 2^bits` over all secrets (Dietzfelbinger et al., "A reliable randomized algorithm
    /// for the closest-pair problem", J. Algorithms 1997).
    #[inline(always)]
    pub(crate) fn part(self, key: u64, bits: u32) -> u64 {
        key.wrapping_mul(self.0) >> (u64::BITS - bits)
    }
}
