//! Order, arithmetic and conversion of values.

use std::cmp::Ordering;

use isles::{Datum, Decimal, Interval, Timestamp, TimestampTz};

use crate::error::{Result, SqlError, state};
use crate::text::{from_text, to_text};
use crate::types::SqlType;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;
/// Significant digits of a quotient.
const QUOTIENT_DIGITS: i32 = 16;

/// Operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient.
    Divide,
    /// Rest of a division.
    Remainder,
}

/// Order of two values that are not null, of one type or of two types of numbers.
pub fn compare(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Signed(left), Datum::Signed(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) => left.cmp(right),
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
        (Datum::Float(left), Datum::Float(right)) => compare_floats(*left, *right),
        (Datum::Numeric(left), Datum::Numeric(right)) => left.cmp(right),
        (Datum::Bytes(left), Datum::Bytes(right)) => left.cmp(right),
        (Datum::Date(left), Datum::Date(right)) => left.cmp(right),
        (Datum::Time(left), Datum::Time(right)) => left.cmp(right),
        (Datum::Timestamp(left), Datum::Timestamp(right)) => left.cmp(right),
        (Datum::TimestampTz(left), Datum::TimestampTz(right)) => left.cmp(right),
        (Datum::Interval(left), Datum::Interval(right)) => left.cmp(right),
        (Datum::Uuid(left), Datum::Uuid(right)) => left.cmp(right),
        (Datum::List(left), Datum::List(right)) => compare_rows(left, right),
        (Datum::Null, Datum::Null) => Ordering::Equal,
        // A null is larger than any value.
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (left, right) => match (decimal(left), decimal(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => compare_floats(float(left).unwrap_or(0.0), float(right).unwrap_or(0.0)),
        },
    }
}

/// Order of lists of values: member by member.
pub fn compare_rows(left: &[Datum], right: &[Datum]) -> Ordering {
    let members = left.iter().zip(right).map(|(left, right)| compare(left, right));
    members.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// In the order of PostgreSQL: NaN is larger than all, and equal to itself.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// A row as key of an ordered map.
#[derive(Clone, Debug)]
pub struct Key(pub Vec<Datum>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_rows(&self.0, &other.0)
    }
}

/// Returns an exact number, if the value is one.
pub fn decimal(value: &Datum) -> Option<Decimal> {
    match value {
        Datum::Numeric(number) => Some(*number),
        Datum::Signed(number) => Decimal::new((*number).into(), 0).ok(),
        _ => None,
    }
}

