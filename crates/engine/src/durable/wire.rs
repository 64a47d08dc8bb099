//! Numbers and texts as bytes: what log, checkpoints and descriptions of tables are made of.
//!
//! Numbers are LEB128: seven bits a byte, low ones first. Whatever is read is looked at byte by byte: what is none gives
//! `None`, and nothing is ever larger than what it is read from.

/// Numbers below are one byte long.
pub(crate) const ONE_BYTE: usize = 0x80;

/// Appends a number.
#[inline]
pub(crate) fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= ONE_BYTE as u64 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends bytes, their number first.
pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Takes so many bytes.
#[inline]
pub(crate) fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(taken)
}

/// Takes a number.
#[inline]
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if usize::from(byte) < ONE_BYTE {
            return Some(value);
        }
    }
    None
}

/// Takes a number that counts what is in memory.
#[inline]
pub(crate) fn take_size(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_number(rest)?).ok()
}

/// Takes what [`put_bytes`] wrote.
#[inline]
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = take_size(rest)?;
    take(rest, bytes)
}
