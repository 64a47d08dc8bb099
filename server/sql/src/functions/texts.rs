//! Functions of texts and bytes.

use isles::Datum;

use super::{Builtin, T, function, integer, of_nulls, text, variadic};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::types::SqlType;

/// Most bytes of a text that a function makes.
const BYTES_MAX: usize = 1 << 26;

pub static FUNCTIONS: &[Builtin] = &[
    function("length", &[T::Text], T::Int4, |a, _| count(text(&a[0]).chars().count())),
    function("char_length", &[T::Text], T::Int4, |a, _| count(text(&a[0]).chars().count())),
    function("character_length", &[T::Text], T::Int4, |a, _| count(text(&a[0]).chars().count())),
    function("octet_length", &[T::Text], T::Int4, |a, _| count(text(&a[0]).len())),
    function("length", &[T::Bytea], T::Int4, |a, _| count(bytes(&a[0]).len())),
    function("octet_length", &[T::Bytea], T::Int4, |a, _| count(bytes(&a[0]).len())),
    function("lower", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).to_lowercase()))),
    function("upper", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).to_uppercase()))),
    function("initcap", &[T::Text], T::Text, initcap),
    function("substr", &[T::Text, T::Int4], T::Text, substring),
    function("substr", &[T::Text, T::Int4, T::Int4], T::Text, substring),
    function("substring", &[T::Text, T::Int4], T::Text, substring),
    function("substring", &[T::Text, T::Int4, T::Int4], T::Text, substring),
    function("left", &[T::Text, T::Int4], T::Text, left),
    function("right", &[T::Text, T::Int4], T::Text, right),
    function("trim", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).trim_matches(' ').into()))),
    function("btrim", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).trim_matches(' ').into()))),
    function("ltrim", &[T::Text], T::Text, |a, _| {
        Ok(Datum::Text(text(&a[0]).trim_start_matches(' ').into()))
    }),
    function("rtrim", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).trim_end_matches(' ').into()))),
    function("btrim", &[T::Text, T::Text], T::Text, |a, _| {
        Ok(Datum::Text(text(&a[0]).trim_matches(|c| text(&a[1]).contains(c)).into()))
    }),
    function("ltrim", &[T::Text, T::Text], T::Text, |a, _| {
        Ok(Datum::Text(text(&a[0]).trim_start_matches(|c| text(&a[1]).contains(c)).into()))
    }),
    function("rtrim", &[T::Text, T::Text], T::Text, |a, _| {
        Ok(Datum::Text(text(&a[0]).trim_end_matches(|c| text(&a[1]).contains(c)).into()))
    }),
    function("position", &[T::Text, T::Text], T::Int4, |a, _| position(text(&a[1]), text(&a[0]))),
    function("strpos", &[T::Text, T::Text], T::Int4, |a, _| position(text(&a[0]), text(&a[1]))),
    function("replace", &[T::Text, T::Text, T::Text], T::Text, |a, _| {
        let of = text(&a[0]);
        let from = text(&a[1]);
        if from.is_empty() {
            return Ok(a[0].clone());
        }
        let matches = of.matches(from).count();
        check_length(of.len() + matches.saturating_mul(text(&a[2]).len()))?;
        Ok(Datum::Text(of.replace(from, text(&a[2]))))
    }),
    function("repeat", &[T::Text, T::Int4], T::Text, |a, _| {
        let times = usize::try_from(integer(&a[1])).unwrap_or(0);
        check_length(text(&a[0]).len().saturating_mul(times))?;
        Ok(Datum::Text(text(&a[0]).repeat(times)))
    }),
    function("reverse", &[T::Text], T::Text, |a, _| Ok(Datum::Text(text(&a[0]).chars().rev().collect()))),
    function("lpad", &[T::Text, T::Int4], T::Text, |a, _| pad(text(&a[0]), integer(&a[1]), " ", true)),
    function("rpad", &[T::Text, T::Int4], T::Text, |a, _| pad(text(&a[0]), integer(&a[1]), " ", false)),
    function("lpad", &[T::Text, T::Int4, T::Text], T::Text, |a, _| {
        pad(text(&a[0]), integer(&a[1]), text(&a[2]), true)
    }),
    function("rpad", &[T::Text, T::Int4, T::Text], T::Text, |a, _| {
        pad(text(&a[0]), integer(&a[1]), text(&a[2]), false)
    }),
    function("split_part", &[T::Text, T::Text, T::Int4], T::Text, split_part),
    function("starts_with", &[T::Text, T::Text], T::Bool, |a, _| {
        Ok(Datum::Bool(text(&a[0]).starts_with(text(&a[1]))))
    }),
    function("ascii", &[T::Text], T::Int4, |a, _| {
        Ok(Datum::Signed(text(&a[0]).chars().next().map_or(0, |first| u32::from(first).into())))
    }),
    function("chr", &[T::Int4], T::Text, |a, _| {
        let character = u32::try_from(integer(&a[0])).ok().and_then(char::from_u32);
        let character = character.filter(|character| *character != '\0');
        let wrong = || SqlError::new(state::LIMIT, "requested character is not valid");
        character.map(|character| Datum::Text(character.into())).ok_or_else(wrong)
    }),
    function("quote_ident", &[T::Text], T::Text, |a, _| Ok(Datum::Text(quoted_name(text(&a[0]))))),
    function("quote_literal", &[T::Text], T::Text, |a, _| {
        Ok(Datum::Text(format!("'{}'", text(&a[0]).replace('\'', "''"))))
    }),
    variadic("concat", &[T::Any], T::Text, |a, _| Ok(Datum::Text(joined(a, "")))),
    variadic("concat_ws", &[T::Text, T::Any], T::Text, |a, _| match &a[0] {
        Datum::Text(separator) => Ok(Datum::Text(joined(&a[1..], separator))),
        _ => Ok(Datum::Null),
    }),
    variadic("json_build_object", &[T::Any], T::Json, |a, _| json_object(a)),
    function("||", &[T::Text, T::Text], T::Text, |a, _| {
        check_length(text(&a[0]).len() + text(&a[1]).len())?;
        Ok(Datum::Text([text(&a[0]), text(&a[1])].concat()))
    }),
    function("||", &[T::Bytea, T::Bytea], T::Bytea, |a, _| {
        Ok(Datum::Bytes([bytes(&a[0]), bytes(&a[1])].concat()))
    }),
    of_nulls("||", &[T::Array, T::First], T::First, |a, _| match (&a[0], &a[1]) {
        (Datum::List(left), Datum::List(right)) => Ok(Datum::List([&left[..], &right[..]].concat())),
        (Datum::Null, other) | (other, _) => Ok(other.clone()),
    }),
    function("md5", &[T::Text], T::Text, |_, _| Err(SqlError::unsupported("md5"))),
    function("encode", &[T::Bytea, T::Text], T::Text, |a, _| match text(&a[1]) {
        "hex" => Ok(Datum::Text(bytes(&a[0]).iter().map(|byte| format!("{byte:02x}")).collect())),
        other => Err(SqlError::unsupported(format!("encoding {other:?}"))),
    }),
    function("to_hex", &[T::Int8], T::Text, |a, _| Ok(Datum::Text(format!("{:x}", integer(&a[0]))))),
];

