//! Payment (clause 2.5).
//!
//! Phase 0: one action at the customer's warehouse, then one at home. It comes last, and accesses
//! the warehouse after the district, so that the hottest rows are held for the shortest time
//! (`docs/decisions/0018-hot-rows-late.md`; [`HotRows::Early`] reverses the order). Phase 1: one
//! action at home, which inserts the history.

use std::io::Write;

use boundary::{LookAhead, Plan, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Handle, Routes, Row, Text};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::customers::{self, Selection, select};
use super::rows::{
    Address, Customer, CustomerAccount, CustomerDetails, CustomerTerms, District, History, Warehouse,
};
use super::spec::{DISTRICTS, Tpcc};
use super::tables::Tables;
use super::values::chance;
use super::ways::{HotRows, Ways};
use super::written::Written;
use crate::workload::row_missing;
use terms::random::Random;

/// Columns that it writes of rows that are neither inserted nor deleted.
pub(super) const WRITTEN: Written = Written {
    warehouse: ColumnSet::of(Warehouse::TOTALS),
    district: ColumnSet::of(District::YTD),
    customer: ColumnSet::of(Customer::ACCOUNT).with(Customer::DATA),
};

/// Columns that it reads of every customer, with good or bad credit.
const OF_CUSTOMER: ColumnSet<Customer> =
    ColumnSet::of(Customer::TERMS).with(Customer::LAST).with(Customer::ACCOUNT).with(Customer::FIRST);

/// The transaction.
#[derive(Clone, Debug)]
pub struct Payment {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// C_W_ID.
    pub c_w_id: u16,
    /// C_D_ID.
    pub c_d_id: u8,
    /// The customer.
    pub customer: Selection,
    /// H_AMOUNT in cents.
    pub amount: i32,
    /// H_DATE.
    pub date: u64,
    /// Result of the action at home.
    pub home: HomeOutput,
    /// Result of the action at the customer's warehouse.
    pub payer: PayerOutput,
    stream: u16,
    draws: u8,
    inserts: bool,
    ways: Ways,
    long_attributes: bool,
}

impl Payment {
    /// Draws the input (clause 2.5.1).
    pub(super) fn generate(tpcc: &Tpcc, worker: usize, random: &mut Random, now: u64) -> Self {
        let w_id = tpcc.home(worker);
        let sizes = tpcc.sizes();
        let d_id = random.between(1, u64::from(DISTRICTS)) as u8;
        let (c_w_id, c_d_id) = if chance(random, tpcc.remote_payment_percent) {
            (tpcc.other_warehouse(random, worker, w_id), random.between(1, u64::from(DISTRICTS)) as u8)
        } else {
            (w_id, d_id)
        };
        Payment {
            w_id,
            d_id,
            c_w_id,
            c_d_id,
            customer: select(sizes, random),
            amount: random.between(100, 500_000) as i32,
            date: now,
            home: HomeOutput::default(),
            payer: PayerOutput::default(),
            stream: (worker / usize::from(tpcc.warehouses)) as u16,
            draws: 6,
            inserts: tpcc.inserts,
            ways: tpcc.ways,
            long_attributes: sizes.long_attributes,
        }
    }

    pub(super) fn plan<A>(&mut self, phase: usize, actions: &mut Vec<A>) -> Plan
    where
        A: From<Home> + From<Payer> + From<Insert>,
    {
        match phase {
            0 => {
                let payer = Payer {
                    w_id: self.c_w_id,
                    d_id: self.c_d_id,
                    customer: self.customer,
                    home: (self.w_id, self.d_id),
                    amount: self.amount,
                    long_attributes: self.long_attributes,
                };
                let draws = std::mem::take(&mut self.draws);
                let early = self.ways.hot_rows == HotRows::Early;
                let home = Home { w_id: self.w_id, d_id: self.d_id, amount: self.amount, draws, early };
                if early {
                    actions.push(home.into());
                    actions.push(payer.into());
                } else {
                    actions.push(payer.into());
                    actions.push(home.into());
                }
                Plan::Run
            }
            1 if self.inserts => {
                actions.push(Insert { row: self.receipt(), indexed: self.ways.index_inserts }.into());
                Plan::Run
            }
            _ => Plan::Commit,
        }
    }

