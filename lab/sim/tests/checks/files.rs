//! Files behave the same on hardware and in the virtual machine, and fail in the same way.

// The test compares the two platforms: it makes directories for one of them itself.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use crate::common::small;
use platform::files::{
    Access, BLOCK_BYTES, Buffer, Done, Existence, FileError, FileErrorKind, Files, Operation, Ticket,
};
use platform::{Hardware, Nanos};
use sim::{Disk, DiskFaults, DiskModel, VirtualMachine};

/// A queue whose operations are waited for.
struct User<P: Files> {
    c: P::Core,
    queue: P::Queue,
}

impl<P: Files> User<P> {
    fn new(c: P::Core, directory: &P::Directory) -> Self {
        User { c, queue: P::queue(c, directory).expect("a queue") }
    }

    fn open(&mut self, name: &str, existence: Existence, access: Access) -> Result<P::File, FileErrorKind> {
        let operation = Operation::Open { name: name.into(), existence, access };
        P::perform(self.c, &mut self.queue, operation).into_file().map_err(|error| error.kind)
    }

    fn run(&mut self, operation: Operation<P>) -> Result<Done<P>, FileErrorKind> {
        P::perform(self.c, &mut self.queue, operation).result.map_err(|error| error.kind)
    }

    fn buffer(&self, bytes: &[u8]) -> Buffer<P> {
        let mut buffer = Buffer::new(self.c, None, bytes.len(), "test").expect("memory");
        assert!(buffer.append(self.c, bytes));
        buffer
    }

    fn write(&mut self, file: &P::File, offset: u64, bytes: &[u8]) -> Result<Done<P>, FileErrorKind> {
        let buffers = vec![self.buffer(bytes)];
        self.run(Operation::Write { file: file.clone(), offset, buffers })
    }

    fn read(&mut self, file: &P::File, offset: u64) -> Vec<u8> {
        let buffer = Buffer::new(self.c, None, 3 * BLOCK_BYTES, "test").expect("memory");
        let operation = Operation::Read { file: file.clone(), offset, buffer };
        let completion = P::perform(self.c, &mut self.queue, operation);
        assert_eq!(completion.bytes().expect("bytes"), completion.buffers[0].len() as u64);
        completion.buffers[0].bytes().to_vec()
    }

    fn names(&mut self) -> Vec<(String, u64)> {
        let entries = P::perform(self.c, &mut self.queue, Operation::List).into_entries().expect("a list");
        entries.into_iter().map(|entry| (entry.name, entry.bytes)).collect()
    }
}

fn kind<T>(result: Result<T, FileError>) -> Option<FileErrorKind> {
    result.err().map(|error| error.kind)
}

/// Operations with the same results on both platforms.
fn behaves<P: Files>(c: P::Core, path: &Path) {
    assert_eq!(kind(P::open_directory(c, path, false)), Some(FileErrorKind::Missing));
    let directory = P::open_directory(c, path, true).expect("a new directory");
    assert_eq!(kind(P::open_directory(c, path, true)), Some(FileErrorKind::InUse));
    let identity = || P::fresh_identity(c, &directory).expect("a number");
    assert_ne!(identity(), identity());
    let mut user = User::<P>::new(c, &directory);
    assert_eq!(user.names(), []);

    names::<P>(&mut user);
    contents::<P>(&mut user);
    order::<P>(&mut user);

    drop((user, directory));
    let directory = P::open_directory(c, path, false).expect("nobody has it open any more");
    let mut user = User::<P>::new(c, &directory);
    assert_eq!(user.names(), [("b".into(), 8192), ("data".into(), 12300)]);
    let file = user.open("data", Existence::Old, Access::Cached).expect("a file");
    drop(directory);
    // A file and a queue keep the directory locked.
    assert_eq!(kind(P::open_directory(c, path, true)), Some(FileErrorKind::InUse));
    assert_eq!(user.read(&file, 12288), vec![7; 12]);
}

