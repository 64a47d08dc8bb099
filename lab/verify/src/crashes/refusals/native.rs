//! Refusals of the real operating system. A child process runs transactions while its limits are
//! lowered for a while (`prlimit`); while its disk is small and full (a `tmpfs` in a mount
//! namespace of its own), or supports neither preallocation nor direct access (a `ramfs`); while
//! calls of one kind are refused, or signals interrupt its flushes (`strace`). A machine may lack
//! these programs, or refuse to run them: then functions return what is missing.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use platform::files::Access;
use terms::random::Random;

use crate::crashes::killed::{self, ProcessRun, parse};
use crate::mutex::lock;
use crate::subject::Subject;

/// Longest time until an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(30);
/// Acknowledgements of a process before and after its limit is lowered.
const LINES: u64 = 20;
/// Acknowledgements after a call was refused: those already under way come first.
const LINES_AFTER: u64 = 100;
/// Longest time that a limit is low.
const MILLISECONDS_MAX: u64 = 60;

/// A limit of a process that is lowered for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of descriptors: no file can be opened.
    Descriptors,
    /// The length of files: no byte beyond this length is written or preallocated.
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

    /// True if the limit may end the process: records that cannot be written stop the log.
    fn may_end(self) -> bool {
        matches!(self, Limit::FileBytes(_))
    }
}

/// Result of lowering limits or refusing calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// Number of processes.
    pub lives: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Processes that continued.
    pub went_on: u64,
    /// Processes whose log stopped, or whose opening was refused.
    pub stopped: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Violations.
    pub violations: Vec<String>,
}

/// Returns what is missing to lower a limit; `None` if nothing.
pub fn missing_for_limits() -> Option<&'static str> {
    let runs = succeeds(Command::new("prlimit").arg("--version"));
    (!runs).then_some("the program prlimit, of util-linux")
}

/// Returns what is missing to refuse a call; `None` if nothing.
pub fn missing_for_tracing() -> Option<&'static str> {
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

/// Returns a command that runs `inner` under `strace` with these arguments.
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
pub struct RefusedCalls {
    /// Their names, as `strace` takes them.
    pub calls: &'static str,
    /// The error that they return.
    pub error: &'static str,
    /// The first one that is refused, from 1 on.
    pub first: u64,
    /// The number of refused calls: with `first` at most 65,535.
    pub times: u64,
}

impl RefusedCalls {
    /// Renaming a file.
    pub const RENAME: RefusedCalls = RefusedCalls { calls: "/^rename", error: "EIO", first: 1, times: 1 };
    /// Removing a name.
    pub const UNLINK: RefusedCalls = RefusedCalls { calls: "/^unlink", error: "EIO", first: 1, times: 1 };
    /// Starting a thread.
    pub const THREAD: RefusedCalls = RefusedCalls { calls: "/^clone", error: "EAGAIN", first: 1, times: 1 };
    /// Mapping memory.
    pub const MAP: RefusedCalls = RefusedCalls { calls: "mmap", error: "ENOMEM", first: 1, times: 1 };
    /// Flushing a file: ends the log for good.
    pub const FLUSH: RefusedCalls = RefusedCalls { calls: "fdatasync", error: "EIO", first: 1, times: 1 };
    /// Creating, connecting or accepting a socket.
    pub const SOCKET: RefusedCalls =
        RefusedCalls { calls: "/^(socket|connect|accept|bind)", error: "EMFILE", first: 1, times: 1 };
    /// Sending or receiving through a socket.
    pub const SOCKET_BYTES: RefusedCalls =
        RefusedCalls { calls: "/^(send|recv)", error: "ECONNRESET", first: 1, times: 1 };

    /// The program and arguments in front of a command whose calls are refused; `notes` receives
    /// one line a refused call.
    pub fn arguments(&self, notes: &Path) -> Vec<String> {
        let RefusedCalls { calls, error, first, times } = *self;
        let last = first.saturating_add(times - 1);
        let words = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o"];
        let mut all: Vec<String> = words.map(str::to_owned).to_vec();
        all.extend([notes.display().to_string(), "-e".to_owned(), format!("trace={calls}"), "-e".to_owned()]);
        all.push(format!("inject={calls}:error={error}:when={first}..{last}"));
        all
    }

    /// The number of refused calls in these notes.
    pub fn count(notes: &Path) -> u64 {
        let notes = std::fs::read(notes).unwrap_or_default();
        String::from_utf8_lossy(&notes).matches("(INJECTED)").count() as u64
    }
}

