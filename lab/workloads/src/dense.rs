//! Perfect hashes for tables whose keys have no gaps within a partition, numbered from 1.
//!
//! The functions map a normalized key word, which contains the columns from the most significant
//! bit down, to a number from 0.

/// Key: the partition alone, which has one row.
pub(crate) fn single(_: u64) -> u64 {
    0
}

/// Key: 16 bits of the partition, 8 of the number.
pub(crate) fn byte(key: u64) -> u64 {
    ((key >> 40) & 0xff).wrapping_sub(1)
}

/// Key: 16 bits of the partition, 32 of the number.
pub(crate) fn word(key: u64) -> u64 {
    ((key >> 16) & 0xffff_ffff).wrapping_sub(1)
}

/// The normalized word of a key, for tests of perfect hashes.
#[cfg(test)]
pub(crate) fn key_word(key: &impl schema::Key) -> u64 {
    schema::KeyBuffer::of(key).words(1)[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_hashes_are_dense() {
        assert_eq!(single(key_word(&9u16)), 0);
        assert_eq!([1, 10].map(|number: u8| byte(key_word(&(7u16, number)))), [0, 9]);
        assert_eq!([1, 100_000].map(|number: u32| word(key_word(&(7u16, number)))), [0, 99_999]);
    }
}
