//! The consistency conditions, branch by branch: all rows exist; the balance of a branch is the sum
//! of its tellers' balances, and the sum of the amounts in its history; the sum of the balances of
//! its accounts is the sum of their amounts in all history; and history has a row for each
//! transaction.

use schema::Inspector;

use super::rows::{Account, Branch, BranchTotals, History, Tables, Teller};
use super::spec::{TELLERS, Tpcb};
use crate::findings;
use crate::workload::Check;

/// Names of the checks.
pub const CHECKS: [&str; 4] = ["tpcb_rows", "tpcb_tellers", "tpcb_accounts", "tpcb_history"];
const ROWS: usize = 0;
const TELLER_SUMS: usize = 1;
const ACCOUNT_SUMS: usize = 2;
const HISTORY: usize = 3;

type Findings = findings::Findings<{ CHECKS.len() }>;

/// Sums over the rows of a branch.
#[derive(Clone, Default)]
struct Sums {
    totals: BranchTotals,
    tellers: i64,
    accounts: i64,
    /// Sum of the amounts in history for the branch's tellers.
    by_teller: i64,
    /// Sum of the amounts in history for the branch's accounts.
    by_account: i64,
    history: u64,
    /// Number of branches, tellers and accounts.
    rows: [u64; 3],
}

/// Runs all checks; `committed`: number of committed transactions, if it is known.
pub(super) fn check(
    tpcb: &Tpcb,
    tables: &Tables,
    inspector: &mut impl Inspector,
    committed: Option<u64>,
) -> Vec<Check> {
    let mut findings = Findings::new();
    let branches = read(tpcb, tables, inspector, &mut findings);
    let rows = [1, u64::from(TELLERS), u64::from(tpcb.accounts())];
    for (sums, b_id) in branches.iter().zip(1..) {
        findings.expect(ROWS, sums.rows == rows, || {
            format!("branch {b_id} has {:?} rows where {rows:?} were loaded", sums.rows)
        });
        let balance = sums.totals.balance;
        findings.expect(TELLER_SUMS, balance == sums.tellers && balance == sums.by_teller, || {
            let (tellers, history) = (sums.tellers, sums.by_teller);
            format!("branch {b_id} has {balance}, its tellers have {tellers}, and history says {history}")
        });
        findings.expect(ACCOUNT_SUMS, sums.accounts == sums.by_account, || {
            let (accounts, history) = (sums.accounts, sums.by_account);
            format!("the accounts of branch {b_id} have {accounts}, and history says {history}")
        });
        let transactions = u64::from(sums.totals.transactions);
        findings.expect(HISTORY, sums.history == transactions, || {
            format!("branch {b_id} counts {transactions} transactions, and its history {}", sums.history)
        });
    }
    let history: u64 = branches.iter().map(|sums| sums.history).sum();
    let committed = committed.unwrap_or(history);
    findings.expect(HISTORY, history == committed, || {
        format!("{history} rows of history where {committed} transactions were committed")
    });
    findings.checks(CHECKS)
}

fn read(tpcb: &Tpcb, tables: &Tables, inspector: &mut impl Inspector, findings: &mut Findings) -> Vec<Sums> {
    let mut branches = vec![Sums::default(); usize::from(tpcb.branches)];
    for b_id in 1..=tpcb.branches {
        let branch: &mut Sums = &mut branches[usize::from(b_id) - 1];
        inspector.scan(tables.branch.primary(), &b_id, &b_id, &mut |row: &Branch| {
            branch.rows[0] += 1;
            branch.totals = row.totals;
        });
        inspector.scan(tables.teller.primary(), &(b_id, 0), &(b_id, u8::MAX), &mut |row: &Teller| {
            branch.rows[1] += 1;
            branch.tellers += row.balance;
        });
        inspector.scan(tables.account.primary(), &(b_id, 0), &(b_id, u32::MAX), &mut |row: &Account| {
            branch.rows[2] += 1;
            branch.accounts += row.balance;
        });
        let (low, high) = ((b_id, 0u16, 0u32), (b_id, u16::MAX, u32::MAX));
        inspector.scan(tables.history.primary(), &low, &high, &mut |row: &History| {
            let delta = i64::from(row.delta);
            branches[usize::from(b_id) - 1].history += 1;
            branches[usize::from(b_id) - 1].by_teller += delta;
            let knows = (1..=tpcb.branches).contains(&row.a_b_id)
                && (1..=tpcb.accounts()).contains(&row.a_id)
                && (1..=TELLERS).contains(&row.t_id);
            if knows {
                branches[usize::from(row.a_b_id) - 1].by_account += delta;
            }
            findings.expect(HISTORY, knows, || {
                let History { stream, sequence, a_b_id, a_id, t_id, .. } = *row;
                format!(
                    "branch {b_id}: history row {stream}/{sequence} names teller {t_id} and account {a_id} of \
                     branch {a_b_id}, one of which does not exist"
                )
            });
        });
    }
    branches
}
