//! The handshake: binding, connecting, and the exchange of hello and welcome that leads to a link.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use platform::between::{
    FileReceiver, FileSender, Life, SecureBytes, SharedReceiver, SharedSender, file_end, poll, ring_bytes,
    ring_end,
};
use platform::link::{Bell, End, KernelMechanism, Limits, Mechanism, Patience, Side};
use platform::{
    Hardware, HardwareCore, HardwareRegion, LINE_BYTES, Nanos, Node, OutOfMemory, Platform, SharedMemory,
};

use super::credentials::Trust;
use super::endpoint::Endpoint;
use super::error::{Fault, PeerError};
use super::hello::{HandshakeMessage, Hello};
use super::peer::Peer;
use super::reception::Reception;
use super::socket::{
    Bound, HANDSHAKE_NANOS, HandshakeError, Socket, bind_path, connect_path, handshake_end, stream,
};

/// Pause between two attempts to connect.
const RETRY_NANOS: u64 = 1_000_000;

/// A bell in shared memory at which a worker waits and which other processes can ring.
#[derive(Clone)]
pub struct Doorbell {
    side: Side<Hardware>,
    memory: Arc<SharedMemory>,
}

impl Doorbell {
    /// Allocates a bell in memory of the worker's node.
    ///
    /// # Errors
    /// Memory was refused.
    pub fn new(c: HardwareCore, node: Option<Node>) -> Result<Self, OutOfMemory> {
        let (region, memory) = Hardware::shared_region(c, node, LINE_BYTES, "bell")?;
        Ok(Doorbell { side: Side { bell: Arc::new(Bell::within(region)), node }, memory: Arc::new(memory) })
    }

    /// Returns the bell for links within this process.
    pub fn side(&self) -> &Side<Hardware> {
        &self.side
    }
}

/// Identity of a listening process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As in [`Hello::version`].
    pub version: u32,
    /// As in [`Hello::deployment`].
    pub deployment: u64,
    /// The number of its instance.
    pub instance: u16,
}

/// A link to another process.
pub struct Connection {
    /// This process's end.
    pub end: End<Hardware>,
    /// The hello or welcome of the other process.
    pub peer: Hello,
}

/// Decides if a process is admitted: returns the bell and the message limits of the requested
/// worker, or the reason for a refusal.
pub type AdmitPeer<'a> = dyn FnMut(&Hello) -> Result<(Doorbell, Limits), String> + 'a;

/// Accepts connections of other processes.
pub struct Listener {
    bound: Bound,
    endpoint: Endpoint,
    identity: Identity,
    /// Names that processes of other machines have to prove; `None`: no TLS.
    trust: Option<Trust>,
    /// Existing connections: remote peer, own peer, and the life of the connection.
    connected: Vec<(Peer, Peer, Weak<Life>)>,
    reception: Reception<IdentifiedGuest>,
}

/// A guest that has sent its hello, or the error that ended its handshake.
type IdentifiedGuest = Result<(HandshakeSocket, Hello, Vec<OwnedFd>), PeerError>;

/// A socket during the handshake, its endpoint for errors, and the deadline of the handshake.
struct HandshakeSocket {
    socket: Socket,
    endpoint: Endpoint,
    end: Nanos,
}

impl HandshakeSocket {
    fn failed(&self, error: HandshakeError) -> PeerError {
        error.at(&self.endpoint)
    }

    /// Refuses the other process, and sends it the reason.
    fn refuse(&self, fault: Fault) -> PeerError {
        // If the reason cannot be sent, the other process sees the closed connection.
        let _ = self.socket.send_message(&HandshakeMessage::Refusal(fault.to_string()).encode(), &[]);
        self.socket.linger();
        PeerError::Refused { endpoint: self.endpoint.clone(), fault }
    }

    fn receive_message(&self) -> Result<(HandshakeMessage, Vec<OwnedFd>), PeerError> {
        let (message, files) = match self.socket.receive_message(self.end) {
            Err(HandshakeError::Frame(error)) => return Err(self.refuse(error.into())),
            Err(HandshakeError::Refused(fault)) => return Err(self.refuse(fault)),
            other => other.map_err(|error| self.failed(error))?,
        };
        let message = HandshakeMessage::decode(&message).map_err(|fault| self.refuse(fault))?;
        Ok((message, files))
    }
}

