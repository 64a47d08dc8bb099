//! Orders that an index gives.

use crate::expr::Expr;
use crate::plan::{Plan, SortKey, TableScan};

/// Sorts rows, unless an index gives them in this order.
pub fn ordered_plan(mut plan: Plan, order: &[SortKey], may_use_index: bool) -> Plan {
    if order.is_empty() || (may_use_index && ordered_by_index(&mut plan, order)) {
        return plan;
    }
    Plan::Sort(Box::new(plan), order.to_vec())
}

/// Returns true if a plan reads one table by an index that has this order, perhaps after a change
/// of the index or the direction.
fn ordered_by_index(plan: &mut Plan, order: &[SortKey]) -> bool {
    match plan {
        Plan::Filter(input, _) => ordered_by_index(input, order),
        Plan::Scan(scan) => {
            let is_whole = scan.equal.is_empty() && scan.low.is_none() && scan.high.is_none();
            if scan.points.is_some() {
                return false;
            }
            let indexes = if is_whole { 0..scan.table.indexes.len() } else { scan.index..scan.index + 1 };
            for index in indexes {
                if let Some(reverse) = direction(scan, index, order) {
                    (scan.index, scan.reverse) = (index, reverse);
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

/// Returns true for backwards if an index has the order in one of both directions.
fn direction(scan: &TableScan, index: usize, order: &[SortKey]) -> Option<bool> {
    let description = &scan.table.description.indexes()[index];
    let mut own = description.columns.iter().zip(&description.orders).enumerate();
    let mut reverse = None;
    for key in order {
        let Expr::Column(column) = key.expr else { return None };
        // Columns with one value do not matter.
        let (_, (_, own_order)) = own
            .find(|(place, (own, _))| **own == column || *place >= scan.equal.len())
            .filter(|(_, (own, _))| **own == column)?;
        let nullable = scan.table.description.columns()[column].nullable;
        let is_forward =
            own_order.descending == key.descending && (!nullable || own_order.nulls_first == key.nulls_first);
        let is_backward =
            own_order.descending != key.descending && (!nullable || own_order.nulls_first != key.nulls_first);
        let this = if is_forward {
            false
        } else if is_backward {
            true
        } else {
            return None;
        };
        if reverse.is_some_and(|reverse| reverse != this) {
            return None;
        }
        reverse = Some(this);
    }
    reverse
}

/// Tells a scan how many rows are needed, if no operator above it leaves rows out.
pub fn hint_rows(plan: &mut Plan, rows: usize) {
    match plan {
        Plan::Project(input, _) => hint_rows(input, rows),
        Plan::Scan(scan) if scan.filter.is_none() => scan.rows_hint = Some(rows.clamp(1, 256)),
        _ => {}
    }
}
