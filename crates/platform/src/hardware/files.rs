//! Files of the operating system: each queue is a thread of its own that makes one system call
//! after another. A thread that would only wait for an operation makes the call itself: two
//! switches between threads cost a fifth of what a disk needs for a page.
//!
//! A child of `fork` has the descriptors of its parent, and the lock with them, but none of its
//! threads: its operations are refused, and it leaves the lock alone. The process that opened
//! the directory gives the lock back itself, since a descriptor of a child would keep it.
//!
//! Deviations: `io_uring` is not used (docs/decisions/0010); a flush is `fdatasync`; direct access
//! falls back to the cache where the file system refuses `O_DIRECT` (tmpfs before Linux 6.6).

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{Hardware, HardwareCore, clock, threads};
use crate::Nanos;
use crate::files::{
    Access, BLOCK_BYTES, Buffer, Completion, Done, Entry, Existence, FileError, FileErrorKind, Files,
    Operation, Ticket, is_plain,
};

/// Most buffers of one system call: Linux's `IOV_MAX`.
const VECTORS_MAX: usize = 1024;

/// Zeros that are written repeatedly where a file is cleared.
#[repr(align(4096))]
struct Zeros([u8; 64 << 10]);

static ZEROS: Zeros = Zeros([0; 64 << 10]);

const _: () = assert!(align_of::<Zeros>().is_multiple_of(BLOCK_BYTES));

/// An opened and locked directory.
#[derive(Clone, Debug)]
pub struct HardwareDirectory(Arc<Locked>);

#[derive(Debug)]
struct Locked {
    path: PathBuf,
    /// The lock is that of what the descriptor is open on, which children of `fork` have too.
    descriptor: OwnedFd,
    /// The [process](Hardware::process) that opened it.
    process: u64,
}

impl Locked {
    /// True if another process opened it, which this one was forked from.
    fn is_of_parent(&self) -> bool {
        self.process != Hardware::process()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if !self.is_of_parent() {
            // It cannot fail for a descriptor that is open, and the end of the last one unlocks
            // too.
            let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
        }
    }
}

/// An opened file.
#[derive(Clone, Debug)]
pub struct HardwareFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: File,
    access: Access,
    /// Why nothing can be written, if nothing can.
    refusal: Option<FileErrorKind>,
    /// The directory stays locked as long as its files are open.
    _directory: HardwareDirectory,
}

/// A thread that performs operations.
pub struct HardwareQueue {
    /// There until the queue is dropped: its end ends the thread.
    operations: Option<mpsc::Sender<(Ticket, Operation<Hardware>)>>,
    directory: HardwareDirectory,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    submitted: u64,
    taken: u64,
}

struct Shared {
    /// How many operations have ended: what a waiting core sleeps on.
    completed: AtomicU64,
    completions: Mutex<VecDeque<Completion<Hardware>>>,
}

fn kind(error: Errno) -> FileErrorKind {
    match error {
        Errno::NOENT => FileErrorKind::Missing,
        Errno::EXIST => FileErrorKind::Exists,
        Errno::NOTDIR => FileErrorKind::NotADirectory,
        Errno::NOSPC | Errno::DQUOT => FileErrorKind::Full,
        Errno::FBIG => FileErrorKind::TooLarge,
        Errno::NAMETOOLONG => FileErrorKind::LongName,
        Errno::ROFS => FileErrorKind::ReadOnly,
        Errno::ACCESS | Errno::PERM => FileErrorKind::Denied,
        Errno::WOULDBLOCK => FileErrorKind::InUse,
        other => FileErrorKind::Device(other.to_string()),
    }
}

/// True if a file system that refuses so takes no space ahead at all.
fn takes_no_space(error: Errno) -> bool {
    error == Errno::OPNOTSUPP || error == Errno::NOSYS
}

