//! Dates and times: [`Date`], [`Time`], [`Timestamp`] and [`TimestampTz`], with the ranges, the
//! numbers and the texts of PostgreSQL.
//!
//! Days and microseconds are counted from 2000-01-01, as PostgreSQL does, so that its whole range
//! fits: from 4714 BC to the year 5,874,897 (dates) or 294,276 (timestamps). The least and the
//! greatest number are `-infinity` and `infinity`.

use std::fmt;
use std::str::FromStr;

use crate::foreign::like;
use crate::key::{Key, KeySink};
use crate::row::Value;
use crate::temporal::calendar::{Civil, DAY, SECOND, Scanner, write_time};
use crate::value_error::{ValueError, debug_as_text, serialize_as};
use crate::value_type::ValueType;

const DATE_LIMITS: &str = "dates go from 4714-11-24 BC to 5874897-12-31";
const TIMESTAMP_LIMITS: &str = "timestamps go from 4714-11-24 BC to the end of the year 294276";
const DATE_EXAMPLE: &str = "2026-11-28, 0044-03-15 BC or infinity";
const TIME_EXAMPLE: &str = "04:35:00 or 04:35:00.123456";
const TIMESTAMP_EXAMPLE: &str = "2026-11-28 04:35:00.123456 or infinity";
const TIMESTAMPTZ_EXAMPLE: &str = "2026-11-28 04:35:00+00, with its offset from UTC, or infinity";

/// A day: `date`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    days: i32,
}

impl Date {
    /// Before all other dates.
    pub const NEG_INFINITY: Date = Date { days: i32::MIN };
    /// The first day: 4714-11-24 BC.
    pub const MIN: Date = Date { days: -2_451_545 };
    /// The last day: 5874897-12-31.
    pub const MAX: Date = Date { days: 2_145_031_948 };
    /// After all other dates.
    pub const INFINITY: Date = Date { days: i32::MAX };

    /// Returns a day of the Gregorian calendar. Year 0 is 1 BC.
    ///
    /// # Errors
    /// The calendar has no such day, or it is out of range.
    pub fn new(year: i32, month: u8, day: u8) -> Result<Date, ValueError> {
        let days = Civil { year: year.into(), month, day }.days().and_then(|days| i32::try_from(days).ok());
        let date = days.map(|days| Date { days }).filter(|date| (Date::MIN..=Date::MAX).contains(date));
        date.ok_or_else(|| ValueError::limits(format_args!("{year}-{month}-{day}"), "date", DATE_LIMITS))
    }

    /// Returns the date of this number of days since 2000-01-01; `i32::MIN` and `i32::MAX` are the
    /// infinities.
    ///
    /// # Errors
    /// The number is out of range.
    pub fn from_days(days: i32) -> Result<Date, ValueError> {
        let date = Date { days };
        let fits = !date.is_finite() || (Date::MIN..=Date::MAX).contains(&date);
        if fits { Ok(date) } else { Err(ValueError::limits(days, "date", DATE_LIMITS)) }
    }

    /// Returns the number of days since 2000-01-01.
    pub fn days(self) -> i32 {
        self.days
    }

    /// Returns false for the infinities.
    pub fn is_finite(self) -> bool {
        self != Date::NEG_INFINITY && self != Date::INFINITY
    }

    /// Returns year, month and day; `None` for the infinities. Year 0 is 1 BC.
    pub fn year_month_day(self) -> Option<(i32, u8, u8)> {
        let Civil { year, month, day } = Civil::of_days(self.days.into());
        self.is_finite().then_some((year as i32, month, day))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(infinity) = infinity(self.is_finite(), self.days < 0) {
            return to.write_str(infinity);
        }
        let civil = Civil::of_days(self.days.into());
        civil.write(to)?;
        to.write_str(if civil.is_before_christ() { " BC" } else { "" })
    }
}

