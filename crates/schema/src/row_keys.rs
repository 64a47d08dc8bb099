//! Keys of typed rows: all keys of a row, and the bytes of the row that belong to keys.

use crate::key::{KeyBuffer, SHORT_KEY_BITS, key_words};
use crate::long_key::{AnyKey, LongKey};
use crate::row::{Column, Field, IndexInfo, Row, Value};
use crate::table_limits::INDEXES_MAX;

/// Indexes of a table whose keys are made on the stack.
const INLINE: usize = 8;
/// Most columns that all keys of a row type may have together for [`touches_key`] to be a constant.
const KEY_COLUMNS_MAX: usize = 32;

/// Runs `body` with the normalized keys of a row, one slice an index.
#[inline(always)]
pub fn with_keys<R: Row, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    const { assert!(R::INDEXES.len() <= INDEXES_MAX, "too many indexes") };
    if const { has_long_keys::<R>() } {
        return match const { R::INDEXES.len() } {
            1 => with_any_keys::<R, 1, T>(row, body),
            2 => with_any_keys::<R, 2, T>(row, body),
            _ => with_any_keys::<R, INDEXES_MAX, T>(row, body),
        };
    }
    // Most tables have one or two indexes, and initializing more buffers would cost more than the
    // keys. The number is a constant of the row type, so `body` is compiled for one of the
    // cases.
    match const { R::INDEXES.len() } {
        1 => with_some_keys::<R, 1, T>(row, body),
        2 => with_some_keys::<R, 2, T>(row, body),
        0..=INLINE => with_some_keys::<R, INLINE, T>(row, body),
        _ => with_many_keys(row, body),
    }
}

#[inline(always)]
fn words<'k>(key: &'k KeyBuffer, index: &IndexInfo) -> &'k [u64] {
    key.words(key_words(index.key_bits))
}

/// Returns the first index of a row in which its key is too long, and the bytes of the key.
#[inline(always)]
pub fn too_long_key<R: Row>(row: &R) -> Option<(usize, usize)> {
    if !const { has_long_keys::<R>() } {
        return None;
    }
    (0..R::INDEXES.len()).filter(|index| R::INDEXES[*index].variable).find_map(|index| {
        let mut key = LongKey::new();
        row.index_key(index, &mut key);
        key.is_too_long().then(|| (index, key.bits() as usize / 8))
    })
}

/// Returns true if rows of the type have keys of more than 64 bytes, or of several lengths.
pub const fn has_long_keys<R: Row>() -> bool {
    let mut index = 0;
    while index < R::INDEXES.len() {
        if R::INDEXES[index].key_bits > SHORT_KEY_BITS {
            return true;
        }
        index += 1;
    }
    false
}

/// The keys of a row of which some may be long; no words where a key is too long, which every verb
/// refuses.
fn with_any_keys<R: Row, const N: usize, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    let count = R::INDEXES.len().min(N);
    let mut buffers = [const { AnyKey::Short(KeyBuffer::new()) }; N];
    let mut slices: [&[u64]; N] = [&[]; N];
    for (number, (buffer, slice)) in buffers.iter_mut().zip(&mut slices).enumerate().take(count) {
        let bits = R::INDEXES[number].key_bits;
        *buffer = AnyKey::new(bits);
        row.index_key(number, buffer);
        if !buffer.is_too_long() {
            *slice = buffer.words(key_words(bits));
        }
    }
    body(&slices[..count])
}

/// The keys of a row with more indexes than the stack has buffers for.
fn with_many_keys<R: Row, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    let mut buffers = vec![KeyBuffer::new(); R::INDEXES.len()];
    for (number, buffer) in buffers.iter_mut().enumerate() {
        row.index_key(number, buffer);
    }
    let words = buffers.iter().zip(R::INDEXES).map(|(key, index)| words(key, index));
    body(&words.collect::<Vec<_>>())
}

#[inline(always)]
fn with_some_keys<R: Row, const N: usize, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    let count = R::INDEXES.len().min(N);
    let mut buffers = [const { KeyBuffer::new() }; N];
    for (number, buffer) in buffers.iter_mut().enumerate().take(count) {
        row.index_key(number, buffer);
    }
    let mut slices: [&[u64]; N] = [&[]; N];
    for (number, slice) in slices.iter_mut().enumerate().take(count) {
        *slice = words(&buffers[number], &R::INDEXES[number]);
    }
    body(&slices[..count])
}

const fn same_text(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns true if this column belongs to a key.
const fn is_key<R: Row>(column: usize) -> bool {
    let mut index = 0;
    while index < R::INDEXES.len() {
        let mut place = 0;
        while place < R::INDEXES[index].columns.len() {
            if same_text(R::INDEXES[index].columns[place], R::COLUMNS[column].name) {
                return true;
            }
            place += 1;
        }
        index += 1;
    }
    false
}

/// Returns start and end of the first key columns, in column order, padded with (0, 0), and the
/// number of all key columns.
const fn key_columns<R: Row>() -> ([(usize, usize); KEY_COLUMNS_MAX], usize) {
    let mut ranges = [(0, 0); KEY_COLUMNS_MAX];
    let mut count = 0;
    let mut column = 0;
    while column < R::COLUMNS.len() {
        if is_key::<R>(column) {
            if count < KEY_COLUMNS_MAX {
                let Column { offset, bytes, .. } = R::COLUMNS[column];
                ranges[count] = (offset, offset + bytes);
            }
            count += 1;
        }
        column += 1;
    }
    (ranges, count)
}

/// Returns true if bytes `start..end` of a row are part of a key. The compiler evaluates this for
/// constant fields.
#[inline(always)]
pub fn touches_key<R: Row>(start: usize, end: usize) -> bool {
    let (ranges, count) = const { &key_columns::<R>() };
    if *count > KEY_COLUMNS_MAX {
        let touches = |column: &Column| start < column.offset + column.bytes && column.offset < end;
        return (0..R::COLUMNS.len()).any(|column| touches(&R::COLUMNS[column]) && is_key::<R>(column));
    }
    ranges.iter().any(|(from, to)| start < *to && *from < end)
}

/// Returns true if a field (or a group of fields) holds bytes of a key.
pub fn is_key_column<R: Row, V: Value>(field: Field<R, V>) -> bool {
    touches_key::<R>(field.offset(), field.offset() + V::BYTES)
}
