//! The rows: records of ten fields, and the number of records inserted into each partition.

use schema::{Column, Field, Row, Table, Value, ValueType};

use crate::batch::{key, mix};

/// Fields of a record.
pub const FIELDS: usize = 10;
/// Bytes of a field.
pub const FIELD_BYTES: usize = 10;
/// Bytes of all fields.
const CONTENT_BYTES: usize = FIELDS * FIELD_BYTES;

/// One field: a stamp of four bytes, and six bytes that follow from record, field and stamp, so
/// that the check detects a torn or misplaced field.
pub type FieldContent = [u8; FIELD_BYTES];

/// The content of a field.
#[inline]
pub fn field_content(key: u64, field: usize, stamp: u32) -> FieldContent {
    let check = mix(key, (field as u64) << 32 | u64::from(stamp));
    let mut content = [0; FIELD_BYTES];
    content[..4].copy_from_slice(&stamp.to_le_bytes());
    content[4..].copy_from_slice(&check.to_le_bytes()[..FIELD_BYTES - 4]);
    content
}

/// The stamp of a field.
#[inline]
pub fn stamp(content: &[u8]) -> u32 {
    let mut stamp = [0; 4];
    stamp.copy_from_slice(&content[..4]);
    u32::from_le_bytes(stamp)
}

/// All fields of a record, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Content([u8; CONTENT_BYTES]);

impl Value for Content {
    const BYTES: usize = CONTENT_BYTES;
    const ALIGN: usize = 1;
    fn value_type() -> ValueType {
        <[[u8; FIELD_BYTES]; FIELDS]>::value_type()
    }
    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        to[..CONTENT_BYTES].copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn fetch(from: &[u8]) -> Self {
        let mut content = [0; CONTENT_BYTES];
        content.copy_from_slice(&from[..CONTENT_BYTES]);
        Content(content)
    }
}

impl Content {
    /// The fields of a new record.
    pub fn new(key: u64, stamp: u32) -> Self {
        let mut content = [0; CONTENT_BYTES];
        for (field, bytes) in content.chunks_exact_mut(FIELD_BYTES).enumerate() {
            bytes.copy_from_slice(&field_content(key, field, stamp));
        }
        Content(content)
    }

    /// One field.
    pub fn field(&self, field: usize) -> &[u8] {
        &self.0[field * FIELD_BYTES..(field + 1) * FIELD_BYTES]
    }

    /// A number that depends on all fields.
    #[inline]
    pub fn digest(&self) -> u64 {
        let words = self.0.chunks_exact(8);
        let last = words.remainder().iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        words.fold(last, |sum, word| sum ^ u64::from_le_bytes(word.try_into().unwrap_or_default()))
    }

    /// True if each field was written as a whole, and for this record.
    pub fn is_intact(&self, key: u64) -> bool {
        let fields = self.0.chunks_exact(FIELD_BYTES).enumerate();
        fields.into_iter().all(|(field, bytes)| bytes == field_content(key, field, stamp(bytes)))
    }

    /// Sum of the stamps of all fields.
    pub fn stamps(&self) -> u64 {
        self.0.chunks_exact(FIELD_BYTES).map(|field| u64::from(stamp(field))).sum()
    }
}

/// A record: 108 bytes, 112 in memory; with a header of one word it lies in two lines.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(key(id))]
pub struct Record {
    /// Partition and number.
    pub id: u64,
    /// The fields.
    pub content: Content,
}

impl Record {
    /// Position of one field in the row.
    #[inline]
    pub fn field(field: usize) -> Field<Record, FieldContent> {
        assert!(field < FIELDS);
        Self::CONTENT.then(Field::new(field * FIELD_BYTES))
    }
}

/// The number of records inserted into a partition since loading. Only workers at home there touch
/// it.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(key(partition))]
pub struct Growth {
    /// The partition.
    pub partition: u16,
    /// Records inserted.
    pub inserted: u64,
}

/// The tables.
#[derive(Clone, Copy)]
pub struct YcsbTables {
    /// Records.
    pub records: Table<Record>,
    /// One row a partition.
    pub growth: Table<Growth>,
}

const _: () = assert!(Record::BYTES == 112);
const _: () = assert!(matches!(Record::COLUMNS, [Column { offset: 0, .. }, Column { offset: 8, .. }]));

/// The key of record number `record`, counted over all partitions.
#[inline]
pub(super) fn record_key(record: u64, partitions: u16) -> u64 {
    if partitions == 1 {
        return record;
    }
    let partitions = u64::from(partitions);
    key((record % partitions) as u16, record / partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_notices_damage() {
        let mut content = Content::new(77, 5);
        assert!(content.is_intact(77) && !content.is_intact(78));
        assert_eq!((content.stamps(), stamp(content.field(3))), (50, 5));
        content.0[30..40].copy_from_slice(&field_content(77, 3, 6));
        assert!(content.is_intact(77));
        assert_eq!(content.stamps(), 51);
        let digest = content.digest();
        content.0[99] ^= 1;
        assert!(!content.is_intact(77));
        assert_ne!(content.digest(), digest);
    }
}