/// A running process, whose acknowledgements are collected.
struct RunningProcess {
    child: Child,
    count: Arc<AtomicU64>,
    opened: Arc<AtomicBool>,
    lines: Arc<Mutex<Vec<(usize, u64)>>>,
    reader: std::thread::JoinHandle<()>,
}

impl RunningProcess {
    fn start(command: &mut Command) -> Result<RunningProcess, String> {
        let started = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.map_err(|error| format!("a process cannot be started: {error}"))?;
        let output = child.stdout.take().map(BufReader::new);
        let (count, lines) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counts, collected, opened) = (count.clone(), lines.clone(), Arc::new(AtomicBool::new(false)));
        let opens = opened.clone();
        let reader = std::thread::spawn(move || {
            let output = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            for line in output {
                opens.fetch_or(line.starts_with("opened "), Ordering::Relaxed);
                let Some(line) = parse(&line) else { continue };
                lock(&collected).push(line);
                counts.fetch_add(1, Ordering::Release);
            }
        });
        Ok(RunningProcess { child, count, opened, lines, reader })
    }

    /// True if the process has not ended.
    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for `more` acknowledgements; false if the process ends before, or takes too long.
    fn waits_for(&mut self, more: u64) -> bool {
        let until = self.count.load(Ordering::Acquire) + more;
        let ends = Instant::now() + PATIENCE;
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

    /// Kills the process and returns its acknowledgements.
    fn end(mut self) -> Result<Vec<(usize, u64)>, String> {
        self.child.kill().map_err(|error| error.to_string())?;
        self.child.wait().map_err(|error| error.to_string())?;
        self.reader.join().map_err(|_| "the reader panicked")?;
        let lines = std::mem::take(&mut *lock(&self.lines));
        Ok(lines)
    }
}

/// Runs one process for each limit, all on the database in `path`. Each [runs](killed::run); its
/// limit is lowered for a while and raised again; the process has to continue, unless records could
/// not be written; then it is killed, and the directory is checked.
///
/// # Errors
/// A process cannot be started, or its limits cannot be changed.
pub fn run_with_lowered_limits(
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
        let mut running = RunningProcess::start(&mut command(number))?;
        let mut wrong = Vec::new();
        if !running.waits_for(LINES) {
            wrong.push("nothing was committed, and nothing had been refused".to_owned());
        } else {
            running.limit(*limit, true)?;
            std::thread::sleep(Duration::from_millis(1 + random.below(MILLISECONDS_MAX)));
            // The process may have ended meanwhile.
            let raised = running.limit(*limit, false);
            match raised.is_ok() && running.waits_for(LINES) {
                true => all.went_on += 1,
                false if limit.may_end() && !running.lives() => all.stopped += 1,
                false => wrong.push("it does not go on".to_owned()),
            }
        }
        let ended = FinalCheck { subject, path, number, running, wrong };
        ended.check(&mut acknowledged, &mut all, &format!("{limit:?}"))?;
    }
    Ok(all)
}

/// A process before it is killed, with the violations so far.
struct FinalCheck<'a> {
    subject: &'a Subject,
    path: &'a Path,
    number: u64,
    running: RunningProcess,
    wrong: Vec<String>,
}

impl FinalCheck<'_> {
    /// Kills the process, and checks the directory: numbers that it or an earlier process
    /// acknowledged have to be there.
    fn check(self, acknowledged: &mut Vec<u64>, all: &mut Lowered, name: &str) -> Result<(), String> {
        let FinalCheck { subject, path, number, running, mut wrong } = self;
        let lines = running.end()?;
        all.lives += 1;
        all.acknowledged += lines.len() as u64;
        for (worker, done) in lines {
            if let Some(before) = acknowledged.get_mut(worker) {
                *before = done.max(*before);
            }
        }
        let run = ProcessRun { subject, path, access: Access::Direct, seed: number, acknowledged };
        match killed::check(&run) {
            Ok(found) => *acknowledged = found.numbers,
            Err(what) => wrong.push(what),
        }
        let text = |what| format!("{}, {name}: {what}", subject.name);
        all.violations.extend(wrong.into_iter().map(text));
        Ok(())
    }
}

