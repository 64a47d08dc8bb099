//! The kernel's own mechanisms, between two threads of this machine.
//!
//! Ways out are non-blocking, ways in are blocking and looked at with `poll` first where waiting is bounded, so that an
//! unbounded wait for a message is one system call. Pipes, FIFOs and TCP carry bytes: a message is preceded by its length,
//! and both go out in one call. Writes to pipes are atomic up to a page. Socket pairs of packets and message queues keep
//! messages apart.

use std::ffi::CString;
use std::io::{self, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Hardware, HardwareCore, clock};
use crate::Nanos;
use crate::link::{
    Bell, KernelEnd, KernelMechanism, Limits, LinkError, Links, Mechanism, Patience, ReceiveError,
    SPIN_NANOS, SendError, Side, Wire,
};

/// Bytes of the length that precedes a message in a stream of bytes.
const PREFIX_BYTES: usize = 4;
const _: () = assert!(crate::link::MESSAGE_BYTES_MAX + PREFIX_BYTES <= libc::PIPE_BUF);

/// Messages of a queue: what the kernel allows every user.
const QUEUE_MESSAGES_MAX: usize = 10;
/// Bytes taken from a stream at once, in messages of the largest size.
const INBOX_MESSAGES: usize = 16;
/// How long a worker sleeps in the kernel before it looks at its bell, which the kernel does not know.
const LOOK_AT_BELL_NANOS: u64 = 100_000;

/// How messages are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By a length before each.
    Bytes,
    /// As [`Kind::Bytes`], over a socket, which may take a part of a message.
    Socket,
    /// By the kernel.
    Packets,
    /// By the kernel, with calls of their own.
    Queue,
}

/// The way out of one end.
#[derive(Debug)]
pub struct KernelSender {
    file: OwnedFd,
    kind: Kind,
    frame: Vec<u8>,
}

/// The way into one end.
#[derive(Debug)]
pub struct KernelReceiver {
    file: OwnedFd,
    kind: Kind,
    message_bytes_max: usize,
    /// Bytes from a stream that no call has returned yet: `inbox[begin..end]`.
    inbox: Vec<u8>,
    begin: usize,
    end: usize,
}

impl KernelSender {
    fn new(file: OwnedFd, kind: Kind) -> Self {
        KernelSender { file, kind, frame: Vec::new() }
    }
}

impl KernelReceiver {
    fn new(file: OwnedFd, kind: Kind, limits: Limits) -> Self {
        let stream = matches!(kind, Kind::Bytes | Kind::Socket);
        let inbox = if stream { INBOX_MESSAGES * (PREFIX_BYTES + limits.message_bytes_max) } else { 0 };
        let message_bytes_max = limits.message_bytes_max;
        KernelReceiver { file, kind, message_bytes_max, inbox: vec![0; inbox], begin: 0, end: 0 }
    }
}

/// The result of a system call that returns a negative number when it fails.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    check(descriptor as isize)?;
    // SAFETY: the kernel has just handed out this descriptor to this call, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn set_blocking(file: RawFd, blocking: bool) -> io::Result<()> {
    // SAFETY: reads the flags of a descriptor that the caller owns.
    let flags = check(unsafe { libc::fcntl(file, libc::F_GETFL) } as isize)? as libc::c_int;
    let flags = if blocking { flags & !libc::O_NONBLOCK } else { flags | libc::O_NONBLOCK };
    // SAFETY: sets the flags of a descriptor that the caller owns.
    check(unsafe { libc::fcntl(file, libc::F_SETFL, flags) } as isize).map(|_| ())
}

