//! Order of the columns of a key: ascending or descending, and where rows without a value are. And
//! the keys that sort so: floating-point numbers, truth values, options, and wrappers that turn the
//! order around.
//!
//! ```text
//! column that is not nullable:  the value's normalized form
//! nullable column:              a byte, then the value's form, or zeros where there is none
//!                               the byte is 1 for a value; for a null 2 (nulls last) or 0 (nulls first)
//! variable length:              bytes with 0 as 1 1 and 1 as 1 2, and 0 at the end; a null has no zeros
//! descending column:            all bits of the ascending form inverted
//! ```
//!
//! A null counts as larger than any value, as in PostgreSQL: it sorts last, and first in a
//! descending column, unless the column says otherwise.

use std::cmp::Reverse;

use crate::key::{Key, KeySink};

/// The byte before the value of a nullable column.
const NULL_FIRST: u64 = 0;
const VALUE: u64 = 1;
const NULL_LAST: u64 = 2;
/// Bits of that byte.
pub(crate) const NULL_BITS: u32 = 8;

/// The order of a column within an index. The default is ascending, nulls last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    /// True if larger values come first.
    pub descending: bool,
    /// True if rows without a value come first.
    pub nulls_first: bool,
}

impl KeyOrder {
    /// Ascending, nulls last.
    pub const ASCENDING: KeyOrder = KeyOrder { descending: false, nulls_first: false };
    /// Descending, nulls first.
    pub const DESCENDING: KeyOrder = KeyOrder { descending: true, nulls_first: true };

    /// Returns the order as a suffix of the column's name: nothing, ` desc`, ` nulls first`,
    /// ` desc nulls last`.
    pub fn suffix(self) -> &'static str {
        match (self.descending, self.nulls_first) {
            (false, false) => "",
            (false, true) => " nulls first",
            (true, true) => " desc",
            (true, false) => " desc nulls last",
        }
    }

    /// Appends a column in this order. `append` appends the ascending form of a value; it is not
    /// called for a null, which has `bits` zeros: as many as a value, or none if values have
    /// several lengths.
    #[inline(always)]
    pub(crate) fn append<S: KeySink>(
        self,
        presence: Presence,
        bits: u32,
        to: &mut S,
        append: impl FnOnce(&mut S),
    ) {
        let start = to.bits();
        match presence {
            Presence::NotNullable => append(to),
            Presence::Value => {
                to.push(VALUE, NULL_BITS);
                append(to);
            }
            Presence::Null => {
                // A descending column is inverted afterwards: nulls first are last until then.
                let first = self.nulls_first != self.descending;
                to.push(if first { NULL_FIRST } else { NULL_LAST }, NULL_BITS);
                to.skip(bits);
            }
        }
        if self.descending {
            to.invert_from(start);
        }
    }
}

/// Form of a column in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The column is not nullable.
    NotNullable,
    /// The column is nullable, and has a value.
    Value,
    /// The column is null.
    Null,
}

/// A column of an index to be declared: its name and its order.
///
/// ```
/// use schema::{ColumnDescription, KeyColumn, TableBuilder, ValueType};
///
/// let scores = TableBuilder::new("scores")
///     .column(ColumnDescription::new("id", ValueType::Unsigned(8)))
///     .column(ColumnDescription::new("points", ValueType::Float(8)))
///     .column(ColumnDescription::new("rank", ValueType::Unsigned(2)).nullable())
///     .key(["id"])
///     .index("best", [KeyColumn::new("points").descending()])
///     .index("by_rank", [KeyColumn::new("rank").nulls_first()])
///     .build()?;
/// assert_eq!(scores.format_key(1), "points desc, id");
/// assert_eq!(scores.format_key(2), "rank nulls first, id");
/// # Ok::<(), schema::TableError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    pub(crate) name: String,
    pub(crate) order: KeyOrder,
}

impl KeyColumn {
    /// Names a column in ascending order, nulls last.
    pub fn new(name: impl Into<String>) -> Self {
        KeyColumn { name: name.into(), order: KeyOrder::ASCENDING }
    }

