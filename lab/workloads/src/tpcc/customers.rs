//! The choice and the lookup of a customer by Payment and OrderStatus (clauses 2.5.1.2, 2.5.2.2,
//! 2.6.1.2, 2.6.2.2).

use std::ops::ControlFlow;

use boundary::{Direction, LookAhead, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Handle, Routes, Text};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::Customer;
use super::spec::{LAST_NAMES, Sizes};
use super::tables::Tables;
use super::values::{CUSTOMER_RUN, LAST_NAME_RUN, last_name, non_uniform};
use crate::workload::row_missing;
use terms::random::Random;

/// Customers of a district with one last name: 3 on average, so that this many rarely reallocate.
const NAMESAKES_EXPECTED: usize = 16;

/// A customer of a district.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Selection {
    /// By C_ID.
    Id(u16),
    /// By C_LAST: the middle one of the customers with this name, ordered by first name.
    LastName(Text<16>),
}

/// Draws a customer: 60 % by last name, 40 % by number.
pub(super) fn select(sizes: Sizes, random: &mut Random) -> Selection {
    if random.chance(60) {
        // The first customers have the names 0, 1, ..: with fewer customers than names only these
        // names are sure to exist.
        let names = LAST_NAMES.min(u64::from(sizes.customers));
        Selection::LastName(last_name(non_uniform(random, 255, LAST_NAME_RUN, 0, names - 1)))
    } else {
        Selection::Id(customer_id(sizes, random))
    }
}

/// Draws the C_ID of a transaction.
pub(super) fn customer_id(sizes: Sizes, random: &mut Random) -> u16 {
    non_uniform(random, 1023, CUSTOMER_RUN, 1, u64::from(sizes.customers)) as u16
}

/// The route of [`find`]: for a name all customers of the district, because the district precedes
/// the name in the index.
pub(super) fn route(
    tables: &Tables,
    w_id: u16,
    d_id: u8,
    selection: &Selection,
    intent: Intent,
    route: &mut Routes,
) {
    let customer = tables.customer;
    match selection {
        Selection::Id(c_id) => route.between(customer, &(w_id, d_id, *c_id), &(w_id, d_id, *c_id), intent),
        Selection::LastName(_) => route.between(customer, &(w_id, d_id), &(w_id, d_id), intent),
    }
}

/// Prefetches the customer for [`find`], if its number is known.
#[inline]
pub(super) fn look_ahead<L: LookAhead>(
    tables: &Tables,
    w_id: u16,
    d_id: u8,
    selection: &Selection,
    columns: ColumnSet<Customer>,
    ahead: &mut L,
) {
    if let Selection::Id(c_id) = selection {
        ahead.row(tables.customer.primary(), &(w_id, d_id, *c_id), columns);
    }
}

/// Finds the selected customer.
pub(super) fn find<T: Verbs>(
    tables: &Tables,
    transaction: &mut T,
    w_id: u16,
    d_id: u8,
    selection: &Selection,
    intent: Intent,
) -> Result<Handle<Customer>, Abort> {
    match selection {
        Selection::Id(c_id) => {
            let key = (w_id, d_id, *c_id);
            transaction.find(tables.customer.primary(), &key, intent)?.ok_or_else(row_missing)
        }
        Selection::LastName(last) => find_middle(tables, transaction, w_id, d_id, *last, intent),
    }
}

/// Finds number ceil(n/2) of the n customers with this name, ordered by first name.
fn find_middle<T: Verbs>(
    tables: &Tables,
    transaction: &mut T,
    w_id: u16,
    d_id: u8,
    last: Text<16>,
    intent: Intent,
) -> Result<Handle<Customer>, Abort> {
    let low = (w_id, d_id, last, Text::<16>::from_padded([0; 16]), 0u16);
    let high = (w_id, d_id, last, Text::<16>::from_padded([0xff; 16]), u16::MAX);
    let mut namesakes = Vec::with_capacity(NAMESAKES_EXPECTED);
    let index = tables.customer.index(Customer::BY_NAME);
    transaction.scan(index, &low, &high, Direction::Forward, intent, &mut |_, row| {
        namesakes.push(row);
        Ok(ControlFlow::Continue(()))
    })?;
    transaction.work(Work::Step, namesakes.len() as u32 + 1);
    let middle = namesakes.len().div_ceil(2).wrapping_sub(1);
    namesakes.get(middle).copied().ok_or_else(row_missing)
}
