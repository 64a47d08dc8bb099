//! Flags of `ipc`.

use harness::{Choice, OtherProcess, Peers, serialize_name};
use platform::link::{KernelMechanism, Mechanism};
use serde::Serialize;
use workloads::ipc::MESSAGE_BYTES;

use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, Flag, PEER_COMMAND};
use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::machine_facts::NATIVE;

const UNIX: Mechanism = Mechanism::Kernel(KernelMechanism::Unix);
const TCP: Mechanism = Mechanism::Kernel(KernelMechanism::Tcp);
/// The mechanisms that connect processes.
const BETWEEN_PROCESSES: [Mechanism; 3] = [Mechanism::SharedMemory, UNIX, TCP];

/// Flags of `ipc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ipc {
    /// How messages travel.
    #[serde(serialize_with = "serialize_name")]
    pub mechanism: Mechanism,
    /// Bytes of a message.
    pub bytes: u64,
    /// Where the peers run.
    #[serde(serialize_with = "serialize_name")]
    pub peers: Peers,
    /// Processes that they belong to.
    pub processes: u64,
}

impl BenchWorkload for Ipc {
    const HAS_DATABASE: bool = false;
    const COUNTS: &'static str = "messages";

    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        let peers = arguments.ipc.peers.value_or(Peers::SameSocket)?;
        let apart = peers == Peers::OtherMachine;
        let default = if apart { TCP } else { UNIX };
        let mechanism = arguments.ipc.mechanism.value_or(default)?;
        if apart && mechanism != TCP {
            let flag = format!("--mechanism {} with --peers other-machine", mechanism.name());
            return Err(BadInput::new(flag, "two machines share no memory and no kernel", "tcp"));
        }
        let processes = arguments.ipc.processes.value_or(1)?;
        let bytes = arguments.ipc.bytes.value_or(MESSAGE_BYTES as u64)?;
        let ipc = Ipc { mechanism, bytes, peers, processes };
        if processes > 1 && arguments.common.machine.as_deref().is_some_and(|machine| machine != NATIVE) {
            return Err(BadInput::value("--processes", "2", "a simulated machine has no processes", "1"));
        }
        if processes > 1 && !BETWEEN_PROCESSES.contains(&mechanism) {
            let names: Vec<&str> = BETWEEN_PROCESSES.iter().map(|mechanism| mechanism.name()).collect();
            let problem = "it does not connect two processes here";
            let flag = format!("--mechanism {} with --processes 2", mechanism.name());
            return Err(BadInput::new(flag, problem, names.join(", ")));
        }
        Ok(ipc)
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        RowCount { flag: "--cores", count: cores as u64, rows: 0.0, bytes: 0.0 }
    }

    fn describe(&self) -> String {
        let between = if self.processes > 1 { ", between two processes" } else { "" };
        let (mechanism, peers) = (self.mechanism.name(), self.peers.name());
        format!("{}-byte messages to and fro, {mechanism}, {peers}{between}", self.bytes)
    }

    fn for_harness(&self, _: usize, _: Split) -> Result<harness::Workload, Failure> {
        let (mechanism, message_bytes) = (self.mechanism, self.bytes as usize);
        if self.processes == 1 {
            return Ok(harness::Workload::Ipc { mechanism, message_bytes });
        }
        let program = std::env::current_exe().map_err(Failure::of)?;
        let arguments = vec![PEER_COMMAND.to_owned()];
        let other = OtherProcess { mechanism, message_bytes, program, arguments };
        Ok(harness::Workload::IpcBetweenProcesses(other))
    }

    fn peers(&self) -> Option<Peers> {
        Some(self.peers)
    }
}
