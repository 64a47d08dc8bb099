//! Flags of `dependent`.

use harness::{Choice, Execution};
use serde::{Serialize, Serializer};
use workloads::dependent::TablePlacement;

use super::limits::partitions;
use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{AnyFlag, BenchArguments, Flag, TextFlag, refuse};
use crate::bad_input::BadInput;
use crate::choices::{PartitionPlacement, WorkloadName};
use crate::config::asked::{Asked, Change};
use crate::config::sharing::Sharing;
use crate::errors::Failure;
use crate::numbers::thousands;

/// Most rows of a site.
const ROWS_MAX: u64 = 1 << 31;
/// Bytes of a row.
const ROW_BYTES: f64 = 80.0;

/// Flags of `dependent`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dependent {
    /// Rows of each site in each table; there is one site per worker.
    pub rows_per_site: u64,
    /// Share of transactions that may be of any site.
    pub multisite: f64,
    /// Partitions of each table, if workers own them.
    pub partitions: Option<Partitions>,
    /// True if each partition has a worker of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partition_threads: bool,
    /// Their owners, if they are fewer than the workers.
    pub partition_placement: Option<PartitionPlacement>,
}

/// Partitions of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One for every worker.
    Naive,
    /// This many, one a worker.
    Count(u16),
}

impl Serialize for Partitions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Partitions::Naive => to.serialize_str("naive"),
            Partitions::Count(count) => to.serialize_u16(*count),
        }
    }
}

impl Partitions {
    /// Those of the flag, for this many workers.
    fn parse(text: Option<&str>, workers: usize) -> Result<Self, BadInput> {
        let Some(text) = text.filter(|text| *text != "naive") else { return Ok(Partitions::Naive) };
        let most = workers / 2;
        let refused = |problem: &str| {
            Err(BadInput::value("--partitions", text, problem, format!("naive, 1 to {most}")))
        };
        match text.parse::<u16>() {
            Ok(count) if (1..=most).contains(&usize::from(count)) => Ok(Partitions::Count(count)),
            Ok(0) | Err(_) => refused("no number of partitions"),
            Ok(_) => refused(&format!("each of both tables has as many, one a worker, of {workers}")),
        }
    }
}

impl Dependent {
    /// The number of sites: two workers have one if each is that of one table.
    fn sites(&self, workers: usize) -> usize {
        let halves = self.placement() == TablePlacement::EveryThread;
        if halves { workers / 2 } else { workers }
    }

    /// The owners of partitions.
    fn placement(&self) -> TablePlacement {
        match (self.partitions, self.partition_placement) {
            (Some(Partitions::Count(count)), Some(PartitionPlacement::Model)) => {
                TablePlacement::Together(count)
            }
            (Some(Partitions::Count(count)), _) => TablePlacement::Oblivious(count),
            _ if self.partition_threads => TablePlacement::EveryThread,
            _ => TablePlacement::EveryWorker,
        }
    }
}

impl BenchWorkload for Dependent {
    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        let rows = arguments.row.rows_per_site.whole(1..=ROWS_MAX)?;
        let multisite = arguments.row.multisite.value_or(0.0)?;
        let flags = &arguments.row;
        let by_hand: [&dyn AnyFlag; 2] = [&flags.partitions, &flags.partition_placement];
        let (mut partitions, mut partition_placement) = (None, None);
        if arguments.common.execution.value_or(Execution::Inline)? == Execution::Inline {
            refuse(&by_hand, "workers own no partitions", "with --execution plp or atrapos")?;
        } else {
            partitions = Some(Partitions::parse(flags.partitions.text(), cores)?);
            match partitions {
                Some(Partitions::Count(_)) => {
                    let placement = flags.partition_placement.value_or(PartitionPlacement::Oblivious)?;
                    partition_placement = Some(placement);
                }
                _ => refuse(&by_hand[1..], "every worker has one of each table", "with --partitions N")?,
            }
        }
        let rows_per_site = rows.unwrap_or(10_000);
        let execution = arguments.common.execution.value_or(Execution::Inline)?;
        let Sharing { partition_threads, .. } = Sharing::of(arguments, WorkloadName::Dependent, execution)?;
        Ok(Dependent { rows_per_site, multisite, partitions, partition_threads, partition_placement })
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        let rows = 2.0 * self.rows_per_site as f64 * self.sites(cores) as f64;
        RowCount { flag: "--rows-per-site", count: self.rows_per_site, rows, bytes: rows * ROW_BYTES }
    }

    fn describe(&self) -> String {
        let text = format!("{} rows a site in each of two tables", thousands(self.rows_per_site));
        let text = match (self.partitions, self.partition_placement) {
            (Some(Partitions::Count(count)), Some(placement)) => {
                format!("{text}, {count} partitions of each, {}", placement.name())
            }
            _ => text,
        };
        if self.multisite == 0.0 { text } else { format!("{text}, multisite {}", self.multisite) }
    }

    /// One site a worker.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let rows_per_site = u32::try_from(self.rows_per_site)
            .map_err(|_| Failure::Failed(format!("--rows-per-site: at most {ROWS_MAX}")))?;
        let (sites, multisite) = (partitions(self.sites(workers))?, self.multisite);
        let workload = workloads::dependent::Dependent {
            sites,
            rows_per_site,
            multisite,
            divided: matches!(split, Split::Instances(_)),
            placement: (split == Split::Workers).then_some(self.placement()),
        };
        workload.validate().map_err(Failure::Failed)?;
        Ok(harness::Workload::Dependent(workload))
    }

    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        match asked.change {
            Change::Multisite(multisite) => Ok(Dependent { multisite, ..self.clone() }),
            Change::Mix(_) | Change::Hot(_) => Err(asked.refused("multisite=F")),
        }
    }
}