impl FromStr for Date {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "infinity" => return Ok(Date::INFINITY),
            "-infinity" => return Ok(Date::NEG_INFINITY),
            _ => {}
        }
        let mut scanner = Scanner { rest: text };
        let civil = scanner.date().and_then(|civil| scanner.era(civil)).filter(|_| scanner.rest.is_empty());
        let civil = civil.filter(|civil| civil.days().is_some());
        let Civil { year, month, day } = civil.ok_or_else(|| ValueError::form(text, "date", DATE_EXAMPLE))?;
        Date::new(year as i32, month, day)
    }
}

/// Returns the text of a date or a timestamp that is not finite.
fn infinity(is_finite: bool, is_negative: bool) -> Option<&'static str> {
    (!is_finite).then_some(if is_negative { "-infinity" } else { "infinity" })
}

/// A time of day in microseconds: `time`. The end of a day, 24:00:00, is a value of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    micros: i64,
}

impl Time {
    /// The beginning of a day.
    pub const MIDNIGHT: Time = Time { micros: 0 };
    /// The end of a day.
    pub const MAX: Time = Time { micros: DAY };

    /// Returns a time of day.
    ///
    /// # Errors
    /// A clock does not show it.
    pub fn new(hour: u8, minute: u8, second: u8, micros: u32) -> Result<Time, ValueError> {
        let shown = hour < 24 && minute < 60 && second < 60 && micros < SECOND as u32;
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        let time = Time { micros: seconds * SECOND + i64::from(micros) };
        shown.then_some(time).ok_or_else(|| {
            let text = format!("{hour}:{minute}:{second} and {micros} microseconds");
            ValueError::limits(text, "time", "a clock goes from 00:00:00 to 23:59:59.999999")
        })
    }

    /// Returns the time that is this many microseconds after midnight, up to 24 hours.
    ///
    /// # Errors
    /// The number is out of range.
    pub fn from_micros(micros: i64) -> Result<Time, ValueError> {
        let fits = (0..=DAY).contains(&micros);
        let limits = "a time of day has 0 to 86400000000 microseconds";
        if fits { Ok(Time { micros }) } else { Err(ValueError::limits(micros, "time", limits)) }
    }

    /// Returns the microseconds since midnight.
    pub fn micros(self) -> i64 {
        self.micros
    }
}

impl fmt::Display for Time {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(self.micros, to)
    }
}

impl FromStr for Time {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut scanner = Scanner { rest: text };
        let micros = scanner.time().filter(|_| scanner.rest.is_empty());
        micros.map(|micros| Time { micros }).ok_or_else(|| ValueError::form(text, "time", TIME_EXAMPLE))
    }
}

/// A date and a time of day in microseconds, in no time zone: `timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    micros: i64,
}

impl Timestamp {
    /// Before all other timestamps.
    pub const NEG_INFINITY: Timestamp = Timestamp { micros: i64::MIN };
    /// The first finite one: 4714-11-24 00:00:00 BC.
    pub const MIN: Timestamp = Timestamp { micros: -211_813_488_000_000_000 };
    /// The last finite one: 294276-12-31 23:59:59.999999.
    pub const MAX: Timestamp = Timestamp { micros: 9_223_371_331_199_999_999 };
    /// After all other timestamps.
    pub const INFINITY: Timestamp = Timestamp { micros: i64::MAX };

    /// Returns the moment of this day at this time.
    ///
    /// # Errors
    /// It is out of range.
    pub fn new(date: Date, time: Time) -> Result<Timestamp, ValueError> {
        match date {
            Date::NEG_INFINITY => Ok(Timestamp::NEG_INFINITY),
            Date::INFINITY => Ok(Timestamp::INFINITY),
            Date { days } => {
                let micros = i64::from(days).checked_mul(DAY).and_then(|day| day.checked_add(time.micros));
                let moment = micros.map(|micros| Timestamp { micros });
                let within = moment.filter(|it| (Timestamp::MIN..=Timestamp::MAX).contains(it));
                within.ok_or_else(|| {
                    ValueError::limits(format_args!("{date} {time}"), "timestamp", TIMESTAMP_LIMITS)
                })
            }
        }
    }

