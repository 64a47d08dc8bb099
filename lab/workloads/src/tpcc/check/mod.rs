//! The consistency conditions 3.3.2.1 to 3.3.2.12 (clause 3.3.2).
//!
//! Each warehouse is read once, order by order in windows of `orders::WINDOW`, so that memory does
//! not grow with the number of orders. Conditions 8 to 10 sum history. It contains a customer's
//! payments in the partition of the warehouse that took them, so all of history is read once for
//! each `GROUP` of warehouses.
//!
//! The scaled population replaces the standard's initial one: condition 11 has the number of
//! initially delivered orders instead of 2100, and adds the later deliveries, which C_DELIVERY_CNT
//! counts.

use schema::Inspector;

use super::rows::{Customer, District, Warehouse};
use super::spec::{DISTRICTS, Tpcc};
use super::tables::Tables;
use crate::workload::{Check, Outcome};

mod findings;
mod orders;

use findings::Findings;
use orders::{DistrictOrders, read_orders};

/// Names of the conditions.
pub const CONDITIONS: [&str; 12] = [
    "tpcc_3_3_2_1",
    "tpcc_3_3_2_2",
    "tpcc_3_3_2_3",
    "tpcc_3_3_2_4",
    "tpcc_3_3_2_5",
    "tpcc_3_3_2_6",
    "tpcc_3_3_2_7",
    "tpcc_3_3_2_8",
    "tpcc_3_3_2_9",
    "tpcc_3_3_2_10",
    "tpcc_3_3_2_11",
    "tpcc_3_3_2_12",
];

/// Conditions on rows that are not inserted when inserts are off.
const NEED_INSERTS: [usize; 4] = [2, 8, 9, 10];
/// Conditions on rows that no check finds when inserted rows enter no index: all but those on rows
/// that are loaded and stay, and on delivered order lines, because no transaction delivers when
/// inserts enter no index.
const NEED_INDEXES: std::ops::RangeInclusive<usize> = 2..=11;

/// Warehouses whose payments are summed in one pass over history: 240 KB each at the standard's
/// size.
const GROUP: u16 = 64;

/// Formats an amount in cents.
fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.unsigned_abs() / 100, cents.unsigned_abs() % 100)
}

/// Checks all conditions.
pub(super) fn check(tpcc: &Tpcc, tables: &Tables, inspector: &mut impl Inspector) -> Vec<Check> {
    let mut findings = Findings::default();
    let mut first = 1;
    while first <= tpcc.warehouses {
        let last = first.saturating_add(GROUP - 1).min(tpcc.warehouses);
        let payments = Payments::read(tpcc, tables, first, last, inspector, &mut findings);
        for w_id in first..=last {
            Warehouses { tpcc, tables, payments: &payments, w_id }.check(inspector, &mut findings);
        }
        let Some(next) = last.checked_add(1) else { break };
        first = next;
    }
    let checks = CONDITIONS.iter().zip(1..).map(|(name, condition)| {
        let result = if !tpcc.inserts && NEED_INSERTS.contains(&condition) {
            Outcome::NotApplicable("inserts are off".to_string())
        } else if tpcc.inserts && !tpcc.ways.index_inserts && NEED_INDEXES.contains(&condition) {
            Outcome::NotApplicable("inserted rows are in no index".to_string())
        } else {
            findings.outcome(condition)
        };
        Check { name, result }
    });
    checks.collect()
}

/// Sums of H_AMOUNT for the warehouses of a group.
struct Payments {
    first: u16,
    last: u16,
    customers: usize,
    /// By (H_W_ID, H_D_ID).
    by_district: Vec<i64>,
    /// By (H_C_W_ID, H_C_D_ID, H_C_ID).
    by_customer: Vec<i64>,
}

impl Payments {
    fn read(
        tpcc: &Tpcc,
        tables: &Tables,
        first: u16,
        last: u16,
        inspector: &mut impl Inspector,
        findings: &mut Findings,
    ) -> Self {
        let customers = usize::from(tpcc.sizes().customers);
        let districts = (usize::from(last - first) + 1) * usize::from(DISTRICTS);
        let mut payments = Payments {
            first,
            last,
            customers,
            by_district: vec![0; districts],
            by_customer: vec![0; districts * customers],
        };
        for w_id in 1..=tpcc.warehouses {
            let (low, high) = ((w_id, 0u16, 0u32), (w_id, u16::MAX, u32::MAX));
            inspector.scan(tables.history.primary(), &low, &high, &mut |row| {
                let amount = i64::from(row.amount);
                if let Some(place) = payments.district(row.w_id, row.d_id) {
                    payments.by_district[place] += amount;
                }
                if let Some(place) = payments.customer(row.c_w_id, row.c_d_id, row.c_id) {
                    payments.by_customer[place] += amount;
                }
                // Each row is read once for each group: the first one reports it.
                let known = (1..=DISTRICTS).contains(&row.c_d_id)
                    && (1..=tpcc.warehouses).contains(&row.c_w_id)
                    && (1..=customers).contains(&usize::from(row.c_id));
                findings.expect(10, known || first > 1, || {
                    format!(
                        "warehouse {w_id}: history row {}/{} names customer {} of district {} of warehouse {}, \
                         who does not exist",
                        row.stream, row.sequence, row.c_id, row.c_d_id, row.c_w_id
                    )
                });
            });
        }
        payments
    }

    fn district(&self, w_id: u16, d_id: u8) -> Option<usize> {
        let known = (self.first..=self.last).contains(&w_id) && (1..=DISTRICTS).contains(&d_id);
        known.then(|| usize::from(w_id - self.first) * usize::from(DISTRICTS) + usize::from(d_id) - 1)
    }

