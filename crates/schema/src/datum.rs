//! Values of columns whose types are known at run time only.

use std::fmt;

use crate::bounded::{padded, without_blanks};
use crate::decimal::{Decimal, power};
use crate::json_text::json_fault;
use crate::row::Value;
use crate::tail_value::{append_texts, read_texts};
use crate::temporal::{Date, Interval, Time, Timestamp, TimestampTz};
use crate::uuid::Uuid;
use crate::value_type::{LONG, ValueType};

/// A value of any column.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Null.
    Null,
    /// An unsigned integer of up to 8 bytes; also accepted for columns of 16 bytes.
    Unsigned(u64),
    /// A signed integer of up to 8 bytes; also accepted for columns of 16 bytes.
    Signed(i64),
    /// An unsigned integer of 16 bytes.
    Unsigned128(u128),
    /// A signed integer of 16 bytes.
    Signed128(i128),
    /// A floating-point number; rounded when it is stored in a column of 4 bytes.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text, padded or of any length, or JSON.
    Text(String),
    /// Bytes of any length, or an array of `u8`.
    Bytes(Vec<u8>),
    /// The members of any other array, of a list, or of a group.
    List(Vec<Datum>),
    /// An exact decimal number.
    Numeric(Decimal),
    /// A day.
    Date(Date),
    /// A time of day.
    Time(Time),
    /// A day and a time of day.
    Timestamp(Timestamp),
    /// A moment.
    TimestampTz(TimestampTz),
    /// A length of time.
    Interval(Interval),
    /// A universally unique identifier.
    Uuid(Uuid),
}

/// A value does not fit the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The value has another type.
    Type,
    /// The value has the right type, but is too long, too short or out of range.
    Range,
}

impl Datum {
    /// Returns zero, an empty text or list, a list of these, or for JSON `null`.
    pub(crate) fn empty(kind: &ValueType) -> Datum {
        match kind {
            ValueType::Signed(LONG) => Datum::Signed128(0),
            ValueType::Numeric { scale, .. } => {
                Datum::Numeric(Decimal::new(0, *scale).unwrap_or(Decimal::ZERO))
            }
            ValueType::Array(of, count) if **of != ValueType::Unsigned(1) => {
                Datum::List(vec![Datum::empty(of); *count])
            }
            ValueType::Group(members) => {
                Datum::List(members.iter().map(|(_, kind)| Datum::empty(kind)).collect())
            }
            ValueType::String | ValueType::VarChar(_) => Datum::Text(String::new()),
            ValueType::Json => Datum::Text("null".to_owned()),
            ValueType::List(_) => Datum::List(Vec::new()),
            kind => {
                let zeros = vec![0; kind.bytes().unwrap_or(0)];
                Datum::fetch(kind, &zeros).unwrap_or(Datum::Null)
            }
        }
    }

