//! Operations under way: each queue begins an operation when the one before is over.
//!
//! Operations of all queues begin in the order of virtual time, and take effect for readers when
//! they begin. Their results are computed then too, and reported when they are over.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use platform::files::{
    Access, BLOCK_BYTES, Buffer, Completion, Done, Existence, FileError, FileErrorKind, Operation, Ticket,
    is_plain,
};

use super::device::{Device, Request};
use super::faults::{Call, DiskFaults};
use super::file::VirtualFile;
use super::store::{FileNumber, Store};
use crate::VirtualMachine;
use crate::random::Random;

/// In a run that explores schedules, one operation in this many is late by up to [`STALL_PS`], the
/// others by up to [`DELAY_PS`].
const STALL_RARITY: u64 = 64;
const STALL_PS: u64 = 5_000_000_000;
const DELAY_PS: u64 = 20_000_000;

/// Work of a disk since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Operations of all kinds.
    pub operations: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Flushes of files that succeeded.
    pub flushes: u64,
    /// Flushes that failed.
    pub failed_flushes: u64,
}

/// A disk with all operations under way.
pub(crate) struct DiskState {
    pub(crate) store: Store,
    pub(crate) queues: Queues,
    pub(crate) device: Device,
    /// The device of the files with some names.
    pub(super) apart: Option<DeviceOfFiles>,
    pub(crate) used: DiskUse,
    pub(crate) faults: DiskFaults,
    /// Calls of the kind that the faults refuse.
    pub(super) calls: u64,
    pub(crate) random: Random,
    /// Source of the identities of databases on this disk. Faults do not draw from it, so that they
    /// stay the same.
    pub(crate) identities: Random,
    /// The moment at which the last machine stopped.
    pub(super) stopped_ps: u64,
    /// The machine explores schedules: operations take longer by chance.
    pub(super) perturbed: bool,
}

/// A device for the files of some names alone.
pub(crate) struct DeviceOfFiles {
    pub names: fn(&str) -> bool,
    pub device: Device,
}

/// Result of an operation, without its buffers.
type Outcome = Result<Done<VirtualMachine>, FileError>;

/// All queues of a machine.
#[derive(Default)]
pub(crate) struct Queues {
    queues: BTreeMap<u64, Queue>,
    made: u64,
}

struct Queue {
    directory: PathBuf,
    waiting: VecDeque<(u64, Operation<VirtualMachine>)>,
    /// Results of operations that have ended or are under way, with the moment of their end.
    ended: VecDeque<(u64, Completion<VirtualMachine>)>,
    /// End of the last operation that was begun.
    free_ps: u64,
    begun: u64,
    submitted: u64,
}

impl Queue {
    fn next_start_ps(&self) -> Option<u64> {
        self.waiting.front().map(|(submitted_ps, _)| self.free_ps.max(*submitted_ps))
    }
}

impl Queues {
    /// Removes the queues of a directory, with all their operations.
    pub(super) fn take_of(&mut self, directory: &std::path::Path) -> Queues {
        let (gone, left) =
            std::mem::take(&mut self.queues).into_iter().partition(|(_, queue)| queue.directory == directory);
        self.queues = left;
        Queues { queues: gone, made: 0 }
    }
}

impl DiskState {
    pub(crate) fn new_queue(&mut self, directory: PathBuf) -> u64 {
        self.queues.made += 1;
        let queue = Queue {
            directory,
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
            free_ps: 0,
            begun: 0,
            submitted: 0,
        };
        self.queues.queues.insert(self.queues.made, queue);
        self.queues.made
    }

    pub(crate) fn submit(&mut self, queue: u64, now_ps: u64, operation: Operation<VirtualMachine>) -> Ticket {
        self.advance(now_ps);
        self.used.operations += 1;
        let Some(queue) = self.queues.queues.get_mut(&queue) else { return Ticket(0) };
        queue.waiting.push_back((now_ps, operation));
        queue.submitted += 1;
        Ticket(queue.submitted)
    }

    /// The next completion, if the operation is over at this moment.
    pub(crate) fn take(&mut self, queue: u64, now_ps: u64) -> Option<Completion<VirtualMachine>> {
        self.advance(now_ps);
        let ended = &mut self.queues.queues.get_mut(&queue)?.ended;
        let over = ended.front().is_some_and(|(done_ps, _)| *done_ps <= now_ps);
        if over { ended.pop_front().map(|(_, completion)| completion) } else { None }
    }

    /// Moment of the next completion; `None` if nothing is under way.
    pub(crate) fn next_done_ps(&mut self, queue: u64, now_ps: u64) -> Option<u64> {
        self.advance(now_ps);
        self.queues.queues.get(&queue)?.ended.front().map(|(done_ps, _)| *done_ps)
    }

