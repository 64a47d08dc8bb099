//! Texts of values, as PostgreSQL writes and reads them.

use std::fmt::Write as _;

use isles::{Datum, Interval};

use crate::error::{Result, SqlError, state};
use crate::types::SqlType;

/// Microseconds of an hour, a minute and a second.
const HOUR: i64 = 3_600_000_000;
const MINUTE: i64 = 60_000_000;
const SECOND: i64 = 1_000_000;
/// Deepest nesting of an array's text.
const DEPTH_MAX: usize = 6;

/// Appends the text of a value that is not null.
pub fn write_text(value: &Datum, kind: &SqlType, to: &mut String) {
    match value {
        Datum::Bool(value) => to.push(if *value { 't' } else { 'f' }),
        Datum::Float(number) => write_float(*number, *kind == SqlType::Float4, to),
        Datum::Text(text) => to.push_str(text),
        Datum::Bytes(bytes) => {
            to.push_str("\\x");
            bytes.iter().for_each(|byte| _ = write!(to, "{byte:02x}"));
        }
        Datum::Interval(interval) => write_interval(*interval, to),
        Datum::List(values) if *kind == SqlType::Record => {
            to.push('(');
            write_members(values, &SqlType::Text, to);
            to.push(')');
        }
        Datum::List(values) => {
            let of = if let SqlType::Array(of) = kind { &**of } else { &SqlType::Text };
            to.push('{');
            write_members(values, of, to);
            to.push('}');
        }
        Datum::Null => {}
        value => _ = write!(to, "{value}"),
    }
}

/// Returns the text of a value; `None` for null.
pub fn to_text(value: &Datum, kind: &SqlType) -> Option<String> {
    if *value == Datum::Null {
        return None;
    }
    let mut text = String::new();
    write_text(value, kind, &mut text);
    Some(text)
}

fn write_members(values: &[Datum], of: &SqlType, to: &mut String) {
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            to.push(',');
        }
        let Some(text) = to_text(value, of) else {
            to.push_str("NULL");
            continue;
        };
        let is_special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace();
        let needs = text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(is_special);
        if needs && !matches!(value, Datum::List(_)) {
            to.push('"');
            for character in text.chars() {
                if matches!(character, '"' | '\\') {
                    to.push('\\');
                }
                to.push(character);
            }
            to.push('"');
        } else {
            to.push_str(&text);
        }
    }
}

/// Appends a number with as few digits as give it back.
fn write_float(number: f64, is_short: bool, to: &mut String) {
    if number.is_nan() {
        return to.push_str("NaN");
    }
    if number.is_infinite() {
        return to.push_str(if number < 0.0 { "-Infinity" } else { "Infinity" });
    }
    let (shortest, most) =
        if is_short { (format!("{:e}", number as f32), 6) } else { (format!("{number:e}"), 15) };
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..most).contains(&exponent) {
        _ = if is_short { write!(to, "{}", number as f32) } else { write!(to, "{number}") };
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        _ = write!(to, "{digits}e{sign}{:02}", exponent.abs());
    }
}

fn write_interval(interval: Interval, to: &mut String) {
    let start = to.len();
    let part = |to: &mut String, number: i32, unit: &str| {
        if number != 0 {
            let separator = if to.len() > start { " " } else { "" };
            let plural = if number == 1 { "" } else { "s" };
            _ = write!(to, "{separator}{number} {unit}{plural}");
        }
    };
    part(to, interval.months() / 12, "year");
    part(to, interval.months() % 12, "mon");
    part(to, interval.days(), "day");
    let micros = interval.micros();
    if micros == 0 && to.len() > start {
        return;
    }
    let separator = if to.len() > start { " " } else { "" };
    let sign = if micros < 0 { "-" } else { "" };
    let (hours, rest) = (micros.unsigned_abs() / HOUR as u64, micros.unsigned_abs() % HOUR as u64);
    let (minutes, rest) = (rest / MINUTE as u64, rest % MINUTE as u64);
    let (seconds, fraction) = (rest / SECOND as u64, rest % SECOND as u64);
    _ = write!(to, "{separator}{sign}{hours:02}:{minutes:02}:{seconds:02}");
    if fraction > 0 {
        _ = write!(to, ".{}", format!("{fraction:06}").trim_end_matches('0'));
    }
}