    /// The customer.
    #[inline]
    pub(super) fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        let mut columns = OF_CUSTOMER;
        if self.long_attributes {
            columns = columns.with(Customer::DETAILS);
        }
        customers::look_ahead(tables, self.c_w_id, self.c_d_id, &self.customer, columns, ahead);
    }

    fn receipt(&self) -> History {
        History {
            w_id: self.w_id,
            stream: self.stream,
            sequence: self.home.payments,
            date: self.date,
            amount: self.amount,
            c_w_id: self.c_w_id,
            c_id: self.payer.c_id,
            c_d_id: self.c_d_id,
            d_id: self.d_id,
            data: history_data(&self.home.w_name, &self.home.d_name),
        }
    }
}

/// H_DATA: W_NAME and D_NAME, four spaces between them.
fn history_data(w_name: &Text<10>, d_name: &Text<10>) -> Text<24> {
    let mut data = [0; 24];
    let (left, right) = (w_name.as_bytes(), d_name.as_bytes());
    data[..left.len()].copy_from_slice(left);
    let start = left.len() + 4;
    data[left.len()..start].fill(b' ');
    data[start..start + right.len()].copy_from_slice(right);
    Text::from_padded(data)
}

/// The payment at home.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Home {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// H_AMOUNT in cents.
    pub amount: i32,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub draws: u8,
    /// True if the warehouse is accessed before the district.
    pub early: bool,
}

/// Result of [`Home`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HomeOutput {
    /// Number of this payment at the warehouse.
    pub payments: u32,
    /// W_NAME.
    pub w_name: Text<10>,
    /// W_STREET_1 to W_ZIP.
    pub w_address: Address,
    /// D_NAME.
    pub d_name: Text<10>,
    /// D_STREET_1 to D_ZIP.
    pub d_address: Address,
}

impl Home {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        route.write(tables.warehouse, &self.w_id);
        route.write(tables.district, &(self.w_id, self.d_id));
    }

    pub(super) fn execute<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
    ) -> Result<HomeOutput, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let (warehouse, district) = if self.early {
            let warehouse = self.warehouse(tables, transaction)?;
            (warehouse, self.district(tables, transaction)?)
        } else {
            let district = self.district(tables, transaction)?;
            (self.warehouse(tables, transaction)?, district)
        };
        let of_district = (District::YTD, District::NAME, District::ADDRESS);
        let (d_ytd, d_name, d_address) = transaction.get_together(district, of_district)?;
        transaction.put(district, District::YTD, &d_ytd.wrapping_add(i64::from(self.amount)))?;
        let of_warehouse = (Warehouse::TOTALS, Warehouse::NAME, Warehouse::ADDRESS);
        let (mut totals, w_name, w_address) = transaction.get_together(warehouse, of_warehouse)?;
        totals.ytd = totals.ytd.wrapping_add(i64::from(self.amount));
        totals.payments = totals.payments.wrapping_add(1);
        transaction.put(warehouse, Warehouse::TOTALS, &totals)?;
        transaction.work(Work::Step, 3);
        Ok(HomeOutput { payments: totals.payments, w_name, w_address, d_name, d_address })
    }

    #[inline(always)]
    fn warehouse<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Handle<Warehouse>, Abort> {
        let found = transaction.find(tables.warehouse.primary(), &self.w_id, Intent::Write)?;
        let warehouse = found.ok_or_else(row_missing)?;
        transaction.prefetch(warehouse, Warehouse::TOTALS, Intent::Write);
        transaction.prefetch(warehouse, Warehouse::ADDRESS, Intent::Read);
        Ok(warehouse)
    }

    #[inline(always)]
    fn district<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Handle<District>, Abort> {
        let key = (self.w_id, self.d_id);
        let district =
            transaction.find(tables.district.primary(), &key, Intent::Write)?.ok_or_else(row_missing)?;
        transaction.prefetch(district, District::YTD, Intent::Write);
        transaction.prefetch(district, District::ADDRESS, Intent::Read);
        Ok(district)
    }
}

