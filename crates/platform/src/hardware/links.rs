//! The kernel's own mechanisms, between two threads of this machine.
//!
//! `channel` describes the bytes that go through their descriptors; links to other processes, which
//! may be rings, come from crate `secure-links`.

use std::ffi::CString;
use std::io::{self, Error};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::channel::{FileReceiver, FileSender, Kind};
use super::life::PEER_CHECK_NANOS;
use super::polling::{check, poll};
use super::shared_ring::{SharedReceiver, SharedSender};
use super::watch::KernelWatch;
use super::{Hardware, HardwareCore, clock};
use crate::Nanos;
use crate::link::{
    Bell, KernelEnd, KernelMechanism, Limits, LinkError, Links, Mechanism, Patience, ReceiveError,
    SPIN_NANOS, SendError, Side, Wire,
};

/// Messages of a queue: what the kernel allows every user.
const QUEUE_MESSAGES_MAX: usize = 10;
/// How long a worker sleeps in the kernel before it checks its bell, which does not wake it there.
const BELL_CHECK_NANOS: u64 = 100_000;

/// The way out of one end.
pub struct KernelSender(Out);

/// The way into one end.
pub struct KernelReceiver(Into);

enum Out {
    File(FileSender),
    Ring(SharedSender),
}

enum Into {
    File(FileReceiver),
    Ring(SharedReceiver),
}

/// An end over descriptors.
pub fn file_end(sender: FileSender, receiver: FileReceiver) -> KernelEnd<Hardware> {
    KernelEnd { sender: KernelSender(Out::File(sender)), receiver: KernelReceiver(Into::File(receiver)) }
}

