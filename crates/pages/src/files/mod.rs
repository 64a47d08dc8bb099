//! The file of pages: its head, the lives of its log, and a worker's access to it.

pub(crate) mod channel;
pub(crate) mod head;
pub(crate) mod life;
