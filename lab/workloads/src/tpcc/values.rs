//! The random values of TPC-C: clauses 2.1.5, 2.1.6 and 4.3.2.

use schema::Text;

use terms::random::Random;

/// Letters of random strings (clause 4.3.2.2).
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The text in the data of 10 % of items and stocks.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// C of NURand for last names while loading.
pub const LAST_NAME_LOAD: u64 = 157;
/// C of NURand for last names while running.
pub const LAST_NAME_RUN: u64 = 223;
/// C of NURand for customers.
pub const CUSTOMER_RUN: u64 = 259;
/// C of NURand for items.
pub const ITEM_RUN: u64 = 7911;

// Clause 2.1.6.1 bounds the difference of the constants for last names.
const _: () = {
    let delta = LAST_NAME_RUN.abs_diff(LAST_NAME_LOAD);
    assert!(delta >= 65 && delta <= 119 && delta != 96 && delta != 112);
    assert!(LAST_NAME_RUN <= 255 && LAST_NAME_LOAD <= 255 && CUSTOMER_RUN <= 1023 && ITEM_RUN <= 8191);
};

/// NURand(A, x, y) with constant C: a non-uniform number in `low..=high`.
#[inline]
pub fn non_uniform(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let mixed = random.between(0, a) | random.between(low, high);
    (mixed + c) % (high - low + 1) + low
}