fn names<P: Files>(user: &mut User<P>) {
    assert_eq!(user.open("a", Existence::Old, Access::Cached).err(), Some(FileErrorKind::Missing));
    let a = user.open("a", Existence::New, Access::Cached).expect("a new file");
    assert_eq!(user.open("a", Existence::New, Access::Cached).err(), Some(FileErrorKind::Exists));
    for name in ["", ".", "..", "x/y", "../a"] {
        assert_eq!(
            user.open(name, Existence::New, Access::Cached).err(),
            Some(FileErrorKind::Name),
            "{name}"
        );
    }
    user.write(&a, 0, b"first").expect("a write");
    user.open("b", Existence::New, Access::Cached).expect("a new file");
    user.run(Operation::Rename { from: "a".into(), to: "b".into() }).expect("b is replaced");
    let missing = user.run(Operation::Rename { from: "a".into(), to: "c".into() });
    assert_eq!(missing.err(), Some(FileErrorKind::Missing));
    assert_eq!(user.names(), [("b".into(), 5)]);
    // The file is the same under its new name, and lasts while it is open.
    user.run(Operation::Remove { name: "b".into() }).expect("b goes");
    assert_eq!(user.run(Operation::Remove { name: "b".into() }).err(), Some(FileErrorKind::Missing));
    assert_eq!(user.read(&a, 0), b"first");
    user.run(Operation::FlushDirectory).expect("durable names");
}

fn contents<P: Files>(user: &mut User<P>) {
    let data = user.open("data", Existence::New, Access::Cached).expect("a new file");
    let buffers = vec![user.buffer(&[5; 12288]), user.buffer(&[]), user.buffer(&[7; 12])];
    user.run(Operation::Write { file: data.clone(), offset: 0, buffers }).expect("a write");
    user.run(Operation::Flush { file: data.clone() }).expect("a flush");
    assert_eq!(user.read(&data, 12288 - 2), [&[5; 2][..], &[7; 12]].concat());
    assert!(user.read(&data, 1 << 30).is_empty());
    match user.run(Operation::Size { file: data }).expect("a size") {
        Done::Bytes(bytes) => assert_eq!(bytes, 12300),
        _ => unreachable!("a size is a number"),
    }
    let direct = user.open("b", Existence::New, Access::Direct).expect("a new file");
    user.run(Operation::Preallocate { file: direct.clone(), bytes: 8192 }).expect("space");
    assert_eq!(user.read(&direct, 0), vec![0; 8192]);
    user.write(&direct, 4096, &[9; 4096]).expect("a block");
    assert_eq!(user.read(&direct, 0), [[0; 4096], [9; 4096]].concat());
    assert_eq!(user.write(&direct, 512, &[9; 4096]).err(), Some(FileErrorKind::Misaligned));
    assert_eq!(user.write(&direct, 0, &[9; 512]).err(), Some(FileErrorKind::Misaligned));
}

/// Operations of a queue end in order, and later operations see the effects of earlier ones.
fn order<P: Files>(user: &mut User<P>) {
    let c = user.c;
    assert!(!P::wait(c, &mut user.queue, None), "nothing is under way");
    let file = user.open("order", Existence::New, Access::Cached).expect("a new file");
    let mut tickets = Vec::new();
    for number in 0..20u8 {
        let buffers = vec![user.buffer(&[number; 100])];
        let write = Operation::Write { file: file.clone(), offset: u64::from(number) * 50, buffers };
        tickets.push(P::submit(c, &mut user.queue, write));
        tickets.push(P::submit(c, &mut user.queue, Operation::Flush { file: file.clone() }));
    }
    tickets.push(P::submit(c, &mut user.queue, Operation::Remove { name: "order".into() }));
    let mut taken: Vec<Ticket> = Vec::new();
    while P::wait(c, &mut user.queue, None) {
        while let Some(completion) = P::take(c, &mut user.queue) {
            assert!(completion.result.is_ok());
            assert!(completion.buffers.iter().all(|buffer| buffer.len() == 100));
            taken.push(completion.ticket);
        }
    }
    assert_eq!(taken, tickets);
    let content = user.read(&file, 0);
    assert!((0..20).all(|number| content[number * 50] == number as u8));
}

