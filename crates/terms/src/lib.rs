//! Terms that all crates share: why a transaction did not commit, what its time goes to, epochs and
//! stamps, and names of hardware.
//!
//! Nothing here has behaviour of its own beyond its numbers, so that a worker that only reports an
//! abort needs no engine.

#![forbid(unsafe_code)]

mod abort;
mod category;
mod epoch;
mod faults;
mod hardware;
mod intent;
mod mode;
pub mod random;
pub mod rows;

pub use abort::{Abort, Conflict, LockedPlace, OutOfMemory};
pub use category::{CATEGORIES, Category};
pub use epoch::{Epoch, STAMP_NUMBER_BITS, Stamp};
pub use faults::{Fault, Faults};
pub use hardware::{HardwareThread, Node};
pub use intent::Intent;
pub use mode::Mode;