    /// Writes a value of fixed length to `to`, which has the same length and contains zeros.
    pub(crate) fn store(&self, kind: &ValueType, to: &mut [u8]) -> Result<(), Misfit> {
        match (kind, self) {
            (ValueType::Unsigned(LONG), _) => {
                let value = self.unsigned().ok_or(Misfit::Type)?.ok_or(Misfit::Range)?;
                to.copy_from_slice(&value.to_be_bytes());
            }
            (ValueType::Signed(LONG), _) => {
                let value = self.signed().ok_or(Misfit::Type)?.ok_or(Misfit::Range)?;
                to.copy_from_slice(&(value.cast_unsigned() ^ LONG_SIGN).to_be_bytes());
            }
            (ValueType::Unsigned(bytes), Datum::Unsigned(_) | Datum::Signed(_)) => {
                let value = u64::try_from(self.integer()).map_err(|_| Misfit::Range)?;
                if *bytes < 8 && value >> (8 * bytes) != 0 {
                    return Err(Misfit::Range);
                }
                to.copy_from_slice(&value.to_le_bytes()[..*bytes]);
            }
            (ValueType::Signed(bytes), Datum::Unsigned(_) | Datum::Signed(_)) => {
                let value = i64::try_from(self.integer()).map_err(|_| Misfit::Range)?;
                let unused = 64 - 8 * bytes;
                if value << unused >> unused != value {
                    return Err(Misfit::Range);
                }
                to.copy_from_slice(&value.to_le_bytes()[..*bytes]);
            }
            (ValueType::Float(4), Datum::Float(value)) => to.copy_from_slice(&(*value as f32).to_le_bytes()),
            (ValueType::Float(_), Datum::Float(value)) => to.copy_from_slice(&value.to_le_bytes()),
            (ValueType::Bool, Datum::Bool(value)) => to[0] = u8::from(*value),
            (ValueType::Text(_) | ValueType::Char(_), Datum::Text(text)) => {
                let text = padded_text(text, kind)?;
                to[..text.len()].copy_from_slice(text.as_bytes());
            }
            (ValueType::Array(of, count), Datum::Bytes(value)) if **of == ValueType::Unsigned(1) => {
                if value.len() != *count {
                    return Err(Misfit::Range);
                }
                to.copy_from_slice(value);
            }
            (ValueType::Array(of, count), Datum::List(values)) => {
                if values.len() != *count {
                    return Err(Misfit::Range);
                }
                let bytes = of.bytes().ok_or(Misfit::Type)?;
                for (number, value) in values.iter().enumerate() {
                    value.store(of, &mut to[number * bytes..][..bytes])?;
                }
            }
            (ValueType::Group(members), Datum::List(values)) => {
                if values.len() != members.len() {
                    return Err(Misfit::Range);
                }
                let offsets = ValueType::offsets(members).ok_or(Misfit::Type)?;
                for (((_, kind), value), offset) in members.iter().zip(values).zip(offsets) {
                    let bytes = kind.bytes().ok_or(Misfit::Type)?;
                    value.store(kind, &mut to[offset..][..bytes])?;
                }
            }
            (ValueType::Interval, Datum::Interval(interval)) => interval.store(to),
            (ValueType::Uuid, Datum::Uuid(id)) => id.store(to),
            _ => return self.store_number(kind, to),
        }
        Ok(())
    }

    /// Writes a value that is stored as a signed integer.
    fn store_number(&self, kind: &ValueType, to: &mut [u8]) -> Result<(), Misfit> {
        let number = match (kind, self) {
            (ValueType::Numeric { precision, scale }, _) => {
                let number = self.decimal().ok_or(Misfit::Type)?;
                let digits = number.with_scale(*scale).ok_or(Misfit::Range)?.digits();
                if digits.unsigned_abs() >= power(*precision).unsigned_abs() {
                    return Err(Misfit::Range);
                }
                digits
            }
            (ValueType::Date, Datum::Date(date)) => date.days().into(),
            (ValueType::Time, Datum::Time(time)) => time.micros().into(),
            (ValueType::Timestamp, Datum::Timestamp(moment)) => moment.micros().into(),
            (ValueType::TimestampTz, Datum::TimestampTz(moment)) => moment.micros().into(),
            _ => return Err(Misfit::Type),
        };
        match kind.integer_bytes() {
            Some(LONG) => number.store(to),
            // The number fits, so that its low bytes are the number.
            _ => to.copy_from_slice(&number.to_le_bytes()[..to.len()]),
        }
        Ok(())
    }

    /// Returns the value of an exact number.
    fn decimal(&self) -> Option<Decimal> {
        match self {
            Datum::Numeric(number) => Some(*number),
            _ => Decimal::new(self.signed()??, 0).ok(),
        }
    }

    /// Appends the value's bytes to a tail, for types of fixed and of variable length.
    pub fn append(&self, kind: &ValueType, to: &mut Vec<u8>) -> Result<(), Misfit> {
        match (kind, self) {
            (ValueType::Bytes, Datum::Bytes(bytes)) => to.extend_from_slice(bytes),
            (ValueType::String, Datum::Text(text)) => to.extend_from_slice(text.as_bytes()),
            (ValueType::VarChar(characters), Datum::Text(text)) => {
                if text.chars().count() > *characters {
                    return Err(Misfit::Range);
                }
                to.extend_from_slice(text.as_bytes());
            }
            (ValueType::Json, Datum::Text(text)) => {
                if json_fault(text).is_some() {
                    return Err(Misfit::Type);
                }
                to.extend_from_slice(text.as_bytes());
            }
            (ValueType::List(of), Datum::List(values)) if **of == ValueType::String => {
                let text = |value: &Datum| match value {
                    Datum::Text(text) => Ok(text.clone()),
                    _ => Err(Misfit::Type),
                };
                let texts = values.iter().map(text).collect::<Result<Vec<_>, _>>()?;
                append_texts(texts.iter().map(String::as_str), to);
            }
            (ValueType::List(of), Datum::List(values)) => {
                values.iter().try_for_each(|value| value.append(of, to))?;
            }
            _ => {
                let (start, bytes) = (to.len(), kind.bytes().ok_or(Misfit::Type)?);
                to.resize(start + bytes, 0);
                self.store(kind, &mut to[start..])?;
            }
        }
        Ok(())
    }

