//! Binary form of values on the wire.

use isles::{Date, Datum, Decimal, Interval, Time, Timestamp, TimestampTz, Uuid};

use crate::error::{Result, SqlError, state};
use crate::types::SqlType;

/// Signs of an exact number.
const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;

/// Appends the binary form of a value that is not null.
pub fn write_binary(value: &Datum, kind: &SqlType, to: &mut Vec<u8>) {
    match (value, kind) {
        (Datum::Bool(value), _) => to.push(u8::from(*value)),
        (Datum::Signed(number), SqlType::Int2) => to.extend((*number as i16).to_be_bytes()),
        (Datum::Signed(number), SqlType::Int8) => to.extend(number.to_be_bytes()),
        (Datum::Signed(number), _) => to.extend((*number as i32).to_be_bytes()),
        (Datum::Float(number), SqlType::Float4) => to.extend((*number as f32).to_be_bytes()),
        (Datum::Float(number), _) => to.extend(number.to_be_bytes()),
        (Datum::Text(text), SqlType::Jsonb) => {
            to.push(1);
            to.extend(text.as_bytes());
        }
        (Datum::Text(text), _) => to.extend(text.as_bytes()),
        (Datum::Bytes(bytes), _) => to.extend(bytes),
        (Datum::Numeric(number), _) => write_numeric(*number, to),
        (Datum::Date(date), _) => to.extend(date.days().to_be_bytes()),
        (Datum::Time(time), _) => to.extend(time.micros().to_be_bytes()),
        (Datum::Timestamp(moment), _) => to.extend(moment.micros().to_be_bytes()),
        (Datum::TimestampTz(moment), _) => to.extend(moment.micros().to_be_bytes()),
        (Datum::Interval(interval), _) => {
            to.extend(interval.micros().to_be_bytes());
            to.extend(interval.days().to_be_bytes());
            to.extend(interval.months().to_be_bytes());
        }
        (Datum::Uuid(id), _) => to.extend(id.as_u128().to_be_bytes()),
        (Datum::List(values), SqlType::Array(of)) => write_array(values, of, to),
        (value, kind) => {
            to.extend(crate::text::to_text(value, kind).unwrap_or_default().as_bytes());
        }
    }
}