/// A part of a name that this process uses once.
fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only has to differ from call to call.
    format!("isles-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

type Failed = (&'static str, Error);

fn named<T>(call: &'static str, result: io::Result<T>) -> Result<T, Failed> {
    result.map_err(|error| (call, error))
}

/// A pipe: way out, way in.
fn pipe() -> Result<(OwnedFd, OwnedFd), Failed> {
    let mut files = [0; 2];
    // SAFETY: room for two descriptors.
    let made = check(unsafe { libc::pipe2(files.as_mut_ptr(), libc::O_CLOEXEC) } as isize);
    named("pipe2", made)?;
    let (way_in, way_out) = (named("pipe2", owned(files[0]))?, named("pipe2", owned(files[1]))?);
    named("fcntl", set_blocking(way_out.as_raw_fd(), false))?;
    Ok((way_out, way_in))
}

/// A pipe with a name, which is gone when both sides are open.
fn fifo() -> Result<(OwnedFd, OwnedFd), Failed> {
    let path = std::env::temp_dir().join(fresh_name());
    let path =
        named("mkfifo", CString::new(path.into_os_string().into_encoded_bytes()).map_err(Error::other))?;
    // SAFETY: a path that ends with a zero.
    named("mkfifo", check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) } as isize))?;
    let open = |flags| {
        // SAFETY: as above. Opening without blocking, the way in first, neither waits nor fails for want of a peer.
        owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_NONBLOCK | libc::O_CLOEXEC) })
    };
    let way_in = open(libc::O_RDONLY);
    let way_out = open(libc::O_WRONLY);
    // SAFETY: as above. A name that stays behind does no harm.
    unsafe { libc::unlink(path.as_ptr()) };
    let (way_in, way_out) = (named("open", way_in)?, named("open", way_out)?);
    named("fcntl", set_blocking(way_in.as_raw_fd(), true))?;
    Ok((way_out, way_in))
}

/// A message queue, whose name is gone when both sides are open.
fn queue(limits: Limits) -> Result<(OwnedFd, OwnedFd), Failed> {
    let name = named("mq_open", CString::new(format!("/{}", fresh_name())).map_err(Error::other))?;
    // SAFETY: integers only, for which zero is a value.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = limits.messages_max.min(QUEUE_MESSAGES_MAX) as libc::c_long;
    attributes.mq_msgsize = limits.message_bytes_max as libc::c_long;
    let create = libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: a name that ends with a zero, and attributes that outlive the call.
    let way_in =
        unsafe { libc::mq_open(name.as_ptr(), create, 0o600 as libc::c_uint, &raw const attributes) };
    let way_in = named("mq_open", owned(way_in))?;
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: as above.
    let way_out = owned(unsafe { libc::mq_open(name.as_ptr(), flags) });
    // SAFETY: as above.
    unsafe { libc::mq_unlink(name.as_ptr()) };
    Ok((named("mq_open", way_out)?, way_in))
}

/// Two connected Unix sockets.
fn unix() -> Result<[OwnedFd; 2], Failed> {
    let mut files = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, files.as_mut_ptr()) };
    named("socketpair", check(made as isize))?;
    Ok([named("socketpair", owned(files[0]))?, named("socketpair", owned(files[1]))?])
}

