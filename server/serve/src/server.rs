//! Listeners, the threads of connections, and the end of the server.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use sql::{Engine, EngineOptions};

use crate::arguments::Arguments;
use crate::stream::Stream;

/// Bytes of a connection's stack: expressions are evaluated on it, as deep as the parser lets them
/// be. Only what is used takes memory.
const STACK_BYTES: usize = 32 << 20;
/// Pause between two looks for new connections and for the end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
/// Longest time that connections have to end.
const DRAIN: Duration = Duration::from_secs(5);
/// Connections that have not said who they are.
const STRANGERS_MAX: usize = 64;

/// State that all connections share.
pub struct Shared {
    /// The database.
    pub engine: Arc<Engine>,
    /// True if connections from other machines need no password.
    pub trust: bool,
    /// Set when the server ends.
    pub ends: Arc<AtomicBool>,
    /// Connections that were accepted.
    pub open: AtomicUsize,
    /// Most connections.
    pub connections_max: usize,
    /// Connections that have not said who they are.
    pub strangers: AtomicUsize,
    streams: Mutex<BTreeMap<u64, Stream>>,
    next: AtomicU64,
}

/// A server that runs.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    tcp: TcpListener,
    unix: Option<(UnixListener, PathBuf)>,
}

impl Server {
    /// Opens the database and the listeners.
    pub fn start(arguments: &Arguments) -> Result<Server, Box<dyn std::error::Error>> {
        let options = EngineOptions {
            // Some sessions are needed for changes of tables and for sequences.
            sessions: (arguments.connections + 64).clamp(64, isles::SESSIONS_MAX),
            memory_bytes: arguments.memory.map(|mebibytes| mebibytes << 20),
            database_name: arguments.database.clone(),
        };
        let engine = Engine::open(arguments.path.as_deref(), &options)?;
        let tcp = TcpListener::bind(arguments.listen)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", arguments.listen)))?;
        tcp.set_nonblocking(true)?;
        let unix = arguments.socket.as_deref().map(unix_listener).transpose()?;
        let shared = Shared {
            engine,
            trust: arguments.trust,
            ends: Arc::new(AtomicBool::new(false)),
            open: AtomicUsize::new(0),
            connections_max: arguments.connections,
            strangers: AtomicUsize::new(0),
            streams: Mutex::default(),
            next: AtomicU64::new(1),
        };
        let address = tcp.local_addr()?;
        Ok(Server { shared: Arc::new(shared), address, tcp, unix })
    }

    /// Returns the address of the TCP listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the flag that ends the server.
    pub fn ends(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.ends)
    }

    /// Accepts connections until the end.
    pub fn serve(self) {
        while !self.shared.ends.load(Ordering::Acquire) {
            let mut accepted = false;
            if let Ok((stream, peer)) = self.tcp.accept() {
                accepted = true;
                _ = stream.set_nonblocking(false);
                _ = stream.set_nodelay(true);
                self.spawn(Stream::Tcp(stream), peer.ip().is_loopback());
            }
            if let Some(Ok((stream, _))) = self.unix.as_ref().map(|(listener, _)| listener.accept()) {
                accepted = true;
                _ = stream.set_nonblocking(false);
                self.spawn(Stream::Unix(stream), true);
            }
            if !accepted {
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
        self.drain();
    }

    fn spawn(&self, stream: Stream, is_local: bool) {
        let shared = Arc::clone(&self.shared);
        // The oldest strangers end by their deadline; more than these are turned away.
        if shared.strangers.load(Ordering::Relaxed) >= STRANGERS_MAX {
            return;
        }
        let Ok(second) = stream.try_clone() else { return };
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        shared.streams().insert(number, second);
        shared.open.fetch_add(1, Ordering::AcqRel);
        shared.strangers.fetch_add(1, Ordering::AcqRel);
        let run = {
            let shared = Arc::clone(&shared);
            move || {
                let guard = OpenConnection { shared: Arc::clone(&shared), number };
                crate::connection::serve(stream, &shared, is_local);
                drop(guard);
            }
        };
        let thread =
            std::thread::Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES).spawn(run);
        if thread.is_err() {
            shared.strangers.fetch_sub(1, Ordering::AcqRel);
            drop(OpenConnection { shared, number });
        }
    }

    /// Ends all connections, and closes the database.
    fn drain(self) {
        let Server { shared, unix, .. } = self;
        if let Some((_, path)) = unix {
            _ = std::fs::remove_file(path);
        }
        shared.engine.cancel_all();
        shared.streams().values().for_each(Stream::shutdown);
        let until = Instant::now() + DRAIN;
        // A thread that has ended its connection may hold the database for a moment longer.
        while Arc::strong_count(&shared) > 1 && Instant::now() < until {
            std::thread::sleep(ACCEPT_PAUSE);
        }
        if let Err(error) = shared.engine.database.flush() {
            eprintln!("isles-serve: {error}");
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection until it ends, however it ends.
struct OpenConnection {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if let Some(stream) = self.shared.streams().remove(&self.number) {
            stream.shutdown();
        }
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
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

/// Runs the server until a signal ends it.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(arguments)?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, server.ends())?;
    }
    let place = arguments.path.as_ref().map_or("memory".to_owned(), |path| path.display().to_string());
    let mut out = std::io::stdout();
    writeln!(out, "isles-serve: {place} at {}, ready for connections", server.address())?;
    out.flush()?;
    server.serve();
    Ok(())
}
