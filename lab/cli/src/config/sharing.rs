//! Workers that share hardware threads: as many as are asked for, or one for each partition.

use harness::Execution;

use crate::arguments::{BenchArguments, Flag, TextFlag, refuse};
use crate::bad_input::BadInput;
use crate::choices::{Like, Switch, WorkloadName};

/// Tables of `dependent`, whose actions touch one table each.
const TABLES: usize = 2;

/// Workers and their hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) struct Sharing {
    /// Workers of each hardware thread.
    pub(in crate::config) per_thread: usize,
    /// True if each partition has a worker of its own, which sleeps while it has nothing to do.
    pub(in crate::config) partition_threads: bool,
}

impl Sharing {
    /// Resolves `--workers-per-thread` and `--partition-threads`.
    pub(in crate::config) fn of(
        arguments: &BenchArguments,
        workload: WorkloadName,
        execution: Execution,
    ) -> Result<Self, BadInput> {
        let common = &arguments.common;
        let owns = execution != Execution::Inline;
        let flag = &common.partition_threads;
        let can = owns && workload == WorkloadName::Dependent;
        if !can && flag.value()? == Some(Switch::On) {
            let problem = match owns {
                true => "its actions touch several tables, whose partitions have one worker",
                false => "workers own no partitions",
            };
            refuse(&[flag], problem, "with dependent --execution plp or atrapos")?;
        }
        let is_like = can && common.like.value()? == Some(Like::ShoreMt);
        let default = if is_like { Switch::On } else { Switch::Off };
        let partition_threads = flag.value_or(default)? == Switch::On;
        // Partitions of a given number have one worker each anyway.
        let is_naive = arguments.row.partitions.text().is_none_or(|text| text == "naive");
        let tables = partition_threads && is_naive;
        let default = if tables { TABLES as u64 } else { 1 };
        let per_thread = common.workers_per_thread.value_or(default)?;
        if workload == WorkloadName::Ipc && per_thread > 1 {
            let problem = "messages go between two peers";
            refuse(&[&common.workers_per_thread], problem, "1, or another workload")?;
        }
        if tables && per_thread != default {
            let problem = "each of two partitions on a hardware thread has a worker";
            let text = per_thread.to_string();
            return Err(BadInput::value(
                "--workers-per-thread",
                &text,
                problem,
                "2, or --partition-threads off",
            ));
        }
        Ok(Sharing { per_thread: per_thread as usize, partition_threads })
    }
}
