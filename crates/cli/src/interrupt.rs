//! Ctrl-C: the run ends early with a valid report of what ran, and the process exits as for a full run (0, or 1 if a
//! check is violated). A second Ctrl-C gives up at once with status 130.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::Failure;

/// Exit status of a process that a second Ctrl-C ended.
const STATUS_INTERRUPTED: i32 = 130;

/// Whether the user asked to stop. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// A flag that no signal raises.
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// A flag that Ctrl-C (and a request to terminate) raises; the second one exits the process. Once per process.
    ///
    /// # Errors
    /// The operating system takes no handler.
    pub fn on_signals() -> Result<Self, Failure> {
        let interrupt = Interrupt::new();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            if flag.requested.swap(true, Ordering::SeqCst) {
                std::process::exit(STATUS_INTERRUPTED);
            }
        })
        .map_err(|error| Failure::Failed(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(interrupt)
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether to stop. Cheap enough to poll every few milliseconds.
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
