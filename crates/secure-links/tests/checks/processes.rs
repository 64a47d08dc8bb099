//! Links between processes: messages, the end of a peer, and peers that are refused.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use platform::link::{KernelMechanism, Limits, Mechanism, Patience, ReceiveError, SendError, wait};
use platform::{Hardware, HardwareCore, Nanos, Platform};
use secure_links::{
    Connection, Doorbell, Endpoint, Fault, Hello, Identity, Listener, Peer, PeerError, connect,
};

use crate::support::{LIMITS, message};

const SHM: Mechanism = Mechanism::SharedMemory;
const UDS: Mechanism = Mechanism::Kernel(KernelMechanism::Unix);
const TCP: Mechanism = Mechanism::Kernel(KernelMechanism::Tcp);
const ALL: [Mechanism; 3] = [SHM, UDS, TCP];

const IDENTITY: Identity = Identity { version: 3, deployment: 0xD00D, instance: 0 };

/// Upper bound of every wait: a test fails if it reaches it.
const PATIENCE_NANOS: u64 = 60_000_000_000;

fn patience(c: HardwareCore) -> Patience {
    Patience::Until(end(c))
}

fn end(c: HardwareCore) -> Nanos {
    Hardware::now(c).plus(PATIENCE_NANOS)
}

/// Returns a new endpoint for a mechanism.
fn endpoint(mechanism: Mechanism) -> Endpoint {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if mechanism == TCP {
        return "127.0.0.1:0".parse().expect("an address");
    }
    let name = format!("isles-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    // The names of sockets are short: not below the target directory.
    Endpoint::Path(std::env::temp_dir().join(name))
}

fn hello(mechanism: Mechanism) -> Hello {
    Hello {
        version: IDENTITY.version,
        deployment: IDENTITY.deployment,
        from: Peer { instance: 1, worker: 4 },
        to: Peer { instance: 0, worker: 2 },
        mechanism,
        limits: LIMITS,
    }
}

fn bind(c: HardwareCore, mechanism: Mechanism) -> Listener {
    Listener::bind(c, &endpoint(mechanism), IDENTITY).unwrap_or_else(|error| panic!("{error}"))
}

/// Accepts the next process that connects.
fn accept(c: HardwareCore, listener: &mut Listener, doorbell: &Doorbell) -> Result<Connection, PeerError> {
    let mut door = |_: &Hello| Ok((doorbell.clone(), LIMITS));
    let accepted = listener.accept(c, &mut door, patience(c));
    accepted.map(|connection| connection.expect("a peer connects"))
}

/// The body of the other processes of the tests below; not a test by itself.
#[test]
fn child() {
    let Ok(task) = std::env::var("ISLES_PEER") else { return };
    let (mechanism, endpoint) = task.split_once(' ').expect("two words");
    let (_, mechanism) = Mechanism::ALL.into_iter().find(|(name, _)| *name == mechanism).expect("listed");
    let endpoint: Endpoint = endpoint.parse().expect("an endpoint");
    let c = Hardware::core();
    let doorbell = Doorbell::new(c, None).expect("memory");
    let mut end = connect(c, &endpoint, hello(mechanism), &doorbell, patience(c)).expect("connected").end;
    // Echoes messages until the link ends.
    let mut buffer = [0; 300];
    loop {
        match end.receiver.receive(c, &mut buffer, Patience::Forever) {
            Ok(bytes) => {
                let bytes = bytes.expect("it waits");
                while let Err(error) = end.sender.send(c, &buffer[..bytes]) {
                    assert!(matches!(error, SendError::Full), "{error}");
                    std::thread::yield_now();
                }
            }
            Err(error) => {
                assert!(matches!(error, ReceiveError::Closed), "{error}");
                return;
            }
        }
    }
}

/// Starts another process, which connects.
fn spawn(mechanism: Mechanism, endpoint: &Endpoint) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "processes::child", "--nocapture"]);
    command.env("ISLES_PEER", format!("{mechanism} {endpoint}")).stdout(std::process::Stdio::null());
    command.spawn().expect("a process")
}

/// A process at the other end of a link over this mechanism.
struct Other {
    child: Child,
    listener: Listener,
    doorbell: Doorbell,
    connection: Connection,
}

impl Other {
    fn start(c: HardwareCore, mechanism: Mechanism) -> Other {
        let mut listener = bind(c, mechanism);
        let doorbell = Doorbell::new(c, None).expect("memory");
        let child = spawn(mechanism, listener.endpoint());
        let connection = accept(c, &mut listener, &doorbell).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(connection.peer, hello(mechanism));
        Other { child, listener, doorbell, connection }
    }

    /// Sends a message and receives its echo.
    fn round_trip(&mut self, c: HardwareCore) {
        self.connection.end.sender.send(c, b"there?").expect("room");
        let mut buffer = [0; 300];
        let received = self.connection.end.receiver.receive(c, &mut buffer, patience(c)).expect("open");
        assert_eq!(received, Some(6));
    }

