//! Sockets of the handshake: its messages, and the descriptors passed with them.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustls::{AlertDescription, CertificateError};

use platform::Nanos;
use platform::between::{Kind, Progress, poll};
use platform::link::frame::{self, FRAME_HEADER_BYTES, FrameError};
use platform::{Hardware, Platform};

use super::endpoint::Endpoint;
use super::error::{Fault, PeerError};
use super::hello::HANDSHAKE_BYTES_MAX;
use super::secured::{Secured, TlsHandshakeError, TlsReadError, linger};
use super::validity::Day;

/// Most descriptors passed with a message: a ring's memory and a bell's.
pub(super) const FILES_MAX: usize = 2;
/// Most connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Time limit of a handshake, for each side.
pub(super) const HANDSHAKE_NANOS: u64 = 1_000_000_000;
/// The other machine counts as lost if sent data is not acknowledged for this time.
const SILENCE: Duration = Duration::from_millis(700);
/// After this time without traffic the kernel probes the other machine, which counts as lost after
/// the same time again. The kernel's granularity is a second.
const PROBE: Duration = Duration::from_secs(1);

/// Error of the handshake on one socket.
pub(super) enum HandshakeError {
    /// The operating system refused.
    System(&'static str, io::Error),
    /// No message in time.
    Silent,
    /// The other process closed the connection.
    Gone,
    /// The received bytes are not a frame.
    Frame(FrameError),
    /// The other process was refused and notified.
    Refused(Fault),
    /// The other process refuses this one.
    RefusedThere(String),
}

impl HandshakeError {
    fn of(call: &'static str) -> impl Fn(Errno) -> HandshakeError {
        move |error| HandshakeError::System(call, error.into())
    }

    /// Converts an I/O error.
    pub(super) fn of_io(call: &'static str) -> impl Fn(io::Error) -> HandshakeError {
        move |error| match error.kind() {
            ErrorKind::TimedOut => HandshakeError::Silent,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => HandshakeError::Gone,
            _ => HandshakeError::System(call, error),
        }
    }

    /// Converts a TLS error.
    fn of_tls(error: &rustls::Error) -> HandshakeError {
        match error {
            rustls::Error::AlertReceived(alert) => HandshakeError::RefusedThere(match alert {
                AlertDescription::CertificateRequired => "it demands a certificate".to_owned(),
                AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                    "the certificate is of another authority".to_owned()
                }
                AlertDescription::CertificateExpired => "the certificate has expired".to_owned(),
                other => format!("TLS: {other:?}"),
            }),
            other => HandshakeError::Refused(fault_of(other)),
        }
    }

    /// Converts to the error of a connection to or from this endpoint.
    pub(super) fn at(self, endpoint: &Endpoint) -> PeerError {
        let endpoint = endpoint.clone();
        match self {
            HandshakeError::System(call, error) => PeerError::System { endpoint, call, error },
            HandshakeError::Silent => PeerError::Silent(endpoint),
            HandshakeError::Gone => PeerError::Gone(endpoint),
            HandshakeError::Frame(error) => PeerError::Refused { endpoint, fault: error.into() },
            HandshakeError::Refused(fault) => PeerError::Refused { endpoint, fault },
            HandshakeError::RefusedThere(reason) => PeerError::RefusedThere { endpoint, reason },
        }
    }
}

/// Converts a TLS error to the fault of the other side.
pub(super) fn fault_of(error: &rustls::Error) -> Fault {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidMessage(_) => Fault::Plain,
        Tls::NoCertificatesPresented => Fault::Unproved("it has no certificate".to_owned()),
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            Fault::Unproved("its certificate is of another authority".to_owned())
        }
        Tls::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            Fault::Unproved(format!("its certificate expired, its last day was {}", Day::of(*not_after)))
        }
        Tls::InvalidCertificate(why) => Fault::Unproved(format!("its certificate: {why}")),
        other => Fault::Unproved(format!("TLS: {other}")),
    }
}

/// Returns an error if the bytes are TLS, from a process that requires it. A TLS record header
/// would announce a length that no message has, so the two cannot be confused.
fn check_not_tls(received: &[u8]) -> Result<(), HandshakeError> {
    match received {
        [22, 3, ..] => Err(HandshakeError::Refused(Fault::Secured)),
        [21, 3, ..] => Err(HandshakeError::RefusedThere(Fault::Plain.to_string())),
        _ => Ok(()),
    }
}

