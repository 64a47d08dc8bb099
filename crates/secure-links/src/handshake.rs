//! How two processes come to have a link.

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
use super::hello::{Hello, Said};
use super::peer::Peer;
use super::reception::Reception;
use super::socket::{
    Bound, HANDSHAKE_NANOS, Socket, Unheard, bind_path, connect_path, handshake_end, stream,
};

/// Pause between two attempts to connect to an endpoint that is not there yet.
const RETRY_NANOS: u64 = 1_000_000;

/// Where a worker waits, and other processes can ring.
#[derive(Clone)]
pub struct Doorbell {
    side: Side<Hardware>,
    memory: Arc<SharedMemory>,
}

impl Doorbell {
    /// A bell in memory of the worker's node.
    ///
    /// # Errors
    /// Memory was refused.
    pub fn new(c: HardwareCore, node: Option<Node>) -> Result<Self, OutOfMemory> {
        let (region, memory) = Hardware::shared_region(c, node, LINE_BYTES, "bell")?;
        Ok(Doorbell { side: Side { bell: Arc::new(Bell::within(region)), node }, memory: Arc::new(memory) })
    }

    /// The same bell for links within this process.
    pub fn side(&self) -> &Side<Hardware> {
        &self.side
    }
}

/// What a listening process says of itself.
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
    /// What the other one has said.
    pub peer: Hello,
}

/// Says where the worker waits that a process looks for, and how many messages of which length that
/// worker takes, or why the process is not wanted.
pub type Door<'a> = dyn FnMut(&Hello) -> Result<(Doorbell, Limits), String> + 'a;

/// A process that others connect to.
pub struct Listener {
    bound: Bound,
    endpoint: Endpoint,
    identity: Identity,
    /// What processes of other machines have to prove, if anything.
    trust: Option<Trust>,
    /// Who is connected to whom here.
    connected: Vec<(Peer, Peer, Weak<Life>)>,
    reception: Reception<Introduced>,
}

/// A guest that has said who it is, or why it is sent away.
type Introduced = Result<(Met, Hello, Vec<OwnedFd>), PeerError>;

/// A socket, where it leads, for errors, and when the other side must have said what it has to say.
struct Met {
    socket: Socket,
    endpoint: Endpoint,
    end: Nanos,
}

impl Met {
    fn failed(&self, unheard: Unheard) -> PeerError {
        unheard.at(&self.endpoint)
    }

    /// Refuses the other process, and tells it why.
    fn refuse(&self, fault: Fault) -> PeerError {
        // Where it cannot be told, it sees that the connection is closed.
        let _ = self.socket.say(&Said::Refusal(fault.to_string()).encode(), &[]);
        self.socket.linger();
        PeerError::Refused { endpoint: self.endpoint.clone(), fault }
    }

    fn hear(&self) -> Result<(Said, Vec<OwnedFd>), PeerError> {
        let (said, files) = match self.socket.hear(self.end) {
            Err(Unheard::Frame(error)) => return Err(self.refuse(error.into())),
            Err(Unheard::Refused(fault)) => return Err(self.refuse(fault)),
            other => other.map_err(|unheard| self.failed(unheard))?,
        };
        let said = Said::decode(&said).map_err(|fault| self.refuse(fault))?;
        Ok((said, files))
    }
}

/// What one side hands over for the messages that it will receive.
struct Own {
    /// The ring of `shm`.
    ring: Option<(HardwareRegion, SharedMemory)>,
    mechanism: Mechanism,
    doorbell: Doorbell,
    limits: Limits,
}

impl Own {
    fn new(
        c: HardwareCore,
        mechanism: Mechanism,
        doorbell: Doorbell,
        limits: Limits,
    ) -> Result<Own, PeerError> {
        limits.check()?;
        let ring = match mechanism {
            Mechanism::SharedMemory => {
                Some(Hardware::shared_region(c, doorbell.side.node, ring_bytes(limits), "link")?)
            }
            Mechanism::Kernel(_) => None,
        };
        Ok(Own { ring, mechanism, doorbell, limits })
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        let ring = self.ring.as_ref().map(|(_, memory)| memory.as_fd());
        let bell =
            (self.mechanism != Mechanism::Kernel(KernelMechanism::Tcp)).then(|| self.doorbell.memory.as_fd());
        ring.into_iter().chain(bell).collect()
    }

