//! Support of several tests.

use platform::link::Limits;

/// Bounds of the links of tests.
pub const LIMITS: Limits = Limits { message_bytes_max: 300, messages_max: 8 };

/// A message whose content and length follow from its number.
pub fn message(number: usize) -> Vec<u8> {
    let length = 1 + number * 7 % LIMITS.message_bytes_max;
    (0..length).map(|at| (number + at) as u8).collect()
}
