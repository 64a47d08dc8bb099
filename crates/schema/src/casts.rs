//! Conversions of values when a column gets another type (`Database::change_table`).
//!
//! A conversion keeps the value or fails: nothing is rounded or cut. Exact numbers become other
//! exact numbers, dates timestamps, timestamps moments in UTC, and every type of one value becomes
//! a text and is read from a text.

use crate::bounded::without_blanks;
use crate::datum::{Datum, Misfit};
use crate::decimal::Decimal;
use crate::temporal::{Time, Timestamp, TimestampTz};
use crate::value_type::ValueType;

impl ValueType {
    /// Returns true if values of this type can become values of `to`, as far as they fit.
    pub fn casts_to(&self, to: &ValueType) -> bool {
        self.is_stored_like(to)
            || (self.is_exact_number() && to.is_exact_number())
            || (self.is_of_characters() && to.is_simple())
            || (self.is_simple() && to.is_of_characters())
            || (self.is_moment() && to.is_moment())
            || (*self == ValueType::Float(4) && *to == ValueType::Float(8))
    }

    fn is_exact_number(&self) -> bool {
        matches!(self, ValueType::Unsigned(_) | ValueType::Signed(_) | ValueType::Numeric { .. })
    }

    /// True for types whose values are texts.
    pub(crate) fn is_of_characters(&self) -> bool {
        matches!(
            self,
            ValueType::Text(_)
                | ValueType::String
                | ValueType::Char(_)
                | ValueType::VarChar(_)
                | ValueType::Json
        )
    }

    /// True for types that have a text: neither lists nor groups.
    fn is_simple(&self) -> bool {
        match self {
            ValueType::Array(of, _) => **of == ValueType::Unsigned(1),
            ValueType::Group(_) | ValueType::List(_) => false,
            _ => true,
        }
    }

    fn is_moment(&self) -> bool {
        matches!(self, ValueType::Date | ValueType::Timestamp | ValueType::TimestampTz)
    }
}

impl Datum {
    /// Converts a value of type `from`. The result may still not fit into `to`, which
    /// [`TableDescription::encode_row`](crate::TableDescription::encode_row) finds.
    pub(crate) fn cast(self, from: &ValueType, to: &ValueType) -> Result<Datum, Misfit> {
        if self == Datum::Null || from == to {
            return Ok(self);
        }
        match (from, to) {
            _ if !from.casts_to(to) => Err(Misfit::Type),
            _ if from.is_of_characters() || to.is_of_characters() => {
                let text = self.to_text(from);
                // Blanks at the end count for nothing.
                let text = if matches!(from, ValueType::Char(_)) { without_blanks(&text) } else { &text };
                Datum::parse(text, to).map_err(|_| Misfit::Type)
            }
            (
                _,
                ValueType::Uuid | ValueType::Unsigned(_) | ValueType::Signed(_) | ValueType::Numeric { .. },
            ) => self.into_number(to),
            (_, ValueType::Date | ValueType::Timestamp | ValueType::TimestampTz) => self.into_moment(to),
            _ => Ok(self),
        }
    }

    fn into_number(self, to: &ValueType) -> Result<Datum, Misfit> {
        match (&self, to) {
            (Datum::Unsigned128(number), ValueType::Uuid) => {
                Ok(Datum::Uuid(crate::uuid::Uuid::from_u128(*number)))
            }
            (Datum::Uuid(id), _) => Ok(Datum::Unsigned128(id.as_u128())),
            (Datum::Numeric(number), ValueType::Unsigned(_) | ValueType::Signed(_)) => {
                let whole = number.with_scale(0).map(Decimal::digits).ok_or(Misfit::Range)?;
                Ok(match (u64::try_from(whole), i64::try_from(whole)) {
                    (Ok(whole), _) => Datum::Unsigned(whole),
                    (_, Ok(whole)) => Datum::Signed(whole),
                    _ => Datum::Signed128(whole),
                })
            }
            (Datum::Signed128(number), ValueType::Unsigned(1..=8) | ValueType::Signed(1..=8)) => {
                let short = i64::try_from(*number).map(Datum::Signed);
                short.or_else(|_| u64::try_from(*number).map(Datum::Unsigned)).map_err(|_| Misfit::Range)
            }
            (Datum::Unsigned128(number), ValueType::Unsigned(1..=8) | ValueType::Signed(1..=8)) => {
                u64::try_from(*number).map(Datum::Unsigned).map_err(|_| Misfit::Range)
            }
            _ => Ok(self),
        }
    }

