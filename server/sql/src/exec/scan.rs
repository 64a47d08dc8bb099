//! Rows of a table, by an index.

use std::collections::VecDeque;
use std::ops::Bound;

use isles::{Datum, DescribedScan};

use crate::error::Result;
use crate::exec::{Exec, Row};
use crate::plan::{Points, TableScan};

/// Rows that are read together: first few, then more.
const ROWS_FIRST: usize = 8;
const ROWS_MOST: usize = 256;

/// State of a scan.
#[derive(Default)]
pub struct ScanState {
    /// Ranges that follow; `None` before the first row.
    ranges: Option<VecDeque<DescribedScan>>,
    /// Rows that were read.
    read: VecDeque<Row>,
    /// Rows of the next read.
    batch: usize,
}

impl ScanState {
    /// Returns the next row.
    pub fn next(&mut self, scan: &TableScan, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        if self.ranges.is_none() {
            self.ranges = Some(ranges(scan, x)?);
            self.batch = scan.rows_hint.unwrap_or(ROWS_FIRST);
        }
        loop {
            while let Some(row) = self.read.pop_front() {
                let holds = match &scan.filter {
                    Some(filter) => filter.holds(&row, x)?,
                    None => true,
                };
                if holds {
                    return Ok(Some(row));
                }
            }
            let Some(range) = self.ranges.as_mut().and_then(VecDeque::front_mut) else { return Ok(None) };
            x.check()?;
            self.read = x.next_rows(&scan.table, range, self.batch)?.into();
            if self.read.len() < self.batch {
                self.ranges.as_mut().map(VecDeque::pop_front);
            }
            self.batch = (2 * self.batch).clamp(ROWS_FIRST, ROWS_MOST);
        }
    }
}

/// Returns the ranges that a scan reads, one after the other.
fn ranges(scan: &TableScan, x: &mut Exec<'_, '_>) -> Result<VecDeque<DescribedScan>> {
    let values = scan.equal.iter().map(|value| value.eval(&[], x)).collect::<Result<Vec<_>>>()?;
    // Nothing is equal to null.
    if values.contains(&Datum::Null) {
        return Ok(VecDeque::new());
    }
    let range = || {
        let range = DescribedScan::new(scan.table.engine.as_str(), scan.index);
        let range = if scan.reverse { range.reverse() } else { range };
        if scan.for_update { range.for_update() } else { range }
    };
    let key = |last: Datum| values.iter().cloned().chain([last]).collect::<Vec<_>>();
    if let Some(points) = &scan.points {
        let mut points = match points {
            Points::List(list) => list.iter().map(|value| value.eval(&[], x)).collect::<Result<Vec<_>>>()?,
            Points::Array(array) => match array.eval(&[], x)? {
                Datum::List(members) => members,
                _ => Vec::new(),
            },
        };
        points.retain(|point| *point != Datum::Null);
        points.sort_by(crate::value::compare);
        points.dedup_by(|left, right| crate::value::compare(left, right).is_eq());
        if scan.reverse {
            points.reverse();
        }
        let point = |value: Datum| {
            let key = key(value);
            range().low(Bound::Included(key.clone())).high(Bound::Included(key))
        };
        return Ok(points.into_iter().map(point).collect());
    }
    let mut bound = |end: &Option<(crate::expr::Expr, bool)>| match end {
        None if values.is_empty() => Ok(Some(Bound::Unbounded)),
        None => Ok(Some(Bound::Included(values.clone()))),
        Some((value, included)) => match value.eval(&[], x)? {
            Datum::Null => Ok(None),
            value if *included => Ok(Some(Bound::Included(key(value)))),
            value => Ok::<_, crate::error::SqlError>(Some(Bound::Excluded(key(value)))),
        },
    };
    let (Some(low), Some(high)) = (bound(&scan.low)?, bound(&scan.high)?) else {
        return Ok(VecDeque::new());
    };
    Ok([range().low(low).high(high)].into())
}
