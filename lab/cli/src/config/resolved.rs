//! The resolved configuration as a value.

use harness::{DeploymentRequest, Plan};
use serde::Serialize;

use super::changes::At;
use super::workloads::{Split, Workload};
use crate::choices::{Adaptive, ConcurrencyControl, DiskKind, Like, LogDisk, PageSize, Switch};
use crate::errors::Failure;
use crate::machine_facts::NATIVE;

/// A benchmark's configuration. Serialises as the `config` of the result, with the names of the
/// flags (`-` as `_`).
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// The workload with its flags, which stand beside the others in the result. The flag
    /// `--workload` of YCSB is `ycsb_workload` there, because `workload` is the workload itself.
    #[serde(flatten)]
    pub workload: Workload,
    /// `native`, or the name of a simulated machine.
    pub machine: String,
    /// Workers and instances, and where they are.
    #[serde(flatten)]
    pub deployment: DeploymentRequest,
    /// `on` if the simulated machine's caches shrink with the data.
    pub scale_caches: Switch,
    /// Pages of large regions.
    pub pages: PageSize,
    /// Concurrency control.
    #[serde(serialize_with = "harness::serialize_name")]
    pub cc: ConcurrencyControl,
    /// If partitions follow the workload, or are monitored; `None` where workers own none that
    /// could.
    pub adaptive: Option<Adaptive>,
    /// The simulated device below the log; `None` where nothing is logged, or on hardware.
    pub disk: Option<DiskKind>,
    /// The simulated device of the log alone; `None` where log and data share one.
    pub log_disk: Option<LogDisk>,
    /// The number by which time slices are divided.
    pub slice_divisor: u64,
    /// The program whose ways are the defaults of the flags that differ from program to program.
    pub like: Option<Like>,
    /// Changes of the workload during the run, in the order of their moments.
    pub at: Vec<At>,
    /// The plan of each instance.
    #[serde(flatten)]
    pub plan: Plan,
    /// Number of runs, of which each has the seed after that of the one before.
    pub repeat: u64,
    /// Parts of the timeline.
    pub bins: usize,
    /// True if the result is one JSON object. No property of the run, so not in the result.
    #[serde(skip)]
    pub json: bool,
    /// The file of a page with plots, if one is to be written. Not in the result either.
    #[serde(skip)]
    pub report: Option<String>,
}

impl Config {
    /// True if the run happens on this machine's own hardware.
    pub fn native(&self) -> bool {
        self.machine == NATIVE
    }

    /// The workload with its changes, as the harness runs it.
    ///
    /// # Errors
    /// The flags do not fit the engine.
    pub fn harness_workload(&self) -> Result<harness::Workload, Failure> {
        let split = match (self.deployment.instances, self.plan.execution.sharing()) {
            (1, None) => Split::Whole,
            (1, Some(_)) => Split::Workers,
            (instances, _) => Split::Instances(instances),
        };
        let for_harness = |workload: &Workload| workload.for_harness(self.deployment.all_workers(), split);
        let first = for_harness(&self.workload)?;
        let changes = self.at.iter().filter(|at| at.fails.is_none() && at.shifts.is_none());
        let later = changes.map(|at| Ok((at.seconds, for_harness(&at.workload)?)));
        let later = later.collect::<Result<Vec<_>, Failure>>()?;
        if later.is_empty() {
            return Ok(first);
        }
        harness::Workload::changing(first, later).map_err(Failure::of)
    }
}
