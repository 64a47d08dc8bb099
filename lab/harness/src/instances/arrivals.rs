//! Instances of other machines, which come to the command by themselves.
//!
//! An instance connects, proves who it is if the deployment has certificates, and says which
//! instance it is. Whoever is none of the deployment, or has another file, is refused with a
//! reason, which the command says, too. Those that have connected are heard side by side, each for
//! a second and a few bytes ([`Reception`]), so that strangers hold up nobody.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use secure_links::{Bytes, Credentials, GUESTS_MAX, PeerError, Reception};

use super::said::{Heard, Order, Word, hear_at_most, say};
use crate::deployment::Machines;
use crate::error::RunError;

/// How long one that has connected may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(1);
/// Bytes of an introduction, at most.
const INTRODUCTION_BYTES: usize = 64;
/// How long an instance that has said who it is waits for its welcome.
const WELCOME: Duration = Duration::from_secs(3);
/// Bytes of a welcome, or of a reason why not, at most.
const WELCOME_BYTES: usize = 1 << 12;
/// Lines about strangers, at most.
const LINES_MAX: usize = 16;
/// How long the command and its instances wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// An instance that has come.
pub(crate) struct Arrival {
    /// Its name.
    pub name: String,
    pub stream: Bytes,
}

/// One that has connected: where from, and what it has said, or why it is sent away.
type Introduced = (SocketAddr, Result<(Bytes, Word), String>);

/// A connection that is read until a moment, however little comes at a time.
struct Until<'a>(&'a mut Bytes, Instant);

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_end(self.1)?;
        self.0.read(into)
    }
}

/// The command, as it waits for instances.
pub(crate) struct Arrivals {
    listener: TcpListener,
    reception: Reception<Introduced>,
    fingerprint: u32,
    credentials: Option<Credentials>,
    /// Names that instances prove.
    names: Vec<String>,
    /// By instance.
    came: Vec<Option<Arrival>>,
    /// Those that are there.
    there: Vec<bool>,
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
        let came = machines.addresses.iter().map(|_| None).collect();
        let (names, there) = (machines.names.clone(), vec![false; machines.addresses.len()]);
        let reception = Reception::new().map_err(failed)?;
        Ok(Arrivals { listener, reception, fingerprint, credentials, names, came, there })
    }

    /// All of them, by their numbers.
    ///
    /// # Errors
    /// The user ends the run, or some do not come, which are named.
    pub(crate) fn all(&mut self, stop_requested: &dyn Fn() -> bool) -> Result<Vec<Arrival>, RunError> {
        let end = Instant::now() + PATIENCE;
        while let Some(missing) = self.came.iter().position(Option::is_none) {
            if stop_requested() {
                return Err(RunError::Interrupted);
            }
            if Instant::now() >= end {
                return Err(RunError::Refused(format!("instance {missing} has not come")));
            }
            if !self.look()? {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(self.came.iter_mut().filter_map(Option::take).collect())
    }

    /// Hears those who have connected. Whether somebody has said who it is.
    fn look(&mut self) -> Result<bool, RunError> {
        for _ in 0..GUESTS_MAX {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let credentials = self.credentials.clone();
                    let hear = move |stream| (from, introduce(stream, credentials.as_ref()));
                    self.reception.receive(stream, hear);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // One has gone again, or nothing is left to hear anybody with, which those who are
                // heard give back.
                Err(_) => break,
            }
        }
        let mut some = false;
        while let Some((from, introduced)) = self.reception.take_identified() {
            some = true;
            let welcomed = match introduced {
                Ok((stream, word)) => self.welcome(stream, word, from),
                Err(why) => Err(RunError::Refused(why)),
            };
            if let Err(why) = welcomed {
                warn_of_stranger(format_args!("{from} is refused: {why}"));
            }
        }
        Ok(some)
    }

    /// This instance is not there any more, and may come back.
    pub(crate) fn left(&mut self, number: usize) {
        self.there[number] = false;
    }

    /// An instance that has come back, if one has.
    pub(crate) fn back(&mut self) -> Result<Option<(usize, Arrival)>, RunError> {
        self.look()?;
        let number = self.came.iter().position(Option::is_some);
        Ok(number.and_then(|number| Some((number, self.came[number].take()?))))
    }

    /// Whom the command wants is there from now on, and whoever else came was told why not.
    fn welcome(&mut self, mut stream: Bytes, word: Word, from: SocketAddr) -> Result<(), RunError> {
        let Word::Here { version, instance, file } = word else {
            return Err(RunError::Refused(UNKNOWN.to_owned()));
        };
        let ours = distributed::messages::VERSION;
        let proved = |stream: &Bytes| stream.check_name(&self.names[instance]).err();
        let refusal = match self.there.get(instance) {
            _ if version != ours => Some(format!("its messages have version {version}, and not {ours}")),
            _ if file != self.fingerprint => Some("it has another deployment file".to_owned()),
            None => Some(format!("there is no instance {instance}")),
            Some(true) => Some(format!("instance {instance} is there already")),
            Some(false) => proved(&stream).map(|fault| fault.to_string()),
        };
        match refusal {
            Some(why) => {
                // It may be gone already.
                let _ = say(&mut stream, &Order::Refuse(why.clone()));
                Err(RunError::Refused(why))
            }
            None => {
                // It comes again unless it hears that it is expected.
                say(&mut stream, &Order::Alive).map_err(RunError::of)?;
                let name = format!("instance {instance} (at {})", from.ip());
                self.came[instance] = Some(Arrival { name, stream });
                self.there[instance] = true;
                Ok(())
            }
        }
    }
}