    /// Reads a value; `None` if the bytes are not a value of the type.
    pub fn fetch(kind: &ValueType, from: &[u8]) -> Option<Datum> {
        if kind.bytes().is_some_and(|bytes| bytes != from.len()) {
            return None;
        }
        Some(match kind {
            ValueType::Unsigned(LONG) => Datum::Unsigned128(long(from)),
            ValueType::Signed(LONG) => Datum::Signed128((long(from) ^ LONG_SIGN).cast_signed()),
            ValueType::Unsigned(_) => Datum::Unsigned(unsigned(from)),
            ValueType::Signed(bytes) => {
                let unused = 64 - 8 * bytes;
                Datum::Signed((unsigned(from) << unused).cast_signed() >> unused)
            }
            ValueType::Float(4) => Datum::Float(f64::from(f32::from_bits(unsigned(from) as u32))),
            ValueType::Float(_) => Datum::Float(f64::from_bits(unsigned(from))),
            ValueType::Bool => Datum::Bool(from[0] != 0),
            ValueType::Text(_) => {
                let end = from.iter().position(|byte| *byte == 0).unwrap_or(from.len());
                Datum::Text(std::str::from_utf8(&from[..end]).ok()?.to_owned())
            }
            ValueType::Array(of, _) if **of == ValueType::Unsigned(1) => Datum::Bytes(from.to_vec()),
            ValueType::Array(of, count) => {
                let bytes = of.bytes()?;
                let values = (0..*count).map(|number| Datum::fetch(of, &from[number * bytes..][..bytes]));
                Datum::List(values.collect::<Option<_>>()?)
            }
            ValueType::Group(members) => {
                let offsets = ValueType::offsets(members)?;
                let member = |((_, kind), offset): (&(String, ValueType), usize)| {
                    Datum::fetch(kind, &from[offset..][..kind.bytes()?])
                };
                Datum::List(members.iter().zip(offsets).map(member).collect::<Option<_>>()?)
            }
            ValueType::Bytes => Datum::Bytes(from.to_vec()),
            ValueType::String => Datum::Text(std::str::from_utf8(from).ok()?.to_owned()),
            ValueType::Char(_) | ValueType::VarChar(_) | ValueType::Json | ValueType::List(_) => {
                return Datum::fetch_text(kind, from);
            }
            _ => return Datum::fetch_number(kind, from),
        })
    }

