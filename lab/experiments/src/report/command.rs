//! Command lines that a shell takes.

use crate::file::Run;

/// The shell command of a run.
pub fn command_line(run: &Run) -> String {
    let words = ["isles", "bench"].into_iter().map(str::to_owned);
    shell_line(words.chain(run.arguments.iter().cloned()))
}

/// Quotes words for a shell.
pub fn shell_line(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    // A word with a zero byte cannot be quoted, and cannot be an argument either.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}
