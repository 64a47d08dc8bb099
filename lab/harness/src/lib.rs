//! The harness of workloads: loads a workload on a deployment, warms it up, runs, measures and
//! checks it.
//!
//! The command line, campaigns and tests describe a run with plain values and get plain values
//! back:
//!
//! - [`Deployment`]: instances, and the places of their workers and memory;
//! - [`Workload`]: the list of workloads;
//! - [`Plan`]: scheme, execution, durability, length and seed of the run;
//! - [`Control`]: receives progress reports of the run, and may end it;
//! - [`Measurement`]: the result.
//!
//! [`on_hardware`] and [`in_virtual_machine`] are not generic: platform, scheme and workload are
//! chosen at run time, and this crate alone compiles the engine for each combination.
//! [`run_and_inspect`] is for tests with their own workloads.
//!
//! - `execution/`: executors of a procedure's phases and actions;
//! - `workloads/`: the list of workloads, as one type, and experiments without a database;
//! - `deployment/`: instances, the places of their workers and memory, deployment files;
//! - `workers/`: workers of a run, from the opening of the database to the end; `owned`: state
//!   shared by workers that own partitions;
//! - `owners/`: changes of the map of partitions during a run;
//! - `members/`: workers of a deployment of several instances: their links (`seats`, `news`), their
//!   transactions over several instances (`crossing`, `waiting`, `batch`, `pace`);
//! - `instances/`: instances as processes; `in_trouble`: instances of one process that are lost and
//!   come back;
//! - `faults/`: faults that a run injects; `measurement/`: the values of a result;
//! - `requests`: requests of clients that wait for the owners of their rows;
//! - `names`: names of values on the command line and in results;
//! - `run/`: the run of a workload of transactions, and the choice of the platform.

#![forbid(unsafe_code)]
// Results of workers are collected outside the machine on which they run, and temporary directories
// are of the host.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod context;
mod control;
mod deployment;
mod error;
mod execution;
mod faults;
mod host;
mod instances;
mod measurement;
mod members;
mod names;
mod owners;
mod plan;
mod requests;
mod retry;
mod run;
mod workers;
mod workloads;

pub use control::{Control, Progress, Sample, Silence, never};
pub use deployment::{
    Deployment, DeploymentError, DeploymentRequest, Instance, Machines, MemoryPlacement, Partitioning,
    RunFile, Transport, WorkerPlace,
};
pub use distributed::{DataOwners, Undecided, directory, doubt};
pub use error::{OtherData, RunError};
pub use execution::executor::{Execution, Executor, ExecutorArguments, ExecutorResult, MakeInline};
pub use execution::executors::dynamic;
pub use faults::failing::{Failure, FailureError};
pub use faults::troubles::{TroubleCounts, Troubles};
pub use host::Host;
pub use instances::{
    InstanceProgram, Instances, join_deployment, on_processes, run_instance, run_instance_of,
    run_on_processes,
};
pub use machine::Peers;
pub use measurement::machine_use::{HotLine, MachineUse, PortKind, PortUse};
pub use measurement::memory_figures::MemoryFigures;
pub use measurement::partition_events::{PartitionEvent, PartitionEventKind, Shifted};
pub use measurement::values::{
    Breakdown, Check, Counters, Deployed, Kind, Latency, LogFigures, Measurement, Recovery, RequestFigures,
    RoundTrip, Simulation, ThreadFigures, abort_ratio,
};
pub use names::{Choice, serialize_name};
pub use owners::adaptation::Adaptation;
pub use owners::shifting::Shift;
pub use plan::{Clients, CommitProtocol, Durability, Engine, Length, Missing, Plan};
pub use repartitioning::BorderAction;
pub use retry::{PAUSE_NANOS, PLACES, Retry};
pub use run::platforms::{in_virtual_machine, on_hardware, run_and_inspect};
pub use workers::schedule::BINS as BINS_MAX;
pub use workloads::processes::{OtherProcess, answer_messages};
pub use workloads::workload::{CounterGroups, Workload};
