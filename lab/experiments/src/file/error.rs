//! Faults of study files.

use std::fmt;

/// Errors of a study file. Displays as one line; TOML syntax errors also show the line of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// The text is not TOML.
    #[error("{0}")]
    Toml(String),
    /// A key outside of findings and figures.
    #[error("{key}: {problem}")]
    File {
        /// The key.
        key: String,
        /// The error, and accepted values.
        problem: String,
    },
    /// A key of a finding or a figure.
    #[error("{kind} {name}: {key}: {problem}")]
    Entry {
        /// `finding` or `figure`.
        kind: &'static str,
        /// Its id, or its number in the file.
        name: String,
        /// The key.
        key: String,
        /// The error, and accepted values.
        problem: String,
    },
}

impl StudyError {
    /// A fault of a key outside of findings and figures.
    pub(super) fn file(key: &str, problem: impl fmt::Display, accepted: &str) -> Self {
        StudyError::File { key: key.to_owned(), problem: format!("{problem} (accepted: {accepted})") }
    }

    /// The message of the TOML parser in one line, with the position.
    pub(super) fn toml(text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let message = error.message().replace('\n', ", ");
        StudyError::Toml(match line {
            Some(line) => format!("line {line}: {message}"),
            None => message,
        })
    }
}
