//! The initial population (clause 4.3.3.1). Part `i` is warehouse `i + 1`; part 0 contains the
//! items, too.

use schema::{Loader, Text};
use terms::Abort;

use super::rows::{
    Address, Customer, CustomerAccount, CustomerDetails, CustomerTerms, District, DistrictOrders, History,
    Item, ItemBody, LineBody, NewOrder, Order, OrderLine, Stock, StockLevels, Warehouse, WarehouseTotals,
};
use super::spec::{DISTRICTS, LAST_NAMES, LINES_MAX, LINES_MEAN, Sizes};
use super::tables::Tables;
use super::values::{LAST_NAME_LOAD, data, digits, last_name, letters, non_uniform, permutation, zip};
use terms::random::Random;

/// The date of all initial rows: before any transaction, and not null.
const LOAD_DATE: u64 = 1;
/// Initial payment of each customer, in cents.
const FIRST_PAYMENT: i32 = 1000;
/// C_CREDIT_LIM in cents.
const CREDIT_LIMIT: i64 = 5_000_000;

/// Number of rows of a part, with the mean number of order lines.
pub(super) fn rows(sizes: Sizes, part: usize) -> u64 {
    let districts = u64::from(DISTRICTS);
    // A customer, its history, its order and the order's lines.
    let customers = u64::from(sizes.customers) * (3 + LINES_MEAN) + u64::from(sizes.new_orders);
    let items = if part == 0 { u64::from(sizes.items) } else { 0 };
    items + 1 + u64::from(sizes.items) + districts * (1 + customers)
}

/// Loads one part.
pub(super) fn load<L: Loader>(
    sizes: Sizes,
    tables: &Tables,
    part: usize,
    random: &mut Random,
    loader: &mut L,
) -> Result<(), Abort> {
    let mut population = Population { sizes, tables, w_id: part as u16 + 1, random, loader, histories: 0 };
    if part == 0 {
        population.items()?;
    }
    population.warehouse()?;
    population.stocks()?;
    for d_id in 1..=DISTRICTS {
        population.district(d_id)?;
        population.customers(d_id)?;
        population.orders(d_id)?;
    }
    Ok(())
}

/// Loads the items, as part 0 does.
pub(super) fn load_items<L: Loader>(
    sizes: Sizes,
    tables: &Tables,
    random: &mut Random,
    loader: &mut L,
) -> Result<(), Abort> {
    Population { sizes, tables, w_id: 1, random, loader, histories: 0 }.items()
}

struct Population<'a, L> {
    sizes: Sizes,
    tables: &'a Tables,
    w_id: u16,
    random: &'a mut Random,
    loader: &'a mut L,
    histories: u32,
}