/// Returns the error for a text that is no value of a type.
pub fn invalid(text: &str, kind: &SqlType) -> SqlError {
    let code = match kind {
        SqlType::Date | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => {
            state::DATETIME
        }
        _ => state::INVALID_TEXT,
    };
    let shown: String = text.chars().take(100).collect();
    SqlError::new(code, format!("invalid input syntax for type {}: \"{shown}\"", kind.plain().name()))
}

/// Reads a value, without regard to lengths and digits.
pub fn from_text(text: &str, kind: &SqlType) -> Result<Datum> {
    let error = || invalid(text, kind);
    let trimmed = text.trim();
    Ok(match kind {
        SqlType::Bool => Datum::Bool(bool_of(trimmed).ok_or_else(error)?),
        SqlType::Int2 => integer(trimmed, kind, i64::from(i16::MIN), i64::from(i16::MAX))?,
        SqlType::Int4 => integer(trimmed, kind, i64::from(i32::MIN), i64::from(i32::MAX))?,
        SqlType::Int8 => integer(trimmed, kind, i64::MIN, i64::MAX)?,
        SqlType::Oid | SqlType::RegClass | SqlType::RegType | SqlType::RegProc => {
            integer(trimmed, kind, 0, i64::from(u32::MAX))?
        }
        SqlType::Float4 => {
            let number: f32 = float_text(trimmed).parse().map_err(|_| error())?;
            Datum::Float(f64::from(number))
        }
        SqlType::Float8 => Datum::Float(float_text(trimmed).parse().map_err(|_| error())?),
        SqlType::Numeric(_) => Datum::Numeric(trimmed.parse().map_err(|_| error())?),
        SqlType::Bytea => Datum::Bytes(bytes_of(text).ok_or_else(error)?),
        SqlType::Date => Datum::Date(date_part(trimmed).parse().map_err(|_| error())?),
        SqlType::Time => Datum::Time(trimmed.parse().map_err(|_| error())?),
        SqlType::Timestamp => Datum::Timestamp(moment(trimmed).parse().map_err(|_| error())?),
        SqlType::TimestampTz => {
            let text = moment(trimmed);
            // Without an offset the moment is one of UTC, which is the time zone of all sessions.
            let utc = || text.parse().map(isles::TimestampTz::from_utc);
            Datum::TimestampTz(text.parse().or_else(|_| utc()).map_err(|_| error())?)
        }
        SqlType::Interval => Datum::Interval(interval(trimmed).ok_or_else(error)?),
        SqlType::Uuid => Datum::Uuid(trimmed.to_ascii_lowercase().parse().map_err(|_| error())?),
        SqlType::Json | SqlType::Jsonb => {
            let json: isles::JsonText = text.parse().map_err(|_| error())?;
            Datum::Text(json.into_string())
        }
        SqlType::Array(of) => array(trimmed, of, 0).ok_or_else(error)??,
        SqlType::Record | SqlType::Void => return Err(error()),
        _ if text.contains('\0') => {
            return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
        }
        _ => Datum::Text(text.to_owned()),
    })
}

fn bool_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Some(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn integer(text: &str, kind: &SqlType, least: i64, most: i64) -> Result<Datum> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(invalid(text, kind));
    }
    match text.parse::<i64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(Datum::Signed(number)),
        _ => {
            let message = format!("value \"{text}\" is out of range for type {}", kind.name());
            Err(SqlError::new(state::OUT_OF_RANGE, message))
        }
    }
}

