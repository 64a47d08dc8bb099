//! TPC-B, the Transaction Processing Performance Council's benchmark of a bank: "TPC Benchmark B
//! Standard Specification", revision 2.0.
//!
//! A customer of a bank deposits money on an account, or withdraws some, at a teller of a branch:
//! three rows change, and history gets a row. In 85 of 100 transactions the account is of the
//! teller's branch, otherwise of any other branch.
//!
//! - [`rows`]: the four tables;
//! - [`procedure`]: the transaction;
//! - `check`: the consistency conditions: balances and history agree.
//!
//! Deviations from the standard: a worker plays all tellers of its home branch, where the standard
//! draws any teller of the system; the number of branches does not follow from the throughput;
//! history has a synthetic key; numbers of tellers and accounts count within a branch; accounts can
//! be scaled.

mod check;
pub mod procedure;
pub mod rows;
mod spec;

use schema::{Inspector, Loader, Schema};
use terms::Abort;

pub use check::CHECKS;
pub use procedure::{Action, Output, Transaction};
pub use rows::Tables;
use rows::{Account, Branch, BranchTotals, Teller};
use spec::DELTA_MAX;
pub use spec::{ACCOUNTS, TELLERS, Tpcb};

use crate::workload::{Check, LoadedWith, Workload};
use terms::random::Random;

/// Transactions whose account is of the teller's branch.
const LOCAL: usize = 0;
/// All other transactions.
const REMOTE: usize = 1;

impl Workload for Tpcb {
    type Procedure = Transaction;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        Tables::create(self, schema)
    }

    fn loaded_with(&self) -> LoadedWith {
        LoadedWith::new(
            "tpcb",
            [("--branches", self.branches.to_string()), ("--scale", self.scale.to_string())],
        )
    }

    fn parts(&self) -> usize {
        usize::from(self.branches)
    }

    fn rows(&self, _: usize) -> u64 {
        1 + u64::from(TELLERS) + u64::from(self.accounts())
    }

    fn load(
        &self,
        tables: &Tables,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let b_id = self.home(part);
        loader.insert(tables.branch, &Branch { b_id, totals: BranchTotals::default(), filler: [0; 86] })?;
        for t_id in 1..=TELLERS {
            loader.insert(tables.teller, &Teller { b_id, t_id, balance: 0, filler: [0; 89] })?;
        }
        for a_id in 1..=self.accounts() {
            loader.insert(tables.account, &Account { b_id, a_id, balance: 0, filler: [0; 86] })?;
        }
        Ok(())
    }

    #[inline]
    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> Transaction {
        let b_id = self.home(worker);
        let t_id = random.between(1, u64::from(TELLERS)) as u8;
        let is_remote = self.branches > 1 && random.unit() * 100.0 < self.remote_percent;
        let a_b_id = if is_remote { self.other_branch(random, b_id) } else { b_id };
        let a_id = random.between(1, u64::from(self.accounts())) as u32;
        let delta = random.between(0, 2 * DELTA_MAX) as i32 - DELTA_MAX as i32;
        let stream = (worker / usize::from(self.branches)) as u16;
        let (time, draws) = (now_nanos, 4 + u8::from(is_remote));
        Transaction { b_id, t_id, a_b_id, a_id, delta, time, balance: 0, stream, sequence: 0, draws }
    }

    #[inline]
    fn begin(&self, _: usize, procedure: &mut Transaction, now_nanos: u64) {
        procedure.time = now_nanos;
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["local", "remote"]
    }

    fn kind(procedure: &Transaction) -> usize {
        if procedure.a_b_id == procedure.b_id { LOCAL } else { REMOTE }
    }

    fn code_lines(_: &Transaction) -> u16 {
        44
    }

    fn check(
        &self,
        tables: &Tables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check> {
        check::check(self, tables, inspector, committed.map(|kinds| kinds.iter().sum()))
    }
}
