//! NewOrder (clause 2.4).
//!
//! Phase 0: one action for each supplying warehouse, then one at home. It comes last so that the
//! district, the hottest row, is held for the shortest time
//! (`docs/decisions/0018-hot-rows-late.md`; [`HotRows::Early`] puts it first). Phase 1: one action
//! at home, which inserts the order. An order with an unused item performs all of this for its
//! other lines and is then rolled back, as clause 2.4.2.3 requires.

use arrayvec::ArrayVec;
use boundary::{LookAhead, Plan, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Routes, RowPart, Text};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::customers::customer_id;
use super::rows::{self, Customer, CustomerTerms, District, DistrictOrders, LineBody, OrderLine, Warehouse};
use super::spec::{DISTRICTS, LINES_MAX, Tpcc};
use super::supply::{SuppliedLine, Supply, SupplyLine, SupplyOutput};
use super::tables::Tables;
use super::values::{ITEM_RUN, chance, non_uniform};
use super::ways::{HotRows, Stocks, Ways};
use super::written::Written;
use crate::workload::row_missing;
use terms::random::Random;

/// Columns that it writes of rows that are neither inserted nor deleted.
pub(super) const WRITTEN: Written =
    Written { district: ColumnSet::of(District::ORDERS.then(DistrictOrders::NEXT_O_ID)), ..Written::NONE };
/// Columns that it reads of its customer.
const OF_CUSTOMER: ColumnSet<Customer> = ColumnSet::of(Customer::TERMS).with(Customer::LAST);
/// Columns that it reads of its warehouse.
const OF_WAREHOUSE: ColumnSet<Warehouse> = ColumnSet::of(Warehouse::TAX);

/// One line as the terminal sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    /// Warehouse that supplies it.
    pub supply_w_id: u16,
    /// Item.
    pub i_id: u32,
    /// Number in the order, from 0.
    pub number: u8,
    /// Quantity, 1 to 10.
    pub quantity: u8,
}

impl Line {
    /// The line in one word; words sort like lines.
    #[inline(always)]
    fn packed(self) -> u64 {
        let Line { supply_w_id, i_id, number, quantity } = self;
        u64::from(supply_w_id) << 48 | u64::from(i_id) << 16 | u64::from(number) << 8 | u64::from(quantity)
    }

    #[inline(always)]
    fn unpacked(word: u64) -> Self {
        let [quantity, number, ..] = word.to_le_bytes();
        Line { supply_w_id: (word >> 48) as u16, i_id: (word >> 16) as u32, number, quantity }
    }
}

/// The transaction.
#[derive(Clone, Debug)]
pub struct NewOrder {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// C_ID.
    pub c_id: u16,
    /// O_ENTRY_D.
    pub entry: u64,
    /// The lines in the order in which their stocks are taken: by supplying warehouse and item, or
    /// as they were drawn.
    pub lines: ArrayVec<Line, LINES_MAX>,
    /// Result of the action at home.
    pub home: HomeOutput,
    /// The lines as the terminal shows them, in no particular order.
    pub shown: Vec<SuppliedLine>,
    /// Number of the line whose item is unused, if there is one.
    pub unused: Option<u8>,
    /// Total amount in cents, with discount and taxes.
    pub total: i64,
    /// Random numbers drawn for the input, until an attempt declared them.
    draws: u8,
    inserts: bool,
    ways: Ways,
    long_attributes: bool,
}

