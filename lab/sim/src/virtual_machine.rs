//! The name of the platform. Operations on files are typed by their platform, so the disk names it;
//! what the platform does stands far above the disk, in `run.rs` and `implementation.rs`.

/// The platform that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct VirtualMachine;
