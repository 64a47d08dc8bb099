//! Instances on other machines, which connect to the command.
//!
//! An instance connects, authenticates itself if the deployment has certificates, and sends its
//! number. A process that is no instance of the deployment, or has another file, is refused with a
//! reason, which the command prints, too. The command receives these introductions concurrently,
//! each for at most a second and a few bytes ([`Reception`]), so that strangers delay no instance.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use secure_links::{Bytes, Credentials, GUESTS_MAX, PeerError, Reception};

use super::messages::{Order, Received, Report, receive_at_most, send};
use crate::deployment::Machines;
use crate::error::RunError;

/// Longest time for the introduction of a process that has connected.
const INTRODUCTION: Duration = Duration::from_secs(1);
/// Most bytes of an introduction.
const INTRODUCTION_BYTES: usize = 64;
/// Longest time for which an instance waits for the answer to its introduction.
const WELCOME: Duration = Duration::from_secs(3);
/// Most bytes of the answer, which may be a refusal with its reason.
const WELCOME_BYTES: usize = 1 << 12;
/// Most lines that are printed about strangers.
const LINES_MAX: usize = 16;
/// Longest time for which the command and its instances wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// An instance that has connected.
pub(crate) struct Arrival {
    /// Its name.
    pub name: String,
    pub stream: Bytes,
}

/// A process that has connected: its address, and its introduction or the reason for refusing it.
type Introduced = (SocketAddr, Result<(Bytes, Report), String>);

/// A connection that is read until a deadline, however few bytes arrive at a time.
struct Until<'a>(&'a mut Bytes, Instant);

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_end(self.1)?;
        self.0.read(into)
    }
}

/// The command's side: waits for instances.
pub(crate) struct Arrivals {
    listener: TcpListener,
    reception: Reception<Introduced>,
    fingerprint: u32,
    credentials: Option<Credentials>,
    /// Names in the certificates of the instances.
    names: Vec<String>,
    /// By instance: the connection, until it is taken.
    arrived: Vec<Option<Arrival>>,
    /// By instance: true if it is connected.
    connected: Vec<bool>,
}

