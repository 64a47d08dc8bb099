//! Parameters of TATP, and the choice of subscribers.

use schema::Text;
use serde::{Deserialize, Serialize};

use terms::random::Random;

/// Digits of a subscriber's number, and of a number to which calls are forwarded.
pub const DIGITS: usize = 15;

/// The key of a subscriber. `part` follows from `s_id` ([`Tatp::part`]), and is part of all keys
/// because tables are partitioned by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberKey {
    /// The range of subscribers.
    pub part: u16,
    /// S_ID, from 1.
    pub s_id: u32,
}

/// The transactions, in the order of [`Mix::shares`].
pub const KINDS: [&str; 7] = [
    "GetSubscriberData",
    "GetNewDestination",
    "GetAccessData",
    "UpdateSubscriberData",
    "UpdateLocation",
    "InsertCallForwarding",
    "DeleteCallForwarding",
];

/// The shares of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// All seven in the description's shares.
    #[default]
    Full,
    /// GetSubscriberData only.
    GetSubscriberData,
    /// GetNewDestination only.
    GetNewDestination,
    /// GetAccessData only.
    GetAccessData,
    /// UpdateSubscriberData only.
    UpdateSubscriberData,
    /// UpdateLocation only.
    UpdateLocation,
    /// InsertCallForwarding only: soon all rows exist, and it fails.
    InsertCallForwarding,
    /// DeleteCallForwarding only: soon no row is left, and it fails.
    DeleteCallForwarding,
}

impl Mix {
    /// Percent of each transaction, in the order of [`KINDS`].
    pub fn shares(self) -> [u8; KINDS.len()] {
        match self {
            Mix::Full => [35, 10, 35, 2, 14, 2, 2],
            Mix::GetSubscriberData => [100, 0, 0, 0, 0, 0, 0],
            Mix::GetNewDestination => [0, 100, 0, 0, 0, 0, 0],
            Mix::GetAccessData => [0, 0, 100, 0, 0, 0, 0],
            Mix::UpdateSubscriberData => [0, 0, 0, 100, 0, 0, 0],
            Mix::UpdateLocation => [0, 0, 0, 0, 100, 0, 0],
            Mix::InsertCallForwarding => [0, 0, 0, 0, 0, 100, 0],
            Mix::DeleteCallForwarding => [0, 0, 0, 0, 0, 0, 100],
        }
    }

    /// Draws a kind of transaction: its number in [`KINDS`].
    #[inline]
    pub(super) fn draw(self, random: &mut Random) -> usize {
        let mut left = random.below(100);
        for (kind, share) in self.shares().into_iter().enumerate() {
            match left.checked_sub(u64::from(share)) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        KINDS.len() - 1
    }
}

/// A hot spot: a share of the requests goes to the first subscribers. Among the hot and among the
/// cold subscribers all are equally likely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hot {
    /// Share of the requests, 0 to 1.
    pub requests: f64,
    /// Share of the subscribers, more than 0, at most 1.
    pub data: f64,
}

/// TATP.
#[derive(Clone, Debug, PartialEq)]
pub struct Tatp {
    /// Number of subscribers.
    pub subscribers: u32,
    /// Number of ranges into which subscribers are divided.
    pub parts: u16,
    /// Number of consecutive ranges that belong to one worker.
    pub parts_each: u16,
    /// The shares of the transactions.
    pub mix: Mix,
    /// Share of the transactions that draw from all subscribers; the others draw from the worker's
    /// own ranges.
    pub multisite: f64,
    /// The hot spot, if there is one: then every worker draws from all subscribers.
    pub hot: Option<Hot>,
    /// True if all accesses of a transaction for a number are one action: several instances divide
    /// the data among them, and send each other whole branches.
    pub divided: bool,
}