/// Resources of this side for the messages that it will receive.
struct LocalSide {
    /// The ring of `shm`.
    ring: Option<(HardwareRegion, SharedMemory)>,
    mechanism: Mechanism,
    doorbell: Doorbell,
    limits: Limits,
}

impl LocalSide {
    fn new(
        c: HardwareCore,
        mechanism: Mechanism,
        doorbell: Doorbell,
        limits: Limits,
    ) -> Result<LocalSide, PeerError> {
        limits.check()?;
        let ring = match mechanism {
            Mechanism::SharedMemory => {
                Some(Hardware::shared_region(c, doorbell.side.node, ring_bytes(limits), "link")?)
            }
            Mechanism::Kernel(_) => None,
        };
        Ok(LocalSide { ring, mechanism, doorbell, limits })
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        let ring = self.ring.as_ref().map(|(_, memory)| memory.as_fd());
        let bell =
            (self.mechanism != Mechanism::Kernel(KernelMechanism::Tcp)).then(|| self.doorbell.memory.as_fd());
        ring.into_iter().chain(bell).collect()
    }

    /// Makes this side's end of a link to the process that sent `peer` and passed `remote`.
    fn end(
        self,
        socket: &HandshakeSocket,
        peer: Hello,
        remote: Option<RemoteSide>,
    ) -> Result<(End<Hardware>, Arc<Life>), PeerError> {
        let copied = || {
            let copy = socket.socket.descriptor().try_clone();
            copy.map_err(|error| socket.failed(HandshakeError::System("dup", error)))
        };
        let life = Arc::new(Life::new(copied()?));
        let (sent_max, received_max) = (peer.limits.message_bytes_max, self.limits.message_bytes_max);
        let end = match (self.ring, remote) {
            (Some((local, _)), Some(RemoteSide { ring: Some(ring), bell })) => {
                let waiting = Arc::clone(&self.doorbell.side.bell);
                let sender = SharedSender::new(ring, bell, peer.limits, Arc::clone(&life));
                ring_end(sender, SharedReceiver::new(local, waiting, self.limits, Arc::clone(&life)))
            }
            (_, remote) => {
                let bell = remote.map(|remote| Arc::new(remote.bell));
                let (kind, peer) = (socket.socket.kind(), || Some(Arc::clone(&life)));
                let secured = || socket.socket.secured().map(|secured| secured as Arc<dyn SecureBytes>);
                let sender = FileSender::new(copied()?, kind, peer()).secured(secured());
                let receiver = FileReceiver::new(copied()?, kind, received_max, peer());
                let receiver = receiver.secured(secured()).rung(bell.is_some());
                file_end(sender.ringing(bell), receiver)
            }
        };
        Ok((End::of_platform(end, sent_max, received_max), life))
    }
}

/// Resources of the other side for the messages that it will receive.
struct RemoteSide {
    /// The ring of `shm`.
    ring: Option<HardwareRegion>,
    bell: Bell<Hardware>,
}

impl RemoteSide {
    /// Maps the memory passed by the other side; `None` for `tcp`, which passes none.
    fn of(c: HardwareCore, peer: &Hello, files: Vec<OwnedFd>) -> Result<Option<RemoteSide>, Fault> {
        if peer.mechanism == Mechanism::Kernel(KernelMechanism::Tcp) {
            return Ok(None);
        }
        let mapped = |memory: OwnedFd, bytes: usize| -> Result<HardwareRegion, Fault> {
            let memory = SharedMemory::of(memory).map_err(|error| Fault::Memory(error.to_string()))?;
            if memory.bytes() < bytes {
                return Err(Fault::Memory(format!("{} bytes and not {bytes}", memory.bytes())));
            }
            memory.map(c, "link").map_err(|error| Fault::Memory(error.to_string()))
        };
        let (has_ring, found) = (peer.mechanism == Mechanism::SharedMemory, files.len());
        let mut files = files.into_iter();
        let ring = if has_ring { files.next() } else { None };
        let (Some(bell), None, true) = (files.next(), files.next(), has_ring == ring.is_some()) else {
            return Err(Fault::Memory(format!("{found} descriptors and not {}", 1 + usize::from(has_ring))));
        };
        let ring = ring.map(|ring| mapped(ring, ring_bytes(peer.limits))).transpose()?;
        Ok(Some(RemoteSide { ring, bell: Bell::within(mapped(bell, LINE_BYTES)?) }))
    }
}