impl Arrivals {
    pub(crate) fn new(
        machines: &Machines,
        fingerprint: u32,
        credentials: Option<Credentials>,
    ) -> Result<Self, RunError> {
        let address = machines.command;
        let failed = |error: io::Error| RunError::Refused(format!("{address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let arrived = machines.addresses.iter().map(|_| None).collect();
        let (names, connected) = (machines.names.clone(), vec![false; machines.addresses.len()]);
        let reception = Reception::new().map_err(failed)?;
        Ok(Arrivals { listener, reception, fingerprint, credentials, names, arrived, connected })
    }

    /// Waits for all instances, and returns them by number.
    ///
    /// # Errors
    /// The user ends the run, or an instance does not connect in time.
    pub(crate) fn all(&mut self, stop_requested: &dyn Fn() -> bool) -> Result<Vec<Arrival>, RunError> {
        let end = Instant::now() + PATIENCE;
        while let Some(missing) = self.arrived.iter().position(Option::is_none) {
            if stop_requested() {
                return Err(RunError::Interrupted);
            }
            if Instant::now() >= end {
                return Err(RunError::Refused(format!("instance {missing} has not come")));
            }
            if !self.poll()? {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(self.arrived.iter_mut().filter_map(Option::take).collect())
    }

    /// Accepts connections, and answers introductions. Returns true if there was one.
    fn poll(&mut self) -> Result<bool, RunError> {
        for _ in 0..GUESTS_MAX {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let credentials = self.credentials.clone();
                    let introduce = move |stream| (from, introduce(stream, credentials.as_ref()));
                    self.reception.receive(stream, introduce);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A process has disconnected, or all resources are in use until other introductions
                // end.
                Err(_) => break,
            }
        }
        let mut some = false;
        while let Some((from, introduced)) = self.reception.take_identified() {
            some = true;
            let welcomed = match introduced {
                Ok((stream, report)) => self.welcome(stream, report, from),
                Err(why) => Err(RunError::Refused(why)),
            };
            if let Err(why) = welcomed {
                warn_of_stranger(format_args!("{from} is refused: {why}"));
            }
        }
        Ok(some)
    }

    /// Records that an instance is disconnected; it may come back.
    pub(crate) fn left(&mut self, number: usize) {
        self.connected[number] = false;
    }

    /// Returns an instance that has come back, if there is one.
    pub(crate) fn back(&mut self) -> Result<Option<(usize, Arrival)>, RunError> {
        self.poll()?;
        let number = self.arrived.iter().position(Option::is_some);
        Ok(number.and_then(|number| Some((number, self.arrived[number].take()?))))
    }

    /// Accepts an instance of the deployment; refuses another process, with the reason.
    fn welcome(&mut self, mut stream: Bytes, report: Report, from: SocketAddr) -> Result<(), RunError> {
        let Report::Introduction { version, instance, file } = report else {
            return Err(RunError::Refused(UNKNOWN.to_owned()));
        };
        let ours = distributed::messages::VERSION;
        let proved = |stream: &Bytes| stream.check_name(&self.names[instance]).err();
        let refusal = match self.connected.get(instance) {
            _ if version != ours => Some(format!("its messages have version {version}, and not {ours}")),
            _ if file != self.fingerprint => Some("it has another deployment file".to_owned()),
            None => Some(format!("there is no instance {instance}")),
            Some(true) => Some(format!("instance {instance} is there already")),
            Some(false) => proved(&stream).map(|fault| fault.to_string()),
        };
        match refusal {
            Some(why) => {
                // The process may have disconnected.
                let _ = send(&mut stream, &Order::Refuse(why.clone()));
                Err(RunError::Refused(why))
            }
            None => {
                // The instance connects again unless it receives this answer.
                send(&mut stream, &Order::KeepAlive).map_err(RunError::of)?;
                let name = format!("instance {instance} (at {})", from.ip());
                self.arrived[instance] = Some(Arrival { name, stream });
                self.connected[instance] = true;
                Ok(())
            }
        }
    }
}

/// The reason for refusing a process that sends something else.
const UNKNOWN: &str = "it does not say which instance it is";

/// Authenticates a process that has connected, if that is required, and receives its introduction.
fn introduce(stream: TcpStream, credentials: Option<&Credentials>) -> Result<(Bytes, Report), String> {
    let words = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(words)?;
    let mut stream = match credentials {
        Some(credentials) => credentials.secure_incoming(stream).map_err(|error| match error {
            PeerError::Refused { fault, .. } => fault.to_string(),
            other => other.to_string(),
        })?,
        None => Bytes::plain(stream).map_err(words)?,
    };
    let end = Instant::now() + INTRODUCTION;
    let received =
        receive_at_most::<Report>(&mut Until(&mut stream, end), INTRODUCTION_BYTES).map_err(words)?;
    stream.set_patience(None).map_err(words)?;
    match received {
        Some(Received::Message(report)) => Ok((stream, report)),
        _ => Err(UNKNOWN.to_owned()),
    }
}

/// As [`warn`], about a stranger that has connected. The number of lines is bounded, so that
/// repeated connections do not fill a disk.
pub(crate) fn warn_of_stranger(what: std::fmt::Arguments<'_>) {
    static LINES: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: orders no other access.
    match LINES.fetch_add(1, Ordering::Relaxed) {
        lines if lines < LINES_MAX => warn(what),
        LINES_MAX => warn(format_args!("more are refused, and not named")),
        _ => {}
    }
}

/// Prints a warning to standard error.
pub(crate) fn warn(what: std::fmt::Arguments<'_>) {
    // The reader of standard error may be gone.
    let _ = writeln!(io::stderr(), "isles: {what}");
}

/// Connects an instance to its command, which may start later, and sends the introduction `here`.
/// Both sides authenticate themselves if there are credentials. If the command does not answer,
/// because it is busy with other connections, the instance connects again.
pub(crate) fn reach(
    machines: &Machines,
    credentials: Option<&Credentials>,
    here: &Report,
) -> Result<Bytes, RunError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut stream = connect(machines, credentials, end)?;
        let received = send(&mut stream, here).and_then(|()| {
            receive_at_most::<Order>(&mut Until(&mut stream, Instant::now() + WELCOME), WELCOME_BYTES)
        });
        match received {
            Ok(Some(Received::Message(Order::KeepAlive))) => {
                stream.set_patience(None).map_err(RunError::of)?;
                return Ok(stream);
            }
            Ok(Some(Received::Message(Order::Refuse(why)))) => {
                return Err(RunError::Refused(format!("the command refuses this instance: {why}")));
            }
            _ if Instant::now() >= end => {
                let command = machines.command;
                return Err(RunError::Refused(format!("the command at {command} does not answer")));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Connects to the command.
fn connect(machines: &Machines, credentials: Option<&Credentials>, end: Instant) -> Result<Bytes, RunError> {
    let command = machines.command;
    loop {
        match TcpStream::connect_timeout(&command, INTRODUCTION) {
            Ok(stream) => {
                let Some(credentials) = credentials else {
                    return Bytes::plain(stream).map_err(RunError::of);
                };
                match credentials.secure_outgoing(stream, &machines.command_name) {
                    // The command had too many connections, or was late.
                    Err(PeerError::Silent(_) | PeerError::Gone(_)) if Instant::now() < end => {
                        std::thread::sleep(PAUSE);
                    }
                    asked => return asked.map_err(RunError::of),
                }
            }
            Err(error) if Instant::now() >= end => {
                return Err(RunError::Refused(format!("no command at {command}: {error}")));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