    /// Returns the timestamp of this number of microseconds since 2000-01-01; `i64::MIN` and
    /// `i64::MAX` are the infinities.
    ///
    /// # Errors
    /// The number is out of range.
    pub fn from_micros(micros: i64) -> Result<Timestamp, ValueError> {
        let moment = Timestamp { micros };
        let fits = !moment.is_finite() || (Timestamp::MIN..=Timestamp::MAX).contains(&moment);
        if fits { Ok(moment) } else { Err(ValueError::limits(micros, "timestamp", TIMESTAMP_LIMITS)) }
    }

    /// Returns the number of microseconds since 2000-01-01.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Returns false for the infinities.
    pub fn is_finite(self) -> bool {
        self != Timestamp::NEG_INFINITY && self != Timestamp::INFINITY
    }

    /// Returns its day.
    pub fn date(self) -> Date {
        match self {
            Timestamp::NEG_INFINITY => Date::NEG_INFINITY,
            Timestamp::INFINITY => Date::INFINITY,
            Timestamp { micros } => Date { days: micros.div_euclid(DAY) as i32 },
        }
    }

    /// Returns its time of day: midnight for the infinities.
    pub fn time(self) -> Time {
        Time { micros: if self.is_finite() { self.micros.rem_euclid(DAY) } else { 0 } }
    }

    /// Writes the timestamp with `zone` behind the time.
    fn write(self, zone: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(infinity) = infinity(self.is_finite(), self.micros < 0) {
            return to.write_str(infinity);
        }
        let civil = Civil::of_days(self.date().days.into());
        civil.write(to)?;
        let era = if civil.is_before_christ() { " BC" } else { "" };
        write!(to, " {}{zone}{era}", self.time())
    }

    /// Reads a timestamp; `zoned` if an offset from UTC stands behind the time.
    fn read(text: &str, zoned: bool) -> Option<Timestamp> {
        match text {
            "infinity" => return Some(Timestamp::INFINITY),
            "-infinity" => return Some(Timestamp::NEG_INFINITY),
            _ => {}
        }
        let mut scanner = Scanner { rest: text };
        let date = scanner.date()?;
        let time = (scanner.take(" ") || scanner.take("T")).then(|| scanner.time())??;
        let offset = if zoned { scanner.offset()? } else { 0 };
        let days = scanner.era(date).filter(|_| scanner.rest.is_empty())?.days()?;
        let micros = days.checked_mul(DAY)?.checked_add(time)?.checked_sub(offset)?;
        Some(Timestamp { micros }).filter(|it| (Timestamp::MIN..=Timestamp::MAX).contains(it))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write("", to)
    }
}

impl FromStr for Timestamp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let moment = Timestamp::read(text, false);
        moment.ok_or_else(|| ValueError::form(text, "timestamp", TIMESTAMP_EXAMPLE))
    }
}

/// A moment in microseconds, as a date and a time of day in UTC: `timestamptz`. The offset from UTC
/// with which a text gives a moment is not stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampTz {
    utc: Timestamp,
}

impl TimestampTz {
    /// Before all other moments.
    pub const NEG_INFINITY: TimestampTz = TimestampTz { utc: Timestamp::NEG_INFINITY };
    /// The first finite moment.
    pub const MIN: TimestampTz = TimestampTz { utc: Timestamp::MIN };
    /// The last finite moment.
    pub const MAX: TimestampTz = TimestampTz { utc: Timestamp::MAX };
    /// After all other moments.
    pub const INFINITY: TimestampTz = TimestampTz { utc: Timestamp::INFINITY };

    /// Returns the moment of this date and time in UTC.
    pub fn from_utc(utc: Timestamp) -> TimestampTz {
        TimestampTz { utc }
    }

