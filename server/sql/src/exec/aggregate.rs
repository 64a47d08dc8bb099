//! Groups and their aggregates.

use std::collections::{BTreeMap, BTreeSet};

use isles::Datum;

use crate::error::Result;
use crate::exec::{Exec, Node, Row};
use crate::functions::Aggregate;
use crate::plan::{AggregateCall, Grouping};
use crate::value::{self, Key, Operation, compare};

/// An aggregate under construction.
#[derive(Default)]
pub struct Accumulator {
    count: i64,
    sum: Option<Datum>,
    /// Values with the keys of their order, for functions that need all of them.
    values: Vec<(Row, Row)>,
    distinct: BTreeSet<Key>,
}

impl Accumulator {
    /// Returns an aggregate of no rows.
    pub fn new() -> Self {
        Accumulator::default()
    }

    /// Adds a row.
    pub fn add(&mut self, call: &AggregateCall, row: &[Datum], x: &mut Exec<'_, '_>) -> Result<()> {
        if let Some(filter) = &call.filter
            && !filter.holds(row, x)?
        {
            return Ok(());
        }
        let arguments = call.arguments.iter().map(|value| value.eval(row, x)).collect::<Result<Row>>()?;
        let first = arguments.first().cloned().unwrap_or(Datum::Bool(true));
        if first == Datum::Null && call.function.skips_null() {
            return Ok(());
        }
        if call.distinct {
            x.hold(&arguments)?;
            if !self.distinct.insert(Key(arguments.clone())) {
                return Ok(());
            }
        }
        self.count += 1;
        match &call.function {
            Aggregate::Count => {}
            Aggregate::Sum(kind) | Aggregate::Average(kind) => {
                self.sum = Some(match self.sum.take() {
                    Some(sum) => value::calculate(Operation::Add, &sum, &first, kind)?,
                    None => value::calculate(Operation::Add, &first, &kind_zero(&first), kind)?,
                });
            }
            Aggregate::Least | Aggregate::Greatest => {
                let is_least = call.function == Aggregate::Least;
                let is_better = self.sum.as_ref().is_none_or(|sum| {
                    let order = compare(&first, sum);
                    if is_least { order.is_lt() } else { order.is_gt() }
                });
                if is_better {
                    self.sum = Some(first);
                }
            }
            Aggregate::And | Aggregate::Or => {
                let and = call.function == Aggregate::And;
                let truth = first == Datum::Bool(true);
                let before = self.sum == Some(Datum::Bool(true));
                let joined = if self.count == 1 {
                    truth
                } else if and {
                    before && truth
                } else {
                    before || truth
                };
                self.sum = Some(Datum::Bool(joined));
            }
            Aggregate::Texts | Aggregate::Array => {
                let order =
                    call.order.iter().map(|(value, ..)| value.eval(row, x)).collect::<Result<Row>>()?;
                x.hold(&arguments)?;
                self.values.push((order, arguments));
            }
        }
        Ok(())
    }

    /// Returns the result.
    pub fn finish(&mut self, call: &AggregateCall) -> Result<Datum> {
        Ok(match &call.function {
            Aggregate::Count => Datum::Signed(self.count),
            Aggregate::Average(kind) => match &self.sum {
                Some(sum) => value::calculate(Operation::Divide, sum, &Datum::Signed(self.count), kind)?,
                None => Datum::Null,
            },
            Aggregate::Texts | Aggregate::Array if self.values.is_empty() => Datum::Null,
            Aggregate::Texts => {
                self.order(call);
                let mut joined = String::new();
                for (number, (_, arguments)) in self.values.iter().enumerate() {
                    if let (Datum::Text(separator), true) = (&arguments[1], number > 0) {
                        joined.push_str(separator);
                    }
                    if let Datum::Text(text) = &arguments[0] {
                        joined.push_str(text);
                    }
                }
                Datum::Text(joined)
            }
            Aggregate::Array => {
                self.order(call);
                let first = |(_, arguments): &(Row, Row)| arguments[0].clone();
                Datum::List(self.values.iter().map(first).collect())
            }
            _ => self.sum.clone().unwrap_or(Datum::Null),
        })
    }

    fn order(&mut self, call: &AggregateCall) {
        self.values.sort_by(|(left, _), (right, _)| {
            let columns = call.order.iter().zip(left.iter().zip(right));
            let mut orders = columns.map(|((_, descending, nulls_first), (left, right))| {
                super::sort::compare_in_order(left, right, *descending, *nulls_first)
            });
            orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
    }
}

/// Returns zero of the kind of a value.
fn kind_zero(of: &Datum) -> Datum {
    match of {
        Datum::Interval(_) => Datum::Interval(isles::Interval::ZERO),
        Datum::Float(_) => Datum::Float(0.0),
        _ => Datum::Signed(0),
    }
}

/// Returns a row for each group: the values of the groups, then those of the aggregates.
pub fn grouped(grouping: &Grouping, x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let mut groups: BTreeMap<Key, Vec<Accumulator>> = BTreeMap::new();
    let fresh = || grouping.aggregates.iter().map(|_| Accumulator::new()).collect::<Vec<_>>();
    if grouping.groups.is_empty() {
        groups.insert(Key(Vec::new()), fresh());
    }
    let mut input = Node::new(&grouping.input);
    while let Some(row) = input.next(&grouping.input, x)? {
        x.check()?;
        let key = grouping.groups.iter().map(|value| value.eval(&row, x)).collect::<Result<Row>>()?;
        let key = Key(key);
        if !groups.contains_key(&key) {
            x.hold(&key.0)?;
        }
        let accumulators = groups.entry(key).or_insert_with(fresh);
        for (accumulator, call) in accumulators.iter_mut().zip(&grouping.aggregates) {
            accumulator.add(call, &row, x)?;
        }
    }
    let finish = |(key, mut accumulators): (Key, Vec<Accumulator>)| {
        let mut row = key.0;
        for (accumulator, call) in accumulators.iter_mut().zip(&grouping.aggregates) {
            row.push(accumulator.finish(call)?);
        }
        Ok(row)
    };
    groups.into_iter().map(finish).collect()
}
