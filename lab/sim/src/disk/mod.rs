//! Disks of the virtual machine: their timing and their faults.
//!
//! A [`Disk`] outlives the machines that are booted with it ([`crate::Config::disk`]). A run that
//! crashes ([`crate::Config::crash`]) stops at that moment. Operations that its processes passed to
//! the operating system are in the operating system's cache, where the next run finds them, as
//! after `kill -9`; unless [`Disk::lose_power`] is called in between.
//!
//! # Fault model
//!
//! - Loss of power: each file may lose any part of its unflushed changes, by sectors. Each sector
//!   keeps some version that it had since the last flush: no change, all changes, a prefix in the
//!   order of writing that ends within a write, or any mixture. The same holds for names that were
//!   made, changed or removed since the last flush of the directory. A sector that was being
//!   written may have garbage ([`DiskFaults::garbage_one_in`]).
//! - A flush fails ([`DiskFaults::flush_failure_one_in`]): the changes that it was to flush stay
//!   readable and are lost with the power, whatever later flushes report.
//! - The disk is full ([`DiskFaults::capacity_bytes`]).
//! - Calls of one kind are refused for a while, or for good ([`DiskFaults::refusal`]): files,
//!   names, threads and memory.
//! - The disk ignores flushes ([`DiskFaults::ignores_flushes`]): as if the program had forgotten
//!   them.
//! - Bits flip on request of a test ([`Disk::flip_bit`]).
//!
//! Under [`crate::Config::perturb`] operations begin up to 20 us late by chance, and rarely some
//! milliseconds.
//!
//! Unless refused, reads never fail, and flushed sectors never change by themselves.

mod device;
mod faults;
mod file;
mod queues;
mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use device::DiskModel;
pub use faults::{Call, DiskFaults, Refusal};
pub use file::VirtualFile;
pub use queues::DiskUse;

use crate::random::Random;
use device::Device;
use queues::{DeviceOfFiles, DiskState, Queues};
use store::Store;
use terms::random::mix;

/// One simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<DiskState>>);

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl PartialEq for Disk {
    fn eq(&self, other: &Disk) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Disk {}

impl Disk {
    /// An empty disk. Sector sizes other than 512 and 4096 bytes are taken as 512.
    pub fn new(model: DiskModel, faults: DiskFaults) -> Disk {
        let sector_bytes = if faults.sector_bytes == 4096 { 4096 } else { 512 };
        Disk(Arc::new(Mutex::new(DiskState {
            store: Store::new(),
            queues: Queues::default(),
            device: Device::new(model),
            apart: None,
            used: DiskUse::default(),
            faults: DiskFaults { sector_bytes, ..faults },
            calls: 0,
            random: Random::new(mix(faults.seed ^ 0xd15c)),
            identities: Random::new(mix(faults.seed ^ 0x1de7)),
            stopped_ps: 0,
            perturbed: false,
        })))
    }

    /// The same disk, whose files of these names are on a device of their own.
    #[must_use]
    pub fn with_device_of_files(self, model: DiskModel, names: fn(&str) -> bool) -> Disk {
        self.state().apart = Some(DeviceOfFiles { names, device: Device::new(model) });
        self
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses the power while no machine runs, at the moment at which the last one stopped.
    pub fn lose_power(&self) {
        let state = &mut *self.state();
        state.store.lose_power(state.stopped_ps, &state.faults, &state.random);
    }

    /// Closes a directory whose users have ended. With `power` its unflushed changes are lost.
    pub(crate) fn lose_directory(&self, path: &Path, at_ps: u64, power: bool) {
        let queues = {
            let state = &mut *self.state();
            state.advance(at_ps);
            if power {
                state.store.lose_power_in(path, at_ps, &state.faults, &state.random);
            }
            state.store.unlock(path);
            state.queues.take_of(path)
        };
        // As in `stop`.
        drop(queues);
    }

    /// Number of calls that were refused since the faults were set.
    pub fn refused(&self) -> u64 {
        let state = self.state();
        state.faults.refusal.map_or(0, |refusal| state.calls.saturating_sub(refusal.after).min(refusal.times))
    }

    /// Work of the disk so far.
    pub fn used(&self) -> DiskUse {
        self.state().used
    }

    /// Replaces the faults; the size of sectors stays.
    pub fn set_faults(&self, faults: DiskFaults) {
        let state = &mut *self.state();
        state.faults = DiskFaults { sector_bytes: state.faults.sector_bytes, ..faults };
        state.calls = 0;
        state.random = Random::new(mix(faults.seed ^ 0xd15c));
    }

    /// Names and contents of all files, as the next reader sees them.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.state().store.contents()
    }

    /// Offset of the last bytes that were written to a file together, before one flush; zeros do
    /// not count.
    pub fn last_group(&self, directory: &Path, name: &str) -> Option<u64> {
        self.state().store.last_group(directory, name)
    }

    /// Replaces the contents of a directory, which no program has open, by these durable files.
    pub fn replace_directory(&self, path: &Path, files: &BTreeMap<String, Vec<u8>>) {
        self.state().store.replace_directory(path, files);
    }

    /// Flips one bit of a file, on the medium and in the cache; false without such a bit.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u8) -> bool {
        self.state().store.flip_bit(path, byte, bit)
    }

    /// Restarts time for a machine that begins to use the disk.
    pub(crate) fn boot(&self, perturbed: bool) {
        let state = &mut *self.state();
        state.perturbed = perturbed;
        state.store.settle_all(u64::MAX);
        state.queues = Queues::default();
        state.device.reset();
        if let Some(apart) = &mut state.apart {
            apart.device.reset();
        }
    }

    /// Drops operations that have not begun: the machine has stopped.
    pub(crate) fn stop(&self, at_ps: u64) {
        let queues = {
            let state = &mut *self.state();
            state.advance(at_ps);
            state.stopped_ps = at_ps;
            state.store.unlock_all();
            std::mem::take(&mut state.queues)
        };
        // Completions have files, which lock the disk when they are dropped.
        drop(queues);
    }
}
