//! Flags of `tpcc`.

use harness::{Partitioning, serialize_name};
use serde::Serialize;
use storage::Optimisation;
use workloads::tpcc::{FullOrSmall, HotRows, Mix, RemoteWarehouses, Stocks};

use super::terms::{BenchWorkload, RowCount, Split, other_instances};
use crate::arguments::{BenchArguments, Flag, TextFlag, WAREHOUSES_MAX};
use crate::bad_input::BadInput;
use crate::choices::{RemoteChoice, RemoteRows, Switch};
use crate::config::asked::{Asked, Change};
use crate::config::like::Ways;
use crate::errors::Failure;

/// Smallest TPC-C: a district keeps three customers, the catalogue a hundred items.
const SCALE_MIN: f64 = 0.001;
/// Largest TPC-C.
const SCALE_MAX: f64 = 100.0;

/// Bytes of the rows of one warehouse at scale 1 by the specification's typical row lengths (clause
/// 4.2.2).
const WAREHOUSE_BYTES: f64 = 68_000_000.0;
/// Rows of one warehouse at scale 1, roughly: nearly all are order lines, stocks, and customers
/// with their orders and histories.
const WAREHOUSE_ROWS: f64 = 500_000.0;
/// Bytes of a copy of TPC-C's items and their index at scale 1, measured.
const ITEM_BYTES: f64 = 20e6;

/// Flags of `tpcc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tpcc {
    /// Warehouses, at most 65,535.
    pub warehouses: u32,
    /// Which transactions.
    #[serde(serialize_with = "serialize_name")]
    pub mix: Mix,
    /// True if something changes while it runs.
    #[serde(skip)]
    pub changes: bool,
    /// Percent of payments by customers of another warehouse.
    #[serde(rename = "remote_payment")]
    pub remote_payment_percent: f64,
    /// Percent of order lines supplied by another warehouse.
    #[serde(rename = "remote_items")]
    pub remote_items_percent: f64,
    /// The instances of remote warehouses.
    pub remote_rows: RemoteRows,
    /// The remote warehouses of a worker.
    pub remote_choice: RemoteChoice,
    /// These warehouses, where the machine is known and not all are drawn.
    #[serde(skip)]
    pub remote_warehouses: Option<RemoteWarehouses>,
    /// Columns.
    #[serde(serialize_with = "serialize_name")]
    pub schema: FullOrSmall,
    /// Cardinalities per warehouse relative to the specification.
    pub scale: f64,
    /// On if transactions insert rows.
    pub inserts: Switch,
    /// Where warehouses live.
    #[serde(serialize_with = "serialize_name")]
    pub load: Partitioning,
    /// When hot rows are taken.
    #[serde(serialize_with = "serialize_name")]
    pub hot_rows: HotRows,
    /// The order in which NewOrder takes stocks.
    #[serde(serialize_with = "serialize_name")]
    pub stocks: Stocks,
    /// On if inserted rows enter indexes.
    pub index_inserts: Switch,
    /// On if NewOrder reads warehouse and customer without concurrency control, whatever else runs.
    pub unvalidated_reads: Switch,
}

/// True if no transaction looks for inserted rows.
fn finds_none(mix: Mix) -> bool {
    matches!(mix, Mix::Narrow | Mix::Payment | Mix::NewOrder)
}

/// Resolves `--index-inserts`: inserted rows enter indexes for mixes that read them.
fn index_inserts(arguments: &BenchArguments, mix: Mix, default: Switch) -> Result<Switch, BadInput> {
    let default = if finds_none(mix) { default } else { Switch::On };
    let chosen = arguments.tpcc.index_inserts.value_or(default)?;
    if chosen == Switch::Off && !finds_none(mix) {
        return Err(BadInput::new(
            format!("--index-inserts off with --mix {}", mix.name()),
            "these transactions look for inserted rows",
            "--mix narrow, payment or new-order",
        ));
    }
    Ok(chosen)
}

/// Resolves `--remote-rows`: blocks of warehouses do not follow the numbers of their workers.
fn remote_rows(arguments: &BenchArguments, load: Partitioning) -> Result<RemoteRows, BadInput> {
    let load = arguments.tpcc.load.value_or(load)?;
    match arguments.row.remote_rows.value_or(RemoteRows::Any)? {
        RemoteRows::OtherInstance if load == Partitioning::Blocks => {
            let problem = "warehouses are loaded in blocks";
            Err(BadInput::value("--remote-rows", "other-instance", problem, "any, or --load home"))
        }
        rows => Ok(rows),
    }
}

