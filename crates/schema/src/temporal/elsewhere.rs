//! Types of the standard library and of the crate `time` beside those of this crate.
// A time of the program is a value here; nothing reads the clock.
#![allow(clippy::disallowed_types)]

use std::time::{Duration, SystemTime};

use crate::foreign::like;
use crate::key::{Key, KeySink};
use crate::row::Value;
use crate::temporal::calendar::DAY;
use crate::temporal::dates::TimestampTz;
use crate::temporal::interval::Interval;
use crate::value_type::ValueType;

/// Microseconds from 1970-01-01 to 2000-01-01.
const UNIX_EPOCH: i64 = -10_957 * DAY;

/// Drops what is smaller than a microsecond: the moment before. A time beyond all finite moments is
/// the first or the last one.
impl From<SystemTime> for TimestampTz {
    fn from(time: SystemTime) -> Self {
        let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_nanos().div_ceil(1000)).unwrap_or(i128::MAX),
        };
        let micros = micros.saturating_add(UNIX_EPOCH.into());
        let within = micros.clamp(TimestampTz::MIN.micros().into(), TimestampTz::MAX.micros().into());
        TimestampTz::from_micros(within as i64).unwrap_or(TimestampTz::MAX)
    }
}

/// The infinities are the first and the last finite moment.
impl From<TimestampTz> for SystemTime {
    fn from(moment: TimestampTz) -> Self {
        let within = moment.clamp(TimestampTz::MIN, TimestampTz::MAX);
        let micros = i128::from(within.micros()) - i128::from(UNIX_EPOCH);
        let length = Duration::from_micros(micros.unsigned_abs() as u64);
        let moment = match micros < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(length),
            false => SystemTime::UNIX_EPOCH.checked_add(length),
        };
        // A platform whose times have a smaller range.
        moment.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Drops what is smaller than a microsecond. A length of more than 292,271 years is that long.
impl From<Duration> for Interval {
    fn from(length: Duration) -> Self {
        Interval::new(0, 0, i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A negative length is zero, a month is 30 days, and a day 24 hours.
impl From<Interval> for Duration {
    fn from(interval: Interval) -> Self {
        let micros = u128::try_from(interval.span()).unwrap_or(0);
        Duration::new((micros / 1_000_000) as u64, (micros % 1_000_000) as u32 * 1000)
    }
}

like! {
    SystemTime as TimestampTz, ValueType::TimestampTz => TimestampTz::from, SystemTime::from;
    Duration as Interval, ValueType::Interval => Interval::from, Duration::from;
}

#[cfg(feature = "time")]
mod of_time {
    use super::{DAY, UNIX_EPOCH};
    use crate::temporal::dates::{Date, Time, Timestamp, TimestampTz};
    use crate::value_error::ValueError;

    const LIMITS: &str = "the crate `time` has no infinities, and years from -9999 to 9999";
    /// The Julian day 2000-01-01.
    const EPOCH: i32 = 2_451_545;

    impl TryFrom<time::Date> for Date {
        type Error = ValueError;

        fn try_from(date: time::Date) -> Result<Self, ValueError> {
            Date::from_days(date.to_julian_day() - EPOCH)
        }
    }

    impl TryFrom<Date> for time::Date {
        type Error = ValueError;

        fn try_from(date: Date) -> Result<Self, ValueError> {
            let day = date.days().checked_add(EPOCH).and_then(|day| time::Date::from_julian_day(day).ok());
            day.ok_or_else(|| ValueError::limits(date, "date of the crate `time`", LIMITS))
        }
    }

    /// Drops what is smaller than a microsecond.
    impl From<time::Time> for Time {
        fn from(time: time::Time) -> Self {
            let (hour, minute, second, micros) = time.as_hms_micro();
            Time::new(hour, minute, second, micros).unwrap_or(Time::MAX)
        }
    }

    impl TryFrom<Time> for time::Time {
        type Error = ValueError;

        fn try_from(time: Time) -> Result<Self, ValueError> {
            let fail = || ValueError::limits(time, "time of the crate `time`", "it has no 24:00:00");
            let within = Some(time.micros()).filter(|micros| (0..DAY).contains(micros)).ok_or_else(fail)?;
            let seconds = within / 1_000_000;
            let [hour, minute, second] =
                [seconds / 3600, seconds / 60 % 60, seconds % 60].map(|part| part as u8);
            time::Time::from_hms_micro(hour, minute, second, (within % 1_000_000) as u32).map_err(|_| fail())
        }
    }

    /// Drops what is smaller than a microsecond.
    impl TryFrom<time::PrimitiveDateTime> for Timestamp {
        type Error = ValueError;

        fn try_from(moment: time::PrimitiveDateTime) -> Result<Self, ValueError> {
            Timestamp::new(moment.date().try_into()?, moment.time().into())
        }
    }

    impl TryFrom<Timestamp> for time::PrimitiveDateTime {
        type Error = ValueError;

        fn try_from(moment: Timestamp) -> Result<Self, ValueError> {
            Ok(time::PrimitiveDateTime::new(moment.date().try_into()?, moment.time().try_into()?))
        }
    }

    /// Drops the offset, and what is smaller than a microsecond.
    impl TryFrom<time::OffsetDateTime> for TimestampTz {
        type Error = ValueError;

        fn try_from(moment: time::OffsetDateTime) -> Result<Self, ValueError> {
            let micros = moment.unix_timestamp_nanos().div_euclid(1000) + i128::from(UNIX_EPOCH);
            let micros =
                i64::try_from(micros).map_err(|_| ValueError::limits(moment.year(), "timestamptz", LIMITS));
            TimestampTz::from_micros(micros?)
        }
    }

    impl TryFrom<TimestampTz> for time::OffsetDateTime {
        type Error = ValueError;

        fn try_from(moment: TimestampTz) -> Result<Self, ValueError> {
            time::PrimitiveDateTime::try_from(moment.utc()).map(time::PrimitiveDateTime::assume_utc)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_system_are_moments() {
        let epoch = TimestampTz::from(SystemTime::UNIX_EPOCH);
        assert_eq!(epoch.to_string(), "1970-01-01 00:00:00+00");
        let nanos = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_999);
        assert_eq!(TimestampTz::from(nanos).to_string(), "1970-01-01 00:00:00.000001+00");
        let before = SystemTime::UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(TimestampTz::from(before).to_string(), "1969-12-31 23:59:59.999999+00");
        for moment in [TimestampTz::MIN, epoch, TimestampTz::MAX] {
            assert_eq!(TimestampTz::from(SystemTime::from(moment)), moment);
        }
        assert_eq!(TimestampTz::from(SystemTime::from(TimestampTz::INFINITY)), TimestampTz::MAX);
    }

    #[test]
    fn lengths_of_time_are_intervals() {
        let length = Duration::new(90_000, 1_999);
        assert_eq!(Interval::from(length).to_string(), "PT25H0.000001S");
        assert_eq!(Duration::from(Interval::from(length)), Duration::new(90_000, 1_000));
        assert_eq!(Duration::from(Interval::new(0, -1, 0)), Duration::ZERO);
        assert_eq!(Duration::from(Interval::new(1, 0, 0)), Duration::from_secs(30 * 86_400));
        assert_eq!(Interval::from(Duration::MAX), Interval::new(0, 0, i64::MAX));
    }

    /// The calendar agrees with that of the crate `time` on each day that both have.
    #[cfg(feature = "time")]
    #[test]
    fn dates_are_those_of_the_crate_time() {
        use crate::temporal::dates::Date;
        let mut day = time::Date::from_julian_day(0).expect("a day");
        while let Some(next) = day.next_day() {
            let date = Date::try_from(day).expect("a date");
            assert_eq!(date.year_month_day(), Some((day.year(), day.month().into(), day.day())));
            assert_eq!(time::Date::try_from(date), Ok(day));
            day = next;
        }
        let now =
            time::OffsetDateTime::from_unix_timestamp_nanos(1_732_768_500_123_456_000).expect("a moment");
        let moment = TimestampTz::try_from(now).expect("a moment");
        assert_eq!(moment.to_string(), "2024-11-28 04:35:00.123456+00");
        assert_eq!(time::OffsetDateTime::try_from(moment), Ok(now));
        assert!(time::Date::try_from(Date::MAX).is_err() && time::Date::try_from(Date::INFINITY).is_err());
    }
}
