//! Links over TLS: messages, ends and cuts, and processes without valid certificates.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use platform::link::frame::FrameError;
use platform::link::{End, KernelMechanism, Limits, Mechanism, Patience, ReceiveError, SendError, wait};
use platform::{Hardware, HardwareCore, Platform};
use secure_links::{
    Bytes, Connection, Credentials, Doorbell, Endpoint, Fault, Hello, Identity, Listener, Peer, PeerError,
    Trust, connect, connect_trusting,
};

use crate::authority::Authority;

const TCP: Mechanism = Mechanism::Kernel(KernelMechanism::Tcp);
const IDENTITY: Identity = Identity { version: 3, deployment: 0xD00D, instance: 0 };
/// The longest messages of any link, whose records are larger than one read of TLS.
pub const LIMITS: Limits = Limits { message_bytes_max: 4088, messages_max: 8 };
pub const NAMES: [&str; 3] = ["instance-0", "instance-1", "instance-2"];

fn patience(c: HardwareCore) -> Patience {
    Patience::Until(Hardware::now(c).plus(20_000_000_000))
}

pub fn trust(authority: &Authority, instance: usize) -> Trust {
    credentials(authority, instance).trust(NAMES).expect("names")
}

fn credentials(authority: &Authority, instance: usize) -> Credentials {
    Credentials::of_directory(&authority.0, NAMES[instance]).expect("certificates")
}

pub fn hello(instance: u16) -> Hello {
    let (from, to) = (Peer { instance, worker: 4 }, Peer { instance: 0, worker: 2 });
    let Identity { version, deployment, .. } = IDENTITY;
    Hello { version, deployment, from, to, mechanism: TCP, limits: LIMITS }
}

pub fn doorbell(c: HardwareCore) -> Doorbell {
    Doorbell::new(c, None).expect("memory")
}

pub fn listen(c: HardwareCore, trust: Option<Trust>) -> Listener {
    let endpoint = "127.0.0.1:0".parse().expect("an address");
    Listener::bind(c, &endpoint, IDENTITY).expect("a free port").demanding(trust)
}

/// Attempts to connect over TLS.
pub fn connect_as(
    c: HardwareCore,
    endpoint: &Endpoint,
    hello: Hello,
    trust: Option<&Trust>,
    patience: Patience,
) -> ConnectResult {
    connect_trusting(c, endpoint, hello, &doorbell(c), trust, patience)
}

type ConnectResult = Result<Connection, PeerError>;

/// Runs `connect` and accepts it; returns the results of the listener and of the connecting side.
fn connect_both(
    listener: &mut Listener,
    connect: impl FnOnce(HardwareCore, &Endpoint) -> ConnectResult + Send,
) -> (ConnectResult, ConnectResult) {
    let (c, endpoint) = (Hardware::core(), listener.endpoint().clone());
    std::thread::scope(|scope| {
        let there = scope.spawn(move || connect(Hardware::core(), &endpoint));
        let here = listener.accept(c, &mut |_| Ok((doorbell(c), LIMITS)), patience(c));
        (here.map(|here| here.expect("a peer connects")), there.join().expect("no panic"))
    })
}

fn connector(
    instance: u16,
    trust: Option<Trust>,
) -> impl FnOnce(HardwareCore, &Endpoint) -> ConnectResult + Send {
    move |c, endpoint| {
        connect_trusting(c, endpoint, hello(instance), &doorbell(c), trust.as_ref(), patience(c))
    }
}

/// Returns the two ends of a link.
fn ends(authority: &Authority) -> [End<Hardware>; 2] {
    let c = Hardware::core();
    let mut listener = listen(c, Some(trust(authority, 0)));
    let (here, there) = connect_both(&mut listener, connector(1, Some(trust(authority, 1))));
    [here.expect("connected").end, there.expect("connected").end]
}

fn message(number: usize) -> Vec<u8> {
    let length = 1 + number * 613 % LIMITS.message_bytes_max;
    (0..length).map(|at| (number + at) as u8).collect()
}

