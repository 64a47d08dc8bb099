//! Syntax errors of expressions.

/// A syntax error with its position. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at column {column} of `{text}` (accepted: {accepted})")]
pub struct SyntaxError {
    /// The whole text.
    pub text: String,
    /// Column, in characters, from 1.
    pub column: usize,
    /// The error.
    pub problem: String,
    /// Accepted continuations.
    pub accepted: String,
}

impl SyntaxError {
    pub(super) fn new(
        text: &str,
        byte: usize,
        problem: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Self {
        SyntaxError {
            text: text.to_owned(),
            column: text[..byte].chars().count() + 1,
            problem: problem.into(),
            accepted: accepted.into(),
        }
    }
}