/// Returns the deadline of a handshake that begins now.
pub(super) fn handshake_end() -> Nanos {
    Hardware::now(Hardware::core()).plus(HANDSHAKE_NANOS)
}

/// Runs TLS over a connected socket.
pub(super) fn secure(
    socket: OwnedFd,
    tls: Result<rustls::Connection, rustls::Error>,
    end: Nanos,
) -> Result<Arc<Secured>, HandshakeError> {
    let refused = |error: &rustls::Error| HandshakeError::of_tls(error);
    match Secured::new(socket, tls.map_err(|error| refused(&error))?, end) {
        Ok(secured) => Ok(Arc::new(secured)),
        Err(TlsHandshakeError::System(error)) => Err(HandshakeError::System("TLS", error)),
        Err(TlsHandshakeError::Silent) => Err(HandshakeError::Silent),
        Err(TlsHandshakeError::Gone) => Err(HandshakeError::Gone),
        Err(TlsHandshakeError::Refused(error)) => Err(refused(&error)),
    }
}

/// Receives 1 to `most` decrypted bytes.
pub(super) fn receive_secured(secured: &Secured, most: usize, end: Nanos) -> Result<Vec<u8>, HandshakeError> {
    let mut bytes = vec![0; most];
    loop {
        let taken = secured.take(&mut bytes);
        if taken > 0 {
            bytes.truncate(taken);
            return Ok(bytes);
        }
        if !secured.has_some() {
            secured.wait(Some(end)).map_err(HandshakeError::of_io("ppoll"))?;
        }
        match secured.read_more() {
            Ok(Progress::Some | Progress::Nothing) => {}
            Ok(Progress::Ended | Progress::Cut) => return Err(HandshakeError::Gone),
            Err(TlsReadError::System(error)) => return Err(HandshakeError::of_io("recv")(error)),
            Err(TlsReadError::Refused(error)) => return Err(HandshakeError::of_tls(&error)),
        }
    }
}

/// A connected socket.
pub(super) enum Socket {
    Packets(OwnedFd),
    Stream(OwnedFd),
    Secured(Arc<Secured>),
}

/// A listening socket.
pub(super) enum Bound {
    Packets(OwnedFd),
    Stream(TcpListener),
}

fn packets() -> io::Result<OwnedFd> {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socket_with(kind.0, kind.1, kind.2, None)?)
}

/// Binds a path, which may be left over from a dead process.
pub(super) fn bind_path(path: &Path) -> io::Result<Bound> {
    let address = SocketAddrUnix::new(path)?;
    let socket = packets()?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if rustix::net::connect(packets()?, &address) == Err(Errno::CONNREFUSED) => {
            rustix::fs::unlink(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        other => other?,
    }
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    // A connection may be closed between `poll` and `accept`.
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Bound::Packets(socket))
}

impl Bound {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Bound::Packets(socket) => socket.as_fd(),
            Bound::Stream(listener) => listener.as_fd(),
        }
    }

    /// Accepts the next connection, after `poll` has reported one.
    pub(super) fn accept(&self) -> io::Result<Socket> {
        match self {
            Bound::Packets(socket) => {
                Ok(Socket::Packets(rustix::net::accept_with(socket, SocketFlags::CLOEXEC)?))
            }
            Bound::Stream(listener) => Ok(stream(listener.accept()?.0)),
        }
    }
}

pub(super) fn connect_path(path: &Path) -> io::Result<Socket> {
    let socket = packets()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Socket::Packets(socket))
}

/// Makes a TCP connection send without delay, and detect a lost peer.
pub(super) fn watched(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_keepcnt(stream, 1)?;
    Ok(sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?)
}

/// Wraps a TCP connection.
pub(super) fn stream(stream: TcpStream) -> Socket {
    Socket::Stream(stream.into())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}

impl Socket {
    pub(super) fn descriptor(&self) -> &OwnedFd {
        match self {
            Socket::Packets(socket) | Socket::Stream(socket) => socket,
            Socket::Secured(secured) => secured.socket(),
        }
    }