    /// Kills the process (`kill -9`).
    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process has ended, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn messages_are_exchanged_between_processes() {
    const COUNT: usize = 2_000;
    let c = Hardware::core();
    for mechanism in ALL {
        let mut other = Other::start(c, mechanism);
        let (mut sent, mut received, mut buffer) = (0, 0, [0; 300]);
        while received < COUNT {
            while sent < COUNT && other.connection.end.sender.send(c, &message(sent)).is_ok() {
                sent += 1;
            }
            let bytes = other.connection.end.receiver.receive(c, &mut buffer, patience(c)).expect("open");
            let bytes = bytes.expect("it comes back");
            assert_eq!(buffer[..bytes], message(received), "{mechanism} {received}");
            received += 1;
        }
        // The message has rung the bell, if the other process can reach it.
        let rings = other.connection.end.receiver.rings();
        assert_eq!(rings, mechanism != TCP);
        assert_eq!(other.doorbell.side().bell.take_news(c), rings, "{mechanism}");
        let Other { child, connection, .. } = &mut other;
        // The other process receives the end of the link, and exits without error.
        let unconnected = Doorbell::new(c, None).expect("memory");
        let mut listener = bind(c, mechanism);
        let second = spawn(mechanism, listener.endpoint());
        drop(std::mem::replace(connection, accept(c, &mut listener, &unconnected).expect("connected")));
        assert!(child.wait().expect("it ends").success(), "{mechanism}");
        let mut second = second;
        second.kill().expect("it runs");
        second.wait().expect("it ends");
    }
}

#[test]
fn the_death_of_a_process_is_detected_by_receive_wait_and_send() {
    let c = Hardware::core();
    for mechanism in ALL {
        let mut other = Other::start(c, mechanism);
        other.round_trip(c);
        other.kill();
        let end = &mut other.connection.end;
        let got = end.receiver.receive(c, &mut [0; 300], patience(c));
        assert!(matches!(got, Err(ReceiveError::Closed)), "{mechanism}: {got:?}");
        let again = end.receiver.receive(c, &mut [0; 300], Patience::None);
        assert!(matches!(again, Err(ReceiveError::Closed)), "{mechanism}: {again:?}");

        let mut other = Other::start(c, mechanism);
        other.round_trip(c);
        other.kill();
        let over = self::end(c);
        let closed = loop {
            let receiver = &other.connection.end.receiver;
            wait(c, &other.doorbell.side().bell, std::iter::once(receiver), &mut |_| false, Some(over));
            let received = other.connection.end.receiver.receive(c, &mut [0; 300], Patience::None);
            if !matches!(received, Ok(None)) || Hardware::now(c) > over {
                break received;
            }
        };
        assert!(matches!(closed, Err(ReceiveError::Closed)), "{mechanism}: {closed:?}");

        let mut other = Other::start(c, mechanism);
        other.round_trip(c);
        other.kill();
        let over = self::end(c);
        let closed = loop {
            let sent = other.connection.end.sender.send(c, &[1; 300]);
            if !matches!(sent, Ok(()) | Err(SendError::Full)) || Hardware::now(c) > over {
                break sent;
            }
            Hardware::rest(c, 1_000_000);
        };
        assert!(matches!(closed, Err(SendError::Closed)), "{mechanism}: {closed:?}");
    }
}

#[test]
fn a_restarted_process_connects_again() {
    let c = Hardware::core();
    for mechanism in ALL {
        let mut other = Other::start(c, mechanism);
        other.kill();
        other.child = spawn(mechanism, other.listener.endpoint());
        other.connection = accept(c, &mut other.listener, &other.doorbell).expect("its place is free");
        other.round_trip(c);
    }
}

/// Connects with `hello` within this process, and returns the results of both sides.
fn connect_both(
    listener: &mut Listener,
    hello: Hello,
) -> (Result<Connection, PeerError>, Result<Connection, PeerError>) {
    let c = Hardware::core();
    let endpoint = listener.endpoint().clone();
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            let c = Hardware::core();
            connect(c, &endpoint, hello, &Doorbell::new(c, None).expect("memory"), patience(c))
        });
        let here = accept(c, listener, &Doorbell::new(c, None).expect("memory"));
        (here, there.join().expect("no panic"))
    })
}

/// Returns the fault and the reason of a connection that is refused.
fn refusal(listener: &mut Listener, hello: Hello) -> (Fault, String) {
    match connect_both(listener, hello) {
        (Err(PeerError::Refused { fault, .. }), Err(PeerError::RefusedThere { reason, .. })) => {
            assert_eq!(fault.to_string(), reason);
            (fault, reason)
        }
        (here, there) => panic!("{:?} {:?}", here.err(), there.err()),
    }
}