    /// Reads a text with a bound or a form, or a list.
    fn fetch_text(kind: &ValueType, from: &[u8]) -> Option<Datum> {
        Some(match kind {
            ValueType::Char(characters) => {
                let end = from.iter().position(|byte| *byte == 0).unwrap_or(from.len());
                let text = std::str::from_utf8(&from[..end]).ok()?;
                Datum::Text(padded(text, *characters)).within(*characters)?
            }
            ValueType::VarChar(characters) => {
                Datum::Text(std::str::from_utf8(from).ok()?.to_owned()).within(*characters)?
            }
            ValueType::Json => Datum::Text(std::str::from_utf8(from).ok()?.to_owned()),
            ValueType::List(of) if **of == ValueType::String => {
                Datum::List(read_texts(from)?.into_iter().map(|text| Datum::Text(text.to_owned())).collect())
            }
            ValueType::List(of) => {
                let values = from.chunks(of.bytes()?).map(|value| Datum::fetch(of, value));
                Datum::List(values.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// Reads a number of SQL, a date, a time, an interval or an identifier.
    fn fetch_number(kind: &ValueType, from: &[u8]) -> Option<Datum> {
        Some(match kind {
            ValueType::Numeric { precision, scale } => {
                let number = match from.len() {
                    LONG => i128::fetch(from),
                    _ => i64::fetch(from).into(),
                };
                let fits = number.unsigned_abs() < power(*precision).unsigned_abs();
                Datum::Numeric(Decimal::new(number, *scale).ok().filter(|_| fits)?)
            }
            ValueType::Date => Datum::Date(Date::from_days(i32::fetch(from)).ok()?),
            ValueType::Time => Datum::Time(Time::from_micros(i64::fetch(from)).ok()?),
            ValueType::Timestamp => Datum::Timestamp(Timestamp::from_micros(i64::fetch(from)).ok()?),
            ValueType::TimestampTz => Datum::TimestampTz(TimestampTz::from_micros(i64::fetch(from)).ok()?),
            ValueType::Interval => Datum::Interval(Interval::fetch(from)),
            ValueType::Uuid => Datum::Uuid(Uuid::fetch(from)),
            _ => return None,
        })
    }

    /// Returns a text if it has at most this many characters.
    fn within(self, characters: usize) -> Option<Datum> {
        let fits = matches!(&self, Datum::Text(text) if text.chars().count() <= characters);
        fits.then_some(self)
    }

    /// Returns the value of an integer as unsigned; `Some(None)` if it is negative, `None` if it is
    /// no integer.
    fn unsigned(&self) -> Option<Option<u128>> {
        match self {
            Datum::Unsigned128(value) => Some(Some(*value)),
            _ => Some(u128::try_from(self.signed()??).ok()),
        }
    }

    /// Returns the value of an integer as signed; `Some(None)` if it is too large, `None` if it is
    /// no integer.
    fn signed(&self) -> Option<Option<i128>> {
        match self {
            Datum::Unsigned128(value) => Some(i128::try_from(*value).ok()),
            Datum::Signed128(value) => Some(Some(*value)),
            Datum::Unsigned(_) | Datum::Signed(_) => Some(Some(self.integer())),
            _ => None,
        }
    }

    fn integer(&self) -> i128 {
        match self {
            Datum::Unsigned(value) => i128::from(*value),
            Datum::Signed(value) => i128::from(*value),
            _ => 0,
        }
    }
}

/// Returns a text that fits into a column in which zeros follow it.
fn padded_text<'t>(text: &'t str, kind: &ValueType) -> Result<&'t str, Misfit> {
    let (text, fits) = match kind {
        ValueType::Char(characters) => {
            let text = without_blanks(text);
            (text, text.chars().count() <= *characters)
        }
        kind => (text, kind.bytes().is_some_and(|bytes| text.len() <= bytes)),
    };
    if fits && !text.contains('\0') { Ok(text) } else { Err(Misfit::Range) }
}

/// The sign bit, which is inverted in a signed integer of 16 bytes.
const LONG_SIGN: u128 = 1 << 127;

/// Reads an integer of 16 bytes as it is stored in a row.
fn long(from: &[u8]) -> u128 {
    from.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

/// Reads an integer of up to 8 bytes.
pub(crate) fn unsigned(from: &[u8]) -> u64 {
    from.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Human-readable form: texts in quotation marks, bytes as `0x` and digits.
impl fmt::Display for Datum {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Null => to.write_str("null"),
            Datum::Unsigned(value) => write!(to, "{value}"),
            Datum::Signed(value) => write!(to, "{value}"),
            Datum::Unsigned128(value) => write!(to, "{value}"),
            Datum::Signed128(value) => write!(to, "{value}"),
            Datum::Float(value) => write!(to, "{value}"),
            Datum::Bool(value) => write!(to, "{value}"),
            Datum::Text(text) => write!(to, "{text:?}"),
            Datum::Bytes(bytes) => {
                to.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
            }
            Datum::List(values) => {
                to.write_str("(")?;
                for (number, value) in values.iter().enumerate() {
                    write!(to, "{}{value}", if number == 0 { "" } else { ", " })?;
                }
                to.write_str(")")
            }
            Datum::Numeric(number) => write!(to, "{number}"),
            Datum::Date(date) => write!(to, "{date}"),
            Datum::Time(time) => write!(to, "{time}"),
            Datum::Timestamp(moment) => write!(to, "{moment}"),
            Datum::TimestampTz(moment) => write!(to, "{moment}"),
            Datum::Interval(interval) => write!(to, "{interval}"),
            Datum::Uuid(id) => write!(to, "{id}"),
        }
    }
}

/// Formats the stored bytes of a key column: a number, a date, a text, or bytes.
pub(crate) fn format_value(kind: &ValueType, value: &[u8]) -> String {
    match (kind, Datum::fetch(kind, value)) {
        (kind, Some(value)) if kind.is_key() => value.to_string(),
        _ => Datum::Bytes(value.to_vec()).to_string(),
    }
}
