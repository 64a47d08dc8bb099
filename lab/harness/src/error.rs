//! The reason why a run ends without a measurement.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use terms::Abort;

/// The reason why a run ends without a measurement. Displays as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The caller ended the run while it loaded.
    #[error("interrupted while loading")]
    Interrupted,
    /// The directory contains incomplete data of a run that was interrupted while loading.
    #[error("{}: its loading was interrupted: remove it, or take another", .0.display())]
    HalfLoaded(PathBuf),
    /// The directory contains other data than those of the run.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// A transaction failed, and is not tried again.
    #[error("{kind}: {abort}")]
    Transaction {
        /// The kind of transaction.
        kind: &'static str,
        /// The cause.
        abort: Abort,
    },
    /// A worker panicked, or ended without a result for another reason.
    #[error("{0}")]
    Worker(&'static str),
    /// A worker of another instance has left too early, because of another failure there.
    #[error("{0}")]
    PeerGone(String),
    /// The process of an instance has ended too early: its name and how it ended.
    #[error("{0}")]
    InstanceGone(String),
    /// The engine or the machine refuses, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// The reason why a directory does not contain the requested data. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{asked}: {problem} (accepted: {accepted})")]
pub struct OtherData {
    /// The flag with its value, or the workload.
    pub asked: String,
    /// The content of the directory.
    pub problem: String,
    /// The content that would fit.
    pub accepted: String,
}

impl RunError {
    /// A refusal for this reason.
    pub(crate) fn of(error: impl std::fmt::Display) -> RunError {
        RunError::Refused(error.to_string())
    }

    /// The error among these that may have caused the others.
    pub(crate) fn first_cause(errors: impl IntoIterator<Item = RunError>) -> Option<RunError> {
        errors.into_iter().min_by_key(|error| matches!(error, RunError::PeerGone(_)))
    }

    /// A refusal for this reason, with the path in the message exactly once.
    pub(crate) fn at(path: &Path, error: &dyn std::fmt::Display) -> RunError {
        let (path, text) = (path.display().to_string(), error.to_string());
        RunError::Refused(if text.contains(&path) { text } else { format!("{path}: {text}") })
    }
}
