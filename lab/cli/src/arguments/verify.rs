//! The flags of `isles verify` as typed.

use clap::Args;

use super::given::{Given, text, whole};

/// Most seeds of a campaign.
const SEEDS_MAX: u64 = 1_000_000_000_000;
/// Most runs at the same time.
const JOBS_MAX: u64 = 1_024;

const EXAMPLES: &str = "Examples:
  isles verify                                        every scheme, 1000 seeds each
  isles verify --cc silo --seeds 100000               many schedules of one scheme
  isles verify --workload bank --cc no-wait           over two databases
  isles verify --workload tpcc --cores 64 --seeds 2   64 simulated cores
  isles verify --machine native --seeds 50            on this machine's threads
  isles verify --workload all --json > result.json

In a virtual machine a seed fixes transactions and schedule: it perturbs costs and ties.
A failing seed prints the command that repeats it and the last events of each core.
Ctrl-C ends a campaign early with a report of what ran; a second Ctrl-C exits at once.
Exit status: 0 all fine, 1 a violation, 2 bad input.";

/// Flags of `isles verify`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArguments {
    /// Concurrency control: the name of a scheme, or all [default: all]
    #[arg(long, visible_alias = "scheme", value_name = "NAME")]
    pub cc: Option<String>,
    /// histories (random transactions, checked for serializability), bank (transfers over two
    /// databases), tpcc, micro, ycsb, islands and distributed (several instances), owners (of
    /// partitions), on a simulated disk, so not with --machine native, crashes (of a durable
    /// database), files (of one, damaged) and refusals (of the system, beside one); or all
    /// [default: histories]
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Seeds of each scheme and workload [default: 1000]
    #[arg(long, value_name = "N", value_parser = whole(1..=SEEDS_MAX))]
    pub seeds: Option<Given<u64>>,
    /// The first of them [default: 0]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX - SEEDS_MAX))]
    pub first_seed: Option<Given<u64>>,
    /// virtual (a small machine of two sockets), the name of a simulated machine that ships with
    /// Isles, or native [default: virtual]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Workers of each run [default: 3 to 5, by seed and workload]
    #[arg(long, value_name = "N", value_parser = text())]
    pub cores: Option<Given<String>>,
    /// Runs at the same time, each on one processor of this machine; native: 1 [default: all
    /// processors]
    #[arg(long, value_name = "N", value_parser = whole(1..=JOBS_MAX))]
    pub jobs: Option<Given<u64>>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
