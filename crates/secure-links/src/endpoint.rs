//! Addresses of processes.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Address of a process. A text with a slash is parsed as a path, any other text as an address with
/// a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket in the file system of this machine.
    Path(PathBuf),
    /// A network address and port.
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
