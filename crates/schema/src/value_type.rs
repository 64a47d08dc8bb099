//! Types of columns as values, for tools and for descriptions in a directory, and their textual
//! form.

use std::fmt;
use std::str::FromStr;

/// Longest value of fixed length in bytes. It is longer than a row may be, so that the error for a
/// row that is too long can state the length.
const VALUE_BYTES_MAX: usize = 1 << 24;
/// Most digits of decimal numbers, and most of those that are stored in 8 bytes.
pub(crate) const DIGITS_MAX: u8 = 38;
pub(crate) const SHORT_DIGITS_MAX: u8 = 18;
/// Most bytes of a character.
pub(crate) const CHARACTER_BYTES_MAX: usize = 4;
/// Bytes of the longest integers.
pub(crate) const LONG: usize = 16;
/// Maximum nesting depth of types.
const DEPTH_MAX: usize = 16;

/// Types that are written as one word. A word stands before those that it begins with.
const WORDS: [(&str, ValueType); 10] = [
    ("bool", ValueType::Bool),
    ("bytes", ValueType::Bytes),
    ("string", ValueType::String),
    ("date", ValueType::Date),
    ("timestamptz", ValueType::TimestampTz),
    ("timestamp", ValueType::Timestamp),
    ("time", ValueType::Time),
    ("interval", ValueType::Interval),
    ("uuid", ValueType::Uuid),
    ("json", ValueType::Json),
];

/// Other names of types, which are those of SQL.
const OTHER_NAMES: [(&str, ValueType); 2] = [("text", ValueType::String), ("bytea", ValueType::Bytes)];

/// A type of this length.
type OfLength = fn(usize) -> ValueType;

/// Types that are written with a length.
const LENGTHS: [(&str, OfLength); 3] =
    [("text(", ValueType::Text), ("char(", ValueType::Char), ("varchar(", ValueType::VarChar)];

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Unsigned integer of this many bytes: 1, 2, 4, 8 or 16. Integers of 16 bytes are stored
    /// big-endian.
    Unsigned(usize),
    /// Signed integer of this many bytes: 1, 2, 4, 8 or 16. Integers of 16 bytes are stored
    /// big-endian with an inverted sign bit, so that their bytes sort like the numbers.
    Signed(usize),
    /// IEEE 754 number of this many bytes.
    Float(usize),
    /// Truth value of one byte.
    Bool,
    /// Text of at most this many bytes, padded with zeros.
    Text(usize),
    /// This many values of one type, one after the other.
    Array(Box<ValueType>, usize),
    /// A struct of named values, laid out like a row: each at the next multiple of its alignment.
    Group(Vec<(String, ValueType)>),
    /// Bytes of any length.
    Bytes,
    /// UTF-8 text of any length.
    String,
    /// Exact decimal number: [`crate::Numeric`].
    Numeric {
        /// Digits, 1 to 38.
        precision: u8,
        /// Digits behind the point, at most as many.
        scale: u8,
    },
    /// Day: [`crate::Date`].
    Date,
    /// Time of day: [`crate::Time`].
    Time,
    /// Day and time of day in no time zone: [`crate::Timestamp`].
    Timestamp,
    /// Moment: [`crate::TimestampTz`].
    TimestampTz,
    /// Length of time: [`crate::Interval`].
    Interval,
    /// Universally unique identifier: [`crate::Uuid`].
    Uuid,
    /// Text of this many characters, padded with blanks: [`crate::Char`].
    Char(usize),
    /// Text of any length in bytes, and of at most this many characters: [`crate::VarChar`].
    VarChar(usize),
    /// JSON, as it is written: [`crate::JsonText`].
    Json,
    /// Any number of values of one type, which has a fixed length or is [`ValueType::String`].
    List(Box<ValueType>),
}

