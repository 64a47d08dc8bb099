//! A connection, over TCP or a Unix socket, plain or with TLS.

use std::cell::RefCell;
use std::io::{Error, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection};

/// A socket.
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Socket {
    /// Returns another handle of the socket.
    pub fn try_clone(&self) -> Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
        })
    }

    /// Bounds the wait for data.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(time),
            Socket::Unix(stream) => stream.set_read_timeout(time),
        }
    }

    /// Bounds the wait for a client that does not read.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_write_timeout(time),
            Socket::Unix(stream) => stream.set_write_timeout(time),
        }
    }

    /// Ends the connection, or its input alone.
    pub fn shutdown(&self, how: Shutdown) {
        // The client may be gone already.
        _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(to),
            Socket::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(from),
            Socket::Unix(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A connection as its thread uses it.
pub struct Stream {
    socket: Socket,
    tls: Option<Rc<RefCell<ServerConnection>>>,
}

impl Stream {
    /// Returns a connection without TLS.
    pub fn plain(socket: Socket) -> Stream {
        Stream { socket, tls: None }
    }

    /// Begins TLS, whose first bytes are the client's next ones.
    pub fn begin_tls(&mut self, config: &Arc<ServerConfig>) -> Result<()> {
        let connection = ServerConnection::new(Arc::clone(config)).map_err(Error::other)?;
        let connection = Rc::new(RefCell::new(connection));
        connection.borrow_mut().complete_io(&mut self.socket)?;
        self.tls = Some(connection);
        Ok(())
    }

    /// Returns true if others cannot read along.
    pub fn is_private(&self) -> bool {
        self.tls.is_some() || matches!(self.socket, Socket::Unix(_))
    }

    /// Returns true if the connection has TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns another handle of the connection.
    pub fn try_clone(&self) -> Result<Stream> {
        Ok(Stream { socket: self.socket.try_clone()?, tls: self.tls.clone() })
    }

    /// Bounds the wait for data.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        self.socket.set_read_timeout(time)
    }

    /// Bounds the wait for a client that does not read.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> Result<()> {
        self.socket.set_write_timeout(time)
    }

    /// Says to a client with TLS that nothing follows.
    pub fn close(&mut self) {
        if let Some(tls) = &self.tls {
            let mut tls = tls.borrow_mut();
            tls.send_close_notify();
            // The client may be gone already.
            _ = tls.write_tls(&mut self.socket);
        }
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        match &self.tls {
            None => self.socket.read(to),
            Some(tls) => rustls::Stream::new(&mut *tls.borrow_mut(), &mut self.socket).read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        match &self.tls {
            None => self.socket.write(from),
            Some(tls) => {
                let mut tls = tls.borrow_mut();
                let mut stream = rustls::Stream::new(&mut *tls, &mut self.socket);
                let written = stream.write(from)?;
                stream.flush()?;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
