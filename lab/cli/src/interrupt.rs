//! Ctrl-C: the run ends early with a valid report of what ran, and the process exits as for a full
//! run (0, or 1 if a check is violated). A second Ctrl-C gives up at once with status 130. A
//! request to terminate (SIGTERM) does the same, its second with status 143. A hangup keeps its
//! meaning, so that `nohup` works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::errors::Failure;

/// A shell adds this to the number of the signal that ended a process.
const STATUS_OF_SIGNAL: i32 = 128;

/// A flag that is set when the user asks to stop. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// A flag that no signal raises.
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// A flag that Ctrl-C or a request to terminate raises; the second one exits the process. Once
    /// per process.
    ///
    /// # Errors
    /// The operating system takes no handler.
    pub fn on_signals() -> Result<Self, Failure> {
        let interrupt = Interrupt::new();
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in this order: the first signal finds the flag down and only raises it.
            let status = STATUS_OF_SIGNAL + signal;
            flag::register_conditional_shutdown(signal, status, Arc::clone(&interrupt.requested))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.requested)))
                .map_err(|error| Failure::Failed(format!("cannot handle signal {signal}: {error}")))?;
        }
        Ok(interrupt)
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// True if to stop. Cheap enough to poll every few milliseconds.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_flag() {
        let interrupt = Interrupt::new();
        let runner = interrupt.clone();
        assert!(!runner.requested());
        interrupt.request();
        assert!(runner.requested());
    }
}
