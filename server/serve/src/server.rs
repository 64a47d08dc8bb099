//! Listeners, the threads of connections, and the end of the server.

use std::io::{Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sql::roles::FIRST_ROLE;
use sql::{Engine, EngineOptions};

use crate::arguments::Arguments;
use crate::policy::Policy;
use crate::registry::{Registry, State};
use crate::stream::{Socket, Stream};
use crate::timers::Timers;

/// Bytes of a connection's stack: expressions are evaluated on it, as deep as the parser lets them
/// be. Only what is used takes memory.
const STACK_BYTES: usize = 32 << 20;
/// Pause between two looks for new connections and for the end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
/// Longest time that threads have to end when their connections have ended.
const END: Duration = Duration::from_secs(5);

/// State that all connections share.
pub struct Shared {
    /// The database.
    pub engine: Arc<Engine>,
    /// Set when the server ends.
    pub ends: Arc<AtomicBool>,
    /// The connections.
    pub registry: Registry,
    /// Bounds of statements.
    pub timers: Timers,
    /// Secret of this run.
    pub secret: [u8; 32],
    policy: RwLock<Policy>,
}

impl Shared {
    /// Returns the rules for connections.
    pub fn policy(&self) -> Policy {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A server that runs.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    tcp: TcpListener,
    unix: Option<(UnixListener, PathBuf)>,
    metrics: Option<TcpListener>,
    drain: Duration,
    reloads: Arc<AtomicBool>,
    /// The words of the command line, for a reload.
    words: Vec<std::ffi::OsString>,
}

fn listener(address: SocketAddr) -> Result<TcpListener, Error> {
    let bound = TcpListener::bind(address);
    let listener = bound.map_err(|error| Error::new(error.kind(), format!("{address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Server {
    /// Opens the database and the listeners.
    pub fn start(arguments: &Arguments) -> Result<Server, Box<dyn std::error::Error>> {
        let policy = Policy::of(arguments)?;
        let settings = arguments.settings()?;
        let options = EngineOptions {
            // Some sessions are needed for changes of tables and for sequences.
            sessions: (arguments.connections + 64).clamp(64, isles::SESSIONS_MAX),
            memory_bytes: arguments.memory.map(|mebibytes| mebibytes << 20),
            database_name: arguments.database.clone(),
        };
        let tcp = listener(arguments.listen)?;
        let metrics = arguments.metrics.map(listener).transpose()?;
        let engine = Engine::open(arguments.path.as_deref(), &options)?;
        if let Some(path) = &arguments.password_file {
            sql::session::set_password(&engine, FIRST_ROLE, &password_of(path)?)?;
        }
        engine.set_defaults(settings);
        let unix = arguments.socket.as_deref().map(unix_listener).transpose()?;
        let secret = sql::verifier::random_bytes();
        let shared = Shared {
            engine,
            ends: Arc::new(AtomicBool::new(false)),
            registry: Registry::default(),
            timers: Timers::default(),
            secret: secret.ok_or_else(|| Error::other("the operating system has no random bits"))?,
            policy: RwLock::new(policy),
        };
        let (address, drain) = (tcp.local_addr()?, Duration::from_secs(arguments.drain));
        let reloads = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(shared);
        Ok(Server { shared, address, tcp, unix, metrics, drain, reloads, words: Vec::new() })
    }

    /// Returns the address of the TCP listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which figures are answered.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Returns the flag that ends the server.
    pub fn ends(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.ends)
    }

    /// Accepts connections until the end.
    pub fn serve(self) {
        let timers = {
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || shared.timers.run(&shared.engine, &shared.ends))
        };
        while !self.shared.ends.load(Ordering::Acquire) {
            let mut accepted = false;
            if let Ok((stream, peer)) = self.tcp.accept() {
                accepted = true;
                _ = stream.set_nonblocking(false);
                _ = stream.set_nodelay(true);
                self.spawn(Socket::Tcp(stream), peer.ip().to_canonical().is_loopback());
            }
            if let Some(Ok((stream, _))) = self.unix.as_ref().map(|(listener, _)| listener.accept()) {
                accepted = true;
                _ = stream.set_nonblocking(false);
                self.spawn(Socket::Unix(stream), true);
            }
            if let Some(Ok((stream, _))) = self.metrics.as_ref().map(TcpListener::accept) {
                accepted = true;
                crate::metrics::answer(stream, &self.shared);
            }
            if self.reloads.swap(false, Ordering::AcqRel) {
                self.reload();
            }
            if !accepted {
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
        _ = timers.join();
        self.drain();
    }

    fn spawn(&self, socket: Socket, is_local: bool) {
        let shared = Arc::clone(&self.shared);
        let Ok(second) = socket.try_clone() else { return };
        let (number, entry) = shared.registry.add(second);
        let guard = OpenConnection { shared, number };
        let run = move || {
            crate::connection::serve(Stream::plain(socket), &guard.shared, &entry, is_local);
            drop(guard);
        };
        // The guard goes with the closure, if there is no thread.
        _ = std::thread::Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES).spawn(run);
    }

    /// Reads the file of the configuration again.
    fn reload(&self) {
        let done = Arguments::read(self.words.clone()).and_then(|arguments| {
            let (policy, settings) = (Policy::of(&arguments)?, arguments.settings()?);
            *self.shared.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
            self.shared.engine.set_defaults(settings);
            Ok(())
        });
        match done {
            Ok(()) => eprintln!("isles-serve: the configuration was read again"),
            Err(error) => eprintln!("isles-serve: the configuration stays as it was: {error}"),
        }
    }

    /// Ends all connections, and closes the database.
    fn drain(self) {
        notify("STOPPING=1");
        let Server { shared, unix, tcp, drain, .. } = self;
        drop(tcp);
        if let Some((_, path)) = unix {
            _ = std::fs::remove_file(path);
        }
        // Sessions without a transaction end at once, others with their transaction.
        let until = Instant::now() + drain;
        while shared.registry.len() > 0 && Instant::now() < until {
            shared.registry.end_input(&[State::Stranger, State::Idle]);
            std::thread::sleep(ACCEPT_PAUSE);
        }
        shared.engine.cancel_all();
        shared.registry.end_input(&[State::Stranger, State::Idle, State::InBlock, State::Busy]);
        let until = Instant::now() + END;
        // A thread that has ended its connection may hold the database for a moment longer.
        while Arc::strong_count(&shared) > 1 && Instant::now() < until {
            std::thread::sleep(ACCEPT_PAUSE);
        }
        shared.registry.end_all();
        if let Err(error) = shared.engine.database.flush() {
            eprintln!("isles-serve: {error}");
        }
    }
}

/// Ends a connection, however its thread ends.
struct OpenConnection {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.registry.remove(self.number);
    }
}

/// Reads the first line of a file.
fn password_of(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(Error::other(format!("{}: the first line is empty", path.display()))),
    }
}

fn unix_listener(path: &Path) -> std::io::Result<(UnixListener, PathBuf)> {
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    let listener = match UnixListener::bind(path) {
        // A server that was killed leaves its socket, at which no server answers.
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(named(error));
            }
            std::fs::remove_file(path).map_err(named)?;
            UnixListener::bind(path).map_err(named)?
        }
        bound => bound.map_err(named)?,
    };
    listener.set_nonblocking(true)?;
    Ok((listener, path.to_owned()))
}

/// Tells systemd, if it has started the server, how the server is.
fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = std::os::unix::net::UnixDatagram::unbound().and_then(|socket| {
        let text = path.to_string_lossy();
        match text.strip_prefix('@') {
            Some(name) => {
                use std::os::linux::net::SocketAddrExt;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes())?;
                socket.send_to_addr(state.as_bytes(), &address)
            }
            None => socket.send_to(state.as_bytes(), &path),
        }
    });
    if let Err(error) = sent {
        eprintln!("isles-serve: systemd was not told: {error}");
    }
}

/// Runs the server until a signal ends it.
pub fn run(words: Vec<std::ffi::OsString>) -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::read(words.clone())?;
    let mut server = Server::start(&arguments)?;
    server.words = words;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, server.ends())?;
    }
    signal_hook::flag::register(SIGHUP, Arc::clone(&server.reloads))?;
    let place = arguments.path.as_ref().map_or("memory".to_owned(), |path| path.display().to_string());
    let mut out = std::io::stdout();
    writeln!(out, "isles-serve: {place} at {}, ready for connections", server.address())?;
    out.flush()?;
    notify("READY=1");
    server.serve();
    Ok(())
}