/// Two connected TCP sockets.
fn tcp() -> Result<[OwnedFd; 2], Failed> {
    let listener = named("bind", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = named("getsockname", listener.local_addr())?;
    let first = named("connect", TcpStream::connect(address))?;
    let own = named("getsockname", first.local_addr())?;
    let second = loop {
        let (stream, peer) = named("accept", listener.accept())?;
        // Anybody on this machine may connect to an open port.
        if peer == own {
            break stream;
        }
    };
    for stream in [&first, &second] {
        named("setsockopt", stream.set_nodelay(true))?;
    }
    Ok([first.into(), second.into()])
}

fn one_way(kind: Kind, limits: Limits, ways: [(OwnedFd, OwnedFd); 2]) -> [KernelEnd<Hardware>; 2] {
    let [(to_second, at_second), (to_first, at_first)] = ways;
    let sender = |file| KernelSender::new(file, kind);
    let receiver = |file| KernelReceiver::new(file, kind, limits);
    [(sender(to_second), receiver(at_first)), (sender(to_first), receiver(at_second))]
}

fn two_way(kind: Kind, limits: Limits, files: [OwnedFd; 2]) -> Result<[KernelEnd<Hardware>; 2], Failed> {
    let [first, second] = files;
    let copies = [named("dup", first.try_clone())?, named("dup", second.try_clone())?];
    let [out_first, out_second] = copies;
    let end = |out, file| (KernelSender::new(out, kind), KernelReceiver::new(file, kind, limits));
    Ok([end(out_first, first), end(out_second, second)])
}

fn ends(mechanism: KernelMechanism, limits: Limits) -> Result<[KernelEnd<Hardware>; 2], Failed> {
    Ok(match mechanism {
        KernelMechanism::Pipe => one_way(Kind::Bytes, limits, [pipe()?, pipe()?]),
        KernelMechanism::Fifo => one_way(Kind::Bytes, limits, [fifo()?, fifo()?]),
        KernelMechanism::MessageQueue => one_way(Kind::Queue, limits, [queue(limits)?, queue(limits)?]),
        KernelMechanism::Unix => two_way(Kind::Packets, limits, unix()?)?,
        KernelMechanism::Tcp => two_way(Kind::Socket, limits, tcp()?)?,
    })
}

impl Links for Hardware {
    type KernelSender = KernelSender;
    type KernelReceiver = KernelReceiver;

    fn kernel_connect(
        _: HardwareCore,
        mechanism: KernelMechanism,
        _: [Side<Hardware>; 2],
        limits: Limits,
        wire: Option<Wire>,
    ) -> Result<[KernelEnd<Hardware>; 2], LinkError> {
        let mechanism_named = Mechanism::Kernel(mechanism);
        if wire.is_some() {
            return Err(LinkError::Wire(mechanism_named));
        }
        ends(mechanism, limits).map_err(|(call, error)| LinkError::System {
            mechanism: mechanism_named,
            call,
            error,
        })
    }

    fn kernel_send(_: HardwareCore, sender: &mut KernelSender, message: &[u8]) -> Result<(), SendError> {
        match sender.kind {
            Kind::Bytes | Kind::Socket => sender.send_framed(message),
            Kind::Packets | Kind::Queue => sender.put(message).map(|_| ()),
        }
    }

    fn kernel_receive(
        _: HardwareCore,
        receiver: &mut KernelReceiver,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        loop {
            if let Some(bytes) = receiver.unframe(buffer)? {
                return Ok(Some(bytes));
            }
            if patience != Patience::Forever && !receiver.wait(patience.deadline())? {
                return Ok(None);
            }
            match receiver.kind {
                Kind::Bytes | Kind::Socket => receiver.fill()?,
                Kind::Packets | Kind::Queue => return receiver.get(buffer).map(Some),
            }
        }
    }

    /// The kernel does not ring bells: it is asked again and again, for a while without sleeping.
    fn kernel_wait(
        c: HardwareCore,
        _: &Bell<Hardware>,
        receivers: &[&KernelReceiver],
        ready: &mut dyn FnMut(HardwareCore) -> bool,
        deadline: Option<Nanos>,
    ) {
        let start = clock::now();
        loop {
            let now = clock::now();
            let left = deadline.map_or(LOOK_AT_BELL_NANOS, |end| end.since(now));
            let sleep = if now.since(start) < SPIN_NANOS { 0 } else { left.min(LOOK_AT_BELL_NANOS) };
            if ready(c) || receivers.iter().any(|receiver| receiver.has_frame()) {
                return;
            }
            let files = receivers.iter().map(|receiver| receiver.file.as_raw_fd());
            // A refusal shows again, with its reason, when the caller receives.
            if poll(files, sleep).unwrap_or(true) || left == 0 {
                return;
            }
        }
    }
}

/// Whether one of these descriptors can be read, or its peer is gone, within `nanos`.
fn poll(files: impl Iterator<Item = RawFd>, nanos: u64) -> io::Result<bool> {
    let mut entries: Vec<libc::pollfd> =
        files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: (nanos / 1_000_000_000).cast_signed(),
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    // SAFETY: entries and time outlive the call; no signal mask is given.
    let ready = unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, &raw const time, std::ptr::null())
    };
    match check(ready as isize) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

impl KernelSender {
    /// Whether a socket has room for a whole frame: the kernel says so only while a third of the buffer is free, which
    /// is many frames.
    fn has_room(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which outlives the call. What is wrong with the socket shows when it is written to.
        unsafe { libc::poll(&raw mut entry, 1, 0) != 0 }
    }