    /// Begins all operations that are due up to this moment.
    pub(crate) fn advance(&mut self, now_ps: u64) {
        loop {
            let starts = self.queues.queues.iter().filter_map(|(number, queue)| {
                Some((queue.next_start_ps().filter(|start_ps| *start_ps <= now_ps)?, *number))
            });
            let Some((start_ps, number)) = starts.min() else { return };
            let Some(queue) = self.queues.queues.get_mut(&number) else { return };
            let Some((_, operation)) = queue.waiting.pop_front() else { return };
            queue.begun += 1;
            let (ticket, directory) = (Ticket(queue.begun), queue.directory.clone());
            let slower_ps = self.slower_ps();
            let (done_ps, buffers, result) = self.begin(start_ps + slower_ps, directory, operation);
            let Some(queue) = self.queues.queues.get_mut(&number) else { return };
            queue.free_ps = done_ps;
            queue.ended.push_back((done_ps, Completion { ticket, buffers, result }));
        }
    }

    /// Additional delay of the next operation, in a run that explores schedules.
    fn slower_ps(&self) -> u64 {
        match self.perturbed {
            false => 0,
            true if self.random.below(STALL_RARITY) == 0 => self.random.below(STALL_PS),
            true => self.random.below(DELAY_PS),
        }
    }

    /// True if the faults refuse this call. Counts the call.
    pub(crate) fn refuses(&mut self, call: Call) -> bool {
        let Some(refusal) = self.faults.refusal.filter(|refusal| refusal.call == call) else { return false };
        self.calls += 1;
        (refusal.after..refusal.after.saturating_add(refusal.times)).contains(&(self.calls - 1))
    }

    /// Result of a refused operation: its buffers and the error.
    fn refuse(
        &mut self,
        start_ps: u64,
        call: Call,
        directory: &std::path::Path,
        operation: Operation<VirtualMachine>,
    ) -> (Vec<Buffer<VirtualMachine>>, Outcome) {
        let (buffers, path) = match operation {
            Operation::Write { file, buffers, .. } => (buffers, file.path.to_path_buf()),
            Operation::Read { file, buffer, .. } => (vec![buffer], file.path.to_path_buf()),
            Operation::Flush { file } => {
                self.used.failed_flushes += 1;
                self.store.fail_flush(file.number, start_ps);
                (Vec::new(), file.path.to_path_buf())
            }
            Operation::Preallocate { file, .. } => (Vec::new(), file.path.to_path_buf()),
            Operation::Open { name, .. } | Operation::Remove { name } => (Vec::new(), directory.join(name)),
            Operation::Rename { from, .. } => (Vec::new(), directory.join(from)),
            _ => (Vec::new(), directory.to_path_buf()),
        };
        (buffers, Err(FileError::new(&path, call.name(), call.refusal())))
    }

    /// Begins one operation. Returns the moment of its end, its buffers and its result.
    fn begin(
        &mut self,
        start_ps: u64,
        directory: PathBuf,
        operation: Operation<VirtualMachine>,
    ) -> (u64, Vec<Buffer<VirtualMachine>>, Outcome) {
        if let Some(call) = Call::of(&operation).filter(|call| self.refuses(*call)) {
            let done_ps = self.device.done_ps(start_ps, Request::Cache { bytes: 0 });
            let (buffers, result) = self.refuse(start_ps, call, &directory, operation);
            return (done_ps, buffers, result);
        }
        match operation {
            Operation::Write { file, offset, buffers } => {
                let (request, result) = self.write(&file, offset, &buffers);
                (self.device_of(&file).done_ps(start_ps, request), buffers, result)
            }
            Operation::Read { file, offset, mut buffer } => {
                let (request, result) = self.read(&file, offset, &mut buffer);
                (self.device_of(&file).done_ps(start_ps, request), vec![buffer], result)
            }
            Operation::Flush { file } => {
                let (done_ps, result) = self.flush(start_ps, &file);
                (done_ps, Vec::new(), result)
            }
            Operation::FlushDirectory => {
                let done_ps = self.device.done_ps(start_ps, Request::Flush { place: 0, dirty: 4096 });
                if !self.faults.ignores_directory_flushes {
                    self.store.flush_directory(&directory, done_ps);
                }
                (done_ps, Vec::new(), Ok(Done::Nothing))
            }
            other => {
                let (request, result) = self.name(directory, other);
                (self.device.done_ps(start_ps, request), Vec::new(), result)
            }
        }
    }

    /// The device of a file.
    fn device_of(&mut self, file: &VirtualFile) -> &mut Device {
        let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match &mut self.apart {
            Some(apart) if (apart.names)(name) => &mut apart.device,
            _ => &mut self.device,
        }
    }

