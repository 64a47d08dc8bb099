//! The flags of each workload: a file a workload, and an entry in the list of `choices`.

mod counter;
mod dependent;
mod ipc;
mod limits;
mod lock;
mod memory;
mod micro;
mod tatp;
mod terms;
mod tpcb;
mod tpcc;
mod ycsb;

use harness::{Partitioning, Peers};
use serde::Serialize;

use crate::arguments::BenchArguments;
use crate::bad_input::BadInput;
use crate::choices::{WorkloadName, for_each_workload};
use crate::config::asked::Asked;
use crate::errors::Failure;

pub use counter::Counter;
pub use dependent::Dependent;
pub use ipc::Ipc;
pub use lock::Lock;
pub use memory::Memory;
pub use micro::Micro;
pub use tatp::Tatp;
pub use terms::{BenchWorkload, PAGE_BYTES_PER_BYTE, RowCount, Split};
pub use tpcb::Tpcb;
pub use tpcc::Tpcc;
pub use ycsb::Ycsb;

macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident = $text:literal,)+) => {
        /// A workload with its flags.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "workload")]
        pub enum Workload {
            $($(#[$doc])* #[serde(rename = $text)] $workload($workload),)+
        }

        impl Workload {
            /// Resolves the flags of the workload `name` with `cores` workers.
            ///
            /// # Errors
            /// The first fault.
            pub fn resolve(
                name: WorkloadName,
                arguments: &BenchArguments,
                cores: usize,
            ) -> Result<Self, BadInput> {
                match name {
                    $(WorkloadName::$workload => {
                        $workload::resolve(arguments, cores).map(Workload::$workload)
                    })+
                }
            }

            /// True if the workload `name` runs transactions in a database.
            pub fn has_database(name: WorkloadName) -> bool {
                match name {
                    $(WorkloadName::$workload => $workload::HAS_DATABASE,)+
                }
            }

            /// Which workload it is.
            pub fn name(&self) -> WorkloadName {
                match self {
                    $(Workload::$workload(_) => WorkloadName::$workload,)+
                }
            }

            /// The name of what the workload counts: [`BenchWorkload::COUNTS`].
            pub fn counts(&self) -> &'static str {
                match self {
                    $(Workload::$workload(_) => $workload::COUNTS,)+
                }
            }

            /// [`BenchWorkload::rows_loaded`].
            pub fn rows_loaded(&self, cores: usize) -> RowCount {
                match self {
                    $(Workload::$workload(workload) => workload.rows_loaded(cores),)+
                }
            }

            /// [`BenchWorkload::describe`].
            pub fn describe(&self) -> String {
                match self {
                    $(Workload::$workload(workload) => workload.describe(),)+
                }
            }

            /// [`BenchWorkload::parts_of_other_instances`].
            pub fn parts_of_other_instances(&self, workers: usize) -> Option<(&'static str, usize)> {
                match self {
                    $(Workload::$workload(workload) => workload.parts_of_other_instances(workers),)+
                }
            }

            /// [`BenchWorkload::for_harness`].
            ///
            /// # Errors
            /// The flags do not fit the engine.
            pub fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
                match self {
                    $(Workload::$workload(workload) => workload.for_harness(workers, split),)+
                }
            }

            /// [`BenchWorkload::changed`].
            ///
            /// # Errors
            /// It does not change in this way.
            pub fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
                match self {
                    $(Workload::$workload(workload) => workload.changed(asked).map(Workload::$workload),)+
                }
            }

            /// [`BenchWorkload::read_only_bytes`].
            pub fn read_only_bytes(&self) -> f64 {
                match self {
                    $(Workload::$workload(workload) => workload.read_only_bytes(),)+
                }
            }

            /// [`BenchWorkload::grows`].
            pub fn grows(&self) -> bool {
                match self {
                    $(Workload::$workload(workload) => workload.grows(),)+
                }
            }

            /// [`BenchWorkload::undivided`].
            pub fn undivided(&self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(Workload::$workload(workload) => workload.undivided(),)+
                }
            }

            /// [`BenchWorkload::scale`].
            pub fn scale(&self) -> Option<f64> {
                match self {
                    $(Workload::$workload(workload) => workload.scale(),)+
                }
            }

            /// [`BenchWorkload::peers`].
            pub fn peers(&self) -> Option<Peers> {
                match self {
                    $(Workload::$workload(workload) => workload.peers(),)+
                }
            }

            /// [`BenchWorkload::partitioning`].
            pub fn partitioning(&self) -> Partitioning {
                match self {
                    $(Workload::$workload(workload) => workload.partitioning(),)+
                }
            }
        }
    };
}

for_each_workload!(workloads);
