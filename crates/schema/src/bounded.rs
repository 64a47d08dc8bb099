//! Texts that are bounded in characters: [`Char`], the column type `char(n)`, and [`VarChar`],
//! `varchar(n)`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::key::{Key, KeySink, VARIABLE_BITS};
use crate::row::Value;
use crate::tail_value::TailValue;
use crate::value_error::{ValueError, start_of};
use crate::value_type::{CHARACTER_BYTES_MAX, ValueType};

fn too_long(text: &str, name: &str, characters_max: usize) -> ValueError {
    ValueError::TooLong {
        characters: text.chars().count(),
        characters_max,
        kind: format!("{name}({characters_max})"),
        start: start_of(text).to_owned(),
    }
}

/// Returns a text without the blanks at its end.
pub(crate) fn without_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// Returns a text with blanks at its end, up to this number of characters.
pub(crate) fn padded(text: &str, characters: usize) -> String {
    format!("{text:characters$}")
}

/// The column type `char(N)`: a text of `N` characters. A shorter text is padded with blanks, and
/// blanks at the end count for nothing in comparisons and keys, as in PostgreSQL. It takes `4 * N`
/// bytes in each row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Char<const N: usize> {
    /// Without blanks at the end.
    text: String,
}

impl<const N: usize> Char<N> {
    /// Returns the text without the blanks at its end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn padded_bytes(&self, to: &mut [u8]) {
        let (text, rest) = to.split_at_mut(self.text.len());
        text.copy_from_slice(self.text.as_bytes());
        rest.fill(0);
    }
}

impl<const N: usize> TryFrom<&str> for Char<N> {
    type Error = ValueError;

    fn try_from(text: &str) -> Result<Self, ValueError> {
        let own = without_blanks(text);
        if own.chars().count() > N {
            return Err(too_long(own, "char", N));
        }
        match own.contains('\0') {
            true => Err(ValueError::limits(
                format_args!("{own:?}"),
                "char",
                "leave out zero bytes, or make the column a `text`",
            )),
            false => Ok(Char { text: own.to_owned() }),
        }
    }
}

/// All characters, the blanks at the end among them.
impl<const N: usize> fmt::Display for Char<N> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:width$}", self.text, width = N)
    }
}

impl<const N: usize> Value for Char<N> {
    const BYTES: usize = CHARACTER_BYTES_MAX * N;
    const ALIGN: usize = 1;
    fn value_type() -> ValueType {
        ValueType::Char(N)
    }
    fn store(&self, to: &mut [u8]) {
        self.padded_bytes(&mut to[..Self::BYTES]);
    }
    fn fetch(from: &[u8]) -> Self {
        let from = &from[..Self::BYTES];
        let end = from.iter().position(|byte| *byte == 0).unwrap_or(from.len());
        // If the bytes are damaged, as much as fits into the column again.
        let text = match std::str::from_utf8(&from[..end]) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&from[..error.valid_up_to()]).unwrap_or_default(),
        };
        Char { text: text.to_owned() }
    }
}

impl<const N: usize> Key for Char<N> {
    const BITS: u32 = 8 * Self::BYTES as u32;
    fn append(&self, to: &mut impl KeySink) {
        // Zeros behind the text: shorter texts sort before their continuations.
        let padding = Self::BYTES - self.text.len();
        self.text.bytes().chain(std::iter::repeat_n(0, padding)).for_each(|byte| to.push(byte.into(), 8));
    }
}

/// The column type `varchar(N)`: a text of at most `N` characters, of any length in bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VarChar<const N: usize> {
    text: String,
}

impl<const N: usize> VarChar<N> {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.text
    }
}

impl<const N: usize> TryFrom<&str> for VarChar<N> {
    type Error = ValueError;

    fn try_from(text: &str) -> Result<Self, ValueError> {
        match text.chars().count() > N {
            true => Err(too_long(text, "varchar", N)),
            false => Ok(VarChar { text: text.to_owned() }),
        }
    }
}

impl<const N: usize> fmt::Display for VarChar<N> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&self.text)
    }
}

impl<const N: usize> TailValue for VarChar<N> {
    fn value_type() -> ValueType {
        ValueType::VarChar(N)
    }
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.text.as_bytes())
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        VarChar { text: String::from_utf8_lossy(bytes).into_owned() }
    }
}

/// A key has the text's bytes, however many characters the column may have.
impl<const N: usize> Key for VarChar<N> {
    const BITS: u32 = VARIABLE_BITS;
    const VARIABLE: bool = true;
    fn append(&self, to: &mut impl KeySink) {
        to.push_terminated(self.text.as_bytes());
    }
}

macro_rules! texts {
    ($($kind:ident),*) => { $(
        impl<const N: usize> Deref for $kind<N> {
            type Target = str;

            fn deref(&self) -> &str {
                &self.text
            }
        }

        impl<const N: usize> TryFrom<String> for $kind<N> {
            type Error = ValueError;

            fn try_from(text: String) -> Result<Self, ValueError> {
                $kind::try_from(&*text)
            }
        }

        impl<const N: usize> FromStr for $kind<N> {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                $kind::try_from(text)
            }
        }

        impl<const N: usize> fmt::Debug for $kind<N> {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.text, to)
            }
        }

        impl<const N: usize> PartialEq<str> for $kind<N> {
            fn eq(&self, other: &str) -> bool {
                self.text == other
            }
        }

        impl<const N: usize> PartialEq<&str> for $kind<N> {
            fn eq(&self, other: &&str) -> bool {
                self.text == *other
            }
        }

        impl<const N: usize> Serialize for $kind<N> {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.text)
            }
        }

        impl<'de, const N: usize> Deserialize<'de> for $kind<N> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(from)?;
                $kind::try_from(&*text).map_err(serde::de::Error::custom)
            }
        }
    )* };
}
texts!(Char, VarChar);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    #[test]
    fn texts_are_bounded_in_characters() {
        let short = VarChar::<3>::try_from("äöü").expect("three characters");
        assert_eq!((short.as_str(), short.len()), ("äöü", 6));
        let error = "abcd".parse::<VarChar<3>>().expect_err("too long");
        assert_eq!(
            error.to_string(),
            "a text of 4 characters, and varchar(3) has at most 3: shorten it, or make the column longer; it begins with \"abcd\""
        );
        assert!("abc ".parse::<VarChar<3>>().is_err(), "blanks count");
        let code = Char::<4>::try_from("ab      ").expect("blanks at the end do not count");
        assert_eq!((code.as_str(), code.to_string(), code == "ab"), ("ab", "ab  ".to_owned(), true));
        assert!(Char::<2>::try_from("abc").is_err() && Char::<2>::try_from("a\0").is_err());
        assert_eq!(Char::<3>::try_from("ab").map(|it| it.to_string()), Ok("ab ".to_owned()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn texts_of_chars_sort_without_blanks(a in "[ -b]{0,4}", b in "[é ab]{0,4}") {
            let [left, right] = [&a, &b].map(|text| Char::<4>::try_from(&**text).expect("four characters"));
            prop_assert_eq!(KeyBuffer::of(&left).cmp(&KeyBuffer::of(&right)), left.cmp(&right));
            prop_assert_eq!(left.cmp(&right), a.trim_end_matches(' ').cmp(b.trim_end_matches(' ')));
            let mut bytes = [1; 16];
            right.store(&mut bytes);
            prop_assert_eq!(Char::<4>::fetch(&bytes), right.clone());
            let sent = postcard::to_allocvec(&right).expect("sent");
            prop_assert_eq!(postcard::from_bytes(&sent), Ok(right));
        }
    }
}
