//! A TCP connection whose bytes nobody else reads, changes or invents: TLS 1.3, in which both sides
//! have a certificate.
//!
//! Both ways of a connection share one state of TLS. A call has it for as long as it computes or
//! asks the kernel for what is there already, and never while it waits: so one thread can wait for
//! what comes while another one sends.
//!
//! What ends without being announced was cut, by whoever can cut it, and counts as damage
//! ([`FrameError::Cut`](platform::link::frame::FrameError::Cut)); a side that is done says so when
//! it is dropped.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustls::Connection;

use platform::between::{Progress, SecureBytes, poll, poll_room};
use platform::link::ReceiveError;
use platform::link::frame::FrameError;
use platform::{Hardware, Nanos, Platform};

/// How long a side that has refused the other one waits for it to take notice.
const LINGER_NANOS: u64 = 200_000_000;

/// Why a connection does not become a secured one.
#[derive(Debug)]
pub(crate) enum Unsecured {
    /// The operating system refused.
    System(io::Error),
    /// Not in time.
    Silent,
    /// The other side closed the connection.
    Gone,
    /// What the other side said, or did not prove.
    Refused(rustls::Error),
}

/// A connection that is secured.
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

/// The socket, which is asked for what is there already.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets the other side read what was said last, before its connection is closed: a socket that is
/// closed with bytes unread takes back what it has sent.
pub(crate) fn linger(socket: &OwnedFd) {
    // Whatever fails here, the connection is over.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let (end, mut unread) = (now().plus(LINGER_NANOS), [0; 512]);
    loop {
        let left = end.since(now());
        let came = poll(std::iter::once(socket.as_raw_fd()), left).unwrap_or(false);
        if left == 0 || came && !Raw(socket).read(&mut unread).is_ok_and(|bytes| bytes > 0) {
            return;
        }
    }
}

impl Secured {
    /// Secures a connected socket before `until`.
    pub(crate) fn new(socket: OwnedFd, mut tls: Connection, until: Nanos) -> Result<Secured, Unsecured> {
        // What does not leave at once is kept: no more than one message is.
        tls.set_buffer_limit(None);
        let secured = Secured { socket, tls: Mutex::new(tls) };
        match secured.shake_hands(until) {
            Ok(()) => Ok(secured),
            Err(why) => {
                if matches!(why, Unsecured::Refused(_)) {
                    secured.linger();
                }
                Err(why)
            }
        }
    }

    fn shake_hands(&self, until: Nanos) -> Result<(), Unsecured> {
        loop {
            let (wants_write, is_done) = {
                let tls = self.tls();
                (tls.wants_write(), !tls.is_handshaking())
            };
            if wants_write {
                self.flush(Some(until)).map_err(Unsecured::of)?;
            } else if is_done {
                return Ok(());
            } else {
                self.wait(Some(until)).map_err(Unsecured::of)?;
                match self.read_more() {
                    Ok(Progress::Some | Progress::Nothing) => {}
                    Ok(Progress::Ended | Progress::Cut) => return Err(Unsecured::Gone),
                    Err(Unread::System(error)) => return Err(Unsecured::of(error)),
                    Err(Unread::Refused(error)) => return Err(Unsecured::Refused(error)),
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
        // A panic elsewhere leaves it as it was between two calls.
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the other side's certificate is one for this name. Before, it was only seen to be of
    /// the same authority.
    pub(crate) fn check_name(&self, name: &rustls::pki_types::ServerName<'_>) -> Result<(), rustls::Error> {
        let tls = self.tls();
        let first = tls.peer_certificates().and_then(|certificates| certificates.first());
        let first = first.ok_or(rustls::Error::NoCertificatesPresented)?;
        rustls::client::verify_server_name(&rustls::server::ParsedCertificate::try_from(first)?, name)
    }

    /// Waits until the socket can be read: `Err` of kind `TimedOut` if it could not in time.
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

    /// True if something can be taken without a look at the socket.
    pub(crate) fn has_some(&self) -> bool {
        self.tls()
            .process_new_packets()
            .is_ok_and(|state| state.plaintext_bytes_to_read() > 0 || state.peer_has_closed())
    }

    /// Takes what was read, as much as there is room for.
    pub(crate) fn take(&self, into: &mut [u8]) -> usize {
        // An error says that nothing is there: what that means, reading says.
        self.tls().reader().read(into).unwrap_or(0)
    }

    /// Reads what the socket has, without waiting. Everything that came before was taken.
    pub(crate) fn read_more(&self) -> Result<Progress, Unread> {
        let mut tls = self.tls();
        let read = match tls.read_tls(&mut Raw(&self.socket)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Progress::Some),
            other => other.map_err(Unread::System)?,
        };
        let state = tls.process_new_packets();
        if tls.wants_write() && !tls.is_handshaking() || state.is_err() {
            // An answer of TLS to what has come; what does not leave now leaves with the next
            // message.
            while tls.wants_write() && tls.write_tls(&mut Raw(&self.socket)).is_ok() {}
        }
        let has_ended = state.map_err(Unread::Refused)?.peer_has_closed();
        Ok(match (read, has_ended) {
            (0, true) => Progress::Ended,
            (0, false) => Progress::Cut,
            _ => Progress::Some,
        })
    }

    /// Sends all of it. Waits for room if it has to, until then.
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
                tls.write_tls(&mut Raw(&self.socket))
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
            Unread::Refused(_) => FrameError::Record.into(),
            Unread::System(error) => ReceiveError::System { call: "recv", error },
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
        // If the other side cannot be told, it sees that it was not.
        while tls.wants_write() && tls.write_tls(&mut Raw(&self.socket)).is_ok_and(|bytes| bytes > 0) {}
    }
}

/// Why nothing can be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The operating system's words.
    System(io::Error),
    /// What came is not what was sent, or the other side refuses this one.
    Refused(rustls::Error),
}

impl Unsecured {
    fn of(error: io::Error) -> Unsecured {
        match error.kind() {
            ErrorKind::TimedOut => Unsecured::Silent,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Unsecured::Gone,
            _ => Unsecured::System(error),
        }
    }
}
