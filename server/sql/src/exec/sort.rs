//! Orders, and functions over windows.

use std::cmp::Ordering;

use isles::Datum;

use crate::error::Result;
use crate::exec::aggregate::Accumulator;
use crate::exec::{Exec, Row, all_rows};
use crate::plan::{Plan, SortKey, WindowCall, WindowFunction};
use crate::value::compare;

/// Order of two values of a column with an order of its own.
pub fn compare_in_order(left: &Datum, right: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (*left == Datum::Null, *right == Datum::Null) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) if descending => compare(right, left),
        (false, false) => compare(left, right),
    }
}

fn compare_keys(left: &[Datum], right: &[Datum], keys: &[SortKey]) -> Ordering {
    let columns = keys.iter().zip(left.iter().zip(right));
    let mut orders =
        columns.map(|(key, (left, right))| compare_in_order(left, right, key.descending, key.nulls_first));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn values_of(keys: &[SortKey], row: &[Datum], x: &mut Exec<'_, '_>) -> Result<Row> {
    keys.iter().map(|key| key.expr.eval(row, x)).collect()
}

/// Returns all rows of a plan in an order.
pub fn sorted(input: &Plan, keys: &[SortKey], x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let rows = all_rows(input, x)?;
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows {
        keyed.push((values_of(keys, &row, x)?, row));
    }
    keyed.sort_by(|(left, _), (right, _)| compare_keys(left, right, keys));
    Ok(keyed.into_iter().map(|(_, row)| row).collect())
}

/// Returns all rows of a plan with the results of functions over windows behind their columns.
pub fn windows(input: &Plan, calls: &[WindowCall], x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let mut rows = all_rows(input, x)?;
    for call in calls {
        let mut keyed = Vec::with_capacity(rows.len());
        for (number, row) in rows.iter().enumerate() {
            let partition = call.partition.iter().map(|value| value.eval(row, x)).collect::<Result<Row>>()?;
            keyed.push((partition, values_of(&call.order, row, x)?, number));
        }
        keyed.sort_by(|left, right| {
            crate::value::compare_rows(&left.0, &right.0)
                .then_with(|| compare_keys(&left.1, &right.1, &call.order))
        });
        let mut results = vec![Datum::Null; rows.len()];
        let mut start = 0;
        while start < keyed.len() {
            let is_same =
                |other: &(Row, Row, usize)| crate::value::compare_rows(&other.0, &keyed[start].0).is_eq();
            let end = start + keyed[start..].iter().take_while(|other| is_same(other)).count();
            of_partition(call, &keyed[start..end], &rows, &mut results, x)?;
            start = end;
        }
        rows.iter_mut().zip(results).for_each(|(row, result)| row.push(result));
    }
    Ok(rows)
}

/// Computes a function for the rows of a partition, which are in their order.
fn of_partition(
    call: &WindowCall,
    keyed: &[(Row, Row, usize)],
    rows: &[Row],
    results: &mut [Datum],
    x: &mut Exec<'_, '_>,
) -> Result<()> {
    let (mut first, mut dense, mut accumulator) = (0, 0, Accumulator::new());
    let mut start = 0;
    while start < keyed.len() {
        // Rows that are equal in order.
        let is_peer =
            |other: &(Row, Row, usize)| compare_keys(&other.1, &keyed[start].1, &call.order).is_eq();
        let peers = keyed[start..].iter().take_while(|other| is_peer(other)).count();
        first = start.max(first);
        dense += 1;
        if let WindowFunction::Aggregate(aggregate) = &call.function {
            for (_, _, number) in &keyed[start..start + peers] {
                accumulator.add(aggregate, &rows[*number], x)?;
            }
        }
        for (place, (_, _, number)) in keyed[start..start + peers].iter().enumerate() {
            results[*number] = match &call.function {
                WindowFunction::RowNumber => Datum::Signed((start + place + 1) as i64),
                WindowFunction::Rank => Datum::Signed((first + 1) as i64),
                WindowFunction::DenseRank => Datum::Signed(dense),
                WindowFunction::Aggregate(aggregate) => accumulator.finish(aggregate)?,
            };
        }
        start += peers;
    }
    Ok(())
}
