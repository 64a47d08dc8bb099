//! The message experiment between two processes, each with a pinned worker: the cost of a link
//! between processes that share no other memory.
//!
//! The first process starts the second one and gives it a task on its command line: mechanism,
//! endpoint, hardware thread, memory node, and where to find a line of memory that both map. Both
//! then pass the bare line back and forth, exchange messages, and pass the line again. So the line
//! is measured under the conditions of the messages.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;

use platform::link::{KernelMechanism, Mechanism, Patience};
use platform::{
    Hardware, HardwareCore, HardwareRegion, HardwareThread, LINE_BYTES, Node, Place, Platform, SharedMemory,
};
use secure_links::{Connection, Doorbell, Endpoint, Hello, Identity, Listener, Peer, connect};
use workloads::ipc::{
    IpcResult, IpcTimes, Waiting, answer_requests, limits, pass_line, pass_messages, send_requests,
};

use crate::context::Context;
use crate::error::RunError;
use crate::measurement::values::{Measurement, RoundTrip};
use crate::workloads::experiments::{Latencies, messages, peers, seconds};

/// Longest time for which each process waits for the other one.
const PATIENCE_NANOS: u64 = 30_000_000_000;
/// The version of the messages between the two.
const VERSION: u32 = 1;
/// Bytes between the two lines: processors prefetch neighbouring lines.
const LINE_DISTANCE: usize = 4 * LINE_BYTES;

/// The process that answers.
pub struct OtherProcess {
    /// The mechanism by which messages are sent.
    pub mechanism: Mechanism,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Its program, which calls [`answer_messages`] with its last argument.
    pub program: PathBuf,
    /// The arguments before that.
    pub arguments: Vec<String>,
}

/// The task of the other process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    mechanism: Mechanism,
    message_bytes: usize,
    endpoint: Endpoint,
    place: Place,
    node: Option<Node>,
    line: PathBuf,
}

impl fmt::Display for Task {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { mechanism, message_bytes, endpoint, place, node, line } = self;
        let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (thread, node) = (number(place.thread.map(|thread| thread.0)), number(node.map(|node| node.0)));
        write!(to, "{mechanism}\n{message_bytes}\n{thread}\n{node}\n{}\n{endpoint}", line.display())
    }
}

impl FromStr for Task {
    type Err = RunError;

    fn from_str(text: &str) -> Result<Self, RunError> {
        let refused =
            || RunError::Refused("no task for a second process: isles bench ipc gives one".to_owned());
        let [mechanism, message_bytes, thread, node, line, endpoint] =
            <[&str; 6]>::try_from(text.splitn(6, '\n').collect::<Vec<_>>()).map_err(|_| refused())?;
        let number = |text: &str| -> Result<Option<u32>, RunError> {
            if text == "-" { Ok(None) } else { text.parse().map(Some).map_err(|_| refused()) }
        };
        let known = Mechanism::ALL.into_iter().find(|(name, _)| *name == mechanism);
        Ok(Task {
            mechanism: known.ok_or_else(refused)?.1,
            message_bytes: message_bytes.parse().map_err(|_| refused())?,
            endpoint: endpoint.parse().map_err(|_| refused())?,
            place: Place { thread: number(thread)?.map(HardwareThread) },
            node: number(node)?.map(Node),
            line: line.into(),
        })
    }
}

/// The second process, which is killed when this value is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // The process has ended already, unless there was a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(other: &OtherProcess, task: &Task) -> Result<Started, RunError> {
    let mut command = Command::new(&other.program);
    command.args(&other.arguments).arg(task.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    // Signals of the terminal interrupt only this process, which ends the other one.
    command.process_group(0);
    command.spawn().map(Started).map_err(|error| RunError::at(&other.program, &error))
}

/// A new endpoint.
fn endpoint(mechanism: Mechanism) -> Endpoint {
    if mechanism == Mechanism::Kernel(KernelMechanism::Tcp) {
        return Endpoint::Network((std::net::Ipv4Addr::LOCALHOST, 0).into());
    }
    Endpoint::Path(std::env::temp_dir().join(format!("isles-ipc-{}", std::process::id())))
}

/// The time of a bare line.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    read_ns: f64,
    swapped_ns: f64,
}

/// Passes both lines, each with its kind of waiting.
fn pass(c: HardwareCore, lines: &HardwareRegion, side: u64) -> Result<Passed, RunError> {
    let passed = |offset: usize, waiting: Waiting| {
        let line = Hardware::word_of(lines, offset);
        pass_line::<Hardware>(c, line, side, waiting).map_err(RunError::of)
    };
    let read_ns = passed(0, Waiting::Reading)?;
    Ok(Passed { read_ns, swapped_ns: passed(LINE_DISTANCE, Waiting::Swapping)? })
}

