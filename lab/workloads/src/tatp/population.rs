//! The initial rows (section "Database population" of the description).
//!
//! The set of rows of a subscriber follows from its number alone, so that checks can compute it
//! without the seed; the content of the rows follows from the seed.

use schema::{Loader, Text};
use terms::Abort;

use super::rows::{AccessData, AccessInfo, CallForwarding, SpecialFacility, Subscriber, Tables};
use super::spec::{DIGITS, SubscriberKey, number};
use terms::random::Random;

/// Types of access information, and of special facilities, from 1.
pub const TYPES: u8 = 4;
/// Number of values of START_TIME: 0, 8 and 16 o'clock.
pub const STARTS: u8 = 3;
/// Hours from one START_TIME to the next.
pub const START_HOURS: u8 = 8;
/// Percent of special facilities that are active.
const ACTIVE_PERCENT: u64 = 85;

/// Seed of the random numbers that determine the set of rows of a subscriber.
const SHAPE_SEED: u64 = 0x7a79;

/// The set of rows with which a subscriber is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// A bit for each AI_TYPE, the lowest for type 1.
    pub access: u8,
    /// A bit for each SF_TYPE.
    pub facilities: u8,
    /// For each SF_TYPE a bit for each START_TIME.
    pub forwarding: [u8; TYPES as usize],
}

impl Shape {
    /// The rows of a subscriber: one to four of ACCESS_INFO and of SPECIAL_FACILITY, and for each
    /// of the latter none to three of CALL_FORWARDING. All numbers of rows, and all choices of
    /// types and times, are equally likely.
    pub fn of(s_id: u32) -> Self {
        let mut random = Random::new(SHAPE_SEED, u64::from(s_id));
        let some = |random: &mut Random| {
            let count = random.between(1, u64::from(TYPES)) as u8;
            choose(count, TYPES, random)
        };
        let (access, facilities) = (some(&mut random), some(&mut random));
        let mut forwarding = [0; TYPES as usize];
        for (sf_type, starts) in forwarding.iter_mut().enumerate() {
            if facilities >> sf_type & 1 == 1 {
                let count = random.between(0, u64::from(STARTS)) as u8;
                *starts = choose(count, STARTS, &mut random);
            }
        }
        Shape { access, facilities, forwarding }
    }

    /// Number of rows of CALL_FORWARDING.
    pub fn forwarded(&self) -> u64 {
        self.forwarding.iter().map(|starts| u64::from(starts.count_ones())).sum()
    }

    /// Number of rows in all tables.
    pub fn rows(&self) -> u64 {
        1 + u64::from(self.access.count_ones() + self.facilities.count_ones()) + self.forwarded()
    }
}

/// Draws a set of `count` of the lowest `all` bits.
fn choose(count: u8, all: u8, random: &mut Random) -> u8 {
    let mut chosen = 0u8;
    for bit in 0..all {
        let (missing, left) = (count - chosen.count_ones() as u8, all - bit);
        if random.below(u64::from(left)) < u64::from(missing) {
            chosen |= 1 << bit;
        }
    }
    chosen
}

/// The positions of the bits that are set.
fn bits(set: u8) -> impl Iterator<Item = u8> {
    (0..u8::BITS as u8).filter(move |bit| set >> bit & 1 == 1)
}

/// Loads a subscriber with all its rows.
pub(super) fn load(
    tables: &Tables,
    SubscriberKey { part, s_id }: SubscriberKey,
    random: &mut Random,
    loader: &mut impl Loader,
) -> Result<(), Abort> {
    let shape = Shape::of(s_id);
    loader.insert(tables.subscriber, &subscriber(SubscriberKey { part, s_id }, random))?;
    for ai_type in bits(shape.access).map(|bit| bit + 1) {
        let data = AccessData {
            data1: byte(random),
            data2: byte(random),
            data3: letters(random),
            data4: letters(random),
        };
        loader.insert(tables.access_info, &AccessInfo { part, ai_type, s_id, data })?;
    }
    for sf_type in bits(shape.facilities).map(|bit| bit + 1) {
        let facility = SpecialFacility {
            part,
            sf_type,
            is_active: random.chance(ACTIVE_PERCENT),
            s_id,
            error_cntrl: byte(random),
            data_a: byte(random),
            data_b: letters(random),
        };
        loader.insert(tables.special_facility, &facility)?;
        for start in bits(shape.forwarding[usize::from(sf_type) - 1]) {
            let start_time = start * START_HOURS;
            let end_time = start_time + random.between(1, u64::from(START_HOURS)) as u8;
            let numberx = digits(random);
            let row = CallForwarding { part, sf_type, start_time, s_id, end_time, numberx };
            loader.insert(tables.call_forwarding, &row)?;
        }
    }
    Ok(())
}

