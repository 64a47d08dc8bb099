//! Selections of fields that verbs read or write.

use boundary::Span;
use schema::row_keys::is_key_column;
use schema::{Field, NullableField, Row, Value};

/// Fields that are read together: one field, such as `Account::BALANCE`, or a tuple of up to six. A
/// read copies all bytes between the first and the last of these fields.
/// [`Transaction`](crate::Transaction) has an example.
pub trait Select<R: Row>: Copy + sealed::Sealed<R> {
    /// The field's value, or a tuple of values.
    type Value;

    /// Returns the bytes of the row that contain the fields.
    #[doc(hidden)]
    fn span(self) -> Span;

    /// Decodes the values from bytes of a row that begin at byte `start` of the row.
    #[doc(hidden)]
    fn fetch(self, from: &[u8], start: usize) -> Self::Value;
}

mod sealed {
    pub trait Sealed<R> {}
}

impl<R: Row, V: Value> sealed::Sealed<R> for Field<R, V> {}

impl<R: Row, V: Value> Select<R> for Field<R, V> {
    type Value = V;

    #[inline(always)]
    fn span(self) -> Span {
        Span { offset: self.offset(), bytes: V::BYTES }
    }

    #[inline(always)]
    fn fetch(self, from: &[u8], start: usize) -> V {
        V::fetch(&from[self.offset() - start..])
    }
}

impl<R: Row, V: Value> sealed::Sealed<R> for NullableField<R, V> {}

impl<R: Row, V: Value> Select<R> for NullableField<R, V> {
    type Value = Option<V>;

    #[inline(always)]
    fn span(self) -> Span {
        let (start, (null, _)) = (self.value().offset(), NullableField::null(self));
        Span { offset: start, bytes: null + 1 - start }
    }

    #[inline(always)]
    fn fetch(self, from: &[u8], start: usize) -> Option<V> {
        let (null, mask) = NullableField::null(self);
        (from[null - start] & mask == 0).then(|| V::fetch(&from[self.value().offset() - start..]))
    }
}

/// A field that can be written. [`Transaction`](crate::Transaction) has an example.
pub trait Assign<R: Row>: Select<R> {
    /// Returns true if the field belongs to a key.
    #[doc(hidden)]
    fn is_key(self) -> bool;

    /// Returns the bytes of the row that hold the value.
    #[doc(hidden)]
    fn place(self) -> Span;

    /// Returns the offset of the byte with the null bit, and the mask of the bit.
    #[doc(hidden)]
    fn null(self) -> Option<(usize, u8)>;

    /// Writes the value's bytes, or zeros for a null. Returns false for a null.
    #[doc(hidden)]
    fn store(self, value: &Self::Value, to: &mut [u8]) -> bool;
}

impl<R: Row, V: Value> Assign<R> for Field<R, V> {
    #[inline(always)]
    fn is_key(self) -> bool {
        is_key_column(self)
    }

    #[inline(always)]
    fn place(self) -> Span {
        self.span()
    }

    #[inline(always)]
    fn null(self) -> Option<(usize, u8)> {
        None
    }

    #[inline(always)]
    fn store(self, value: &V, to: &mut [u8]) -> bool {
        value.store(to);
        true
    }
}

impl<R: Row, V: Value> Assign<R> for NullableField<R, V> {
    #[inline(always)]
    fn is_key(self) -> bool {
        is_key_column(self.value())
    }

    #[inline(always)]
    fn place(self) -> Span {
        self.value().span()
    }

    #[inline(always)]
    fn null(self) -> Option<(usize, u8)> {
        Some(NullableField::null(self))
    }

    #[inline(always)]
    fn store(self, value: &Option<V>, to: &mut [u8]) -> bool {
        match value {
            Some(value) => value.store(to),
            None => to.fill(0),
        }
        value.is_some()
    }
}

macro_rules! tuples {
    ($(($($field:ident $place:tt),+))+) => { $(
        impl<R: Row, $($field: Select<R>),+> sealed::Sealed<R> for ($($field,)+) {}

        impl<R: Row, $($field: Select<R>),+> Select<R> for ($($field,)+) {
            type Value = ($($field::Value,)+);

            #[inline(always)]
            fn span(self) -> Span {
                let (mut start, mut end) = (usize::MAX, 0);
                $(
                    let span = self.$place.span();
                    start = start.min(span.offset);
                    end = end.max(span.offset + span.bytes);
                )+
                Span { offset: start, bytes: end - start }
            }

            #[inline(always)]
            fn fetch(self, from: &[u8], start: usize) -> Self::Value {
                ($(self.$place.fetch(from, start),)+)
            }
        }
    )+ };
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
