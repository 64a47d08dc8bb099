//! Which part of a segment is filled with zeros ahead of what is written.

use std::ops::Range;

/// Bytes that are filled at once.
const STEP_BYTES: u64 = 1 << 20;
/// Larger groups do not have space filled with zeros: more commits share their flush, and zeros are
/// worth less than they cost. The next step is filled when this many zeroed bytes are left.
const GROUP_BYTES_MAX: u64 = STEP_BYTES / 8;

/// The bytes to fill with zeros next, after a group of `group_bytes` bytes; none if the group was
/// large, or if enough zeroed bytes are left.
pub fn next_zeros(cleared: u64, next: u64, end: u64, group_bytes: u64) -> Option<Range<u64>> {
    let from = cleared.max(next);
    let until = (from + STEP_BYTES).min(end);
    let is_due = group_bytes <= GROUP_BYTES_MAX && from - next <= GROUP_BYTES_MAX;
    (is_due && from < until).then_some(from..until)
}
