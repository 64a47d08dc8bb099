//! Values of variable length, which lie in the tail of a row, and the bytes of lists.
//!
//! ```text
//! list of values of fixed length: value | value | ..
//! list of texts:                  count: u32 | end: u32 | end | .. | text | text | ..
//!     end: where the text ends, from the first text on; a list without texts has no bytes
//! ```

use std::borrow::Cow;

use crate::row::Value;
use crate::value_type::ValueType;

/// A value of variable length that can be a field of a row.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the type of a column",
    label = "not the type of a column",
    note = "columns of variable length are `String`, `Vec<u8>`, `VarChar<N>`, `JsonText`, and `Vec<V>` of values of fixed length or of `String`",
    note = "a list of other lists is rows of another table"
)]
pub trait TailValue: Sized {
    /// Returns the type of the value, for descriptions of tables.
    fn value_type() -> ValueType;
    /// Returns the bytes of the value.
    fn to_bytes(&self) -> Cow<'_, [u8]>;
    /// Reads a value. Bytes that are no value of the type yield as much of it as there is.
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl TailValue for String {
    fn value_type() -> ValueType {
        ValueType::String
    }
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Used by `#[derive(Row)]`: the type of a field `Vec<u8>`, which is bytes and no list.
pub fn bytes_type() -> ValueType {
    ValueType::Bytes
}

impl<V: Value> TailValue for Vec<V> {
    fn value_type() -> ValueType {
        const { assert!(V::BYTES > 0, "the length of a list of values without bytes is not stored") };
        ValueType::List(Box::new(V::value_type()))
    }
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.len() * V::BYTES];
        for (value, to) in self.iter().zip(bytes.chunks_exact_mut(V::BYTES)) {
            value.store(to);
        }
        Cow::Owned(bytes)
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.chunks_exact(V::BYTES).map(V::fetch).collect()
    }
}

impl TailValue for Vec<String> {
    fn value_type() -> ValueType {
        ValueType::List(Box::new(ValueType::String))
    }
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::new();
        append_texts(self.iter().map(String::as_str), &mut bytes);
        Cow::Owned(bytes)
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        read_texts(bytes).unwrap_or_default().into_iter().map(str::to_owned).collect()
    }
}

/// Appends the bytes of a list of texts.
pub(crate) fn append_texts<'t>(texts: impl ExactSizeIterator<Item = &'t str> + Clone, to: &mut Vec<u8>) {
    if texts.len() == 0 {
        return;
    }
    to.extend_from_slice(&(texts.len() as u32).to_le_bytes());
    let mut end = 0_u32;
    for text in texts.clone() {
        end = end.saturating_add(text.len() as u32);
        to.extend_from_slice(&end.to_le_bytes());
    }
    texts.for_each(|text| to.extend_from_slice(text.as_bytes()));
}

/// Reads a list of texts; `None` if the bytes are none.
pub(crate) fn read_texts(bytes: &[u8]) -> Option<Vec<&str>> {
    let Some((count, rest)) = bytes.split_first_chunk() else {
        return bytes.is_empty().then(Vec::new);
    };
    let count = u32::from_le_bytes(*count) as usize;
    let (ends, data) = rest.split_at_checked(count.checked_mul(4)?)?;
    let data = std::str::from_utf8(data).ok()?;
    let mut start = 0;
    let texts = ends.chunks_exact(4).map(|end| {
        let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
        let text = data.get(start..end);
        start = end;
        text
    });
    let texts = texts.collect::<Option<Vec<_>>>()?;
    (count > 0 && start == data.len()).then_some(texts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn lists_are_read_as_written(numbers: Vec<i32>, texts: Vec<String>, pairs: Vec<[u16; 2]>) {
            prop_assert_eq!(Vec::<i32>::from_bytes(&numbers.to_bytes()), numbers);
            prop_assert_eq!(Vec::<[u16; 2]>::from_bytes(&pairs.to_bytes()), pairs);
            prop_assert_eq!(Vec::<String>::from_bytes(&texts.to_bytes()), texts);
        }

        #[test]
        fn bytes_that_are_no_texts_are_none(bytes: Vec<u8>) {
            if let Some(texts) = read_texts(&bytes) {
                let mut again = Vec::new();
                append_texts(texts.iter().copied(), &mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