/// Checks that the transport fits the endpoint.
fn check_mechanism(endpoint: &Endpoint, mechanism: Mechanism) -> Result<(), Fault> {
    match (endpoint, mechanism) {
        (Endpoint::Path(_), Mechanism::SharedMemory | Mechanism::Kernel(KernelMechanism::Unix))
        | (Endpoint::Network(_), Mechanism::Kernel(KernelMechanism::Tcp)) => Ok(()),
        _ => Err(Fault::Mechanism(mechanism.name())),
    }
}

impl Listener {
    /// Listens at an endpoint. A path left behind by a dead process is reused.
    ///
    /// # Errors
    /// The operating system refuses, for instance because another process listens there.
    pub fn bind(_: HardwareCore, endpoint: &Endpoint, identity: Identity) -> Result<Listener, PeerError> {
        let failed = |call, error| PeerError::System { endpoint: endpoint.clone(), call, error };
        let (bound, endpoint) = match endpoint {
            Endpoint::Path(path) => {
                (bind_path(path).map_err(|error| failed("bind", error))?, endpoint.clone())
            }
            Endpoint::Network(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(|error| failed("bind", error))?;
                let address = listener.local_addr().map_err(|error| failed("getsockname", error))?;
                // A connection may be closed between `poll` and `accept`.
                listener.set_nonblocking(true).map_err(|error| failed("fcntl", error))?;
                (Bound::Stream(listener), Endpoint::Network(address))
            }
        };
        let reception = Reception::new().map_err(|error| failed("socketpair", error))?;
        Ok(Listener { bound, endpoint, identity, trust: None, connected: Vec::new(), reception })
    }

    /// Handles guests one at a time, so that each waits for all before it: a fault planted for
    /// tests.
    #[doc(hidden)]
    #[must_use]
    pub fn one_at_a_time(mut self) -> Listener {
        self.reception.one_at_a_time();
        self
    }

    /// Requires peers to prove by a certificate that they are the instances in their hellos.
    #[must_use]
    pub fn demanding(mut self, trust: Option<Trust>) -> Listener {
        self.trust = trust;
        self
    }

    /// Returns the endpoint, with the port chosen by the operating system if port 0 was requested.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Accepts the next process that completes its hello; `None` if there was none in time. Silent
    /// guests do not delay others.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::RefusedThere`], [`PeerError::Silent`] and
    /// [`PeerError::Gone`]: a process connected and was refused, or left. The listener continues to
    /// listen after any error.
    pub fn accept(
        &mut self,
        c: HardwareCore,
        door: &mut AdmitPeer<'_>,
        patience: Patience,
    ) -> Result<Option<Connection>, PeerError> {
        let endpoint = self.endpoint.clone();
        let failed = |call, error| PeerError::System { endpoint: endpoint.clone(), call, error };
        loop {
            let left = patience.deadline().map_or(HANDSHAKE_NANOS, |end| end.since(Hardware::now(c)));
            let left = if patience == Patience::None { 0 } else { left };
            if let Some(introduced) = self.reception.take_identified() {
                let (socket, hello, files) = introduced?;
                return self.admit(c, &socket, hello, files, door).map(Some);
            }
            // Connections wait in the kernel's backlog while the reception is full and evicts no
            // guests.
            let door = self.reception.has_room() || self.reception.sends_away();
            let door = door.then(|| self.bound.descriptor().as_raw_fd());
            let descriptors = door.into_iter().chain([self.reception.descriptor()]);
            let came = poll(descriptors, left).map_err(|error| failed("ppoll", error))?;
            if came && door.is_some() {
                self.receive().map_err(|error| failed("accept", error))?;
            } else if !came && patience.is_over::<Hardware>(c) {
                return Ok(None);
            }
        }
    }

