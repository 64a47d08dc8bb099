//! Parts of links between processes: channels through descriptors, rings in shared memory, and the
//! check that a process is still there. Crate `secure-links` puts them together.

pub use crate::hardware::channel::{FileReceiver, FileSender, Kind, Progress, SecureBytes};
pub use crate::hardware::life::Life;
pub use crate::hardware::links::{file_end, ring_end};
pub use crate::hardware::polling::{poll, poll_room};
pub use crate::hardware::shared_ring::{SharedReceiver, SharedSender, ring_bytes};
