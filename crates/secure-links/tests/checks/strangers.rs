//! Strangers beside genuine peers: strangers send nothing, incomplete or endless data, or a valid
//! hello with a wrong name, and delay no peer.
//!
//! `ISLES_STRANGER_ROUNDS` sets the number of rounds; `.ci/deep strangers` runs many.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use platform::link::Patience;
use platform::{Hardware, HardwareCore, Platform};
use secure_links::{Connection, Endpoint, Fault, GUESTS_MAX, Hello, Listener, Peer, PeerError, connect};
use terms::random::Xorshift;

use crate::authority::Authority;
use crate::secured::{LIMITS, NAMES, connect_as, doorbell, hello, listen, trust};

/// Strangers in each round.
const STRANGERS: usize = 3 * GUESTS_MAX / 2;
/// Upper bound of the time that friends need.
const PATIENCE_NANOS: u64 = 30_000_000_000;
/// Workers of instances 1 and 2 that connect in each round.
const FRIENDS: [Peer; 4] = [
    Peer { instance: 1, worker: 0 },
    Peer { instance: 1, worker: 1 },
    Peer { instance: 2, worker: 0 },
    Peer { instance: 2, worker: 1 },
];

fn rounds() -> u64 {
    std::env::var("ISLES_STRANGER_ROUNDS").map_or(2, |rounds| rounds.parse().expect("a number"))
}

struct Random(Xorshift);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() % bound as u64) as usize
    }
}

/// Number of kinds of strangers: the bound of the match in [`Stranger::knock`].
const KINDS: usize = 10;

/// A stranger.
struct Stranger<'a> {
    kind: usize,
    address: SocketAddr,
    authority: &'a Authority,
    /// Another authority for the same names, with the right authority's certificate beside its own.
    other: &'a Authority,
    over: &'a AtomicBool,
}

impl Stranger<'_> {
    /// Connects, and stays until the connection is closed or the round is over.
    fn knock(&self) {
        let endpoint = Endpoint::Network(self.address);
        let c = Hardware::core();
        // The connection may be closed at any moment, so the result does not matter.
        let asks = |hello: Hello, trust: Option<&secure_links::Trust>| {
            let patience = Patience::Until(Hardware::now(c).plus(1_000_000));
            drop(match trust {
                Some(_) => connect_as(c, &endpoint, hello, trust, patience),
                None => connect(c, &endpoint, hello, &doorbell(c), patience),
            });
        };
        let Ok(mut stream) = TcpStream::connect(self.address) else { return };
        // The listener may never read, so writes have a timeout.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(20)));
        let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
        match self.kind {
            // Nothing.
            0 | 1 => {}
            // Half of a TLS record, and half of a hello.
            2 => drop(send(&[22, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 7, 7])),
            3 => drop(send(b"\x40\0\0\0\x11\x22")),
            // Endless records, and endless bytes that are no records.
            4 => {
                while !self.over.load(Ordering::SeqCst)
                    && send(&[[23, 3, 3, 0x40, 0].as_slice(), &[7; 1 << 14]].concat())
                {}
            }
            5 => while !self.over.load(Ordering::SeqCst) && send(&[b'x'; 1 << 14]) {},
            // One byte at a time.
            6 => {
                for byte in [22, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3].into_iter().cycle() {
                    if self.over.load(Ordering::SeqCst) || !send(&[byte]) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            7 => return asks(hello(1), None),
            8 => return asks(hello(1), Some(&trust(self.other, 1))),
            // The certificate of instance 2 with the hello of instance 1.
            _ => return asks(hello(1), Some(&trust(self.authority, 2))),
        }
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let mut received = [0; 64];
        while !self.over.load(Ordering::SeqCst) {
            match stream.read(&mut received) {
                Ok(0) => return,
                Err(error)
                    if !matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return;
                }
                _ => {}
            }
        }
    }
}

/// Classifies the refusal of a stranger.
fn reason(error: &PeerError) -> &'static str {
    match error {
        PeerError::Silent(_) => "silent",
        PeerError::Gone(_) => "gone",
        PeerError::Refused { fault: Fault::Plain, .. } => "plain",
        PeerError::Refused { fault: Fault::Unproved(_), .. } => "unproved",
        PeerError::Refused { .. } | PeerError::RefusedThere { .. } => "refused",
        _ => panic!("{error}: no matter of a stranger"),
    }
}

/// Counts the threads of this process that handle guests.
fn guests() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        let name = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        Some(name.trim() == "isles-guest")
    };
    tasks.filter_map(name).filter(|is_guest| *is_guest).count()
}

