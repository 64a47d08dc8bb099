//! Messages that come from another process are not believed: each is framed by its length and its
//! checksum (CRC-32C), and whatever differs from that is an error before anything of it is handed
//! on.
//!
//! A frame is the length and the checksum of the message, four bytes each in the order of the least
//! significant first, and the message.

/// Bytes that precede a message.
pub const FRAME_HEADER_BYTES: usize = 8;

/// Why what came is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It ends too early.
    #[error("a truncated message: {bytes} bytes of {of}")]
    Truncated {
        /// Bytes that came.
        bytes: usize,
        /// Bytes that were announced.
        of: usize,
    },
    /// It is empty or longer than the link allows.
    #[error("a message of {bytes} bytes on a link for 1 to {max}")]
    Length {
        /// Its announced length.
        bytes: usize,
        /// The link's limit.
        max: usize,
    },
    /// It is not what was sent.
    #[error("a damaged message: its checksum is {found:08x} and not {announced:08x}")]
    Checksum {
        /// The checksum of the received bytes.
        found: u32,
        /// Announced before it.
        announced: u32,
    },
    /// It is not encrypted as it should be.
    #[error("a damaged record of TLS")]
    Record,
    /// The connection ended without the announcement of its end: a process may have cut it.
    #[error("the connection was cut")]
    Cut,
    /// Its announcement makes no sense.
    #[error("a damaged announcement of a message: {0:016x}")]
    Announcement(u64),
}

/// The checksum of a message.
#[inline]
pub fn checksum(message: &[u8]) -> u32 {
    crc32c::crc32c(message)
}

/// The length, if a link for messages of up to `max` bytes carries such.
#[inline]
pub fn check_length(bytes: usize, max: usize) -> Result<usize, FrameError> {
    if bytes == 0 || bytes > max { Err(FrameError::Length { bytes, max }) } else { Ok(bytes) }
}

/// Checks that a message is the one that was announced.
#[inline]
pub fn check_content(message: &[u8], announced: u32) -> Result<(), FrameError> {
    let found = checksum(message);
    if found == announced { Ok(()) } else { Err(FrameError::Checksum { found, announced }) }
}

/// Appends a message with its frame.
pub fn seal(message: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(message.len() as u32).to_le_bytes());
    to.extend_from_slice(&checksum(message).to_le_bytes());
    to.extend_from_slice(message);
}

/// The message at the beginning of `bytes`, if all of it is there already.
///
/// # Errors
/// What stands there is no message of at most `max` bytes.
pub fn open(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = check_length(u32::from_le_bytes(*length) as usize, max)?;
    let Some((announced, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some(message) = rest.get(..length) else { return Ok(None) };
    check_content(message, u32::from_le_bytes(*announced))?;
    Ok(Some(message))
}

/// As [`open`], of bytes that are one frame and nothing else.
///
/// # Errors
/// As [`open`], and for a frame that is longer or shorter than its header has it.
pub fn open_whole(bytes: &[u8], max: usize) -> Result<&[u8], FrameError> {
    let of = bytes.first_chunk::<4>().map_or(FRAME_HEADER_BYTES, |length| {
        FRAME_HEADER_BYTES.saturating_add(u32::from_le_bytes(*length) as usize)
    });
    match open(bytes, max)? {
        Some(message) if bytes.len() == of => Ok(message),
        Some(_) => Err(FrameError::Length { bytes: bytes.len(), max: of }),
        None => Err(FrameError::Truncated { bytes: bytes.len(), of }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 300;

    fn sealed(message: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        seal(message, &mut frame);
        frame
    }

    #[test]
    fn what_was_sealed_is_opened() {
        for length in [1, 7, 8, 255, MAX] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut frame = sealed(&message);
            assert_eq!(open_whole(&frame, MAX), Ok(&message[..]));
            frame.extend_from_slice(b"the next one");
            assert_eq!(open(&frame, MAX), Ok(Some(&message[..])));
        }
    }

    #[test]
    fn a_part_is_not_a_message_yet() {
        let frame = sealed(&[7; 100]);
        for bytes in 0..frame.len() {
            assert_eq!(open(&frame[..bytes], MAX), Ok(None), "{bytes}");
            let whole = open_whole(&frame[..bytes], MAX);
            assert!(matches!(whole, Err(FrameError::Truncated { .. })), "{bytes}: {whole:?}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let frame = sealed(b"to whom it may concern");
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open_whole(&damaged, MAX).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn wrong_lengths_are_named() {
        let refused = |length: u32| {
            let mut frame = sealed(&[1; 10]);
            frame[..4].copy_from_slice(&length.to_le_bytes());
            open(&frame, MAX).expect_err("no such message").to_string()
        };
        assert_eq!(refused(0), "a message of 0 bytes on a link for 1 to 300");
        assert_eq!(refused(u32::MAX), "a message of 4294967295 bytes on a link for 1 to 300");
        let longer = [sealed(&[1; 10]), vec![0]].concat();
        assert!(open_whole(&longer, MAX).is_err());
    }
}
