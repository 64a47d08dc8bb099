//! The sockets over which processes meet: messages of the handshake, and descriptors that go with
//! them.

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
use super::hello::SAID_BYTES_MAX;
use super::secured::{Secured, Unread, Unsecured, linger};
use super::validity::Day;

/// Descriptors that go with a message at most: a ring's memory and a bell's.
pub(super) const FILES_MAX: usize = 2;
/// Processes that wait to be accepted.
const BACKLOG: i32 = 128;
/// How long a process that has connected may take to say hello, or to answer one.
pub(super) const HANDSHAKE_NANOS: u64 = 1_000_000_000;
/// After so long without an answer to what was sent the other machine is gone.
const SILENCE: Duration = Duration::from_millis(700);
/// After so long in which nothing is sent or comes the other machine is asked, and after as long
/// again it is gone: the kernel counts seconds.
const PROBE: Duration = Duration::from_secs(1);

/// Why nothing was heard.
pub(super) enum Unheard {
    /// The operating system refused.
    System(&'static str, io::Error),
    /// Not in time.
    Silent,
    /// The other process closed the connection.
    Gone,
    /// What came is not framed.
    Frame(FrameError),
    /// The other process is refused, and knows it.
    Refused(Fault),
    /// The other process refuses this one.
    RefusedThere(String),
}

impl Unheard {
    fn of(call: &'static str) -> impl Fn(Errno) -> Unheard {
        move |error| Unheard::System(call, error.into())
    }

    /// The same of the operating system's words.
    pub(super) fn of_io(call: &'static str) -> impl Fn(io::Error) -> Unheard {
        move |error| match error.kind() {
            ErrorKind::TimedOut => Unheard::Silent,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Unheard::Gone,
            _ => Unheard::System(call, error),
        }
    }

    /// What TLS says.
    fn of_tls(error: &rustls::Error) -> Unheard {
        match error {
            rustls::Error::AlertReceived(alert) => Unheard::RefusedThere(match alert {
                AlertDescription::CertificateRequired => "it demands a certificate".to_owned(),
                AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                    "the certificate is of another authority".to_owned()
                }
                AlertDescription::CertificateExpired => "the certificate has expired".to_owned(),
                other => format!("TLS: {other:?}"),
            }),
            other => Unheard::Refused(fault_of(other)),
        }
    }

    /// What it means for a connection to or from this endpoint.
    pub(super) fn at(self, endpoint: &Endpoint) -> PeerError {
        let endpoint = endpoint.clone();
        match self {
            Unheard::System(call, error) => PeerError::System { endpoint, call, error },
            Unheard::Silent => PeerError::Silent(endpoint),
            Unheard::Gone => PeerError::Gone(endpoint),
            Unheard::Frame(error) => PeerError::Refused { endpoint, fault: error.into() },
            Unheard::Refused(fault) => PeerError::Refused { endpoint, fault },
            Unheard::RefusedThere(reason) => PeerError::RefusedThere { endpoint, reason },
        }
    }
}

/// What is wrong with the other side of a connection that TLS does not let through.
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

/// Whether it is not TLS, of a process that demands it. No message is as long as TLS would
/// announce.
fn check_plain(heard: &[u8]) -> Result<(), Unheard> {
    match heard {
        [22, 3, ..] => Err(Unheard::Refused(Fault::Secured)),
        [21, 3, ..] => Err(Unheard::RefusedThere(Fault::Plain.to_string())),
        _ => Ok(()),
    }
}

/// When a process that connects now must have said what it has to say.
pub(super) fn handshake_end() -> Nanos {
    Hardware::now(Hardware::core()).plus(HANDSHAKE_NANOS)
}

/// A connected socket, secured.
pub(super) fn secure(
    socket: OwnedFd,
    tls: Result<rustls::Connection, rustls::Error>,
    end: Nanos,
) -> Result<Arc<Secured>, Unheard> {
    let refused = |error: &rustls::Error| Unheard::of_tls(error);
    match Secured::new(socket, tls.map_err(|error| refused(&error))?, end) {
        Ok(secured) => Ok(Arc::new(secured)),
        Err(Unsecured::System(error)) => Err(Unheard::System("TLS", error)),
        Err(Unsecured::Silent) => Err(Unheard::Silent),
        Err(Unsecured::Gone) => Err(Unheard::Gone),
        Err(Unsecured::Refused(error)) => Err(refused(&error)),
    }
}

/// At most so many decrypted bytes, and at least one.
pub(super) fn hear_secured(secured: &Secured, most: usize, end: Nanos) -> Result<Vec<u8>, Unheard> {
    let mut bytes = vec![0; most];
    loop {
        let taken = secured.take(&mut bytes);
        if taken > 0 {
            bytes.truncate(taken);
            return Ok(bytes);
        }
        if !secured.has_some() {
            secured.wait(Some(end)).map_err(Unheard::of_io("ppoll"))?;
        }
        match secured.read_more() {
            Ok(Progress::Some | Progress::Nothing) => {}
            Ok(Progress::Ended | Progress::Cut) => return Err(Unheard::Gone),
            Err(Unread::System(error)) => return Err(Unheard::of_io("recv")(error)),
            Err(Unread::Refused(error)) => return Err(Unheard::of_tls(&error)),
        }
    }
}