#[test]
fn wrong_peers_are_refused() {
    let c = Hardware::core();
    for mechanism in ALL {
        let right = hello(mechanism);
        let mut listener = bind(c, mechanism);
        let mut reason_for = |wrong: Hello| refusal(&mut listener, wrong).1;
        assert_eq!(reason_for(Hello { version: 4, ..right }), "messages of version 4, and not 3");
        assert_eq!(
            reason_for(Hello { deployment: 7, ..right }),
            "a process of deployment 0000000000000007, and not 000000000000d00d"
        );
        assert_eq!(
            reason_for(Hello { to: Peer { instance: 9, worker: 2 }, ..right }),
            "worker 2 of instance 0 in the place of worker 2 of instance 9"
        );
        let (first, _kept) = connect_both(&mut listener, right);
        assert_eq!(first.as_ref().map(|first| first.peer.from).expect("the first"), right.from);
        assert_eq!(refusal(&mut listener, right).1, "worker 4 of instance 1 is connected already");
        let (second, _) =
            connect_both(&mut listener, Hello { from: Peer { instance: 1, worker: 5 }, ..right });
        assert!(second.is_ok(), "another worker is another peer");
        drop(first);
        let (again, _) = connect_both(&mut listener, right);
        assert!(again.is_ok(), "the place is free again");
    }
}

#[test]
fn an_unwanted_peer_receives_the_reason() {
    let c = Hardware::core();
    let mut listener = bind(c, SHM);
    let endpoint = listener.endpoint().clone();
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            let c = Hardware::core();
            connect(c, &endpoint, hello(SHM), &Doorbell::new(c, None).expect("memory"), patience(c))
        });
        let here = listener.accept(c, &mut |hello| Err(format!("no {}", hello.to)), patience(c));
        let fault = Fault::Unwanted("no worker 2 of instance 0".to_owned());
        assert!(matches!(here, Err(PeerError::Refused { fault: found, .. }) if found == fault));
        let there = there.join().expect("no panic").err().expect("refused").to_string();
        assert!(there.ends_with(": refused there: no worker 2 of instance 0"), "{there}");
    });
}

#[test]
fn impossible_connections_are_refused_locally() {
    let c = Hardware::core();
    let doorbell = Doorbell::new(c, None).expect("memory");
    let unused = endpoint(SHM);
    let refused = |hello: Hello, endpoint: &Endpoint| {
        connect(c, endpoint, hello, &doorbell, Patience::None).err().expect("refused").to_string()
    };
    let path = unused.to_string();
    assert_eq!(refused(hello(TCP), &unused), format!("{path}: refused: messages over tcp at this endpoint"));
    let pipe = Mechanism::Kernel(KernelMechanism::Pipe);
    assert_eq!(
        refused(hello(pipe), &unused),
        format!("{path}: refused: messages over pipe at this endpoint")
    );
    let limits = Limits { messages_max: 0, ..LIMITS };
    assert!(refused(Hello { limits, ..hello(SHM) }, &unused).starts_with("a link for 0 messages"));
    assert!(refused(hello(SHM), &unused).starts_with(&format!("{path}: connect: No such file")));
    let first = bind(c, SHM);
    let taken = Listener::bind(c, first.endpoint(), IDENTITY).err().expect("taken").to_string();
    assert!(taken.contains("bind: Address already in use"), "{taken}");
}

#[test]
fn the_path_of_a_dead_process_is_reused() {
    let c = Hardware::core();
    let listener = bind(c, UDS);
    let Endpoint::Path(path) = listener.endpoint().clone() else { panic!("a path") };
    // Simulates a killed process.
    let left = Left(path.clone());
    std::fs::rename(&path, path.with_extension("kept")).expect("there");
    drop(listener);
    std::fs::rename(path.with_extension("kept"), &path).expect("there");
    // Another test may start a process at this moment, which has the old socket until it runs a
    // program of its own.
    let (free, end) = (Endpoint::Path(path), end(c));
    let is_taken = |error: &PeerError| matches!(error, PeerError::System { call: "bind", .. });
    let mut listener = loop {
        match Listener::bind(c, &free, IDENTITY) {
            Err(error) if is_taken(&error) && Hardware::now(c) < end => std::thread::yield_now(),
            bound => break bound.expect("it is free"),
        }
    };
    assert!(connect_both(&mut listener, hello(UDS)).0.is_ok());
    drop((listener, left));
}

/// Removes a file when dropped.
struct Left(PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Path::new(&self.0));
    }
}

#[test]
fn strangers_do_not_delay_the_listener() {
    let c = Hardware::core();
    let mut listener = bind(c, TCP);
    let Endpoint::Network(address) = listener.endpoint().clone() else { panic!("an address") };
    let doorbell = Doorbell::new(c, None).expect("memory");
    let mut garbage = TcpStream::connect(address).expect("it listens");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("room");
    let refused = accept(c, &mut listener, &doorbell).err().expect("no hello");
    assert!(matches!(refused, PeerError::Refused { fault: Fault::Garbage(_), .. }), "{refused}");
    let silent = TcpStream::connect(address).expect("it listens");
    let refused = accept(c, &mut listener, &doorbell).err().expect("no hello");
    assert!(matches!(refused, PeerError::Silent(_)), "{refused}");
    drop(TcpStream::connect(address).expect("it listens"));
    let refused = accept(c, &mut listener, &doorbell).err().expect("no hello");
    assert!(matches!(refused, PeerError::Gone(_)), "{refused}");
    assert!(connect_both(&mut listener, hello(TCP)).0.is_ok());
    drop(silent);
}