/// Returns the nearest floating-point number, if the value is a number.
pub fn float(value: &Datum) -> Option<f64> {
    match value {
        Datum::Float(number) => Some(*number),
        Datum::Signed(number) => Some(*number as f64),
        Datum::Numeric(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Returns the error for a number without a place in its type.
pub fn out_of_range(kind: &SqlType) -> SqlError {
    SqlError::new(state::OUT_OF_RANGE, format!("{} out of range", kind.name()))
}

fn zero() -> SqlError {
    SqlError::new(state::DIVISION_BY_ZERO, "division by zero")
}

/// Computes with two values that are not null; `kind` is the type of the result.
pub fn calculate(operation: Operation, left: &Datum, right: &Datum, kind: &SqlType) -> Result<Datum> {
    match kind {
        SqlType::Float4 | SqlType::Float8 => floats(operation, left, right, kind),
        SqlType::Numeric(_) => {
            let (Some(left), Some(right)) = (decimal(left), decimal(right)) else {
                return Err(out_of_range(kind));
            };
            decimals(operation, left, right).map(Datum::Numeric)
        }
        // The difference of two days is an integer, too.
        kind if kind.is_integer() && matches!(left, Datum::Signed(_)) => {
            integers(operation, left, right, kind)
        }
        _ => times(operation, left, right, kind),
    }
}

fn integers(operation: Operation, left: &Datum, right: &Datum, kind: &SqlType) -> Result<Datum> {
    let (Datum::Signed(left), Datum::Signed(right)) = (left, right) else { return Err(out_of_range(kind)) };
    let result = match operation {
        Operation::Add => left.checked_add(*right),
        Operation::Subtract => left.checked_sub(*right),
        Operation::Multiply => left.checked_mul(*right),
        Operation::Divide | Operation::Remainder if *right == 0 => return Err(zero()),
        Operation::Divide => left.checked_div(*right),
        Operation::Remainder => Some(left.checked_rem(*right).unwrap_or(0)),
    };
    within(result.ok_or_else(|| out_of_range(kind))?, kind)
}

/// Returns an integer, if it has a place in the type.
fn within(number: i64, kind: &SqlType) -> Result<Datum> {
    let fits = match kind {
        SqlType::Int2 => i16::try_from(number).is_ok(),
        SqlType::Int4 => i32::try_from(number).is_ok(),
        SqlType::Int8 => true,
        _ => u32::try_from(number).is_ok(),
    };
    if fits { Ok(Datum::Signed(number)) } else { Err(out_of_range(kind)) }
}

fn floats(operation: Operation, left: &Datum, right: &Datum, kind: &SqlType) -> Result<Datum> {
    let (Some(left), Some(right)) = (float(left), float(right)) else { return Err(out_of_range(kind)) };
    let result = match operation {
        Operation::Add => left + right,
        Operation::Subtract => left - right,
        Operation::Multiply => left * right,
        Operation::Divide if right == 0.0 => return Err(zero()),
        Operation::Divide => left / right,
        Operation::Remainder => left % right,
    };
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(SqlError::new(state::OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(Datum::Float(if *kind == SqlType::Float4 { f64::from(result as f32) } else { result }))
}

fn decimals(operation: Operation, left: Decimal, right: Decimal) -> Result<Decimal> {
    let kind = SqlType::Numeric(None);
    let scale = left.scale().max(right.scale());
    let digits = || Some((left.with_scale(scale)?.digits(), right.with_scale(scale)?.digits()));
    let exact = match operation {
        Operation::Add => digits().and_then(|(left, right)| left.checked_add(right)).map(|sum| (sum, scale)),
        Operation::Subtract => {
            digits().and_then(|(left, right)| left.checked_sub(right)).map(|difference| (difference, scale))
        }
        Operation::Multiply => {
            let product = left.digits().checked_mul(right.digits());
            product.map(|product| (product, left.scale() + right.scale()))
        }
        Operation::Divide | Operation::Remainder if right.digits() == 0 => return Err(zero()),
        Operation::Remainder => {
            digits().and_then(|(left, right)| left.checked_rem(right)).map(|rest| (rest, scale))
        }
        Operation::Divide => quotient(left, right),
    };
    let (digits, scale) = exact.ok_or_else(|| out_of_range(&kind))?;
    Decimal::new(digits, scale).map_err(|_| out_of_range(&kind))
}

/// Weight of the first digit in base 10,000, and this digit.
fn weight(number: Decimal) -> (i32, u128) {
    let scale = i32::from(number.scale());
    let padding = (4 - scale.rem_euclid(4)) % 4;
    let mut digits = number.digits().unsigned_abs().saturating_mul(10_u128.pow(padding as u32));
    let mut weight = -((scale + padding) / 4);
    while digits >= 10_000 {
        digits /= 10_000;
        weight += 1;
    }
    (if digits == 0 { 0 } else { weight }, digits)
}

/// Digits and scale of a quotient, by PostgreSQL's rule for the scale, as far as 38 digits reach.
fn quotient(left: Decimal, right: Decimal) -> Option<(i128, u8)> {
    let ((weight_left, first_left), (weight_right, first_right)) = (weight(left), weight(right));
    let weight = weight_left - weight_right - i32::from(first_left <= first_right);
    let scale = (QUOTIENT_DIGITS - 4 * weight).max(left.scale().into()).max(right.scale().into()).max(0);
    let mut scale = u8::try_from(scale).ok()?.min(38);
    loop {
        // digits / 10^scale = (left / 10^a) / (right / 10^b)
        let shift = i32::from(scale) + i32::from(right.scale()) - i32::from(left.scale());
        let power = 10_i128.checked_pow(shift.unsigned_abs());
        let parts = power.and_then(|power| match shift < 0 {
            true => Some((left.digits(), right.digits().checked_mul(power)?)),
            false => Some((left.digits().checked_mul(power)?, right.digits())),
        });
        if let Some((dividend, divisor)) = parts {
            let (quotient, rest) = (dividend / divisor, dividend % divisor);
            let is_up = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
            let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
            return Some((if is_up { quotient + away } else { quotient }, scale));
        }
        scale = scale.checked_sub(1)?;
    }
}

/// Adds months to a day, keeping the day of the month where there is one.
fn add_interval(moment: Timestamp, interval: Interval, sign: i64) -> Option<Timestamp> {
    if !moment.is_finite() {
        return Some(moment);
    }
    let (date, time) = (moment.date(), moment.time());
    let (year, month, day) = date.year_month_day()?;
    let months = i64::from(year) * 12 + i64::from(month) - 1 + sign * i64::from(interval.months());
    let (year, month) = (i32::try_from(months.div_euclid(12)).ok()?, months.rem_euclid(12) as u8 + 1);
    let first = (1..=day).rev().find_map(|day| isles::Date::new(year, month, day).ok())?;
    let days = i64::from(first.days()) + sign * i64::from(interval.days());
    let micros = days.checked_mul(DAY)?.checked_add(time.micros())?;
    Timestamp::from_micros(micros.checked_add(sign * interval.micros())?).ok()
}

fn times(operation: Operation, left: &Datum, right: &Datum, kind: &SqlType) -> Result<Datum> {
    let sign = if operation == Operation::Subtract { -1 } else { 1 };
    let interval =
        |days: i64, micros: i64| Some(Datum::Interval(Interval::new(0, i32::try_from(days).ok()?, micros)));
    let result = match (left, right) {
        (Datum::Interval(left), Datum::Interval(right)) => {
            let months = i64::from(left.months()) + sign * i64::from(right.months());
            let days = i64::from(left.days()) + sign * i64::from(right.days());
            let micros = left.micros().checked_add(sign * right.micros());
            match (i32::try_from(months), i32::try_from(days), micros) {
                (Ok(months), Ok(days), Some(micros)) => {
                    Some(Datum::Interval(Interval::new(months, days, micros)))
                }
                _ => None,
            }
        }
        (Datum::Date(left), Datum::Date(right)) => {
            Some(Datum::Signed(i64::from(left.days()) - i64::from(right.days())))
        }
        (Datum::Date(date), Datum::Signed(_)) | (Datum::Signed(_), Datum::Date(date))
            if !date.is_finite() =>
        {
            Some(Datum::Date(*date))
        }
        (Datum::Date(date), Datum::Signed(days)) | (Datum::Signed(days), Datum::Date(date)) => {
            let sum = i64::from(date.days()) + sign * days;
            i32::try_from(sum).ok().and_then(|days| isles::Date::from_days(days).ok()).map(Datum::Date)
        }
        (Datum::Date(date), Datum::Interval(by)) | (Datum::Interval(by), Datum::Date(date)) => {
            let midnight = Timestamp::new(*date, isles::Time::MIDNIGHT).ok();
            midnight.and_then(|moment| add_interval(moment, *by, sign)).map(Datum::Timestamp)
        }
        (Datum::Timestamp(moment), Datum::Interval(by)) | (Datum::Interval(by), Datum::Timestamp(moment)) => {
            add_interval(*moment, *by, sign).map(Datum::Timestamp)
        }
        (Datum::TimestampTz(moment), Datum::Interval(by))
        | (Datum::Interval(by), Datum::TimestampTz(moment)) => {
            let sum = add_interval(moment.utc(), *by, sign);
            sum.map(|utc| Datum::TimestampTz(TimestampTz::from_utc(utc)))
        }
        (Datum::Timestamp(left), Datum::Timestamp(right)) => {
            left.micros().checked_sub(right.micros()).and_then(|micros| interval(micros / DAY, micros % DAY))
        }
        (Datum::TimestampTz(left), Datum::TimestampTz(right)) => {
            left.micros().checked_sub(right.micros()).and_then(|micros| interval(micros / DAY, micros % DAY))
        }
        (Datum::Time(time), Datum::Interval(by)) => {
            let micros = time.micros() + sign * (by.micros() % DAY);
            isles::Time::from_micros(micros.rem_euclid(DAY)).ok().map(Datum::Time)
        }
        (Datum::Interval(by), number) | (number, Datum::Interval(by)) => {
            float(number).and_then(|factor| scaled(*by, operation, factor))
        }
        _ => None,
    };
    result.ok_or_else(|| out_of_range(kind))
}

/// Returns a multiple of an interval.
fn scaled(by: Interval, operation: Operation, factor: f64) -> Option<Datum> {
    let factor = if operation == Operation::Divide { 1.0 / factor } else { factor };
    let months = f64::from(by.months()) * factor;
    let days = f64::from(by.days()) * factor + months.fract() * 30.0;
    let micros = by.micros() as f64 * factor + days.fract() * DAY as f64;
    let fits = [months, days].iter().all(|part| part.abs() < f64::from(i32::MAX)) && micros.abs() < 9e18;
    fits.then(|| Datum::Interval(Interval::new(months as i32, days as i32, micros.round() as i64)))
}

/// Converts a value to another type. `explicit` is true for a cast that the statement has: texts
/// are cut then where they are too long.
pub fn cast(value: Datum, from: &SqlType, to: &SqlType, explicit: bool) -> Result<Datum> {
    if value == Datum::Null {
        return Ok(value);
    }
    let converted = match (from, to) {
        (SqlType::Array(from), SqlType::Array(to)) if from != to => match value {
            Datum::List(values) => {
                let cast = |value| cast(value, from, to, explicit);
                Datum::List(values.into_iter().map(cast).collect::<Result<_>>()?)
            }
            other => other,
        },
        _ if from.plain() == to.plain() && !to.is_text() => value,
        _ => convert(value, from, to)?,
    };
    limit(converted, to, explicit)
}

/// Converts a value to another type, without regard to lengths and digits.
fn convert(value: Datum, from: &SqlType, to: &SqlType) -> Result<Datum> {
    Ok(match (value, to) {
        (Datum::Text(text), to) if to.is_text() => match from {
            SqlType::Char(_) if !matches!(to, SqlType::Char(_)) => {
                Datum::Text(text.trim_end_matches(' ').to_owned())
            }
            _ => Datum::Text(text),
        },
        (Datum::Text(text), to) => from_text(&text, to)?,
        (Datum::Bool(value), SqlType::Bool) => Datum::Bool(value),
        (Datum::Bool(value), SqlType::Int4) => Datum::Signed(value.into()),
        (Datum::Signed(number), SqlType::Bool) => Datum::Bool(number != 0),
        (Datum::Signed(number), to) if to.is_integer() => within(number, to)?,
        (Datum::Float(number), to) if to.is_integer() => {
            let rounded = number.round_ties_even();
            if !(-9.3e18..9.3e18).contains(&rounded) || rounded as i64 == i64::MAX {
                return Err(out_of_range(to));
            }
            within(rounded as i64, to)?
        }
        (Datum::Numeric(number), to) if to.is_integer() => {
            let whole = number.rounded(0).digits();
            within(i64::try_from(whole).map_err(|_| out_of_range(to))?, to)?
        }
        (value, SqlType::Float8) if float(&value).is_some() => Datum::Float(float(&value).unwrap_or(0.0)),
        (value, SqlType::Float4) if float(&value).is_some() => {
            let number = float(&value).unwrap_or(0.0);
            if number.is_finite() && (number as f32).is_infinite() {
                return Err(out_of_range(to));
            }
            Datum::Float(f64::from(number as f32))
        }
        (Datum::Float(number), SqlType::Numeric(_)) => {
            let digits = if *from == SqlType::Float4 { 6 } else { 15 };
            let text = format!("{number:.*e}", digits - 1);
            let parsed = from_text(&text, to)?;
            match decimal(&parsed) {
                Some(number) => Datum::Numeric(without_zeros(number)),
                None => parsed,
            }
        }
        (value @ (Datum::Signed(_) | Datum::Numeric(_)), SqlType::Numeric(_)) => {
            Datum::Numeric(decimal(&value).ok_or_else(|| out_of_range(to))?)
        }
        (Datum::Date(date), SqlType::Timestamp) => {
            Datum::Timestamp(Timestamp::new(date, isles::Time::MIDNIGHT).map_err(|_| out_of_range(to))?)
        }
        (Datum::Date(date), SqlType::TimestampTz) => {
            let utc = Timestamp::new(date, isles::Time::MIDNIGHT).map_err(|_| out_of_range(to))?;
            Datum::TimestampTz(TimestampTz::from_utc(utc))
        }
        (Datum::Timestamp(moment), SqlType::Date) => Datum::Date(moment.date()),
        (Datum::TimestampTz(moment), SqlType::Date) => Datum::Date(moment.utc().date()),
        (Datum::Timestamp(moment), SqlType::Time) => Datum::Time(moment.time()),
        (Datum::TimestampTz(moment), SqlType::Time) => Datum::Time(moment.utc().time()),
        (Datum::Timestamp(moment), SqlType::TimestampTz) => Datum::TimestampTz(TimestampTz::from_utc(moment)),
        (Datum::TimestampTz(moment), SqlType::Timestamp) => Datum::Timestamp(moment.utc()),
        (Datum::Time(time), SqlType::Interval) => Datum::Interval(Interval::new(0, 0, time.micros())),
        (value, to) if to.is_text() => match (&value, from) {
            // Truth values have words as texts, and letters as output.
            (Datum::Bool(value), _) => Datum::Text(value.to_string()),
            _ => Datum::Text(to_text(&value, from).unwrap_or_default()),
        },
        (_, to) => {
            let message = format!("cannot cast type {} to {}", from.name(), to.name());
            return Err(SqlError::new(state::CANNOT_COERCE, message));
        }
    })
}

fn without_zeros(number: Decimal) -> Decimal {
    let (mut digits, mut scale) = (number.digits(), number.scale());
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    Decimal::new(digits, scale).unwrap_or(number)
}

/// Brings a value to the lengths and digits of its type.
fn limit(value: Datum, kind: &SqlType, explicit: bool) -> Result<Datum> {
    match (value, kind) {
        (Datum::Text(text), SqlType::VarChar(Some(most))) => {
            cut(text, *most as usize, kind, explicit).map(Datum::Text)
        }
        (Datum::Text(text), SqlType::Char(most)) => {
            let text = cut(text, *most as usize, kind, explicit)?;
            let missing = (*most as usize).saturating_sub(text.chars().count());
            Ok(Datum::Text(text + &" ".repeat(missing)))
        }
        (Datum::Numeric(number), SqlType::Numeric(Some((precision, scale)))) => {
            let rounded = number.rounded(*scale);
            let fits = rounded.with_scale(*scale).filter(|number| {
                10_u128
                    .checked_pow((*precision).into())
                    .is_none_or(|most| number.digits().unsigned_abs() < most)
            });
            fits.map(Datum::Numeric).ok_or_else(|| {
                let places = precision - scale;
                SqlError::new(state::OUT_OF_RANGE, "numeric field overflow").detail(format!(
                    "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{places}."
                ))
            })
        }
        (value, _) => Ok(value),
    }
}

/// Cuts blanks at the end of a text, and with an explicit cast everything.
fn cut(text: String, most: usize, kind: &SqlType, explicit: bool) -> Result<String> {
    let Some((end, _)) = text.char_indices().nth(most) else { return Ok(text) };
    if explicit || text[end..].bytes().all(|byte| byte == b' ') {
        return Ok(text[..end].to_owned());
    }
    Err(SqlError::new(state::STRING_TOO_LONG, format!("value too long for type {}", kind.name())))
}
