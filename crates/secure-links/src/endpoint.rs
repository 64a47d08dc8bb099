//! Where a process can be reached.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a process can be reached: text with a slash in it is a path, any other an address with a
/// port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket of this machine's file system.
    Path(PathBuf),
    /// An address and a port of a network.
    Network(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Path(path) => path.display().fmt(to),
            Endpoint::Network(address) => address.fmt(to),
        }
    }
}

impl FromStr for Endpoint {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') { Ok(Endpoint::Path(text.into())) } else { text.parse().map(Endpoint::Network) }
    }
}
