//! The rows and tables, partitioned by branch; history by the teller's branch.
//!
//! Branch, teller and account have 100 bytes at least, history 50. The number of branches, tellers
//! and accounts does not change, and their keys are dense: a perfect hash ([`dense`]) places each
//! row's entry without a collision.

use schema::{HashPlan, IndexKind, Partitioning, Row, Schema, Table, TableOptions, Value};
use serde::{Deserialize, Serialize};

use super::spec::{TELLERS, Tpcb};
use crate::dense;

/// The columns of a branch that transactions change.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BranchTotals {
    /// The branch's balance.
    pub balance: i64,
    /// Transactions of its tellers.
    pub transactions: u32,
}

/// BRANCH.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(b_id))]
pub struct Branch {
    /// Branch_ID, from 1.
    pub b_id: u16,
    /// Balance and number of transactions.
    pub totals: BranchTotals,
    /// Filler.
    pub filler: [u8; 86],
}

/// TELLER.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(b_id, t_id))]
pub struct Teller {
    /// The teller's Branch_ID.
    pub b_id: u16,
    /// Number within the branch, from 1.
    pub t_id: u8,
    /// The teller's balance.
    pub balance: i64,
    /// Filler.
    pub filler: [u8; 89],
}

/// ACCOUNT.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(b_id, a_id))]
pub struct Account {
    /// The account's Branch_ID.
    pub b_id: u16,
    /// Number within the branch, from 1.
    pub a_id: u32,
    /// The account's balance.
    pub balance: i64,
    /// Filler.
    pub filler: [u8; 86],
}

/// HISTORY. The standard gives it no key; this one is unique without a shared counter. The
/// transaction takes `sequence` from the branch row, which it changes anyway, and workers with the
/// same home differ in `stream`, so that they append in different places.
#[derive(Row, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[row(key(b_id, stream, sequence))]
pub struct History {
    /// The teller's branch.
    pub b_id: u16,
    /// Number of the worker among those at home in this branch.
    pub stream: u16,
    /// Number of the transaction at the branch, from 1.
    pub sequence: u32,
    /// Time of the transaction.
    pub time: u64,
    /// The account's branch.
    pub a_b_id: u16,
    /// The account.
    pub a_id: u32,
    /// The teller.
    pub t_id: u8,
    /// The amount.
    pub delta: i32,
    /// Filler.
    pub filler: [u8; 23],
}

const _: () = {
    assert!(<Branch as Row>::BYTES >= 100 && <Teller as Row>::BYTES >= 100 && <Account as Row>::BYTES >= 100);
    assert!(<History as Row>::BYTES >= 50);
};

/// The tables.
#[derive(Clone, Copy)]
pub struct Tables {
    /// BRANCH.
    pub branch: Table<Branch>,
    /// TELLER.
    pub teller: Table<Teller>,
    /// ACCOUNT.
    pub account: Table<Account>,
    /// HISTORY.
    pub history: Table<History>,
}

/// Expected rows of history for each branch, for the size of the table.
const HISTORY_EXPECTED: u64 = 10_000;

impl Tables {
    /// Declares all tables.
    pub(super) fn create(tpcb: &Tpcb, schema: &mut impl Schema) -> Self {
        let hash = |number| vec![IndexKind::Hash(HashPlan::Dense(number))];
        let options = |rows_per_branch: u64, kinds| TableOptions {
            rows: rows_per_branch * u64::from(tpcb.branches),
            partitioning: Some(Partitioning { first: 1, count: tpcb.branches }),
            kinds,
            ..TableOptions::default()
        };
        let accounts = u64::from(tpcb.accounts());
        Tables {
            branch: schema.table("branch", options(1, hash(dense::single))),
            teller: schema.table("teller", options(u64::from(TELLERS), hash(dense::byte))),
            account: schema.table("account", options(accounts, hash(dense::word))),
            history: schema.table("history", options(HISTORY_EXPECTED, Vec::new())),
        }
    }
}
