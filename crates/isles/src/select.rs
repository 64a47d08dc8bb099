//! What is read of each row: some of its fields.

use engine::dynamic::Span;
use engine::{Field, Row, Value};

/// Fields that are read together: one [`Field`], or a tuple of up to six. All that lies between the first and the last of them is copied.
pub trait Select<R: Row>: Copy + sealed::Sealed<R> {
    /// What comes out: the field's value, or a tuple of values.
    type Value;

    /// The bytes of the row that the fields lie in.
    #[doc(hidden)]
    fn span(self) -> Span;

    /// The values, from the bytes of a row from byte `start` on.
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

macro_rules! tuples {
    ($(($($value:ident $place:tt),+))+) => { $(
        impl<R: Row, $($value: Value),+> sealed::Sealed<R> for ($(Field<R, $value>,)+) {}

        impl<R: Row, $($value: Value),+> Select<R> for ($(Field<R, $value>,)+) {
            type Value = ($($value,)+);

            #[inline(always)]
            fn span(self) -> Span {
                let (mut start, mut end) = (usize::MAX, 0);
                $(
                    start = start.min(self.$place.offset());
                    end = end.max(self.$place.offset() + $value::BYTES);
                )+
                Span { offset: start, bytes: end - start }
            }

            #[inline(always)]
            fn fetch(self, from: &[u8], start: usize) -> Self::Value {
                ($($value::fetch(&from[self.$place.offset() - start..]),)+)
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
