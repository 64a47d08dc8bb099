//! Delivery (clause 2.7): one action for all ten districts, which are in one partition. It runs
//! immediately, without a queue.
//!
//! Each step covers all districts, so that the misses of ten orders and ten customers overlap.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;
use boundary::{Direction, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Routes};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{Customer, LineBody, NewOrder, Order, OrderLine};
use super::spec::{DISTRICTS, Tpcc};
use super::tables::Tables;
use super::written::Written;
use crate::workload::row_missing;
use terms::random::Random;

/// Columns that it writes of rows that are neither inserted nor deleted.
pub(super) const WRITTEN: Written = Written { customer: ColumnSet::of(Customer::ACCOUNT), ..Written::NONE };

/// The transaction.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The input.
    pub batch: Batch,
    /// The content of the result file.
    pub delivered: Delivered,
}

/// The warehouse, and the carrier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// W_ID.
    pub w_id: u16,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: u8,
    /// OL_DELIVERY_D.
    pub date: u64,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub draws: u8,
}

/// One delivered order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeliveredOrder {
    /// D_ID.
    pub d_id: u8,
    /// O_ID.
    pub o_id: u32,
    /// Sum of its amounts in cents.
    pub amount: i64,
}

/// The delivered orders; districts without undelivered orders are skipped.
pub type Delivered = ArrayVec<DeliveredOrder, { DISTRICTS as usize }>;

impl Delivery {
    /// Draws the input (clause 2.7.1).
    pub(super) fn generate(tpcc: &Tpcc, worker: usize, random: &mut Random, now: u64) -> Self {
        let carrier = random.between(1, 10) as u8;
        let batch = Batch { w_id: tpcc.home(worker), carrier, date: now, draws: 1 };
        Delivery { batch, delivered: Delivered::new() }
    }

    /// The only action, which declares the draws in the first attempt.
    pub(super) fn action(&mut self) -> Batch {
        Batch { draws: std::mem::take(&mut self.batch.draws), ..self.batch }
    }
}

impl Batch {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        route.write(tables.new_order, &self.w_id);
        route.write(tables.order, &self.w_id);
        route.write(tables.order_line, &self.w_id);
        route.write(tables.customer, &self.w_id);
    }

    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Delivered, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let mut delivered = Delivered::new();
        let mut order_keys: ArrayVec<(u16, u8, u32), { DISTRICTS as usize }> = ArrayVec::new();
        for d_id in 1..=DISTRICTS {
            if let Some(o_id) = self.take_oldest(tables, transaction, d_id)? {
                order_keys.push((self.w_id, d_id, o_id));
                delivered.push(DeliveredOrder { d_id, o_id, amount: 0 });
            }
        }
        let mut orders = Vec::with_capacity(order_keys.len());
        transaction.find_many(tables.order.primary(), &order_keys, Intent::Write, &mut orders)?;
        let mut customer_keys: ArrayVec<(u16, u8, u16), { DISTRICTS as usize }> = ArrayVec::new();
        for (order, delivered) in orders.iter().zip(delivered.iter()) {
            let order = order.ok_or_else(row_missing)?;
            let c_id = transaction.get(order, Order::C_ID)?;
            transaction.put(order, Order::CARRIER, &self.carrier)?;
            customer_keys.push((self.w_id, delivered.d_id, c_id));
        }
        let mut customers = Vec::with_capacity(customer_keys.len());
        transaction.find_many(tables.customer.primary(), &customer_keys, Intent::Write, &mut customers)?;
        for customer in customers.iter().flatten() {
            transaction.prefetch(*customer, Customer::ACCOUNT, Intent::Write);
        }
        for (customer, delivered) in customers.iter().zip(delivered.iter_mut()) {
            delivered.amount = self.deliver_lines(tables, transaction, delivered)?;
            let customer = customer.ok_or_else(row_missing)?;
            let mut account = transaction.get(customer, Customer::ACCOUNT)?;
            account.balance = account.balance.wrapping_add(delivered.amount);
            account.delivery_count = account.delivery_count.wrapping_add(1);
            transaction.put(customer, Customer::ACCOUNT, &account)?;
            transaction.work(Work::Step, 2);
        }
        Ok(delivered)
    }

    /// Deletes the district's oldest undelivered order from new_order and returns its O_ID.
    fn take_oldest<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
        d_id: u8,
    ) -> Result<Option<u32>, Abort> {
        let mut oldest = None;
        transaction.scan(
            tables.new_order.primary(),
            &(self.w_id, d_id, 0u32),
            &(self.w_id, d_id, u32::MAX),
            Direction::Forward,
            Intent::Write,
            &mut |_, row| {
                oldest = Some(row);
                Ok(ControlFlow::Break(()))
            },
        )?;
        let Some(row) = oldest else { return Ok(None) };
        let o_id = transaction.get(row, NewOrder::O_ID)?;
        transaction.delete(row)?;
        Ok(Some(o_id))
    }

    /// Dates the lines of an order and sums their amounts.
    fn deliver_lines<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
        order: &DeliveredOrder,
    ) -> Result<i64, Abort> {
        let mut amount = 0;
        transaction.scan(
            tables.order_line.primary(),
            &(self.w_id, order.d_id, order.o_id, 0u8),
            &(self.w_id, order.d_id, order.o_id, u8::MAX),
            Direction::Forward,
            Intent::Write,
            &mut |transaction, line| {
                let cents = transaction.get(line, OrderLine::BODY.then(LineBody::AMOUNT))?;
                amount += i64::from(cents);
                transaction.put(line, OrderLine::BODY.then(LineBody::DELIVERY), &self.date)?;
                transaction.work(Work::Step, 1);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(amount)
    }
}
