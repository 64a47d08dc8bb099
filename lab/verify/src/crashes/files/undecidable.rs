//! Losses that no opening can detect, since a crash leaves the same files. Each is documented too:
//! docs/durability.md "Detected and undetected losses", docs/engines.md "Crashes and damage".

use std::collections::BTreeMap;

use super::Damage;

/// How the last generation of a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was closed.
    Closed,
    /// Its process was killed, or did not close it.
    Killed,
}

/// A damage after which the last transactions are missing.
#[derive(Clone, Copy)]
pub struct Loss<'a> {
    /// The damage.
    pub damage: &'a Damage,
    /// How the last generation of the directory ended.
    pub ended: Ended,
    /// True if rows lie in pages.
    pub has_pages: bool,
    /// The names of all files.
    pub names: &'a [&'a str],
    /// Offset of the bytes of each file that were written together before its last flush.
    pub last_groups: &'a BTreeMap<String, u64>,
}

/// A kind of loss that cannot be detected.
pub struct Undecidable {
    /// True if rows lie in pages.
    pub has_pages: bool,
    /// How the last generation of the directory ended.
    pub ended: Ended,
    /// Why it cannot be detected.
    pub why: &'static str,
    applies: fn(&Loss<'_>) -> bool,
}

/// All kinds. After a close each loss is detected.
pub static UNDECIDABLE: [Undecidable; 2] = [
    Undecidable {
        has_pages: false,
        ended: Ended::Killed,
        why: "the last group of a stream cannot be told from a write that was under way",
        applies: |loss| loss.flips_last_group("log-"),
    },
    Undecidable {
        has_pages: true,
        ended: Ended::Killed,
        why: "the last group of the log cannot be told from a write that was under way",
        applies: |loss| loss.flips_last_group("wal-"),
    },
];

impl Loss<'_> {
    /// The kind of this loss; `None` if an opening has to detect it.
    pub fn undecidable(&self) -> Option<&'static Undecidable> {
        let kinds =
            UNDECIDABLE.iter().filter(|kind| kind.has_pages == self.has_pages && kind.ended == self.ended);
        kinds.into_iter().find(|kind| (kind.applies)(self))
    }

    /// True if a bit is flipped in the last group of a log, in a file that keeps its length.
    fn flips_last_group(&self, log: &str) -> bool {
        let Damage::Flip(name, byte, _) = self.damage else { return false };
        name.starts_with(log) && self.last_groups.get(name).is_some_and(|first| *byte as u64 >= *first)
    }
}
