//! Tests that feed damaged bytes and words into every decoder and receiver of peers' messages.
//!
//! `ISLES_DAMAGE_ROUNDS` sets the number of rounds of each test; `.ci/deep damage` runs many.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use terms::random::Xorshift;

use platform::between::{
    FileReceiver, FileSender, Kind, Life, SharedReceiver, SharedSender, file_end, ring_bytes, ring_end,
};
use platform::link::frame::{self, FrameError};
use platform::link::{Bell, End, Limits, Mechanism, Messages, Patience, ReceiveError, SendError};
use platform::{Hardware, HardwareRegion, LINE_BYTES, Platform, SharedMemory};

use super::credentials::Credentials;
use super::hello::{HANDSHAKE_BYTES_MAX, HandshakeMessage, Hello};
use super::peer::Peer;
use super::secured::Secured;

#[path = "../tests/checks/authority.rs"]
mod authority;

const LIMITS: Limits = Limits { message_bytes_max: 200, messages_max: 3 };

fn rounds() -> u64 {
    std::env::var("ISLES_DAMAGE_ROUNDS").map_or(300, |rounds| rounds.parse().expect("a number"))
}

struct Random(Xorshift);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// Flips a bit, truncates, inserts a byte, or rotates the bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(4) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, self.next() as u8),
            _ => bytes.rotate_left(at),
        }
    }
}

#[test]
fn decoders_accept_only_messages_that_were_sent() {
    let hello = HandshakeMessage::Hello(Hello {
        version: 1,
        deployment: 2,
        from: Peer { instance: 3, worker: 4 },
        to: Peer { instance: 5, worker: 6 },
        mechanism: Mechanism::SharedMemory,
        limits: LIMITS,
    });
    for round in 0..50 * rounds() {
        let mut random = Random(Xorshift::new(round + 1));
        let length = random.below(HANDSHAKE_BYTES_MAX);
        let noise = random.bytes(length);
        let _ = HandshakeMessage::decode(&noise);
        assert!(frame::open_whole(&noise, HANDSHAKE_BYTES_MAX).is_err());
        let taken: usize = Messages::of(&noise).flatten().map(<[u8]>::len).sum();
        assert!(taken <= noise.len());
        let mut bytes = hello.encode();
        random.damage(&mut bytes);
        if let Ok(HandshakeMessage::Hello(hello)) = HandshakeMessage::decode(&bytes) {
            hello.limits.check().expect("bounds were checked");
        }
        let sent = random.bytes(100);
        let mut framed = Vec::new();
        frame::seal(&sent, &mut framed);
        random.damage(&mut framed);
        if let Ok(message) = frame::open_whole(&framed, LIMITS.message_bytes_max) {
            assert_eq!(message, sent, "round {round}");
        }
    }
}

/// Returns a receiver over a socket, and the socket to which its peer writes.
fn over_socket(kind: Kind) -> (End<Hardware>, OwnedFd) {
    let (near, far): (OwnedFd, OwnedFd) = match kind {
        Kind::Packets => {
            let pair = rustix::net::socketpair(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::SEQPACKET,
                rustix::net::SocketFlags::CLOEXEC,
                None,
            );
            pair.expect("sockets")
        }
        _ => {
            let (near, far) = UnixStream::pair().expect("sockets");
            (near.into(), far.into())
        }
    };
    let copy = || near.try_clone().expect("a descriptor");
    let life = Arc::new(Life::new(copy()));
    let receiver = FileReceiver::new(copy(), kind, LIMITS.message_bytes_max, Some(Arc::clone(&life)));
    let end = file_end(FileSender::new(copy(), kind, Some(life)), receiver);
    (End::of_platform(end, LIMITS.message_bytes_max, LIMITS.message_bytes_max), far)
}

/// Returns the messages that a receiver delivers before it fails or the link ends.
fn received(end: &mut End<Hardware>) -> (Vec<Vec<u8>>, ReceiveError) {
    let c = Hardware::core();
    let (mut messages, mut buffer) = (Vec::new(), [0; 200]);
    loop {
        match end.receiver.receive(c, &mut buffer, Patience::None) {
            Ok(Some(bytes)) => messages.push(buffer[..bytes].to_vec()),
            Ok(None) => return (messages, ReceiveError::Closed),
            Err(error) => return (messages, error),
        }
    }
}

