//! A connection, over TCP or a Unix socket.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Returns another handle of the connection.
    pub fn try_clone(&self) -> Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Bounds the wait for data.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(time),
            Stream::Unix(stream) => stream.set_read_timeout(time),
        }
    }

    /// Bounds the wait for a client that does not read.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(time),
            Stream::Unix(stream) => stream.set_write_timeout(time),
        }
    }

    /// Ends the connection.
    pub fn shutdown(&self) {
        // The client may be gone already.
        _ = match self {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(from),
            Stream::Unix(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
