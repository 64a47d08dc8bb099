//! Messages through a descriptor of the kernel.
//!
//! Ways out are non-blocking, ways in are blocking and checked with `poll` first where waiting is
//! bounded, so that an unbounded wait for a message is one system call. Pipes, FIFOs and TCP carry
//! bytes: a message is preceded by its length, and both go out in one call. Writes to pipes are
//! atomic up to a page. Sockets of packets and message queues keep messages apart. Between
//! processes a message has a [frame](crate::link::frame), whatever carries it, and between machines
//! what carries it may be [secured](SecureBytes).

use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::clock;
use super::life::Life;
use super::polling::{check, poll};
use super::{Hardware, HardwareCore};
use crate::link::frame::{self, FRAME_HEADER_BYTES, FrameError};
use crate::link::{Bell, Patience, ReceiveError, SendError};

/// Bytes of the length that precedes a message in a stream of bytes.
const PREFIX_BYTES: usize = 4;
const _: () = assert!(crate::link::MESSAGE_BYTES_MAX + PREFIX_BYTES <= libc::PIPE_BUF);

/// Bytes taken from a stream at once, in messages of the largest size.
const INBOX_MESSAGES: usize = 16;
/// Longest sleep of an unbounded wait.
const WAIT_NANOS: u64 = 1_000_000_000;

/// How messages are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a length before each.
    Bytes,
    /// As [`Kind::Bytes`], over a socket, which may take a part of a message.
    Socket,
    /// By the kernel.
    Packets,
    /// By the kernel, with calls of their own.
    Queue,
}

/// The result of an attempt to read more secured bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something came: perhaps less than a record.
    Some,
    /// Nothing was there.
    Nothing,
    /// There will be no more, as the other side has announced.
    Ended,
    /// There will be no more, and no side has announced that.
    Cut,
}

/// A connection whose bytes no other process reads, changes or invents.
///
/// Concurrency: one thread takes and reads while another one sends.
pub trait SecureBytes: std::fmt::Debug + Send + Sync {
    /// True if something can be taken without a call to the socket.
    fn has_some(&self) -> bool;

    /// Takes what was read, as much as there is room for.
    fn take(&self, into: &mut [u8]) -> usize;

    /// Reads what the socket has, without waiting. Everything that came before was taken.
    fn read_more(&self) -> Result<Progress, ReceiveError>;

    /// Sends all of it. Waits for room if it has to.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;
}

/// The way out of one end.
pub struct FileSender {
    file: OwnedFd,
    kind: Kind,
    frame: Vec<u8>,
    /// There where the receiver is another process.
    peer: Option<Arc<Life>>,
    /// There where messages are encrypted.
    secured: Option<Arc<dyn SecureBytes>>,
    /// The receiver's, where both can reach it.
    bell: Option<Arc<Bell<Hardware>>>,
}

/// The way into one end.
#[derive(Debug)]
pub struct FileReceiver {
    file: OwnedFd,
    kind: Kind,
    message_bytes_max: usize,
    /// Bytes that were read and that no call has returned yet: `inbox[begin..end]`.
    inbox: Vec<u8>,
    begin: usize,
    end: usize,
    /// There where the sender is another process.
    peer: Option<Arc<Life>>,
    /// There where messages are encrypted.
    secured: Option<Arc<dyn SecureBytes>>,
    /// True if the sender rings the receiver's bell.
    rings: bool,
}

impl FileSender {
    /// Over this descriptor, of this kind; `peer` detects the end of the receiver, if it
    /// is another process.
    pub fn new(file: OwnedFd, kind: Kind, peer: Option<Arc<Life>>) -> Self {
        FileSender { file, kind, frame: Vec::new(), peer, secured: None, bell: None }
    }

    /// The same, which rings this bell.
    #[must_use]
    pub fn ringing(self, bell: Option<Arc<Bell<Hardware>>>) -> Self {
        FileSender { bell, ..self }
    }

    /// Tells the receiver that it was sent something.
    pub(super) fn ring(&self, c: HardwareCore) {
        if let Some(bell) = &self.bell {
            bell.ring(c);
        }
    }

    /// The same over a secured socket.
    #[must_use]
    pub fn secured(self, secured: Option<Arc<dyn SecureBytes>>) -> Self {
        FileSender { secured, ..self }
    }

    /// Sends a message of at most the link's limit, or nothing.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.peer.as_ref().is_some_and(|peer| peer.is_closed()) {
            return Err(SendError::Closed);
        }
        match self.kind {
            Kind::Packets | Kind::Queue if self.peer.is_none() => self.put(message).map(|_| ()),
            _ => self.send_framed(message),
        }
    }
}

