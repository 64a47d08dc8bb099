//! Memory that several processes map.
//!
//! The memory is a file without a name (`memfd_create`), which lives as long as a process has it
//! open or mapped. Its size is sealed: no process can take away a page that another one uses. What
//! lies in it is found by its offset: each process maps it at an address of its own. The contents
//! are what any of the processes makes of them, so they are words, read and written with atomics,
//! and nothing in them is believed.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags};

use super::region::HardwareRegion;
use super::{Hardware, HardwareCore};
use crate::{Node, OutOfMemory, RegionBytes};

/// The right to map a piece of memory: what one process hands to another.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    bytes: usize,
}

impl SharedMemory {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A name under which another process of the same user may [`SharedMemory::open`] it, while
    /// this process keeps it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Opens what another process has named.
    ///
    /// # Errors
    /// There is no such file, it may not be opened, or it is no memory to share.
    pub fn open(path: &Path) -> io::Result<SharedMemory> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        SharedMemory::of(OwnedFd::from(file))
    }

    /// Memory that came from another process.
    ///
    /// # Errors
    /// It is no memory to share, or could be taken away again.
    pub fn of(file: OwnedFd) -> io::Result<SharedMemory> {
        let seals = rustix::fs::fcntl_get_seals(&file)
            .map_err(|_| io::Error::other("a file, and not memory to share"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("shared memory that could become smaller"));
        }
        let bytes = rustix::fs::fstat(&file)?.st_size;
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        Ok(SharedMemory { file, bytes })
    }

    /// Maps it here.
    ///
    /// # Errors
    /// The operating system refuses the address space.
    pub fn map(&self, _: HardwareCore, name: &'static str) -> Result<HardwareRegion, OutOfMemory> {
        HardwareRegion::map_file(None, self.as_fd(), self.bytes, name)
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Hardware {
    /// As [`crate::Platform::region`], of memory that other processes may map: the region, and what
    /// they need for it. Parking and waking work across processes on its words.
    ///
    /// # Errors
    /// Memory was refused.
    pub fn shared_region(
        _: HardwareCore,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<(HardwareRegion, SharedMemory), OutOfMemory> {
        let refused = |reason: String| OutOfMemory { requested: bytes, name, reason };
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(4096)
            .ok_or_else(|| refused("larger than the address space".into()))?;
        let made = || -> io::Result<OwnedFd> {
            let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            rustix::fs::ftruncate(&file, rounded as u64)?;
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals)?;
            Ok(file)
        };
        let file = made().map_err(|error| refused(error.to_string()))?;
        let region = HardwareRegion::map_file(node, file.as_fd(), rounded, name)?;
        // The first message must not wait for pages.
        super::region::populate(region.base(), rounded);
        Ok((region, SharedMemory { file, bytes: rounded }))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::Platform;

    #[test]
    fn two_mappings_are_one_memory() {
        let c = Hardware::core();
        let (here, memory) = Hardware::shared_region(c, None, 5000, "test").expect("memory");
        assert_eq!((here.bytes(), memory.bytes()), (8192, 8192));
        let there = SharedMemory::open(&memory.path()).expect("open").map(c, "test").expect("memory");
        assert_ne!(here.base(), there.base());
        Hardware::store(c, Hardware::word_of(&here, 4104), 7, Ordering::Release);
        assert_eq!(Hardware::load(c, Hardware::word_of(&there, 4104), Ordering::Acquire), 7);
    }

    #[test]
    fn cores_parked_on_one_mapping_are_woken_through_another() {
        let c = Hardware::core();
        let (here, memory) = Hardware::shared_region(c, None, 8, "test").expect("memory");
        let there = memory.map(c, "test").expect("memory");
        let worker = |c, _| {
            let word = Hardware::word_of(&there, 0);
            while Hardware::load(c, word, Ordering::Acquire) == 0 {
                Hardware::park(c, word, 0, None);
            }
        };
        Hardware::parallel(c, &[crate::Place { thread: None }; 2], &worker, &mut |c| {
            Hardware::store(c, Hardware::word_of(&here, 0), 1, Ordering::Release);
            Hardware::unpark(c, Hardware::word_of(&here, 0), u32::MAX);
        });
    }

    #[test]
    fn what_could_be_taken_away_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let refused = SharedMemory::of(file.expect("memory")).expect_err("not sealed");
        assert_eq!(refused.to_string(), "shared memory that could become smaller");
        let null = std::fs::File::open("/dev/null").expect("there");
        assert!(SharedMemory::of(null.into()).is_err());
        let (_, memory) = Hardware::shared_region(Hardware::core(), None, 8, "test").expect("memory");
        assert!(rustix::fs::ftruncate(&memory.file, 0).is_err());
    }
}
