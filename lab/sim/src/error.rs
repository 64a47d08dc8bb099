//! Errors of a run.

use std::fmt;

use platform::{HardwareThread, Nanos};

use crate::{Event, UndeclaredAccess};

/// Reason for which a run ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The configuration describes no valid machine.
    #[error("not a machine: {0}")]
    Config(String),
    /// The host refused address space or stacks.
    #[error("the host refused {bytes} bytes of address space for {purpose}: {reason}")]
    Host {
        /// Bytes of the refused request.
        bytes: usize,
        /// Use of these bytes.
        purpose: &'static str,
        /// The host's error.
        reason: String,
    },
    /// The host has less memory than the run is expected to need.
    #[error(
        "the run needs {} of memory and the host has {} to give: simulate fewer rows or cores",
        gibibytes(*needed),
        gibibytes(*available)
    )]
    Memory {
        /// Bytes that the run needs.
        needed: usize,
        /// Bytes that the host has available.
        available: usize,
    },
    /// No core can ever run again.
    #[error("deadlock at {} ns: {}", at.0, list(waiting))]
    Deadlock {
        /// The last moment at which a core ran.
        at: Nanos,
        /// The wait of each unfinished fiber.
        waiting: Vec<Waiting>,
    },
    /// All cores have passed the configured limit.
    #[error("the run did not end within {} ns of virtual time", limit.0)]
    TimeLimit {
        /// The limit.
        limit: Nanos,
    },
    /// The machine crashed, as [`crate::Config::crash`] says.
    #[error("the machine crashed at {} ns of virtual time, as it was told to", at.0)]
    Crashed {
        /// The last moment at which anything happened.
        at: Nanos,
    },
    /// Cores accessed shared memory at no cost, see [`crate::Config::checks_touches`].
    #[error("{} instructions access shared memory undeclared: {}", .0.len(), undeclared(.0))]
    Undeclared(Vec<UndeclaredAccess>),
}

/// Event that a fiber waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A change of the word (`spin_while`).
    Spin,
    /// An `unpark` of the word (`park`).
    Park,
    /// The end of its workers (`parallel`).
    Join,
    /// Its hardware thread, which executes another worker.
    Processor,
}

/// One waiting fiber of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The simulated hardware thread; `None` for a supervisor.
    pub thread: Option<HardwareThread>,
    /// Event that the fiber waits for.
    pub reason: WaitReason,
    /// Name of the region that holds the word; `None` for private memory and for
    /// [`WaitReason::Join`].
    pub region: Option<&'static str>,
    /// The word's offset in its region, in bytes.
    pub offset: u64,
    /// Value of the word when the wait began.
    pub seen: u64,
    /// Begin of the wait.
    pub since: Nanos,
    /// Its last events, oldest first, if [`crate::Config::trace`] is set.
    pub events: Vec<Event>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            Some(thread) => write!(f, "thread {}", thread.0)?,
            None => write!(f, "supervisor")?,
        }
        let verb = match self.reason {
            WaitReason::Spin => "spins on",
            WaitReason::Park => "is parked on",
            WaitReason::Processor => {
                return write!(f, " waits for its hardware thread since {} ns", self.since.0);
            }
            WaitReason::Join => return write!(f, " waits for its workers since {} ns", self.since.0),
        };
        match self.region {
            Some(name) => write!(f, " {verb} {name}+{}", self.offset)?,
            None => write!(f, " {verb} private memory")?,
        }
        write!(f, " with value {} since {} ns", self.seen, self.since.0)?;
        for (index, event) in self.events.iter().enumerate() {
            write!(f, "{} {event}", if index == 0 { " after" } else { "," })?;
        }
        Ok(())
    }
}

fn gibibytes(bytes: usize) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn undeclared(accesses: &[UndeclaredAccess]) -> String {
    accesses.iter().map(ToString::to_string).collect::<Vec<String>>().join("; ")
}

/// Lists the fibers of a deadlock in one line, at most the first few.
fn list(waiting: &[Waiting]) -> String {
    const SHOWN_MAX: usize = 16;
    let mut text: Vec<String> = waiting.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    if waiting.len() > SHOWN_MAX {
        text.push(format!("and {} more", waiting.len() - SHOWN_MAX));
    }
    text.join("; ")
}