/// Runs the message experiment between this process and another one.
pub(crate) fn ipc(c: HardwareCore, other: &OtherProcess, cx: Context<'_>) -> Result<Measurement, RunError> {
    let (places, nodes) = peers(cx.deployment)?;
    let seconds = seconds(cx.plan.length);
    cx.control.progress.running(cx.plan.warm_up_seconds + seconds);
    let times =
        IpcTimes { warm_up_nanos: (cx.plan.warm_up_seconds * 1e9) as u64, nanos: (seconds * 1e9) as u64 };
    let latencies = Latencies::new()?;
    let (lines, memory) =
        Hardware::shared_region(c, nodes[0], 2 * LINE_DISTANCE, "lines").map_err(RunError::of)?;
    let deployment = u64::from(std::process::id());
    let identity = Identity { version: VERSION, deployment, instance: 0 };
    let mut listener = Listener::bind(c, &endpoint(other.mechanism), identity).map_err(RunError::of)?;
    let task = Task {
        mechanism: other.mechanism,
        message_bytes: other.message_bytes,
        endpoint: listener.endpoint().clone(),
        place: places[1],
        node: nodes[1],
        line: memory.path(),
    };
    let mut started = start(other, &task)?;
    let meet = |c: HardwareCore, listener: &mut Listener| -> Result<Connection, RunError> {
        let doorbell = Doorbell::new(c, nodes[0]).map_err(RunError::of)?;
        let patience = Patience::Until(Hardware::now(c).plus(PATIENCE_NANOS));
        let met = listener.accept(c, &mut |_| Ok((doorbell.clone(), limits(other.message_bytes))), patience);
        met.map_err(RunError::of)?.ok_or(RunError::Worker("the second process did not connect"))
    };
    let run = |c: HardwareCore, listener: &mut Listener| -> Result<(IpcResult, f64, [Passed; 2]), RunError> {
        let mut connection = meet(c, listener)?;
        let before = pass(c, &lines, 0)?;
        let message_ns = pass_messages(c, &mut connection.end, other.message_bytes).map_err(RunError::of)?;
        let observe = |nanos: u64| latencies.record(nanos.saturating_mul(1000));
        let stop = cx.control.stop_requested;
        let result = send_requests(c, &mut connection.end, other.message_bytes, times, &observe, stop);
        let result = result.map_err(RunError::of)?;
        Ok((result, message_ns, [before, pass(c, &lines, 0)?]))
    };
    let (result, message_ns, passed) = pinned(c, places[0], &mut |c| run(c, &mut listener))?;
    let status = started.0.wait().map_err(RunError::of)?;
    if !status.success() {
        return Err(RunError::Refused(format!("the second process ended with {status}")));
    }
    let mut measured = messages(cx, result, latencies);
    measured.counters.messages = Some(result.messages);
    measured.round_trip = Some(round_trip(message_ns, passed));
    Ok(measured)
}

/// Takes the faster of the two measurements of the line: disturbances only make it slower.
fn round_trip(message_ns: f64, passed: [Passed; 2]) -> RoundTrip {
    let faster = |time: fn(&Passed) -> f64| time(&passed[0]).min(time(&passed[1]));
    let (line_ns, line_swapped_ns) = (faster(|passed| passed.read_ns), faster(|passed| passed.swapped_ns));
    RoundTrip { message_ns, line_ns, line_swapped_ns, ratio: message_ns / line_ns }
}

/// Runs `work` on a pinned worker.
fn pinned<T: Send>(
    c: HardwareCore,
    place: Place,
    work: &mut (dyn FnMut(HardwareCore) -> Result<T, RunError> + Send),
) -> Result<T, RunError> {
    let (work, done) = (Mutex::new(work), Mutex::new(None));
    let worker = |c, _| {
        if let (Ok(mut work), Ok(mut done)) = (work.lock(), done.lock()) {
            *done = Some((**work)(c));
        }
    };
    Hardware::parallel(c, &[place], &worker, &mut |_| ());
    done.into_inner().ok().flatten().unwrap_or(Err(RunError::Worker("a worker ended without a result")))
}

/// The main function of the second process: its task is the last argument of its command line.
///
/// # Errors
/// The text is no task, or the first process is gone.
pub fn answer_messages(task: &str) -> Result<(), RunError> {
    let task: Task = task.parse()?;
    let lines = SharedMemory::open(&task.line).map_err(|error| RunError::at(&task.line, &error))?;
    let c = Hardware::core();
    let lines = lines.map(c, "lines").map_err(RunError::of)?;
    // The path of the line contains the number of the first process.
    let named = task.line.iter().nth(2).and_then(|process| process.to_str()?.parse().ok());
    let hello = Hello {
        version: VERSION,
        deployment: named.unwrap_or(0),
        from: Peer { instance: 1, worker: 0 },
        to: Peer { instance: 0, worker: 0 },
        mechanism: task.mechanism,
        limits: limits(task.message_bytes),
    };
    pinned(c, task.place, &mut |c| {
        let doorbell = Doorbell::new(c, task.node).map_err(RunError::of)?;
        let patience = Patience::Until(Hardware::now(c).plus(PATIENCE_NANOS));
        let connection = connect(c, &task.endpoint, hello, &doorbell, patience);
        let mut connection = connection.map_err(RunError::of)?;
        pass(c, &lines, 1)?;
        answer_requests(c, &mut connection.end, task.message_bytes).map_err(RunError::of)?;
        pass(c, &lines, 1).map(|_| ())
    })
}
