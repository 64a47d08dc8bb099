//! Times that the settings of a session allow.

use std::time::{Duration, Instant};

use sql::SqlError;
use sql::context::Settings;

/// Times that the settings of a session allow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The settings from which they were read.
    pub version: u64,
    /// Longest wait for a message outside of transactions.
    pub idle: Option<Duration>,
    /// Longest wait for a message within a transaction.
    pub idle_in_block: Option<Duration>,
    /// Longest time of a statement.
    pub statement: Option<Duration>,
    /// Time from which a statement is logged.
    pub logged: Option<Duration>,
    /// The bound that the connection has now.
    pub reads: Option<Duration>,
}

impl Limits {
    /// Reads the times.
    pub fn of(settings: &Settings) -> Limits {
        let bound = |name: &str| settings.time(name).filter(|time| !time.is_zero());
        Limits {
            version: settings.version(),
            idle: bound("idle_session_timeout"),
            idle_in_block: bound("idle_in_transaction_session_timeout"),
            statement: bound("statement_timeout"),
            logged: settings.time("log_min_duration_statement"),
            reads: None,
        }
    }
}

/// The end of a session that the end of the server brings.
pub fn administrator() -> SqlError {
    SqlError::new("57P01", "terminating connection due to administrator command")
}

/// The end of a session that has waited too long.
pub fn idle(in_transaction: bool) -> SqlError {
    if in_transaction {
        SqlError::new("25P03", "terminating connection due to idle-in-transaction timeout")
    } else {
        SqlError::new("57P05", "terminating connection due to idle-session timeout")
    }
}

/// The error of a statement whose time is over.
pub fn late() -> SqlError {
    SqlError::new("57014", "canceling statement due to statement timeout")
}

/// Logs a statement that took long. Statements about passwords are not shown.
pub fn log_slow(began: Instant, who: &str, text: &str) {
    let took = began.elapsed().as_secs_f64() * 1e3;
    eprintln!("isles-serve: {who} duration: {took:.3} ms  statement: {}", shown(text));
}

/// Most characters of a statement in the log.
const SHOWN_MAX: usize = 2_000;

fn shown(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if lower.contains("password") || lower.contains("scram-sha-256") {
        return "(about a password)".to_owned();
    }
    // A line of the log is a line.
    text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_passwords_and_no_lines_of_others() {
        assert_eq!(shown("alter role ada Password 'secret'"), "(about a password)");
        assert_eq!(shown("select 1\nfrom t"), "select 1 from t");
        assert_eq!(shown(&"x".repeat(5_000)).len(), SHOWN_MAX);
    }
}
