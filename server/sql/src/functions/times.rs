//! Functions of days and times.

use isles::{Date, Datum, Decimal, Interval, Timestamp, TimestampTz};

use super::{Builtin, T, function, integer, text};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;

/// Microseconds of a second and of a day.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Days from 1970-01-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 10_957;

pub static FUNCTIONS: &[Builtin] = &[
    function("now", &[], T::TimestampTz, |_, x| Ok(Datum::TimestampTz(x.context.now))),
    function("transaction_timestamp", &[], T::TimestampTz, |_, x| Ok(Datum::TimestampTz(x.context.now))),
    function("statement_timestamp", &[], T::TimestampTz, |_, x| Ok(Datum::TimestampTz(x.context.now))),
    function("clock_timestamp", &[], T::TimestampTz, |_, _| Ok(Datum::TimestampTz(crate::context::moment()))),
    function("current_date", &[], T::Date, |_, x| Ok(Datum::Date(x.context.now.utc().date()))),
    function("localtimestamp", &[], T::Timestamp, |_, x| Ok(Datum::Timestamp(x.context.now.utc()))),
    function("localtime", &[], T::Time, |_, x| Ok(Datum::Time(x.context.now.utc().time()))),
    function("date_part", &[T::Text, T::Timestamp], T::Float8, part),
    function("date_part", &[T::Text, T::TimestampTz], T::Float8, part),
    function("date_part", &[T::Text, T::Date], T::Float8, part),
    function("date_part", &[T::Text, T::Interval], T::Float8, part),
    function("date_trunc", &[T::Text, T::Timestamp], T::Timestamp, truncate),
    function("date_trunc", &[T::Text, T::TimestampTz], T::TimestampTz, truncate),
    function("extract", &[T::Text, T::Timestamp], T::Numeric, |a, _| extract(text(&a[0]), &a[1])),
    function("extract", &[T::Text, T::TimestampTz], T::Numeric, |a, _| extract(text(&a[0]), &a[1])),
    function("extract", &[T::Text, T::Date], T::Numeric, |a, _| extract(text(&a[0]), &a[1])),
    function("extract", &[T::Text, T::Time], T::Numeric, |a, _| extract(text(&a[0]), &a[1])),
    function("extract", &[T::Text, T::Interval], T::Numeric, |a, _| extract(text(&a[0]), &a[1])),
    function("make_date", &[T::Int4, T::Int4, T::Int4], T::Date, |a, _| {
        let part = |place: usize| u8::try_from(integer(&a[place])).unwrap_or(0);
        let date = Date::new(integer(&a[0]) as i32, part(1), part(2));
        date.map(Datum::Date).map_err(|_| SqlError::new("22008", "date field value out of range"))
    }),
    function("make_interval", &[T::Int4, T::Int4, T::Int4, T::Int4], T::Interval, |a, _| {
        let part = |place: usize| integer(&a[place]) as i32;
        let months = part(0).saturating_mul(12).saturating_add(part(1));
        Ok(Datum::Interval(Interval::new(months, part(2).saturating_mul(7).saturating_add(part(3)), 0)))
    }),
    function("to_timestamp", &[T::Float8], T::TimestampTz, |a, _| {
        let seconds = crate::value::float(&a[0]).unwrap_or(0.0);
        let micros = (seconds * SECOND as f64).round() as i64;
        let micros = micros.saturating_sub(DAYS_TO_2000 * DAY);
        let moment = TimestampTz::from_micros(micros);
        moment.map(Datum::TimestampTz).map_err(|_| SqlError::new("22008", "timestamp out of range"))
    }),
    function("timezone", &[T::Text, T::TimestampTz], T::Timestamp, |a, _| match &a[1] {
        Datum::TimestampTz(moment) => zone(text(&a[0])).map(|()| Datum::Timestamp(moment.utc())),
        other => Ok(other.clone()),
    }),
    function("timezone", &[T::Text, T::Timestamp], T::TimestampTz, |a, _| match &a[1] {
        Datum::Timestamp(moment) => {
            zone(text(&a[0])).map(|()| Datum::TimestampTz(TimestampTz::from_utc(*moment)))
        }
        other => Ok(other.clone()),
    }),
    function("gen_random_uuid", &[], T::Uuid, |_, x| {
        let number = u128::from(x.context.bits()) << 64 | u128::from(x.context.bits());
        // Version 4, variant 1.
        let number = number & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        Ok(Datum::Uuid(isles::Uuid::from_u128(number)))
    }),
];

fn zone(name: &str) -> Result<()> {
    match name.to_ascii_uppercase().as_str() {
        "UTC" | "GMT" | "Z" | "ETC/UTC" => Ok(()),
        _ => Err(SqlError::unsupported(format!("time zone {name:?}")).hint("The only time zone is UTC.")),
    }
}

fn part(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let value = extract(text(&a[0]), &a[1])?;
    Ok(crate::value::float(&value).map_or(Datum::Null, Datum::Float))
}