    /// Returns how the socket delimits messages.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Socket::Packets(_) => Kind::Packets,
            Socket::Stream(_) | Socket::Secured(_) => Kind::Socket,
        }
    }

    /// Runs TLS, if the socket is TCP.
    pub(super) fn secure(
        self,
        tls: Result<rustls::Connection, rustls::Error>,
        end: Nanos,
    ) -> Result<Socket, HandshakeError> {
        match self {
            Socket::Stream(socket) => secure(socket, tls, end).map(Socket::Secured),
            other => Ok(other),
        }
    }

    /// Enables the detection of a lost peer, if the socket is TCP.
    pub(super) fn watched(self) -> io::Result<Socket> {
        match self {
            Socket::Stream(socket) => {
                let socket = TcpStream::from(socket);
                watched(&socket)?;
                Ok(Socket::Stream(socket.into()))
            }
            other => Ok(other),
        }
    }

    /// Lets the other side of a network connection read the last message.
    pub(super) fn linger(&self) {
        match self {
            Socket::Packets(_) => {}
            Socket::Stream(socket) => linger(socket),
            Socket::Secured(secured) => secured.linger(),
        }
    }

    /// Returns the TLS connection, if there is one.
    pub(super) fn secured(&self) -> Option<Arc<Secured>> {
        if let Socket::Secured(secured) = self { Some(Arc::clone(secured)) } else { None }
    }

    /// Returns the user of the other process, if the kernel knows it.
    pub(super) fn user(&self) -> io::Result<Option<u32>> {
        match self {
            Socket::Packets(socket) => Ok(Some(sockopt::socket_peercred(socket)?.uid.as_raw())),
            Socket::Stream(_) | Socket::Secured(_) => Ok(None),
        }
    }

    /// Sends a message, with descriptors if the socket is local. A new socket has room for it.
    pub(super) fn send_message(
        &self,
        message: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<(), HandshakeError> {
        let mut framed = Vec::new();
        frame::seal(message, &mut framed);
        if let Socket::Secured(secured) = self {
            return secured.send(&framed, Some(handshake_end())).map_err(HandshakeError::of_io("send"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(self.descriptor(), &[IoSlice::new(&framed)], &mut control, flags) {
            Ok(sent) if sent == framed.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(HandshakeError::Silent),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(HandshakeError::Gone),
            Err(error) => Err(HandshakeError::of("sendmsg")(error)),
        }
    }

    /// Receives a message before `end`, with its descriptors.
    pub(super) fn receive_message(&self, end: Nanos) -> Result<(Vec<u8>, Vec<OwnedFd>), HandshakeError> {
        let mut files = Vec::new();
        let mut received = Vec::new();
        match self {
            Socket::Packets(_) => {
                // One byte more than the longest message, so that a longer one is detected.
                let bytes =
                    self.receive_some(FRAME_HEADER_BYTES + HANDSHAKE_BYTES_MAX + 1, &mut files, end)?;
                let message =
                    frame::open_whole(&bytes, HANDSHAKE_BYTES_MAX).map_err(HandshakeError::Frame)?;
                Ok((message.to_vec(), files))
            }
            Socket::Stream(_) | Socket::Secured(_) => loop {
                check_not_tls(&received)?;
                if let Some(message) =
                    frame::open(&received, HANDSHAKE_BYTES_MAX).map_err(HandshakeError::Frame)?
                {
                    return Ok((message.to_vec(), files));
                }
                // No more than this message: the next bytes belong to the link.
                let announced =
                    received.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize);
                let wanted = announced.map_or(4, |length| FRAME_HEADER_BYTES + length) - received.len();
                received.extend(self.receive_some(wanted, &mut files, end)?);
            },
        }
    }

    /// Receives 1 to `most` bytes.
    fn receive_some(
        &self,
        most: usize,
        files: &mut Vec<OwnedFd>,
        end: Nanos,
    ) -> Result<Vec<u8>, HandshakeError> {
        if let Socket::Secured(secured) = self {
            return receive_secured(secured, most, end);
        }
        let socket = self.descriptor();
        loop {
            let left = end.since(Hardware::now(Hardware::core()));
            if !poll(std::iter::once(socket.as_raw_fd()), left)
                .map_err(|error| HandshakeError::System("ppoll", error))?
            {
                if left == 0 {
                    return Err(HandshakeError::Silent);
                }
                continue;
            }
            let mut bytes = vec![0; most];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut into = [IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(socket, &mut into, &mut control, flags) {
                Ok(received) => {
                    for message in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(rights) = message {
                            files.extend(rights);
                        }
                    }
                    if received.bytes == 0 {
                        return Err(HandshakeError::Gone);
                    }
                    bytes.truncate(received.bytes);
                    return Ok(bytes);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(HandshakeError::Gone),
                Err(error) => return Err(HandshakeError::of("recvmsg")(error)),
            }
        }
    }
}