    /// Returns the moment of this number of microseconds since 2000-01-01 in UTC.
    ///
    /// # Errors
    /// The number is out of range.
    pub fn from_micros(micros: i64) -> Result<TimestampTz, ValueError> {
        Timestamp::from_micros(micros).map(TimestampTz::from_utc)
    }

    /// Returns the number of microseconds since 2000-01-01 in UTC.
    pub fn micros(self) -> i64 {
        self.utc.micros
    }

    /// Returns date and time in UTC.
    pub fn utc(self) -> Timestamp {
        self.utc
    }

    /// Returns false for the infinities.
    pub fn is_finite(self) -> bool {
        self.utc.is_finite()
    }
}

impl fmt::Display for TimestampTz {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.utc.write("+00", to)
    }
}

impl FromStr for TimestampTz {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let moment = Timestamp::read(text, true).map(TimestampTz::from_utc);
        moment.ok_or_else(|| ValueError::form(text, "timestamptz", TIMESTAMPTZ_EXAMPLE))
    }
}

// A number that is out of range is damage; it is kept as it is.
like! {
    Date as i32, ValueType::Date => |date: Date| date.days, |days| Date { days };
    Time as i64, ValueType::Time => |time: Time| time.micros, |micros| Time { micros };
    Timestamp as i64, ValueType::Timestamp => |moment: Timestamp| moment.micros, |micros| Timestamp { micros };
    TimestampTz as i64, ValueType::TimestampTz =>
        |moment: TimestampTz| moment.utc.micros, |micros| TimestampTz { utc: Timestamp { micros } };
}

serialize_as! {
    () Date as i32: |date: &Date| date.days, Date::from_days;
    () Time as i64: |time: &Time| time.micros, Time::from_micros;
    () Timestamp as i64: |moment: &Timestamp| moment.micros, Timestamp::from_micros;
    () TimestampTz as i64: |moment: &TimestampTz| moment.utc.micros, TimestampTz::from_micros;
}