    fn customer(&self, w_id: u16, d_id: u8, c_id: u16) -> Option<usize> {
        let district = self.district(w_id, d_id)?;
        let number = usize::from(c_id).checked_sub(1).filter(|number| *number < self.customers)?;
        Some(district * self.customers + number)
    }
}

/// The check of one warehouse.
struct Warehouses<'a> {
    tpcc: &'a Tpcc,
    tables: &'a Tables,
    payments: &'a Payments,
    w_id: u16,
}

impl Warehouses<'_> {
    fn check(&self, inspector: &mut impl Inspector, findings: &mut Findings) {
        let w_id = self.w_id;
        let row: Option<Warehouse> = inspector.row(self.tables.warehouse.primary(), &w_id);
        findings.expect(1, row.is_some(), || format!("warehouse {w_id} does not exist"));
        let (mut districts_ytd, mut history) = (0i64, 0i64);
        for d_id in 1..=DISTRICTS {
            let row: Option<District> = inspector.row(self.tables.district.primary(), &(w_id, d_id));
            findings.expect(2, row.is_some(), || format!("warehouse {w_id}: district {d_id} does not exist"));
            history += self.payments.district(w_id, d_id).map_or(0, |place| self.payments.by_district[place]);
            if let Some(row) = row {
                districts_ytd += row.ytd;
                self.district(&row, inspector, findings);
            }
        }
        let Some(row) = row else { return };
        findings.expect(1, row.totals.ytd == districts_ytd, || {
            format!(
                "warehouse {w_id}: W_YTD is {}, the sum of D_YTD {}",
                money(row.totals.ytd),
                money(districts_ytd)
            )
        });
        findings.expect(8, row.totals.ytd == history, || {
            format!(
                "warehouse {w_id}: W_YTD is {}, the sum of H_AMOUNT {}",
                money(row.totals.ytd),
                money(history)
            )
        });
    }

    fn district(&self, row: &District, inspector: &mut impl Inspector, findings: &mut Findings) {
        let place = format!("warehouse {} district {}", self.w_id, row.d_id);
        let history =
            self.payments.district(self.w_id, row.d_id).map_or(0, |place| self.payments.by_district[place]);
        findings.expect(9, row.ytd == history, || {
            format!("{place}: D_YTD is {}, the sum of H_AMOUNT {}", money(row.ytd), money(history))
        });
        let orders = read_orders(self.tables, self.tpcc.sizes(), row, inspector, findings);
        let last = i64::from(row.orders.next_o_id) - 1;
        findings.expect(2, last == i64::from(orders.last), || {
            format!("{place}: D_NEXT_O_ID - 1 is {last}, the highest O_ID {}", orders.last)
        });
        let undelivered = orders.undelivered;
        findings.expect(2, undelivered == 0 || last == i64::from(orders.last_undelivered), || {
            format!("{place}: D_NEXT_O_ID - 1 is {last}, the highest NO_O_ID {}", orders.last_undelivered)
        });
        let range = match undelivered {
            0 => 0,
            _ => u64::from(orders.last_undelivered) - u64::from(orders.first_undelivered) + 1,
        };
        findings.expect(3, range == undelivered, || {
            format!("{place}: NO_O_ID spans {range} numbers, but there are {undelivered} rows")
        });
        findings.expect(4, orders.announced_lines == orders.lines, || {
            format!(
                "{place}: the sum of O_OL_CNT is {}, but there are {} order lines",
                orders.announced_lines, orders.lines
            )
        });
        self.customers(&place, row.d_id, &orders, inspector, findings);
    }

    fn customers(
        &self,
        place: &str,
        d_id: u8,
        orders: &DistrictOrders,
        inspector: &mut impl Inspector,
        findings: &mut Findings,
    ) {
        let mut deliveries = 0u64;
        for (c_id, delivered) in (1u16..).zip(&orders.delivered_amounts) {
            let key = (self.w_id, d_id, c_id);
            let row: Option<Customer> = inspector.row(self.tables.customer.primary(), &key);
            findings.expect(12, row.is_some(), || format!("{place}: customer {c_id} does not exist"));
            let Some(row) = row else { continue };
            let account = row.account;
            deliveries += u64::from(account.delivery_count);
            let paid = self
                .payments
                .customer(self.w_id, d_id, c_id)
                .map_or(0, |place| self.payments.by_customer[place]);
            let expected = delivered - paid;
            findings.expect(10, account.balance == expected, || {
                format!(
                    "{place} customer {c_id}: C_BALANCE is {}, the delivered OL_AMOUNT less H_AMOUNT {}",
                    money(account.balance),
                    money(expected)
                )
            });
            let spent = account.balance + account.ytd_payment;
            findings.expect(12, spent == *delivered, || {
                format!(
                    "{place} customer {c_id}: C_BALANCE + C_YTD_PAYMENT is {}, the delivered OL_AMOUNT {}",
                    money(spent),
                    money(*delivered)
                )
            });
        }
        let initially = u64::from(self.tpcc.sizes().delivered());
        findings.expect(11, orders.count == orders.undelivered + initially + deliveries, || {
            format!(
                "{place}: {} orders less {} new orders is not {initially} delivered in the beginning plus \
                 {deliveries} counted by C_DELIVERY_CNT",
                orders.count, orders.undelivered
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_full() {
        assert_eq!([0, 5, -5, 12_345, -100].map(money), ["0.00", "0.05", "-0.05", "123.45", "-1.00"]);
    }

    #[test]
    fn the_first_violation_is_told_and_the_others_counted() {
        let mut findings = Findings::default();
        for number in 0..3 {
            findings.expect(4, number == 0, || format!("number {number}"));
        }
        assert_eq!(findings.outcome(4), Outcome::Violated("number 1 (and 1 more)".to_string()));
        assert_eq!(findings.outcome(5), Outcome::Ok);
    }
}
