//! Refusals of the operating system that this process runs on: limits of a child process, which
//! runs transactions, are lowered for a while (`prlimit`); its disk is small and full (a `tmpfs` in
//! a mount namespace of its own), or takes no space ahead and knows no direct access (a `ramfs`);
//! calls of one kind are refused for a while, or signals interrupt its flushes (`strace`). All are
//! done with programs that a machine may lack, or not be allowed to run: that is said.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use platform::files::Access;
use terms::random::Random;

use crate::crashes::killed::{self, Life, parse};
use crate::subject::Subject;

/// How long a process may take to acknowledge something.
const PATIENCE: Duration = Duration::from_secs(30);
/// Acknowledgements of a process before and after its limit is lowered.
const LINES: u64 = 20;
/// The same after a call was refused: what was on its way then comes first.
const LINES_AFTER: u64 = 100;
/// How long a limit is low, at most.
const MILLISECONDS_MAX: u64 = 60;

/// A limit of a process that is lowered for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Of descriptors: no file can be opened.
    Descriptors,
    /// Of the length of files: nothing is written or preallocated beyond so many bytes.
    FileBytes(u64),
}

impl Limit {
    fn flag(self, is_low: bool) -> String {
        match (self, is_low) {
            (Limit::Descriptors, true) => "--nofile=3:".into(),
            (Limit::Descriptors, false) => "--nofile=1024:".into(),
            (Limit::FileBytes(bytes), true) => format!("--fsize={bytes}:"),
            (Limit::FileBytes(_), false) => "--fsize=unlimited:".into(),
        }
    }

    /// True if the process may end by it: records that cannot be written stop the log.
    fn may_end(self) -> bool {
        matches!(self, Limit::FileBytes(_))
    }
}

/// What lowering limits, or refusing calls, showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// Processes.
    pub lives: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Processes that went on.
    pub went_on: u64,
    /// Processes whose log stopped, or whose opening was refused.
    pub stopped: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Why natively no limit can be lowered; `None` if one can.
pub fn lacks() -> Option<&'static str> {
    let runs = succeeds(Command::new("prlimit").arg("--version"));
    (!runs).then_some("the program prlimit, of util-linux")
}

/// Why no call can be refused; `None` if one can.
pub fn lacks_tracing() -> Option<&'static str> {
    let runs = succeeds(Command::new("strace").args([
        "-D",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "true",
    ]));
    (!runs).then_some("the program strace, or the right to trace a process")
}

