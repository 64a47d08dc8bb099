//! Flags of `counter`.

use harness::CounterGroups;
use serde::Serialize;

use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, Flag};
use crate::bad_input::BadInput;
use crate::errors::Failure;
use harness::{Choice, serialize_name};

/// Flags of `counter`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counter {
    /// Workers: always equal to the number of cores.
    pub threads: usize,
    /// How many counters.
    #[serde(serialize_with = "serialize_name")]
    pub counters: CounterGroups,
}

impl BenchWorkload for Counter {
    const HAS_DATABASE: bool = false;

    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        let counters = arguments.counter.counters.value_or(CounterGroups::All)?;
        Ok(Counter { threads: cores, counters })
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        RowCount { flag: "--threads", count: self.threads as u64, rows: 0.0, bytes: 0.0 }
    }

    fn describe(&self) -> String {
        format!("counters: {}", self.counters.name())
    }

    fn for_harness(&self, _: usize, _: Split) -> Result<harness::Workload, Failure> {
        Ok(harness::Workload::Counter(self.counters))
    }
}
