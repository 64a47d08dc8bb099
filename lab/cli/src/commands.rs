//! The commands of `isles`, and what each of them takes.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::arguments::{
    BenchArguments, DeployArguments, INSTANCE_COMMAND, PEER_COMMAND, ProbeArguments, StudyArguments,
    TopologyArguments, VerifyArguments,
};
use crate::backup::{BackupArguments, RestoreArguments};
use crate::certificates::CertificatesArguments;
use crate::convert::ConvertArguments;
use crate::directory::{CheckArguments, InspectArguments};
use crate::rows::{ExportArguments, ImportArguments};
use crate::upgrade::UpgradeArguments;

const EXAMPLES: &str = "Examples:
  isles topology                     draw this machine and its islands
  isles probe --out m.toml           measure this machine and describe it
  isles bench tpcc                   run TPC-C on all cores for 10 seconds
  isles bench --help                 the flags of a benchmark; --help-all has every one
  isles deploy two.toml              run the instances of a deployment file
  isles verify                       every scheme over 1000 seeds
  isles study studies/findings.toml  test published findings, with a report
  isles check data                   verify a database on disk
  isles backup data copy             copy one, which may be open
  isles export data accounts --out accounts.csv
                                     write the rows of a table; `isles import` reads them
  isles convert data data-in-pages   copy a database to the other engine
  isles serve --path data            serve it to psql and other clients (cargo build --release -p isles-serve)";

const SERVE_EXAMPLES: &str = "Example:
  isles serve --path data

This starts the program isles-serve, which lies beside this one and has the same flags; isles-serve --help shows them. It is built on its
own: cargo build --release -p isles-serve";

/// An OLTP engine for hardware islands.
#[derive(Debug, Parser)]
#[command(name = "isles", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Draw a machine: sockets, memory nodes, caches, cores, distances and islands
    Topology(TopologyArguments),
    /// Measure this machine and describe it
    Probe(ProbeArguments),
    /// Run one workload in one configuration and report it
    Bench(Box<BenchArguments>),
    /// Run what a deployment file says on the instances that it describes
    Deploy(DeployArguments),
    /// Make certificates with which the processes of a deployment prove who they are, for a trial
    Certificates(CertificatesArguments),
    /// Look for schedules that break the engine: many seeds, judged by histories and invariants
    Verify(Box<VerifyArguments>),
    /// Run every finding of a study file and compare it with what was published
    Study(StudyArguments),
    /// Verify every checksum of a database on disk
    Check(CheckArguments),
    /// Show what a database on disk consists of
    Inspect(InspectArguments),
    /// Copy a database, which may be open
    Backup(BackupArguments),
    /// Make a database of a copy
    Restore(RestoreArguments),
    /// Insert the rows of a file into a table
    Import(ImportArguments),
    /// Write the rows of a table to a file
    Export(ExportArguments),
    /// Copy a database to the other engine: from memory to pages, or back
    Convert(ConvertArguments),
    /// Convert a database of an earlier format
    Upgrade(UpgradeArguments),
    /// Serve a database to clients of PostgreSQL: starts isles-serve, which is built on its own
    #[command(after_help = SERVE_EXAMPLES)]
    Serve {
        /// Flags of isles-serve
        #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// The second process of `isles bench ipc --processes 2`, which starts it.
    #[command(name = PEER_COMMAND, hide = true)]
    Peer {
        /// The task of the process.
        #[arg(default_value = "")]
        task: String,
    },
    /// The process of an instance, which `isles bench --deploy` starts.
    #[command(name = INSTANCE_COMMAND, hide = true)]
    Instance(Box<BenchArguments>),
    /// A command of a later version, or none at all.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}
