//! The catalog of TPC-C: nine tables, partitioned by warehouse except item, which is only read.
//!
//! The number of warehouses, districts, customers, stocks and items does not change, and their keys
//! are dense: a perfect hash ([`dense`]) places each row's entry without a collision.

use schema::{HashPlan, IndexKind, Partitioning, Schema, Table, TableOptions};

use super::rows::{Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse};
use super::spec::{DISTRICTS, LINES_MEAN, Sizes};
use super::written::Written;
use crate::dense;

/// The tables.
#[derive(Clone, Copy)]
pub struct Tables {
    /// WAREHOUSE.
    pub warehouse: Table<Warehouse>,
    /// DISTRICT.
    pub district: Table<District>,
    /// CUSTOMER.
    pub customer: Table<Customer>,
    /// HISTORY.
    pub history: Table<History>,
    /// NEW-ORDER.
    pub new_order: Table<NewOrder>,
    /// ORDER.
    pub order: Table<Order>,
    /// ORDER-LINE.
    pub order_line: Table<OrderLine>,
    /// ITEM.
    pub item: Table<Item>,
    /// STOCK.
    pub stock: Table<Stock>,
}

/// Declares all tables, for transactions that write these columns.
pub(super) fn create(warehouses: u16, sizes: Sizes, written: Written, schema: &mut impl Schema) -> Tables {
    let hash = |number| vec![IndexKind::Hash(HashPlan::Dense(number))];
    let options = |rows_per_warehouse: u64, kinds| TableOptions {
        rows: rows_per_warehouse * u64::from(warehouses),
        partitioning: Some(Partitioning { first: 1, count: warehouses }),
        kinds,
        ..TableOptions::default()
    };
    let [of_warehouse, of_district, of_customer] = written.constant();
    let with = |constant, options| TableOptions { constant, ..options };
    let districts = u64::from(DISTRICTS);
    let customers = districts * u64::from(sizes.customers);
    let new_orders = districts * u64::from(sizes.new_orders);
    let lines = customers * LINES_MEAN;
    let items = u64::from(sizes.items);
    let item =
        TableOptions { rows: items, kinds: hash(item_number), read_only: true, ..TableOptions::default() };
    Tables {
        warehouse: schema.table("warehouse", with(of_warehouse, options(1, hash(dense::single)))),
        district: schema.table("district", with(of_district, options(districts, hash(dense::byte)))),
        customer: schema.table("customer", with(of_customer, options(customers, hash(customer_number)))),
        history: schema.table("history", options(customers, Vec::new())),
        new_order: schema.table("new_order", options(new_orders, Vec::new())),
        order: schema.table("order", options(customers, Vec::new())),
        order_line: schema.table("order_line", options(lines, Vec::new())),
        item: schema.table("item", item),
        stock: schema.table("stock", options(items, hash(dense::word))),
    }
}

/// Key: 16 bits of w_id, 8 of d_id, 16 of c_id. Customers of all districts alternate: dense for any
/// number of customers.
fn customer_number(key: u64) -> u64 {
    let customer = ((key >> 24) & 0xffff).wrapping_sub(1);
    customer.wrapping_mul(u64::from(DISTRICTS)).wrapping_add(dense::byte(key))
}

/// Key: 32 bits of i_id.
fn item_number(key: u64) -> u64 {
    (key >> 32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::key_word;

    #[test]
    fn perfect_hashes_are_dense() {
        assert_eq!(item_number(key_word(&100_000u32)), 99_999);
        let mut seen = vec![false; 10 * 300];
        for (d_id, c_id) in (1..=10u8).flat_map(|d_id| (1..=300u16).map(move |c_id| (d_id, c_id))) {
            let number = customer_number(key_word(&(65_535u16, d_id, c_id))) as usize;
            assert!(!std::mem::replace(&mut seen[number], true));
        }
    }
}
