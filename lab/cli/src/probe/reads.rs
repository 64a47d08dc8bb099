//! Random reads of the device, past the operating system's cache, by how many are under way.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use platform::{Hardware, Place, Platform};
use rustix::fs::OFlags;
use terms::random::Random;

use super::types::{Effort, Reads, ReadsAtDepth};

/// Bytes of a read: a page of a paged database.
pub(super) const PAGE_BYTES: usize = 8 << 10;
/// How many reads are under way, each asked for by a thread of its own.
const DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// Offsets and buffers of direct reads are multiples of this.
const ALIGNED_BYTES: usize = 4096;
/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Measures, on the device that has this directory.
pub(super) fn reads(directory: &Path, effort: Effort) -> Reads {
    let path = directory.join(format!("isles-probe-reads-{}", std::process::id()));
    let measured = write(&path, effort.file_bytes).and_then(|()| {
        DEPTHS.iter().map(|depth| at_depth(&path, *depth, effort)).collect::<Result<Vec<_>>>()
    });
    let _ = std::fs::remove_file(&path);
    let (depths, reason) = match measured {
        Ok(depths) => (depths, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Reads { page_bytes: PAGE_BYTES, depths, reason }
}

/// A file of bytes that no device can leave out.
fn write(path: &Path, bytes: usize) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut random = Random::new(1, 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    for _ in 0..bytes / CHUNK_BYTES {
        chunk.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Pages that this many threads read together in a second.
fn at_depth(path: &Path, depth: usize, effort: Effort) -> Result<ReadsAtDepth> {
    let results = Mutex::new(Vec::new());
    let worker = |_, number: usize| {
        let read = one_thread(path, number as u64, effort);
        if let Ok(mut results) = results.lock() {
            results.push(read);
        }
    };
    Hardware::parallel(Hardware::core(), &vec![Place { thread: None }; depth], &worker, &mut |_| ());
    let rates = results.into_inner().unwrap_or_default().into_iter().collect::<Result<Vec<f64>>>()?;
    Ok(ReadsAtDepth { depth, per_second: rates.iter().sum() })
}

fn one_thread(path: &Path, seed: u64, effort: Effort) -> Result<f64> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)?;
    let mut memory = vec![0; PAGE_BYTES + ALIGNED_BYTES];
    let skip = memory.as_ptr().align_offset(ALIGNED_BYTES);
    let page = &mut memory[skip..skip + PAGE_BYTES];
    let (mut random, pages) = (Random::new(1, 1 + seed), (effort.file_bytes / PAGE_BYTES) as u64);
    let (start, time) = (Instant::now(), Duration::from_nanos(effort.each_nanos));
    let mut read = 0;
    while start.elapsed() < time {
        file.read_exact_at(page, random.next() % pages * PAGE_BYTES as u64)?;
        read += 1;
    }
    Ok(f64::from(read) / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::types::QUICK;

    #[test]
    fn reads_are_measured_and_leave_nothing_behind() {
        let directory = std::env::temp_dir().join(format!("isles-reads-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a scratch directory");
        let effort = Effort { file_bytes: 4 << 20, each_nanos: 1_000_000, ..QUICK };
        let measured = reads(&directory, effort);
        // Some file systems in memory have no direct reads; they say so.
        assert!(measured.reason.is_some() || measured.depths.len() == DEPTHS.len(), "{measured:?}");
        assert!(measured.depths.iter().all(|at| at.per_second > 0.0), "{measured:?}");
        assert_eq!(std::fs::read_dir(&directory).expect("still there").count(), 0);
        std::fs::remove_dir(&directory).expect("empty");
        assert!(reads(&directory, effort).reason.is_some(), "a directory that is gone");
    }
}
