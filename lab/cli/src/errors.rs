//! Why a command ends without success, and its exit status.

use std::path::Path;

use harness::{OtherData, RunError};

use crate::bad_input::BadInput;

/// Why a command did not do what it was asked. Displays as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The request cannot be fulfilled: exit status 2.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// The run failed: exit status 1.
    #[error("{0}")]
    Failed(String),
    /// The run ended, and consistency checks are violated: exit status 1.
    #[error("{0}")]
    Violated(String),
    /// Standard output cannot be written: exit status 1, silently if its reader has gone.
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// A run that failed because of this.
    pub fn of(error: impl std::fmt::Display) -> Failure {
        Failure::Failed(error.to_string())
    }

    /// Why a run has no measurement: data that do not fit what is asked for are bad input.
    pub fn of_run(error: RunError) -> Failure {
        match error {
            RunError::OtherData(OtherData { asked, problem, accepted }) => {
                BadInput::new(asked, problem, accepted).into()
            }
            error => Failure::of(error),
        }
    }

    /// A run that failed because of this, which happened at `path`: it is named once.
    pub fn at(path: &Path, error: &dyn std::fmt::Display) -> Failure {
        let (path, text) = (path.display().to_string(), error.to_string());
        Failure::Failed(if names_path(&text, &path) { text } else { format!("{path}: {text}") })
    }

    /// The exit status of the process.
    pub fn status(&self) -> u8 {
        match self {
            Failure::BadInput(_) => 2,
            Failure::Failed(_) | Failure::Violated(_) | Failure::Output(_) => 1,
        }
    }

    /// True if the reader of standard output went away, which needs no message.
    pub fn reader_left(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// True if a message names this path, as a whole and not as a part of another word.
fn names_path(text: &str, path: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || "_-.".contains(one);
    text.match_indices(path).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + path.len()..]);
        !before.ends_with(|one| is_part(one) || one == '/') && !behind.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::names_path;

    #[test]
    fn a_path_is_named_as_a_whole() {
        for text in
            ["data: it is damaged", "cannot open data", "data/log-000: damaged", "\"data\" is no database"]
        {
            assert!(names_path(text, "data"), "{text}");
        }
        for text in ["no database with tables", "/old/data: missing", "data.old: missing", ""] {
            assert!(!names_path(text, "data"), "{text}");
        }
    }
}
