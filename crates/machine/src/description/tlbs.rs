//! Reading of the table `tlb`: see [`super::translation`].

use super::fact::Fact;
use super::keys::{DescriptionError, Keys, confidence};
use super::translation::{PageSizes, TlbArrays, TlbLevel, TlbSize, Translation};

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
