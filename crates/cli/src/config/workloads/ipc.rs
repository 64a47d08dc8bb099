//! Flags of `ipc`.

use driver::Peers;
use platform::link;
use serde::Serialize;

use super::terms::{BenchWorkload, RowCount};
use crate::arguments::BenchArguments;
use crate::bad_input::BadInput;
use crate::choices::{Choice, Mechanism, choose, serialize_name};
use crate::errors::Failure;

/// Flags of `ipc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ipc {
    /// How messages travel.
    pub mechanism: Mechanism,
    /// Where the peers run.
    #[serde(serialize_with = "serialize_name")]
    pub peers: Peers,
}

impl BenchWorkload for Ipc {
    const HAS_DATABASE: bool = false;
    const COUNTS: &'static str = "messages";

    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        Ok(Ipc {
            mechanism: choose("--mechanism", arguments.ipc.mechanism.as_deref(), Mechanism::Unix)?,
            peers: choose("--peers", arguments.ipc.peers.as_deref(), Peers::SameSocket)?,
        })
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        RowCount { flag: "--cores", count: cores as u64, bytes: 0.0 }
    }

    fn describe(&self) -> String {
        format!("256-byte messages to and fro, {}, {}", self.mechanism.name(), self.peers.name())
    }

    fn for_driver(&self, _: usize, _: bool) -> Result<driver::Workload, Failure> {
        mechanism(self.mechanism).map(driver::Workload::Ipc)
    }

    fn peers(&self) -> Option<Peers> {
        Some(self.peers)
    }
}

fn mechanism(choice: Mechanism) -> Result<link::Mechanism, Failure> {
    let name = choice.name();
    let known = link::Mechanism::ALL.into_iter().find(|(other, _)| *other == name);
    known
        .map(|(_, mechanism)| mechanism)
        .ok_or_else(|| Failure::Failed(format!("--mechanism {name}: unknown to the platform")))
}