#[test]
fn messages_arrive_complete_with_every_kind_of_wait() {
    const COUNT: usize = 400;
    let (c, authority) = (Hardware::core(), Authority::new(&NAMES));
    let [mut here, mut there] = ends(&authority);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (c, bell) = (Hardware::core(), doorbell(Hardware::core()));
            let mut buffer = [0; 4088];
            for number in 0..COUNT {
                let bytes = match number % 3 {
                    0 => there
                        .receiver
                        .receive(c, &mut buffer, Patience::Forever)
                        .expect("open")
                        .expect("waits"),
                    1 => there.receiver.receive(c, &mut buffer, patience(c)).expect("open").expect("in time"),
                    _ => loop {
                        if let Some(bytes) =
                            there.receiver.receive(c, &mut buffer, Patience::None).expect("open")
                        {
                            break bytes;
                        }
                        let Patience::Until(end) = patience(c) else { unreachable!() };
                        wait(
                            c,
                            &bell.side().bell,
                            std::iter::once(&there.receiver),
                            &mut |_| false,
                            Some(end),
                        );
                    },
                };
                assert_eq!(buffer[..bytes], message(number), "{number}");
                there.sender.send(c, &buffer[..bytes]).expect("room: the other side receives");
            }
            // Dropping the end announces it.
        });
        let (mut sent, mut received, mut buffer) = (0, 0, [0; 4088]);
        while received < COUNT {
            while sent < COUNT && sent < received + 32 && here.sender.send(c, &message(sent)).is_ok() {
                sent += 1;
            }
            let bytes = here.receiver.receive(c, &mut buffer, patience(c)).expect("open").expect("in time");
            assert_eq!(buffer[..bytes], message(received), "{received}");
            received += 1;
        }
        for patience in [Patience::Forever, Patience::None] {
            let end = here.receiver.receive(c, &mut buffer, patience);
            assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
        }
    });
}

#[test]
fn a_full_link_refuses_messages_and_recovers() {
    let (c, authority) = (Hardware::core(), Authority::new(&NAMES));
    let [mut here, mut there] = ends(&authority);
    let (mut sent, mut received, mut buffer) = (0, 0, [0; 4088]);
    for _ in 0..2 {
        let full = loop {
            match here.sender.send(c, &message(sent)) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, SendError::Full), "{full}");
        while received < sent {
            let bytes = there.receiver.receive(c, &mut buffer, patience(c)).expect("open").expect("in time");
            assert_eq!(buffer[..bytes], message(received), "{received}");
            received += 1;
        }
    }
    assert!(sent > 16);
}

#[test]
fn a_cut_connection_is_no_orderly_end() {
    let (c, authority) = (Hardware::core(), Authority::new(&NAMES));
    let mut listener = listen(c, Some(trust(&authority, 0)));
    let Endpoint::Network(address) = listener.endpoint().clone() else { panic!("an address") };
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let between = Endpoint::Network(stranger.local_addr().expect("bound"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (near, _) = stranger.accept().expect("a peer connects");
            let far = TcpStream::connect(address).expect("it listens");
            let carry = |mut from: TcpStream, mut to: TcpStream| {
                let (mut bytes, mut left) = ([0; 1000], 8_000);
                while let Ok(some @ 1..) = from.read(&mut bytes) {
                    let some = some.min(left);
                    left -= some;
                    if to.write_all(&bytes[..some]).is_err() || left == 0 {
                        break;
                    }
                }
                // Cuts both directions without an announcement.
                let _ = to.shutdown(std::net::Shutdown::Both);
                let _ = from.shutdown(std::net::Shutdown::Both);
            };
            let copies = (near.try_clone().expect("a copy"), far.try_clone().expect("a copy"));
            std::thread::scope(|scope| {
                scope.spawn(move || carry(near, far));
                carry(copies.1, copies.0);
            });
        });
        let there = scope.spawn({
            let trust = trust(&authority, 1);
            move || connector(1, Some(trust))(Hardware::core(), &between).expect("connected")
        });
        let here = listener.accept(c, &mut |_| Ok((doorbell(c), LIMITS)), patience(c));
        let mut here = here.expect("it proves who it is").expect("it comes").end;
        let mut there = there.join().expect("no panic").end;
        let (mut sent, mut buffer) = (0, [0; 4088]);
        let closed = loop {
            match there.sender.send(c, &[7; 1000]) {
                Ok(()) => sent += 1,
                Err(SendError::Full) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(closed, SendError::Closed) && sent > 3, "{closed} after {sent}");
        let cut = loop {
            match here.receiver.receive(c, &mut buffer, patience(c)) {
                Ok(bytes) => assert_eq!(buffer[..bytes.expect("in time")], [7; 1000]),
                Err(error) => break error,
            }
        };
        let is_cut = matches!(cut, ReceiveError::Damaged(FrameError::Cut | FrameError::Truncated { .. }));
        assert!(is_cut, "{cut}");
    });
}

/// Attempts to connect; returns the error texts of both sides.
fn refusals(
    listener: &mut Listener,
    connect: impl FnOnce(HardwareCore, &Endpoint) -> ConnectResult + Send,
) -> (String, String) {
    let (here, there) = connect_both(listener, connect);
    let words = |result: ConnectResult| {
        let text = result.err().expect("refused").to_string();
        assert!(!text.contains('\n'), "{text}");
        // Without the address.
        text.split_once(": ").expect("an address").1.to_owned()
    };
    (words(here), words(there))
}