/// Resolves `--unvalidated-reads`: the published program has them as part of an optimisation.
fn unvalidated_reads(arguments: &BenchArguments, default: Switch) -> Result<Switch, BadInput> {
    let without = arguments.common.without.value()?.unwrap_or_default();
    let default = if without.contains(&Optimisation::ReadOnlySkip) { Switch::Off } else { default };
    arguments.tpcc.unvalidated_reads.value_or(default)
}

impl BenchWorkload for Tpcc {
    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        let flags = &arguments.tpcc;
        let warehouses = flags.warehouses.value_or((cores as u64).min(WAREHOUSES_MAX))?;
        let ways = Ways::of(arguments.common.like.value()?);
        let mix = flags.mix.choose(Mix::Full)?;
        Ok(Tpcc {
            warehouses: u32::try_from(warehouses).expect("within WAREHOUSES_MAX"),
            mix,
            changes: !arguments.common.at.is_empty(),
            remote_payment_percent: flags.remote_payment.value_or(15.0)?,
            remote_items_percent: flags.remote_items.value_or(1.0)?,
            remote_rows: remote_rows(arguments, ways.load)?,
            remote_choice: flags.remote_choice.value_or(RemoteChoice::Any)?,
            remote_warehouses: None,
            schema: flags.schema.value_or(FullOrSmall::Full)?,
            scale: flags.scale.number(SCALE_MIN..=SCALE_MAX)?.unwrap_or(1.0),
            inserts: flags.inserts.value_or(Switch::On)?,
            load: flags.load.value_or(ways.load)?,
            hot_rows: flags.hot_rows.value_or(ways.hot_rows)?,
            stocks: flags.stocks.value_or(ways.stocks)?,
            index_inserts: index_inserts(arguments, mix, ways.index_inserts)?,
            unvalidated_reads: unvalidated_reads(arguments, ways.unvalidated_reads)?,
        })
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        let warehouses = u64::from(self.warehouses);
        // The small schema keeps about a third of the bytes.
        let share = if self.schema == FullOrSmall::Small { 0.3 } else { 1.0 };
        let bytes = warehouses as f64 * WAREHOUSE_BYTES * self.scale * share;
        let rows = warehouses as f64 * WAREHOUSE_ROWS * self.scale;
        RowCount { flag: "--warehouses", count: warehouses, rows, bytes }
    }

    fn describe(&self) -> String {
        let warehouses = if self.warehouses == 1 { "warehouse" } else { "warehouses" };
        let text = format!("{} {warehouses}, {} mix", self.warehouses, self.mix.name());
        if self.scale == 1.0 { text } else { format!("{text}, scale {}", self.scale) }
    }

    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let warehouses = u16::try_from(self.warehouses)
            .map_err(|_| Failure::Failed("--warehouses: at most 65535".to_owned()))?;
        let workload = workloads::tpcc::Tpcc {
            mix: self.mix,
            mix_changes: self.changes,
            schema: self.schema,
            scale: self.scale,
            remote_payment_percent: self.remote_payment_percent,
            remote_items_percent: self.remote_items_percent,
            other_instances: other_instances(self.remote_rows, workers, split),
            remote_warehouses: self.remote_warehouses.clone(),
            inserts: self.inserts == Switch::On,
            ways: workloads::tpcc::Ways {
                hot_rows: self.hot_rows,
                stocks: self.stocks,
                index_inserts: self.index_inserts == Switch::On,
                unvalidated_reads: self.unvalidated_reads == Switch::On,
            },
            ..workloads::tpcc::Tpcc::new(warehouses)
        };
        workload.validate().map_err(Failure::Failed)?;
        Ok(harness::Workload::Tpcc(workload))
    }

    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        let Change::Mix(name) = asked.change else { return Err(asked.refused("mix=NAME")) };
        let mix = asked.mix(name)?;
        match self.index_inserts {
            Switch::Off if !finds_none(mix) => {
                Err(asked.refused("mix=narrow, payment or new-order, or --index-inserts on"))
            }
            _ => Ok(Tpcc { mix, ..self.clone() }),
        }
    }

    fn parts_of_other_instances(&self, _: usize) -> Option<(&'static str, usize)> {
        (self.remote_rows == RemoteRows::OtherInstance).then_some(("--warehouses", self.warehouses as usize))
    }

    fn read_only_bytes(&self) -> f64 {
        // The small schema has a tenth of the items.
        let share = if self.schema == FullOrSmall::Small { 0.1 } else { 1.0 };
        ITEM_BYTES * self.scale * share
    }

    fn scale(&self) -> Option<f64> {
        Some(self.scale)
    }

    fn grows(&self) -> bool {
        self.inserts == Switch::On
    }

    fn partitioning(&self) -> Partitioning {
        self.load
    }
}
