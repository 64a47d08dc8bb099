//! Short text of a fixed capacity.

use serde::{Deserialize, Serialize};

/// Up to `N` bytes of UTF-8 without zero bytes, stored in place, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// The text, cut at the last whole character that fits; zero bytes are dropped.
    pub fn new(text: &str) -> Self {
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

    /// The text, if it fits as it is: at most `N` bytes, none of them zero.
    pub fn checked(text: &str) -> Option<Self> {
        (text.len() <= N && !text.bytes().any(|byte| byte == 0)).then(|| Text::new(text))
    }

    /// The text padded with zero bytes.
    #[inline(always)]
    pub fn padded(&self) -> [u8; N] {
        self.bytes
    }

    /// From bytes padded with zeros, as [`Self::padded`] gives them.
    #[inline(always)]
    pub fn from_padded(bytes: [u8; N]) -> Self {
        Text { bytes }
    }

    /// The bytes without padding.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        &self.bytes[..length]
    }

    /// The text; bytes that are not UTF-8 end it.
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

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Text::new(text)
    }
}

/// To people as text; between programs as the bytes that they are.
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
        // Where the text stands, without a copy of it.
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

    fn visit_str<E>(self, text: &str) -> Result<Text<N>, E> {
        Ok(Text::new(text))
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
    use super::*;

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(Text::<4>::new("abcdef").as_str(), "abcd");
        assert_eq!(Text::<4>::new("abcé").as_str(), "abc");
        assert_eq!(Text::<4>::new("").as_str(), "");
        assert_eq!(Text::<4>::new("a\0b").as_str(), "ab");
    }

    #[test]
    fn checked_texts_are_whole() {
        assert_eq!(Text::<4>::checked("abcd"), Some(Text::new("abcd")));
        assert_eq!(Text::<4>::checked("abcde"), None);
        assert_eq!(Text::<4>::checked("a\0"), None);
    }

    #[test]
    fn texts_travel_as_they_are() {
        for text in ["", "ab", "abcd", "abé"] {
            let sent = postcard::to_allocvec(&Text::<4>::new(text)).expect("a text");
            assert_eq!(sent.len(), 1 + text.len());
            assert_eq!(postcard::from_bytes(&sent), Ok(Text::<4>::new(text)));
        }
        let cut = Text::<2>::from_padded([b'a', 0xc3]);
        assert_eq!(postcard::from_bytes(&postcard::to_allocvec(&cut).expect("a text")), Ok(cut));
        let long = postcard::to_allocvec(&Text::<5>::new("abcde")).expect("a text");
        assert!(postcard::from_bytes::<Text<4>>(&long).is_err());
    }
}
