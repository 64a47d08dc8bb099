//! Typed rows. The layout is fixed at compile time, so that reading a field copies bytes at a
//! constant offset.
//!
//! `#[derive(Row)]` (crate `row-derive`) generates the implementation for a struct:
//!
//! ```text
//! #[derive(Row, Clone, Debug, PartialEq)]
//! #[row(key(w_id, d_id, o_id), index(by_customer(w_id, d_id, c_id)), unique_index(by_token(token)))]
//! struct Order {
//!     w_id: u16, d_id: u8, o_id: u32, c_id: u16,
//!     entry: OrderEntry,          // a group: any struct with #[derive(Value)]
//!     token: u64,
//!     carrier: Option<u8>,        // a column that may be without a value
//!     note: String,               // any number of columns of variable length: `String`, `Vec<u8>`, and options of these
//! }
//! ```
//!
//! The derive generates `Order::KEY`, and a constant for each field and each index:
//! `Order::ENTRY: Field<Order, OrderEntry>`,
//! `Order::BY_CUSTOMER: IndexId<Order, (u16, u8, u16, u32)>` (the key of an index that is not
//! unique is completed with the primary-key columns that it lacks),
//! `Order::BY_TOKEN: IndexId<Order, u64>`.
//!
//! A column of a key can have an order: `desc(c)`, `nulls_first(c)`, `nulls_last(c)`,
//! `desc_nulls_last(c)`; its type in the key is then a wrapper: `Reverse<C>`, `NullsFirst<C>`
//! ([`crate::key_order`]). Nullable columns belong to secondary indexes only. In a unique index
//! over nullable columns nulls are distinct, and its key ends with a `DistinctNulls<Order::Key>`,
//! unless it says `unique_index(by_token(token) nulls_not_distinct)`.
//!
//! Layout: fields of fixed length lie in the order of declaration, little-endian, each at the next
//! multiple of its alignment. A null bit for each `Option` field follows, and the row is padded to
//! 8 bytes. All other fields are in the tail, behind a directory. If the last field is a `Vec<u8>`
//! marked `#[row(tail)]` and no other field has a variable length, the tail consists of its bytes
//! without a directory, which is shorter. [`crate::TableDescription::of`] describes the same bytes
//! at run time.

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::key::{Key, KeySink};
use crate::key_order::KeyOrder;
use crate::text::Text;
use crate::value_type::ValueType;
// Used by `#[derive(Row)]`.
pub use crate::row_format::{TAIL_BYTES_MAX, TailColumns, TailWriter};
pub use crate::tail_value::{TailValue, bytes_type};
pub use crate::value_type::{align_up, row_bytes};

/// A value of fixed length that can be a field of a row. `#[derive(Value)]` implements the trait
/// for a struct of values.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the type of a column",
    label = "not the type of a column",
    note = "columns are integers, floats, `bool`, `Numeric<P, S>`, `Date`, `Time`, `Timestamp`, `TimestampTz`, `Interval`, `Uuid`, `SystemTime`, `Duration`, `Text<N>`, `Char<N>`, arrays `[V; N]`, `String`, `VarChar<N>`, `Vec<u8>`, `Vec<V>`, `JsonText`, and options of these",
    note = "a struct or an enum of yours can be one with `#[derive(Value)]`",
    note = "a list of lists is rows of another table, or bytes in a `Vec<u8>`"
)]
pub trait Value: Sized {
    /// Length in bytes, a multiple of [`Self::ALIGN`].
    const BYTES: usize;
    /// Alignment within the row: 1, 2, 4 or 8.
    const ALIGN: usize;
    /// Returns the type of the value, for descriptions of tables. If the implementing type is also
    /// a [`Key`], its normalized form is that of this value type, because keys are also made from
    /// described rows.
    fn value_type() -> ValueType;
    /// Writes `BYTES` bytes to the start of `to`.
    fn store(&self, to: &mut [u8]);
    /// Reads `BYTES` bytes from the start of `from`.
    fn fetch(from: &[u8]) -> Self;
}

/// One field of a row.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The field's name.
    pub name: &'static str,
    /// Offset in bytes from the start of the row.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Returns its type: [`Value::value_type`].
    pub kind: fn() -> ValueType,
    /// True if the field is nullable.
    pub nullable: bool,
}

