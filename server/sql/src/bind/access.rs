//! The way to the rows of a table: by which index, and by which part of it.

use std::sync::Arc;

use crate::expr::{Comparison, Expr};
use crate::plan::{Points, TableScan};
use crate::schema::Table;
use crate::types::SqlType;

/// A condition on a column that an index can use.
enum Usable {
    Equal(Expr),
    Points(Points),
    Low(Expr, bool),
    High(Expr, bool),
}

/// A table within the rows of a query, and what is known before its rows are read.
pub struct Access<'a> {
    /// The table.
    pub table: &'a Arc<Table>,
    /// The first of its columns in the rows of the query.
    pub offset: usize,
    /// Columns of the query whose values are known.
    pub known: &'a dyn Fn(usize) -> bool,
}

impl Access<'_> {
    /// Returns the best scan for these conditions, and how good it is. Places of columns in its
    /// expressions are those of the query.
    pub fn best(&self, conditions: &[Expr]) -> (u32, TableScan) {
        let mut best: Option<(u32, TableScan)> = None;
        for index in 0..self.table.indexes.len() {
            let (score, scan) = self.by_index(index, conditions);
            if best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, scan));
            }
        }
        best.unwrap_or_else(|| (0, self.scan(0)))
    }

    fn scan(&self, index: usize) -> TableScan {
        TableScan {
            table: Arc::clone(self.table),
            index,
            equal: Vec::new(),
            points: None,
            low: None,
            high: None,
            reverse: false,
            for_update: false,
            filter: None,
            rows_hint: None,
        }
    }

    fn by_index(&self, index: usize, conditions: &[Expr]) -> (u32, TableScan) {
        let description = &self.table.description.indexes()[index];
        let (mut scan, mut score) = (self.scan(index), 0);
        for (place, column) in description.columns.iter().enumerate() {
            let usable: Vec<_> =
                conditions.iter().filter_map(|condition| self.usable(*column, condition)).collect();
            let equal = usable.iter().find_map(|usable| match usable {
                Usable::Equal(value) => Some(value.clone()),
                _ => None,
            });
            if let Some(value) = equal {
                scan.equal.push(value);
                score += 100;
                continue;
            }
            let is_descending = description.orders[place].descending;
            for usable in usable {
                match usable {
                    Usable::Points(points) => {
                        (scan.points, scan.low, scan.high) = (Some(points), None, None);
                        score += 60;
                        break;
                    }
                    // Ranges of nulls, and those of descending columns, are left to the filter.
                    Usable::Low(value, included) if scan.low.is_none() && !is_descending => {
                        scan.low = Some((value, included));
                        score += 20;
                    }
                    Usable::High(value, included) if scan.high.is_none() && !is_descending => {
                        scan.high = Some((value, included));
                        score += 20;
                    }
                    _ => {}
                }
            }
            break;
        }
        let own = self.table.indexes[index].columns.len();
        if scan.equal.len() >= own && self.table.indexes[index].unique {
            score += 1000;
        }
        // Of two that are equally good the primary key.
        (if score > 0 { 2 * score + u32::from(index == 0) } else { u32::from(index == 0) }, scan)
    }

    /// Returns what a condition says of a column of the table.
    fn usable(&self, column: usize, condition: &Expr) -> Option<Usable> {
        let own = Expr::Column(self.offset + column);
        let fits = |value: &Expr| self.is_known(value);
        match condition {
            Expr::Compare(comparison, left, right) => {
                let (comparison, value) = if **left == own && fits(right) {
                    (*comparison, &**right)
                } else if **right == own && fits(left) {
                    (comparison.exchanged(), &**left)
                } else {
                    return None;
                };
                let value = self.value_of(column, value.clone())?;
                Some(match comparison {
                    Comparison::Equal => Usable::Equal(value),
                    Comparison::AtLeast => Usable::Low(value, true),
                    Comparison::More => Usable::Low(value, false),
                    Comparison::AtMost => Usable::High(value, true),
                    Comparison::Less => Usable::High(value, false),
                    Comparison::Differs => return None,
                })
            }
            Expr::InList(left, list) if **left == own && list.iter().all(fits) => {
                let list = list.iter().map(|value| self.value_of(column, value.clone()));
                Some(Usable::Points(Points::List(list.collect::<Option<_>>()?)))
            }
            Expr::Quantified(Comparison::Equal, left, array, false) if **left == own && fits(array) => {
                Some(Usable::Points(Points::Array((**array).clone())))
            }
            // A truth value is its own condition.
            Expr::Column(_) if *condition == own => Some(Usable::Equal(Expr::truth(true))),
            Expr::Not(of) if **of == own => Some(Usable::Equal(Expr::truth(false))),
            _ => None,
        }
    }

    /// Returns true if all columns of an expression are known, and it has one value for all rows.
    fn is_known(&self, value: &Expr) -> bool {
        let mut known = true;
        value.columns(&mut |place| known = known && (self.known)(place));
        let is_fickle = |part: &Expr| match part {
            Expr::Call(function, _) => {
                matches!(function.name, "random" | "nextval" | "clock_timestamp" | "gen_random_uuid")
            }
            _ => false,
        };
        known && !value.has(&is_fickle)
    }

    /// Returns a value with which a column is compared, if the index compares such values.
    fn value_of(&self, column: usize, value: Expr) -> Option<Expr> {
        match self.table.columns.get(column).map(|column| &column.kind) {
            // Texts padded with blanks compare without them.
            Some(SqlType::Char(_)) if !matches!(value, Expr::Constant(_) | Expr::Param(_)) => None,
            _ => Some(value),
        }
    }
}
