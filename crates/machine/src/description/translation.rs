//! Translation of addresses: the TLBs of a core, and the entries of page tables behind them.
//!
//! Optional facts, for which there is no rule: on a machine without them translation is free. Files
//! have them in the table `tlb` of `core`.

use super::fact::Fact;
use super::facts::confidence;
use super::keys::{DescriptionError, Keys};

/// Address translation of a core. Its hardware threads share it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Translation {
    /// Sizes of pages and of what page tables have for each.
    pub pages: Fact<PageSizes>,
    /// TLBs in the order in which they are asked.
    pub levels: Vec<TlbLevel>,
}

/// Sizes in bytes, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PageSizes {
    /// A page by default.
    pub small: u64,
    /// A page of memory for which a program requests huge ones.
    pub huge: u64,
    /// The part of a page table that a page has for itself: an entry of a radix tree, or a group of
    /// entries of a hashed table, in which neighbours are not together.
    pub entry: u64,
}

/// One level of TLB.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TlbLevel {
    /// Its arrays.
    pub arrays: Fact<TlbArrays>,
    /// Time by which an access takes longer if this level has its translation and those before have
    /// not; `None` for the first level.
    pub hit_ns: Option<Fact<f64>>,
}

/// Arrays of a level, by the size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TlbArrays {
    /// One for all sizes.
    Shared(TlbSize),
    /// One for each size; `None` if the level has no translations of that size.
    Apart {
        /// For small pages.
        small: Option<TlbSize>,
        /// For huge pages.
        huge: Option<TlbSize>,
    },
}

/// Size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TlbSize {
    /// Translations in it.
    pub entries: usize,
    /// Translations in a set.
    pub ways: usize,
}

impl TlbArrays {
    /// The arrays with the keys that files have for them.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, TlbSize)> {
        let all = match *self {
            TlbArrays::Shared(size) => [("shared", Some(size)), ("", None)],
            TlbArrays::Apart { small, huge } => [("small", small), ("huge", huge)],
        };
        all.into_iter().filter_map(|(name, size)| Some((name, size?)))
    }
}

/// Largest number of levels.
const LEVELS_MAX: usize = 4;
/// Largest page, in KiB.
const PAGE_KIB_MAX: u64 = 1 << 24;
/// Largest part of a page table for one page, in bytes.
const ENTRY_BYTES_MAX: u64 = 1024;

/// Reads a table `tlb`; `fact` reads one value.
pub(super) fn read(
    table: &Keys,
    fact: impl Fn(&Keys, &str) -> Result<Fact<f64>, DescriptionError>,
) -> Result<Translation, DescriptionError> {
    table.only(&["small_page_kib", "huge_page_kib", "entry_bytes", "levels", "confidence", "source"])?;
    let power = |key: &str, most: u64| {
        let value = table.whole(key, most)?.ok_or_else(|| table.missing(key))?;
        let expected = format!("a power of two up to {most}");
        if value.is_power_of_two() { Ok(value) } else { Err(table.invalid(key, value, &expected)) }
    };
    let (small, huge) = (power("small_page_kib", PAGE_KIB_MAX)?, power("huge_page_kib", PAGE_KIB_MAX)?);
    if small < 4 || huge <= small {
        return Err(table.invalid("huge_page_kib", huge, "more than `small_page_kib`, which is 4 or more"));
    }
    let entry = power("entry_bytes", ENTRY_BYTES_MAX)?;
    let mut levels = Vec::new();
    for keys in table.tables("levels")? {
        levels.push(level(&keys, levels.is_empty(), &fact)?);
    }
    if !(1..=LEVELS_MAX).contains(&levels.len()) {
        let found = format!("a list of {} tables", levels.len());
        return Err(table.invalid("levels", found, &format!("1 to {LEVELS_MAX} tables")));
    }
    let sizes = PageSizes { small: small << 10, huge: huge << 10, entry };
    Ok(Translation { pages: trusted(table, sizes)?, levels })
}

/// Reads a level. The first has translations of all sizes and no cost of its own.
fn level(
    keys: &Keys,
    first: bool,
    fact: impl Fn(&Keys, &str) -> Result<Fact<f64>, DescriptionError>,
) -> Result<TlbLevel, DescriptionError> {
    keys.only(&["small", "huge", "shared", "hit_ns", "confidence", "source"])?;
    let size = |key: &str| keys.below(key)?.map(|table| size(&table)).transpose();
    let arrays = match (size("shared")?, size("small")?, size("huge")?) {
        (Some(shared), None, None) => TlbArrays::Shared(shared),
        (None, Some(small), Some(huge)) => TlbArrays::Apart { small: Some(small), huge: Some(huge) },
        (None, small, huge) if !first && (small.is_some() || huge.is_some()) => {
            TlbArrays::Apart { small, huge }
        }
        _ => {
            return Err(keys.missing(if first {
                "shared` or `small` and `huge"
            } else {
                "shared` or `small"
            }));
        }
    };
    let hit_ns = match (first, keys.has("hit_ns")) {
        (true, true) => return Err(keys.invalid("hit_ns", "given", "no such key in the first level")),
        (true, false) => None,
        (false, _) => Some(fact(keys, "hit_ns")?),
    };
    Ok(TlbLevel { arrays: trusted(keys, arrays)?, hit_ns })
}

fn size(keys: &Keys) -> Result<TlbSize, DescriptionError> {
    keys.only(&["entries", "ways"])?;
    let (entries, ways) = (keys.required_count("entries")?, keys.required_count("ways")?);
    if !entries.is_multiple_of(ways) || !(entries / ways).is_power_of_two() {
        let expected = format!("a divisor of {entries} entries that makes a power of two of sets");
        return Err(keys.invalid("ways", ways, &expected));
    }
    Ok(TlbSize { entries, ways })
}

fn trusted<T>(table: &Keys, value: T) -> Result<Fact<T>, DescriptionError> {
    Ok(Fact { value, confidence: confidence(table)?, source: table.text("source")?.unwrap_or_default() })
}
