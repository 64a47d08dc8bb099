//! Arguments of `isles deploy`.

use clap::Args;

use super::given::{Given, text};

const EXAMPLES: &str = "Examples:
  isles deploy two.toml                two instances on this machine, and what the file says runs on them
  isles deploy far.toml                the command of instances on several machines, ...
  isles deploy far.toml --instance 1   ... and one of them, on its machine

A durable deployment whose instances ended goes on from their directories when it is started again as before.

The file, field by field: docs/deployments.md. Machines prove who they are with certificates; for a trial isles certificates makes them.
Exit status: 0 done, 1 the run failed or a consistency check is violated, 2 bad input.";

/// Flags of `isles deploy`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeployArguments {
    /// A deployment, and what runs on it
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Be this instance, of a deployment on several machines [default: the command, which runs all
    /// of them]
    #[arg(long, value_name = "N", value_parser = text())]
    pub instance: Option<Given<String>>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