    fn into_moment(self, to: &ValueType) -> Result<Datum, Misfit> {
        let moment = match self {
            Datum::Date(date) => Timestamp::new(date, Time::MIDNIGHT).map_err(|_| Misfit::Range)?,
            Datum::Timestamp(moment) => moment,
            Datum::TimestampTz(moment) => moment.utc(),
            _ => return Err(Misfit::Type),
        };
        match to {
            ValueType::Timestamp => Ok(Datum::Timestamp(moment)),
            ValueType::TimestampTz => Ok(Datum::TimestampTz(TimestampTz::from_utc(moment))),
            // A time of day would be lost.
            _ if moment.time() != Time::MIDNIGHT => Err(Misfit::Range),
            _ => Ok(Datum::Date(moment.date())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(text: &str, from: &str, to: &str) -> Option<String> {
        let [from, to]: [ValueType; 2] = [from, to].map(|kind| kind.parse().expect("a type"));
        let value = Datum::parse(text, &from).expect("a value");
        let stored = |value: &Datum, kind: &ValueType| {
            let mut bytes = Vec::new();
            value.append(kind, &mut bytes).ok()?;
            Datum::fetch(kind, &bytes)
        };
        let value = stored(&value, &from).expect("it fits");
        let cast = value.cast(&from, &to).ok()?;
        stored(&cast, &to).map(|cast| cast.to_text(&to))
    }

    #[test]
    fn values_are_kept_or_refused() {
        for (text, from, to, expected) in [
            ("300", "u16", "i64", Some("300")),
            ("300", "u16", "u8", None),
            ("-1", "i8", "u64", None),
            ("300", "u128", "u16", Some("300")),
            ("-5", "i128", "i8", Some("-5")),
            ("18446744073709551615", "i128", "u64", Some("18446744073709551615")),
            ("12", "i32", "numeric(4, 2)", Some("12.00")),
            ("123", "i32", "numeric(4, 2)", None),
            ("340282366920938463463374607431768211455", "u128", "numeric(38, 0)", None),
            ("12.50", "numeric(4, 2)", "numeric(10, 1)", Some("12.5")),
            ("12.55", "numeric(4, 2)", "numeric(10, 1)", None),
            ("-12.00", "numeric(4, 2)", "i8", Some("-12")),
            ("12.50", "numeric(4, 2)", "i8", None),
            ("12.50", "string", "numeric(4, 2)", Some("12.50")),
            ("twelve", "string", "numeric(4, 2)", None),
            ("12", "text(4)", "u8", Some("12")),
            ("0.1", "f32", "string", Some("0.1")),
            ("12.50", "numeric(4, 2)", "text(5)", Some("12.50")),
            ("12.50", "numeric(4, 2)", "text(4)", None),
            ("ab ", "char(4)", "string", Some("ab")),
            ("ab", "string", "char(4)", Some("ab  ")),
            ("abc", "string", "varchar(2)", None),
            ("[1]", "string", "json", Some("[1]")),
            ("[1", "string", "json", None),
            ("12", "char(4)", "u8", Some("12")),
            ("0x00ff", "bytes", "string", Some("0x00ff")),
            ("2026-11-28", "date", "timestamp", Some("2026-11-28 00:00:00")),
            ("2026-11-28", "date", "timestamptz", Some("2026-11-28 00:00:00+00")),
            ("2026-11-28 00:00:00+00", "timestamptz", "date", Some("2026-11-28")),
            ("2026-11-28 00:00:01", "timestamp", "date", None),
            ("infinity", "date", "timestamp", Some("infinity")),
            ("5874897-12-31", "date", "timestamp", None),
            ("7", "u128", "uuid", Some("00000000-0000-0000-0000-000000000007")),
            ("00000000-0000-0000-0000-000000000007", "uuid", "u128", Some("7")),
            ("2026-11-28", "date", "u64", None),
            ("04:35:00", "time", "date", None),
        ] {
            assert_eq!(cast(text, from, to).as_deref(), expected, "{text} from {from} to {to}");
        }
    }
}
