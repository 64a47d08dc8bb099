//! StockLevel (clause 2.8): one action. A worker plays all terminals of its warehouse, so the
//! district is drawn anew for each transaction.

use std::ops::ControlFlow;

use boundary::{Direction, Verbs};
use platform::{Intent, Work};
use schema::Routes;
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{District, DistrictOrders, LineBody, OrderLine, Stock, StockLevels};
use super::spec::{DISTRICTS, LINES_MAX, Tpcc};
use super::tables::Tables;
use crate::workload::row_missing;
use terms::random::Random;

/// Number of the district's last orders that are checked.
const ORDERS: u32 = 20;

/// The transaction.
#[derive(Clone, Debug)]
pub struct StockLevel {
    /// The input.
    pub question: Question,
    /// The output on the terminal.
    pub answer: Answer,
}

/// The input: a district, and the threshold of a low stock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// Stocks below are low: 10 to 20.
    pub threshold: i32,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub draws: u8,
}

/// The output on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Number of different items in the last 20 orders; not shown, for tests.
    pub items: u32,
    /// Number of these items with a low stock.
    pub low: u32,
}

impl StockLevel {
    /// Draws the input (clause 2.8.1).
    pub(super) fn generate(tpcc: &Tpcc, worker: usize, random: &mut Random) -> Self {
        let d_id = random.between(1, u64::from(DISTRICTS)) as u8;
        let threshold = random.between(10, 20) as i32;
        let question = Question { w_id: tpcc.home(worker), d_id, threshold, draws: 2 };
        StockLevel { question, answer: Answer::default() }
    }

    /// The only action, which declares the draws in the first attempt.
    pub(super) fn action(&mut self) -> Question {
        Question { draws: std::mem::take(&mut self.question.draws), ..self.question }
    }
}

impl Question {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        route.read(tables.district, &(self.w_id, self.d_id));
        route.read(tables.order_line, &(self.w_id, self.d_id));
        route.read(tables.stock, &self.w_id);
    }

    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Answer, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let key = (self.w_id, self.d_id);
        let district =
            transaction.find(tables.district.primary(), &key, Intent::Read)?.ok_or_else(row_missing)?;
        let next = transaction.get(district, District::ORDERS.then(DistrictOrders::NEXT_O_ID))?;
        let mut keys: Vec<(u16, u32)> = Vec::with_capacity(ORDERS as usize * LINES_MAX);
        let low = next.saturating_sub(ORDERS);
        if let Some(high) = next.checked_sub(1) {
            transaction.scan(
                tables.order_line.primary(),
                &(self.w_id, self.d_id, low, 0u8),
                &(self.w_id, self.d_id, high, u8::MAX),
                Direction::Forward,
                Intent::Read,
                &mut |transaction, line| {
                    let i_id = transaction.get(line, OrderLine::BODY.then(LineBody::I_ID))?;
                    keys.push((self.w_id, i_id));
                    Ok(ControlFlow::Continue(()))
                },
            )?;
        }
        keys.sort_unstable();
        keys.dedup();
        // Sorting n items takes about n log2 n comparisons: 8 a line.
        transaction.work(Work::Step, keys.len() as u32 * 8);
        self.count_low(tables, transaction, &keys)
    }

    fn count_low<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
        keys: &[(u16, u32)],
    ) -> Result<Answer, Abort> {
        let mut stocks = Vec::with_capacity(keys.len());
        transaction.find_many(tables.stock.primary(), keys, Intent::Read, &mut stocks)?;
        let quantity = Stock::LEVELS.then(StockLevels::QUANTITY);
        for stock in stocks.iter().flatten() {
            transaction.prefetch(*stock, quantity, Intent::Read);
        }
        let mut answer = Answer { items: keys.len() as u32, low: 0 };
        for stock in stocks.iter().flatten() {
            answer.low += u32::from(transaction.get(*stock, quantity)? < self.threshold);
        }
        transaction.work(Work::Step, answer.items);
        Ok(answer)
    }
}