impl ValueType {
    /// Returns the bytes of each value; `None` for types of variable length.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            ValueType::Unsigned(bytes) | ValueType::Signed(bytes) | ValueType::Float(bytes) => Some(*bytes),
            ValueType::Bool => Some(1),
            ValueType::Text(bytes) => Some(*bytes),
            ValueType::Interval | ValueType::Uuid => Some(16),
            ValueType::Char(characters) => characters.checked_mul(CHARACTER_BYTES_MAX),
            ValueType::Numeric { .. }
            | ValueType::Date
            | ValueType::Time
            | ValueType::Timestamp
            | ValueType::TimestampTz => self.integer_bytes(),
            ValueType::Array(of, count) => of.bytes()?.checked_mul(*count),
            ValueType::Group(members) => {
                let end = ValueType::offsets(members)?.last().copied().unwrap_or(0);
                Some(align_up(end, self.align()))
            }
            _ => None,
        }
    }

    /// Returns the bytes of a type whose values are stored, and sort, as signed integers.
    pub fn integer_bytes(&self) -> Option<usize> {
        match self {
            ValueType::Signed(bytes) => Some(*bytes),
            ValueType::Numeric { precision, .. } if *precision <= SHORT_DIGITS_MAX => Some(8),
            ValueType::Numeric { .. } => Some(LONG),
            ValueType::Date => Some(4),
            ValueType::Time | ValueType::Timestamp | ValueType::TimestampTz => Some(8),
            _ => None,
        }
    }

    /// Returns the alignment of values in a row.
    pub fn align(&self) -> usize {
        match self {
            ValueType::Unsigned(LONG) | ValueType::Signed(LONG) => 1,
            ValueType::Unsigned(bytes) | ValueType::Signed(bytes) | ValueType::Float(bytes) => *bytes,
            ValueType::Array(of, _) => of.align(),
            ValueType::Group(members) => members.iter().map(|(_, kind)| kind.align()).max().unwrap_or(1),
            ValueType::Interval => 8,
            ValueType::Numeric { .. }
            | ValueType::Date
            | ValueType::Time
            | ValueType::Timestamp
            | ValueType::TimestampTz => self.integer_bytes().filter(|bytes| *bytes != LONG).unwrap_or(1),
            _ => 1,
        }
    }

    /// Returns the offsets of the members of a group and the end of the last one; `None` if a
    /// member has no fixed length.
    pub fn offsets(members: &[(String, ValueType)]) -> Option<Vec<usize>> {
        let mut offsets = Vec::with_capacity(members.len() + 1);
        let mut end = 0_usize;
        for (_, kind) in members {
            let offset = align_up(end, kind.align());
            offsets.push(offset);
            end = offset.checked_add(kind.bytes()?).filter(|end| *end <= VALUE_BYTES_MAX)?;
        }
        offsets.push(end);
        Some(offsets)
    }

    /// Returns true if rows can have values of this type: numbers have a valid length, and groups
    /// and arrays contain no type of variable or excessive length.
    pub fn is_sound(&self) -> bool {
        self.is_sound_within(DEPTH_MAX)
    }

    fn is_sound_within(&self, depth: usize) -> bool {
        let inside = |kind: &ValueType| depth > 0 && !kind.is_variable() && kind.is_sound_within(depth - 1);
        let sound = match self {
            ValueType::Unsigned(bytes) | ValueType::Signed(bytes) => matches!(bytes, 1 | 2 | 4 | 8 | 16),
            ValueType::Float(bytes) => matches!(bytes, 4 | 8),
            ValueType::Array(of, _) => inside(of),
            ValueType::Group(members) => {
                let is_name = |name: &str| !name.is_empty() && !name.contains([':', ',', '{', '}']);
                !members.is_empty() && members.iter().all(|(name, kind)| is_name(name) && inside(kind))
            }
            ValueType::Numeric { precision, scale } => {
                (1..=DIGITS_MAX).contains(precision) && scale <= precision
            }
            ValueType::Char(characters) | ValueType::VarChar(characters) => *characters > 0,
            // Lists of `u8` are bytes.
            ValueType::List(of) => {
                let has_length = inside(of) && **of != ValueType::Unsigned(1) && of.bytes() != Some(0);
                has_length || **of == ValueType::String && depth > 0
            }
            ValueType::Bool
            | ValueType::Text(_)
            | ValueType::Bytes
            | ValueType::String
            | ValueType::Json
            | ValueType::Date
            | ValueType::Time
            | ValueType::Timestamp
            | ValueType::TimestampTz
            | ValueType::Interval
            | ValueType::Uuid => true,
        };
        sound && (self.is_variable() || self.bytes().is_some_and(|bytes| bytes <= VALUE_BYTES_MAX))
    }

    /// Returns true if values of both types have the same bytes, and the same order in keys: equal
    /// types, and `u128` and `uuid`, as which earlier versions described the same values.
    pub fn is_stored_like(&self, other: &ValueType) -> bool {
        match (self, other) {
            (ValueType::Unsigned(LONG), ValueType::Uuid) | (ValueType::Uuid, ValueType::Unsigned(LONG)) => {
                true
            }
            (ValueType::Array(of, count), ValueType::Array(other, others)) => {
                count == others && of.is_stored_like(other)
            }
            (ValueType::Group(members), ValueType::Group(others)) => {
                let alike = |((name, kind), (other, like)): (&(String, ValueType), &(String, ValueType))| {
                    name == other && kind.is_stored_like(like)
                };
                members.len() == others.len() && members.iter().zip(others).all(alike)
            }
            _ => self == other,
        }
    }

    /// Returns true for types that the first formats of directories have.
    pub fn is_of_first_formats(&self) -> bool {
        match self {
            ValueType::Array(of, _) => of.is_of_first_formats(),
            ValueType::Group(members) => members.iter().all(|(_, kind)| kind.is_of_first_formats()),
            ValueType::Unsigned(_)
            | ValueType::Signed(_)
            | ValueType::Float(_)
            | ValueType::Bool
            | ValueType::Text(_)
            | ValueType::Bytes
            | ValueType::String => true,
            _ => false,
        }
    }

    /// Returns true for types of variable length.
    pub fn is_variable(&self) -> bool {
        matches!(
            self,
            ValueType::Bytes
                | ValueType::String
                | ValueType::VarChar(_)
                | ValueType::Json
                | ValueType::List(_)
        )
    }

    /// Returns true if values can be columns of keys.
    pub fn is_key(&self) -> bool {
        matches!(self, ValueType::Float(_) | ValueType::Bool) || self.is_early_key()
    }

    /// Returns true if values of any length can be columns of keys: keys have their bytes, with an
    /// end that sorts.
    pub fn is_variable_key(&self) -> bool {
        matches!(self, ValueType::Bytes | ValueType::String | ValueType::VarChar(_))
    }

    /// Returns true if values could be columns of keys before keys had orders.
    pub(crate) fn is_early_key(&self) -> bool {
        match self {
            ValueType::Unsigned(_) | ValueType::Text(_) | ValueType::Char(_) => true,
            ValueType::Interval | ValueType::Uuid => true,
            ValueType::Array(of, _) => **of == ValueType::Unsigned(1),
            _ => self.integer_bytes().is_some(),
        }
    }

    /// Returns the form that values have, and what to do about a value that does not fit, for error
    /// messages.
    pub(crate) fn values_and_limits(&self) -> (&'static str, &'static str) {
        match self {
            ValueType::Unsigned(_) => {
                ("an integer", "give it a smaller one that is not negative, or make the column longer")
            }
            ValueType::Signed(_) => {
                ("an integer", "give it one that is nearer to zero, or make the column longer")
            }
            ValueType::Float(_) => ("a floating-point number", "give it a finite one"),
            ValueType::Bool => ("true or false", "give it true or false"),
            ValueType::Text(_) => ("a text", "shorten it, leave out zero bytes, or make the column longer"),
            ValueType::Array(of, _) if **of == ValueType::Unsigned(1) => ("bytes", "give it as many bytes"),
            ValueType::Array(..) => ("a list", "give it as many values"),
            ValueType::Group(_) => ("a list of its members", "give it as many values"),
            ValueType::Bytes => ("bytes", "shorten it"),
            ValueType::String => ("a text", "shorten it"),
            ValueType::Numeric { .. } => ("an exact number", "round it, or make the column longer"),
            ValueType::Date => ("a date", "give it a date of the calendar"),
            ValueType::Time => ("a time of day", "give it a time of day"),
            ValueType::Timestamp => ("a timestamp", "give it a timestamp of the calendar"),
            ValueType::TimestampTz => {
                ("a timestamp with its offset from UTC", "give it a moment of the calendar")
            }
            ValueType::Interval => ("an interval", "give it a shorter one"),
            ValueType::Uuid => ("a UUID", "give it a UUID"),
            ValueType::Char(_) => ("a text", "shorten it, leave out zero bytes, or make the column longer"),
            ValueType::VarChar(_) => ("a text", "shorten it, or make the column longer"),
            ValueType::Json => ("a text that is JSON", "give it a text that is JSON"),
            ValueType::List(_) => ("a list", "shorten it"),
        }
    }

    /// Reads a type from the front of a text.
    fn parse(rest: &mut &str, depth: usize) -> Option<ValueType> {
        let depth = depth.checked_sub(1)?;
        if take(rest, "[") {
            let of = ValueType::parse(rest, depth)?;
            if take(rest, "]") {
                return Some(ValueType::List(Box::new(of)));
            }
            let count = take(rest, "; ").then(|| number(rest))??;
            return take(rest, "]").then(|| ValueType::Array(Box::new(of), count));
        }
        if take(rest, "{") {
            let mut members = Vec::new();
            loop {
                let (name, others) = rest.split_once(": ")?;
                *rest = others;
                members.push((name.to_owned(), ValueType::parse(rest, depth)?));
                if take(rest, "}") {
                    return Some(ValueType::Group(members));
                }
                take(rest, ", ").then_some(())?;
            }
        }
        for (front, kind) in LENGTHS {
            if take(rest, front) {
                let length = number(rest)?;
                return take(rest, ")").then(|| kind(length));
            }
        }
        if take(rest, "numeric(") {
            let precision = u8::try_from(number(rest)?).ok()?;
            let scale = take(rest, ", ").then(|| number(rest))??;
            let scale = u8::try_from(scale).ok()?;
            return take(rest, ")").then_some(ValueType::Numeric { precision, scale });
        }
        if let Some((_, kind)) = WORDS.into_iter().chain(OTHER_NAMES).find(|(word, _)| take(rest, word)) {
            return Some(kind);
        }
        let of_bytes = match () {
            () if take(rest, "u") => ValueType::Unsigned,
            () if take(rest, "i") => ValueType::Signed,
            () if take(rest, "f") => ValueType::Float,
            () => return None,
        };
        number(rest).filter(|bits| bits.is_multiple_of(8)).map(|bits| of_bytes(bits / 8))
    }
}

