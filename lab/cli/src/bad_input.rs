//! Bad input: one line that names the fault and what would have been accepted.

use std::fmt;

/// The fault of what a later version will accept.
const LATER: &str = "not available in this version";

/// A fault in what the user asked for. Displays as exactly one line, whatever the user typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    subject: String,
    problem: String,
    hint: String,
}

impl BadInput {
    /// A fault of `subject` (a flag, with its value where that helps), and what is accepted
    /// instead.
    pub fn new(subject: impl Into<String>, problem: impl Into<String>, accepted: impl Into<String>) -> Self {
        let accepted = accepted.into();
        let hint = if accepted.is_empty() { accepted } else { format!("accepted: {accepted}") };
        BadInput { subject: subject.into(), problem: problem.into(), hint }
    }

    /// A fault of `subject`, and where to read on.
    pub fn see(subject: impl Into<String>, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        BadInput { subject: subject.into(), problem: problem.into(), hint: hint.into() }
    }

    /// A flag with a value that cannot be used.
    pub fn value(flag: &str, value: &str, problem: impl Into<String>, accepted: impl Into<String>) -> Self {
        BadInput::new(with_value(flag, value), problem, accepted)
    }

    /// True if a later version will accept it.
    pub fn is_later(&self) -> bool {
        self.problem == LATER
    }

    /// A command that a later version brings.
    pub fn later(subject: impl Into<String>, accepted: impl Into<String>) -> Self {
        BadInput::new(subject, LATER, accepted)
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = if self.hint.is_empty() {
            format!("{}: {}", self.subject, self.problem)
        } else {
            format!("{}: {} ({})", self.subject, self.problem, self.hint)
        };
        formatter.write_str(&one_line(&line))
    }
}

impl std::error::Error for BadInput {}

fn with_value(flag: &str, value: &str) -> String {
    let shown = if value.is_empty() { "\"\"" } else { value };
    format!("{flag} {shown}")
}

/// Text with its control characters escaped: a terminal shows one line and obeys nothing in it.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_line_whatever_was_typed() {
        let fault = BadInput::value("--cc", "a\nb\u{1b}[31m", "unknown", "silo");
        assert_eq!(fault.to_string(), "--cc a\\nb\\u{1b}[31m: unknown (accepted: silo)");
        assert_eq!(BadInput::value("--cc", "", "unknown", "").to_string(), "--cc \"\": unknown");
    }
}
