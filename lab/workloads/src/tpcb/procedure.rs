//! The transaction.
//!
//! Phase 0: one action at the account's branch, then one at home. It comes last, and accesses the
//! branch after the teller, so that the hottest rows are held for the shortest time
//! (`docs/decisions/0018-hot-rows-late.md`). Phase 1: one action at home, which inserts the
//! history.

use boundary::{LookAhead, Plan, Procedure, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Routes, Row};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{Account, Branch, History, Tables, Teller};
use crate::workload::row_missing;

/// A deposit, or a withdrawal.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// The teller's branch.
    pub b_id: u16,
    /// The teller.
    pub t_id: u8,
    /// The account's branch.
    pub a_b_id: u16,
    /// The account.
    pub a_id: u32,
    /// The amount.
    pub delta: i32,
    /// Time of the transaction.
    pub time: u64,
    /// The account's balance afterwards, which the teller's terminal shows.
    pub balance: i64,
    pub(super) stream: u16,
    pub(super) sequence: u32,
    pub(super) draws: u8,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// At the account's branch.
    Deposit(Deposit),
    /// At the teller's branch.
    Home(Home),
    /// At the teller's branch: inserts the history.
    Insert(History),
}

/// Changes an account.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deposit {
    b_id: u16,
    a_id: u32,
    delta: i32,
}

/// Changes teller and branch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Home {
    b_id: u16,
    t_id: u8,
    delta: i32,
    /// Random numbers that were drawn for the transaction and not declared yet.
    draws: u8,
}

/// Result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// The account's balance.
    Balance(i64),
    /// The number of the transaction at its branch.
    Sequence(u32),
    /// No result.
    Done,
}

impl Procedure for Transaction {
    type Tables = Tables;
    type Action = Action;
    type Output = Output;

    #[inline]
    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        let Transaction { b_id, t_id, a_b_id, a_id, delta, time, stream, sequence, .. } = *self;
        match phase {
            0 => {
                let draws = std::mem::take(&mut self.draws);
                actions.push(Action::Deposit(Deposit { b_id: a_b_id, a_id, delta }));
                actions.push(Action::Home(Home { b_id, t_id, delta, draws }));
                Plan::Run
            }
            1 => {
                let filler = [0; 23];
                let row = History { b_id, stream, sequence, time, a_b_id, a_id, t_id, delta, filler };
                actions.push(Action::Insert(row));
                Plan::Run
            }
            _ => Plan::Commit,
        }
    }

    fn route(tables: &Tables, action: &Action, route: &mut Routes) {
        match action {
            Action::Deposit(deposit) => route.write(tables.account, &(deposit.b_id, deposit.a_id)),
            Action::Home(home) => {
                route.write(tables.branch, &home.b_id);
                route.write(tables.teller, &(home.b_id, home.t_id));
            }
            Action::Insert(row) => route.write(tables.history, &row.key()),
        }
    }

    #[inline]
    fn execute<T: Verbs>(tables: &Tables, action: &Action, transaction: &mut T) -> Result<Output, Abort> {
        match action {
            Action::Deposit(deposit) => deposit.execute(tables, transaction).map(Output::Balance),
            Action::Home(home) => home.execute(tables, transaction).map(Output::Sequence),
            Action::Insert(row) => transaction.insert(tables.history, row).map(|()| Output::Done),
        }
    }

    #[inline]
    fn absorb(&mut self, _: usize, _: usize, output: Output) {
        match output {
            Output::Balance(balance) => self.balance = balance,
            Output::Sequence(sequence) => self.sequence = sequence,
            Output::Done => {}
        }
    }

    #[inline]
    fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        let balance = ColumnSet::of(Account::BALANCE);
        ahead.row(tables.account.primary(), &(self.a_b_id, self.a_id), balance);
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        home(self.b_id);
        home(self.a_b_id);
        true
    }
}

impl Deposit {
    #[inline]
    fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<i64, Abort> {
        let key = (self.b_id, self.a_id);
        let account =
            transaction.find(tables.account.primary(), &key, Intent::Write)?.ok_or_else(row_missing)?;
        let balance = transaction.get(account, Account::BALANCE)?.wrapping_add(i64::from(self.delta));
        transaction.put(account, Account::BALANCE, &balance)?;
        transaction.work(Work::Step, 1);
        Ok(balance)
    }
}

impl Home {
    #[inline]
    fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<u32, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let key = (self.b_id, self.t_id);
        let teller =
            transaction.find(tables.teller.primary(), &key, Intent::Write)?.ok_or_else(row_missing)?;
        let branch =
            transaction.find(tables.branch.primary(), &self.b_id, Intent::Write)?.ok_or_else(row_missing)?;
        let balance = transaction.get(teller, Teller::BALANCE)?.wrapping_add(i64::from(self.delta));
        transaction.put(teller, Teller::BALANCE, &balance)?;
        let mut totals = transaction.get(branch, Branch::TOTALS)?;
        totals.balance = totals.balance.wrapping_add(i64::from(self.delta));
        totals.transactions = totals.transactions.wrapping_add(1);
        transaction.put(branch, Branch::TOTALS, &totals)?;
        transaction.work(Work::Step, 3);
        Ok(totals.transactions)
    }
}