/// A connected socket.
pub(super) enum Socket {
    Packets(OwnedFd),
    Stream(OwnedFd),
    Secured(Arc<Secured>),
}

/// A socket that others connect to.
pub(super) enum Bound {
    Packets(OwnedFd),
    Stream(TcpListener),
}

fn packets() -> io::Result<OwnedFd> {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socket_with(kind.0, kind.1, kind.2, None)?)
}

/// Binds a path, which may be left over from a process that is gone.
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
    // Somebody may go away between `poll` and `accept`.
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

    /// The next connection: there is one, as `poll` has said.
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

/// Makes a TCP connection send without delay and notice when nobody is there any more.
pub(super) fn watched(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_keepcnt(stream, 1)?;
    Ok(sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?)
}

/// A TCP connection.
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

    /// How messages are told apart on it.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Socket::Packets(_) => Kind::Packets,
            Socket::Stream(_) | Socket::Secured(_) => Kind::Socket,
        }
    }

    /// The same, secured: what crosses machines can be.
    pub(super) fn secure(
        self,
        tls: Result<rustls::Connection, rustls::Error>,
        end: Nanos,
    ) -> Result<Socket, Unheard> {
        match self {
            Socket::Stream(socket) => secure(socket, tls, end).map(Socket::Secured),
            other => Ok(other),
        }
    }

    /// The same, which notices when nobody is there any more: what crosses machines has to.
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

    /// Lets the other side of a network read what was said last.
    pub(super) fn linger(&self) {
        match self {
            Socket::Packets(_) => {}
            Socket::Stream(socket) => linger(socket),
            Socket::Secured(secured) => secured.linger(),
        }
    }

    /// What secures it.
    pub(super) fn secured(&self) -> Option<Arc<Secured>> {
        if let Socket::Secured(secured) = self { Some(Arc::clone(secured)) } else { None }
    }

    /// The user of the other process, where the kernel knows.
    pub(super) fn user(&self) -> io::Result<Option<u32>> {
        match self {
            Socket::Packets(socket) => Ok(Some(sockopt::socket_peercred(socket)?.uid.as_raw())),
            Socket::Stream(_) | Socket::Secured(_) => Ok(None),
        }
    }

    /// Says something, with descriptors that go with it on sockets of this machine. A fresh socket
    /// has room for it.
    pub(super) fn say(&self, said: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Unheard> {
        let mut framed = Vec::new();
        frame::seal(said, &mut framed);
        if let Socket::Secured(secured) = self {
            return secured.send(&framed, Some(handshake_end())).map_err(Unheard::of_io("send"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(self.descriptor(), &[IoSlice::new(&framed)], &mut control, flags) {
            Ok(sent) if sent == framed.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Unheard::Silent),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Unheard::Gone),
            Err(error) => Err(Unheard::of("sendmsg")(error)),
        }
    }

    /// Hears something before `end`, and takes the descriptors that came with it.
    pub(super) fn hear(&self, end: Nanos) -> Result<(Vec<u8>, Vec<OwnedFd>), Unheard> {
        let mut files = Vec::new();
        let mut heard = Vec::new();
        match self {
            Socket::Packets(_) => {
                // One more than the longest, so that what is longer shows.
                let bytes = self.some(FRAME_HEADER_BYTES + SAID_BYTES_MAX + 1, &mut files, end)?;
                let said = frame::open_whole(&bytes, SAID_BYTES_MAX).map_err(Unheard::Frame)?;
                Ok((said.to_vec(), files))
            }
            Socket::Stream(_) | Socket::Secured(_) => loop {
                check_plain(&heard)?;
                if let Some(said) = frame::open(&heard, SAID_BYTES_MAX).map_err(Unheard::Frame)? {
                    return Ok((said.to_vec(), files));
                }
                // No more than this message: the next bytes belong to the link.
                let announced = heard.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize);
                let wanted = announced.map_or(4, |length| FRAME_HEADER_BYTES + length) - heard.len();
                heard.extend(self.some(wanted, &mut files, end)?);
            },
        }
    }

    /// At most so many bytes, and at least one.
    fn some(&self, most: usize, files: &mut Vec<OwnedFd>, end: Nanos) -> Result<Vec<u8>, Unheard> {
        if let Socket::Secured(secured) = self {
            return hear_secured(secured, most, end);
        }
        let socket = self.descriptor();
        loop {
            let left = end.since(Hardware::now(Hardware::core()));
            if !poll(std::iter::once(socket.as_raw_fd()), left)
                .map_err(|error| Unheard::System("ppoll", error))?
            {
                if left == 0 {
                    return Err(Unheard::Silent);
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
                        return Err(Unheard::Gone);
                    }
                    bytes.truncate(received.bytes);
                    return Ok(bytes);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Unheard::Gone),
                Err(error) => return Err(Unheard::of("recvmsg")(error)),
            }
        }
    }
}
