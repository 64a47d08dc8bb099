//! Why a run ends without a measurement.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use terms::Abort;

/// Why a run ends without a measurement. Displays as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The caller ended the run while it loaded.
    #[error("interrupted while loading")]
    Interrupted,
    /// The directory holds what an interrupted run has loaded.
    #[error("{}: its loading was interrupted: remove it, or take another", .0.display())]
    HalfLoaded(PathBuf),
    /// The directory holds other data than the run is about.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// A transaction failed for good.
    #[error("{kind}: {abort}")]
    Transaction {
        /// The kind of transaction.
        kind: &'static str,
        /// Why.
        abort: Abort,
    },
    /// A worker panicked, or ended otherwise without a result.
    #[error("{0}")]
    Worker(&'static str),
    /// A worker of another instance has left before its time: something else ended there.
    #[error("{0}")]
    PeerGone(String),
    /// The process of an instance has ended before its time: which, and how.
    #[error("{0}")]
    InstanceGone(String),
    /// The engine or the machine refuses, and why.
    #[error("{0}")]
    Refused(String),
}

/// Why what is asked for does not fit what a directory holds. Displays as one line.
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

    /// The one of these errors that may have caused the others.
    pub(crate) fn first_cause(errors: impl IntoIterator<Item = RunError>) -> Option<RunError> {
        errors.into_iter().min_by_key(|error| matches!(error, RunError::PeerGone(_)))
    }

    /// A refusal for this reason, which lies at `path`: the path is named once.
    pub(crate) fn at(path: &Path, error: &dyn std::fmt::Display) -> RunError {
        let (path, text) = (path.display().to_string(), error.to_string());
        RunError::Refused(if text.contains(&path) { text } else { format!("{path}: {text}") })
    }
}