impl NewOrder {
    /// Draws the input (clause 2.4.1).
    pub(super) fn generate(tpcc: &Tpcc, worker: usize, random: &mut Random, now: u64) -> Self {
        let (w_id, sizes) = (tpcc.home(worker), tpcc.sizes());
        let d_id = random.between(1, u64::from(DISTRICTS)) as u8;
        let c_id = customer_id(sizes, random);
        let count = random.between(5, LINES_MAX as u64) as u8;
        let rolls_back = random.below(100) == 0;
        let mut lines: ArrayVec<u64, LINES_MAX> = ArrayVec::new();
        for number in 0..count {
            let i_id = if rolls_back && number + 1 == count {
                sizes.items + 1
            } else {
                non_uniform(random, 8191, ITEM_RUN, 1, u64::from(sizes.items)) as u32
            };
            let remote = chance(random, tpcc.remote_items_percent);
            let supply_w_id = if remote { tpcc.other_warehouse(random, worker, w_id) } else { w_id };
            let quantity = random.between(1, 10) as u8;
            lines.push(Line { supply_w_id, i_id, number, quantity }.packed());
        }
        if tpcc.ways.stocks == Stocks::Sorted {
            lines.sort_unstable();
        }
        NewOrder {
            w_id,
            d_id,
            c_id,
            entry: now,
            lines: lines.into_iter().map(Line::unpacked).collect(),
            home: HomeOutput::default(),
            shown: Vec::new(),
            unused: None,
            total: 0,
            draws: 5 + 4 * count,
            inserts: tpcc.inserts,
            ways: tpcc.ways,
            long_attributes: sizes.long_attributes,
        }
    }

    pub(super) fn plan<A>(&mut self, phase: usize, actions: &mut Vec<A>) -> Plan
    where
        A: From<Home> + From<Supply> + From<Insert>,
    {
        let finished = if self.unused.is_some() { Plan::RollBack } else { Plan::Commit };
        match phase {
            0 => {
                self.unused = None;
                self.shown.clear();
                self.plan_reads(actions);
                Plan::Run
            }
            1 => {
                self.total = self.total();
                if !self.inserts {
                    return finished;
                }
                actions.push(self.insert().into());
                Plan::Run
            }
            _ => finished,
        }
    }

    /// Prefetches the customer and the position in the index of the customer's order, whose number
    /// is higher than all others. Items and stocks are looked up in batches whose misses overlap.
    #[inline]
    pub(super) fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        ahead.row(tables.customer.primary(), &(self.w_id, self.d_id, self.c_id), OF_CUSTOMER);
        if self.inserts && self.ways.index_inserts {
            let by_customer = tables.order.index(rows::Order::BY_CUSTOMER);
            ahead.insertion(by_customer, &(self.w_id, self.d_id, self.c_id, u32::MAX));
        }
    }

    fn plan_reads<A: From<Home> + From<Supply>>(&mut self, actions: &mut Vec<A>) {
        let draws = std::mem::take(&mut self.draws);
        let unvalidated = self.ways.unvalidated_reads;
        let home = Home { w_id: self.w_id, d_id: self.d_id, c_id: self.c_id, draws, unvalidated };
        let early = self.ways.hot_rows == HotRows::Early;
        if early {
            actions.push(home.into());
        }
        for supplied in self.lines.chunk_by(|left, right| left.supply_w_id == right.supply_w_id) {
            let lines = supplied
                .iter()
                .map(|line| SupplyLine { i_id: line.i_id, number: line.number, quantity: line.quantity })
                .collect();
            let w_id = supplied[0].supply_w_id;
            let remote = w_id != self.w_id;
            let long_attributes = self.long_attributes;
            let supply = Supply { w_id, d_id: self.d_id, remote, long_attributes, lines };
            actions.push(supply.into());
        }
        if !early {
            actions.push(home.into());
        }
    }

    fn insert(&self) -> Insert {
        let (mut of_number, mut shown_of) = ([0u8; LINES_MAX], [0u8; LINES_MAX]);
        for (place, line) in (0..).zip(&self.lines) {
            of_number[usize::from(line.number)] = place;
        }
        for (place, shown) in (0..).zip(&self.shown) {
            shown_of[usize::from(shown.number)] = place;
        }
        // Only the last line can be of an unused item.
        let count = self.unused.map_or(self.lines.len(), usize::from);
        let lines = of_number.iter().zip(&shown_of).take(count).map(|(place, shown)| {
            let (line, shown) = (&self.lines[usize::from(*place)], &self.shown[usize::from(*shown)]);
            InsertLine {
                i_id: line.i_id,
                supply_w_id: line.supply_w_id,
                quantity: line.quantity,
                amount: shown.amount,
                dist_info: shown.dist_info,
            }
        });
        Insert {
            w_id: self.w_id,
            d_id: self.d_id,
            o_id: self.home.o_id,
            c_id: self.c_id,
            entry: self.entry,
            all_local: self.lines.iter().all(|line| line.supply_w_id == self.w_id),
            line_count: self.lines.len() as u8,
            indexed: self.ways.index_inserts,
            lines: lines.collect(),
        }
    }

    /// Sum of the amounts, less the discount, plus the taxes, in cents.
    fn total(&self) -> i64 {
        let sum: i64 = self.shown.iter().map(|shown| i64::from(shown.amount)).sum();
        let home = &self.home;
        let discounted = sum * (10_000 - i64::from(home.terms.discount));
        let total = discounted * (10_000 + i64::from(home.w_tax) + i64::from(home.d_tax));
        (total + 50_000_000) / 100_000_000
    }

    pub(super) fn absorb_home(&mut self, output: HomeOutput) {
        self.home = output;
    }

    pub(super) fn absorb_supply(&mut self, output: SupplyOutput) {
        if self.shown.is_empty() {
            self.shown = output.lines;
        } else {
            self.shown.extend_from_slice(&output.lines);
        }
        if let Some(number) = output.unused {
            self.unused = Some(number);
        }
    }
}