#[test]
fn damage_on_sockets_is_detected_and_closes_them() {
    let c = Hardware::core();
    for kind in [Kind::Socket, Kind::Packets] {
        let mut noticed = 0;
        for round in 0..rounds() {
            let mut random = Random(Xorshift::new(round + 1));
            let (mut end, far) = over_socket(kind);
            let sent: Vec<Vec<u8>> = (0..4)
                .map(|_| {
                    let length = 1 + random.below(200);
                    random.bytes(length)
                })
                .collect();
            let damaged = random.below(4);
            for (number, message) in sent.iter().enumerate() {
                let mut framed = Vec::new();
                frame::seal(message, &mut framed);
                if number == damaged {
                    random.damage(&mut framed);
                }
                if !framed.is_empty() {
                    rustix::io::write(&far, &framed).expect("room");
                }
            }
            rustix::net::shutdown(&far, rustix::net::Shutdown::Write).expect("open");
            let (got, error) = received(&mut end);
            assert!(got.len() <= 4 && got.iter().all(|message| sent.contains(message)), "round {round}");
            assert_eq!(got[..damaged.min(got.len())], sent[..damaged.min(got.len())], "round {round}");
            if got == sent {
                // The damage was a rotation by 0.
                continue;
            }
            if matches!(error, ReceiveError::Damaged(_)) {
                noticed += 1;
                assert!(matches!(end.sender.send(c, &[1]), Err(SendError::Closed)), "round {round}");
                let result_sender = rustix::net::recv(&far, &mut [0; 8], rustix::net::RecvFlags::DONTWAIT);
                let result_sender = matches!(result_sender, Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET));
                assert!(result_sender, "round {round}: the peer is not notified");
            }
        }
        assert!(noticed > rounds() / 2, "{kind:?}: {noticed}");
    }
}

/// Returns an authenticated sender and receiver, with the sockets that the sender writes to and the
/// receiver reads from.
fn over_tls(credentials: &Credentials) -> (FileSender, UnixStream, UnixStream, End<Hardware>) {
    let pair = || UnixStream::pair().expect("sockets");
    let ((near, mut from), (far, mut to)) = (pair(), pair());
    let until = Hardware::now(Hardware::core()).plus(20_000_000_000);
    let name = "instance-0".try_into().expect("a name");
    let (client_connection, server_connection) =
        (credentials.client_connection(name).expect("fit"), credentials.server_connection().expect("fit"));
    let [first, second] = std::thread::scope(|scope| {
        let ask = scope.spawn(move || Secured::new(near.into(), client_connection, until).expect("believed"));
        let answer =
            scope.spawn(move || Secured::new(far.into(), server_connection, until).expect("believed"));
        let carry = |from: &mut UnixStream, to: &mut UnixStream| {
            let mut bytes = [0; 8192];
            from.set_nonblocking(true).expect("a socket");
            if let Ok(some) = from.read(&mut bytes) {
                to.write_all(&bytes[..some]).expect("room");
            }
            from.set_nonblocking(false).expect("a socket");
        };
        while !(ask.is_finished() && answer.is_finished()) {
            carry(&mut from, &mut to);
            carry(&mut to, &mut from);
            std::thread::yield_now();
        }
        [ask, answer].map(|thread| Arc::new(thread.join().expect("no panic")))
    });
    let copy = |secured: &Secured| secured.socket().try_clone().expect("a descriptor");
    let life = |secured: &Secured| Some(Arc::new(Life::new(copy(secured))));
    let max = LIMITS.message_bytes_max;
    let life_there = life(&second);
    let receiver = FileReceiver::new(copy(&second), Kind::Socket, max, life_there.clone());
    let back = FileSender::new(copy(&second), Kind::Socket, life_there).secured(Some(second.clone()));
    let end = End::of_platform(file_end(back, receiver.secured(Some(second))), max, max);
    let sender = FileSender::new(copy(&first), Kind::Socket, life(&first)).secured(Some(first));
    (sender, from, to, end)
}

#[test]
fn damage_under_tls_is_detected_and_closes_the_link() {
    let c = Hardware::core();
    let authority = authority::Authority::new(&["instance-0"]);
    let credentials = Credentials::of_directory(&authority.0, "instance-0").expect("certificates");
    for round in 0..rounds().div_ceil(6) {
        let mut random = Random(Xorshift::new(round + 1));
        let (mut sender, mut from, mut to, mut end) = over_tls(&credentials);
        let sent: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let length = 1 + random.below(200);
                random.bytes(length)
            })
            .collect();
        let mut bytes = Vec::new();
        for message in &sent {
            sender.send(message).expect("room");
            let mut record = vec![0; 1024];
            let some = from.read(&mut record).expect("open");
            bytes.extend_from_slice(&record[..some]);
        }
        // One round of four is not damaged, and ends in order.
        let is_whole = random.below(4) == 0;
        let mut damaged = bytes.clone();
        while !is_whole && damaged == bytes {
            random.damage(&mut damaged);
        }
        if is_whole {
            drop(sender);
            from.read_to_end(&mut damaged).expect("open");
        }
        // The socket has to hold all pieces; it has room for some hundred, however small.
        let least = damaged.len().div_ceil(64);
        for piece in damaged.chunks(least.max(1 + random.below(300))) {
            // The receiver may have given up.
            let _ = to.write_all(piece);
        }
        to.shutdown(std::net::Shutdown::Write).expect("open");
        let (got, error) = received(&mut end);
        assert!(sent.starts_with(&got), "round {round}");
        if is_whole {
            assert!(got == sent && matches!(error, ReceiveError::Closed), "round {round}: {error}");
        } else {
            assert!(got.len() < 4 || damaged.starts_with(&bytes), "round {round}");
            assert!(matches!(error, ReceiveError::Damaged(_)), "round {round}: {error}");
            assert!(matches!(end.sender.send(c, &[1]), Err(SendError::Closed)), "round {round}");
        }
    }
}