/// Runs a round: friends connect beside strangers that connected before. Returns the connected
/// friends, and the refusals.
fn round(
    listener: &mut Listener,
    authority: &Authority,
    other: &Authority,
    seed: u64,
    nanos: u64,
    kinds: &[usize],
) -> (Vec<Peer>, BTreeMap<&'static str, usize>) {
    let (c, mut random) = (Hardware::core(), Random(Xorshift::new(seed)));
    let Endpoint::Network(address) = listener.endpoint().clone() else { panic!("an address") };
    let (over, end) = (&AtomicBool::new(false), Hardware::now(c).plus(nanos));
    let (mut came, mut sent_away): (Vec<Connection>, _) = (Vec::new(), BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..STRANGERS {
            let kind = kinds[random.below(kinds.len())];
            let stranger = Stranger { kind, address, authority, other, over };
            scope.spawn(move || stranger.knock());
        }
        // The strangers connect first.
        std::thread::sleep(Duration::from_millis(50));
        let friends: Vec<_> = FRIENDS
            .into_iter()
            .map(|from| {
                let endpoint = listener.endpoint().clone();
                scope.spawn(move || {
                    let c = Hardware::core();
                    let trust = trust(authority, usize::from(from.instance));
                    let hello = Hello { from, ..hello(from.instance) };
                    connect_as(c, &endpoint, hello, Some(&trust), Patience::Until(end))
                })
            })
            .collect();
        while came.len() < FRIENDS.len() && Hardware::now(c) < end {
            let patience = Patience::Until(Hardware::now(c).plus(20_000_000));
            match listener.accept(c, &mut |_| Ok((doorbell(c), LIMITS)), patience) {
                Ok(Some(connection)) => {
                    // A friend that received its welcome too late has connected again.
                    came.retain(|before| before.peer.from != connection.peer.from);
                    came.push(connection);
                }
                Ok(None) => {}
                Err(error) => *sent_away.entry(reason(&error)).or_insert(0) += 1,
            }
            assert!(guests() <= 2 * GUESTS_MAX, "strangers are bounded");
        }
        // SeqCst: a flag that is polled.
        over.store(true, Ordering::SeqCst);
        for (friend, from) in friends.into_iter().zip(FRIENDS) {
            let Ok(mut there) = friend.join().expect("no panic") else { continue };
            let Some(here) = came.iter_mut().find(|here| here.peer.from == from) else { continue };
            talk(c, here, &mut there);
        }
    });
    (came.iter().map(|connection| connection.peer.from).collect(), sent_away)
}

/// Exchanges a message in each direction.
fn talk(c: HardwareCore, here: &mut Connection, there: &mut Connection) {
    let patience = Patience::Until(Hardware::now(c).plus(PATIENCE_NANOS));
    let mut buffer = [0; 4088];
    here.end.sender.send(c, b"here").expect("room");
    there.end.sender.send(c, b"there").expect("room");
    assert_eq!(there.end.receiver.receive(c, &mut buffer, patience).expect("open"), Some(4));
    assert_eq!(here.end.receiver.receive(c, &mut buffer, patience).expect("open"), Some(5));
}

/// Returns an authority, and another one for strangers that trust the first.
fn authorities() -> (Authority, Authority) {
    let (authority, other) = (Authority::new(&NAMES), Authority::new(&NAMES));
    std::fs::copy(authority.0.join("authority.pem"), other.0.join("authority.pem")).expect("a copy");
    (authority, other)
}

#[test]
fn friends_connect_beside_strangers() {
    let (authority, other) = authorities();
    let mut listener = listen(Hardware::core(), Some(trust(&authority, 0)));
    let all: Vec<usize> = (0..KINDS).collect();
    let mut sent_away = BTreeMap::new();
    for seed in 1..=rounds() {
        let (came, away) = round(&mut listener, &authority, &other, seed, PATIENCE_NANOS, &all);
        assert!(FRIENDS.iter().all(|friend| came.contains(friend)), "round {seed}: {came:?}, {away:?}");
        away.into_iter().for_each(|(reason, count)| *sent_away.entry(reason).or_insert(0) += count);
    }
    assert!(sent_away.len() >= 2, "{sent_away:?}");
    drop(listener);
    // All threads of guests end after the listener.
    while guests() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn handling_one_guest_at_a_time_delays_friends() {
    let (authority, other) = authorities();
    let mut listener = listen(Hardware::core(), Some(trust(&authority, 0))).one_at_a_time();
    let (came, _) = round(&mut listener, &authority, &other, 1, 2_000_000_000, &[0]);
    assert!(came.len() < FRIENDS.len(), "the campaign notices nothing");
}
