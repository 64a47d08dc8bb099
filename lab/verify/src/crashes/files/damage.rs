//! Damage to the files of a directory while no program has it open.

use std::collections::BTreeMap;
use std::fmt;

use terms::random::Random;

/// Names and bytes of the files of a directory.
pub type Content = BTreeMap<String, Vec<u8>>;

/// A block of a device.
const BLOCK: usize = 4096;
/// Bytes that include the head of a file of any format.
const HEAD: u64 = 64;
/// Bits that are flipped anywhere in the written part of a file.
const FLIPS_ANYWHERE: usize = 3;
/// File names that Isles never creates, some of which look like its own.
const STRANGE: [&str; 5] = [
    "notes.txt",
    "log-0004-0000000001",
    "log-000-9999999999",
    "log-4294967295-0000000001",
    "checkpoint-9999999999-000",
];

/// One damage to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file is removed.
    Remove(String),
    /// All files with this prefix are removed.
    RemoveAll(String),
    /// The file is truncated to this length.
    Truncate(String, usize),
    /// One bit is flipped.
    Flip(String, usize, u8),
    /// The file has its contents of an earlier generation of the database.
    Older(String),
    /// The file is replaced by that of another database.
    Other(String),
    /// The file is copied to this name.
    Duplicate(String, String),
    /// Two files exchange their names.
    Exchange(String, String),
    /// A foreign file is added.
    Stray(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Remove(name) => write!(to, "{name} removed"),
            Damage::RemoveAll(prefix) => write!(to, "all {prefix}* removed"),
            Damage::Truncate(name, bytes) => write!(to, "{name} cut to {bytes} bytes"),
            Damage::Flip(name, byte, bit) => write!(to, "bit {bit} of byte {byte} of {name} flipped"),
            Damage::Older(name) => write!(to, "{name} as it was in an earlier life"),
            Damage::Other(name) => write!(to, "{name} of another database"),
            Damage::Duplicate(name, copy) => write!(to, "{name} also as {copy}"),
            Damage::Exchange(one, other) => write!(to, "{one} and {other} exchanged"),
            Damage::Stray(name) => write!(to, "a stray {name}"),
        }
    }
}

/// The directories that damage is made from.
pub struct Sources<'a> {
    /// The directory that is damaged.
    pub content: &'a Content,
    /// Its contents in an earlier generation.
    pub older: &'a Content,
    /// The directory of another database.
    pub other: &'a Content,
}

/// Length of the written part of a file: zeros at its end are preallocated space.
pub fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The name with another number at its end; `None` if it has no number.
fn renumbered(name: &str, change: impl Fn(u64) -> Option<u64>) -> Option<String> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, number) = name.split_at(name.len() - digits);
    let number = change(number.parse().ok()?)?;
    Some(format!("{head}{number:0digits$}"))
}

/// The name without numbers, which all files of one kind share.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

impl Damage {
    /// Each kind of damage to each file.
    pub fn all(sources: &Sources<'_>, random: &mut Random) -> Vec<Damage> {
        let mut all: Vec<Damage> = Vec::new();
        let names: Vec<&String> = sources.content.keys().collect();
        for (name, bytes) in sources.content {
            all.push(Damage::Remove(name.clone()));
            all.extend(lengths(bytes).into_iter().map(|bytes| Damage::Truncate(name.clone(), bytes)));
            all.extend(
                bits(bytes, random).into_iter().map(|(byte, bit)| Damage::Flip(name.clone(), byte, bit)),
            );
            if sources.older.get(name).is_some_and(|older| older != bytes) {
                all.push(Damage::Older(name.clone()));
            }
            if sources.other.get(name).is_some_and(|other| other != bytes) {
                all.push(Damage::Other(name.clone()));
            }
            let copies = [
                Some(format!("{name}.copy")),
                renumbered(name, |number| number.checked_add(1)),
                renumbered(name, |number| number.checked_sub(1)),
                renumbered(name, |number| number.checked_add(100)),
            ];
            let free = copies.into_iter().flatten().filter(|copy| !sources.content.contains_key(copy));
            all.extend(free.map(|copy| Damage::Duplicate(name.clone(), copy)));
        }
        for pair in names.windows(2).filter(|pair| kind(pair[0]) == kind(pair[1])) {
            all.push(Damage::Exchange(pair[0].clone(), pair[1].clone()));
        }
        let mut kinds: Vec<&str> = names.iter().map(|name| kind(name)).collect();
        kinds.dedup();
        all.extend(kinds.into_iter().map(|kind| Damage::RemoveAll(kind.to_owned())));
        all.extend(STRANGE.map(|name| Damage::Stray(name.to_owned())));
        all
    }

    /// The damaged directory.
    pub fn apply(&self, sources: &Sources<'_>) -> Content {
        let mut content = sources.content.clone();
        let take = |from: &Content, name: &String| from.get(name).cloned().unwrap_or_default();
        match self {
            Damage::Remove(name) => {
                content.remove(name);
            }
            Damage::RemoveAll(prefix) => content.retain(|name, _| kind(name) != prefix),
            Damage::Truncate(name, bytes) => {
                content.entry(name.clone()).and_modify(|content| content.truncate(*bytes));
            }
            Damage::Flip(name, byte, bit) => {
                content.entry(name.clone()).and_modify(|content| content[*byte] ^= 1 << bit);
            }
            Damage::Older(name) => {
                content.insert(name.clone(), take(sources.older, name));
            }
            Damage::Other(name) => {
                content.insert(name.clone(), take(sources.other, name));
            }
            Damage::Duplicate(name, copy) => {
                content.insert(copy.clone(), take(sources.content, name));
            }
            Damage::Exchange(one, other) => {
                content.insert(one.clone(), take(sources.content, other));
                content.insert(other.clone(), take(sources.content, one));
            }
            Damage::Stray(name) => {
                content.insert(name.clone(), b"not a file of Isles\n".to_vec());
            }
        }
        content
    }

    /// True if the opening that left this directory has removed a copy together with its original,
    /// whose contents prove that it is superseded.
    pub fn is_superseded(&self, after: &Content) -> bool {
        let Damage::Duplicate(name, copy) = self else { return false };
        !after.contains_key(name) && !after.contains_key(copy)
    }

    /// A file that the damage has added or replaced and that is not provably the database's own: an
    /// opening leaves it alone.
    pub fn foreign(&self) -> Option<&str> {
        match self {
            Damage::Other(name) | Damage::Duplicate(_, name) | Damage::Stray(name) => Some(name),
            _ => None,
        }
    }
}

/// Lengths to which a file is truncated.
fn lengths(bytes: &[u8]) -> Vec<usize> {
    let written = written(bytes);
    let mut lengths =
        vec![0, BLOCK, bytes.len() / 2, written / 2, written.next_multiple_of(BLOCK) / 2 / BLOCK * BLOCK];
    lengths.extend([written.saturating_sub(1), bytes.len().saturating_sub(1)]);
    lengths.retain(|length| *length < bytes.len());
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Bits to flip: in the head, around the first block, anywhere, at the end of the written part, and
/// behind it.
fn bits(bytes: &[u8], random: &mut Random) -> Vec<(usize, u8)> {
    let written = written(bytes);
    let mut places = vec![0, random.below(HEAD) as usize, BLOCK - 1, BLOCK, BLOCK + 8];
    if written > 0 {
        places.extend((0..FLIPS_ANYWHERE).map(|_| random.below(written as u64) as usize));
        places.extend([written - 1, written + BLOCK]);
    }
    places.retain(|place| *place < bytes.len());
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| (place, random.below(8) as u8)).collect()
}