    /// Performs operations on names and sizes.
    fn name(&mut self, directory: PathBuf, operation: Operation<VirtualMachine>) -> (Request, Outcome) {
        let failed = |name: &str, call, kind| Err(FileError::new(&directory.join(name), call, kind));
        let result = match operation {
            Operation::List => Ok(Done::Entries(self.store.list(&directory))),
            Operation::Open { name, existence, access } => match self.open(&directory, &name, existence) {
                Ok(number) => {
                    Ok(Done::File(VirtualFile { number, access, path: directory.join(&name).into() }))
                }
                Err(kind) => failed(&name, "open", kind),
            },
            Operation::Rename { from, to } if is_plain(&from) && is_plain(&to) => {
                let renamed = self.store.rename(&directory, &from, &to);
                renamed.map(|()| Done::Nothing).or_else(|kind| failed(&from, "rename", kind))
            }
            Operation::Rename { from, .. } => failed(&from, "rename", FileErrorKind::Name),
            Operation::Remove { name } => {
                let removed = self.store.remove(&directory, &name);
                removed.map(|()| Done::Nothing).or_else(|kind| failed(&name, "remove", kind))
            }
            Operation::Preallocate { file, bytes } => {
                let grown = self.store.grow(file.number, bytes, &self.faults);
                grown.map(|()| Done::Nothing).map_err(|kind| FileError::new(&file.path, "fallocate", kind))
            }
            Operation::Clear { file, offset, bytes } => {
                let mut there = vec![0; bytes as usize];
                self.store.read(file.number, offset, &mut there);
                assert!(there.iter().all(|byte| *byte == 0), "only what was never written is cleared");
                Ok(Done::Nothing)
            }
            Operation::Size { file } => Ok(Done::Bytes(self.store.len(file.number))),
            Operation::Write { .. }
            | Operation::Read { .. }
            | Operation::Flush { .. }
            | Operation::FlushDirectory => unreachable!("begun elsewhere"),
        };
        (Request::Name, result)
    }

    fn open(
        &mut self,
        directory: &std::path::Path,
        name: &str,
        existence: Existence,
    ) -> Result<FileNumber, FileErrorKind> {
        if !is_plain(name) {
            return Err(FileErrorKind::Name);
        }
        match (self.store.find(directory, name), existence) {
            (Some(number), Existence::Old) => Ok(number),
            (Some(_), Existence::New) => Err(FileErrorKind::Exists),
            (None, Existence::Old) => Err(FileErrorKind::Missing),
            (None, Existence::New) => Ok(self.store.create(directory, name)),
        }
    }

    fn write(
        &mut self,
        file: &VirtualFile,
        offset: u64,
        buffers: &[Buffer<VirtualMachine>],
    ) -> (Request, Outcome) {
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64)
            && buffers.iter().all(|buffer| buffer.len().is_multiple_of(BLOCK_BYTES));
        let failed = |kind| (Request::Cache { bytes: 0 }, Err(FileError::new(&file.path, "write", kind)));
        let cached = file.access == Access::Cached;
        if !cached && !aligned {
            return failed(FileErrorKind::Misaligned);
        }
        let mut at = offset;
        for buffer in buffers {
            let written = self.store.write(file.number, at, buffer.bytes().to_vec(), cached, &self.faults);
            if let Err(kind) = written {
                return failed(kind);
            }
            at += buffer.len() as u64;
        }
        let bytes = at - offset;
        self.used.written_bytes += bytes;
        let place = self.store.place(file.number, offset);
        let request = if cached { Request::Cache { bytes } } else { Request::Write { place, bytes } };
        (request, Ok(Done::Nothing))
    }

    fn read(
        &mut self,
        file: &VirtualFile,
        offset: u64,
        buffer: &mut Buffer<VirtualMachine>,
    ) -> (Request, Outcome) {
        if file.access == Access::Direct && !offset.is_multiple_of(BLOCK_BYTES as u64) {
            let error = FileError::new(&file.path, "read", FileErrorKind::Misaligned);
            return (Request::Cache { bytes: 0 }, Err(error));
        }
        let bytes = self.store.read(file.number, offset, buffer.all_mut());
        buffer.set_len(bytes);
        self.used.read_bytes += bytes as u64;
        let place = self.store.place(file.number, offset);
        (Request::Read { place, bytes: bytes as u64 }, Ok(Done::Bytes(bytes as u64)))
    }

    fn flush(&mut self, start_ps: u64, file: &VirtualFile) -> (u64, Outcome) {
        self.store.settle(file.number, start_ps);
        let (place, dirty) = self.store.take_dirty(file.number);
        let done_ps = self.device_of(file).done_ps(start_ps, Request::Flush { place, dirty });
        let one_in = self.faults.flush_failure_one_in;
        if one_in > 0 && self.random.below(one_in) == 0 {
            self.used.failed_flushes += 1;
            self.store.fail_flush(file.number, start_ps);
            let kind = FileErrorKind::Device("input/output error".into());
            return (done_ps, Err(FileError::new(&file.path, "fdatasync", kind)));
        }
        self.used.flushes += 1;
        if !self.faults.ignores_flushes {
            self.store.flush(file.number, done_ps);
        }
        (done_ps, Ok(Done::Nothing))
    }
}
