//! The host's memory, checked against the need of a run, and the host's processor time.

use crate::{Config, SimError};

/// Bytes of the directory for each line.
const ENTRY_BYTES: usize = 32;
/// Bytes of a tag in a cache.
const TAG_BYTES: usize = 8;

/// Every host has as much: smaller runs are not checked.
const NEEDED_BYTES_MIN: usize = 64 << 20;

/// Refuses a run that needs more memory than the host has available. A host without a report passes
/// the check.
pub(crate) fn check(config: &Config) -> Result<(), SimError> {
    let needed = needed_bytes(config);
    if needed < NEEDED_BYTES_MIN {
        return Ok(());
    }
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    match available {
        Some(available) if needed > available => Err(SimError::Memory { needed, available }),
        _ => Ok(()),
    }
}

/// Processor time that the calling host thread has used, in seconds.
pub(crate) fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`, which it is given.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the host does not tell processor time: {}", std::io::Error::last_os_error());
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes that the run is expected to commit: the program's own figure, the directory entries of its
/// lines, and tags.
fn needed_bytes(config: &Config) -> usize {
    let model = &config.model;
    let line = model.line_bytes();
    let caches = model.caches();
    let private = model.cores.len().saturating_mul(caches.l1_bytes.saturating_add(caches.l2_bytes));
    let cached = private.saturating_add(model.groups.saturating_mul(caches.l3_bytes));
    let lines = (config.expected_bytes / line).saturating_mul(ENTRY_BYTES);
    let tags = (cached / line).saturating_mul(TAG_BYTES);
    config.expected_bytes.saturating_add(lines).saturating_add(tags)
}

/// The line `MemAvailable` of the kernel's report.
fn available_bytes(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn waiting_takes_no_processor_time() {
        let (begin, started) = (processor_seconds(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(processor_seconds() - begin < started.elapsed().as_secs_f64() / 2.0);
        let ends = |_: &u64| processor_seconds() > begin + 0.001;
        assert!((0..u64::MAX).find(ends).is_some());
    }

    #[test]
    fn a_run_that_does_not_fit_is_refused() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemAvailable: many"), None);
        let config = Config::new(Shape::new(1, 1, 1));
        assert!(needed_bytes(&config) < 10 << 20);
        let config = Config { expected_bytes: 1 << 30, ..config };
        assert!(needed_bytes(&config) > 3 << 29);
        let config = Config { expected_bytes: usize::MAX / 2, ..config };
        assert!(matches!(check(&config), Err(SimError::Memory { .. }) | Ok(())));
        assert_eq!(needed_bytes(&Config { expected_bytes: usize::MAX, ..config }), usize::MAX);
    }
}
