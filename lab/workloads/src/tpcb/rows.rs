//! The rows and tables, partitioned by branch: history lies with the teller's branch.
//!
//! Branch, teller and account have 100 bytes at least, history 50. Branches, tellers and accounts
//! never grow and have dense keys: a perfect hash places each row's entry without a collision. The
//! functions get normalized key words: the columns from the most significant bit down.

use schema::{HashPlan, IndexKind, Partitioning, Row, Schema, Table, TableOptions, Value};
use serde::{Deserialize, Serialize};

use super::spec::{TELLERS, Tpcb};

/// What a transaction changes of a branch.
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
    /// Nothing.
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
    /// Nothing.
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
    /// Nothing.
    pub filler: [u8; 86],
}

/// HISTORY. The standard gives it no key: this one is unique without a counter of its own. The
/// transaction takes `sequence` from the branch, which it changes anyway, and workers with the same
/// home differ in `stream`, so that they append in different places.
#[derive(Row, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[row(key(b_id, stream, sequence))]
pub struct History {
    /// The teller's branch.
    pub b_id: u16,
    /// Which of the workers at home in this branch.
    pub stream: u16,
    /// Number of the transaction at the branch, from 1.
    pub sequence: u32,
    /// When.
    pub time: u64,
    /// The account's branch.
    pub a_b_id: u16,
    /// The account.
    pub a_id: u32,
    /// The teller.
    pub t_id: u8,
    /// The amount.
    pub delta: i32,
    /// Nothing.
    pub filler: [u8; 23],
}

const _: () = {
    assert!(<Branch as Row>::BYTES >= 100 && <Teller as Row>::BYTES >= 100 && <Account as Row>::BYTES >= 100);
    assert!(<History as Row>::BYTES >= 50);
};

/// Typed names of the tables.
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

/// Rows of history that tables are made for, a branch.
const HISTORY_EXPECTED: u64 = 10_000;

impl Tables {
    /// Declares all tables.
    pub(super) fn create(tpcb: &Tpcb, schema: &mut impl Schema) -> Self {
        let dense = |number| vec![IndexKind::Hash(HashPlan::Dense(number))];
        let options = |rows_per_branch: u64, kinds| TableOptions {
            rows: rows_per_branch * u64::from(tpcb.branches),
            partitioning: Some(Partitioning { first: 1, count: tpcb.branches }),
            kinds,
            ..TableOptions::default()
        };
        let accounts = u64::from(tpcb.accounts());
        Tables {
            branch: schema.table("branch", options(1, dense(branch_number))),
            teller: schema.table("teller", options(u64::from(TELLERS), dense(teller_number))),
            account: schema.table("account", options(accounts, dense(account_number))),
            history: schema.table("history", options(HISTORY_EXPECTED, Vec::new())),
        }
    }
}

/// Key: b_id. A partition has one.
fn branch_number(_: u64) -> u64 {
    0
}

/// Key: 16 bits of b_id, 8 of t_id.
fn teller_number(key: u64) -> u64 {
    ((key >> 40) & 0xff).wrapping_sub(1)
}

/// Key: 16 bits of b_id, 32 of a_id.
fn account_number(key: u64) -> u64 {
    ((key >> 16) & 0xffff_ffff).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use schema::{Key, KeyBuffer};

    use super::*;

    fn word(key: &impl Key) -> u64 {
        KeyBuffer::of(key).words(1)[0]
    }

    #[test]
    fn perfect_hashes_are_dense() {
        assert_eq!(branch_number(word(&9u16)), 0);
        assert_eq!([1, 10].map(|t_id: u8| teller_number(word(&(7u16, t_id)))), [0, 9]);
        assert_eq!([1, 100_000].map(|a_id: u32| account_number(word(&(7u16, a_id)))), [0, 99_999]);
    }
}
