//! The message experiment (Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2): two peers send a message
//! of 256 bytes to and fro. It shows what a mechanism of communication costs within and across sockets, without a
//! database.
//!
//! Each peer sends, and then waits for the answer; a round trip is two messages. The first peer measures. Deviation: the
//! peers are two pinned threads of one process instead of two processes; the kernel's mechanisms make no difference.

// Hands each peer its end: no engine runs here, and no simulated time passes under the lock.
#![allow(clippy::disallowed_types)]

use std::sync::{Arc, Mutex};

use platform::link::{
    Bell, End, Limits, LinkError, Links, Mechanism, Patience, ReceiveError, SendError, Side, Wire, connect,
};
use platform::{Nanos, Node, OutOfMemory, Place};

/// Bytes of a message, as in the study.
pub const MESSAGE_BYTES: usize = 256;

/// Messages under way in one direction: there is at most one, and the last one that says stop.
const MESSAGES_MAX: usize = 4;

/// First byte of a message to be answered.
const GO: u8 = 1;
/// First byte of the last message.
const STOP: u8 = 2;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct IpcSpec {
    /// How messages travel.
    pub mechanism: Mechanism,
    /// Where the peers run.
    pub places: [Place; 2],
    /// Their memory nodes.
    pub nodes: [Option<Node>; 2],
    /// The network between them, if they are on two machines.
    pub wire: Option<Wire>,
    /// Time before measuring.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

/// What came out.
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

/// Why the experiment says nothing.
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
    /// A message did not come.
    #[error("receiving: {0}")]
    Receive(#[from] ReceiveError),
    /// A message came that its peer did not send.
    #[error("a message of {bytes} bytes arrived damaged")]
    Damaged {
        /// Its length.
        bytes: usize,
    },
}

/// Runs the experiment. `observe` gets the nanoseconds of each measured round trip, on the thread of the first peer;
/// `stop` is asked after each, and ends the run early.
pub fn run_ipc<P: Links>(
    c: P::Core,
    spec: &IpcSpec,
    observe: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<IpcResult, IpcError> {
    let side = |peer: usize| -> Result<Side<P>, OutOfMemory> {
        Ok(Side { bell: Arc::new(Bell::new(c, spec.nodes[peer])?), node: spec.nodes[peer] })
    };
    let limits = Limits { message_bytes_max: MESSAGE_BYTES, messages_max: MESSAGES_MAX };
    let ends = connect::<P>(c, spec.mechanism, [side(0)?, side(1)?], limits, spec.wire)?;
    let ends = ends.map(|end| Mutex::new(Some(end)));
    let results = Mutex::new(Vec::new());
    let worker = |c, peer: usize| {
        let end = ends[peer].lock().ok().and_then(|mut end| end.take());
        let Some(mut end) = end else { return };
        let result = if peer == 0 {
            first::<P>(c, &mut end, spec, observe, stop).map(Some)
        } else {
            second::<P>(c, &mut end).map(|()| None)
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

/// One message to the peer, and one back.
fn round_trip<P: Links>(
    c: P::Core,
    end: &mut End<P>,
    message: &[u8; MESSAGE_BYTES],
    answer: &mut [u8; MESSAGE_BYTES],
) -> Result<(), IpcError> {
    end.sender.send(c, message)?;
    let bytes = end.receiver.receive(c, answer, Patience::Forever)?.unwrap_or(0);
    if bytes != MESSAGE_BYTES || answer != message {
        return Err(IpcError::Damaged { bytes });
    }
    Ok(())
}

/// The peer that begins, and measures.
fn first<P: Links>(
    c: P::Core,
    end: &mut End<P>,
    spec: &IpcSpec,
    observe: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<IpcResult, IpcError> {
    let mut answer = [0; MESSAGE_BYTES];
    let mut message = [GO; MESSAGE_BYTES];
    let warm_up_ends = P::now(c).plus(spec.warm_up_nanos);
    while P::now(c) < warm_up_ends && !stop() {
        round_trip(c, end, &message, &mut answer)?;
    }
    let begin = P::now(c);
    let ends = begin.plus(spec.nanos);
    let (mut now, mut round_trips) = (begin, 0u64);
    while now < ends && !stop() {
        message[1..9].copy_from_slice(&round_trips.to_le_bytes());
        round_trip(c, end, &message, &mut answer)?;
        let after: Nanos = P::now(c);
        observe(after.since(now));
        (now, round_trips) = (after, round_trips + 1);
    }
    end.sender.send(c, &[STOP; MESSAGE_BYTES])?;
    Ok(IpcResult { messages: 2 * round_trips, elapsed_nanos: now.since(begin) })
}

/// The peer that answers.
fn second<P: Links>(c: P::Core, end: &mut End<P>) -> Result<(), IpcError> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let bytes = end.receiver.receive(c, &mut message, Patience::Forever)?.unwrap_or(0);
        if message[0] == STOP {
            return Ok(());
        }
        end.sender.send(c, &message[..bytes])?;
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, HardwareThread};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    fn spec(mechanism: Mechanism, threads: [Option<u32>; 2], nanos: u64) -> IpcSpec {
        IpcSpec {
            mechanism,
            places: threads.map(|thread| Place { thread: thread.map(HardwareThread) }),
            nodes: threads.map(|thread| thread.map(|thread| Node(thread / 2))),
            wire: None,
            warm_up_nanos: nanos / 10,
            nanos,
        }
    }

    /// Peers on two threads of a machine with two sockets of two cores; the round trips too.
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
    fn every_mechanism_works_on_hardware() {
        for (name, mechanism) in Mechanism::ALL {
            let spec = spec(mechanism, [None, None], 3_000_000);
            let result = run_ipc::<Hardware>(Hardware::core(), &spec, &|_| (), &|| false);
            let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(result.messages >= 2, "{name}");
        }
    }
}
