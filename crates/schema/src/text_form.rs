//! Texts of values, by the type of their column: what `isles export` writes and `isles import`
//! reads, and what becomes of values when a column gets another type.

use std::str::FromStr;

use crate::datum::Datum;
use crate::json_text::JsonText;
use crate::value_error::ValueError;
use crate::value_type::{LONG, ValueType};

impl Datum {
    /// Reads a value of a type that is no list and no group: digits for numbers, `true` and
    /// `false`, `0x` and digits for bytes, the texts of ISO 8601 for dates and times. Texts are
    /// themselves.
    ///
    /// # Errors
    /// The text is no value of the type.
    pub fn parse(text: &str, kind: &ValueType) -> Result<Datum, ValueError> {
        let form = |example| ValueError::form(text, kind.to_string(), example);
        match kind {
            ValueType::Unsigned(_) | ValueType::Signed(_) => integer(text, kind).ok_or_else(|| form("1234")),
            ValueType::Float(bytes) => float(text, *bytes).ok_or_else(|| form("0.5, 1e-7, NaN, inf or -inf")),
            ValueType::Bool => text.parse().map(Datum::Bool).map_err(|_| form("true or false")),
            ValueType::Text(_) | ValueType::String | ValueType::Char(_) | ValueType::VarChar(_) => {
                Ok(Datum::Text(text.to_owned()))
            }
            ValueType::Json => value(text, |json: JsonText| Datum::Text(json.into_string())),
            ValueType::Bytes => bytes(text).ok_or_else(|| form("0x00ff")),
            ValueType::Array(of, _) if **of == ValueType::Unsigned(1) => {
                bytes(text).ok_or_else(|| form("0x00ff"))
            }
            ValueType::Numeric { .. } => value(text, Datum::Numeric),
            ValueType::Date => value(text, Datum::Date),
            ValueType::Time => value(text, Datum::Time),
            ValueType::Timestamp => value(text, Datum::Timestamp),
            ValueType::TimestampTz => value(text, Datum::TimestampTz),
            ValueType::Interval => value(text, Datum::Interval),
            ValueType::Uuid => value(text, Datum::Uuid),
            ValueType::Array(..) | ValueType::List(_) | ValueType::Group(_) => Err(form("a list in JSON")),
        }
    }

    /// Returns the text that [`Self::parse`] reads. Lists and groups have no text of their own:
    /// they are shown as by `Display`.
    pub fn to_text(&self, kind: &ValueType) -> String {
        match (self, kind) {
            (Datum::Text(text), _) => text.clone(),
            // As few digits as give the short one back.
            (Datum::Float(number), ValueType::Float(4)) => (*number as f32).to_string(),
            (value, _) => value.to_string(),
        }
    }
}

fn value<T: FromStr<Err = ValueError>>(text: &str, to: fn(T) -> Datum) -> Result<Datum, ValueError> {
    text.parse().map(to)
}

fn integer(text: &str, kind: &ValueType) -> Option<Datum> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    match kind {
        ValueType::Unsigned(LONG) => return text.parse().ok().map(Datum::Unsigned128),
        ValueType::Signed(LONG) => return text.parse().ok().map(Datum::Signed128),
        _ => {}
    }
    match text.parse::<u64>() {
        Ok(value) => Some(Datum::Unsigned(value)),
        Err(_) => text.parse().ok().map(Datum::Signed),
    }
}

fn float(text: &str, bytes: usize) -> Option<Datum> {
    // The digits of a short one are read at once as one: by way of a long one they would be rounded
    // twice.
    let value = if bytes == 4 { f64::from(text.parse::<f32>().ok()?) } else { text.parse().ok()? };
    // A number that is too large for its type is none.
    let fits = value.is_finite();
    (fits || matches!(text, "NaN" | "inf" | "-inf")).then_some(Datum::Float(value))
}

fn bytes(text: &str) -> Option<Datum> {
    let digits =
        text.strip_prefix("0x").filter(|digits| digits.is_ascii() && digits.len().is_multiple_of(2))?;
    let byte = |at: usize| digits.get(at..at + 2).filter(|pair| !pair.starts_with('+'));
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(byte(at)?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().map(Datum::Bytes)
}
