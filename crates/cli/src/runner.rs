//! The seam between the command line and the engine: runs a configuration.
//!
//! PLACEHOLDER: nothing is wired to it yet. Whoever owns the runner replaces this one file and keeps the signature of
//! [`run`].

use crate::config::Config;
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::Report;

/// Loads, warms up, runs and checks what `config` says.
///
/// Called on the main thread. `progress` is called from this thread only. When `interrupt` is requested, loading ends
/// with [`Failure::Failed`] and a run ends early with a report of what ran.
///
/// # Errors
/// [`Failure::BadInput`] for what only the engine can know (rows that do not fit), otherwise [`Failure::Failed`].
/// A violated check is no error here: it stands in the report.
pub fn run(_config: &Config, _progress: &Progress, _interrupt: &Interrupt) -> Result<Report, Failure> {
    Err(Failure::Failed("bench: the benchmark runner is not wired to this command line yet".to_owned()))
}