/// Returns the next multiple of `align` from `offset` on.
pub const fn align_up(offset: usize, align: usize) -> usize {
    offset.div_ceil(align) * align
}

/// Returns the length of the fixed part of a row whose columns and null bits end there: a row has
/// at least one word.
pub const fn row_bytes(end: usize) -> usize {
    match align_up(end, 8) {
        0 => 8,
        bytes => bytes,
    }
}

/// Removes a prefix from `rest`. Returns false if it is missing.
fn take(rest: &mut &str, front: &str) -> bool {
    let others = rest.strip_prefix(front);
    *rest = others.unwrap_or(rest);
    others.is_some()
}

fn number(rest: &mut &str) -> Option<usize> {
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, others) = rest.split_at(end);
    *rest = others;
    digits.parse().ok()
}

/// Textual form: `u32`, `[u8; 4]`, `text(16)`, `{day: u16, hour: u8}`, `string`.
impl fmt::Display for ValueType {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Unsigned(bytes) => write!(to, "u{}", 8 * bytes),
            ValueType::Signed(bytes) => write!(to, "i{}", 8 * bytes),
            ValueType::Float(bytes) => write!(to, "f{}", 8 * bytes),
            ValueType::Text(bytes) => write!(to, "text({bytes})"),
            ValueType::Char(characters) => write!(to, "char({characters})"),
            ValueType::VarChar(characters) => write!(to, "varchar({characters})"),
            ValueType::List(of) => write!(to, "[{of}]"),
            ValueType::Array(of, count) => write!(to, "[{of}; {count}]"),
            ValueType::Group(members) => {
                for (number, (name, kind)) in members.iter().enumerate() {
                    write!(to, "{}{name}: {kind}", if number == 0 { "{" } else { ", " })?;
                }
                to.write_str("}")
            }
            ValueType::Numeric { precision, scale } => write!(to, "numeric({precision}, {scale})"),
            ValueType::Bool
            | ValueType::Bytes
            | ValueType::String
            | ValueType::Date
            | ValueType::Time
            | ValueType::Timestamp
            | ValueType::TimestampTz
            | ValueType::Interval
            | ValueType::Json
            | ValueType::Uuid => {
                let word = WORDS.iter().find(|(_, kind)| kind == self);
                to.write_str(word.map_or("", |(word, _)| word))
            }
        }
    }
}

