//! Numbers on the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::bad_input::BadInput;

/// A whole number within `range`, or `None` where the flag was not given.
pub fn whole(flag: &str, text: Option<&str>, range: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
    let Some(text) = text else { return Ok(None) };
    let accepted = between(&range);
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadInput::value(flag, text, "not a whole number", accepted));
    }
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(BadInput::value(flag, text, "out of range", accepted)),
    }
}

/// A finite number within `range`, or `None` where the flag was not given.
pub fn number(flag: &str, text: Option<&str>, range: RangeInclusive<f64>) -> Result<Option<f64>, BadInput> {
    let Some(text) = text else { return Ok(None) };
    let accepted = between(&range);
    match text.parse::<f64>() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        Ok(number) if number.is_finite() => Err(BadInput::value(flag, text, "out of range", accepted)),
        _ => Err(BadInput::value(flag, text, "not a number", accepted)),
    }
}

/// A number of bytes within `range`, with or without a unit, or `None` where the flag was not
/// given.
pub fn bytes(flag: &str, text: Option<&str>, range: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let Some(text) = text else { return Ok(None) };
    let (low, high) = (range.start(), range.end() >> 40);
    let accepted = format!("{low} to {high}TiB, such as 256MiB");
    let unit = UNITS.iter().find_map(|(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadInput::value(flag, text, "not a number of bytes", accepted));
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)) {
        Some(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(BadInput::value(flag, text, "out of range", accepted)),
    }
}

fn between<T: Display>(range: &RangeInclusive<T>) -> String {
    let (low, high) = (range.start().to_string(), range.end().to_string());
    if low == high { low } else { format!("{low} to {high}") }
}