    /// Accepts a socket and begins its handshake.
    fn receive(&mut self) -> io::Result<()> {
        let socket = match self.bound.accept() {
            Ok(socket) => socket,
            // There is no connection, or it was closed again. If descriptors are used up, guests
            // release them soon.
            Err(error) if may_accept_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (endpoint, trust, end) = (self.endpoint.clone(), self.trust.clone(), handshake_end());
        self.reception.receive(socket, move |socket| identify_guest(socket, endpoint, trust.as_ref(), end));
        Ok(())
    }

    fn admit(
        &mut self,
        c: HardwareCore,
        socket: &HandshakeSocket,
        hello: Hello,
        files: Vec<OwnedFd>,
        door: &mut AdmitPeer<'_>,
    ) -> Result<Connection, PeerError> {
        self.check(&hello).map_err(|fault| socket.refuse(fault))?;
        let remote = RemoteSide::of(c, &hello, files).map_err(|fault| socket.refuse(fault))?;
        let (doorbell, limits) = door(&hello).map_err(|reason| socket.refuse(Fault::Unwanted(reason)))?;
        let local = LocalSide::new(c, hello.mechanism, doorbell, limits)?;
        let admit = Hello { from: hello.to, to: hello.from, limits, ..hello };
        socket
            .socket
            .send_message(&HandshakeMessage::Welcome(admit).encode(), &local.files())
            .map_err(|error| socket.failed(error))?;
        let (end, life) = local.end(socket, hello, remote)?;
        self.connected.push((hello.from, hello.to, Arc::downgrade(&life)));
        Ok(Connection { end, peer: hello })
    }

    /// Checks that the hello is meant for this process and may be admitted.
    fn check(&mut self, hello: &Hello) -> Result<(), Fault> {
        let Identity { version, deployment, instance } = self.identity;
        check_same(hello, version, deployment)?;
        check_mechanism(&self.endpoint, hello.mechanism)?;
        if hello.to.instance != instance {
            let found = Peer { instance, ..hello.to };
            return Err(Fault::WrongPeer { found, wanted: hello.to });
        }
        self.connected.retain(|(_, _, life)| life.upgrade().is_some_and(|life| !life.poll_closed()));
        if self.connected.iter().any(|(from, to, _)| (*from, *to) == (hello.from, hello.to)) {
            return Err(Fault::Duplicate(hello.from));
        }
        Ok(())
    }
}

/// Returns true if a later `accept` may succeed.
fn may_accept_later(error: &io::Error) -> bool {
    let known = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted);
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let lacks = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOBUFS];
    known || errno.is_some_and(|errno| lacks.contains(&errno))
}