impl FileReceiver {
    /// Over this descriptor, of this kind; `peer` detects the end of the sender, if it is
    /// another process.
    pub fn new(file: OwnedFd, kind: Kind, message_bytes_max: usize, peer: Option<Arc<Life>>) -> Self {
        let inbox = match (kind, &peer) {
            (Kind::Bytes | Kind::Socket, _) => INBOX_MESSAGES * (FRAME_HEADER_BYTES + message_bytes_max),
            // One more than the longest, so that what is longer shows.
            (_, Some(_)) => FRAME_HEADER_BYTES + message_bytes_max + 1,
            _ => 0,
        };
        let inbox = vec![0; inbox];
        FileReceiver {
            file,
            kind,
            message_bytes_max,
            inbox,
            begin: 0,
            end: 0,
            peer,
            secured: None,
            rings: false,
        }
    }

    /// The same, from a sender that rings the receiver's bell, or not.
    #[must_use]
    pub fn rung(self, rings: bool) -> Self {
        FileReceiver { rings, ..self }
    }

    pub(super) fn rings(&self) -> bool {
        self.rings
    }

    /// True if the next message is in the inbox.
    pub(super) fn has_message(&self) -> bool {
        matches!(self.kind, Kind::Bytes | Kind::Socket) && self.has_frame()
    }

    /// The same over a secured socket.
    #[must_use]
    pub fn secured(self, secured: Option<Arc<dyn SecureBytes>>) -> Self {
        FileReceiver { secured, ..self }
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        let received = self.receive_unclosed(buffer, patience);
        if let (Err(ReceiveError::Damaged(_)), Some(peer)) = (&received, &self.peer) {
            peer.close();
        }
        received
    }

    fn receive_unclosed(
        &mut self,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        loop {
            if let Some(bytes) = self.unframe(buffer)? {
                return Ok(Some(bytes));
            }
            // A call to a socket can return without waiting.
            let polls = patience == Patience::None && matches!(self.kind, Kind::Socket | Kind::Packets);
            let is_here = self.secured.as_ref().is_some_and(|secured| secured.has_some());
            let waits = !is_here && !polls && (patience != Patience::Forever || self.secured.is_some());
            if waits && !self.wait(patience)? {
                return Ok(None);
            }
            let flags = if polls { libc::MSG_DONTWAIT } else { 0 };
            let got = match (self.kind, &self.peer) {
                (Kind::Bytes | Kind::Socket, _) => match self.fill(flags)? {
                    true => continue,
                    false => None,
                },
                (_, None) => self.get(buffer, flags)?,
                (_, Some(_)) => self.get_framed(buffer, flags)?,
            };
            if got.is_some() || polls {
                return Ok(got);
            }
        }
    }

    /// Takes a packet, which is one frame.
    fn get_framed(&mut self, buffer: &mut [u8], flags: libc::c_int) -> Result<Option<usize>, ReceiveError> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let got = self.get(&mut inbox, flags).and_then(|bytes| {
            let Some(bytes) = bytes else { return Ok(None) };
            let message = frame::open_whole(&inbox[..bytes], self.message_bytes_max)?;
            buffer[..message.len()].copy_from_slice(message);
            Ok(Some(message.len()))
        });
        self.inbox = inbox;
        got
    }
}

impl FileSender {
    /// True if a socket has room for a whole frame: the kernel reports that only while a third of
    /// the buffer is free, which is many frames.
    fn has_room(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which outlives the call. What is wrong with the socket shows when it
        // is written to.
        unsafe { libc::poll(&raw mut entry, 1, 0) != 0 }
    }

    /// Sends the length of a message and the message.
    fn send_framed(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.kind == Kind::Socket && !self.has_room() {
            return Err(SendError::Full);
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        if self.peer.is_some() {
            frame::seal(message, &mut frame);
        } else {
            frame.extend_from_slice(&(message.len() as u32).to_le_bytes());
            frame.extend_from_slice(message);
        }
        let mut sent = self.put(&frame);
        // Only a socket that is short of memory takes a part; its rest has to follow, or the stream
        // would lose its shape.
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
        if let Some(secured) = &self.secured {
            return match secured.send(bytes) {
                Ok(()) => Ok(bytes.len()),
                Err(error) if is_gone(&error) => Err(SendError::Closed),
                Err(error) => Err(SendError::System { call: "send", error }),
            };
        }
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
                _ if is_gone(&error) => return Err(SendError::Closed),
                _ => return Err(SendError::System { call, error }),
            }
        }
    }
}

impl FileReceiver {
    /// True if there is something to read before patience ends.
    fn wait(&self, patience: Patience) -> Result<bool, ReceiveError> {
        loop {
            let left = match patience {
                Patience::None => 0,
                Patience::Until(end) => end.since(clock::now()),
                Patience::Forever => WAIT_NANOS,
            };
            let failed = |error| ReceiveError::System { call: "ppoll", error };
            let ready = poll(std::iter::once(self.file.as_raw_fd()), left).map_err(failed)?;
            if ready || left == 0 {
                return Ok(ready);
            }
        }
    }

