//! The message experiment (Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2):
//! two peers send a message, in the paper of 256 bytes, back and forth. It shows the cost of a
//! mechanism of communication within and across sockets, without a database.
//!
//! Each peer sends, and then waits for the answer; a round trip is two messages. The first peer
//! measures. The peers are two pinned threads of one process ([`run_ipc`]), or two processes, each
//! with one side: [`send_requests`] and [`answer_requests`]. For comparison, [`pass_line`] measures
//! the round trip of a single cache line between the two.

// The lock passes each peer its end: no engine runs here, and no simulated time passes under the
// lock.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub use platform::link::MESSAGE_BYTES_MAX;
use platform::link::{
    Bell, End, Limits, LinkError, Links, Mechanism, Patience, ReceiveError, SendError, Side, Wire, connect,
};
use platform::{Nanos, Node, OutOfMemory, Place, Platform};

use crate::measure::median;

/// Bytes of a message, as in the paper.
pub const MESSAGE_BYTES: usize = 256;

/// Messages in flight in one direction: there is at most one request, and the stop message.
const MESSAGES_MAX: usize = 4;

/// Bytes of the smallest message: a command and a number.
pub const MESSAGE_BYTES_MIN: usize = 9;

/// Bounds of a link for messages of this size.
pub fn limits(message_bytes: usize) -> Limits {
    Limits { message_bytes_max: message_bytes, messages_max: MESSAGES_MAX }
}

/// Round trips of a line or of a message whose mean is one measurement.
const PASSES: u64 = 200;
const REPETITIONS: u64 = 50;
/// Longest wait for the line, because the other side may have ended.
const PASS_NANOS_MAX: u64 = 10_000_000_000;
/// Attempts to take the line between two reads of the clock.
const ATTEMPTS_PER_CLOCK_READ: u64 = 100_000;

/// First byte of a message that is answered.
const GO: u8 = 1;
/// First byte of the last message.
const STOP: u8 = 2;

/// Parameters of the experiment.
#[derive(Clone, Copy, Debug)]
pub struct IpcSpec {
    /// The mechanism by which messages are sent.
    pub mechanism: Mechanism,
    /// Bytes of a message, from [`MESSAGE_BYTES_MIN`] to [`MESSAGE_BYTES_MAX`].
    pub message_bytes: usize,
    /// The hardware threads of the peers.
    pub places: [Place; 2],
    /// Their memory nodes.
    pub nodes: [Option<Node>; 2],
    /// A wire between peers of one machine. Peers on two simulated machines have the network that
    /// is described.
    pub wire: Option<Wire>,
    /// Time before measuring.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

/// Result of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcResult {
    /// Messages received by either peer while measuring: two a round trip.
    pub messages: u64,
    /// From the beginning of the measurement to the end of the last round trip.
    pub elapsed_nanos: u64,
}

impl IpcResult {
    /// Messages a second.
    pub fn throughput(&self) -> f64 {
        self.messages as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }
}

/// Lengths of warm-up and measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcTimes {
    /// Time before measuring.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

/// How a side of [`pass_line`] waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It reads the line, and then writes it: the line is transferred twice for each turn, like a
    /// line that carries a message.
    Reading,
    /// By compare and swap: each transfer of the line is for writing.
    Swapping,
}