/// An empty directory for a test on the host's own files.
fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn files_of_hardware_behave() {
    let path = place("files");
    behaves::<Hardware>(Hardware::core(), &path);
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn files_of_the_virtual_machine_behave() {
    for (seed, perturbed) in [(1, false), (2, true), (3, true)] {
        let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
        let config = small().with_disk(&disk).with_seed(seed);
        let config = if perturbed { config.perturbed() } else { config };
        VirtualMachine::run(&config, |c| behaves::<VirtualMachine>(c, Path::new("place"))).expect("a run");
        let names: Vec<PathBuf> = disk.contents().into_keys().collect();
        assert_eq!(names, [Path::new("place/b"), Path::new("place/data")]);
    }
}

/// The program that runs cannot be written, not even by its owner.
#[test]
fn a_file_that_may_only_be_read_is_opened_to_be_read() {
    let (c, program) = (Hardware::core(), std::env::current_exe().expect("a program"));
    let directory = program.parent().expect("it lies in one");
    let name = program.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
    let directory = Hardware::open_directory(c, directory, false).expect("nobody locks it");
    let mut queue = Hardware::queue(c, &directory).expect("a queue");
    let open = Operation::Open { name, existence: Existence::Old, access: Access::Cached };
    let file = Hardware::perform(c, &mut queue, open).into_file().expect("it can be read");
    let buffer = Buffer::new(c, None, 4, "test").expect("memory");
    let read = Operation::Read { file: file.clone(), offset: 0, buffer };
    let completion = Hardware::perform(c, &mut queue, read);
    let buffer = completion.buffers.into_iter().next().expect("it comes back");
    assert!(buffer.bytes().starts_with(b"\x7fELF"));
    let write = Operation::Write { file, offset: 0, buffers: vec![buffer] };
    let error = Hardware::perform(c, &mut queue, write).result.err().expect("it may not be written");
    assert_eq!((error.call, error.to_string().lines().count()), ("write", 1));
}

#[test]
fn what_is_no_directory_is_refused() {
    let c = Hardware::core();
    let path = place("no-directory");
    std::fs::write(&path, b"text").expect("a file");
    assert_eq!(kind(Hardware::open_directory(c, &path, true)), Some(FileErrorKind::NotADirectory));
    std::fs::remove_file(&path).expect("the test's file");
    VirtualMachine::run(&small(), |c| {
        assert_eq!(kind(VirtualMachine::open_directory(c, &path, true)), Some(FileErrorKind::NoDisk));
    })
    .expect("a run");
}

#[test]
fn a_full_disk_says_so_and_keeps_what_it_has() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults { capacity_bytes: 10_000, ..DiskFaults::default() });
    VirtualMachine::run(&small().with_disk(&disk), |c| {
        let directory = VirtualMachine::open_directory(c, Path::new("d"), true).expect("a directory");
        let mut user = User::<VirtualMachine>::new(c, &directory);
        let file = user.open("f", Existence::New, Access::Cached).expect("a file");
        user.write(&file, 0, &[1; 8000]).expect("there is room");
        assert_eq!(user.write(&file, 8000, &[2; 4000]).err(), Some(FileErrorKind::Full));
        let more = Operation::Preallocate { file: file.clone(), bytes: 12_000 };
        assert_eq!(user.run(more).err(), Some(FileErrorKind::Full));
        user.write(&file, 7000, &[3; 1000]).expect("in place");
        assert_eq!(user.read(&file, 6999), [&[1][..], &[3; 1000]].concat());
    })
    .expect("a run");
}

#[test]
fn operations_take_the_time_of_the_disk_and_not_of_the_core() {
    let elapsed = |model: DiskModel, flushes: u32| {
        let disk = Disk::new(model, DiskFaults::default());
        let run = VirtualMachine::run(&small().with_disk(&disk), |c| {
            let directory = VirtualMachine::open_directory(c, Path::new("d"), true).expect("a directory");
            let mut user = User::<VirtualMachine>::new(c, &directory);
            let file = user.open("f", Existence::New, Access::Direct).expect("a file");
            for _ in 0..flushes {
                user.write(&file, 0, &[1; 4096]).expect("a write");
                user.run(Operation::Flush { file: file.clone() }).expect("a flush");
            }
            let before = VirtualMachine::statistics(c).elapsed;
            let flush = Operation::Flush { file };
            VirtualMachine::submit(c, &mut user.queue, flush);
            assert!(VirtualMachine::take(c, &mut user.queue).is_none());
            let submitted = VirtualMachine::statistics(c).elapsed.since(before);
            assert!(submitted < 1000, "submitting took {submitted} ns");
            let deadline = Nanos(VirtualMachine::statistics(c).elapsed.0 + 100);
            assert!(!VirtualMachine::wait(c, &mut user.queue, Some(deadline)));
        });
        run.expect("a run").statistics.elapsed.0
    };
    let flush_nanos = |model| (elapsed(model, 21) - elapsed(model, 1)) / 20;
    let (ram, nvme, hdd) =
        (flush_nanos(DiskModel::RAM), flush_nanos(DiskModel::NVME), flush_nanos(DiskModel::HDD));
    assert!((2_000..10_000).contains(&ram), "{ram}");
    assert!((26_000..40_000).contains(&nvme), "{nvme}");
    assert!((10_000_000..12_000_000).contains(&hdd), "{hdd}");
}
