//! Parts of a machine that the engine places threads and memory on.

use serde::{Deserialize, Serialize};

/// A hardware thread (one SMT thread of a core), by the operating system's number; numbering may be
/// sparse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HardwareThread(pub u32);

/// A memory (NUMA) node, by the operating system's number; numbering may be sparse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node(pub u32);