fn float_text(text: &str) -> &str {
    match text.to_ascii_lowercase().as_str() {
        "infinity" | "inf" | "+infinity" => "inf",
        "-infinity" | "-inf" => "-inf",
        "nan" => "NaN",
        _ => text,
    }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else {
        return escaped_bytes(text.as_bytes());
    };
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8));
    pairs.collect()
}

/// Reads bytes in the older form: `\\` and three octal digits after `\`.
fn escaped_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'\\', Some(b'\\')) => {
                bytes.push(b'\\');
                at += 2;
            }
            (b'\\', _) => {
                let digits = std::str::from_utf8(text.get(at + 1..at + 4)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 8).ok()?);
                at += 4;
            }
            _ => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    Some(bytes)
}

/// Returns the day of a text that may have a time behind it.
fn date_part(text: &str) -> &str {
    match text.split_once([' ', 'T']) {
        Some((day, rest)) if rest.contains(':') => day,
        _ => text,
    }
}

/// Returns a moment's text with a time of day.
fn moment(text: &str) -> String {
    let has_time = text.contains(':') || text.contains("infinity");
    if has_time { text.to_owned() } else { format!("{text} 00:00:00") }
}

/// Reads an interval, with other names of units than the engine reads.
fn interval(text: &str) -> Option<Interval> {
    if let Ok(interval) = text.parse() {
        return Some(interval);
    }
    let ago = text.strip_suffix(" ago");
    let words = ago.unwrap_or(text).split_whitespace().map(|word| match word.to_ascii_lowercase().as_str() {
        "months" | "month" => "mons".to_owned(),
        "hours" | "hrs" | "hr" | "h" => "hour".to_owned(),
        "minutes" | "mins" | "min" | "m" => "minute".to_owned(),
        "seconds" | "secs" | "sec" | "s" => "second".to_owned(),
        "d" => "day".to_owned(),
        "y" | "yr" | "yrs" => "year".to_owned(),
        other => other.to_owned(),
    });
    let text = words.collect::<Vec<_>>().join(" ");
    let plain = text.parse::<i64>().ok().map(|seconds| format!("{seconds} second"));
    let parsed: Interval = plain.unwrap_or(text).parse().ok()?;
    match ago {
        Some(_) => Some(Interval::new(
            parsed.months().checked_neg()?,
            parsed.days().checked_neg()?,
            -parsed.micros(),
        )),
        None => Some(parsed),
    }
}

/// Reads an array: `{1,2,NULL,"a b"}`. The inner error is that of a member.
fn array(text: &str, of: &SqlType, depth: usize) -> Option<Result<Datum>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if depth > DEPTH_MAX {
        return None;
    }
    let (mut members, mut rest) = (Vec::new(), inner.trim());
    while !rest.is_empty() {
        let (member, is_quoted, end) = member_of(rest)?;
        let value = match member.as_str() {
            word if !is_quoted && word.eq_ignore_ascii_case("null") => Ok(Datum::Null),
            word if !is_quoted && word.starts_with('{') => array(word, of, depth + 1)?,
            word => from_text(word, of),
        };
        match value {
            Ok(value) => members.push(value),
            Err(error) => return Some(Err(error)),
        }
        rest = rest[end..].trim_start();
        rest = match rest.strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => more.trim_start(),
            None if rest.is_empty() => rest,
            _ => return None,
        };
    }
    Some(Ok(Datum::List(members)))
}

/// Returns the first member of a list, whether it is in quotation marks, and the byte behind it.
fn member_of(text: &str) -> Option<(String, bool, usize)> {
    if let Some(inner) = text.strip_prefix('"') {
        let (mut member, mut characters) = (String::new(), inner.char_indices());
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Some((member, true, at + 2)),
                '\\' => member.push(characters.next()?.1),
                other => member.push(other),
            }
        }
        return None;
    }
    let (mut depth, mut end) = (0_usize, text.len());
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    Some((text[..end].trim().to_owned(), false, end))
}
