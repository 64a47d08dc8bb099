//! [`Interval`]: months, days and microseconds, as PostgreSQL has them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::key::{Key, KeySink};
use crate::row::Value;
use crate::temporal::calendar::{DAY, SECOND, Scanner, write_fraction};
use crate::value_error::{ValueError, debug_as_text, serialize_as};
use crate::value_type::ValueType;

const EXAMPLE: &str = "P1Y2M3DT4H5M6.789S or 1 year 2 mons 3 days 04:05:06.789";
/// Units of texts: their names, and what they are of months, days and microseconds.
const UNITS: [(&str, [i64; 3]); 10] = [
    ("year", [12, 0, 0]),
    ("mon", [1, 0, 0]),
    ("month", [1, 0, 0]),
    ("week", [0, 7, 0]),
    ("day", [0, 1, 0]),
    ("hour", [0, 0, 3600 * SECOND]),
    ("min", [0, 0, 60 * SECOND]),
    ("minute", [0, 0, 60 * SECOND]),
    ("sec", [0, 0, SECOND]),
    ("second", [0, 0, SECOND]),
];

/// A length of time: `interval`. Months, days and microseconds are kept apart, because months and
/// days have different lengths. Intervals compare as in PostgreSQL, as if each month had 30 days
/// and each day 24 hours: one month equals 30 days, also as a key.
#[derive(Clone, Copy)]
pub struct Interval {
    months: i32,
    days: i32,
    micros: i64,
}

impl Interval {
    /// No time.
    pub const ZERO: Interval = Interval::new(0, 0, 0);

    /// Returns the interval of these parts, which may have different signs.
    pub const fn new(months: i32, days: i32, micros: i64) -> Interval {
        Interval { months, days, micros }
    }

    /// Returns the months.
    pub const fn months(self) -> i32 {
        self.months
    }

    /// Returns the days beside the months.
    pub const fn days(self) -> i32 {
        self.days
    }

    /// Returns the microseconds beside the days.
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// Returns the length in microseconds by which intervals compare.
    pub const fn span(self) -> i128 {
        let days = self.months as i128 * 30 + self.days as i128;
        days * DAY as i128 + self.micros as i128
    }

    /// Adds `count` times a unit.
    fn add(&mut self, count: i64, [months, days, micros]: [i64; 3]) -> Option<()> {
        let part = |own: i32, unit: i64| i32::try_from(count.checked_mul(unit)?).ok()?.checked_add(own);
        (self.months, self.days) = (part(self.months, months)?, part(self.days, days)?);
        self.micros = count.checked_mul(micros)?.checked_add(self.micros)?;
        Some(())
    }

    /// Reads what follows `P`.
    fn read_iso(text: &str) -> Option<Interval> {
        let (mut scanner, mut of_day, mut interval) = (Scanner { rest: text }, false, Interval::ZERO);
        loop {
            of_day |= scanner.take("T");
            let sign = if scanner.take("-") { -1 } else { 1 };
            let number = scanner.number(1, 19)?;
            let fraction = scanner.fraction()?;
            let units = if of_day { "HMS" } else { "YMWD" };
            let unit = units.chars().position(|unit| scanner.take(unit.encode_utf8(&mut [0; 4])))?;
            let unit = match (of_day, unit) {
                (true, 2) => SECONDS,
                (true, unit) => UNITS[[5, 6][unit]].1,
                (false, unit) => UNITS[[0, 1, 3, 4][unit]].1,
            };
            if fraction != 0 && unit != SECONDS {
                return None;
            }
            interval.add(sign * number, unit)?;
            interval.add(sign * fraction, MICROSECONDS)?;
            if scanner.rest.is_empty() {
                return Some(interval);
            }
        }
    }

    /// Reads the form that PostgreSQL writes.
    fn read_words(text: &str) -> Option<Interval> {
        let (mut words, mut interval) = (text.split(' ').peekable(), Interval::ZERO);
        words.peek()?;
        while let Some(word) = words.next() {
            let (sign, digits) = match word.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, word.strip_prefix('+').unwrap_or(word)),
            };
            let mut scanner = Scanner { rest: digits };
            let number = scanner.number(1, 19)?;
            let (fraction, unit) = if scanner.take(":") {
                let minute = scanner.number(2, 2).filter(|minute| *minute < 60)?;
                let second =
                    if scanner.take(":") { scanner.number(2, 2).filter(|second| *second < 60)? } else { 0 };
                interval.add(sign * (60 * minute + second), SECONDS)?;
                (scanner.fraction()?, UNITS[5].1)
            } else {
                let fraction = scanner.fraction()?;
                let name = words.next()?;
                let known =
                    |unit: &&(&str, [i64; 3])| name == unit.0 || name.strip_suffix('s') == Some(unit.0);
                let unit = UNITS.iter().find(known)?.1;
                if fraction != 0 && unit != SECONDS {
                    return None;
                }
                (fraction, unit)
            };
            scanner.rest.is_empty().then_some(())?;
            interval.add(sign * number, unit)?;
            interval.add(sign * fraction, MICROSECONDS)?;
        }
        Some(interval)
    }
}