/// A field of variable length, in a tail with a directory.
#[derive(Clone, Copy, Debug)]
pub struct TailColumn {
    /// The field's name.
    pub name: &'static str,
    /// Its number among all fields of the row.
    pub position: usize,
    /// Returns its type: [`TailValue::value_type`].
    pub kind: fn() -> ValueType,
    /// True if the field is nullable.
    pub nullable: bool,
}

/// An index of a row type as declared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexInfo {
    /// Its name.
    pub name: &'static str,
    /// True if the declared columns alone are unique.
    pub unique: bool,
    /// True if the index is unique and nulls conflict like values.
    pub nulls_not_distinct: bool,
    /// Names of the key's columns, completed with the primary key where it is not unique.
    pub columns: &'static [&'static str],
    /// The order of each column; columns without one are ascending.
    pub orders: &'static [KeyOrder],
    /// Length of the normalized key.
    pub key_bits: u32,
    /// True if keys have several lengths.
    pub variable: bool,
}

impl IndexInfo {
    /// Returns the order of a column.
    pub fn order(&self, column: usize) -> KeyOrder {
        self.orders.get(column).copied().unwrap_or_default()
    }
}

/// A row type. Implemented by `#[derive(Row)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of rows",
    label = "not a type of rows",
    note = "`#[derive(Row)]` with `#[row(key(..))]` makes a struct the type of a table's rows"
)]
pub trait Row: Sized {
    /// The struct's name.
    const NAME: &'static str;
    /// Length of the fixed part in bytes, a multiple of 8.
    const BYTES: usize;
    /// Columns of the fixed part.
    const COLUMNS: &'static [Column];
    /// Index 0 is the primary key.
    const INDEXES: &'static [IndexInfo];
    /// True if there is a variable-length part.
    const HAS_TAIL: bool;
    /// The name of the variable-length part, if there is one.
    const TAIL_NAME: &'static str = "tail";
    /// Columns of the variable-length part, if it has a directory: none if it is the bytes of one
    /// field.
    const TAIL_COLUMNS: &'static [TailColumn] = &[];
    /// The primary key.
    type Key: Key;
    /// Returns the row's primary key.
    fn key(&self) -> Self::Key;
    /// Appends the row's key in index number `index` (0 is the primary key).
    fn index_key(&self, index: usize, to: &mut impl KeySink);
    /// Writes the fixed part: `to` has `BYTES` bytes.
    fn store(&self, to: &mut [u8]);
    /// Reads a row from its fixed part and tail.
    fn fetch(from: &[u8], tail: &[u8]) -> Self;
    /// Returns the variable-length part.
    #[inline(always)]
    fn tail(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
}

/// The place of a field (or of a group of fields) in rows of type `R`.
pub struct Field<R, V> {
    offset: u32,
    kind: PhantomData<fn() -> (R, V)>,
}

impl<R, V> Clone for Field<R, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, V> Copy for Field<R, V> {}

impl<R, V> Field<R, V> {
    /// Used by `#[derive(Row)]`: a field `offset` bytes from the start of the row. Any `V` will do,
    /// because the compiler already says of the field itself that it is no [`Value`].
    pub const fn new(offset: usize) -> Self {
        Field { offset: offset as u32, kind: PhantomData }
    }
}

impl<R, V: Value> Field<R, V> {
    /// Offset in bytes from the start of the row.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// Returns a field of this group; `inner` is a constant generated by `#[derive(Value)]`.
    pub const fn then<W: Value>(self, inner: Field<V, W>) -> Field<R, W> {
        Field::new(self.offset as usize + inner.offset as usize)
    }
}

impl<R, V: Value, const N: usize> Field<R, [V; N]> {
    /// Returns an element of the array. Panics if `index` is not less than `N`.
    #[inline(always)]
    pub const fn at(self, index: usize) -> Field<R, V> {
        assert!(index < N);
        Field::new(self.offset as usize + index * V::BYTES)
    }
}

/// The place of a nullable field in rows of type `R`: that of its value, and of its null bit.
pub struct NullableField<R, V> {
    field: Field<R, V>,
    /// Offset of the byte with the null bit.
    byte: u32,
    mask: u8,
}

impl<R, V> Clone for NullableField<R, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, V> Copy for NullableField<R, V> {}

impl<R, V> NullableField<R, V> {
    /// Used by `#[derive(Row)]`: a field `offset` bytes from the start of the row, with null bit
    /// number `bit` from byte `nulls_at` on.
    pub const fn new(offset: usize, nulls_at: usize, bit: usize) -> Self {
        NullableField { field: Field::new(offset), byte: (nulls_at + bit / 8) as u32, mask: 1 << (bit % 8) }
    }

