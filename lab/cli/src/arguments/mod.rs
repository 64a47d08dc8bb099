//! The command line as typed: names, help, and the values that flags take. `config` decides what
//! they mean together.

mod bench;
mod deploy;
mod given;
mod study;
mod verify;

use clap::Args;

pub use bench::{
    BENCH_BASIC_FLAGS, BRANCHES_MAX, BenchArguments, CommonFlags, TABLE_ROWS_MAX, WAREHOUSES_MAX,
    WorkloadFlag,
};
pub use deploy::DeployArguments;
use given::named;
pub use given::{AnyFlag, Flag, Given, TextFlag, refuse, text, whole};
pub use study::{StudyArguments, StudySize};
pub use verify::VerifyArguments;

use crate::choices::{TopologyFormat, TopologyView};

/// The command that Isles starts its second process with.
pub const PEER_COMMAND: &str = "ipc-peer";
/// The command that Isles starts the processes of instances with. It has the flags of `bench`.
pub const INSTANCE_COMMAND: &str = "instance";

const TOPOLOGY_EXAMPLES: &str = "Examples:
  isles topology                         this machine
  isles topology --format json           the same for programs
  isles topology --machine octo-socket   a machine that ships with Isles, and what its caches and links cost
  isles topology --format svg > machine.svg
                                         a picture
  isles topology --machine octo-socket --format svg --view cores > cores.svg
                                         times of lines between cores as a heat map
  isles topology --machine server.xml    another machine: lstopo --of xml > server.xml, there
  isles topology --machine matrix.csv    one whose core-to-core latencies were measured
  isles topology --machine server.xml --format toml > server.toml
                                         a description to edit; --machine server.toml
  isles topology --sysroot snapshot/     a machine of which sys, proc and dev/cpuset were copied";

const PROBE_EXAMPLES: &str = "Examples:
  isles probe                          measure this machine, about a minute
  isles probe --quick --json           a few seconds, for programs
  isles probe --out m.toml             write a description of this machine, ...
  isles topology --machine m.toml      ... draw it, ...
  isles bench tpcc --machine m.toml    ... and simulate it

Other load on the machine spoils the figures.";

/// Flags of `isles topology`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = TOPOLOGY_EXAMPLES)]
pub struct TopologyArguments {
    /// How to draw it: text, json, svg (a picture) or toml (a description file) [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = named::<TopologyFormat>())]
    pub format: Option<Given<TopologyFormat>>,
    /// Read sys, proc and dev/cpuset under DIR instead of /, and ignore this process's own affinity
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<String>,
    /// native, a machine that ships with Isles, or a file: a description (TOML), hwloc XML of
    /// lstopo, or a core-to-core matrix (CSV) [default: native]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Content of a picture: machine (nested boxes), cores (times of lines between cores) or memory
    /// (latencies between nodes) [default: machine]
    #[arg(long, value_name = "VIEW", value_parser = named::<TopologyView>())]
    pub view: Option<Given<TopologyView>>,
}

/// Flags of `isles probe`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = PROBE_EXAMPLES)]
pub struct ProbeArguments {
    /// Write a machine description for --machine to FILE
    #[arg(long, value_name = "FILE")]
    pub out: Option<String>,
    /// Shorter and less exact
    #[arg(long)]
    pub quick: bool,
    /// Flush and read files in DIR [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
