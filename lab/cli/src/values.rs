//! Numbers on the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::bad_input::BadInput;

/// A whole number within `range`.
pub fn whole(flag: &str, text: &str, range: &RangeInclusive<u64>) -> Result<u64, BadInput> {
    let accepted = between(range);
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadInput::value(flag, text, "not a whole number", accepted));
    }
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(BadInput::value(flag, text, "out of range", accepted)),
    }
}

/// A finite number within `range`.
pub fn number(flag: &str, text: &str, range: &RangeInclusive<f64>) -> Result<f64, BadInput> {
    let accepted = between(range);
    match text.parse::<f64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(number) if number.is_finite() => Err(BadInput::value(flag, text, "out of range", accepted)),
        _ => Err(BadInput::value(flag, text, "not a number", accepted)),
    }
}

/// A number of bytes within `range`, with or without a unit.
pub fn bytes(flag: &str, text: &str, range: &RangeInclusive<u64>) -> Result<u64, BadInput> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (low, high) = (range.start(), range.end() >> 40);
    let accepted = format!("{low} to {high}TiB, such as 256MiB");
    let unit = UNITS.iter().find_map(|(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadInput::value(flag, text, "not a number of bytes", accepted));
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)) {
        Some(number) if range.contains(&number) => Ok(number),
        _ => Err(BadInput::value(flag, text, "out of range", accepted)),
    }
}

fn between<T: Display>(range: &RangeInclusive<T>) -> String {
    let (low, high) = (range.start().to_string(), range.end().to_string());
    if low == high { low } else { format!("{low} to {high}") }
}