/// The payment at the customer's warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payer {
    /// C_W_ID.
    pub w_id: u16,
    /// C_D_ID.
    pub d_id: u8,
    /// The customer.
    pub customer: Selection,
    /// W_ID and D_ID, for C_DATA.
    pub home: (u16, u8),
    /// H_AMOUNT in cents.
    pub amount: i32,
    /// True if C_DATA and the details are in use.
    pub long_attributes: bool,
}

/// Result of [`Payer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PayerOutput {
    /// C_ID.
    pub c_id: u16,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_LAST.
    pub last: Text<16>,
    /// C_DISCOUNT and C_CREDIT.
    pub terms: CustomerTerms,
    /// Balance and counters after the payment.
    pub account: CustomerAccount,
    /// Address, phone and the rest.
    pub details: CustomerDetails,
    /// The first 200 characters of C_DATA after the payment, if the credit is bad.
    pub data: Option<Text<200>>,
}

impl Payer {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        customers::route(tables, self.w_id, self.d_id, &self.customer, Intent::Write, route);
    }

    pub(super) fn execute<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
    ) -> Result<PayerOutput, Abort> {
        let row = customers::find(tables, transaction, self.w_id, self.d_id, &self.customer, Intent::Write)?;
        transaction.prefetch(row, Customer::ACCOUNT, Intent::Write);
        if self.long_attributes {
            transaction.prefetch(row, Customer::DETAILS, Intent::Read);
        }
        let needed = (Customer::C_ID, Customer::TERMS, Customer::ACCOUNT);
        let (c_id, terms, mut account) = transaction.get_together(row, needed)?;
        let amount = i64::from(self.amount);
        account.balance = account.balance.wrapping_sub(amount);
        account.ytd_payment = account.ytd_payment.wrapping_add(amount);
        account.payment_count = account.payment_count.wrapping_add(1);
        transaction.put(row, Customer::ACCOUNT, &account)?;
        transaction.work(Work::Step, 3);
        let (mut shown, mut details) = (None, CustomerDetails::default());
        if self.long_attributes {
            details = transaction.get(row, Customer::DETAILS)?;
        }
        if self.long_attributes && terms.credit.padded() == *b"BC" {
            let data = self.describe(c_id, &transaction.get(row, Customer::DATA)?);
            transaction.put(row, Customer::DATA, &data)?;
            transaction.work(Work::Step, 30);
            let mut start = [0; 200];
            start.copy_from_slice(&data.padded()[..200]);
            shown = Some(Text::from_padded(start));
        }
        let name = (Customer::FIRST, Customer::MIDDLE, Customer::LAST);
        let (first, middle, last) = transaction.get_together(row, name)?;
        Ok(PayerOutput { c_id, first, middle, last, terms, account, details, data: shown })
    }

    /// The new C_DATA of a customer with bad credit: this payment, followed by as much of the old
    /// data as fits.
    fn describe(&self, c_id: u16, data: &Text<500>) -> Text<500> {
        let mut bytes = [0; 500];
        let mut rest = &mut bytes[..];
        let (euros, cents) = (self.amount / 100, self.amount % 100);
        let (w_id, d_id) = self.home;
        let written = write!(rest, "{c_id} {} {} {d_id} {w_id} {euros}.{cents:02} ", self.d_id, self.w_id);
        debug_assert!(written.is_ok(), "six short numbers fit 500 bytes");
        let kept = rest.len();
        rest.copy_from_slice(&data.padded()[..kept]);
        Text::from_padded(bytes)
    }
}

/// Inserts the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insert {
    /// The row.
    pub row: History,
    /// True if the row enters the index.
    pub indexed: bool,
}

impl Insert {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        route.write(tables.history, &self.row.key());
    }

    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<(), Abort> {
        if !self.indexed {
            return transaction.insert_unindexed(tables.history, &self.row);
        }
        transaction.insert(tables.history, &self.row)
    }
}