/// The reason why the experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    /// No connection.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// No memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A message was refused.
    #[error("sending: {0}")]
    Send(#[from] SendError),
    /// No message was received.
    #[error("receiving: {0}")]
    Receive(#[from] ReceiveError),
    /// A message was received that differs from the one that was sent.
    #[error("a message of {bytes} bytes arrived damaged")]
    Damaged {
        /// Its length.
        bytes: usize,
    },
    /// The other side did not pass the line on.
    #[error("the other side stopped passing the line")]
    Stopped,
}

/// Runs the experiment. `observe` receives the nanoseconds of each measured round trip, on the
/// thread of the first peer; `stop` is called after each, and ends the run early if it returns
/// true.
pub fn run_ipc<P: Links>(
    c: P::Core,
    spec: &IpcSpec,
    observe: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<IpcResult, IpcError> {
    let side = |peer: usize| -> Result<Side<P>, OutOfMemory> {
        Ok(Side { bell: Arc::new(Bell::new(c, spec.nodes[peer])?), node: spec.nodes[peer] })
    };
    let ends = connect::<P>(c, spec.mechanism, [side(0)?, side(1)?], limits(spec.message_bytes), spec.wire)?;
    let times = IpcTimes { warm_up_nanos: spec.warm_up_nanos, nanos: spec.nanos };
    let ends = ends.map(|end| Mutex::new(Some(end)));
    let results = Mutex::new(Vec::new());
    let worker = |c, peer: usize| {
        let end = ends[peer].lock().ok().and_then(|mut end| end.take());
        let Some(mut end) = end else { return };
        let result = if peer == 0 {
            send_requests::<P>(c, &mut end, spec.message_bytes, times, observe, stop).map(Some)
        } else {
            answer_requests::<P>(c, &mut end, spec.message_bytes).map(|()| None)
        };
        if let Ok(mut results) = results.lock() {
            results.push(result);
        }
    };
    P::parallel(c, &spec.places, &worker, &mut |_| ());
    let mut measured = IpcResult { messages: 0, elapsed_nanos: 0 };
    for result in results.into_inner().unwrap_or_default() {
        measured = result?.unwrap_or(measured);
    }
    Ok(measured)
}

/// Sends a message to the peer and receives the answer.
fn round_trip<P: Links>(
    c: P::Core,
    end: &mut End<P>,
    message: &[u8],
    answer: &mut [u8],
) -> Result<(), IpcError> {
    end.sender.send(c, message)?;
    let bytes = end.receiver.receive(c, answer, Patience::Forever)?.unwrap_or(0);
    if bytes != message.len() || answer != message {
        return Err(IpcError::Damaged { bytes });
    }
    Ok(())
}

/// Runs the side of the peer that sends requests of this size and measures; `observe` and `stop`
/// are as in [`run_ipc`].
pub fn send_requests<P: Links>(
    c: P::Core,
    end: &mut End<P>,
    message_bytes: usize,
    times: IpcTimes,
    observe: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<IpcResult, IpcError> {
    let (mut message, mut answer) = (vec![GO; message_bytes], vec![0; message_bytes]);
    let warm_up_ends = P::now(c).plus(times.warm_up_nanos);
    while P::now(c) < warm_up_ends && !stop() {
        round_trip(c, end, &message, &mut answer)?;
    }
    let begin = P::now(c);
    let ends = begin.plus(times.nanos);
    let (mut now, mut round_trips) = (begin, 0u64);
    while now < ends && !stop() {
        message[1..9].copy_from_slice(&round_trips.to_le_bytes());
        round_trip(c, end, &message, &mut answer)?;
        let after: Nanos = P::now(c);
        observe(after.since(now));
        (now, round_trips) = (after, round_trips + 1);
    }
    message.fill(STOP);
    end.sender.send(c, &message)?;
    Ok(IpcResult { messages: 2 * round_trips, elapsed_nanos: now.since(begin) })
}

/// The median round-trip time of a message, in nanoseconds, measured as [`pass_line`] measures a
/// line: the clock is read once for many round trips. The other side runs [`answer_requests`].
pub fn pass_messages<P: Links>(c: P::Core, end: &mut End<P>, message_bytes: usize) -> Result<f64, IpcError> {
    let (message, mut answer) = (vec![GO; message_bytes], vec![0; message_bytes]);
    let mut times = Vec::new();
    for _ in 0..REPETITIONS {
        let begin = P::now(c);
        (0..PASSES).try_for_each(|_| round_trip(c, end, &message, &mut answer))?;
        times.push(P::now(c).since(begin) as f64 / PASSES as f64);
    }
    Ok(median(times).unwrap_or(f64::NAN))
}

/// Runs the side of the peer that answers messages of this size.
pub fn answer_requests<P: Links>(c: P::Core, end: &mut End<P>, message_bytes: usize) -> Result<(), IpcError> {
    let mut message = vec![0; message_bytes];
    loop {
        let bytes = end.receiver.receive(c, &mut message, Patience::Forever)?.unwrap_or(0);
        if message[0] == STOP {
            return Ok(());
        }
        end.sender.send(c, &message[..bytes])?;
    }
}

/// Passes a line back and forth, and returns the median round-trip time in nanoseconds: `side` 0
/// begins, side 1 does the same on another core. The word is the only one in its line, and 0;
/// afterwards it is 0 again.
pub fn pass_line<P: Platform>(
    c: P::Core,
    line: &P::Word,
    side: u64,
    waiting: Waiting,
) -> Result<f64, IpcError> {
    let turns = REPETITIONS * PASSES;
    let mut times = Vec::new();
    let mut start = P::now(c);
    let mut end = start.plus(PASS_NANOS_MAX);
    for turn in 0..turns {
        let (mine, after) = (2 * turn + side, 2 * turn + side + 1);
        // Side 1 ends.
        let after = if after == 2 * turns { 0 } else { after };
        match waiting {
            Waiting::Reading => {
                read_until::<P>(c, line, mine, end)?;
                // Release: pairs with the acquire of the other side.
                P::store(c, line, after, Ordering::Release);
            }
            Waiting::Swapping => swap::<P>(c, line, mine, after, end)?,
        }
        if (turn + 1) % PASSES == 0 {
            let now = P::now(c);
            times.push(now.since(start) as f64 / PASSES as f64);
            (start, end) = (now, now.plus(PASS_NANOS_MAX));
        }
    }
    if side == 0 {
        // The next use begins with 0.
        read_until::<P>(c, line, 0, P::now(c).plus(PASS_NANOS_MAX))?;
    }
    Ok(median(times).unwrap_or(f64::NAN))
}

fn read_until<P: Platform>(c: P::Core, line: &P::Word, mine: u64, end: Nanos) -> Result<(), IpcError> {
    // Acquire: pairs with the release of the other side.
    let mut seen = P::load(c, line, Ordering::Acquire);
    while seen != mine {
        let after = P::spin_while(c, line, seen, Some(end));
        if after == seen {
            return Err(IpcError::Stopped);
        }
        seen = after;
    }
    Ok(())
}

fn swap<P: Platform>(c: P::Core, line: &P::Word, mine: u64, after: u64, end: Nanos) -> Result<(), IpcError> {
    let mut attempts = 0;
    // AcqRel: pairs with the other side's.
    while P::cas(c, line, mine, after, Ordering::AcqRel).is_err() {
        attempts += 1;
        if attempts % ATTEMPTS_PER_CLOCK_READ == 0 && P::now(c) >= end {
            return Err(IpcError::Stopped);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, HardwareThread};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    fn spec(mechanism: Mechanism, threads: [Option<u32>; 2], nanos: u64) -> IpcSpec {
        IpcSpec {
            mechanism,
            message_bytes: MESSAGE_BYTES,
            places: threads.map(|thread| Place { thread: thread.map(HardwareThread) }),
            nodes: threads.map(|thread| thread.map(|thread| Node(thread / 2))),
            wire: None,
            warm_up_nanos: nanos / 10,
            nanos,
        }
    }

    /// Runs peers on two threads of a machine with two sockets of two cores; returns the round
    /// trips, too.
    fn simulate(spec: &IpcSpec) -> (IpcResult, Vec<u64>) {
        let round_trips = Mutex::new(Vec::new());
        let observe = |nanos| round_trips.lock().expect("no panic").push(nanos);
        let config = Config::new(Shape::new(2, 2, 1));
        let outcome = VirtualMachine::run(&config, |c| {
            run_ipc::<VirtualMachine>(c, spec, &observe, &|| false).map_err(|error| error.to_string())
        });
        let result = outcome.expect("the run ends").value.expect("messages arrive");
        (result, round_trips.into_inner().expect("no panic"))
    }

    #[test]
    fn distance_costs_with_every_mechanism() {
        for (name, mechanism) in Mechanism::ALL {
            let (near, round_trips) = simulate(&spec(mechanism, [Some(0), Some(1)], 1_000_000));
            assert_eq!(near.messages, 2 * round_trips.len() as u64, "{name}");
            assert_eq!(near.elapsed_nanos, round_trips.iter().sum::<u64>(), "{name}");
            let (far, _) = simulate(&spec(mechanism, [Some(0), Some(2)], 1_000_000));
            assert!(near.throughput() > far.throughput(), "{name}: {near:?} {far:?}");
        }
    }

    #[test]
    fn longer_messages_cost_more_with_every_mechanism() {
        for (name, mechanism) in Mechanism::ALL {
            let base = spec(mechanism, [Some(0), Some(1)], 1_000_000);
            let throughput = |message_bytes| simulate(&IpcSpec { message_bytes, ..base }).0.throughput();
            let (short, long) = (throughput(MESSAGE_BYTES_MIN), throughput(MESSAGE_BYTES_MAX));
            assert!(short > long, "{name}: {short} {long}");
        }
    }

    #[test]
    fn simulated_runs_repeat() {
        let spec = spec(Mechanism::ALL[3].1, [Some(0), Some(2)], 500_000);
        assert_eq!(simulate(&spec), simulate(&spec));
    }

    #[test]
    fn a_wire_adds_its_latency_and_its_bandwidth() {
        let (_, tcp) = Mechanism::ALL[4];
        let base = spec(tcp, [Some(0), Some(2)], 2_000_000);
        let round_trip = |wire| {
            let (result, _) = simulate(&IpcSpec { wire, ..base });
            2 * result.elapsed_nanos / result.messages
        };
        let wire = |bytes_per_second| Some(Wire { one_way_nanos: 25_000, bytes_per_second });
        let (none, latency) = (round_trip(None), round_trip(wire(None)));
        assert!((none + 45_000..none + 52_000).contains(&latency), "{none} {latency}");
        // 256 bytes at 100 MB/s are 2.56 us each way.
        let both = round_trip(wire(Some(1e8)));
        assert!((latency + 5_000..latency + 5_300).contains(&both), "{latency} {both}");
    }

    #[test]
    fn a_line_is_passed_to_and_fro_in_both_ways() {
        let config = Config::new(Shape::new(2, 2, 1));
        let passed = |waiting| {
            let times = Mutex::new([0.0; 2]);
            let outcome = VirtualMachine::run(&config, |c| {
                let region = VirtualMachine::region(c, Some(Node(0)), 8, "line").expect("memory");
                let worker = |c, side: usize| {
                    let line = VirtualMachine::word_of(&region, 0);
                    let time = pass_line::<VirtualMachine>(c, line, side as u64, waiting).expect("passed");
                    times.lock().expect("no panic")[side] = time;
                };
                let place = |thread| Place { thread: Some(HardwareThread(thread)) };
                VirtualMachine::parallel(c, &[place(0), place(2)], &worker, &mut |_| ());
                VirtualMachine::load(c, VirtualMachine::word_of(&region, 0), Ordering::Acquire)
            });
            assert_eq!(outcome.expect("the run ends").value, 0);
            let [first, second] = times.into_inner().expect("no panic");
            assert!((first / second - 1.0).abs() < 0.05, "{first} {second}");
            first
        };
        assert!(passed(Waiting::Reading) > 0.0 && passed(Waiting::Swapping) > 0.0);
    }

    #[test]
    fn every_mechanism_works_on_hardware() {
        for (name, mechanism) in Mechanism::ALL {
            let spec = spec(mechanism, [None, None], 3_000_000);
            let result = run_ipc::<Hardware>(Hardware::core(), &spec, &|_| (), &|| false);
            let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(result.messages >= 2, "{name}");
        }
    }
}