    /// Makes the order descending, nulls first.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.order = KeyOrder::DESCENDING;
        self
    }

    /// Puts rows without a value first.
    #[must_use]
    pub fn nulls_first(mut self) -> Self {
        self.order.nulls_first = true;
        self
    }

    /// Puts rows without a value last.
    #[must_use]
    pub fn nulls_last(mut self) -> Self {
        self.order.nulls_first = false;
        self
    }
}

impl From<&str> for KeyColumn {
    fn from(name: &str) -> Self {
        KeyColumn::new(name)
    }
}

impl From<&String> for KeyColumn {
    fn from(name: &String) -> Self {
        KeyColumn::new(name)
    }
}

impl From<String> for KeyColumn {
    fn from(name: String) -> Self {
        KeyColumn::new(name)
    }
}

impl Key for bool {
    const BITS: u32 = 8;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        to.push(u64::from(*self), Self::BITS);
    }
}

/// Returns the bits of a floating-point number in the order of `total_cmp`: those of negative
/// numbers are inverted, and the sign of the others.
#[inline(always)]
pub(crate) const fn ordered_float(raw: u64, bits: u32) -> u64 {
    let sign = 1 << (bits - 1);
    if raw & sign != 0 { !raw & (u64::MAX >> (u64::BITS - bits)) } else { raw | sign }
}

macro_rules! float_keys {
    ($($number:ty),*) => { $(
        /// In the order of `total_cmp`: NaN with the sign at the front, infinity, numbers, -0.0
        /// before 0.0, infinity, NaN.
        impl Key for $number {
            const BITS: u32 = 8 * size_of::<$number>() as u32;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                let bits = <Self as Key>::BITS;
                to.push(ordered_float(u64::from(self.to_bits()), bits), bits);
            }
        }
    )* };
}
float_keys!(f32, f64);

/// A nullable column, nulls last.
impl<K: Key> Key for Option<K> {
    const BITS: u32 = if K::VARIABLE { K::BITS } else { NULL_BITS + K::BITS };
    const VARIABLE: bool = K::VARIABLE;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        append_option(self.as_ref(), KeyOrder::ASCENDING, to);
    }
}

/// A descending column. Around an `Option`, nulls come first; around [`NullsFirst`], last.
impl<K: Key> Key for Reverse<K> {
    const BITS: u32 = K::BITS;
    const VARIABLE: bool = K::VARIABLE;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        let start = to.bits();
        self.0.append(to);
        to.invert_from(start);
    }
}

/// A nullable column of a key, nulls first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullsFirst<K>(pub Option<K>);

impl<K: Key> Key for NullsFirst<K> {
    const BITS: u32 = if K::VARIABLE { K::BITS } else { NULL_BITS + K::BITS };
    const VARIABLE: bool = K::VARIABLE;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        append_option(self.0.as_ref(), KeyOrder { nulls_first: true, ..KeyOrder::ASCENDING }, to);
    }
}

/// The last part of a key of a unique index in which nulls are distinct: the row's primary key, if
/// a column of the key is null. So any number of rows can lack a value there, and those with values
/// conflict. All other keys have zeros, which is [`DistinctNulls::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistinctNulls<K>(pub Option<K>);

impl<K> DistinctNulls<K> {
    /// The last part of a key without nulls.
    pub const NONE: Self = DistinctNulls(None);
}

impl<K: Key> Key for DistinctNulls<K> {
    const BITS: u32 = K::BITS;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        // A key is followed by zeros.
        self.0.iter().for_each(|key| key.append(to));
    }
}

/// Used by `#[derive(Row)]`: appends a column that is not nullable.
#[inline(always)]
pub fn append_value<K: Key>(value: &K, order: KeyOrder, to: &mut impl KeySink) {
    order.append(Presence::NotNullable, 0, to, |to| value.append(to));
}