/// Day and microseconds of a value; `None` for infinities.
fn moment(value: &Datum) -> Option<(Date, i64)> {
    Some(match value {
        Datum::Date(date) => (*date, 0),
        Datum::Timestamp(moment) if moment.is_finite() => (moment.date(), moment.time().micros()),
        Datum::TimestampTz(moment) if moment.is_finite() => {
            (moment.utc().date(), moment.utc().time().micros())
        }
        Datum::Time(time) => (Date::from_days(0).ok()?, time.micros()),
        _ => return None,
    })
}

/// Returns a field of a day, a time or an interval.
pub fn extract(field: &str, value: &Datum) -> Result<Datum> {
    let field = field.to_ascii_lowercase();
    let unknown = || {
        let message = format!("unit \"{field}\" not recognized");
        SqlError::new(state::INVALID_PARAMETER, message)
    };
    let number =
        |digits: i128, scale| Ok(Datum::Numeric(Decimal::new(digits, scale).unwrap_or(Decimal::ZERO)));
    if let Datum::Interval(of) = value {
        let (months, days, micros) =
            (i128::from(of.months()), i128::from(of.days()), i128::from(of.micros()));
        let (second, hour) = (i128::from(SECOND), 3600 * i128::from(SECOND));
        return match field.as_str() {
            "year" | "years" => number(months / 12, 0),
            "month" | "months" => number(months % 12, 0),
            "day" | "days" => number(days, 0),
            "hour" | "hours" => number(micros / hour, 0),
            "minute" | "minutes" => number(micros % hour / (60 * second), 0),
            "second" | "seconds" => number(micros % (60 * second), 6),
            // A year has 365.25 days and a month 30.
            "epoch" => {
                let (years, months) = (months / 12, months % 12);
                let day = i128::from(DAY);
                number(years * day * 1461 / 4 + months * 30 * day + days * day + micros, 6)
            }
            _ => Err(unknown()),
        };
    }
    let Some((date, micros)) = moment(value) else { return Ok(Datum::Null) };
    let (year, month, day) = date.year_month_day().ok_or_else(unknown)?;
    let (days, micros) = (i64::from(date.days()), micros);
    // 2000-01-01 was a Saturday.
    let weekday = (days + 6).rem_euclid(7);
    match field.as_str() {
        "year" | "years" => number(year.into(), 0),
        "month" | "months" => number(month.into(), 0),
        "day" | "days" => number(day.into(), 0),
        "hour" | "hours" => number((micros / (3600 * SECOND)).into(), 0),
        "minute" | "minutes" => number((micros / (60 * SECOND) % 60).into(), 0),
        "second" | "seconds" => number((micros % (60 * SECOND)).into(), 6),
        "milliseconds" => number((micros % (60 * SECOND)).into(), 3),
        "microseconds" => number((micros % (60 * SECOND)).into(), 0),
        "quarter" => number((i128::from(month) + 2) / 3, 0),
        "dow" => number(weekday.into(), 0),
        "isodow" => number(if weekday == 0 { 7 } else { weekday.into() }, 0),
        "doy" => {
            let first = Date::new(year, 1, 1).map(Date::days).unwrap_or(0);
            number(i128::from(date.days() - first + 1), 0)
        }
        "epoch" if matches!(value, Datum::Time(_)) => number(micros.into(), 6),
        "epoch" => number(i128::from(days + DAYS_TO_2000) * i128::from(DAY) + i128::from(micros), 6),
        "decade" => number(i128::from(year).div_euclid(10), 0),
        "century" => number((i128::from(year) + 99).div_euclid(100), 0),
        "timezone" => number(0, 0),
        _ => Err(unknown()),
    }
}

fn truncate(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let Some((date, micros)) = moment(&a[1]) else { return Ok(a[1].clone()) };
    let field = text(&a[0]).to_ascii_lowercase();
    let unknown = || SqlError::new(state::INVALID_PARAMETER, format!("unit \"{field}\" not recognized"));
    let (year, month, _) = date.year_month_day().ok_or_else(unknown)?;
    let unit = match field.as_str() {
        "microseconds" => 1,
        "milliseconds" => SECOND / 1000,
        "second" => SECOND,
        "minute" => 60 * SECOND,
        "hour" => 3600 * SECOND,
        _ => DAY,
    };
    let date = match field.as_str() {
        "week" => Date::from_days(date.days() - (date.days() + 5).rem_euclid(7)),
        "month" => Date::new(year, month, 1),
        "quarter" => Date::new(year, (month - 1) / 3 * 3 + 1, 1),
        "year" => Date::new(year, 1, 1),
        "decade" => Date::new(year.div_euclid(10) * 10, 1, 1),
        "day" | "microseconds" | "milliseconds" | "second" | "minute" | "hour" => Ok(date),
        _ => return Err(unknown()),
    };
    let date = date.map_err(|_| unknown())?;
    let micros = i64::from(date.days()) * DAY + micros / unit * unit;
    let moment = Timestamp::from_micros(micros).map_err(|_| unknown())?;
    Ok(match &a[1] {
        Datum::TimestampTz(_) => Datum::TimestampTz(TimestampTz::from_utc(moment)),
        _ => Datum::Timestamp(moment),
    })
}