    /// The end of a link to a process that has said `peer` and handed over `theirs`.
    fn end(
        self,
        met: &Met,
        peer: Hello,
        theirs: Option<Theirs>,
    ) -> Result<(End<Hardware>, Arc<Life>), PeerError> {
        let copied = || {
            let copy = met.socket.descriptor().try_clone();
            copy.map_err(|error| met.failed(Unheard::System("dup", error)))
        };
        let life = Arc::new(Life::new(copied()?));
        let bounds = (peer.limits.message_bytes_max, self.limits.message_bytes_max);
        let end = match (self.ring, theirs) {
            (Some((own, _)), Some(Theirs { ring: Some(ring), bell })) => {
                let waiting = Arc::clone(&self.doorbell.side.bell);
                let sender = SharedSender::new(ring, bell, peer.limits, Arc::clone(&life));
                ring_end(sender, SharedReceiver::new(own, waiting, self.limits, Arc::clone(&life)))
            }
            (_, theirs) => {
                let bell = theirs.map(|theirs| Arc::new(theirs.bell));
                let (kind, peer) = (met.socket.kind(), || Some(Arc::clone(&life)));
                let secured = || met.socket.secured().map(|secured| secured as Arc<dyn SecureBytes>);
                let sender = FileSender::new(copied()?, kind, peer()).secured(secured());
                let receiver = FileReceiver::new(copied()?, kind, bounds.1, peer());
                let receiver = receiver.secured(secured()).rung(bell.is_some());
                file_end(sender.ringing(bell), receiver)
            }
        };
        Ok((End::of_platform(end, bounds), life))
    }
}

/// What the other side has handed over for the messages that it will receive.
struct Theirs {
    /// The ring of `shm`.
    ring: Option<HardwareRegion>,
    bell: Bell<Hardware>,
}

impl Theirs {
    /// `None` where no memory is handed over.
    fn of(c: HardwareCore, peer: &Hello, files: Vec<OwnedFd>) -> Result<Option<Theirs>, Fault> {
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
        Ok(Some(Theirs { ring, bell: Bell::within(mapped(bell, LINE_BYTES)?) }))
    }
}

/// Whether messages can travel so from an endpoint.
fn check_mechanism(endpoint: &Endpoint, mechanism: Mechanism) -> Result<(), Fault> {
    match (endpoint, mechanism) {
        (Endpoint::Path(_), Mechanism::SharedMemory | Mechanism::Kernel(KernelMechanism::Unix))
        | (Endpoint::Network(_), Mechanism::Kernel(KernelMechanism::Tcp)) => Ok(()),
        _ => Err(Fault::Mechanism(mechanism.name())),
    }
}

impl Listener {
    /// Listens at an endpoint. A path is this process's from now on, also if another process has
    /// left it behind.
    ///
    /// # Errors
    /// The operating system refuses it, for instance because another process listens there.
    pub fn bind(_: HardwareCore, endpoint: &Endpoint, identity: Identity) -> Result<Listener, PeerError> {
        let failed = |call, error| PeerError::System { endpoint: endpoint.clone(), call, error };
        let (bound, endpoint) = match endpoint {
            Endpoint::Path(path) => {
                (bind_path(path).map_err(|error| failed("bind", error))?, endpoint.clone())
            }
            Endpoint::Network(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(|error| failed("bind", error))?;
                let address = listener.local_addr().map_err(|error| failed("getsockname", error))?;
                // Somebody may go away between `poll` and `accept`.
                listener.set_nonblocking(true).map_err(|error| failed("fcntl", error))?;
                (Bound::Stream(listener), Endpoint::Network(address))
            }
        };
        let reception = Reception::new().map_err(|error| failed("socketpair", error))?;
        Ok(Listener { bound, endpoint, identity, trust: None, connected: Vec::new(), reception })
    }

    /// The same with guests that come one at a time, so that each waits for all before it: what
    /// tests have to notice.
    #[doc(hidden)]
    #[must_use]
    pub fn one_at_a_time(mut self) -> Listener {
        self.reception.one_at_a_time();
        self
    }

    /// The same for nobody but those who prove that they are the instances that they say they are.
    #[must_use]
    pub fn demanding(mut self, trust: Option<Trust>) -> Listener {
        self.trust = trust;
        self
    }