/// Used by `#[derive(Row)]`: appends a nullable column.
#[inline(always)]
pub fn append_option<K: Key>(value: Option<&K>, order: KeyOrder, to: &mut impl KeySink) {
    let presence = if value.is_some() { Presence::Value } else { Presence::Null };
    let bits = if K::VARIABLE { 0 } else { K::BITS };
    order.append(presence, bits, to, |to| value.iter().for_each(|value| value.append(to)));
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuffer;

    fn compare<K: Key>(left: &K, right: &K) -> Ordering {
        let (left, right) = (KeyBuffer::of(left), KeyBuffer::of(right));
        assert_eq!((left.bits(), right.bits()), (K::BITS, K::BITS));
        left.cmp(&right)
    }

    /// Orders options with nulls last.
    fn nulls_last<T: Ord>(left: Option<T>, right: Option<T>) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) => left.cmp(&right),
            (left, right) => left.is_none().cmp(&right.is_none()),
        }
    }

    fn float() -> impl Strategy<Value = f64> {
        prop_oneof![any::<f64>(), any::<u64>().prop_map(f64::from_bits), Just(0.0), Just(-0.0)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]
        #[test]
        fn floats_sort_totally(a in float(), b in float()) {
            prop_assert_eq!(compare(&a, &b), a.total_cmp(&b));
            let (a, b) = (a as f32, b as f32);
            prop_assert_eq!(compare(&(1_u8, a), &(1_u8, b)), a.total_cmp(&b));
        }

        #[test]
        fn nulls_and_directions(a: (Option<i16>, bool, u32), b: (Option<i16>, bool, u32)) {
            prop_assert_eq!(compare(&a.0, &b.0), nulls_last(a.0, b.0));
            prop_assert_eq!(compare(&NullsFirst(a.0), &NullsFirst(b.0)), a.0.cmp(&b.0));
            prop_assert_eq!(compare(&Reverse(a.0), &Reverse(b.0)), nulls_last(b.0, a.0));
            prop_assert_eq!(
                compare(&Reverse(NullsFirst(a.0)), &Reverse(NullsFirst(b.0))),
                b.0.cmp(&a.0)
            );
            let key = |row: (Option<i16>, bool, u32)| (Reverse(row.1), row.0, Reverse(row.2), row.1);
            let expected =
                b.1.cmp(&a.1).then(nulls_last(a.0, b.0)).then(b.2.cmp(&a.2)).then(a.1.cmp(&b.1));
            prop_assert_eq!(compare(&key(a), &key(b)), expected);
        }

        /// The derive's functions give the forms of the wrappers.
        #[test]
        fn orders_are_wrappers(value: Option<i64>, before: [u8; 3]) {
            let with = |append: &dyn Fn(&mut KeyBuffer)| {
                let mut buffer = KeyBuffer::of(&before);
                append(&mut buffer);
                buffer
            };
            for (descending, nulls_first, expected) in [
                (false, false, KeyBuffer::of(&(before, value))),
                (false, true, KeyBuffer::of(&(before, NullsFirst(value)))),
                (true, true, KeyBuffer::of(&(before, Reverse(value)))),
                (true, false, KeyBuffer::of(&(before, Reverse(NullsFirst(value))))),
            ] {
                let order = KeyOrder { descending, nulls_first };
                prop_assert_eq!(with(&|to| append_option(value.as_ref(), order, to)), expected);
            }
            let number = value.unwrap_or(7);
            let reversed = with(&|to| append_value(&number, KeyOrder::DESCENDING, to));
            prop_assert_eq!(reversed, KeyBuffer::of(&(before, Reverse(number))));
        }
    }

    #[test]
    fn keys_without_nulls_have_no_primary_key() {
        let with = |email: Option<u32>, key| KeyBuffer::of(&(email, DistinctNulls(key)));
        assert_eq!(with(Some(7), None), with(Some(7), None));
        assert_ne!(with(None, Some(1_u64)), with(None, Some(2_u64)));
        assert_eq!(with(Some(7), None), KeyBuffer::of(&(Some(7_u32), DistinctNulls::<u64>::NONE)));
    }
}