impl<L: Loader> Population<'_, L> {
    fn items(&mut self) -> Result<(), Abort> {
        for i_id in 1..=self.sizes.items {
            let image = self.random.between(1, 10_000) as u16;
            let body = ItemBody {
                name: letters(self.random, 14, 24),
                price: self.random.between(100, 10_000) as i32,
            };
            let data = self.data();
            self.loader.insert(self.tables.item, &Item { i_id, body, data, image })?;
        }
        Ok(())
    }

    fn warehouse(&mut self) -> Result<(), Abort> {
        let customers = i64::from(DISTRICTS) * i64::from(self.sizes.customers);
        let row = Warehouse {
            w_id: self.w_id,
            tax: self.random.between(0, 2000) as u16,
            totals: WarehouseTotals { ytd: customers * i64::from(FIRST_PAYMENT), payments: 0 },
            name: letters(self.random, 6, 10),
            address: self.address(),
        };
        self.loader.insert(self.tables.warehouse, &row)
    }

    fn stocks(&mut self) -> Result<(), Abort> {
        for i_id in 1..=self.sizes.items {
            let quantity = self.random.between(10, 100) as i32;
            let row = Stock {
                w_id: self.w_id,
                i_id,
                levels: StockLevels { quantity, ytd: 0, order_count: 0, remote_count: 0 },
                data: self.data(),
                unused: [0; 6],
                dist: std::array::from_fn(|_| self.dist_info()),
            };
            self.loader.insert(self.tables.stock, &row)?;
        }
        Ok(())
    }

    fn district(&mut self, d_id: u8) -> Result<(), Abort> {
        let tax = self.random.between(0, 2000) as u16;
        let row = District {
            w_id: self.w_id,
            d_id,
            orders: DistrictOrders { tax, next_o_id: u32::from(self.sizes.customers) + 1 },
            ytd: i64::from(self.sizes.customers) * i64::from(FIRST_PAYMENT),
            name: letters(self.random, 6, 10),
            address: self.address(),
        };
        self.loader.insert(self.tables.district, &row)
    }

    fn customers(&mut self, d_id: u8) -> Result<(), Abort> {
        for c_id in 1..=self.sizes.customers {
            let customer = self.customer(d_id, c_id);
            self.loader.insert(self.tables.customer, &customer)?;
            self.histories += 1;
            let history = History {
                w_id: self.w_id,
                stream: History::LOADED,
                sequence: self.histories,
                date: LOAD_DATE,
                amount: FIRST_PAYMENT,
                c_w_id: self.w_id,
                c_id,
                c_d_id: d_id,
                d_id,
                data: letters(self.random, 12, 24),
            };
            self.loader.insert(self.tables.history, &history)?;
        }
        Ok(())
    }

    fn customer(&mut self, d_id: u8, c_id: u16) -> Customer {
        let number = u64::from(c_id) - 1;
        let name = if number < LAST_NAMES {
            number
        } else {
            non_uniform(self.random, 255, LAST_NAME_LOAD, 0, LAST_NAMES - 1)
        };
        let bad = self.random.below(10) == 0;
        let credit = Text::from_padded(if bad { *b"BC" } else { *b"GC" });
        Customer {
            w_id: self.w_id,
            d_id,
            c_id,
            terms: CustomerTerms { discount: self.random.between(0, 5000) as u16, credit },
            last: last_name(name),
            middle: Text::from_padded(*b"OE"),
            account: CustomerAccount {
                balance: -i64::from(FIRST_PAYMENT),
                ytd_payment: i64::from(FIRST_PAYMENT),
                payment_count: 1,
                delivery_count: 0,
            },
            first: letters(self.random, 8, 16),
            details: self.details(),
            data: if self.sizes.long_attributes { letters(self.random, 300, 500) } else { Text::default() },
        }
    }

    fn details(&mut self) -> CustomerDetails {
        if !self.sizes.long_attributes {
            return CustomerDetails::default();
        }
        CustomerDetails {
            address: self.address(),
            phone: digits(self.random),
            since: LOAD_DATE,
            credit_limit: CREDIT_LIMIT,
        }
    }

    /// I_DATA or S_DATA.
    fn data(&mut self) -> Text<50> {
        if self.sizes.long_attributes { data(self.random) } else { Text::default() }
    }

    /// S_DIST_xx or OL_DIST_INFO.
    fn dist_info(&mut self) -> Text<24> {
        if self.sizes.long_attributes { letters(self.random, 24, 24) } else { Text::default() }
    }

    fn orders(&mut self, d_id: u8) -> Result<(), Abort> {
        let customers = permutation(self.random, self.sizes.customers);
        for (o_id, c_id) in (1..).zip(customers) {
            let delivered = o_id <= u32::from(self.sizes.delivered());
            let line_count = self.random.between(5, LINES_MAX as u64) as u8;
            let carrier = if delivered { self.random.between(1, 10) as u8 } else { 0 };
            let w_id = self.w_id;
            let entry = LOAD_DATE;
            let order = Order { w_id, d_id, line_count, o_id, entry, c_id, carrier, all_local: true };
            self.loader.insert(self.tables.order, &order)?;
            if !delivered {
                self.loader.insert(self.tables.new_order, &NewOrder { w_id, d_id, o_id })?;
            }
            for number in 1..=line_count {
                let body = LineBody {
                    delivery: if delivered { entry } else { 0 },
                    amount: if delivered { 0 } else { self.random.between(1, 999_999) as i32 },
                    i_id: self.random.between(1, u64::from(self.sizes.items)) as u32,
                    supply_w_id: w_id,
                    quantity: 5,
                };
                let dist_info = self.dist_info();
                let line = OrderLine { w_id, d_id, number, o_id, body, dist_info };
                self.loader.insert(self.tables.order_line, &line)?;
            }
        }
        Ok(())
    }

    fn address(&mut self) -> Address {
        Address {
            street_1: letters(self.random, 10, 20),
            street_2: letters(self.random, 10, 20),
            city: letters(self.random, 10, 20),
            state: letters(self.random, 2, 2),
            zip: zip(self.random),
        }
    }
}
