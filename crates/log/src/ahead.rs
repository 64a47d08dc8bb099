//! Which part of a segment is filled with zeros ahead of what is written.

use std::ops::Range;

/// Bytes that are filled at once.
const STEP_BYTES: u64 = 1 << 20;
/// A group with more bytes costs less with the space as it is: its flush is shared by more commits
/// than zeros are worth. So many bytes are left when the next step is taken.
const GROUP_BYTES_MAX: u64 = STEP_BYTES / 8;

/// The bytes to fill next, after a group of so many bytes; none if it was long, or if enough are
/// left. Of the segment it is known up to where it was written before, where the next block goes,
/// and where it ends.
pub fn next_zeros((cleared, next, end): (u64, u64, u64), group_bytes: u64) -> Option<Range<u64>> {
    let from = cleared.max(next);
    let until = (from + STEP_BYTES).min(end);
    let is_due = group_bytes <= GROUP_BYTES_MAX && from - next <= GROUP_BYTES_MAX;
    (is_due && from < until).then_some(from..until)
}
