//! Files on the virtual machine: operations on its [disk](crate::Disk).
//!
//! Submitting costs a core as much as waking a thread. The operations themselves occupy no
//! simulated core, and waiting for one costs as much as parking.

use std::path::Path;
use std::sync::Arc;

use platform::files::{Completion, FileError, FileErrorKind, Files, Operation, Ticket};
use platform::{Nanos, Platform, SharedWord};

use crate::disk::{Call, Disk, VirtualFile};
use crate::error::WaitReason;
use crate::{VirtualCore, VirtualMachine, VirtualWord};

/// An opened and locked directory of the machine's disk.
#[derive(Clone, Debug)]
pub struct VirtualDirectory(Arc<LockedDirectory>);

#[derive(Debug)]
struct LockedDirectory {
    disk: Disk,
    path: Box<Path>,
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        self.disk.state().store.unlock(&self.path);
    }
}

/// A queue of operations.
pub struct VirtualQueue {
    directory: VirtualDirectory,
    number: u64,
    /// Word on which a waiting core is parked. No core writes to it: the operation ends at a
    /// moment.
    word: VirtualWord,
}

impl VirtualMachine {
    /// Closes a directory whose users have all [fallen](crate::Fall): operations that have not
    /// begun are dropped. With `power` the disk also loses the unflushed changes of this directory,
    /// as in [`Disk::lose_power`].
    pub fn lose_directory(c: VirtualCore, path: &Path, power: bool) {
        if !c.turn() {
            return;
        }
        if let Some(disk) = c.simulation().config.disk_of(c.machine()) {
            disk.lose_directory(path, c.fiber().clock_ps.get(), power);
        }
    }
}

impl Files for VirtualMachine {
    type Directory = VirtualDirectory;
    type File = VirtualFile;
    type Queue = VirtualQueue;

    fn open_directory(c: VirtualCore, path: &Path, create: bool) -> Result<VirtualDirectory, FileError> {
        let failed = |kind| FileError::new(path, "open", kind);
        if !c.turn() {
            return Err(FileError::stopped());
        }
        let disk = c
            .simulation()
            .config
            .disk_of(c.machine())
            .cloned()
            .ok_or_else(|| failed(FileErrorKind::NoDisk))?;
        if disk.state().refuses(Call::OpenDirectory) {
            return Err(failed(Call::OpenDirectory.refusal()));
        }
        disk.state().store.lock(path, create).map_err(failed)?;
        c.spend_in_system(c.simulation().config.model.costs.system_call_ps);
        Ok(VirtualDirectory(Arc::new(LockedDirectory { disk, path: path.into() })))
    }

    fn fresh_identity(c: VirtualCore, directory: &VirtualDirectory) -> Result<u64, FileError> {
        if !c.turn() {
            return Err(FileError::stopped());
        }
        let drawn = directory.0.disk.state().identities.next();
        Ok(drawn)
    }

    fn queue(c: VirtualCore, directory: &VirtualDirectory) -> Result<VirtualQueue, FileError> {
        c.turn();
        if directory.0.disk.state().refuses(Call::Thread) {
            return Err(FileError::new(&directory.0.path, Call::Thread.name(), Call::Thread.refusal()));
        }
        let number = directory.0.disk.state().new_queue(directory.0.path.to_path_buf());
        Ok(VirtualQueue { directory: directory.clone(), number, word: VirtualWord::new(0) })
    }

    fn submit(c: VirtualCore, queue: &mut VirtualQueue, operation: Operation<VirtualMachine>) -> Ticket {
        let fiber = c.fiber();
        if !c.turn() {
            return Ticket(0);
        }
        let simulation = c.simulation();
        c.spend_in_system(simulation.config.model.costs.system_call_ps);
        if simulation.crashes_at_this_operation(fiber) {
            // The crash takes place when the core goes to sleep for ever.
            c.sleep(WaitReason::Park, &raw const queue.word, 0, None);
        }
        queue.directory.0.disk.state().submit(queue.number, fiber.clock_ps.get(), operation)
    }

    fn take(c: VirtualCore, queue: &mut VirtualQueue) -> Option<Completion<VirtualMachine>> {
        let fiber = c.fiber();
        if !c.turn() {
            return None;
        }
        queue.directory.0.disk.state().take(queue.number, fiber.clock_ps.get())
    }

    fn wait(c: VirtualCore, queue: &mut VirtualQueue, deadline: Option<Nanos>) -> bool {
        let fiber = c.fiber();
        loop {
            if !c.turn() {
                return false;
            }
            let now_ps = fiber.clock_ps.get();
            let next = queue.directory.0.disk.state().next_done_ps(queue.number, now_ps);
            let Some(done_ps) = next else { return false };
            if done_ps <= now_ps {
                return true;
            }
            if deadline.is_some_and(|end| end <= fiber.now()) {
                return false;
            }
            let done = Nanos(done_ps.div_ceil(1000));
            VirtualMachine::park(c, &queue.word, 0, Some(deadline.map_or(done, |end| end.min(done))));
        }
    }
}
