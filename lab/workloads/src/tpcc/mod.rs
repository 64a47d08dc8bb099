//! TPC-C, the Transaction Processing Performance Council's order-entry benchmark: "TPC Benchmark C
//! Standard Specification", revision 5.11. Comments name its clauses.
//!
//! - [`rows`], [`tables`]: the nine tables and the catalog;
//! - [`values`]: the random distributions;
//! - `load`: the initial population;
//! - [`new_order`] (and [`supply`]), [`payment`], [`order_status`], [`delivery`], [`stock_level`]:
//!   the transactions;
//! - [`procedure`]: the five as one procedure;
//! - [`RemoteWarehouses`]: the choice of remote warehouses by their distance;
//! - [`Ways`]: variants of the transactions, for comparisons;
//! - `check`: the consistency conditions.
//!
//! Deviations from the standard: terminals have no keying and thinking times; a worker plays all
//! terminals of its home warehouse; Delivery runs immediately and is not queued; history has a
//! synthetic key; cardinalities can be scaled.

mod check;
mod customers;
pub mod delivery;
mod load;
mod names;
pub mod new_order;
pub mod order_status;
pub mod payment;
pub mod procedure;
mod remote;
pub mod rows;
mod spec;
pub mod stock_level;
pub mod supply;
pub mod tables;
pub mod values;
mod ways;
mod written;

use schema::{Inspector, Loader, Schema};
use terms::Abort;

pub use check::CONDITIONS;
pub use customers::Selection;
pub use names::UnknownName;
pub use procedure::{Action, Output, Transaction};
pub use remote::RemoteWarehouses;
pub use spec::{DISTRICTS, FullOrSmall, LINES_MAX, LINES_MEAN, Mix, Sizes, Tpcc};
pub use tables::Tables;
pub use ways::{HotRows, Stocks, Ways};

use crate::workload::{Check, LoadedWith, Workload};
use terms::random::Random;

/// Kinds of transactions, in the order of [`Mix::shares`].
pub const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

impl Workload for Tpcc {
    type Procedure = Transaction;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        tables::create(
            self.warehouses,
            self.sizes(),
            procedure::written(if self.mix_changes { Mix::Full } else { self.mix }),
            schema,
        )
    }

    fn loaded_with(&self) -> LoadedWith {
        let schema = match self.schema {
            FullOrSmall::Full => "full",
            FullOrSmall::Small => "small",
        };
        LoadedWith::new(
            "tpcc",
            [
                ("--warehouses", self.warehouses.to_string()),
                ("--scale", self.scale.to_string()),
                ("--schema", schema.to_owned()),
            ],
        )
    }

    fn parts(&self) -> usize {
        usize::from(self.warehouses)
    }

    fn rows(&self, part: usize) -> u64 {
        load::rows(self.sizes(), part)
    }

    fn load(
        &self,
        tables: &Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        load::load(self.sizes(), tables, part, random, loader)
    }

    fn load_shared(
        &self,
        tables: &Tables,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        load::load_items(self.sizes(), tables, random, loader)
    }

    fn shared_part(&self) -> Option<usize> {
        Some(0)
    }

    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> Transaction {
        // A date of 0 is null.
        let now = now_nanos.max(1);
        match self.mix.draw(random) {
            0 => Transaction::NewOrder(new_order::NewOrder::generate(self, worker, random, now)),
            1 => Transaction::Payment(payment::Payment::generate(self, worker, random, now)),
            2 => Transaction::OrderStatus(order_status::OrderStatus::generate(self, worker, random)),
            3 => Transaction::Delivery(delivery::Delivery::generate(self, worker, random, now)),
            _ => Transaction::StockLevel(stock_level::StockLevel::generate(self, worker, random)),
        }
    }

    #[inline]
    fn begin(&self, _: usize, procedure: &mut Transaction, now_nanos: u64) {
        procedure.begin(now_nanos.max(1));
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn kind(procedure: &Transaction) -> usize {
        match procedure {
            Transaction::NewOrder(_) => 0,
            Transaction::Payment(_) => 1,
            Transaction::OrderStatus(_) => 2,
            Transaction::Delivery(_) => 3,
            Transaction::StockLevel(_) => 4,
        }
    }

    fn code_lines(procedure: &Transaction) -> u16 {
        match procedure {
            Transaction::NewOrder(_) => 263,
            Transaction::Payment(_) => 141,
            Transaction::OrderStatus(_) => 87,
            Transaction::Delivery(_) => 50,
            Transaction::StockLevel(_) => 55,
        }
    }

    fn check(&self, tables: &Tables, inspector: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        check::check(self, tables, inspector)
    }
}