impl Tatp {
    /// The full mix over these subscribers in these parts, one part a worker.
    pub fn new(subscribers: u32, parts: u16) -> Self {
        Tatp { subscribers, parts, parts_each: 1, mix: Mix::Full, multisite: 0.0, hot: None, divided: false }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The problem, in one line.
    pub fn validate(&self) -> Result<(), String> {
        let Tatp { subscribers, parts, parts_each, multisite, hot, .. } = *self;
        if parts == 0 || subscribers < u32::from(parts) {
            return Err(format!("{subscribers} subscribers in {parts} parts: each has at least one"));
        }
        if parts_each == 0 || !parts.is_multiple_of(parts_each) {
            return Err(format!("{parts} parts, {parts_each} a worker: none is left over"));
        }
        if !(0.0..=1.0).contains(&multisite) {
            return Err(format!("multisite: {multisite} is not a share, 0 to 1"));
        }
        let is_hot = |hot: Hot| (0.0..=1.0).contains(&hot.requests) && hot.data > 0.0 && hot.data <= 1.0;
        match hot {
            Some(hot) if !is_hot(hot) => Err(format!("hot: {}:{} are not shares", hot.requests, hot.data)),
            _ => Ok(()),
        }
    }

    /// Number of subscribers before those of this part.
    #[inline]
    pub(super) fn before(&self, part: u16) -> u32 {
        (u64::from(part) * u64::from(self.subscribers) / u64::from(self.parts)) as u32
    }

    /// The part of a subscriber.
    #[inline]
    pub fn part(&self, s_id: u32) -> u16 {
        ((u64::from(s_id) * u64::from(self.parts) - 1) / u64::from(self.subscribers)) as u16
    }

    /// The subscribers of a part.
    pub fn subscribers_of(&self, part: u16) -> std::ops::RangeInclusive<u32> {
        self.before(part) + 1..=self.before(part + 1)
    }

    /// The first of the ranges that belong to worker `worker`.
    #[inline]
    pub fn home(&self, worker: usize) -> u16 {
        (worker % usize::from(self.parts / self.parts_each)) as u16 * self.parts_each
    }

    /// Draws the subscriber of a worker's next transaction; returns the number of draws, too.
    #[inline]
    pub(super) fn draw(&self, worker: usize, random: &mut Random) -> (SubscriberKey, u8) {
        if let Some(hot) = self.hot {
            let s_id = self.draw_hot(hot, random);
            return (SubscriberKey { part: self.part(s_id), s_id }, 2);
        }
        let is_any = self.multisite > 0.0 && random.unit() < self.multisite;
        if is_any {
            let s_id = non_uniform(self.subscribers, random);
            return (SubscriberKey { part: self.part(s_id), s_id }, 3);
        }
        let first = self.home(worker);
        let (before, until) = (self.before(first), self.before(first + self.parts_each));
        let draws = 2 + u8::from(self.multisite > 0.0);
        let s_id = before + non_uniform(until - before, random);
        let part = if self.parts_each == 1 { first } else { self.part(s_id) };
        (SubscriberKey { part, s_id }, draws)
    }

    fn draw_hot(&self, hot: Hot, random: &mut Random) -> u32 {
        let all = u64::from(self.subscribers);
        let wanted = ((all as f64 * hot.data).round() as u64).clamp(1, all);
        let is_hot = wanted == all || random.unit() < hot.requests;
        let (low, high) = if is_hot { (1, wanted) } else { (wanted + 1, all) };
        random.between(low, high) as u32
    }
}

/// Draws one of `population` subscribers, from 1, by the formula of the description:
/// `(random(0, A) | random(1, P)) % P + 1`.
#[inline]
fn non_uniform(population: u32, random: &mut Random) -> u32 {
    let all = match population {
        0..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    };
    let population = u64::from(population);
    ((random.between(0, all) | random.between(1, population)) % population + 1) as u32
}

/// The number of a subscriber: S_ID in decimal digits.
#[inline]
pub fn number(s_id: u32) -> Text<DIGITS> {
    let (mut digits, mut left) = ([b'0'; DIGITS], s_id);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    Text::from_padded(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_ranges_of_all_subscribers() {
        for (subscribers, parts) in [(1, 1), (7, 7), (100, 7), (65_536, 3), (u32::MAX, u16::MAX)] {
            let tatp = Tatp::new(subscribers, parts);
            tatp.validate().expect("valid");
            let mut next = 1;
            for part in (0..parts).take(10) {
                let range = tatp.subscribers_of(part);
                assert_eq!(*range.start(), next);
                assert!(!range.is_empty());
                assert_eq!((tatp.part(*range.start()), tatp.part(*range.end())), (part, part));
                next = range.end() + 1;
            }
            assert_eq!(tatp.part(subscribers), parts - 1);
            assert_eq!(*tatp.subscribers_of(parts - 1).end(), subscribers);
        }
    }

    #[test]
    fn numbers_have_all_digits() {
        assert_eq!(number(0).as_str(), "000000000000000");
        assert_eq!(number(40_701).as_str(), "000000000040701");
    }

    #[test]
    fn subscribers_are_drawn_as_described() {
        let mut random = Random::new(1, 2);
        // The result has the bits of both numbers, so each of the lower bits is set in three
        // quarters of 2^16 subscribers.
        let drawn: Vec<u32> = (0..40_000).map(|_| non_uniform(1 << 16, &mut random) - 1).collect();
        for bit in 0..16 {
            let set = drawn.iter().filter(|s_id| *s_id >> bit & 1 == 1).count();
            assert!((29_400..30_600).contains(&set), "bit {bit}: {set}");
        }
        let tatp = Tatp::new(1_000, 4);
        assert!((0..1_000).all(|_| tatp.draw(6, &mut random).0.part == 2));
        let finer = Tatp { parts_each: 3, ..Tatp::new(1_000, 12) };
        let mut own = [0; 12];
        (0..1_000).for_each(|_| own[usize::from(finer.draw(6, &mut random).0.part)] += 1);
        // The three parts of the third worker, each about as often.
        assert!(own[6..9].iter().all(|count| *count > 250) && own.iter().sum::<i32>() == 1_000, "{own:?}");
        let spread = Tatp { multisite: 0.5, ..tatp.clone() };
        let away = (0..10_000).filter(|_| spread.draw(6, &mut random).0.part != 2).count();
        // Of the draws from all subscribers 22 % are of this part, because numbers with many bits
        // are drawn more often.
        assert!((3_700..4_140).contains(&away), "{away}");
        let hot = Tatp { hot: Some(Hot { requests: 0.5, data: 0.2 }), ..tatp };
        let low = (0..10_000).filter(|_| hot.draw(6, &mut random).0.s_id <= 200).count();
        assert!((4_800..5_200).contains(&low), "{low}");
    }

    #[test]
    fn shares_are_the_standards() {
        let mut random = Random::new(3, 4);
        let mut drawn = [0; KINDS.len()];
        (0..100_000).for_each(|_| drawn[Mix::Full.draw(&mut random)] += 1);
        for (count, share) in drawn.into_iter().zip(Mix::Full.shares()) {
            let expected = i64::from(share) * 1_000;
            assert!((count - expected).abs() < 600, "{drawn:?}");
        }
        assert_eq!(Mix::Full.shares().into_iter().map(u32::from).sum::<u32>(), 100);
        assert!((0..100).all(|_| Mix::UpdateLocation.draw(&mut random) == 4));
    }
}