const SECONDS: [i64; 3] = [0, 0, SECOND];
const MICROSECONDS: [i64; 3] = [0, 0, 1];

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.span() == other.span()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.span().hash(to);
    }
}

/// ISO 8601 as PostgreSQL writes it: `P1Y2M3DT4H5M6.789S`, with a sign before each negative number.
impl fmt::Display for Interval {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { months, days, micros } = *self;
        to.write_str("P")?;
        let mut part = |number: i64, unit: &str| match number {
            0 => Ok(()),
            number => write!(to, "{number}{unit}"),
        };
        part(i64::from(months / 12), "Y")?;
        part(i64::from(months % 12), "M")?;
        part(days.into(), "D")?;
        if micros == 0 {
            return to.write_str(if (months, days) == (0, 0) { "T0S" } else { "" });
        }
        to.write_str("T")?;
        let seconds = micros / SECOND;
        let mut part = |number: i64, unit: &str| match number {
            0 => Ok(()),
            number => write!(to, "{number}{unit}"),
        };
        part(seconds / 3600, "H")?;
        part(seconds / 60 % 60, "M")?;
        if micros % (60 * SECOND) == 0 {
            return Ok(());
        }
        // The seconds may be zero and the fraction negative.
        write!(to, "{}{}", if micros < 0 { "-" } else { "" }, (seconds % 60).abs())?;
        write_fraction((micros % SECOND).abs(), to)?;
        to.write_str("S")
    }
}

impl FromStr for Interval {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let read = match text.strip_prefix('P') {
            Some(rest) => Interval::read_iso(rest),
            None => Interval::read_words(text),
        };
        read.ok_or_else(|| ValueError::form(text, "interval", EXAMPLE))
    }
}

debug_as_text!(Interval);

serialize_as! {
    () Interval as (i32, i32, i64): |it: &Interval| (it.months, it.days, it.micros),
        |(months, days, micros)| Ok::<_, ValueError>(Interval { months, days, micros });
}

/// Microseconds, days and months, one after the other: as PostgreSQL sends them.
impl Value for Interval {
    const BYTES: usize = 16;
    const ALIGN: usize = 8;
    fn value_type() -> ValueType {
        ValueType::Interval
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        self.micros.store(to);
        self.days.store(&mut to[8..]);
        self.months.store(&mut to[12..]);
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        let (months, days) = (i32::fetch(&from[12..]), i32::fetch(&from[8..]));
        Interval { months, days, micros: i64::fetch(from) }
    }
}

/// The key of an interval is its length.
impl Key for Interval {
    const BITS: u32 = 128;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        self.span().append(to);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    fn parts(interval: Interval) -> (i32, i32, i64) {
        (interval.months, interval.days, interval.micros)
    }

    fn read(text: &str) -> (i32, i32, i64) {
        parts(text.parse().expect(text))
    }

    #[test]
    fn texts_are_those_of_postgresql() {
        for (text, expected) in [
            ("P1Y2M3DT4H5M6.789S", (14, 3, 14_706_789_000)),
            ("PT0S", (0, 0, 0)),
            ("P-1Y2M", (-10, 0, 0)),
            ("PT-0.5S", (0, 0, -500_000)),
            ("P-1DT1H", (0, -1, 3_600_000_000)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(Interval::new(-10, 0, 0).to_string(), "P-10M");
        for (text, expected) in [
            ("1 year 2 mons 3 days 04:05:06.789", (14, 3, 14_706_789_000)),
            ("-1 days", (0, -1, 0)),
            ("2 weeks 1 month", (1, 14, 0)),
            ("-00:00:00.5", (0, 0, -500_000)),
            ("1.5 seconds", (0, 0, 1_500_000)),
            ("00:00:00", (0, 0, 0)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "P1H",
            "PT1D",
            "P1.5D",
            "1",
            "1 eon",
            "1.5 days",
            "1 day 4:5",
            "PT99999999999999999999S",
        ] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_month_is_30_days_in_comparisons_alone() {
        let [month, days] = [Interval::new(1, 0, 0), Interval::new(0, 30, 0)];
        assert_eq!(month, days);
        assert_eq!(KeyBuffer::of(&month), KeyBuffer::of(&days));
        assert_ne!(month.to_string(), days.to_string());
        assert!(month < Interval::new(0, 30, 1) && month > Interval::new(0, 31, -2 * DAY));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn intervals_are_read_as_written(a: (i32, i32, i64), b: (i32, i32, i64)) {
            let [left, right] = [a, b].map(|(months, days, micros)| Interval { months, days, micros });
            prop_assert_eq!(read(&left.to_string()), a, "{}", left);
            let mut bytes = [0; 16];
            left.store(&mut bytes);
            prop_assert_eq!(parts(Interval::fetch(&bytes)), a);
            prop_assert_eq!(KeyBuffer::of(&left).cmp(&KeyBuffer::of(&right)), left.cmp(&right));
        }
    }
}
