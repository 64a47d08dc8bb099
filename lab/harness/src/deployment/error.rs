//! Why there is no such deployment.

use std::net::SocketAddr;
use std::path::PathBuf;

use machine::{HardwareThread, Node, PlaceError};

/// Why there is no such deployment. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// The workers have no place on the machine.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// One memory node, or none.
    #[error("the machine has one memory node")]
    OneNode,
    /// No memory node at the distance asked for.
    #[error("no such node seen from node {}", from.0)]
    NoSuchNode {
        /// The node of the worker.
        from: Node,
        /// Hops from there to other nodes: each number that there is, ascending.
        hops: Vec<u32>,
    },
    /// Several instances for a workload that has no database.
    #[error("a deployment of {0} instances: this workload has no data to divide, and needs one")]
    Several(usize),
    /// No instance.
    #[error("a deployment without instances: at least one is needed")]
    NoInstances,
    /// An instance without workers.
    #[error("instance {0} has no workers: at least one is needed")]
    NoWorkers(usize),
    /// Two workers on one hardware thread.
    #[error("hardware thread {} has two workers", .0.0)]
    Repeated(HardwareThread),
    /// No memory for rows.
    #[error("memory_bytes_max is 0: rows and indexes need memory")]
    NoMemory,
    /// An instance without an address, where others have one.
    #[error("instance {0} has no address: on several machines every instance needs one")]
    NoAddress(usize),
    /// Addresses of instances, and none of the command.
    #[error("no address of the command: instances on several machines have to find it")]
    NoCommand,
    /// Two that listen at the same address.
    #[error("{0} is the address of two")]
    TwiceAt(SocketAddr),
    /// An instance without a directory, where others have one.
    #[error("instance {0} has no path, and others have one: all of them, or none")]
    NoPath(usize),
    /// Two instances in one directory.
    #[error("{} is the path of two", .0.display())]
    TwiceIn(PathBuf),
    /// An address that others than this machine reach, and nobody proves who they are.
    #[error(
        "{0} is no address of this machine alone: certificates = \"DIRECTORY\" (made by isles certificates), or plain = true in a \
         network that one trusts"
    )]
    Unprotected(SocketAddr),
    /// Two that exclude each other.
    #[error("certificates, and plain = true: one of the two")]
    PlainAndCertificates,
    /// Several machines, and a transport that needs one.
    #[error("transport {0} does not cross machines: tcp does")]
    NoNetwork(&'static str),
    /// A file that is no deployment.
    #[error("{0}")]
    Malformed(String),
    /// A file that cannot be read, or is no deployment.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}