/// The last name of a number from 0 to 999.
pub fn last_name(number: u64) -> Text<16> {
    let mut name = [0; 16];
    let mut length = 0;
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        name[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    Text::from_padded(name)
}

/// Fills `to` with random characters of `alphabet`, eight from each drawn number.
#[inline]
fn fill(random: &mut Random, alphabet: &[u8], to: &mut [u8]) {
    for chunk in to.chunks_mut(8) {
        let mut fraction = random.next();
        for slot in chunk {
            // The product's high word is the next digit to base `alphabet.len()`, its low word the
            // rest.
            let product = u128::from(fraction) * alphabet.len() as u128;
            *slot = alphabet[(product >> 64) as usize];
            fraction = product as u64;
        }
    }
}

/// Random a-string of `low` to `high` characters, which is at most `N`.
pub fn letters<const N: usize>(random: &mut Random, low: usize, high: usize) -> Text<N> {
    let mut bytes = [0; N];
    let length = random.between(low as u64, high as u64) as usize;
    fill(random, LETTERS, &mut bytes[..length]);
    Text::from_padded(bytes)
}

/// Random n-string of `N` digits.
pub fn digits<const N: usize>(random: &mut Random) -> Text<N> {
    let mut bytes = [0; N];
    fill(random, &LETTERS[..10], &mut bytes);
    Text::from_padded(bytes)
}

/// A zip code (clause 4.3.2.7).
pub fn zip(random: &mut Random) -> Text<9> {
    let mut bytes = [b'1'; 9];
    fill(random, &LETTERS[..10], &mut bytes[..4]);
    Text::from_padded(bytes)
}

/// I_DATA or S_DATA: 26 to 50 characters, in 10 % of the rows with ORIGINAL somewhere.
pub fn data(random: &mut Random) -> Text<50> {
    let mut text: Text<50> = letters(random, 26, 50);
    if random.below(10) == 0 {
        let mut bytes = text.padded();
        let last = text.as_bytes().len() - ORIGINAL.len();
        let start = random.between(0, last as u64) as usize;
        bytes[start..start + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        text = Text::from_padded(bytes);
    }
    text
}

/// True if the letter is one of ORIGINAL.
#[inline(always)]
fn is_in_original(byte: u8) -> bool {
    const LETTERS_OF_ORIGINAL: u32 = {
        let (mut letters, mut index) = (0, 0);
        while index < ORIGINAL.len() {
            letters |= 1 << (ORIGINAL[index] - b'A');
            index += 1;
        }
        letters
    };
    let letter = byte.wrapping_sub(b'A');
    letter < 26 && LETTERS_OF_ORIGINAL >> letter & 1 != 0
}

/// True if the bytes of I_DATA or S_DATA contain ORIGINAL. Any occurrence covers a byte whose index
/// is a multiple of eight, so only these bytes are compared first.
#[inline]
pub fn is_original(bytes: &[u8]) -> bool {
    let stride = ORIGINAL.len();
    (stride - 1..bytes.len()).step_by(stride).any(|end| {
        is_in_original(bytes[end]) && {
            let last = (end + stride).min(bytes.len());
            bytes[end + 1 - stride..last].windows(stride).any(|window| window == ORIGINAL)
        }
    })
}

/// A random permutation of `1..=count` (Fisher and Yates).
pub fn permutation(random: &mut Random, count: u16) -> Vec<u16> {
    let mut numbers: Vec<u16> = (1..=count).collect();
    for end in (1..numbers.len()).rev() {
        numbers.swap(end, random.below(end as u64 + 1) as usize);
    }
    numbers
}

/// Draws true in `percent` of 100 cases.
#[inline]
pub fn chance(random: &mut Random, percent: f64) -> bool {
    random.unit() * 100.0 < percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_syllables() {
        assert_eq!(last_name(0).as_str(), "BARBARBAR");
        assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(last_name(777).as_str(), "CALLYCALLYCALLY");
        assert_eq!(last_name(999).as_str(), "EINGEINGEING");
    }

    /// The exact distribution of NURand by enumeration of both uniform numbers, against a sample.
    #[test]
    fn non_uniform_has_its_distribution() {
        let (a, c, low, high) = (255u64, LAST_NAME_RUN, 0u64, 999u64);
        let count = (high - low + 1) as usize;
        let mut expected = vec![0u64; count];
        for left in 0..=a {
            for right in low..=high {
                expected[(((left | right) + c) % (high - low + 1)) as usize] += 1;
            }
        }
        let draws = 2_000_000u64;
        let mut seen = vec![0u64; count];
        let mut random = Random::new(11, 0);
        for _ in 0..draws {
            seen[non_uniform(&mut random, a, c, low, high) as usize] += 1;
        }
        let total = ((a + 1) * (high - low + 1)) as f64;
        let (mut chi_squared, mut cells) = (0.0, 0);
        for (expected, seen) in expected.iter().zip(&seen) {
            let expected = *expected as f64 / total * draws as f64;
            if expected == 0.0 {
                assert_eq!(*seen, 0);
            } else {
                chi_squared += (*seen as f64 - expected).powi(2) / expected;
                cells += 1;
            }
        }
        let degrees = f64::from(cells - 1);
        assert!((chi_squared - degrees).abs() < 5.0 * (2.0 * degrees).sqrt(), "{chi_squared} of {degrees}");
    }

    #[test]
    fn non_uniform_stays_in_its_range() {
        let mut random = Random::new(3, 0);
        for (a, c, high) in [(1023, CUSTOMER_RUN, 3000), (8191, ITEM_RUN, 100_000), (8191, ITEM_RUN, 40)] {
            let mut seen = (u64::MAX, 0);
            for _ in 0..200_000 {
                let value = non_uniform(&mut random, a, c, 1, high);
                seen = (seen.0.min(value), seen.1.max(value));
            }
            assert!(seen.0 >= 1 && seen.1 <= high, "{seen:?}");
        }
    }

    #[test]
    fn strings_have_their_lengths_and_letters() {
        let mut random = Random::new(5, 0);
        let mut lengths = [0; 17];
        let mut count = [0u32; 256];
        for _ in 0..20_000 {
            let text: Text<16> = letters(&mut random, 8, 16);
            lengths[text.as_bytes().len()] += 1;
            text.as_bytes().iter().for_each(|byte| count[usize::from(*byte)] += 1);
        }
        assert!(lengths[..8].iter().all(|count| *count == 0));
        assert!(lengths[8..].iter().all(|count| (1900..2600).contains(count)), "{lengths:?}");
        let mean = 20_000 * 12 / 62;
        assert!(LETTERS.iter().all(|letter| count[usize::from(*letter)].abs_diff(mean) < mean / 10));
        assert!(zip(&mut random).as_str().ends_with("11111"));
        assert!(digits::<16>(&mut random).as_str().bytes().all(|byte| byte.is_ascii_digit()));
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut random = Random::new(6, 0);
        let found = (0..50_000).filter(|_| {
            let text = data(&mut random);
            assert_eq!(is_original(&text.padded()), text.as_str().contains("ORIGINAL"));
            is_original(&text.padded())
        });
        assert!((4700..5300).contains(&found.count()));
    }

    #[test]
    fn original_is_found_everywhere() {
        for start in 0..=42 {
            let mut bytes = [b'x'; 50];
            bytes[start..start + 8].copy_from_slice(ORIGINAL);
            assert!(is_original(&bytes), "{start}");
            bytes[start + 3] = b'x';
            assert!(!is_original(&bytes), "{start}");
        }
    }

    #[test]
    fn permutations_are_complete() {
        let mut numbers = permutation(&mut Random::new(8, 0), 3000);
        assert_ne!(numbers[..5], [1, 2, 3, 4, 5]);
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=3000));
    }
}
