//! Instances of other machines, which come to the command by themselves.
//!
//! An instance connects, proves who it is if the deployment has certificates, and says which instance it is. Whoever is none of the
//! deployment, or has another file, is refused with a reason, which the command says, too.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use peers::{Bytes, Credentials, PeerError};

use super::said::{Heard, Order, Word, hear, say};
use crate::deployment::Machines;
use crate::error::RunError;

/// How long one that has connected may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(1);
/// How long the command and its instances wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// An instance that has come.
pub(super) struct Arrival {
    /// What it is called.
    pub name: String,
    pub stream: Bytes,
}

/// The command, as it waits for instances.
pub(super) struct Arrivals {
    listener: TcpListener,
    fingerprint: u32,
    credentials: Option<Credentials>,
    /// What instances prove.
    names: Vec<String>,
    /// By instance.
    came: Vec<Option<Arrival>>,
    /// Those that are there.
    there: Vec<bool>,
}

impl Arrivals {
    pub(super) fn new(
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
        Ok(Arrivals { listener, fingerprint, credentials, names, came, there })
    }

    /// All of them, by their numbers.
    ///
    /// # Errors
    /// The user ends the run, or some do not come, which are named.
    pub(super) fn all(&mut self, stop_requested: &dyn Fn() -> bool) -> Result<Vec<Arrival>, RunError> {
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

    /// Whether somebody has come.
    fn look(&mut self) -> Result<bool, RunError> {
        match self.listener.accept() {
            Ok((stream, from)) => {
                if let Err(why) = self.welcome(stream, from) {
                    warn(format_args!("{from} is refused: {why}"));
                }
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(RunError::of(error)),
        }
    }

    /// This instance is not there any more, and may come back.
    pub(super) fn left(&mut self, number: usize) {
        self.there[number] = false;
    }

    /// An instance that has come back, if one has.
    pub(super) fn back(&mut self) -> Result<Option<(usize, Arrival)>, RunError> {
        self.look()?;
        let number = self.came.iter().position(Option::is_some);
        Ok(number.and_then(|number| Some((number, self.came[number].take()?))))
    }

    /// Whom the command wants is there from now on, and whoever else came was told why not.
    fn welcome(&mut self, stream: TcpStream, from: SocketAddr) -> Result<(), RunError> {
        stream.set_nonblocking(false).map_err(RunError::of)?;
        let mut stream = match &self.credentials {
            Some(credentials) => credentials.answer(stream).map_err(|error| match error {
                PeerError::Refused { fault, .. } => RunError::of(fault),
                other => RunError::of(other),
            })?,
            None => Bytes::plain(stream).map_err(RunError::of)?,
        };
        stream.set_patience(Some(INTRODUCTION)).map_err(RunError::of)?;
        let introduced = hear::<Word>(&mut stream).map_err(RunError::of)?;
        stream.set_patience(None).map_err(RunError::of)?;
        let Some(Heard::Said(Word::Here { version, instance, file })) = introduced else {
            return Err(RunError::Refused("it does not say which instance it is".to_owned()));
        };
        let ours = islands::messages::VERSION;
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
                let name = format!("instance {instance} (at {})", from.ip());
                self.came[instance] = Some(Arrival { name, stream });
                self.there[instance] = true;
                Ok(())
            }
        }
    }
}

/// Tells whoever looks after this machine.
pub(super) fn warn(what: std::fmt::Arguments<'_>) {
    // The reader of standard error may be gone.
    let _ = writeln!(io::stderr(), "isles: {what}");
}

/// The connection of an instance to its command, which may come later. Both prove who they are, if this one can.
pub(super) fn reach(machines: &Machines, credentials: Option<&Credentials>) -> Result<Bytes, RunError> {
    let (command, end) = (machines.command, Instant::now() + PATIENCE);
    loop {
        match TcpStream::connect_timeout(&command, INTRODUCTION) {
            Ok(stream) => {
                return match credentials {
                    Some(credentials) => {
                        credentials.ask(stream, &machines.command_name).map_err(RunError::of)
                    }
                    None => Bytes::plain(stream).map_err(RunError::of),
                };
            }
            Err(error) if Instant::now() >= end => {
                return Err(RunError::Refused(format!("no command at {command}: {error}")));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