/// The part of the order at home: its number, discount and taxes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Home {
    /// W_ID.
    pub w_id: u16,
    /// D_ID.
    pub d_id: u8,
    /// C_ID.
    pub c_id: u16,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub draws: u8,
    /// True if warehouse and customer are read without concurrency control, even if other
    /// transactions write them.
    pub unvalidated: bool,
}

/// Result of [`Home`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HomeOutput {
    /// O_ID.
    pub o_id: u32,
    /// W_TAX in basis points.
    pub w_tax: u16,
    /// D_TAX in basis points.
    pub d_tax: u16,
    /// C_DISCOUNT and C_CREDIT.
    pub terms: CustomerTerms,
    /// C_LAST.
    pub last: Text<16>,
}

impl Home {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        route.write(tables.district, &(self.w_id, self.d_id));
        route.read(tables.warehouse, &self.w_id);
        route.read(tables.customer, &(self.w_id, self.d_id, self.c_id));
    }

    pub(super) fn execute<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
    ) -> Result<HomeOutput, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        // The position of the customer's order in the index: its number is higher than all others.
        let by_customer = tables.order.index(rows::Order::BY_CUSTOMER);
        transaction.prefetch_insertion(by_customer, &(self.w_id, self.d_id, self.c_id, u32::MAX));
        let (customer, warehouse) = if self.unvalidated {
            self.find_unvalidated(tables, transaction)?
        } else {
            let key = (self.w_id, self.d_id, self.c_id);
            let customer = transaction.find_constant(tables.customer.primary(), &key, OF_CUSTOMER)?;
            let warehouse =
                transaction.find_constant(tables.warehouse.primary(), &self.w_id, OF_WAREHOUSE)?;
            (customer.ok_or_else(row_missing)?, warehouse.ok_or_else(row_missing)?)
        };
        let key = (self.w_id, self.d_id);
        let district =
            transaction.find(tables.district.primary(), &key, Intent::Write)?.ok_or_else(row_missing)?;
        transaction.prefetch(district, District::ORDERS, Intent::Write);
        let terms = transaction.get_part(customer, Customer::TERMS)?;
        let last = transaction.get_part(customer, Customer::LAST)?;
        let w_tax = transaction.get_part(warehouse, Warehouse::TAX)?;
        let orders = transaction.get(district, District::ORDERS)?;
        let next_o_id = orders.next_o_id.wrapping_add(1);
        transaction.put(district, District::ORDERS.then(DistrictOrders::NEXT_O_ID), &next_o_id)?;
        transaction.work(Work::Step, 2);
        Ok(HomeOutput { o_id: orders.next_o_id, w_tax, d_tax: orders.tax, terms, last })
    }

    /// Finds customer and warehouse without concurrency control.
    #[cold]
    fn find_unvalidated<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
    ) -> Result<(RowPart<Customer>, RowPart<Warehouse>), Abort> {
        let key = (self.w_id, self.d_id, self.c_id);
        let customer =
            transaction.find_unvalidated(tables.customer.primary(), &key)?.ok_or_else(row_missing)?;
        transaction.prefetch(customer, Customer::TERMS, Intent::Read);
        let warehouse =
            transaction.find_unvalidated(tables.warehouse.primary(), &self.w_id)?.ok_or_else(row_missing)?;
        transaction.prefetch(warehouse, Warehouse::TAX, Intent::Read);
        Ok((RowPart::new(customer, OF_CUSTOMER), RowPart::new(warehouse, OF_WAREHOUSE)))
    }
}

