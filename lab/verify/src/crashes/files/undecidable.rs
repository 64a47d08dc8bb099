//! Losses that no opening can see, since a crash leaves the same files. Each is in the documents
//! too: docs/durability.md "Detected and undetected losses", docs/engines.md "Crashes and damage".

use std::collections::BTreeMap;

use super::Damage;

/// How the last life of a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By a close.
    Closed,
    /// Its process was killed, or forgot to close.
    Killed,
}

/// A damage after which the last transactions are missing.
#[derive(Clone, Copy)]
pub struct Loss<'a> {
    /// The damage.
    pub damage: &'a Damage,
    /// How the last life of the directory ended.
    pub ended: Ended,
    /// True if rows lie in pages.
    pub of_pages: bool,
    /// The names of all files.
    pub names: &'a [&'a str],
    /// Where the last bytes begin that were written to each file together, before one flush.
    pub last_groups: &'a BTreeMap<String, u64>,
}

/// A kind of loss that cannot be seen.
pub struct Undecidable {
    /// True if rows lie in pages.
    pub of_pages: bool,
    /// How the last life of the directory ended.
    pub ended: Ended,
    /// Why it cannot be seen.
    pub why: &'static str,
    applies: fn(&Loss<'_>) -> bool,
}

/// All of them. After a close nothing can be lost unseen.
pub static UNDECIDABLE: [Undecidable; 2] = [
    Undecidable {
        of_pages: false,
        ended: Ended::Killed,
        why: "the last group of a stream cannot be told from a write that was under way",
        applies: |loss| loss.flips_last_group("log-"),
    },
    Undecidable {
        of_pages: true,
        ended: Ended::Killed,
        why: "the last group of the log cannot be told from a write that was under way",
        applies: |loss| loss.flips_last_group("wal-"),
    },
];

impl Loss<'_> {
    /// The kind that it is of; `None` if an opening has to see it.
    pub fn undecidable(&self) -> Option<&'static Undecidable> {
        let kinds =
            UNDECIDABLE.iter().filter(|kind| kind.of_pages == self.of_pages && kind.ended == self.ended);
        kinds.into_iter().find(|kind| (kind.applies)(self))
    }

    /// A bit is another in what was written last to a log, in a file that keeps its length.
    fn flips_last_group(&self, log: &str) -> bool {
        let Damage::Flip(name, byte, _) = self.damage else { return false };
        name.starts_with(log) && self.last_groups.get(name).is_some_and(|first| *byte as u64 >= *first)
    }
}