/// The message about a process that sends something else.
const UNKNOWN: &str = "it does not say which instance it is";

/// Has one that has connected prove who it is, if it has to, and say it.
fn introduce(stream: TcpStream, credentials: Option<&Credentials>) -> Result<(Bytes, Word), String> {
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
    let heard = hear_at_most::<Word>(&mut Until(&mut stream, end), INTRODUCTION_BYTES).map_err(words)?;
    stream.set_patience(None).map_err(words)?;
    match heard {
        Some(Heard::Said(word)) => Ok((stream, word)),
        _ => Err(UNKNOWN.to_owned()),
    }
}

/// As [`warn`], of somebody who has knocked: whoever knocks for ever fills no disk with that.
pub(crate) fn warn_of_stranger(what: std::fmt::Arguments<'_>) {
    static LINES: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a count of lines alone.
    match LINES.fetch_add(1, Ordering::Relaxed) {
        lines if lines < LINES_MAX => warn(what),
        LINES_MAX => warn(format_args!("more are refused, and not named")),
        _ => {}
    }
}

/// Tells whoever looks after this machine.
pub(crate) fn warn(what: std::fmt::Arguments<'_>) {
    // The reader of standard error may be gone.
    let _ = writeln!(io::stderr(), "isles: {what}");
}

/// The connection of an instance, which says `here`, to its command, which may come later. Both
/// prove who they are, if this one can. One that the command has not heard, because others have
/// knocked, comes again.
pub(crate) fn reach(
    machines: &Machines,
    credentials: Option<&Credentials>,
    here: &Word,
) -> Result<Bytes, RunError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut stream = connect(machines, credentials, end)?;
        let heard = say(&mut stream, here).and_then(|()| {
            hear_at_most::<Order>(&mut Until(&mut stream, Instant::now() + WELCOME), WELCOME_BYTES)
        });
        match heard {
            Ok(Some(Heard::Said(Order::Alive))) => {
                stream.set_patience(None).map_err(RunError::of)?;
                return Ok(stream);
            }
            Ok(Some(Heard::Said(Order::Refuse(why)))) => {
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

/// A connection to the command.
fn connect(machines: &Machines, credentials: Option<&Credentials>, end: Instant) -> Result<Bytes, RunError> {
    let command = machines.command;
    loop {
        match TcpStream::connect_timeout(&command, INTRODUCTION) {
            Ok(stream) => {
                let Some(credentials) = credentials else {
                    return Bytes::plain(stream).map_err(RunError::of);
                };
                match credentials.secure_outgoing(stream, &machines.command_name) {
                    // The command had too many guests, or was late.
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