fn subscriber(SubscriberKey { part, s_id }: SubscriberKey, random: &mut Random) -> Subscriber {
    Subscriber {
        part,
        bit_1: random.below(2) as u8,
        bits: std::array::from_fn(|_| random.below(2) as u8),
        s_id,
        vlr_location: location(random),
        msc_location: location(random),
        hexes: std::array::from_fn(|_| random.below(16) as u8),
        bytes: std::array::from_fn(|_| byte(random)),
        sub_nbr: number(s_id),
    }
}

/// Draws a number from 0 to 255.
#[inline]
pub(super) fn byte(random: &mut Random) -> u8 {
    random.below(256) as u8
}

/// Draws a location, which is not 0.
#[inline]
pub(super) fn location(random: &mut Random) -> u32 {
    random.between(1, u64::from(u32::MAX)) as u32
}

/// Draws a number to which calls are forwarded.
pub(super) fn digits(random: &mut Random) -> Text<DIGITS> {
    // One draw gives all digits: 10^15 is far below 2^64.
    let mut left = random.below(10u64.pow(DIGITS as u32));
    let digit = |_: usize| {
        let digit = b'0' + (left % 10) as u8;
        left /= 10;
        digit
    };
    Text::from_padded(std::array::from_fn(digit))
}

/// Draws upper-case letters.
fn letters<const N: usize>(random: &mut Random) -> Text<N> {
    Text::from_padded(std::array::from_fn(|_| b'A' + random.below(26) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_described_frequencies() {
        const SUBSCRIBERS: u32 = 40_000;
        let (mut access, mut facilities, mut forwarding) = ([0u32; 5], [0u32; 5], [0u32; 4]);
        let (mut types, mut starts) = ([0u32; 4], [0u32; 3]);
        for s_id in 1..=SUBSCRIBERS {
            let shape = Shape::of(s_id);
            access[shape.access.count_ones() as usize] += 1;
            facilities[shape.facilities.count_ones() as usize] += 1;
            bits(shape.access).for_each(|bit| types[usize::from(bit)] += 1);
            for sf_type in 0..4 {
                let times = shape.forwarding[sf_type];
                if shape.facilities >> sf_type & 1 == 1 {
                    forwarding[times.count_ones() as usize] += 1;
                    bits(times).for_each(|bit| starts[usize::from(bit)] += 1);
                } else {
                    assert_eq!(times, 0);
                }
            }
        }
        let near = |count: u32, of: u32, share: f64| {
            let found = f64::from(count) / f64::from(of);
            assert!((found - share).abs() < 0.01, "{found} where {share} is expected");
        };
        for count in 1..=4 {
            near(access[count], SUBSCRIBERS, 0.25);
            near(facilities[count], SUBSCRIBERS, 0.25);
        }
        assert_eq!((access[0], facilities[0]), (0, 0));
        let all = forwarding.iter().sum();
        forwarding.iter().for_each(|count| near(*count, all, 0.25));
        types.iter().for_each(|count| near(*count, SUBSCRIBERS, 0.625));
        starts.iter().for_each(|count| near(*count, all, 0.5));
    }

    #[test]
    fn numbers_have_fifteen_digits() {
        let mut random = Random::new(1, 1);
        for _ in 0..100 {
            let text = digits(&mut random);
            assert_eq!(text.as_str().len(), DIGITS);
            assert!(text.as_str().bytes().all(|digit| digit.is_ascii_digit()));
        }
        assert_eq!(letters::<5>(&mut random).as_str().len(), 5);
    }
}
