//! The name of the platform. Operations on files are typed by their platform, so the disk needs the
//! name; `run.rs` and `implementation.rs`, far above the disk, implement it.

/// The simulated platform.
#[derive(Clone, Copy, Debug)]
pub struct VirtualMachine;