/// An end over memory that two processes share.
pub fn ring_end(sender: SharedSender, receiver: SharedReceiver) -> KernelEnd<Hardware> {
    KernelEnd { sender: KernelSender(Out::Ring(sender)), receiver: KernelReceiver(Into::Ring(receiver)) }
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    check(descriptor as isize)?;
    // SAFETY: the kernel has just handed out this descriptor to this call, and no other code knows
    // it.
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
        // SAFETY: as above. Opening without blocking, the way in first, neither waits nor fails for
        // want of a peer.
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

/// An end over descriptors of this process.
fn end(kind: Kind, limits: Limits, out: OwnedFd, into: OwnedFd) -> KernelEnd<Hardware> {
    let receiver = FileReceiver::new(into, kind, limits.message_bytes_max, None);
    file_end(FileSender::new(out, kind, None), receiver)
}

/// The same end, whose messages ring `bell` of the other side, if there is one.
fn ringing(end: KernelEnd<Hardware>, bell: Option<Arc<Bell<Hardware>>>) -> KernelEnd<Hardware> {
    match end {
        KernelEnd {
            sender: KernelSender(Out::File(sender)),
            receiver: KernelReceiver(Into::File(receiver)),
        } => file_end(sender.ringing(bell.clone()), receiver.rung(bell.is_some())),
        other => other,
    }
}

fn one_way(kind: Kind, limits: Limits, ways: [(OwnedFd, OwnedFd); 2]) -> [KernelEnd<Hardware>; 2] {
    let [(to_second, at_second), (to_first, at_first)] = ways;
    [end(kind, limits, to_second, at_first), end(kind, limits, to_first, at_second)]
}

fn two_way(kind: Kind, limits: Limits, files: [OwnedFd; 2]) -> Result<[KernelEnd<Hardware>; 2], Failed> {
    let [first, second] = files;
    let copies = [named("dup", first.try_clone())?, named("dup", second.try_clone())?];
    let [out_first, out_second] = copies;
    Ok([end(kind, limits, out_first, first), end(kind, limits, out_second, second)])
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
    type KernelWatch = KernelWatch;

    fn kernel_connect(
        _: HardwareCore,
        mechanism: KernelMechanism,
        sides: [Side<Hardware>; 2],
        limits: Limits,
        wire: Option<Wire>,
    ) -> Result<[KernelEnd<Hardware>; 2], LinkError> {
        let mechanism_named = Mechanism::Kernel(mechanism);
        if wire.is_some() {
            return Err(LinkError::Wire(mechanism_named));
        }
        let [first, second] = ends(mechanism, limits).map_err(|(call, error)| LinkError::System {
            mechanism: mechanism_named,
            call,
            error,
        })?;
        // As between processes, where memory for the bells goes with sockets of this machine.
        let rings = mechanism == KernelMechanism::Unix;
        let [own, other] = sides.map(|side| rings.then_some(side.bell));
        Ok([ringing(first, other), ringing(second, own)])
    }

    fn kernel_send(c: HardwareCore, sender: &mut KernelSender, message: &[u8]) -> Result<(), SendError> {
        match &mut sender.0 {
            Out::File(file) => file.send(message).inspect(|()| file.ring(c)),
            Out::Ring(ring) => ring.send(c, message),
        }
    }

    fn kernel_receive(
        c: HardwareCore,
        receiver: &mut KernelReceiver,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        match &mut receiver.0 {
            Into::File(file) => file.receive(buffer, patience),
            Into::Ring(ring) => ring.receive(c, buffer, patience),
        }
    }

    fn kernel_rings(receiver: &KernelReceiver) -> bool {
        match &receiver.0 {
            Into::File(file) => file.rings(),
            Into::Ring(_) => true,
        }
    }

    fn kernel_calls(receiver: &KernelReceiver) -> bool {
        matches!(receiver.0, Into::File(_))
    }

    fn kernel_has_more(receiver: &KernelReceiver) -> bool {
        matches!(&receiver.0, Into::File(file) if file.has_message())
    }

    fn kernel_watch(_: HardwareCore, receivers: &[&KernelReceiver]) -> KernelWatch {
        let descriptor = |receiver: &&KernelReceiver| match &receiver.0 {
            Into::File(file) => Some(file.descriptor()),
            Into::Ring(_) => None,
        };
        KernelWatch::new(&receivers.iter().filter_map(descriptor).collect::<Vec<_>>())
    }

    fn kernel_poll(
        _: HardwareCore,
        watch: &mut KernelWatch,
        _: &mut dyn Iterator<Item = &KernelReceiver>,
        ready: &mut dyn FnMut(usize),
    ) {
        watch.poll(ready);
    }

    fn kernel_wait<'r>(
        c: HardwareCore,
        bell: &Bell<Hardware>,
        receivers: impl Iterator<Item = &'r KernelReceiver> + Clone,
        ready: &mut dyn FnMut(HardwareCore) -> bool,
        deadline: Option<Nanos>,
    ) {
        let has_news = |receiver: &KernelReceiver| matches!(&receiver.0, Into::Ring(ring) if ring.has_news());
        let mut any = |c| receivers.clone().any(has_news) || ready(c);
        let files = receivers.clone().filter_map(|receiver| match &receiver.0 {
            Into::File(file) => Some(file),
            Into::Ring(_) => None,
        });
        let files: Vec<_> = files.collect();
        if files.is_empty() {
            // A process that ends rings no bell.
            let check = clock::now().plus(PEER_CHECK_NANOS);
            let end = deadline.map_or(check, |deadline| deadline.min(check));
            bell.wait(c, SPIN_NANOS, &mut any, Some(end));
        } else {
            wait_for_files(c, &files, &mut any, deadline);
        }
    }
}

/// The kernel does not ring bells: so it is polled again and again, for a while without sleeping.
fn wait_for_files(
    c: HardwareCore,
    receivers: &[&FileReceiver],
    ready: &mut dyn FnMut(HardwareCore) -> bool,
    deadline: Option<Nanos>,
) {
    let start = clock::now();
    loop {
        let now = clock::now();
        let left = deadline.map_or(BELL_CHECK_NANOS, |end| end.since(now));
        let sleep = if now.since(start) < SPIN_NANOS { 0 } else { left.min(BELL_CHECK_NANOS) };
        if ready(c) || receivers.iter().any(|receiver| receiver.has_frame()) {
            return;
        }
        let files = receivers.iter().map(|receiver| receiver.descriptor());
        // A refusal shows again, with its reason, when the caller receives.
        if poll(files, sleep).unwrap_or(true) || left == 0 {
            return;
        }
    }
}
