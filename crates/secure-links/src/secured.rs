//! An encrypted and authenticated TCP connection: TLS 1.3 with certificates on both sides.
//!
//! Both directions of a connection share one TLS state behind a lock. A call holds the lock while
//! it computes or makes a nonblocking system call, and never while it waits. One thread can
//! therefore wait for data while another one sends.
//!
//! A side announces the end of the connection when it is dropped (`close_notify`). An end without
//! this announcement was cut, possibly by an attacker, and counts as damage
//! ([`FrameError::Cut`](platform::link::frame::FrameError::Cut)).

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustls::Connection;

use platform::between::{Progress, SecureBytes, poll, poll_room};
use platform::link::ReceiveError;
use platform::link::frame::FrameError;
use platform::{Hardware, Nanos, Platform};

/// Longest wait of a side that has refused the other one, until the other side has read the reason.
const LINGER_NANOS: u64 = 200_000_000;

/// Error of a TLS handshake.
#[derive(Debug)]
pub(crate) enum TlsHandshakeError {
    /// The operating system refused.
    System(io::Error),
    /// The handshake did not complete in time.
    Silent,
    /// The other side closed the connection.
    Gone,
    /// One of the two sides refused the other one.
    Refused(rustls::Error),
}

/// A TLS connection.
pub(crate) struct Secured {
    socket: OwnedFd,
    tls: Mutex<Connection>,
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Secured").field("socket", &self.socket).finish_non_exhaustive()
    }
}

fn now() -> Nanos {
    Hardware::now(Hardware::core())
}

/// The socket with nonblocking calls.
struct NonblockingSocket<'a>(&'a OwnedFd);

impl Read for NonblockingSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for NonblockingSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets the other side read the last message before the connection is closed: closing a socket with
/// unread bytes discards data that it has sent.
pub(crate) fn linger(socket: &OwnedFd) {
    // Errors do not matter: the connection ends in any case.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let (end, mut unread) = (now().plus(LINGER_NANOS), [0; 512]);
    loop {
        let left = end.since(now());
        let came = poll(std::iter::once(socket.as_raw_fd()), left).unwrap_or(false);
        if left == 0 || came && !NonblockingSocket(socket).read(&mut unread).is_ok_and(|bytes| bytes > 0) {
            return;
        }
    }
}

impl Secured {
    /// Runs the TLS handshake over a connected socket, with deadline `until`.
    pub(crate) fn new(
        socket: OwnedFd,
        mut tls: Connection,
        until: Nanos,
    ) -> Result<Secured, TlsHandshakeError> {
        // Bytes that cannot be sent at once are buffered: at most one message.
        tls.set_buffer_limit(None);
        let secured = Secured { socket, tls: Mutex::new(tls) };
        match secured.run_handshake(until) {
            Ok(()) => Ok(secured),
            Err(why) => {
                if matches!(why, TlsHandshakeError::Refused(_)) {
                    secured.linger();
                }
                Err(why)
            }
        }
    }

    fn run_handshake(&self, until: Nanos) -> Result<(), TlsHandshakeError> {
        loop {
            let (wants_write, is_done) = {
                let tls = self.tls();
                (tls.wants_write(), !tls.is_handshaking())
            };
            if wants_write {
                self.flush(Some(until)).map_err(TlsHandshakeError::of)?;
            } else if is_done {
                return Ok(());
            } else {
                self.wait(Some(until)).map_err(TlsHandshakeError::of)?;
                match self.read_more() {
                    Ok(Progress::Some | Progress::Nothing) => {}
                    Ok(Progress::Ended | Progress::Cut) => return Err(TlsHandshakeError::Gone),
                    Err(TlsReadError::System(error)) => return Err(TlsHandshakeError::of(error)),
                    Err(TlsReadError::Refused(error)) => return Err(TlsHandshakeError::Refused(error)),
                }
            }
        }
    }