/// Runs one process for each of these refusals, all on the database in `path`. A refused opening
/// may end the process with an error; a process that has opened the database has to continue. Then
/// it is killed, and the directory is checked.
///
/// # Errors
/// A process cannot be started.
pub fn run_with_refused_calls(
    subject: &Subject,
    path: &Path,
    workers: usize,
    refusals: &[RefusedCalls],
    command: &mut dyn FnMut(u64) -> Command,
) -> Result<Lowered, String> {
    let mut all = Lowered::default();
    let mut acknowledged = vec![0; workers];
    let notes = path.with_extension("notes");
    for (number, refused) in (0..).zip(refusals) {
        let inner = command(number);
        let words = refused.arguments(&notes);
        let mut running = RunningProcess::start(&mut traced(words[1..].iter().map(String::as_str), &inner))?;
        let ends = Instant::now() + PATIENCE;
        while RefusedCalls::count(&notes) == 0 && running.lives() && Instant::now() < ends {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut wrong = Vec::new();
        if RefusedCalls::count(&notes) == 0 {
            wrong.push("nothing was refused".to_owned());
        }
        match running.waits_for(LINES_AFTER) {
            true => all.went_on += 1,
            false if running.opened.load(Ordering::Relaxed) => wrong.push("it does not go on".to_owned()),
            // A status code: the process was not killed by a signal.
            false => match running.child.try_wait() {
                Ok(Some(status)) if status.code().is_some() => all.stopped += 1,
                ended => wrong.push(format!("its opening does not end in words: {ended:?}")),
            },
        }
        all.refused += RefusedCalls::count(&notes);
        let ended = FinalCheck { subject, path, number, running, wrong };
        ended.check(&mut acknowledged, &mut all, &format!("{refused:?}"))?;
        _ = std::fs::remove_file(&notes);
    }
    Ok(all)
}

/// Returns what is missing to interrupt flushes; `None` if nothing.
pub fn missing_for_interrupts() -> Option<&'static str> {
    let runs = succeeds(Command::new("strace").args(INTERRUPTING).arg("true"));
    (!runs).then_some("the program strace, or leave to trace")
}

/// Every second flush of each thread returns as if interrupted by a signal. With `-D` the traced
/// process is the direct child.
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

/// Runs transactions in a process whose flushes are interrupted, kills it, and checks the
/// directory. Returns the number of acknowledgements.
///
/// # Errors
/// A violation.
pub fn run_with_interrupted_flushes(
    subject: &Subject,
    path: &Path,
    workers: usize,
    command: &Command,
) -> Result<u64, String> {
    let mut running = RunningProcess::start(&mut traced(INTERRUPTING, command))?;
    let went_on = running.waits_for(LINES);
    let wrong = (!went_on).then(|| "it does not go on".to_owned()).into_iter().collect();
    let (mut acknowledged, mut all) = (vec![0; workers], Lowered::default());
    FinalCheck { subject, path, number: 0, running, wrong }.check(
        &mut acknowledged,
        &mut all,
        "interrupted",
    )?;
    match all.violations.is_empty() {
        true => Ok(all.acknowledged),
        false => Err(all.violations.join("; ")),
    }
}

/// A disk in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDisk {
    /// A disk of this many bytes.
    Small(u64),
    /// A disk without `fallocate`.
    WithoutSpaceAhead,
}

impl MemoryDisk {
    /// Type and size of its file system.
    fn mounted(self) -> (&'static str, u64) {
        match self {
            MemoryDisk::Small(bytes) => ("tmpfs", bytes),
            MemoryDisk::WithoutSpaceAhead => ("ramfs", 0),
        }
    }

    /// Run time of the transactions, in seconds.
    fn seconds(self) -> &'static str {
        match self {
            MemoryDisk::Small(_) => "2",
            MemoryDisk::WithoutSpaceAhead => "0.5",
        }
    }
}

/// Runs transactions on a disk until it is full, or for a while: acknowledged numbers have to be in
/// a copy of the directory, which is at `path` afterwards. Returns the number of acknowledgements;
/// `None` if this machine allows no process to mount such a disk.
///
/// # Errors
/// A violation.
pub fn run_on_memory_disk(
    subject: &Subject,
    path: &Path,
    workers: usize,
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
    let run = ProcessRun { subject, path, access: Access::Direct, seed: bytes, acknowledged: &acknowledged };
    killed::check(&run).map_err(|what| format!("{}, {kind:?}: {what}", subject.name))?;
    Ok(Some(count))
}

/// Exit status of the shell if the disk cannot be mounted.
const CANNOT_MOUNT: i32 = 42;
/// Mounts a `$4` of `$2` bytes at `$1`, runs the command behind `$5` there, at most `$5` seconds
/// long, and copies the directory to `$3`.
const FILLING: &str = r#"
mount -t "$4" -o size="$2" "$4" "$1" || exit 42
disk=$1 copy=$3 seconds=$5
shift 5
timeout -s KILL "$seconds" "$@"
cp -r "$disk/database" "$copy"
"#;