/// Makes a file as long as that, if it is shorter, by a call that takes the space from its end on.
fn lengthen(
    file: &File,
    bytes: u64,
    mut take: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let end = rustix::fs::fstat(file)?.st_size.cast_unsigned();
    if bytes <= end {
        return Ok(());
    }
    match again(|| take(end, bytes - end)) {
        // The file gets its length, and its space when it is written.
        Err(error) if takes_no_space(error) => again(|| rustix::fs::ftruncate(file, bytes)),
        taken => taken,
    }
}

/// Repeats a call that a signal interrupted.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn check_name(directory: &Locked, call: &'static str, name: &str) -> Result<(), FileError> {
    if is_plain(name) {
        return Ok(());
    }
    Err(FileError::new(&directory.path.join(name), call, FileErrorKind::Name))
}

fn open_directory(path: &Path, create: bool) -> Result<HardwareDirectory, FileError> {
    super::process::survive_file_limits();
    let failed = |call, error| FileError::new(path, call, kind(error));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if create {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)) {
            Ok(()) => flush_parent(path)?,
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Err(FileError::new(path, "mkdir", FileErrorKind::NoParent)),
            Err(error) => return Err(failed("mkdir", error)),
        }
    }
    let descriptor =
        again(|| rustix::fs::open(path, flags, Mode::empty())).map_err(|error| failed("open", error))?;
    rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| failed("flock", error))?;
    let process = Hardware::process();
    Ok(HardwareDirectory(Arc::new(Locked { path: path.to_path_buf(), descriptor, process })))
}

/// Makes the name of a new directory durable.
fn flush_parent(path: &Path) -> Result<(), FileError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flushed = again(|| rustix::fs::open(parent, flags, Mode::empty()))
        .and_then(|directory| again(|| rustix::fs::fsync(&directory)));
    flushed.map_err(|error| FileError::new(parent, "fsync", kind(error)))
}