/// An order line to insert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InsertLine {
    /// OL_I_ID.
    pub i_id: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: u16,
    /// OL_QUANTITY.
    pub quantity: u8,
    /// OL_AMOUNT in cents.
    pub amount: i32,
    /// OL_DIST_INFO.
    pub dist_info: Text<24>,
}

/// The order to insert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insert {
    /// O_W_ID.
    pub w_id: u16,
    /// O_D_ID.
    pub d_id: u8,
    /// O_ID.
    pub o_id: u32,
    /// O_C_ID.
    pub c_id: u16,
    /// O_ENTRY_D.
    pub entry: u64,
    /// O_ALL_LOCAL.
    pub all_local: bool,
    /// O_OL_CNT.
    pub line_count: u8,
    /// True if the rows enter indexes.
    pub indexed: bool,
    /// The lines in their order.
    pub lines: Vec<InsertLine>,
}

impl Insert {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        let key = (self.w_id, self.d_id, self.o_id);
        route.write(tables.order, &key);
        route.write(tables.new_order, &key);
        route.write(tables.order_line, &key);
    }

    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<(), Abort> {
        let (w_id, d_id, o_id) = (self.w_id, self.d_id, self.o_id);
        let order = rows::Order {
            w_id,
            d_id,
            o_id,
            line_count: self.line_count,
            entry: self.entry,
            c_id: self.c_id,
            carrier: 0,
            all_local: self.all_local,
        };
        let new_order = rows::NewOrder { w_id, d_id, o_id };
        let lines = (1..).zip(self.lines.iter()).map(|(number, line)| {
            let body = LineBody {
                delivery: 0,
                amount: line.amount,
                i_id: line.i_id,
                supply_w_id: line.supply_w_id,
                quantity: line.quantity,
            };
            OrderLine { w_id, d_id, number, o_id, body, dist_info: line.dist_info }
        });
        if !self.indexed {
            return make_unindexed(tables, transaction, &order, &new_order, lines);
        }
        transaction.insert(tables.order, &order)?;
        transaction.insert(tables.new_order, &new_order)?;
        transaction.insert_all(tables.order_line, lines)
    }
}

/// Inserts the rows of an order into no index, so that no transaction finds them.
#[cold]
fn make_unindexed<T: Verbs>(
    tables: &Tables,
    transaction: &mut T,
    order: &rows::Order,
    new_order: &rows::NewOrder,
    mut lines: impl Iterator<Item = OrderLine>,
) -> Result<(), Abort> {
    transaction.insert_unindexed(tables.order, order)?;
    transaction.insert_unindexed(tables.new_order, new_order)?;
    lines.try_for_each(|line| transaction.insert_unindexed(tables.order_line, &line))
}
