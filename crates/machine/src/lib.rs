//! Descriptions of machines: topology, distances, islands and placements.
//!
//! All sources end in a [`Topology`] (an immutable value) and, with costs, in a [`Description`].
//!
//! ```text
//! cpu_set, raw         sets of processors; groups and memories that may contradict each other
//! topology, assemble   hardware threads, groups and memories; made from raw groups
//! parts                a topology as flat lists, as in description files
//! description/         a topology with the costs of its caches, links and memories
//! discover/            this machine, from the Linux kernel's files
//! hwloc/               machines from hwloc's XML
//! core_matrix/         machines from matrices of times between hardware threads
//! files                opens a file of any of these formats
//! islands, placement   islands of each granularity; hardware threads of workers and instances
//! peers                placement of two workers that exchange messages
//! render/              text, JSON and SVG of a topology and a description
//! ```

#![forbid(unsafe_code)]
// Discovery reads the kernel's files: this crate is one of the few that may.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod assemble;
mod core_matrix;
mod cpu_set;
mod description;
mod discover;
mod files;
mod hwloc;
mod islands;
mod parts;
mod peers;
mod placement;
mod raw;
mod render;
mod topology;

pub use core_matrix::MatrixError;
pub use description::{
    Access, AccessCosts, CacheFacts, Confidence, CoreCost, CoreCosts, CoreToCore, Description,
    DescriptionError, Fact, FactMatrix, LineState, Measured, Measurements, Network, PageSizes, Reach,
    SmtShare, TlbArrays, TlbLevel, TlbSize, Translation,
};
pub use discover::{DiscoverError, discover};
pub use files::FileError;
pub use hwloc::XmlError;
pub use islands::{Granularity, GranularityError, islands};
pub use peers::{Peers, place_peers};
pub use placement::{PlaceError, Placement, WorkerRequest, place, place_workers};
pub use render::{
    render_cores_svg, render_costs, render_description_json, render_json, render_memory_svg, render_svg,
    render_text,
};
pub use terms::{HardwareThread, Node};
pub use topology::{Cache, Counts, Group, Level, MemoryKind, MemoryNode, ThreadInfo, Topology};