fn list(directory: &Locked) -> Result<Vec<Entry>, FileError> {
    let failed = |call, error| FileError::new(&directory.path, call, kind(error));
    let mut entries = Vec::new();
    let read = rustix::fs::Dir::read_from(&directory.descriptor).map_err(|error| failed("readdir", error))?;
    for entry in read {
        let entry = entry.map_err(|error| failed("readdir", error))?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let about = rustix::fs::statat(&directory.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        let about = about.map_err(|error| failed("stat", error))?;
        if rustix::fs::FileType::from_raw_mode(about.st_mode).is_file() {
            entries.push(Entry { name: name.to_owned(), bytes: about.st_size.cast_unsigned() });
        }
    }
    entries.sort();
    Ok(entries)
}

fn open(
    directory: &HardwareDirectory,
    name: &str,
    existence: Existence,
    access: Access,
) -> Result<HardwareFile, FileError> {
    check_name(&directory.0, "open", name)?;
    let path = directory.0.path.join(name);
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if existence == Existence::New {
        flags |= OFlags::CREATE | OFlags::EXCL;
    }
    let descriptor = &directory.0.descriptor;
    let mode = Mode::from_raw_mode(0o600);
    let mut opened = again(|| rustix::fs::openat(descriptor, name, flags, mode));
    let mut refusal = None;
    if let (Existence::Old, Err(error @ (Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::TXTBSY))) =
        (existence, &opened)
    {
        // It can be read at least: checks and inspections need no more.
        refusal = Some(kind(*error));
        flags = flags.difference(OFlags::RDWR) | OFlags::RDONLY;
        opened = again(|| rustix::fs::openat(descriptor, name, flags, mode));
    }
    let file = opened.map_err(|error| FileError::new(&path, "open", kind(error)))?;
    if access == Access::Direct {
        // A file system that does not know direct access refuses the flag: the cache does as well.
        if let Ok(set) = rustix::fs::fcntl_getfl(&file) {
            let _ = rustix::fs::fcntl_setfl(&file, set | OFlags::DIRECT);
        }
    }
    let opened = Opened { path, file: File::from(file), access, refusal, _directory: directory.clone() };
    Ok(HardwareFile(Arc::new(opened)))
}

impl Opened {
    fn failed(&self, call: &'static str, error: Errno) -> FileError {
        FileError::new(&self.path, call, kind(error))
    }

    fn check_aligned(&self, call: &'static str, offset: u64, lengths: &[usize]) -> Result<(), FileError> {
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64)
            && lengths.iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
        if self.access == Access::Cached || aligned {
            return Ok(());
        }
        Err(FileError::new(&self.path, call, FileErrorKind::Misaligned))
    }

    fn write(&self, offset: u64, buffers: &[Buffer<Hardware>]) -> Result<(), FileError> {
        self.write_all(offset, buffers.iter().map(Buffer::bytes).collect())
    }

    fn clear(&self, offset: u64, bytes: u64) -> Result<(), FileError> {
        let mut left = bytes as usize;
        let mut parts = VecDeque::new();
        while left > 0 {
            let part = &ZEROS.0[..left.min(ZEROS.0.len())];
            left -= part.len();
            parts.push_back(part);
        }
        self.write_all(offset, parts)
    }

    fn write_all(&self, mut offset: u64, mut rest: VecDeque<&[u8]>) -> Result<(), FileError> {
        if let Some(refusal) = &self.refusal {
            return Err(FileError::new(&self.path, "write", refusal.clone()));
        }
        let lengths: Vec<usize> = rest.iter().map(|bytes| bytes.len()).collect();
        self.check_aligned("write", offset, &lengths)?;
        rest.retain(|bytes| !bytes.is_empty());
        while !rest.is_empty() {
            let vectors: Vec<_> =
                rest.iter().take(VECTORS_MAX).map(|bytes| std::io::IoSlice::new(bytes)).collect();
            let mut written = again(|| rustix::io::pwritev(&self.file, &vectors, offset))
                .map_err(|error| self.failed("write", error))?;
            if written == 0 {
                return Err(FileError::new(&self.path, "write", FileErrorKind::Full));
            }
            offset += written as u64;
            while let Some(first) = rest.front_mut() {
                if written < first.len() {
                    *first = &first[written..];
                    break;
                }
                written -= first.len();
                rest.pop_front();
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut Buffer<Hardware>) -> Result<u64, FileError> {
        self.check_aligned("read", offset, &[buffer.capacity()])?;
        let mut filled = 0;
        while filled < buffer.capacity() {
            let room = &mut buffer.all_mut()[filled..];
            let taken = again(|| rustix::io::pread(&self.file, &mut *room, offset + filled as u64))
                .map_err(|error| self.failed("read", error))?;
            filled += taken;
            // A direct read that ends within a block is the last one: the next would not be
            // aligned.
            if taken == 0 || !filled.is_multiple_of(BLOCK_BYTES) {
                break;
            }
        }
        buffer.set_len(filled);
        Ok(filled as u64)
    }
}

/// Performs one operation; the buffers it had.
fn perform(
    directory: &HardwareDirectory,
    operation: Operation<Hardware>,
) -> (Vec<Buffer<Hardware>>, Result<Done<Hardware>, FileError>) {
    let locked = &*directory.0;
    if locked.is_of_parent() {
        return refuse(locked, operation);
    }
    let nothing = |result: Result<(), FileError>| (Vec::new(), result.map(|()| Done::Nothing));
    match operation {
        Operation::List => (Vec::new(), list(locked).map(Done::Entries)),
        Operation::Open { name, existence, access } => {
            (Vec::new(), open(directory, &name, existence, access).map(Done::File))
        }
        Operation::Rename { from, to } => nothing(rename(locked, &from, &to)),
        Operation::Remove { name } => nothing(remove(locked, &name)),
        Operation::FlushDirectory => {
            let flushed = again(|| rustix::fs::fsync(locked.descriptor.as_fd()));
            nothing(flushed.map_err(|error| FileError::new(&locked.path, "fsync", kind(error))))
        }
        Operation::Write { file, offset, buffers } => {
            let result = file.0.write(offset, &buffers);
            (buffers, result.map(|()| Done::Nothing))
        }
        Operation::Read { file, offset, mut buffer } => {
            let result = file.0.read(offset, &mut buffer);
            (vec![buffer], result.map(Done::Bytes))
        }
        Operation::Flush { file } => {
            // Never again after a failure: the kernel would report success. A signal is no
            // failure: nothing was decided.
            let flushed = again(|| rustix::fs::fdatasync(&file.0.file));
            nothing(flushed.map_err(|error| file.0.failed("fdatasync", error)))
        }
        Operation::Preallocate { file, bytes } => {
            let take =
                |from, bytes| rustix::fs::fallocate(&file.0.file, FallocateFlags::empty(), from, bytes);
            let taken = lengthen(&file.0.file, bytes, take);
            nothing(taken.map_err(|error| file.0.failed("fallocate", error)))
        }
        Operation::Clear { file, offset, bytes } => nothing(file.0.clear(offset, bytes)),
        Operation::Size { file } => {
            let about = rustix::fs::fstat(&file.0.file).map_err(|error| file.0.failed("stat", error));
            (Vec::new(), about.map(|about| Done::Bytes(about.st_size.cast_unsigned())))
        }
    }
}

/// Gives back what an operation had that this process may not perform.
fn refuse(
    directory: &Locked,
    operation: Operation<Hardware>,
) -> (Vec<Buffer<Hardware>>, Result<Done<Hardware>, FileError>) {
    let buffers = match operation {
        Operation::Write { buffers, .. } => buffers,
        Operation::Read { buffer, .. } => vec![buffer],
        _ => Vec::new(),
    };
    (buffers, Err(FileError::new(&directory.path, "fork", FileErrorKind::OtherProcess)))
}

fn rename(directory: &Locked, from: &str, to: &str) -> Result<(), FileError> {
    check_name(directory, "rename", from)?;
    check_name(directory, "rename", to)?;
    let descriptor = &directory.descriptor;
    rustix::fs::renameat(descriptor, from, descriptor, to)
        .map_err(|error| FileError::new(&directory.path.join(from), "rename", kind(error)))
}

fn remove(directory: &Locked, name: &str) -> Result<(), FileError> {
    check_name(directory, "remove", name)?;
    rustix::fs::unlinkat(&directory.descriptor, name, AtFlags::empty())
        .map_err(|error| FileError::new(&directory.path.join(name), "remove", kind(error)))
}

impl Shared {
    fn completions(&self) -> std::sync::MutexGuard<'_, VecDeque<Completion<Hardware>>> {
        self.completions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of a queue.
    fn run(&self, directory: &HardwareDirectory, operations: &mpsc::Receiver<(Ticket, Operation<Hardware>)>) {
        while let Ok((ticket, operation)) = operations.recv() {
            let (buffers, result) = perform(directory, operation);
            self.completions().push_back(Completion { ticket, buffers, result });
            // Release: pairs with the acquire of the core that takes it.
            self.completed.store(ticket.0, Ordering::Release);
            threads::unpark(&self.completed, u32::MAX);
        }
    }
}

impl Drop for HardwareQueue {
    /// Waits for the operations under way: the directory is not given back before they are over.
    fn drop(&mut self) {
        self.operations = None;
        match self.thread.take() {
            // The thread is the parent's.
            Some(thread) if self.directory.0.is_of_parent() => std::mem::forget(thread),
            Some(thread) => _ = thread.join(),
            None => {}
        }
    }
}

impl Files for Hardware {
    type Directory = HardwareDirectory;
    type File = HardwareFile;
    type Queue = HardwareQueue;

    fn open_directory(_: HardwareCore, path: &Path, create: bool) -> Result<HardwareDirectory, FileError> {
        open_directory(path, create)
    }

    fn fresh_identity(_: HardwareCore, directory: &HardwareDirectory) -> Result<u64, FileError> {
        let mut bytes = [0; 8];
        // Eight bytes come whole, or not at all.
        let drawn = again(|| rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()));
        drawn.map_err(|error| FileError::new(&directory.0.path, "getrandom", kind(error)))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn queue(_: HardwareCore, directory: &HardwareDirectory) -> Result<HardwareQueue, FileError> {
        let (sender, receiver) = mpsc::channel();
        let shared =
            Arc::new(Shared { completed: AtomicU64::new(0), completions: Mutex::new(VecDeque::new()) });
        let (its_shared, its_directory) = (Arc::clone(&shared), directory.clone());
        let thread = std::thread::Builder::new()
            .name("files".into())
            .spawn(move || its_shared.run(&its_directory, &receiver))
            .map_err(|error| {
                let reason = FileErrorKind::Device(error.to_string());
                FileError::new(&directory.0.path, "thread", reason)
            })?;
        let (operations, directory) = (Some(sender), directory.clone());
        Ok(HardwareQueue { operations, directory, shared, thread: Some(thread), submitted: 0, taken: 0 })
    }

    fn submit(_: HardwareCore, queue: &mut HardwareQueue, operation: Operation<Hardware>) -> Ticket {
        queue.submitted += 1;
        // It is never performed in a child process: its wait ends at once.
        if let Some(operations) = queue.operations.as_ref().filter(|_| !queue.directory.0.is_of_parent()) {
            // The thread ends with the queue only.
            let sent = operations.send((Ticket(queue.submitted), operation));
            assert!(sent.is_ok(), "the thread of a queue has panicked");
        }
        Ticket(queue.submitted)
    }

    #[inline]
    fn take(_: HardwareCore, queue: &mut HardwareQueue) -> Option<Completion<Hardware>> {
        // Acquire: pairs with the release of the thread.
        if queue.shared.completed.load(Ordering::Acquire) == queue.taken {
            return None;
        }
        queue.taken += 1;
        queue.shared.completions().pop_front()
    }

    fn wait(_: HardwareCore, queue: &mut HardwareQueue, deadline: Option<Nanos>) -> bool {
        loop {
            // Acquire: pairs with the release of the thread.
            let completed = queue.shared.completed.load(Ordering::Acquire);
            if completed != queue.taken {
                return true;
            }
            let is_over = deadline.is_some_and(|end| clock::now() >= end) || queue.directory.0.is_of_parent();
            if queue.taken == queue.submitted || is_over {
                return false;
            }
            threads::park(&queue.shared.completed, completed, deadline);
        }
    }

    fn perform(
        _: HardwareCore,
        queue: &mut HardwareQueue,
        operation: Operation<Hardware>,
    ) -> Completion<Hardware> {
        assert_eq!(queue.taken, queue.submitted, "other operations are under way");
        queue.submitted += 1;
        queue.taken = queue.submitted;
        // Relaxed: nothing is under way, so the thread reads it after the next submission.
        queue.shared.completed.store(queue.taken, Ordering::Relaxed);
        let (buffers, result) = perform(&queue.directory, operation);
        Completion { ticket: Ticket(queue.taken), buffers, result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a flush that a signal interrupts, which has decided nothing, and one that fails, which is
    /// never called again.
    #[test]
    fn a_call_is_repeated_after_a_signal_and_after_nothing_else() {
        let mut calls = 0;
        let mut answers = [Err(Errno::INTR), Err(Errno::INTR), Ok(7), Err(Errno::IO), Ok(8)].into_iter();
        let mut call = || {
            again(|| {
                calls += 1;
                answers.next().expect("no more calls")
            })
        };
        assert_eq!([call(), call(), call()], [Ok(7), Err(Errno::IO), Ok(8)]);
        assert_eq!(calls, 5);
    }

    #[test]
    fn files_get_their_length_where_no_space_can_be_taken_ahead() {
        let descriptor = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let file = File::from(descriptor);
        let length = || rustix::fs::fstat(&file).expect("a file").st_size;
        for (bytes, error, becomes) in
            [(8192, Errno::OPNOTSUPP, 8192), (12288, Errno::NOSYS, 12288), (16384, Errno::NOSPC, 12288)]
        {
            let taken = lengthen(&file, bytes, |_, _| Err(error));
            assert_eq!((taken.is_ok(), length()), (error != Errno::NOSPC, becomes));
        }
        assert_eq!((lengthen(&file, 100, |_, _| Err(Errno::IO)), length()), (Ok(()), 12288), "never shorter");
    }
}