    /// Length of the next message of a stream and of what precedes it, if all of it has been read.
    fn framed(&self) -> Result<Option<(usize, usize)>, ReceiveError> {
        let bytes = &self.inbox[self.begin..self.end];
        if self.peer.is_some() {
            let message = frame::open(bytes, self.message_bytes_max)?;
            return Ok(message.map(|message| (FRAME_HEADER_BYTES, message.len())));
        }
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.message_bytes_max {
            let error = Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes"));
            return Err(ReceiveError::System { call: "read", error });
        }
        Ok((rest.len() >= length).then_some((PREFIX_BYTES, length)))
    }

    /// True if a receive returns without a system call.
    pub(super) fn has_frame(&self) -> bool {
        !matches!(self.framed(), Ok(None)) || self.secured.as_ref().is_some_and(|secured| secured.has_some())
    }

    /// Takes the next message of a stream, if all of it has been read.
    fn unframe(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        let Some((prefix, length)) = self.framed()? else { return Ok(None) };
        let start = self.begin + prefix;
        buffer[..length].copy_from_slice(&self.inbox[start..start + length]);
        self.begin = start + length;
        Ok(Some(length))
    }

    /// The end of a stream.
    fn ended(&self) -> ReceiveError {
        match (self.end - self.begin, &self.peer) {
            (1.., Some(_)) => {
                let bytes = self.end - self.begin;
                let announced = self.inbox[self.begin..self.end].first_chunk::<PREFIX_BYTES>();
                let length = announced.map_or(0, |length| u32::from_le_bytes(*length) as usize);
                FrameError::Truncated { bytes, of: FRAME_HEADER_BYTES + length }.into()
            }
            _ => ReceiveError::Closed,
        }
    }

    /// Reads more of a stream, and returns true if it has: waits until there is some, unless
    /// `flags` forbid that.
    fn fill(&mut self, flags: libc::c_int) -> Result<bool, ReceiveError> {
        self.inbox.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if let Some(secured) = self.secured.clone() {
            return self.fill_secured(&*secured);
        }
        let file = self.file.as_raw_fd();
        let room = &mut self.inbox[self.end..];
        let (at, bytes) = (room.as_mut_ptr(), room.len());
        // SAFETY: writes at most `bytes` bytes into a live slice.
        let taken = read_again(|| unsafe {
            match self.kind {
                Kind::Socket => libc::recv(file, at.cast(), bytes, flags),
                _ => libc::read(file, at.cast(), bytes),
            }
        });
        match taken {
            Ok(0) => Err(self.ended()),
            Ok(bytes) => {
                self.end += bytes;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if is_gone(&error) => Err(ReceiveError::Closed),
            Err(error) => Err(ReceiveError::System { call: "read", error }),
        }
    }

    /// Takes more of what was decrypted, and reads if there is none: perhaps a part of a record,
    /// which makes nothing yet.
    fn fill_secured(&mut self, secured: &dyn SecureBytes) -> Result<bool, ReceiveError> {
        let mut taken = secured.take(&mut self.inbox[self.end..]);
        if taken == 0 {
            match secured.read_more() {
                Ok(Progress::Some) => {}
                Ok(Progress::Nothing) => return Ok(false),
                Ok(Progress::Ended) => return Err(self.ended()),
                Ok(Progress::Cut) => return Err(self.cut()),
                Err(ReceiveError::System { error, .. }) if is_gone(&error) => return Err(self.cut()),
                Err(error) => return Err(error),
            }
            taken = secured.take(&mut self.inbox[self.end..]);
        }
        self.end += taken;
        Ok(true)
    }

    /// The end of a stream whose end no process has announced.
    fn cut(&self) -> ReceiveError {
        match self.ended() {
            ReceiveError::Closed => FrameError::Cut.into(),
            within => within,
        }
    }

    /// Takes a message that the kernel keeps apart: waits until there is one.
    fn get(&self, buffer: &mut [u8], flags: libc::c_int) -> Result<Option<usize>, ReceiveError> {
        let file = self.file.as_raw_fd();
        let (at, room) = (buffer.as_mut_ptr(), buffer.len());
        let call = if self.kind == Kind::Queue { "mq_receive" } else { "recv" };
        // SAFETY: writes at most `room` bytes into a live slice.
        let taken = read_again(|| unsafe {
            match self.kind {
                Kind::Queue => libc::mq_receive(file, at.cast(), room, std::ptr::null_mut()),
                _ => libc::recv(file, at.cast(), room, flags),
            }
        });
        match taken {
            Ok(0) => Err(ReceiveError::Closed),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if is_gone(&error) => Err(ReceiveError::Closed),
            Err(error) => Err(ReceiveError::System { call, error }),
        }
    }
}

/// True if an error means that the peer is gone, or its machine out of reach.
fn is_gone(error: &Error) -> bool {
    let gone = [
        libc::EPIPE,
        libc::ECONNRESET,
        libc::ECONNABORTED,
        libc::ETIMEDOUT,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
    ];
    error.raw_os_error().is_some_and(|number| gone.contains(&number))
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
