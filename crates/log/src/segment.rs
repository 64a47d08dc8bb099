//! A segment of a stream, and what is under way with it.

use platform::Nanos;
use platform::files::{FileError, Files, Ticket};

use crate::format::ALIGNMENT;

/// A segment's file, and what is known of it.
pub(crate) struct Segment<P: Files> {
    pub file: P::File,
    pub sequence: u64,
    /// Its length, if its blocks fit.
    pub size: u64,
    /// Offset of the next block.
    pub offset: u64,
    /// Up to here its space was taken.
    pub grown: u64,
    /// Up to here the file was written before, with zeros or blocks of another use.
    pub cleared: u64,
    /// The length that it has durably.
    pub durable_bytes: u64,
    /// True while the file's length is being made durable.
    pub is_measured: bool,
    /// The last known segment and the length of its file, from the last block in this segment.
    pub reaches: u64,
    pub reached_bytes: u64,
}

impl<P: Files> Segment<P> {
    /// Returns true if the segment has no blocks.
    pub(crate) fn is_empty(&self) -> bool {
        self.offset == ALIGNMENT as u64
    }
}

/// Progress of the preparation of the next segment.
pub(crate) enum NextSegment<P: Files> {
    None,
    /// It is being opened.
    Opening,
    /// It has no header yet, or not surely.
    Bare(Segment<P>),
    /// Header and name are on their way to the disk; whether the header was refused.
    Naming(Segment<P>, bool),
    /// It is known.
    Known(Segment<P>),
}

/// The purpose of a stream's operation, which decides what its failure means.
#[derive(Clone, Copy)]
pub(crate) enum OperationPurpose {
    /// A group: the log stops.
    Group,
    /// The next segment is not there yet. It is tried again.
    Open,
    Head,
    /// A flush of the next segment, of its name, of its length: the log stops, as at any flush that
    /// fails.
    Flush,
    Name,
    Length {
        sequence: u64,
    },
    /// Space for a segment, which had this much before: the allocation is tried again, or left out.
    Growth {
        sequence: u64,
        before: u64,
    },
    /// It is left out.
    Zeros,
}

/// An operation that was begun.
pub(crate) type Begun = (Ticket, OperationPurpose);
/// When to try again, and why.
pub(crate) type Refusal = Option<(Nanos, FileError)>;