debug_as_text!(Date, Time, Timestamp, TimestampTz);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    #[test]
    fn limits_are_those_of_postgresql() {
        for (date, text) in [
            (Date::MIN, "4714-11-24 BC"),
            (Date::MAX, "5874897-12-31"),
            (Date::NEG_INFINITY, "-infinity"),
            (Date::INFINITY, "infinity"),
        ] {
            assert_eq!((date.to_string(), text.parse()), (text.to_owned(), Ok(date)));
            assert_eq!(Date::from_days(date.days()), Ok(date));
        }
        for (moment, text) in [
            (Timestamp::MIN, "4714-11-24 00:00:00 BC"),
            (Timestamp::MAX, "294276-12-31 23:59:59.999999"),
            (Timestamp::NEG_INFINITY, "-infinity"),
            (Timestamp::INFINITY, "infinity"),
        ] {
            assert_eq!((moment.to_string(), text.parse()), (text.to_owned(), Ok(moment)));
            assert_eq!(Timestamp::new(moment.date(), moment.time()), Ok(moment));
        }
        assert!(
            Date::from_days(Date::MIN.days() - 1).is_err() && Date::from_days(Date::MAX.days() + 1).is_err()
        );
        let beyond = [Timestamp::MIN.micros() - 1, Timestamp::MAX.micros() + 1];
        assert!(beyond.iter().all(|micros| TimestampTz::from_micros(*micros).is_err()));
        assert!(Timestamp::new(Date::MAX, Time::MIDNIGHT).is_err());
        assert!(Time::from_micros(-1).is_err() && Time::from_micros(Time::MAX.micros() + 1).is_err());
        assert!(
            Time::new(24, 0, 0, 0).is_err()
                && Time::new(0, 60, 0, 0).is_err()
                && Time::new(0, 0, 0, 1_000_000).is_err()
        );
    }

    #[test]
    fn texts_are_those_of_iso_8601_and_postgresql() {
        let date = Date::new(2026, 11, 28).expect("a date");
        assert_eq!(
            (date.to_string(), date.year_month_day()),
            ("2026-11-28".to_owned(), Some((2026, 11, 28)))
        );
        assert_eq!("0044-03-15 BC".parse(), Date::new(-43, 3, 15));
        assert_eq!("04:35".parse(), Time::new(4, 35, 0, 0));
        assert_eq!("24:00:00".parse(), Ok(Time::MAX));
        assert_eq!(Time::new(4, 35, 0, 120_000).expect("a time").to_string(), "04:35:00.12");
        let moment = Timestamp::new(date, Time::new(4, 35, 0, 500_000).expect("a time")).expect("a moment");
        for text in ["2026-11-28T04:35:00.5", "2026-11-28 04:35:00.500"] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        let utc = TimestampTz::from_utc(moment);
        for text in [
            "2026-11-28 04:35:00.5Z",
            "2026-11-28 06:35:00.5+02",
            "2026-11-28T10:05:00.5+0530",
            "2026-11-27 20:35:00.5-08:00",
            "2026-11-28 05:05:00.5+0030",
        ] {
            assert_eq!(text.parse(), Ok(utc), "{text}");
        }
        assert_eq!(utc.to_string(), "2026-11-28 04:35:00.5+00");
        assert_eq!(
            "0044-03-15 12:00:00+00 BC".parse::<TimestampTz>().map(|it| it.utc().date()),
            Date::new(-43, 3, 15)
        );
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for text in [
            "",
            "2026-13-01",
            "2026-02-29",
            "26-01-01",
            "2026-1-1",
            "2026-01-01 ",
            "0000-01-01",
            "5874898-01-01",
            "today",
        ] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        for text in ["", "4:35", "04:60", "04:35:60", "24:00:01", "04:35:00.", "04:35:00.1234567", "04:35Z"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for text in ["2026-01-01", "2026-01-01 00:00:00Z", "294277-01-01 00:00:00"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        for text in ["2026-01-01 00:00:00", "2026-01-01 00:00:00+16", "2026-01-01 00:00:00+02:60"] {
            assert!(text.parse::<TimestampTz>().is_err(), "{text}");
        }
        let error = "tomorrow".parse::<Date>().expect_err("no date").to_string();
        assert_eq!(error, "\"tomorrow\" is no date: write it like 2026-11-28, 0044-03-15 BC or infinity");
    }

    fn key<K: Key>(value: &K) -> KeyBuffer {
        KeyBuffer::of(value)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn values_are_read_as_written_and_sort_in_keys(
            days in proptest::array::uniform2(Date::MIN.days..=Date::MAX.days),
            micros in proptest::array::uniform2(Timestamp::MIN.micros..=Timestamp::MAX.micros),
            of_day in proptest::array::uniform2(0..=DAY),
        ) {
            let dates = days.map(|days| Date { days });
            let moments = micros.map(|micros| TimestampTz { utc: Timestamp { micros } });
            let times = of_day.map(|micros| Time { micros });
            prop_assert_eq!(dates[0].to_string().parse(), Ok(dates[0]));
            prop_assert_eq!(moments[0].to_string().parse(), Ok(moments[0]));
            prop_assert_eq!(moments[0].utc.to_string().parse(), Ok(moments[0].utc));
            prop_assert_eq!(times[0].to_string().parse(), Ok(times[0]));
            prop_assert_eq!(key(&dates[0]).cmp(&key(&dates[1])), dates[0].cmp(&dates[1]));
            prop_assert_eq!(key(&moments[0]).cmp(&key(&moments[1])), moments[0].cmp(&moments[1]));
            prop_assert_eq!(key(&times[0]).cmp(&key(&times[1])), times[0].cmp(&times[1]));
            let sent = postcard::to_allocvec(&(dates, moments, times)).expect("sent");
            prop_assert_eq!(postcard::from_bytes(&sent), Ok((dates, moments, times)));
        }
    }
}
