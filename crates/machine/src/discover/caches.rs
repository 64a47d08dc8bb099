//! Caches: their processors and their sizes.

use super::root::Root;
use crate::cpu_set::CpuSet;
use crate::raw::{RawGroup, RawMachine};
use crate::topology::Level;

/// Adds the caches of all online processors.
pub(super) fn read(files: &Root, raw: &mut RawMachine) {
    let online = raw.online.clone();
    let mut taken: Vec<(Level, CpuSet)> = Vec::new();
    for processor in online.iter() {
        let directory = format!("sys/devices/system/cpu/cpu{processor}/cache");
        for index in files.numbered(&directory, "index") {
            let Some(mut cache) = read_one(files, &format!("{directory}/index{index}")) else { continue };
            cache.processors = cache.processors.intersection(&online);
            if cache.processors.is_empty() {
                // Itanium kernels print an empty mask for the caches of one core.
                cache.processors = core_of(raw, processor);
            }
            if !cache.processors.contains(processor) {
                continue;
            }
            let seen = match taken.iter_mut().find(|(level, _)| *level == cache.level) {
                Some((_, seen)) => seen,
                None => {
                    taken.push((cache.level, CpuSet::default()));
                    &mut taken.last_mut().expect("just pushed").1
                }
            };
            if cache.processors.is_disjoint(seen) {
                *seen = seen.union(&cache.processors);
                raw.groups.push(cache);
            }
        }
    }
}

fn core_of(raw: &RawMachine, processor: u32) -> CpuSet {
    let holds = |group: &&RawGroup| group.level == Level::Core && group.processors.contains(processor);
    let core = raw.groups.iter().find(holds);
    core.map_or_else(|| CpuSet::single(processor), |core| core.processors.clone())
}

fn read_one(files: &Root, directory: &str) -> Option<RawGroup> {
    let instruction = files.text(&format!("{directory}/type"))?.starts_with('I');
    let level = match (files.number(&format!("{directory}/level"))?, instruction) {
        (1, true) => Level::L1Instruction,
        (1, false) => Level::L1Data,
        (_, true) => return None,
        (2, false) => Level::L2,
        (3, false) => Level::L3,
        (4.., false) => Level::L4,
        (0, false) => return None,
    };
    let (mask, list) = (format!("{directory}/shared_cpu_map"), format!("{directory}/shared_cpu_list"));
    let processors = files.possibly_empty_set(&mask, &list)?;
    Some(RawGroup {
        level,
        processors,
        os_index: None,
        cache_bytes: files.text(&format!("{directory}/size")).map_or(0, |text| parse_size(&text)),
        line_bytes: files.number(&format!("{directory}/coherency_line_size")).unwrap_or(0),
    })
}

/// Bytes of a size such as `32K` or `8M`; 0 for other texts.
fn parse_size(text: &str) -> u64 {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].chars().next() {
        Some('K' | 'k') => 1 << 10,
        Some('M' | 'm') => 1 << 20,
        Some('G' | 'g') => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32K"), 32 << 10);
        assert_eq!(parse_size("8M"), 8 << 20);
        assert_eq!(parse_size("512"), 512);
        assert_eq!(parse_size("big"), 0);
    }
}
