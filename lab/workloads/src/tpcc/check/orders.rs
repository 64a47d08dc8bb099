//! The orders of a district with their new_order rows and order lines, window by window.

use schema::Inspector;

use super::super::rows::District;
use super::super::spec::Sizes;
use super::super::tables::Tables;
use super::findings::Findings;

/// Orders of a district that are read together.
pub(super) const WINDOW: u32 = 4096;

/// Sums over the orders of a district.
pub(super) struct DistrictOrders {
    /// Number of orders.
    pub count: u64,
    /// Highest O_ID; 0 without orders.
    pub last: u32,
    /// Number of new orders.
    pub undelivered: u64,
    /// Lowest NO_O_ID.
    pub first_undelivered: u32,
    /// Highest NO_O_ID.
    pub last_undelivered: u32,
    /// Sum of O_OL_CNT.
    pub announced_lines: u64,
    /// Number of order lines.
    pub lines: u64,
    /// By customer: sum of OL_AMOUNT of delivered lines.
    pub delivered_amounts: Vec<i64>,
}

/// One order of the window.
struct WindowOrder {
    o_id: u32,
    c_id: u16,
    announced_lines: u8,
    carrier: u8,
    lines: u32,
    new_order: bool,
}

/// Finds the order `o_id` from `cursor` on: rows are read in ascending order.
fn advance<'a>(orders: &'a mut [WindowOrder], cursor: &mut usize, o_id: u32) -> Option<&'a mut WindowOrder> {
    while orders.get(*cursor).is_some_and(|order| order.o_id < o_id) {
        *cursor += 1;
    }
    orders.get_mut(*cursor).filter(|order| order.o_id == o_id)
}

/// Reads all orders of a district, and checks the conditions on single orders: 5, 6 and 7.
pub(super) fn read_orders(
    tables: &Tables,
    sizes: Sizes,
    district: &District,
    inspector: &mut impl Inspector,
    findings: &mut Findings,
) -> DistrictOrders {
    let mut totals = DistrictOrders {
        count: 0,
        last: 0,
        undelivered: 0,
        first_undelivered: 0,
        last_undelivered: 0,
        announced_lines: 0,
        lines: 0,
        delivered_amounts: vec![0; usize::from(sizes.customers)],
    };
    let mut orders = Vec::new();
    let mut low = 0;
    loop {
        // The last window also includes rows beyond D_NEXT_O_ID, which should not exist.
        let end = low + (WINDOW - 1);
        let last = end >= district.orders.next_o_id || end > u32::MAX - WINDOW;
        let range = (low, if last { u32::MAX } else { end });
        Window { tables, district, range }.read(&mut orders, &mut totals, inspector, findings);
        if last {
            return totals;
        }
        low = end + 1;
    }
}

/// Orders with O_ID in `range`, both included.
struct Window<'a> {
    tables: &'a Tables,
    district: &'a District,
    range: (u32, u32),
}

impl Window<'_> {
    fn read(
        &self,
        orders: &mut Vec<WindowOrder>,
        totals: &mut DistrictOrders,
        inspector: &mut impl Inspector,
        findings: &mut Findings,
    ) {
        let (w_id, d_id) = (self.district.w_id, self.district.d_id);
        let (low, high) = ((w_id, d_id, self.range.0), (w_id, d_id, self.range.1));
        orders.clear();
        inspector.scan(self.tables.order.primary(), &low, &high, &mut |row| {
            totals.count += 1;
            totals.last = row.o_id;
            totals.announced_lines += u64::from(row.line_count);
            orders.push(WindowOrder {
                o_id: row.o_id,
                c_id: row.c_id,
                announced_lines: row.line_count,
                carrier: row.carrier,
                lines: 0,
                new_order: false,
            });
        });
        let mut cursor = 0;
        inspector.scan(self.tables.new_order.primary(), &low, &high, &mut |row| {
            if totals.undelivered == 0 {
                totals.first_undelivered = row.o_id;
            }
            totals.undelivered += 1;
            totals.last_undelivered = row.o_id;
            let order = advance(orders, &mut cursor, row.o_id);
            findings.expect(5, order.is_some(), || {
                format!("{}: NEW-ORDER has a row, ORDER has none", self.place(row.o_id))
            });
            if let Some(order) = order {
                order.new_order = true;
            }
        });
        self.lines(orders, totals, inspector, findings);
        for order in orders.iter() {
            self.check_order(order, findings);
        }
    }

    fn lines(
        &self,
        orders: &mut [WindowOrder],
        totals: &mut DistrictOrders,
        inspector: &mut impl Inspector,
        findings: &mut Findings,
    ) {
        let (w_id, d_id) = (self.district.w_id, self.district.d_id);
        let low = (w_id, d_id, self.range.0, 0u8);
        let high = (w_id, d_id, self.range.1, u8::MAX);
        let mut cursor = 0;
        inspector.scan(self.tables.order_line.primary(), &low, &high, &mut |row| {
            totals.lines += 1;
            let delivered = row.body.delivery != 0;
            let order = advance(orders, &mut cursor, row.o_id);
            findings.expect(7, order.is_some(), || {
                format!("{} line {}: there is no such order", self.place(row.o_id), row.number)
            });
            let Some(order) = order else { return };
            order.lines += 1;
            findings.expect(7, delivered == (order.carrier != 0), || {
                format!(
                    "{} line {}: OL_DELIVERY_D is {}, O_CARRIER_ID {}",
                    self.place(row.o_id),
                    row.number,
                    null_or(row.body.delivery),
                    null_or(u64::from(order.carrier))
                )
            });
            let customer = usize::from(order.c_id).checked_sub(1);
            let sum = customer.and_then(|customer| totals.delivered_amounts.get_mut(customer));
            if let Some(sum) = sum.filter(|_| delivered) {
                *sum += i64::from(row.body.amount);
            }
        });
    }

    fn check_order(&self, order: &WindowOrder, findings: &mut Findings) {
        findings.expect(5, (order.carrier == 0) == order.new_order, || {
            format!(
                "{}: O_CARRIER_ID is {}, but NEW-ORDER has {}",
                self.place(order.o_id),
                null_or(u64::from(order.carrier)),
                if order.new_order { "a row" } else { "no row" }
            )
        });
        findings.expect(6, u32::from(order.announced_lines) == order.lines, || {
            format!(
                "{}: O_OL_CNT is {}, but there are {} order lines",
                self.place(order.o_id),
                order.announced_lines,
                order.lines
            )
        });
    }

    fn place(&self, o_id: u32) -> String {
        format!("warehouse {} district {} order {o_id}", self.district.w_id, self.district.d_id)
    }
}

fn null_or(value: u64) -> String {
    if value == 0 { "null".to_string() } else { value.to_string() }
}