    /// Returns the place of the value, which is zeros if the field is null.
    #[inline(always)]
    pub const fn value(self) -> Field<R, V> {
        self.field
    }

    /// Returns the offset of the byte with the null bit, and the mask of the bit, which is set if
    /// the field is null.
    #[inline(always)]
    pub const fn null(self) -> (usize, u8) {
        (self.byte as usize, self.mask)
    }
}

/// An index that a row type declares; `K` is its complete key.
pub struct IndexId<R, K> {
    number: u32,
    kind: PhantomData<fn() -> (R, K)>,
}

impl<R, K> Clone for IndexId<R, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, K> Copy for IndexId<R, K> {}

impl<R, K> IndexId<R, K> {
    /// Used by `#[derive(Row)]`: the number in [`Row::INDEXES`].
    pub const fn new(number: usize) -> Self {
        IndexId { number: number as u32, kind: PhantomData }
    }

    /// Returns the number in [`Row::INDEXES`].
    pub const fn number(self) -> usize {
        self.number as usize
    }
}

macro_rules! number_values {
    ($($number:ty => $kind:expr),* $(,)?) => { $(
        impl Value for $number {
            const BYTES: usize = size_of::<$number>();
            const ALIGN: usize = size_of::<$number>();
            fn value_type() -> ValueType {
                $kind
            }
            #[inline(always)]
            fn store(&self, to: &mut [u8]) {
                to[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn fetch(from: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$number>()];
                bytes.copy_from_slice(&from[..Self::BYTES]);
                <$number>::from_le_bytes(bytes)
            }
        }
    )* };
}
number_values!(
    u8 => ValueType::Unsigned(1), u16 => ValueType::Unsigned(2), u32 => ValueType::Unsigned(4),
    u64 => ValueType::Unsigned(8), i8 => ValueType::Signed(1), i16 => ValueType::Signed(2),
    i32 => ValueType::Signed(4), i64 => ValueType::Signed(8), f32 => ValueType::Float(4), f64 => ValueType::Float(8),
);

/// Integers of 16 bytes are stored big-endian with an inverted sign bit, so that their bytes sort
/// like the numbers.
macro_rules! long_values {
    ($($number:ty, $kind:expr => $to:expr, $from:expr;)*) => { $(
        impl Value for $number {
            const BYTES: usize = 16;
            const ALIGN: usize = 1;
            fn value_type() -> ValueType {
                $kind
            }
            #[inline(always)]
            fn store(&self, to: &mut [u8]) {
                let normalized: u128 = $to(*self);
                to[..16].copy_from_slice(&normalized.to_be_bytes());
            }
            #[inline(always)]
            fn fetch(from: &[u8]) -> Self {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&from[..16]);
                $from(u128::from_be_bytes(bytes))
            }
        }

        impl Key for $number {
            const BITS: u32 = 128;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                let normalized: u128 = $to(*self);
                to.push((normalized >> 64) as u64, 64);
                to.push(normalized as u64, 64);
            }
        }
    )* };
}
long_values! {
    u128, ValueType::Unsigned(16) => |number: u128| number, |number: u128| number;
    i128, ValueType::Signed(16) =>
        |number: i128| number.cast_unsigned() ^ 1 << 127, |number: u128| (number ^ 1 << 127).cast_signed();
}

impl Value for bool {
    const BYTES: usize = 1;
    const ALIGN: usize = 1;
    fn value_type() -> ValueType {
        ValueType::Bool
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        to[0] = u8::from(*self);
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        from[0] != 0
    }
}

impl<const N: usize> Value for Text<N> {
    const BYTES: usize = N;
    const ALIGN: usize = 1;
    fn value_type() -> ValueType {
        ValueType::Text(N)
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        to[..N].copy_from_slice(&self.padded());
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&from[..N]);
        Text::from_padded(bytes)
    }
}

impl<V: Value, const N: usize> Value for [V; N] {
    const BYTES: usize = V::BYTES * N;
    const ALIGN: usize = V::ALIGN;
    fn value_type() -> ValueType {
        ValueType::Array(Box::new(V::value_type()), N)
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        for (value, to) in self.iter().zip(to[..Self::BYTES].chunks_exact_mut(V::BYTES)) {
            value.store(to);
        }
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        // One bounds check for all elements lets the compiler copy them at once.
        let from = &from[..Self::BYTES];
        std::array::from_fn(|index| V::fetch(&from[index * V::BYTES..]))
    }
}
