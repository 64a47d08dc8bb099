//! Errors of values that are made from texts, numbers or values of other crates.

/// Bytes at the start of a text that an error message shows.
const START_BYTES: usize = 60;

/// A text or a number is not a value of the type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text has another form.
    #[error("{text:?} is no {kind}: write it like {example}")]
    Form {
        /// Start of the text.
        text: String,
        /// The type.
        kind: String,
        /// A text of the type.
        example: &'static str,
    },
    /// The value is beyond the limits of the type.
    #[error("{value} is no {kind}: {limits}")]
    Limits {
        /// The value.
        value: String,
        /// The type.
        kind: String,
        /// The limits, and the cure.
        limits: &'static str,
    },
    /// The text is not JSON, or not that of the value.
    #[error("no JSON: {fault}")]
    Json {
        /// The fault, and its line and column.
        fault: String,
    },
    /// The text has more characters than the type allows.
    #[error(
        "a text of {characters} characters, and {kind} has at most {characters_max}: shorten it, or make the column longer; it \
         begins with {start:?}"
    )]
    TooLong {
        /// Characters of the text.
        characters: usize,
        /// The most characters.
        characters_max: usize,
        /// The type.
        kind: String,
        /// Start of the text.
        start: String,
    },
}

impl ValueError {
    pub(crate) fn form(text: &str, kind: impl Into<String>, example: &'static str) -> Self {
        ValueError::Form { text: start_of(text).to_owned(), kind: kind.into(), example }
    }

    pub(crate) fn limits(value: impl ToString, kind: impl Into<String>, limits: &'static str) -> Self {
        ValueError::Limits { value: start_of(&value.to_string()).to_owned(), kind: kind.into(), limits }
    }
}

/// Returns the start of a text, as much as an error message shows.
pub(crate) fn start_of(text: &str) -> &str {
    let mut end = text.len().min(START_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Serializes a type as its text in formats that people read, and else as the number that rows
/// store; a number that is no value of the type is refused.
macro_rules! serialize_as {
    ($(($($generics:tt)*) $kind:ty as $raw:ty: $to:expr, $from:expr;)*) => { $(
        impl<$($generics)*> serde::Serialize for $kind {
            fn serialize<Format: serde::Serializer>(&self, to: Format) -> Result<Format::Ok, Format::Error> {
                match to.is_human_readable() {
                    true => to.collect_str(self),
                    false => serde::Serialize::serialize(&$to(self), to),
                }
            }
        }

        impl<'de, $($generics)*> serde::Deserialize<'de> for $kind {
            fn deserialize<Format: serde::Deserializer<'de>>(from: Format) -> Result<Self, Format::Error> {
                if from.is_human_readable() {
                    let text = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(from)?;
                    return text.parse().map_err(serde::de::Error::custom);
                }
                let raw = <$raw as serde::Deserialize>::deserialize(from)?;
                $from(raw).map_err(serde::de::Error::custom)
            }
        }
    )* };
}
pub(crate) use serialize_as;

/// Formats a value for programmers as its text.
macro_rules! debug_as_text {
    ($($kind:ty),*) => { $(
        impl std::fmt::Debug for $kind {
            fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, to)
            }
        }
    )* };
}
pub(crate) use debug_as_text;
