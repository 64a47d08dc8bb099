//! Flags of `tatp`.

use harness::Partitioning;
use serde::Serialize;
use workloads::tatp::Mix;

use super::limits::{PARTS_EACH, partitions};
use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, Flag, TextFlag};
use crate::bad_input::BadInput;
use crate::config::asked::{Asked, Change};
use crate::errors::Failure;
use crate::hot::Hot;
use crate::numbers::thousands;
use harness::{Choice, serialize_name};

/// Most subscribers.
const SUBSCRIBERS_MAX: u64 = 4_000_000_000;
/// Subscribers of the benchmark's own smallest population.
const SUBSCRIBERS: u64 = 100_000;
/// Rows of a subscriber on the average, itself included.
const SUBSCRIBER_ROWS: f64 = 1.0 + 2.5 + 2.5 + 3.75;
/// Bytes of the bare rows of a subscriber: one of 64 bytes, and as many others on the average as
/// `workloads::tatp` says.
const SUBSCRIBER_BYTES: f64 = 64.0 + 2.5 * 24.0 + 2.5 * 20.0 + 3.75 * 28.0;

/// Flags of `tatp`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tatp {
    /// Subscribers.
    pub subscribers: u64,
    /// Which transactions.
    #[serde(serialize_with = "serialize_name")]
    pub mix: Mix,
    /// Share of transactions whose subscriber may be any.
    pub multisite: f64,
    /// Hot spot, if any.
    pub hot: Option<Hot>,
}

impl BenchWorkload for Tatp {
    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        // Each worker has a range of its own.
        let least = cores as u64;
        let subscribers = arguments.tatp.subscribers.whole(least..=SUBSCRIBERS_MAX)?;
        Ok(Tatp {
            subscribers: subscribers.unwrap_or(SUBSCRIBERS.max(least)),
            mix: arguments.tpcc.mix.choose(Mix::Full)?,
            multisite: arguments.row.multisite.value_or(0.0)?,
            hot: arguments.row.hot.value()?,
        })
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        let (count, all) = (self.subscribers, self.subscribers as f64);
        RowCount { flag: "--subscribers", count, rows: all * SUBSCRIBER_ROWS, bytes: all * SUBSCRIBER_BYTES }
    }

    fn describe(&self) -> String {
        let mut text = format!("{} subscribers, {} mix", thousands(self.subscribers), self.mix.name());
        if self.multisite > 0.0 {
            text += &format!(", multisite {}", self.multisite);
        }
        if let Some(hot) = self.hot {
            text += &format!(", hot {}:{}", hot.requests, hot.data);
        }
        text
    }

    /// One range of subscribers a worker; where workers own them, several that can be moved.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let subscribers = u32::try_from(self.subscribers)
            .map_err(|_| Failure::Failed(format!("--subscribers: at most {SUBSCRIBERS_MAX}")))?;
        let each = match split {
            Split::Workers => PARTS_EACH.min(self.subscribers / workers.max(1) as u64).max(1) as usize,
            Split::Whole | Split::Instances(_) => 1,
        };
        let hot = self.hot.map(|Hot { requests, data }| workloads::tatp::Hot { requests, data });
        let workload = workloads::tatp::Tatp {
            mix: self.mix,
            multisite: self.multisite,
            hot,
            divided: matches!(split, Split::Instances(_)),
            parts_each: each as u16,
            ..workloads::tatp::Tatp::new(subscribers, partitions(workers * each)?)
        };
        workload.validate().map_err(Failure::Failed)?;
        Ok(harness::Workload::Tatp(workload))
    }

    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        Ok(match asked.change {
            Change::Mix(name) => Tatp { mix: asked.mix(name)?, ..self.clone() },
            Change::Hot(hot) => Tatp { hot: Some(hot), ..self.clone() },
            Change::Multisite(multisite) => Tatp { multisite, ..self.clone() },
        })
    }

    /// The ranges of a worker follow each other.
    fn partitioning(&self) -> Partitioning {
        Partitioning::Blocks
    }

    fn grows(&self) -> bool {
        true
    }
}