fn bytes(value: &Datum) -> &[u8] {
    if let Datum::Bytes(bytes) = value { bytes } else { &[] }
}

fn count(number: usize) -> Result<Datum> {
    Ok(Datum::Signed(number as i64))
}

fn check_length(bytes: usize) -> Result<()> {
    match bytes {
        ..=BYTES_MAX => Ok(()),
        _ => Err(SqlError::new(state::LIMIT, "requested length too large")),
    }
}

/// Returns a name in quotation marks, if it needs them.
pub fn quoted_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.chars().all(is_plain) { name.to_owned() } else { crate::parse::quoted(name) }
}

/// Makes a JSON object of names and values in turns.
fn json_object(values: &[Datum]) -> Result<Datum> {
    if values.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let mut members = Vec::new();
    for pair in values.chunks(2) {
        let Some(name) = crate::text::to_text(&pair[0], &SqlType::Text) else {
            return Err(SqlError::new(state::INVALID_PARAMETER, "argument cannot be null"));
        };
        let value = crate::text::to_text(&pair[1], &SqlType::Text);
        let value = match (&pair[1], value) {
            (Datum::Bool(truth), _) => truth.to_string(),
            (Datum::Signed(_) | Datum::Unsigned(_) | Datum::Float(_) | Datum::Numeric(_), Some(text)) => text,
            (_, Some(text)) => json_text(&text),
            (_, None) => "null".to_owned(),
        };
        members.push(format!("{} : {value}", json_text(&name)));
    }
    Ok(Datum::Text(format!("{{{}}}", members.join(", "))))
}

