//! OrderStatus (clause 2.6): one action.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;
use boundary::{Direction, LookAhead, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Routes, Text};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::customers::{self, Selection, select};
use super::rows::{Customer, CustomerAccount, LineBody, Order, OrderLine};
use super::spec::{DISTRICTS, LINES_MAX, Tpcc};
use super::tables::Tables;
use terms::random::Random;

/// The transaction.
#[derive(Clone, Debug)]
pub struct OrderStatus {
    /// The input.
    pub question: Question,
    /// The output on the terminal.
    pub answer: Answer,
}

/// The input: a customer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// The customer.
    pub customer: Selection,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub draws: u8,
}

/// A customer's last order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastOrder {
    /// O_ID.
    pub o_id: u32,
    /// O_ENTRY_D.
    pub entry: u64,
    /// O_CARRIER_ID; 0 is null.
    pub carrier: u8,
    /// The lines, in their order.
    pub lines: ArrayVec<LineBody, LINES_MAX>,
}

/// The output on the terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// C_ID.
    pub c_id: u16,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_LAST.
    pub last: Text<16>,
    /// C_BALANCE in cents.
    pub balance: i64,
    /// The last order, if there is one.
    pub order: Option<LastOrder>,
}

impl OrderStatus {
    /// Draws the input (clause 2.6.1).
    pub(super) fn generate(tpcc: &Tpcc, worker: usize, random: &mut Random) -> Self {
        let d_id = random.between(1, u64::from(DISTRICTS)) as u8;
        let customer = select(tpcc.sizes(), random);
        let question = Question { w_id: tpcc.home(worker), d_id, customer, draws: 4 };
        OrderStatus { question, answer: Answer::default() }
    }

    /// The customer.
    pub(super) fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        let Question { w_id, d_id, ref customer, .. } = self.question;
        let columns = ColumnSet::of(Customer::ACCOUNT).with(Customer::FIRST);
        customers::look_ahead(tables, w_id, d_id, customer, columns, ahead);
    }

    /// The only action, which declares the draws in the first attempt.
    pub(super) fn action(&mut self) -> Question {
        Question { draws: std::mem::take(&mut self.question.draws), ..self.question }
    }
}

impl Question {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        let district = (self.w_id, self.d_id);
        customers::route(tables, self.w_id, self.d_id, &self.customer, Intent::Read, route);
        // The customer's last order is found in another index.
        route.read(tables.order, &district);
        route.read(tables.order_line, &district);
    }

    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Answer, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let row = customers::find(tables, transaction, self.w_id, self.d_id, &self.customer, Intent::Read)?;
        let c_id = transaction.get(row, Customer::C_ID)?;
        Ok(Answer {
            c_id,
            first: transaction.get(row, Customer::FIRST)?,
            middle: transaction.get(row, Customer::MIDDLE)?,
            last: transaction.get(row, Customer::LAST)?,
            balance: transaction.get(row, Customer::ACCOUNT.then(CustomerAccount::BALANCE))?,
            order: self.last_order(tables, transaction, c_id)?,
        })
    }

    fn last_order<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
        c_id: u16,
    ) -> Result<Option<LastOrder>, Abort> {
        let (w_id, d_id) = (self.w_id, self.d_id);
        let mut last = None;
        transaction.scan(
            tables.order.index(Order::BY_CUSTOMER),
            &(w_id, d_id, c_id, 0u32),
            &(w_id, d_id, c_id, u32::MAX),
            Direction::Reverse,
            Intent::Read,
            &mut |transaction, order| {
                last = Some(LastOrder {
                    o_id: transaction.get(order, Order::O_ID)?,
                    entry: transaction.get(order, Order::ENTRY)?,
                    carrier: transaction.get(order, Order::CARRIER)?,
                    lines: ArrayVec::new(),
                });
                Ok(ControlFlow::Break(()))
            },
        )?;
        let Some(order) = &mut last else { return Ok(None) };
        let lines = &mut order.lines;
        transaction.scan(
            tables.order_line.primary(),
            &(w_id, d_id, order.o_id, 0u8),
            &(w_id, d_id, order.o_id, u8::MAX),
            Direction::Forward,
            Intent::Read,
            &mut |transaction, line| {
                let full = lines.try_push(transaction.get(line, OrderLine::BODY)?).is_err();
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        Ok(last)
    }
}