/// The text is not a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no type of a column: there are u8 to u128, i8 to i128, f32, f64, bool, numeric(10, 2), date, time, timestamp, \
     timestamptz, interval, uuid, text(16), char(2), varchar(40), string (or text), bytes (or bytea), json, [u8; 4], [i32], \
     [string] and {{day: u16, hour: u8}}"
)]
pub struct UnknownType(pub String);

/// Parses the text that [`ValueType`] displays.
impl FromStr for ValueType {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<Self, UnknownType> {
        let mut rest = text;
        let kind = ValueType::parse(&mut rest, DEPTH_MAX + 1).filter(|_| rest.is_empty());
        kind.filter(ValueType::is_sound).ok_or_else(|| UnknownType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fixed() -> impl Strategy<Value = ValueType> {
        let leaf = prop_oneof![
            prop::sample::select(vec![1, 2, 4, 8, 16]).prop_map(ValueType::Unsigned),
            prop::sample::select(vec![1, 2, 4, 8, 16]).prop_map(ValueType::Signed),
            prop::sample::select(vec![4, 8]).prop_map(ValueType::Float),
            Just(ValueType::Bool),
            (0..40_usize).prop_map(ValueType::Text),
            (1..40_usize).prop_map(ValueType::Char),
            (1..=38_u8, 0..=38_u8)
                .prop_map(|(precision, scale)| ValueType::Numeric { precision, scale: scale.min(precision) }),
            prop::sample::select(vec![
                ValueType::Date,
                ValueType::Time,
                ValueType::Timestamp,
                ValueType::TimestampTz,
                ValueType::Interval,
                ValueType::Uuid,
            ]),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0..5_usize).prop_map(|(kind, count)| ValueType::Array(Box::new(kind), count)),
                prop::collection::vec(("[a-z_]{1,5}", inner), 1..4).prop_map(ValueType::Group),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn types_are_parsed_as_displayed(kind in fixed()) {
            prop_assert_eq!(kind.to_string().parse::<ValueType>(), Ok(kind.clone()));
            prop_assert!(kind.bytes().is_some_and(|bytes| bytes % kind.align() == 0), "{}", kind);
        }
    }

    #[test]
    fn invalid_texts_are_no_types() {
        for text in [
            "u32",
            "i128",
            "text(16)",
            "[[u8; 100]; 10]",
            "{day: u16, hour: u8}",
            "bytes",
            "string",
            "numeric(38, 38)",
            "[timestamptz; 2]",
            "char(2)",
            "varchar(4000)",
            "json",
            "[i32]",
            "[[u16; 2]]",
            "[string]",
            "[{day: date, hour: u8}]",
        ] {
            assert_eq!(text.parse::<ValueType>().map(|kind| kind.to_string()), Ok(text.to_owned()));
        }
        let deep = format!("{}u8{}", "[".repeat(40), "; 1]".repeat(40));
        for text in ["", "u7", "u256", "f16", "u32 ", "[u8]", "[u8; ]", "[u8; x]", "{", "{}", "{a}", "{a: }"]
        {
            assert!(text.parse::<ValueType>().is_err(), "{text}");
        }
        for text in [
            "numeric",
            "numeric(0, 0)",
            "numeric(39, 0)",
            "numeric(3, 4)",
            "numeric(3,1)",
            "dates",
            "timestamptzz",
        ] {
            assert!(text.parse::<ValueType>().is_err(), "{text}");
        }
        for (text, name) in [("text", "string"), ("bytea", "bytes"), ("[text]", "[string]")] {
            assert_eq!(text.parse::<ValueType>().map(|kind| kind.to_string()), Ok(name.to_owned()));
        }
        for text in [
            "char(0)",
            "varchar(0)",
            "[bytes]",
            "[[i32]]",
            "[json]",
            "[varchar(2)]",
            "[text(0)]",
            "[[i32]; 2]",
        ] {
            assert!(text.parse::<ValueType>().is_err(), "{text}");
        }
        for text in ["[bytes; 2]", "{a: string}", "text(99999999)", "[u64; 4611686018427387904]", &deep] {
            assert!(text.parse::<ValueType>().is_err(), "{text}");
        }
    }
}