    /// As [`linger`].
    pub(crate) fn linger(&self) {
        linger(&self.socket);
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn tls(&self) -> MutexGuard<'_, Connection> {
        // A panic on another thread leaves a consistent state.
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the other side's certificate is for this name. The handshake checks only the
    /// authority.
    pub(crate) fn check_name(&self, name: &rustls::pki_types::ServerName<'_>) -> Result<(), rustls::Error> {
        let tls = self.tls();
        let first = tls.peer_certificates().and_then(|certificates| certificates.first());
        let first = first.ok_or(rustls::Error::NoCertificatesPresented)?;
        rustls::client::verify_server_name(&rustls::server::ParsedCertificate::try_from(first)?, name)
    }

    /// Waits until the socket is readable; `Err` of kind `TimedOut` at the deadline.
    pub(crate) fn wait(&self, until: Option<Nanos>) -> io::Result<()> {
        loop {
            let left = until.map_or(u64::from(u32::MAX), |end| end.since(now()));
            if poll(std::iter::once(self.socket.as_raw_fd()), left)? {
                return Ok(());
            }
            if left == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Returns true if data or the end is available without reading the socket.
    pub(crate) fn has_some(&self) -> bool {
        self.tls()
            .process_new_packets()
            .is_ok_and(|state| state.plaintext_bytes_to_read() > 0 || state.peer_has_closed())
    }

    /// Takes decrypted bytes, as many as fit.
    pub(crate) fn take(&self, into: &mut [u8]) -> usize {
        // An error means that no bytes are available; the next read reports the reason.
        self.tls().reader().read(into).unwrap_or(0)
    }

    /// Reads from the socket without waiting. Pre: all earlier bytes were taken.
    pub(crate) fn read_more(&self) -> Result<Progress, TlsReadError> {
        let mut tls = self.tls();
        let read = match tls.read_tls(&mut NonblockingSocket(&self.socket)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Progress::Some),
            other => other.map_err(TlsReadError::System)?,
        };
        let state = tls.process_new_packets();
        if tls.wants_write() && !tls.is_handshaking() || state.is_err() {
            // TLS itself answers; bytes that cannot be sent now leave with the next message.
            while tls.wants_write() && tls.write_tls(&mut NonblockingSocket(&self.socket)).is_ok() {}
        }
        let has_ended = state.map_err(TlsReadError::Refused)?.peer_has_closed();
        Ok(match (read, has_ended) {
            (0, true) => Progress::Ended,
            (0, false) => Progress::Cut,
            _ => Progress::Some,
        })
    }

    /// Sends all bytes; waits for room until the deadline.
    pub(crate) fn send(&self, bytes: &[u8], until: Option<Nanos>) -> io::Result<()> {
        self.tls().writer().write_all(bytes)?;
        self.flush(until)
    }

    fn flush(&self, until: Option<Nanos>) -> io::Result<()> {
        loop {
            let written = {
                let mut tls = self.tls();
                if !tls.wants_write() {
                    return Ok(());
                }
                tls.write_tls(&mut NonblockingSocket(&self.socket))
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.map_or(u64::from(u32::MAX), |end| end.since(now()));
                    if left == 0 {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    poll_room(self.socket.as_raw_fd(), left)?;
                }
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl SecureBytes for Secured {
    fn has_some(&self) -> bool {
        self.has_some()
    }

    fn take(&self, into: &mut [u8]) -> usize {
        self.take(into)
    }

    fn read_more(&self) -> Result<Progress, ReceiveError> {
        self.read_more().map_err(|why| match why {
            TlsReadError::Refused(_) => FrameError::Record.into(),
            TlsReadError::System(error) => ReceiveError::System { call: "recv", error },
        })
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send(bytes, None)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let tls = self.tls.get_mut().unwrap_or_else(PoisonError::into_inner);
        tls.send_close_notify();
        // If the announcement cannot be sent, the other side detects a cut.
        while tls.wants_write()
            && tls.write_tls(&mut NonblockingSocket(&self.socket)).is_ok_and(|bytes| bytes > 0)
        {}
    }
}

/// Error of a read.
#[derive(Debug)]
pub(crate) enum TlsReadError {
    /// The error of the operating system.
    System(io::Error),
    /// The record is damaged, or the other side refuses this one.
    Refused(rustls::Error),
}

impl TlsHandshakeError {
    fn of(error: io::Error) -> TlsHandshakeError {
        match error.kind() {
            ErrorKind::TimedOut => TlsHandshakeError::Silent,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => TlsHandshakeError::Gone,
            _ => TlsHandshakeError::System(error),
        }
    }
}