fn write_array(values: &[Datum], of: &SqlType, to: &mut Vec<u8>) {
    let dimensions = i32::from(!values.is_empty());
    to.extend(dimensions.to_be_bytes());
    to.extend(i32::from(values.contains(&Datum::Null)).to_be_bytes());
    to.extend(of.oid().to_be_bytes());
    if !values.is_empty() {
        to.extend((values.len() as i32).to_be_bytes());
        to.extend(1_i32.to_be_bytes());
    }
    for value in values {
        if *value == Datum::Null {
            to.extend((-1_i32).to_be_bytes());
            continue;
        }
        let start = to.len();
        to.extend([0; 4]);
        write_binary(value, of, to);
        let bytes = (to.len() - start - 4) as i32;
        to[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    }
}

/// Digits in base 10,000, the first one first, and the weight of the first one.
fn base_10000(number: Decimal) -> (Vec<u16>, i16) {
    // The point is moved to a place between two digits.
    let padding = (4 - number.scale() % 4) % 4;
    let (mut rest, mut digits) = (number.digits().unsigned_abs(), Vec::new());
    let mut behind = i16::from((number.scale() + padding) / 4);
    if padding > 0 {
        let unit = 10_u128.pow(u32::from(4 - padding));
        digits.push((rest % unit * 10_u128.pow(u32::from(padding))) as u16);
        rest /= unit;
    }
    while rest > 0 {
        digits.push((rest % 10_000) as u16);
        rest /= 10_000;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = digits.len() as i16 - behind - 1;
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    digits.reverse();
    behind = if digits.is_empty() { 0 } else { weight };
    (digits, behind)
}

fn write_numeric(number: Decimal, to: &mut Vec<u8>) {
    let (digits, weight) = base_10000(number);
    to.extend((digits.len() as i16).to_be_bytes());
    to.extend(weight.to_be_bytes());
    let sign = if number.digits() < 0 { NEGATIVE } else { POSITIVE };
    to.extend(sign.to_be_bytes());
    to.extend(u16::from(number.scale()).to_be_bytes());
    digits.iter().for_each(|digit| to.extend(digit.to_be_bytes()));
}

/// Bytes that are read from their beginning.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }
}

/// Reads a value.
pub fn from_binary(bytes: &[u8], kind: &SqlType) -> Result<Datum> {
    let mut reader = Reader(bytes);
    let value = read(&mut reader, kind);
    let wrong = || {
        SqlError::new(state::INVALID_BINARY, format!("incorrect binary data format for type {}", kind.name()))
    };
    value.filter(|_| reader.0.is_empty()).ok_or_else(wrong)
}

fn read(from: &mut Reader<'_>, kind: &SqlType) -> Option<Datum> {
    Some(match kind {
        SqlType::Bool => Datum::Bool(from.take::<1>()?[0] != 0),
        SqlType::Int2 => Datum::Signed(from.i16()?.into()),
        SqlType::Int4 => Datum::Signed(from.i32()?.into()),
        SqlType::Int8 => Datum::Signed(from.i64()?),
        SqlType::Oid | SqlType::RegClass | SqlType::RegType | SqlType::RegProc => {
            Datum::Signed(u32::from_be_bytes(from.take()?).into())
        }
        SqlType::Float4 => Datum::Float(f32::from_be_bytes(from.take()?).into()),
        SqlType::Float8 => Datum::Float(f64::from_be_bytes(from.take()?)),
        SqlType::Numeric(_) => Datum::Numeric(read_numeric(from)?),
        SqlType::Bytea => Datum::Bytes(from.bytes(from.0.len())?.to_vec()),
        SqlType::Date => Datum::Date(Date::from_days(from.i32()?).ok()?),
        SqlType::Time => Datum::Time(Time::from_micros(from.i64()?).ok()?),
        SqlType::Timestamp => Datum::Timestamp(Timestamp::from_micros(from.i64()?).ok()?),
        SqlType::TimestampTz => Datum::TimestampTz(TimestampTz::from_micros(from.i64()?).ok()?),
        SqlType::Interval => {
            let (micros, days, months) = (from.i64()?, from.i32()?, from.i32()?);
            Datum::Interval(Interval::new(months, days, micros))
        }
        SqlType::Uuid => Datum::Uuid(Uuid::from_u128(u128::from_be_bytes(from.take()?))),
        SqlType::Array(of) => read_array(from, of)?,
        SqlType::Jsonb if from.take::<1>()?[0] != 1 => return None,
        SqlType::Json | SqlType::Jsonb => {
            let text = std::str::from_utf8(from.bytes(from.0.len())?).ok()?;
            crate::text::from_text(text, kind).ok()?
        }
        SqlType::Record | SqlType::Void => return None,
        _ => {
            let text = std::str::from_utf8(from.bytes(from.0.len())?).ok()?;
            Datum::Text(text.to_owned())
        }
    })
}

fn read_array(from: &mut Reader<'_>, of: &SqlType) -> Option<Datum> {
    let (dimensions, _nulls, _type) = (from.i32()?, from.i32()?, from.i32()?);
    let count = match dimensions {
        0 => 0,
        1 => {
            let (count, _lower) = (from.i32()?, from.i32()?);
            usize::try_from(count).ok()?
        }
        _ => return None,
    };
    // Each member has a length of four bytes.
    if count > from.0.len() / 4 {
        return None;
    }
    let member = |_| match from.i32()? {
        -1 => Some(Datum::Null),
        bytes => from_binary(from.bytes(usize::try_from(bytes).ok()?)?, of).ok(),
    };
    (0..count).map(member).collect::<Option<Vec<_>>>().map(Datum::List)
}

fn read_numeric(from: &mut Reader<'_>) -> Option<Decimal> {
    let (count, weight, sign, scale) = (from.i16()?, from.i16()?, from.i16()? as u16, from.i16()?);
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    if sign != POSITIVE && sign != NEGATIVE {
        return None;
    }
    let mut digits = 0_i128;
    for place in 0..count {
        let digit = i128::from(from.i16().filter(|digit| (0..10_000).contains(digit))?);
        // The power of ten of the digit, in units of the last place.
        let power = 4 * (i32::from(weight) - i32::from(place)) + i32::from(scale);
        let part = match u32::try_from(power) {
            Ok(power) => digit.checked_mul(10_i128.checked_pow(power)?)?,
            Err(_) => digit / 10_i128.checked_pow(power.unsigned_abs())?,
        };
        digits = digits.checked_add(part)?;
    }
    Decimal::new(if sign == NEGATIVE { -digits } else { digits }, scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for text in ["0", "1", "-1", "0.5", "123456789.987654321", "10000", "0.0001", "-99999999.00", "1e20"]
        {
            let Datum::Numeric(number) =
                crate::text::from_text(text, &SqlType::Numeric(None)).expect("a number")
            else {
                unreachable!("{text}")
            };
            let mut bytes = Vec::new();
            write_binary(&Datum::Numeric(number), &SqlType::Numeric(None), &mut bytes);
            assert_eq!(from_binary(&bytes, &SqlType::Numeric(None)), Ok(Datum::Numeric(number)), "{text}");
        }
        // As PostgreSQL 15 sends 12345.678.
        let number = Decimal::new(12_345_678, 3).expect("a number");
        let mut bytes = Vec::new();
        write_binary(&Datum::Numeric(number), &SqlType::Numeric(None), &mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]);
    }

    #[test]
    fn no_bytes_panic() {
        let mut state = 7_u64;
        for facts in crate::types::TYPES {
            for kind in [facts.kind.clone(), facts.kind.clone().array()] {
                for length in 0..40 {
                    let mut bytes = Vec::new();
                    for _ in 0..length {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        bytes.push(if state >> 62 == 0 { (state >> 56) as u8 } else { (state >> 61) as u8 });
                    }
                    _ = from_binary(&bytes, &kind);
                }
            }
        }
    }
}
