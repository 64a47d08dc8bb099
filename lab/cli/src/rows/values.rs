//! Values of columns as text, by the type of the column: the same in CSV and JSON but for what JSON
//! has itself.
//!
//! Integers and floats are digits, a float that is no number is `NaN`, `inf` or `-inf`; bytes are
//! `0x` and digits; exact numbers are digits with a point; dates, times, intervals and UUIDs are
//! their texts of ISO 8601; arrays are lists, and groups objects by the names of their members, in
//! CSV as JSON in one field. Every value is read back as it was.

use isles::{Datum, ValueType};

use super::json::{self, Json};

/// Reads a field of CSV.
pub(super) fn of_text(text: &str, kind: &ValueType) -> Result<Datum, String> {
    let has_lists = match kind {
        ValueType::Array(of, _) => **of != ValueType::Unsigned(1),
        kind => matches!(kind, ValueType::List(_) | ValueType::Group(_)),
    };
    if has_lists {
        let value = json::parse(text).map_err(|fault| format!("{text:?} is no {kind}: {}", fault.what))?;
        return of_json(&value, kind);
    }
    Datum::parse(text, kind).map_err(|error| error.to_string())
}

/// Reads a value of JSON that is not null.
pub(super) fn of_json(value: &Json, kind: &ValueType) -> Result<Datum, String> {
    match (kind, value) {
        (ValueType::Array(of, _), Json::Text(text)) if **of == ValueType::Unsigned(1) => of_text(text, kind),
        (ValueType::Array(of, _) | ValueType::List(of), Json::List(values))
            if **of != ValueType::Unsigned(1) =>
        {
            values.iter().map(|value| of_json(value, of)).collect::<Result<_, _>>().map(Datum::List)
        }
        (ValueType::Group(members), Json::Object(given)) => {
            if let Some((name, _)) =
                given.iter().find(|(name, _)| !members.iter().any(|(own, _)| own == name))
            {
                return Err(format!("{name:?} is no member of {kind}"));
            }
            let member = |(name, kind): &(String, ValueType)| {
                let value = given.iter().find(|(given, _)| given == name);
                let (_, value) = value.ok_or_else(|| format!("member {name:?} is missing"))?;
                of_json(value, kind)
            };
            members.iter().map(member).collect::<Result<_, _>>().map(Datum::List)
        }
        (ValueType::Bool, Json::Bool(value)) => Ok(Datum::Bool(*value)),
        // Digits are read as they are written, never by way of a float.
        (
            ValueType::Unsigned(_) | ValueType::Signed(_) | ValueType::Float(_) | ValueType::Numeric { .. },
            Json::Number(text),
        ) => of_text(text, kind),
        (
            ValueType::Bool
            | ValueType::Unsigned(_)
            | ValueType::Signed(_)
            | ValueType::Array(..)
            | ValueType::List(_)
            | ValueType::Group(_),
            _,
        ) => Err(format!("{} is no {kind}", shown(value))),
        (_, Json::Text(text)) => of_text(text, kind),
        _ => Err(format!("{} is no {kind}", shown(value))),
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.clone(),
        Json::Text(text) => format!("{text:?}"),
        Json::List(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

/// Appends a value as JSON.
pub(super) fn write_json(value: &Datum, kind: &ValueType, to: &mut String) {
    match (value, kind) {
        (Datum::Null, _) => to.push_str("null"),
        (Datum::Float(number), _) if !number.is_finite() => json::write_text(&value.to_text(kind), to),
        (Datum::List(values), ValueType::Array(of, _) | ValueType::List(of)) => {
            to.push('[');
            for (number, value) in values.iter().enumerate() {
                to.push_str(if number > 0 { ", " } else { "" });
                write_json(value, of, to);
            }
            to.push(']');
        }
        (Datum::List(values), ValueType::Group(members)) => {
            to.push('{');
            for (number, (value, (name, kind))) in values.iter().zip(members).enumerate() {
                to.push_str(if number > 0 { ", " } else { "" });
                json::write_text(name, to);
                to.push_str(": ");
                write_json(value, kind, to);
            }
            to.push('}');
        }
        (
            Datum::Float(_)
            | Datum::Bool(_)
            | Datum::Unsigned(_)
            | Datum::Signed(_)
            | Datum::Unsigned128(_)
            | Datum::Signed128(_)
            | Datum::Numeric(_),
            _,
        ) => to.push_str(&value.to_text(kind)),
        _ => json::write_text(&value.to_text(kind), to),
    }
}

/// A value as the text of a field of CSV.
pub(super) fn to_text(value: &Datum, kind: &ValueType) -> String {
    match value {
        Datum::List(_) => {
            let mut text = String::new();
            write_json(value, kind, &mut text);
            text
        }
        _ => value.to_text(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        let kind = |text: &str| text.parse::<ValueType>().expect("a type");
        let group =
            Datum::List(vec![Datum::Unsigned(3), Datum::List(vec![Datum::Signed(-1), Datum::Unsigned(2)])]);
        for (text, value) in [
            ("u64", Datum::Unsigned(u64::MAX)),
            ("i64", Datum::Signed(i64::MIN)),
            ("f64", Datum::Float(0.1 + 0.2)),
            ("f64", Datum::Float(5e-324)),
            ("f64", Datum::Float(f64::MAX)),
            ("f64", Datum::Float(f64::NEG_INFINITY)),
            ("f32", Datum::Float(f64::from(0.1_f32))),
            ("f32", Datum::Float(f64::from(f32::MAX))),
            ("u128", Datum::Unsigned128(7)),
            ("u128", Datum::Unsigned128(u128::MAX)),
            ("i128", Datum::Signed128(-5)),
            ("i128", Datum::Signed128(i128::MIN)),
            ("[i128; 1]", Datum::List(vec![Datum::Signed128(-1)])),
            ("bool", Datum::Bool(false)),
            ("text(8)", Datum::Text("a,\"b\"".into())),
            ("string", Datum::Text("0x, null\n".into())),
            ("bytes", Datum::Bytes(vec![0, 255])),
            ("bytes", Datum::Bytes(vec![])),
            ("[u8; 2]", Datum::Bytes(vec![1, 2])),
            ("{day: u16, pair: [i8; 2]}", group),
            (
                "numeric(38, 10)",
                Datum::Numeric("-1234567890123456789012345678.0123456789".parse().expect("digits")),
            ),
            ("date", Datum::Date("0044-03-15 BC".parse().expect("a date"))),
            ("date", Datum::Date(isles::Date::INFINITY)),
            ("time", Datum::Time("23:59:59.999999".parse().expect("a time"))),
            ("timestamp", Datum::Timestamp("2026-11-28 04:35:00.1".parse().expect("a timestamp"))),
            ("timestamptz", Datum::TimestampTz("2026-11-28 04:35:00+02".parse().expect("a moment"))),
            ("interval", Datum::Interval("P-1Y2DT-0.5S".parse().expect("an interval"))),
            ("uuid", Datum::Uuid(isles::Uuid::from_u128(5))),
            ("char(3)", Datum::Text("é  ".into())),
            ("varchar(3)", Datum::Text("".into())),
            ("json", Datum::Text(" {\"a\": [1.0, \"b\"]}\n".into())),
            ("[i64]", Datum::List(vec![Datum::Signed(i64::MIN), Datum::Unsigned(5)])),
            ("[string]", Datum::List(vec![Datum::Text("".into()), Datum::Text("a, \"b\"".into())])),
            ("[timestamp]", Datum::List(vec![])),
            ("[numeric(5, 2); 1]", Datum::List(vec![Datum::Numeric("1.50".parse().expect("digits"))])),
            ("{at: timestamptz}", Datum::List(vec![Datum::TimestampTz(isles::TimestampTz::MIN)])),
        ] {
            let kind = kind(text);
            assert_eq!(of_text(&to_text(&value, &kind), &kind), Ok(value.clone()), "{text}");
            let mut written = String::new();
            write_json(&value, &kind, &mut written);
            let read = json::parse(&written).expect("JSON");
            assert_eq!(of_json(&read, &kind), Ok(value), "{written}");
        }
    }

    #[test]
    fn numbers_are_written_as_digits_and_the_fewest() {
        let long = |number: f64| to_text(&Datum::Float(number), &ValueType::Float(8));
        let short = |number: f32| to_text(&Datum::Float(f64::from(number)), &ValueType::Float(4));
        assert_eq!((long(0.1), short(0.1), short(1e-7)), ("0.1".into(), "0.1".into(), "0.0000001".into()));
        // Digits that lie near the middle of two short ones, and would be rounded twice by way of a
        // long one.
        let middle = "1.00000005960464484";
        assert_eq!(of_text(middle, &ValueType::Float(4)), Ok(Datum::Float(f64::from(1.000_000_1_f32))));
        assert_eq!(to_text(&Datum::Signed128(-5), &ValueType::Signed(16)), "-5");
        assert_eq!(to_text(&Datum::Unsigned128(5), &ValueType::Unsigned(16)), "5");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let kind = |text: &str| text.parse::<ValueType>().expect("a type");
        for (text, of) in [
            ("1.5", "u8"),
            ("+1", "u8"),
            ("", "i32"),
            ("- 1", "i32"),
            ("99999999999999999999", "u64"),
            ("-1", "u128"),
            ("340282366920938463463374607431768211456", "u128"),
            ("170141183460469231731687303715884105728", "i128"),
            ("1e999", "f64"),
            ("1e39", "f32"),
            ("infinity", "f64"),
            ("yes", "bool"),
            ("0x1", "bytes"),
            ("0x+1", "bytes"),
            ("12", "[u8; 1]"),
            ("[1, 2", "[u16; 2]"),
            ("{\"a\": 1, \"b\": 2}", "{a: u8}"),
            ("{}", "{a: u8}"),
            ("1,5", "numeric(5, 2)"),
            ("2026-02-30", "date"),
            ("25:00:00", "time"),
            ("2026-01-01 00:00:00", "timestamptz"),
            ("1 fortnight", "interval"),
            ("1234", "uuid"),
            ("{", "json"),
            ("[1, x]", "[i64]"),
            ("1", "[i64]"),
        ] {
            assert!(of_text(text, &kind(of)).is_err(), "{text} as {of}");
        }
        let text = Json::Text("1".into());
        assert_eq!(of_json(&text, &kind("u8")), Err("\"1\" is no u8".to_owned()));
    }
}