fn json_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted += &format!("\\u{:04x}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// Joins the texts of values that are not null. Types are not known here any more, so numbers and
/// times have the texts of their values.
fn joined(values: &[Datum], separator: &str) -> String {
    let kind = crate::types::SqlType::Text;
    let texts = values.iter().filter_map(|value| crate::text::to_text(value, &kind));
    texts.collect::<Vec<_>>().join(separator)
}

fn initcap(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let (mut result, mut begins) = (String::new(), true);
    for character in text(&a[0]).chars() {
        if begins {
            result.extend(character.to_uppercase());
        } else {
            result.extend(character.to_lowercase());
        }
        begins = !character.is_alphanumeric();
    }
    Ok(Datum::Text(result))
}

fn substring(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let start = integer(&a[1]);
    let end = match a.get(2).map(integer) {
        Some(..0) => return Err(SqlError::new("22011", "negative substring length not allowed")),
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let first = usize::try_from(start.max(1) - 1).unwrap_or(0);
    let length = usize::try_from(end.max(1) - 1).unwrap_or(0).saturating_sub(first);
    Ok(Datum::Text(text(&a[0]).chars().skip(first).take(length).collect()))
}

fn left(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let characters = text(&a[0]).chars().count() as i64;
    let length = if integer(&a[1]) < 0 { characters + integer(&a[1]) } else { integer(&a[1]) };
    Ok(Datum::Text(text(&a[0]).chars().take(usize::try_from(length).unwrap_or(0)).collect()))
}

fn right(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let characters = text(&a[0]).chars().count() as i64;
    let length = if integer(&a[1]) < 0 { characters + integer(&a[1]) } else { integer(&a[1]) };
    let skipped = usize::try_from(characters - length.max(0)).unwrap_or(0);
    Ok(Datum::Text(text(&a[0]).chars().skip(skipped).collect()))
}

fn position(of: &str, part: &str) -> Result<Datum> {
    let place = of.find(part).map_or(0, |byte| of[..byte].chars().count() as i64 + 1);
    Ok(Datum::Signed(place))
}

fn pad(of: &str, length: i64, fill: &str, before: bool) -> Result<Datum> {
    let length = usize::try_from(length).unwrap_or(0);
    check_length(length.saturating_mul(4))?;
    let characters = of.chars().count();
    let missing = length.saturating_sub(characters);
    let padding: String =
        if fill.is_empty() { String::new() } else { fill.chars().cycle().take(missing).collect() };
    let cut: String = of.chars().take(length).collect();
    Ok(Datum::Text(if before { padding + &cut } else { cut + &padding }))
}

fn split_part(a: &[Datum], _: &mut Exec<'_, '_>) -> Result<Datum> {
    let (of, separator, number) = (text(&a[0]), text(&a[1]), integer(&a[2]));
    if number == 0 {
        return Err(SqlError::new(state::INVALID_PARAMETER, "field position must not be zero"));
    }
    let parts: Vec<&str> = if separator.is_empty() { vec![of] } else { of.split(separator).collect() };
    let place = if number > 0 { number - 1 } else { parts.len() as i64 + number };
    let part = usize::try_from(place).ok().and_then(|place| parts.get(place));
    Ok(Datum::Text(part.copied().unwrap_or_default().to_owned()))
}
