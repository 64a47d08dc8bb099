//! A list of at most `N` small values, in place: what actions and outputs carry without allocating.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// At most `N` values. Travels as a sequence of the values present.
#[derive(Clone, Copy)]
pub struct Few<V, const N: usize> {
    values: [V; N],
    count: u8,
}

impl<V: Copy + Default, const N: usize> Few<V, N> {
    /// The empty list.
    #[inline]
    pub fn new() -> Self {
        const { assert!(N <= u8::MAX as usize) }
        Few { values: [V::default(); N], count: 0 }
    }

    /// Appends a value. False, and nothing happens, if there are `N` already.
    #[inline]
    pub fn push(&mut self, value: V) -> bool {
        let Some(slot) = self.values.get_mut(usize::from(self.count)) else {
            return false;
        };
        *slot = value;
        self.count += 1;
        true
    }
}

impl<V: Copy + Default, const N: usize> Default for Few<V, N> {
    fn default() -> Self {
        Few::new()
    }
}

impl<V, const N: usize> Deref for Few<V, N> {
    type Target = [V];
    #[inline]
    fn deref(&self) -> &[V] {
        &self.values[..usize::from(self.count)]
    }
}

impl<V, const N: usize> DerefMut for Few<V, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [V] {
        &mut self.values[..usize::from(self.count)]
    }
}

impl<V: fmt::Debug, const N: usize> fmt::Debug for Few<V, N> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.iter()).finish()
    }
}

impl<V: PartialEq, const N: usize> PartialEq for Few<V, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<V: Serialize, const N: usize> Serialize for Few<V, N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut sequence = to.serialize_seq(Some(self.len()))?;
        for value in self.iter() {
            sequence.serialize_element(value)?;
        }
        sequence.end()
    }
}

impl<'de, V: Copy + Default + Deserialize<'de>, const N: usize> Deserialize<'de> for Few<V, N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Values(PhantomData))
    }
}

struct Values<V, const N: usize>(PhantomData<V>);

impl<'de, V: Copy + Default + Deserialize<'de>, const N: usize> Visitor<'de> for Values<V, N> {
    type Value = Few<V, N>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "at most {N} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Few<V, N>, A::Error> {
        let mut values = Few::new();
        while let Some(value) = sequence.next_element()? {
            if !values.push(value) {
                return Err(serde::de::Error::invalid_length(N + 1, &self));
            }
        }
        Ok(values)
    }
}
