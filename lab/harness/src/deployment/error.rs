//! The reason why a deployment is refused.

use std::net::SocketAddr;
use std::path::PathBuf;

use machine::{HardwareThread, Node, PlaceError};

/// The reason why a deployment is refused. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// The workers do not fit on the machine.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The machine has at most one memory node.
    #[error("the machine has one memory node")]
    OneNode,
    /// There is no memory node at the requested distance.
    #[error("no such node seen from node {}", from.0)]
    NoSuchNode {
        /// The node of the worker.
        from: Node,
        /// The distances in hops from there to other nodes, each once, ascending.
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
    /// An instance without an address, although others have one.
    #[error("instance {0} has no address: on several machines every instance needs one")]
    NoAddress(usize),
    /// Instances have addresses, and the command has none.
    #[error("no address of the command: instances on several machines have to find it")]
    NoCommand,
    /// Two processes would listen at the same address.
    #[error("{0} is the address of two")]
    TwiceAt(SocketAddr),
    /// An instance without a directory, although others have one.
    #[error("instance {0} has no path, and others have one: all of them, or none")]
    NoPath(usize),
    /// Two instances in one directory.
    #[error("{} is the path of two", .0.display())]
    TwiceIn(PathBuf),
    /// An address that other machines can reach, without authentication.
    #[error(
        "{0} is no address of this machine alone: certificates = \"DIRECTORY\" (made by isles certificates), or plain = true in a \
         network that one trusts"
    )]
    Unprotected(SocketAddr),
    /// Two settings that exclude each other.
    #[error("certificates, and plain = true: one of the two")]
    PlainAndCertificates,
    /// Several machines, with a transport that works within one machine only.
    #[error("transport {0} does not cross machines: tcp does")]
    NoNetwork(&'static str),
    /// A text that is no deployment.
    #[error("{0}")]
    Malformed(String),
    /// A file that cannot be read, or is no deployment.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}