    /// Sends the length of a message and the message.
    fn send_framed(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.kind == Kind::Socket && !self.has_room() {
            return Err(SendError::Full);
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(&(message.len() as u32).to_le_bytes());
        frame.extend_from_slice(message);
        let mut sent = self.put(&frame);
        // Only a socket that is short of memory takes a part; its rest has to follow, or the stream would lose its shape.
        while let Ok(taken) = sent
            && taken < frame.len()
        {
            sent = match self.put(&frame[taken..]) {
                Ok(more) => Ok(taken + more),
                Err(SendError::Full) => {
                    std::thread::yield_now();
                    Ok(taken)
                }
                Err(error) => Err(error),
            };
        }
        self.frame = frame;
        sent.map(|_| ())
    }

    /// One system call; the bytes that were taken.
    fn put(&self, bytes: &[u8]) -> Result<usize, SendError> {
        let file = self.file.as_raw_fd();
        let (at, length) = (bytes.as_ptr(), bytes.len());
        loop {
            // SAFETY: reads `length` bytes from a live slice.
            let (call, sent) = unsafe {
                match self.kind {
                    Kind::Bytes => ("write", libc::write(file, at.cast(), length)),
                    Kind::Socket | Kind::Packets => {
                        ("send", libc::send(file, at.cast(), length, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT))
                    }
                    Kind::Queue => ("mq_send", libc::mq_send(file, at.cast(), length, 0) as isize),
                }
            };
            let error = match check(sent) {
                Ok(taken) => return Ok(if self.kind == Kind::Queue { length } else { taken }),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) => return Err(SendError::Full),
                Some(libc::EPIPE | libc::ECONNRESET) => return Err(SendError::Closed),
                _ => return Err(SendError::System { call, error }),
            }
        }
    }
}

impl KernelReceiver {
    /// Whether there is something to read before the deadline; looks once without one.
    fn wait(&self, deadline: Option<Nanos>) -> Result<bool, ReceiveError> {
        loop {
            let left = deadline.map_or(0, |end| end.since(clock::now()));
            let failed = |error| ReceiveError::System { call: "ppoll", error };
            let ready = poll(std::iter::once(self.file.as_raw_fd()), left).map_err(failed)?;
            if ready || left == 0 {
                return Ok(ready);
            }
        }
    }

    /// Length of the next message of a stream, if all of it has been read.
    fn framed(&self) -> Result<Option<usize>, ReceiveError> {
        let bytes = &self.inbox[self.begin..self.end];
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.message_bytes_max {
            let error = Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes"));
            return Err(ReceiveError::System { call: "read", error });
        }
        Ok((rest.len() >= length).then_some(length))
    }

    /// Whether a receive returns without a system call.
    fn has_frame(&self) -> bool {
        !matches!(self.framed(), Ok(None))
    }

    /// Takes the next message of a stream, if all of it has been read.
    fn unframe(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        let Some(length) = self.framed()? else { return Ok(None) };
        let start = self.begin + PREFIX_BYTES;
        buffer[..length].copy_from_slice(&self.inbox[start..start + length]);
        self.begin = start + length;
        Ok(Some(length))
    }

    /// Reads more of a stream: waits until there is some.
    fn fill(&mut self) -> Result<(), ReceiveError> {
        self.inbox.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let file = self.file.as_raw_fd();
        let room = &mut self.inbox[self.end..];
        // SAFETY: writes at most `room.len()` bytes into a live slice.
        let taken = read_again(|| unsafe { libc::read(file, room.as_mut_ptr().cast(), room.len()) });
        match taken {
            Ok(0) => Err(ReceiveError::Closed),
            Ok(bytes) => {
                self.end += bytes;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(ReceiveError::Closed),
            Err(error) => Err(ReceiveError::System { call: "read", error }),
        }
    }

    /// Takes a message that the kernel keeps apart: waits until there is one.
    fn get(&self, buffer: &mut [u8]) -> Result<usize, ReceiveError> {
        let file = self.file.as_raw_fd();
        let (at, room) = (buffer.as_mut_ptr(), buffer.len());
        let call = if self.kind == Kind::Queue { "mq_receive" } else { "recv" };
        // SAFETY: writes at most `room` bytes into a live slice.
        let taken = read_again(|| unsafe {
            match self.kind {
                Kind::Queue => libc::mq_receive(file, at.cast(), room, std::ptr::null_mut()),
                _ => libc::recv(file, at.cast(), room, 0),
            }
        });
        match taken {
            Ok(0) => Err(ReceiveError::Closed),
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(ReceiveError::Closed),
            Err(error) => Err(ReceiveError::System { call, error }),
        }
    }
}

/// Repeats a call that a signal interrupted.
fn read_again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
