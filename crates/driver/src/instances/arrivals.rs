//! Instances of other machines, which come to the command by themselves.
//!
//! An instance connects and says which one it is. Whoever is none of the deployment, or has another file, is refused with a
//! reason. Nobody proves who they are.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

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
    pub stream: TcpStream,
}

/// The command, as it waits for instances.
pub(super) struct Arrivals {
    listener: TcpListener,
    fingerprint: u32,
    /// By instance.
    came: Vec<Option<Arrival>>,
}

impl Arrivals {
    pub(super) fn new(machines: &Machines, fingerprint: u32) -> Result<Self, RunError> {
        let address = machines.command;
        let failed = |error: io::Error| RunError::Refused(format!("{address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let came = machines.addresses.iter().map(|_| None).collect();
        Ok(Arrivals { listener, fingerprint, came })
    }

    /// All of them, by their numbers.
    ///
    /// # Errors
    /// The user ends the run, or some do not come, which are named.
    pub(super) fn all(mut self, stop_requested: &dyn Fn() -> bool) -> Result<Vec<Arrival>, RunError> {
        let end = Instant::now() + PATIENCE;
        while let Some(missing) = self.came.iter().position(Option::is_none) {
            if stop_requested() {
                return Err(RunError::Interrupted);
            }
            if Instant::now() >= end {
                return Err(RunError::Refused(format!("instance {missing} has not come")));
            }
            match self.listener.accept() {
                // Whoever came and is not wanted was told so.
                Ok((stream, from)) => drop(self.welcome(stream, from)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) => return Err(RunError::of(error)),
            }
        }
        Ok(self.came.into_iter().flatten().collect())
    }

    fn welcome(&mut self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(INTRODUCTION))?;
        let introduced = hear::<Word>(&mut stream)?;
        stream.set_read_timeout(None)?;
        let Some(Heard::Said(Word::Here { version, instance, file })) = introduced else { return Ok(()) };
        let ours = islands::messages::VERSION;
        let refusal = match self.came.get(instance) {
            _ if version != ours => Some(format!("its messages have version {version}, and not {ours}")),
            _ if file != self.fingerprint => Some("it has another deployment file".to_owned()),
            None => Some(format!("there is no instance {instance}")),
            Some(Some(_)) => Some(format!("instance {instance} is there already")),
            Some(None) => None,
        };
        match refusal {
            Some(why) => say(&mut stream, &Order::Refuse(why)),
            None => {
                let name = format!("instance {instance} (at {})", from.ip());
                self.came[instance] = Some(Arrival { name, stream });
                Ok(())
            }
        }
    }
}

/// The connection of an instance to its command, which may come later.
pub(super) fn reach(command: SocketAddr) -> Result<TcpStream, RunError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect_timeout(&command, INTRODUCTION) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(RunError::of)?;
                return Ok(stream);
            }
            Err(error) if Instant::now() >= end => {
                return Err(RunError::Refused(format!("no command at {command}: {error}")));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