#[test]
fn peers_without_proof_are_refused() {
    let c = Hardware::core();
    let (authority, stranger) = (Authority::new(&NAMES), Authority::new(&NAMES));
    let mut demanding = listen(c, Some(trust(&authority, 0)));
    let both = |here: &str, there: &str| (here.to_owned(), there.to_owned());
    // Without TLS.
    let plain =
        |c: HardwareCore, endpoint: &Endpoint| connect(c, endpoint, hello(1), &doorbell(c), patience(c));
    let no_tls = "no TLS, without which nobody comes in here";
    let expected = (format!("refused: {no_tls}"), format!("refused there: {no_tls}"));
    assert_eq!(refusals(&mut demanding, plain), expected);
    // Another authority: the connecting side detects it first.
    assert_eq!(
        refusals(&mut demanding, connector(1, Some(trust(&stranger, 1)))),
        both(
            "refused there: the certificate is of another authority",
            "refused: its certificate is of another authority"
        )
    );
    // Another authority, with the right authority's certificate beside its own.
    let mixed = Authority::new(&NAMES);
    std::fs::copy(authority.0.join("authority.pem"), mixed.0.join("authority.pem")).expect("a copy");
    assert_eq!(
        refusals(&mut demanding, connector(1, Some(trust(&mixed, 1)))),
        both(
            "refused: its certificate is of another authority",
            "refused there: the certificate is of another authority"
        )
    );
    // The certificate of another instance than the hello's.
    let (here, there) = refusals(&mut demanding, connector(1, Some(trust(&authority, 2))));
    assert!(
        here.starts_with("refused: its certificate: ")
            && there.starts_with("refused there: its certificate: ")
    );
    assert!(here.contains("instance-1"), "{here}");
    // The listening process is not the requested instance.
    let mut other = listen(c, Some(trust(&authority, 2)));
    let (here, there) = refusals(&mut other, connector(1, Some(trust(&authority, 1))));
    assert!(
        here.starts_with("refused there: ") && there.starts_with("refused: its certificate: "),
        "{there}"
    );
    // Another version, with valid certificates.
    let wrong = Hello { version: 4, ..hello(1) };
    let of_another_version = {
        let trust = trust(&authority, 1);
        move |c: HardwareCore, endpoint: &Endpoint| {
            connect_trusting(c, endpoint, wrong, &doorbell(c), Some(&trust), patience(c))
        }
    };
    let version = "messages of version 4, and not 3";
    let expected = (format!("refused: {version}"), format!("refused there: {version}"));
    assert_eq!(refusals(&mut demanding, of_another_version), expected);
    // TLS, where there are no certificates.
    let mut open = listen(c, None);
    let (here, there) = refusals(&mut open, connector(1, Some(trust(&authority, 1))));
    assert_eq!(here, format!("refused: {}", Fault::Secured));
    assert_eq!(there, format!("refused: {}", Fault::Plain));
    // A valid peer still connects afterwards.
    let (here, there) = connect_both(&mut demanding, connector(1, Some(trust(&authority, 1))));
    assert!(here.is_ok() && there.is_ok());
}

#[test]
fn byte_connections_authenticate_and_end_like_links() {
    let authority = Authority::new(&NAMES);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ask = |authority: &Authority, name: &'static str| {
        let credentials = credentials(authority, 1);
        move || credentials.secure_outgoing(TcpStream::connect(address).expect("it listens"), name)
    };
    let answer = || credentials(&authority, 0).secure_incoming(listener.accept().expect("a peer connects").0);
    std::thread::scope(|scope| {
        let there = scope.spawn(ask(&authority, "instance-0"));
        let mut here: Bytes = answer().expect("believed");
        let mut there = there.join().expect("no panic").expect("believed");
        assert!(here.check_name("instance-1").is_ok() && here.check_name("instance-2").is_err());
        let long: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        let mut writing = there.try_clone().expect("a copy");
        let expected = long.clone();
        let writer = scope.spawn(move || writing.write_all(&long).expect("open"));
        let mut got = vec![0; expected.len()];
        here.read_exact(&mut got).expect("all of it");
        assert_eq!(got, expected);
        writer.join().expect("no panic");
        here.write_all(b"well").expect("open");
        let mut received = [0; 4];
        there.read_exact(&mut received).expect("open");
        assert_eq!(&received, b"well");
        there.set_patience(Some(Duration::from_millis(1))).expect("a socket");
        assert!(there.read(&mut received).is_err(), "nothing came");
        drop(there);
        assert_eq!(here.read(&mut received).expect("its end was announced"), 0);
    });
    let stranger = Authority::new(&NAMES);
    std::fs::copy(authority.0.join("authority.pem"), stranger.0.join("authority.pem")).expect("a copy");
    std::thread::scope(|scope| {
        let there = scope.spawn(ask(&stranger, "instance-0"));
        assert!(matches!(answer(), Err(PeerError::Refused { fault: Fault::Unproved(_), .. })));
        assert!(matches!(there.join().expect("no panic"), Err(PeerError::RefusedThere { .. })));
    });
}
