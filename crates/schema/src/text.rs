//! Short texts of a fixed capacity.

use serde::{Deserialize, Serialize};

/// Bytes at the start of a text that did not fit, for the error message.
const START_BYTES: usize = 16;

/// Up to `N` bytes of UTF-8 without zero bytes, stored in place, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// Truncates a text at the last whole character that fits, and drops zero bytes. `TryFrom` does
    /// not truncate.
    pub fn truncated(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; N];
        for (slot, byte) in bytes.iter_mut().zip(text.bytes().take(end).filter(|byte| *byte != 0)) {
            *slot = byte;
        }
        Text { bytes }
    }

    /// Converts a literal in a constant: `const { Text::literal("ada") }` does not compile if the
    /// text does not fit. See [`crate::text!`].
    ///
    /// # Panics
    /// If the text does not fit, when it is not used in a constant.
    pub const fn literal(text: &str) -> Self {
        let from = text.as_bytes();
        assert!(from.len() <= N, "the text has more bytes than there is room for");
        let (mut bytes, mut at) = ([0; N], 0);
        while at < from.len() {
            assert!(from[at] != 0, "the text has a zero byte");
            bytes[at] = from[at];
            at += 1;
        }
        Text { bytes }
    }

    /// Returns the text padded with zero bytes.
    #[inline(always)]
    pub fn padded(&self) -> [u8; N] {
        self.bytes
    }

    /// Converts bytes padded with zeros, as [`Self::padded`] returns them.
    #[inline(always)]
    pub fn from_padded(bytes: [u8; N]) -> Self {
        Text { bytes }
    }

    /// Returns the bytes without padding.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        &self.bytes[..length]
    }

    /// Returns the text up to the first byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        let bytes = self.as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
        }
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text { bytes: [0; N] }
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?}", self.as_str())
    }
}

impl<const N: usize> std::fmt::Display for Text<N> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.as_str())
    }
}

/// A text that does not fit: it is too long, or has a zero byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The text has too many bytes.
    #[error(
        "a text of {bytes} bytes where {bytes_max} are possible: {start:?}..; shorten it, or make the column a `String`"
    )]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Most bytes.
        bytes_max: usize,
        /// Start of the text.
        start: String,
    },
    /// The text has a zero byte, which would end it.
    #[error("a text with a zero byte: leave it out, or make the column a `String`")]
    Zero,
}

impl<const N: usize> TryFrom<&str> for Text<N> {
    type Error = TextError;

    fn try_from(text: &str) -> Result<Self, TextError> {
        if text.len() > N {
            let start = Text::<START_BYTES>::truncated(text).as_str().to_owned();
            return Err(TextError::TooLong { bytes: text.len(), bytes_max: N, start });
        }
        match text.bytes().any(|byte| byte == 0) {
            true => Err(TextError::Zero),
            false => Ok(Text::truncated(text)),
        }
    }
}

impl<const N: usize> TryFrom<String> for Text<N> {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        Text::try_from(&*text)
    }
}

impl<const N: usize> std::str::FromStr for Text<N> {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Text::try_from(text)
    }
}

impl<const N: usize> PartialEq<str> for Text<N> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl<const N: usize> PartialEq<&str> for Text<N> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// Makes a [`Text`](crate::Text) of a literal. A literal that does not fit does not compile:
///
/// ```
/// let town: schema::Text<8> = schema::text!("Paris");
/// assert_eq!(town, "Paris");
/// ```
///
/// ```compile_fail
/// let town: schema::Text<4> = schema::text!("Paris");
/// ```
#[macro_export]
macro_rules! text {
    ($text:expr) => {
        const { $crate::Text::literal($text) }
    };
}

/// Human-readable formats contain a string, binary formats the bytes.
impl<const N: usize> Serialize for Text<N> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => to.serialize_str(self.as_str()),
            false => to.serialize_bytes(self.as_bytes()),
        }
    }
}

impl<'de, const N: usize> Deserialize<'de> for Text<N> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Reads the text in place, without a copy.
        match from.is_human_readable() {
            true => from.deserialize_str(TextVisitor),
            false => from.deserialize_bytes(TextVisitor),
        }
    }
}

struct TextVisitor<const N: usize>;

impl<const N: usize> serde::de::Visitor<'_> for TextVisitor<N> {
    type Value = Text<N>;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "a text of at most {N} bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<N>, E> {
        Text::try_from(text).map_err(E::custom)
    }

    fn visit_bytes<E: serde::de::Error>(self, text: &[u8]) -> Result<Text<N>, E> {
        let mut bytes = [0; N];
        let place = bytes.get_mut(..text.len()).ok_or_else(|| E::invalid_length(text.len(), &self))?;
        place.copy_from_slice(text);
        Ok(Text { bytes })
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::StrDeserializer;

    use super::*;

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(Text::<4>::truncated("abcdef").as_str(), "abcd");
        assert_eq!(Text::<4>::truncated("abcé").as_str(), "abc");
        assert_eq!(Text::<4>::truncated("").as_str(), "");
        assert_eq!(Text::<4>::truncated("a\0b").as_str(), "ab");
    }

    #[test]
    fn texts_that_do_not_fit_are_refused() {
        let text = |text: &str| Text::<4>::try_from(text);
        assert_eq!(text("abcd"), Ok(text!("abcd")));
        assert_eq!("abé".parse(), text("abé"));
        let long = "eighteen and more bytes";
        let refusal = TextError::TooLong { bytes: 23, bytes_max: 4, start: "eighteen and mor".to_owned() };
        assert_eq!(text(long), Err(refusal));
        assert_eq!(Text::<4>::try_from("a\0".to_owned()), Err(TextError::Zero));
        let read = |text| Text::<4>::deserialize(StrDeserializer::<serde::de::value::Error>::new(text));
        assert_eq!(read("abcd"), Ok(text!("abcd")));
        assert!(read("abcde").expect_err("cut").to_string().contains("5 bytes"));
    }

    #[test]
    fn texts_are_serialized_in_place() {
        for text in ["", "ab", "abcd", "abé"] {
            let sent = postcard::to_allocvec(&Text::<4>::truncated(text)).expect("a text");
            assert_eq!(sent.len(), 1 + text.len());
            assert_eq!(postcard::from_bytes(&sent), Ok(Text::<4>::truncated(text)));
        }
        let cut = Text::<2>::from_padded([b'a', 0xc3]);
        assert_eq!(postcard::from_bytes(&postcard::to_allocvec(&cut).expect("a text")), Ok(cut));
        let long = postcard::to_allocvec(&Text::<5>::truncated("abcde")).expect("a text");
        assert!(postcard::from_bytes::<Text<4>>(&long).is_err());
    }
}