/// Authenticates a guest, if required, and receives its hello.
fn identify_guest(socket: Socket, endpoint: Endpoint, trust: Option<&Trust>, end: Nanos) -> IdentifiedGuest {
    // An error of the operating system for one guest is not an error of the listener.
    let local = |error: PeerError| match error {
        PeerError::System { endpoint, call, error } => {
            PeerError::Refused { endpoint, fault: Fault::Unwanted(format!("{call}: {error}")) }
        }
        other => other,
    };
    let introduced = || {
        let socket =
            socket.watched().map_err(|error| HandshakeError::System("setsockopt", error).at(&endpoint))?;
        let socket = match trust {
            Some(trust) => socket.secure(trust.server_connection(), end).map_err(|why| why.at(&endpoint))?,
            None => socket,
        };
        let socket = HandshakeSocket { socket, endpoint, end };
        let remote = socket
            .socket
            .user()
            .map_err(|error| socket.failed(HandshakeError::System("getsockopt", error)))?;
        let ours = rustix::process::getuid().as_raw();
        if let Some(remote) = remote.filter(|remote| *remote != ours) {
            return Err(socket.refuse(Fault::User { theirs: remote, ours }));
        }
        let (message, files) = socket.receive_message()?;
        let HandshakeMessage::Hello(hello) = message else {
            return Err(socket.refuse(Fault::Garbage("an answer".to_owned())));
        };
        if let (Some(trust), Some(secured)) = (trust, socket.socket.secured()) {
            trust.check(&secured, hello.from.instance).map_err(|fault| socket.refuse(fault))?;
        }
        Ok((socket, hello, files))
    };
    introduced().map_err(local)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Endpoint::Path(path) = &self.endpoint {
            // A path that is left behind is reused later.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Checks that two processes have the same version of messages and the same deployment.
fn check_same(hello: &Hello, version: u32, deployment: u64) -> Result<(), Fault> {
    if hello.version != version {
        return Err(Fault::Version { theirs: hello.version, ours: version });
    }
    if hello.deployment != deployment {
        return Err(Fault::Deployment { theirs: hello.deployment, ours: deployment });
    }
    Ok(())
}

/// Connects to a process that listens at `endpoint`, or begins to listen there before `patience`
/// ends. `hello` identifies this side and contains the limits of messages to it; its worker waits
/// at `doorbell`.
///
/// Only one of two processes may connect to the other: if both connect before they accept, neither
/// succeeds.
///
/// # Errors
/// No process listens there, one side refuses the other one, or the operating system refuses.
pub fn connect(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    doorbell: &Doorbell,
    patience: Patience,
) -> Result<Connection, PeerError> {
    connect_trusting(c, endpoint, hello, doorbell, None, patience)
}

/// As [`connect`], to a network endpoint. With `trust`, both sides prove by certificates that they
/// are the instances in the hellos.
///
/// # Errors
/// As [`connect`].
pub fn connect_trusting(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    doorbell: &Doorbell,
    trust: Option<&Trust>,
    patience: Patience,
) -> Result<Connection, PeerError> {
    check_mechanism(endpoint, hello.mechanism)
        .map_err(|fault| PeerError::Refused { endpoint: endpoint.clone(), fault })?;
    loop {
        match try_connect(c, endpoint, hello, doorbell, trust, patience) {
            // The other side has too many guests or is busy; a later attempt may succeed.
            Err(PeerError::Silent(_) | PeerError::Gone(_)) if !patience.is_over::<Hardware>(c) => {
                Hardware::rest(c, RETRY_NANOS);
            }
            other => return other,
        }
    }
}

/// Makes one attempt to connect.
fn try_connect(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    doorbell: &Doorbell,
    trust: Option<&Trust>,
    patience: Patience,
) -> Result<Connection, PeerError> {
    let local = LocalSide::new(c, hello.mechanism, doorbell.clone(), hello.limits)?;
    let (socket, end) = (connect_socket(c, endpoint, patience)?, handshake_end());
    let socket = match trust {
        Some(trust) => {
            socket.secure(trust.client_connection(hello.to.instance), end).map_err(|why| why.at(endpoint))?
        }
        None => socket,
    };
    let socket = HandshakeSocket { socket, endpoint: endpoint.clone(), end };
    socket
        .socket
        .send_message(&HandshakeMessage::Hello(hello).encode(), &local.files())
        .map_err(|error| socket.failed(error))?;
    let (message, files) = socket.receive_message()?;
    let peer = match message {
        HandshakeMessage::Welcome(peer) => peer,
        HandshakeMessage::Refusal(reason) => {
            return Err(PeerError::RefusedThere { endpoint: endpoint.clone(), reason });
        }
        HandshakeMessage::Hello(_) => return Err(socket.refuse(Fault::Garbage("a question".to_owned()))),
    };
    let refused = |fault| PeerError::Refused { endpoint: endpoint.clone(), fault };
    check_same(&peer, hello.version, hello.deployment).map_err(refused)?;
    if (peer.from, peer.to, peer.mechanism) != (hello.to, hello.from, hello.mechanism) {
        return Err(refused(Fault::WrongPeer { found: peer.from, wanted: hello.to }));
    }
    let remote = RemoteSide::of(c, &peer, files).map_err(refused)?;
    let (end, _) = local.end(&socket, peer, remote)?;
    Ok(Connection { end, peer })
}

/// Connects a socket to the endpoint; tries again while no process listens there.
fn connect_socket(c: HardwareCore, endpoint: &Endpoint, patience: Patience) -> Result<Socket, PeerError> {
    loop {
        let left = match patience.deadline() {
            Some(end) => end.since(Hardware::now(c)).min(HANDSHAKE_NANOS),
            None => HANDSHAKE_NANOS,
        };
        let reached = match endpoint {
            Endpoint::Path(path) => connect_path(path),
            Endpoint::Network(address) => {
                let time = Duration::from_nanos(left.max(RETRY_NANOS));
                TcpStream::connect_timeout(address, time).and_then(|socket| stream(socket).watched())
            }
        };
        match reached {
            Ok(socket) => return Ok(socket),
            Err(error) if !may_listen_later(error.kind()) || patience.is_over::<Hardware>(c) => {
                return Err(PeerError::System { endpoint: endpoint.clone(), call: "connect", error });
            }
            Err(_) => Hardware::rest(c, RETRY_NANOS),
        }
    }
}

/// Returns true if a process may listen there later.
fn may_listen_later(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