    /// Where it listens: with the port that the system has chosen, if it was asked for port 0.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next process that connects and says who it is, `None` if none did in time. Those that
    /// say nothing are not waited for.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::RefusedThere`], [`PeerError::Silent`] and
    /// [`PeerError::Gone`]: a process came and was sent away, or went. The listener goes on
    /// listening, whatever the error.
    pub fn accept(
        &mut self,
        c: HardwareCore,
        door: &mut Door<'_>,
        patience: Patience,
    ) -> Result<Option<Connection>, PeerError> {
        let endpoint = self.endpoint.clone();
        let failed = |call, error| PeerError::System { endpoint: endpoint.clone(), call, error };
        loop {
            let left = patience.deadline().map_or(HANDSHAKE_NANOS, |end| end.since(Hardware::now(c)));
            let left = if patience == Patience::None { 0 } else { left };
            if let Some(introduced) = self.reception.take_heard() {
                let (met, hello, files) = introduced?;
                return self.welcome(c, &met, (hello, files), door).map(Some);
            }
            // What waits at the door of a reception that is full waits there.
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

    /// Hears whoever has connected.
    fn receive(&mut self) -> io::Result<()> {
        let socket = match self.bound.accept() {
            Ok(socket) => socket,
            // Nobody, or somebody who has gone again. Where nothing is left to hear anybody with,
            // guests give it back soon.
            Err(error) if may_accept_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (endpoint, trust, end) = (self.endpoint.clone(), self.trust.clone(), handshake_end());
        self.reception.receive(socket, move |socket| introduce(socket, endpoint, trust.as_ref(), end));
        Ok(())
    }

    fn welcome(
        &mut self,
        c: HardwareCore,
        met: &Met,
        (hello, files): (Hello, Vec<OwnedFd>),
        door: &mut Door<'_>,
    ) -> Result<Connection, PeerError> {
        self.check(&hello).map_err(|fault| met.refuse(fault))?;
        let theirs = Theirs::of(c, &hello, files).map_err(|fault| met.refuse(fault))?;
        let (doorbell, limits) = door(&hello).map_err(|reason| met.refuse(Fault::Unwanted(reason)))?;
        let own = Own::new(c, hello.mechanism, doorbell, limits)?;
        let welcome = Hello { from: hello.to, to: hello.from, limits, ..hello };
        met.socket
            .say(&Said::Welcome(welcome).encode(), &own.files())
            .map_err(|unheard| met.failed(unheard))?;
        let (end, life) = own.end(met, hello, theirs)?;
        self.connected.push((hello.from, hello.to, Arc::downgrade(&life)));
        Ok(Connection { end, peer: hello })
    }

    /// Whether this process is the one that the other one looks for, and the other one may come.
    fn check(&mut self, hello: &Hello) -> Result<(), Fault> {
        let Identity { version, deployment, instance } = self.identity;
        check_same(hello, version, deployment)?;
        check_mechanism(&self.endpoint, hello.mechanism)?;
        if hello.to.instance != instance {
            let found = Peer { instance, ..hello.to };
            return Err(Fault::WrongPeer { found, wanted: hello.to });
        }
        self.connected.retain(|(_, _, life)| life.upgrade().is_some_and(|life| !life.looks_closed()));
        if self.connected.iter().any(|(from, to, _)| (*from, *to) == (hello.from, hello.to)) {
            return Err(Fault::Duplicate(hello.from));
        }
        Ok(())
    }
}

/// True if another connection may be accepted later.
fn may_accept_later(error: &io::Error) -> bool {
    let known = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted);
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let lacks = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOBUFS];
    known || errno.is_some_and(|errno| lacks.contains(&errno))
}

/// Has a guest prove, if it has to, and say who it is.
fn introduce(socket: Socket, endpoint: Endpoint, trust: Option<&Trust>, end: Nanos) -> Introduced {
    // What the system refuses for one guest is no trouble of the listener.
    let local = |error: PeerError| match error {
        PeerError::System { endpoint, call, error } => {
            PeerError::Refused { endpoint, fault: Fault::Unwanted(format!("{call}: {error}")) }
        }
        other => other,
    };
    let introduced = || {
        let socket = socket.watched().map_err(|error| Unheard::System("setsockopt", error).at(&endpoint))?;
        let socket = match trust {
            Some(trust) => socket.secure(trust.answering(), end).map_err(|why| why.at(&endpoint))?,
            None => socket,
        };
        let met = Met { socket, endpoint, end };
        let theirs = met.socket.user().map_err(|error| met.failed(Unheard::System("getsockopt", error)))?;
        let ours = rustix::process::getuid().as_raw();
        if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
            return Err(met.refuse(Fault::User { theirs, ours }));
        }
        let (said, files) = met.hear()?;
        let Said::Hello(hello) = said else {
            return Err(met.refuse(Fault::Garbage("an answer".to_owned())));
        };
        if let (Some(trust), Some(secured)) = (trust, met.socket.secured()) {
            trust.check(&secured, hello.from.instance).map_err(|fault| met.refuse(fault))?;
        }
        Ok((met, hello, files))
    };
    introduced().map_err(local)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Endpoint::Path(path) = &self.endpoint {
            // A path that stays behind does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether two processes have the same messages and the same deployment.
fn check_same(hello: &Hello, version: u32, deployment: u64) -> Result<(), Fault> {
    if hello.version != version {
        return Err(Fault::Version { theirs: hello.version, ours: version });
    }
    if hello.deployment != deployment {
        return Err(Fault::Deployment { theirs: hello.deployment, ours: deployment });
    }
    Ok(())
}

/// Connects to a process that listens at `endpoint`, or will before the patience ends. `hello` says
/// who asks, and the bounds of the messages to this side, whose worker waits at `doorbell`.
///
/// Two processes that connect to each other before they accept wait in vain: of each two, one
/// listens.
///
/// # Errors
/// Nobody is there, one of the two refuses the other, or the operating system refuses.
pub fn connect(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    doorbell: &Doorbell,
    patience: Patience,
) -> Result<Connection, PeerError> {
    connect_trusting(c, endpoint, hello, (doorbell, None), patience)
}

/// As [`connect`], to an endpoint of a network whose process has to prove that it is the instance
/// that is looked for, and that demands the same of this one.
///
/// # Errors
/// As [`connect`].
pub fn connect_trusting(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    (doorbell, trust): (&Doorbell, Option<&Trust>),
    patience: Patience,
) -> Result<Connection, PeerError> {
    check_mechanism(endpoint, hello.mechanism)
        .map_err(|fault| PeerError::Refused { endpoint: endpoint.clone(), fault })?;
    loop {
        match ask(c, endpoint, hello, (doorbell, trust), patience) {
            // The other side has too many guests, or looks after somebody else: later it may have
            // time.
            Err(PeerError::Silent(_) | PeerError::Gone(_)) if !patience.is_over::<Hardware>(c) => {
                Hardware::rest(c, RETRY_NANOS);
            }
            other => return other,
        }
    }
}

/// One attempt to connect.
fn ask(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    (doorbell, trust): (&Doorbell, Option<&Trust>),
    patience: Patience,
) -> Result<Connection, PeerError> {
    let own = Own::new(c, hello.mechanism, doorbell.clone(), hello.limits)?;
    let (socket, end) = (reach(c, endpoint, patience)?, handshake_end());
    let socket = match trust {
        Some(trust) => socket.secure(trust.asking(hello.to.instance), end).map_err(|why| why.at(endpoint))?,
        None => socket,
    };
    let met = Met { socket, endpoint: endpoint.clone(), end };
    met.socket.say(&Said::Hello(hello).encode(), &own.files()).map_err(|unheard| met.failed(unheard))?;
    let (said, files) = met.hear()?;
    let peer = match said {
        Said::Welcome(peer) => peer,
        Said::Refusal(reason) => {
            return Err(PeerError::RefusedThere { endpoint: endpoint.clone(), reason });
        }
        Said::Hello(_) => return Err(met.refuse(Fault::Garbage("a question".to_owned()))),
    };
    let refused = |fault| PeerError::Refused { endpoint: endpoint.clone(), fault };
    check_same(&peer, hello.version, hello.deployment).map_err(refused)?;
    if (peer.from, peer.to, peer.mechanism) != (hello.to, hello.from, hello.mechanism) {
        return Err(refused(Fault::WrongPeer { found: peer.from, wanted: hello.to }));
    }
    let theirs = Theirs::of(c, &peer, files).map_err(refused)?;
    let (end, _) = own.end(&met, peer, theirs)?;
    Ok(Connection { end, peer })
}

/// A socket that is connected to the endpoint: tries again while nobody listens there.
fn reach(c: HardwareCore, endpoint: &Endpoint, patience: Patience) -> Result<Socket, PeerError> {
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
            Err(error) if !may_come(error.kind()) || patience.is_over::<Hardware>(c) => {
                return Err(PeerError::System { endpoint: endpoint.clone(), call: "connect", error });
            }
            Err(_) => Hardware::rest(c, RETRY_NANOS),
        }
    }
}

/// True if somebody may listen there later.
fn may_come(error: ErrorKind) -> bool {
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
