//! A connection between two processes that carries bytes, secured or not: what is no link between
//! workers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;

use platform::between::Progress;
use platform::{Hardware, Platform};

use super::endpoint::Endpoint;
use super::error::{Fault, PeerError};
use super::secured::{Secured, Unread};
use super::socket::{Unheard, fault_of, handshake_end, hear_secured, secure, watched};

/// What the side that listens says when it believes the other one.
const BELIEVED: [u8; 1] = [1];

/// Such a connection. Of its clones one reads at a time.
#[derive(Debug)]
pub struct Bytes {
    socket: TcpStream,
    secured: Option<Arc<Secured>>,
    patience: Option<Duration>,
    /// The other side, for errors.
    endpoint: Endpoint,
}

/// The other side.
fn other(socket: &TcpStream) -> Endpoint {
    let gone = Endpoint::Path("a connection that is gone".into());
    socket.peer_addr().map_or(gone, Endpoint::Network)
}

impl Bytes {
    /// Nobody proves who they are.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn plain(socket: TcpStream) -> io::Result<Bytes> {
        watched(&socket)?;
        Ok(Bytes { endpoint: other(&socket), socket, secured: None, patience: None })
    }

    /// Both sides prove it.
    pub(super) fn secured(
        socket: TcpStream,
        tls: Result<rustls::Connection, rustls::Error>,
    ) -> Result<Bytes, PeerError> {
        let endpoint = other(&socket);
        let secured = || -> Result<Arc<Secured>, Unheard> {
            watched(&socket).map_err(Unheard::of_io("setsockopt"))?;
            let copy = socket.try_clone().map_err(Unheard::of_io("dup"))?;
            secure(copy.into(), tls, handshake_end())
        };
        let secured = secured().map_err(|why| why.at(&endpoint))?;
        Ok(Bytes { socket, secured: Some(secured), patience: None, endpoint })
    }

    /// Whether the other side has proved that this is its name, where it has to prove anything.
    ///
    /// # Errors
    /// Its certificate is for another name.
    pub fn check_name(&self, name: &str) -> Result<(), Fault> {
        let Some(secured) = &self.secured else { return Ok(()) };
        let name = ServerName::try_from(name).map_err(|error| Fault::Unproved(error.to_string()))?;
        secured.check_name(&name).map_err(|error| fault_of(&error))
    }

    /// Tells the side that has connected that it is believed: until then it cannot know.
    pub(super) fn say_belief(&mut self) -> Result<(), PeerError> {
        let endpoint = self.endpoint.clone();
        self.write_all(&BELIEVED).map_err(|error| Unheard::of_io("send")(error).at(&endpoint))
    }

    /// Waits to be told so.
    pub(super) fn hear_belief(&mut self) -> Result<(), PeerError> {
        let (endpoint, until) = (self.endpoint.clone(), handshake_end());
        let Some(secured) = &self.secured else { return Ok(()) };
        match hear_secured(secured, BELIEVED.len(), until).map_err(|why| why.at(&endpoint))? {
            heard if heard == BELIEVED => Ok(()),
            _ => Err(PeerError::Refused { endpoint, fault: Fault::Garbage("no greeting".to_owned()) }),
        }
    }

    /// The same connection once more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn try_clone(&self) -> io::Result<Bytes> {
        let (socket, secured) = (self.socket.try_clone()?, self.secured.clone());
        Ok(Bytes { socket, secured, patience: self.patience, endpoint: self.endpoint.clone() })
    }

    /// The same for the next read: at most until this moment, however little comes at a time.
    ///
    /// # Errors
    /// The moment is over, or the operating system refuses.
    pub fn set_end(&mut self, end: std::time::Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.set_patience(Some(left))
    }

    /// How long this clone waits when it reads: without end at first.
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
                Err(Unread::System(error)) => return Err(error),
                Err(Unread::Refused(error)) => return Err(io::Error::other(fault_of(&error))),
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