/// A command that runs another one under `strace` with these arguments.
fn traced<'a>(arguments: impl IntoIterator<Item = &'a str>, inner: &Command) -> Command {
    let mut outer = Command::new("strace");
    outer.args(arguments).arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

fn succeeds(command: &mut Command) -> bool {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

/// System calls of one kind that are refused to each thread of a process, counted from its
/// beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Their names, as `strace` takes them.
    pub calls: &'static str,
    /// How they end.
    pub error: &'static str,
    /// The first one that is refused, from 1 on.
    pub first: u64,
    /// So many are: with `first` at most 65,535 in all.
    pub times: u64,
}

impl Refused {
    /// A file gets another name.
    pub const RENAME: Refused = Refused { calls: "/^rename", error: "EIO", first: 1, times: 1 };
    /// A name is removed.
    pub const UNLINK: Refused = Refused { calls: "/^unlink", error: "EIO", first: 1, times: 1 };
    /// A thread begins.
    pub const THREAD: Refused = Refused { calls: "/^clone", error: "EAGAIN", first: 1, times: 1 };
    /// Memory is mapped.
    pub const MAP: Refused = Refused { calls: "mmap", error: "ENOMEM", first: 1, times: 1 };
    /// A file is flushed: the log ends, whatever comes after.
    pub const FLUSH: Refused = Refused { calls: "fdatasync", error: "EIO", first: 1, times: 1 };
    /// A socket is made, connected, or accepted.
    pub const SOCKET: Refused =
        Refused { calls: "/^(socket|connect|accept|bind)", error: "EMFILE", first: 1, times: 1 };
    /// Bytes are sent or received through a socket.
    pub const SOCKET_BYTES: Refused =
        Refused { calls: "/^(send|recv)", error: "ECONNRESET", first: 1, times: 1 };

    /// The program that runs what follows, with these calls refused, and notes each in this file.
    pub fn arguments(&self, notes: &Path) -> Vec<String> {
        let Refused { calls, error, first, times } = *self;
        let last = first.saturating_add(times - 1);
        let words = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o"];
        let mut all: Vec<String> = words.map(str::to_owned).to_vec();
        all.extend([notes.display().to_string(), "-e".to_owned(), format!("trace={calls}"), "-e".to_owned()]);
        all.push(format!("inject={calls}:error={error}:when={first}..{last}"));
        all
    }

    /// How many were refused, as these notes say.
    pub fn count(notes: &Path) -> u64 {
        let notes = std::fs::read(notes).unwrap_or_default();
        String::from_utf8_lossy(&notes).matches("(INJECTED)").count() as u64
    }
}

/// A process that is told what it acknowledges.
struct Running {
    child: Child,
    count: Arc<AtomicU64>,
    opened: Arc<AtomicBool>,
    lines: Arc<Mutex<Vec<(usize, u64)>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Running, String> {
        let started = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.map_err(|error| format!("a process cannot be started: {error}"))?;
        let output = child.stdout.take().map(BufReader::new);
        let (count, lines) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counts, keeps, opened) = (count.clone(), lines.clone(), Arc::new(AtomicBool::new(false)));
        let opens = opened.clone();
        let reader = std::thread::spawn(move || {
            let said = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            for line in said {
                opens.fetch_or(line.starts_with("opened "), Ordering::Relaxed);
                let Some(line) = parse(&line) else { continue };
                keeps.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                counts.fetch_add(1, Ordering::Release);
            }
        });
        Ok(Running { child, count, opened, lines, reader })
    }

    /// True if the process has not ended.
    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for so many more acknowledgements; false if the process ends before, or takes too
    /// long.
    fn waits_for(&mut self, more: u64) -> bool {
        let (until, ends) = (self.count.load(Ordering::Acquire) + more, Instant::now() + PATIENCE);
        while self.count.load(Ordering::Acquire) < until {
            if Instant::now() > ends || !self.lives() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn limit(&self, limit: Limit, is_low: bool) -> Result<(), String> {
        let mut command = Command::new("prlimit");
        command.arg("--pid").arg(self.child.id().to_string()).arg(limit.flag(is_low));
        let output = command.output().map_err(|error| format!("prlimit: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("prlimit: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// Kills the process: what it acknowledged.
    fn end(mut self) -> Result<Vec<(usize, u64)>, String> {
        self.child.kill().map_err(|error| error.to_string())?;
        self.child.wait().map_err(|error| error.to_string())?;
        self.reader.join().map_err(|_| "the reader panicked")?;
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(lines)
    }
}

/// Runs one process for each limit, all on the database in `path`. Each [lives](killed::live); its
/// limit is lowered for a while and raised again; it goes on, unless records could not be written;
/// then it is killed, and the directory is looked at.
///
/// # Errors
/// A process cannot be started, or its limits not be changed.
pub fn lower(
    subject: &Subject,
    path: &Path,
    workers: usize,
    limits: &[Limit],
    command: &mut dyn FnMut(u64) -> Command,
) -> Result<Lowered, String> {
    let mut all = Lowered::default();
    let mut acknowledged = vec![0; workers];
    for (number, limit) in (0..).zip(limits) {
        let mut random = Random::new(number, 13);
        let mut running = Running::start(&mut command(number))?;
        let mut wrong = Vec::new();
        if !running.waits_for(LINES) {
            wrong.push("nothing was committed, and nothing had been refused".to_owned());
        } else {
            running.limit(*limit, true)?;
            std::thread::sleep(Duration::from_millis(1 + random.below(MILLISECONDS_MAX)));
            // It may have ended meanwhile.
            let raised = running.limit(*limit, false);
            match raised.is_ok() && running.waits_for(LINES) {
                true => all.went_on += 1,
                false if limit.may_end() && !running.lives() => all.stopped += 1,
                false => wrong.push("it does not go on".to_owned()),
            }
        }
        let ended = End { subject, path, number, running, wrong };
        ended.look(&mut acknowledged, &mut all, &format!("{limit:?}"))?;
    }
    Ok(all)
}

/// A process that is to be killed.
struct End<'a> {
    subject: &'a Subject,
    path: &'a Path,
    number: u64,
    running: Running,
    wrong: Vec<String>,
}

impl End<'_> {
    /// Kills it, and looks at the directory: what was acknowledged, also in lives before, has to be
    /// there.
    fn look(self, acknowledged: &mut Vec<u64>, all: &mut Lowered, name: &str) -> Result<(), String> {
        let End { subject, path, number, running, mut wrong } = self;
        let lines = running.end()?;
        all.lives += 1;
        all.acknowledged += lines.len() as u64;
        for (worker, done) in lines {
            if let Some(before) = acknowledged.get_mut(worker) {
                *before = done.max(*before);
            }
        }
        let life = Life { subject, path, access: Access::Direct, seed: number, acknowledged };
        match killed::look(&life) {
            Ok(found) => *acknowledged = found.numbers,
            Err(what) => wrong.push(what),
        }
        let told = |what| format!("{}, {name}: {what}", subject.name);
        all.violations.extend(wrong.into_iter().map(told));
        Ok(())
    }
}

/// Runs one process for each of these refusals, all on the database in `path`. An opening may end
/// in words; whoever has opened the database goes on. Then it is killed, and the directory is
/// looked at.
///
/// # Errors
/// A process cannot be started.
pub fn refuse(
    subject: &Subject,
    path: &Path,
    workers: usize,
    refusals: &[Refused],
    command: &mut dyn FnMut(u64) -> Command,
) -> Result<Lowered, String> {
    let mut all = Lowered::default();
    let mut acknowledged = vec![0; workers];
    let notes = path.with_extension("notes");
    for (number, refused) in (0..).zip(refusals) {
        let inner = command(number);
        let words = refused.arguments(&notes);
        let mut running = Running::start(&mut traced(words[1..].iter().map(String::as_str), &inner))?;
        let ends = Instant::now() + PATIENCE;
        while Refused::count(&notes) == 0 && running.lives() && Instant::now() < ends {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut wrong = Vec::new();
        if Refused::count(&notes) == 0 {
            wrong.push("nothing was refused".to_owned());
        }
        match running.waits_for(LINES_AFTER) {
            true => all.went_on += 1,
            false if running.opened.load(Ordering::Relaxed) => wrong.push("it does not go on".to_owned()),
            // A status of its own: it was not killed by a signal.
            false => match running.child.try_wait() {
                Ok(Some(status)) if status.code().is_some() => all.stopped += 1,
                ended => wrong.push(format!("its opening does not end in words: {ended:?}")),
            },
        }
        all.refused += Refused::count(&notes);
        let ended = End { subject, path, number, running, wrong };
        ended.look(&mut acknowledged, &mut all, &format!("{refused:?}"))?;
        _ = std::fs::remove_file(&notes);
    }
    Ok(all)
}

/// Why no signal can interrupt flushes; `None` if one can.
pub fn lacks_interrupts() -> Option<&'static str> {
    let runs = succeeds(Command::new("strace").args(INTERRUPTING).arg("true"));
    (!runs).then_some("the program strace, or leave to trace")
}

/// Every second flush of each thread returns as if a signal had come. The process that is told of
/// is the traced one.
const INTERRUPTING: [&str; 9] = [
    "-D",
    "-f",
    "-qq",
    "-o",
    "/dev/null",
    "-e",
    "trace=fdatasync",
    "-e",
    "inject=fdatasync:error=EINTR:when=1+2",
];

/// Runs transactions in a process whose flushes are interrupted, kills it, and looks at the
/// directory; how often it acknowledged something.
///
/// # Errors
/// What is wrong.
pub fn interrupt(
    subject: &Subject,
    (path, workers): (&Path, usize),
    command: &Command,
) -> Result<u64, String> {
    let mut running = Running::start(&mut traced(INTERRUPTING, command))?;
    let went_on = running.waits_for(LINES);
    let wrong = (!went_on).then(|| "it does not go on".to_owned()).into_iter().collect();
    let (mut acknowledged, mut all) = (vec![0; workers], Lowered::default());
    End { subject, path, number: 0, running, wrong }.look(&mut acknowledged, &mut all, "interrupted")?;
    match all.violations.is_empty() {
        true => Ok(all.acknowledged),
        false => Err(all.violations.join("; ")),
    }
}

/// A disk of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDisk {
    /// Of so many bytes.
    Small(u64),
    /// Without `fallocate`.
    WithoutSpaceAhead,
}

impl MemoryDisk {
    /// The kind of its file system, and the length that this has.
    fn mounted(self) -> (&'static str, u64) {
        match self {
            MemoryDisk::Small(bytes) => ("tmpfs", bytes),
            MemoryDisk::WithoutSpaceAhead => ("ramfs", 0),
        }
    }

    /// How long transactions run there, in seconds.
    fn seconds(self) -> &'static str {
        match self {
            MemoryDisk::Small(_) => "2",
            MemoryDisk::WithoutSpaceAhead => "0.5",
        }
    }
}

/// Runs transactions on a disk until it is full, or for a while: what the process acknowledged has
/// to be in a copy of the directory that lies at `path` afterwards. How often it was told; `None`
/// if this machine lets nobody mount such a disk.
///
/// # Errors
/// What is wrong.
pub fn fill(
    subject: &Subject,
    (path, workers): (&Path, usize),
    kind: MemoryDisk,
    command: &mut dyn FnMut(&Path) -> Command,
) -> Result<Option<u64>, String> {
    let (file_system, bytes) = kind.mounted();
    let disk = path.with_extension("disk");
    std::fs::create_dir_all(&disk).map_err(|error| error.to_string())?;
    let inner = command(&disk.join("database"));
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "--map-root-user", "sh", "-c", FILLING, "sh"]);
    outer.arg(&disk).arg(bytes.to_string()).arg(path).args([file_system, kind.seconds()]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = match outer.stderr(Stdio::null()).output() {
        Ok(output) if output.status.code() == Some(CANNOT_MOUNT) => return Ok(None),
        Ok(output) if output.status.code() == Some(1) && output.stdout.is_empty() => return Ok(None),
        Ok(output) => output,
        Err(_) => return Ok(None),
    };
    _ = std::fs::remove_dir(&disk);
    let mut acknowledged = vec![0; workers];
    let text = String::from_utf8_lossy(&output.stdout);
    let mut count = 0;
    for (worker, done) in text.lines().filter_map(parse) {
        count += 1;
        if let Some(before) = acknowledged.get_mut(worker) {
            *before = done.max(*before);
        }
    }
    let life = Life { subject, path, access: Access::Direct, seed: bytes, acknowledged: &acknowledged };
    killed::look(&life).map_err(|what| format!("{}, {kind:?}: {what}", subject.name))?;
    Ok(Some(count))
}

/// How the shell says that there is no disk.
const CANNOT_MOUNT: i32 = 42;
/// Mounts a `$4` of `$2` bytes at `$1`, runs what follows `$5` there, at most `$5` seconds long,
/// and copies the directory to `$3`.
const FILLING: &str = r#"
mount -t "$4" -o size="$2" "$4" "$1" || exit 42
disk=$1 copy=$3 seconds=$5
shift 5
timeout -s KILL "$seconds" "$@"
cp -r "$disk/database" "$copy"
"#;