/// Returns a ring, and its memory.
fn over_memory() -> (End<Hardware>, SharedSender, HardwareRegion, UnixStream) {
    let c = Hardware::core();
    let (near, far) = UnixStream::pair().expect("sockets");
    let life = Arc::new(Life::new(near.into()));
    let shared = |bytes| Hardware::shared_region(c, None, bytes, "test").expect("memory");
    let mapped = |memory: &SharedMemory| memory.map(c, "test").expect("memory");
    let ((own, memory), (bell, bell_memory)) = (shared(ring_bytes(LIMITS)), shared(LINE_BYTES));
    let bell = Arc::new(Bell::within(bell));
    let peer = SharedSender::new(
        mapped(&memory),
        Bell::within(mapped(&bell_memory)),
        LIMITS,
        Arc::new(Life::new(far.try_clone().expect("a descriptor").into())),
    );
    let back = SharedSender::new(
        shared(ring_bytes(LIMITS)).0,
        Bell::within(mapped(&bell_memory)),
        LIMITS,
        Arc::clone(&life),
    );
    let receiver = SharedReceiver::new(own, bell, LIMITS, life);
    let max = LIMITS.message_bytes_max;
    (End::of_platform(ring_end(back, receiver), max, max), peer, mapped(&memory), far)
}

#[test]
fn damage_in_shared_memory_is_detected_and_closes_the_ring() {
    let c = Hardware::core();
    let mut noticed = 0;
    for round in 0..rounds() {
        let mut random = Random(Xorshift::new(round + 1));
        let (mut end, mut peer, memory, far) = over_memory();
        let sent: Vec<Vec<u8>> = (0..3)
            .map(|_| {
                let length = 1 + random.below(200);
                random.bytes(length)
            })
            .collect();
        sent.iter().for_each(|message| peer.send(c, message).expect("room"));
        // Damages the header words of the ring only: shared memory has no checksums of messages.
        let lines = ring_bytes(LIMITS) / LINE_BYTES - 1;
        let (line, bit) = (random.below(lines), random.below(64));
        let word = Hardware::word_of(&memory, LINE_BYTES * (1 + line));
        word.fetch_xor(1 << bit, Ordering::SeqCst);
        drop((peer, far));
        let (got, error) = received(&mut end);
        let (slot, line) = (line / (lines / 3), line % (lines / 3));
        let is_used = line < sent[slot].len().div_ceil(LINE_BYTES - 8);
        assert_eq!(got, sent[..if is_used { slot } else { 3 }], "round {round}");
        // In the first round, a round number of 0 looks like a message that has not arrived.
        let is_noticed = is_used && (line > 0 || bit != 48);
        match error {
            ReceiveError::Damaged(_) => {
                noticed += 1;
                assert!(is_noticed, "round {round}");
                assert!(matches!(end.sender.send(c, &[1]), Err(SendError::Closed)), "round {round}");
            }
            error => assert!(!is_noticed && matches!(error, ReceiveError::Closed), "round {round}: {error}"),
        }
    }
    assert!(noticed > rounds() / 6, "{noticed}");
}

#[test]
fn an_impossible_count_closes_the_ring() {
    let c = Hardware::core();
    for count in [4, u64::MAX] {
        let (_end, mut peer, memory, _far) = over_memory();
        Hardware::store(c, Hardware::word_of(&memory, 0), count, Ordering::SeqCst);
        (0..3).for_each(|_| peer.send(c, &[1]).expect("room"));
        assert!(matches!(peer.send(c, &[1]), Err(SendError::Closed)));
        assert!(matches!(peer.send(c, &[1]), Err(SendError::Closed)));
    }
}

#[test]
fn messages_that_are_too_long_for_their_receiver_close_the_link() {
    let too_long = FrameError::Length { bytes: 201, max: 200 };
    for kind in [Kind::Socket, Kind::Packets] {
        let (mut end, far) = over_socket(kind);
        let mut framed = Vec::new();
        frame::seal(&[7; 201], &mut framed);
        rustix::io::write(&far, &framed).expect("room");
        let (got, error) = received(&mut end);
        assert!(got.is_empty() && matches!(error, ReceiveError::Damaged(error) if error == too_long));
    }
    let (mut end, _, memory, _far) = over_memory();
    // First round, 201 bytes.
    let announcement = Hardware::word_of(&memory, LINE_BYTES);
    announcement.store(1 << 48 | 201 << 32, Ordering::SeqCst);
    let (got, error) = received(&mut end);
    assert!(got.is_empty() && matches!(error, ReceiveError::Damaged(error) if error == too_long));
}
