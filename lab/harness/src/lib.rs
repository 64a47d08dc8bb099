//! The driver of workloads: loads one on a deployment, warms it up, runs it, measures and checks
//! it.
//!
//! The command line, campaigns and tests describe a run with plain values and get plain values
//! back:
//!
//! - [`Deployment`]: instances, and where their workers and memory are;
//! - [`Workload`]: the list of workloads;
//! - [`Plan`]: scheme, execution, durability, length and seed of the run;
//! - [`Control`]: what hears how the run goes, and may end it;
//! - [`Measurement`]: what came of it.
//!
//! [`on_hardware`] and [`in_virtual_machine`] are no generic functions: what platform, scheme and
//! workload are at run time is chosen here, and the engine is compiled for each combination in this
//! crate alone. [`run_and_inspect`] is for tests of a workload's own.
//!
//! - `any`: the workloads of the list as one type;
//! - `executor`, `executors`, `owning`: how a procedure's phases and actions run;
//! - `owners`: what workers share that own partitions; `adapting`, `processors`, `shifting`: what
//!   moves partitions;
//! - `membership`: which deployment a durable instance belongs to; `loaded_with`: what its data
//!   are;
//! - `opening`, `transactions`, `worker`, `board`, `acknowledgements`: workloads of transactions,
//!   from the opening of the database to its end;
//! - `several`, `seats`: what workers of a deployment of several instances do besides; `waiting`,
//!   `batch`, `pace`: its transactions that wait, those that go as one, and how many are under way;
//! - `news`, `troubles`, `in_trouble`: links and instances that are lost and come back, in one
//!   process;
//! - `instances`: instances as processes;
//! - `counter`, `lock`, `experiments`: experiments without a database;
//! - `names`: names of values on the command line and in results;
//! - `counters`: what a platform counts of itself.

#![forbid(unsafe_code)]
// Results of workers are collected outside the machine on which they run, and temporary directories
// are of the host.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod acknowledgements;
mod adapting;
mod any;
mod batch;
mod board;
mod context;
mod control;
mod counter;
mod deployment;
mod error;
mod executor;
mod executors;
mod experiments;
mod failing;
mod host;
mod in_trouble;
mod instances;
mod loaded_with;
mod lock;
mod machine_use;
mod measurement;
mod membership;
mod memory_figures;
mod names;
mod news;
mod opening;
mod owners;
mod owning;
mod pace;
mod partitions;
mod plan;
mod preparation;
mod processes;
mod processors;
mod pulse;
mod retry;
mod run;
mod schedule;
mod seats;
mod several;
mod shifting;
mod summary;
mod transactions;
mod troubles;
mod upcoming;
mod waiting;
mod worker;
mod workload;

pub use adapting::Adaptation;
pub use control::{Control, Progress, Sample, Silence, never};
pub use deployment::{
    Deployment, DeploymentError, DeploymentRequest, Instance, Machines, MemoryPlacement, Partitioning,
    RunFile, Transport, WorkerPlace,
};
pub use distributed::{DataOwners, Rules, Undecided, directory, doubt};
pub use error::{OtherData, RunError};
pub use executor::{Execution, Executor, Made, MakeInline, Seat};
pub use executors::dynamic;
pub use failing::{Failure, FailureError};
pub use host::Host;
pub use instances::{
    InstanceProgram, Instances, join_deployment, on_processes, run_instance, run_instance_of,
    run_on_processes,
};
pub use machine::Peers;
pub use machine_use::{HotLine, MachineUse, PortKind, PortUse};
pub use measurement::{
    Breakdown, Check, Counters, Deployed, Kind, Latency, LogFigures, Measurement, Recovery, RoundTrip,
    Simulation, ThreadFigures, abort_ratio,
};
pub use memory_figures::MemoryFigures;
pub use names::{Choice, serialize_name};
pub use plan::{Durability, Engine, Length, Missing, Plan};
pub use processes::{OtherProcess, answer_messages};
pub use retry::{PAUSE_NANOS, PLACES, Retry};
pub use run::{in_virtual_machine, on_hardware, run_and_inspect};
pub use shifting::{Shift, Shifted};
pub use troubles::{Troubles, TroublesMet};
pub use workload::{CounterGroups, Workload};
