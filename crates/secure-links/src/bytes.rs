//! A byte connection between two processes, over plain TCP or TLS. Processes use it for commands;
//! workers use links instead.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;

use platform::between::Progress;
use platform::{Hardware, Platform};

use super::endpoint::Endpoint;
use super::error::{Fault, PeerError};
use super::secured::{Secured, TlsReadError};
use super::socket::{HandshakeError, fault_of, handshake_end, receive_secured, secure, watched};

/// Message by which the listening side accepts the other one.
const ACCEPTED: [u8; 1] = [1];

/// A byte connection. Only one of its clones may read at a time.
#[derive(Debug)]
pub struct Bytes {
    socket: TcpStream,
    secured: Option<Arc<Secured>>,
    patience: Option<Duration>,
    /// The remote address, for errors.
    endpoint: Endpoint,
}

/// Returns the remote address.
fn other(socket: &TcpStream) -> Endpoint {
    let gone = Endpoint::Path("a connection that is gone".into());
    socket.peer_addr().map_or(gone, Endpoint::Network)
}

impl Bytes {
    /// Uses a connection without authentication.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn plain(socket: TcpStream) -> io::Result<Bytes> {
        watched(&socket)?;
        Ok(Bytes { endpoint: other(&socket), socket, secured: None, patience: None })
    }

    /// Uses a connection in which both sides authenticate.
    pub(super) fn secured(
        socket: TcpStream,
        tls: Result<rustls::Connection, rustls::Error>,
    ) -> Result<Bytes, PeerError> {
        let endpoint = other(&socket);
        let secured = || -> Result<Arc<Secured>, HandshakeError> {
            watched(&socket).map_err(HandshakeError::of_io("setsockopt"))?;
            let copy = socket.try_clone().map_err(HandshakeError::of_io("dup"))?;
            secure(copy.into(), tls, handshake_end())
        };
        let secured = secured().map_err(|why| why.at(&endpoint))?;
        Ok(Bytes { socket, secured: Some(secured), patience: None, endpoint })
    }

    /// Checks that the certificate of the other side is for this name. Without TLS the check always
    /// succeeds.
    ///
    /// # Errors
    /// The certificate is for another name.
    pub fn check_name(&self, name: &str) -> Result<(), Fault> {
        let Some(secured) = &self.secured else { return Ok(()) };
        let name = ServerName::try_from(name).map_err(|error| Fault::Unproved(error.to_string()))?;
        secured.check_name(&name).map_err(|error| fault_of(&error))
    }

    /// Confirms to the connecting side that it is accepted. TLS 1.3 itself does not report this to
    /// the client.
    pub(super) fn send_acceptance(&mut self) -> Result<(), PeerError> {
        let endpoint = self.endpoint.clone();
        self.write_all(&ACCEPTED).map_err(|error| HandshakeError::of_io("send")(error).at(&endpoint))
    }

    /// Waits for this confirmation.
    pub(super) fn receive_acceptance(&mut self) -> Result<(), PeerError> {
        let (endpoint, until) = (self.endpoint.clone(), handshake_end());
        let Some(secured) = &self.secured else { return Ok(()) };
        match receive_secured(secured, ACCEPTED.len(), until).map_err(|why| why.at(&endpoint))? {
            received if received == ACCEPTED => Ok(()),
            _ => Err(PeerError::Refused { endpoint, fault: Fault::Garbage("no greeting".to_owned()) }),
        }
    }

    /// Returns another handle of the same connection.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn try_clone(&self) -> io::Result<Bytes> {
        let (socket, secured) = (self.socket.try_clone()?, self.secured.clone());
        Ok(Bytes { socket, secured, patience: self.patience, endpoint: self.endpoint.clone() })
    }

    /// Sets the deadline of the next read.
    ///
    /// # Errors
    /// The deadline has passed, or the operating system refuses.
    pub fn set_end(&mut self, end: std::time::Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.set_patience(Some(left))
    }

    /// Sets the longest wait of a read of this clone; by default it is unlimited.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.patience = patience;
        self.socket.set_read_timeout(patience)
    }
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(secured) = &self.secured else { return self.socket.read(into) };
        let now = || Hardware::now(Hardware::core());
        let until = self.patience.map(|patience| now().plus(patience.as_nanos() as u64));
        loop {
            let taken = secured.take(into);
            if taken > 0 || into.is_empty() {
                return Ok(taken);
            }
            if !secured.has_some() {
                secured.wait(until)?;
            }
            match secured.read_more() {
                Ok(Progress::Some | Progress::Nothing) => {}
                Ok(Progress::Ended) => return Ok(0),
                Ok(Progress::Cut) => return Err(ErrorKind::ConnectionAborted.into()),
                Err(TlsReadError::System(error)) => return Err(error),
                Err(TlsReadError::Refused(error)) => return Err(io::Error::other(fault_of(&error))),
            }
        }
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.secured {
            Some(secured) => secured.send(bytes, None).map(|()| bytes.len()),
            None => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
