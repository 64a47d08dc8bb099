//! The state of the core that flushes: streams, the group under way, and the length of epochs that
//! suits the load.

use platform::Nanos;
use platform::files::{Buffer, Files};
use storage::Epochs;

use crate::error::LogError;
use crate::manifest_writer::ManifestWriter;
use crate::stream::Stream;

/// Longest that epochs become.
const EPOCH_NANOS_MAX: u64 = 10_000_000;
/// An epoch is as many times as long as a group's way to the disk as the group has this many bytes,
/// up to a largest factor.
const EPOCH_BYTES: u64 = 64 << 10;
const EPOCH_GROUPS_MAX: u64 = 16;

/// A group on its way to the disk.
pub(crate) struct Flight {
    /// The epoch that it completes.
    pub complete: u64,
    /// Its number if it is [whole](crate::format::BlockHeader::whole), or 0.
    pub whole: u64,
    pub bytes: u64,
    pub began: Nanos,
}

/// A group that has become durable.
pub(crate) struct FlushedGroup {
    /// From the beginning of its writes to the end of its flush.
    pub nanos: u64,
    pub bytes: u64,
}

/// State of the core that flushes.
pub(crate) struct LogDriver<P: Files> {
    pub streams: Vec<Stream<P>>,
    /// The group under way.
    pub flight: Option<Flight>,
    /// Groups that have landed, and how long they took together.
    pub groups: u64,
    pub group_nanos: u64,
    /// The length of epochs before it was tuned, once it was: there are no shorter ones.
    shortest_nanos: Option<u64>,
    /// Largest epoch of a record handed to a stream, and the last epoch that the streams call
    /// complete.
    pub newest: u64,
    pub marked: u64,
    /// The number of the last [whole](crate::format::BlockHeader::whole) group, and whether nothing
    /// was handed to the streams since that is not in a whole one.
    pub whole: u64,
    pub is_whole: bool,
    /// Bytes of the segments of former generations.
    pub former_bytes: u64,
    pub error: Option<LogError>,
    /// `None` while the log begins, or a core writes it.
    pub manifest: Option<ManifestWriter<P>>,
    /// True while a core writes the manifest.
    pub manifest_is_lent: bool,
    /// Number of the last checkpoint that was begun, which a core may do while another one writes
    /// the manifest: the files of one that failed may be named by a manifest on the disk.
    pub last_checkpoint: u64,
}

impl<P: Files> LogDriver<P> {
    /// A driver of streams without records that call the epochs up to `marked` complete.
    pub(crate) fn new(streams: Vec<Stream<P>>, marked: u64) -> Self {
        LogDriver {
            streams,
            flight: None,
            groups: 0,
            group_nanos: 0,
            shortest_nanos: None,
            newest: 0,
            marked,
            whole: 0,
            is_whole: true,
            former_bytes: 0,
            error: None,
            manifest: None,
            manifest_is_lent: false,
            last_checkpoint: 0,
        }
    }

    /// Bytes handed to the disk by all streams.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.written_bytes).sum()
    }

    /// Lends the empty buffers of all streams.
    pub(crate) fn with_free<T>(&mut self, body: impl FnOnce(&mut [Vec<Buffer<P>>]) -> T) -> T {
        let mut free: Vec<_> =
            self.streams.iter_mut().map(|stream| std::mem::take(&mut stream.free)).collect();
        let result = body(&mut free);
        for (stream, free) in self.streams.iter_mut().zip(free) {
            stream.free = free;
        }
        result
    }

    /// Makes epochs as long as suits the load, after a group with this way to the disk and these
    /// bytes: the more bytes a group has, the smaller a part of the time groups are under way, so
    /// that many transactions share the price of one.
    pub(crate) fn tune(&mut self, c: P::Core, epochs: &Epochs<P>, nanos: u64, bytes: u64) {
        let length = epochs.length(c);
        let shortest = *self.shortest_nanos.get_or_insert(length);
        let times = (bytes / EPOCH_BYTES).clamp(1, EPOCH_GROUPS_MAX);
        let wanted = nanos.saturating_mul(times).clamp(shortest, shortest.max(EPOCH_NANOS_MAX));
        epochs.set_length(c, length / 4 * 3 + wanted / 4);
        self.groups += 1;
        self.group_nanos += nanos;
    }
}
