//! Execution: each operator gives its rows one by one.

mod aggregate;
mod join;
mod scan;
mod sort;
mod verbs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use isles::{Datum, Transaction};

use crate::context::Context;
use crate::error::{Result, SqlError, state};
use crate::plan::{Combination, Limit, Plan, Recursion, SetOperation};
use crate::value::Key;

pub use aggregate::Accumulator;

/// A row.
pub type Row = Vec<Datum>;

/// Bytes that a statement may keep.
const MEMORY_MAX: usize = 1 << 28;
/// Rows between two looks at whether the statement was cancelled.
const ROWS_PER_CHECK: u32 = 256;
/// Most rounds of a recursive query.
const ROUNDS_MAX: usize = 1 << 20;

/// All that expressions and operators need while they run.
pub struct Exec<'a, 't> {
    /// The transaction of the engine.
    pub transaction: &'a mut Transaction<'t>,
    /// The parameters of the statement.
    pub params: &'a [Datum],
    /// Values that outer queries have left for inner ones.
    pub slots: &'a mut Vec<Datum>,
    /// The session.
    pub context: &'a mut Context,
    /// Rows of queries that are executed once.
    pub common: &'a mut BTreeMap<usize, Rc<Vec<Row>>>,
    /// Bytes that the statement keeps.
    pub held: usize,
    /// Rows since the last check.
    pub unchecked: u32,
}

impl Exec<'_, '_> {
    /// Counts a row that the statement keeps.
    pub fn hold(&mut self, row: &[Datum]) -> Result<()> {
        self.held += row.iter().map(bytes_of).sum::<usize>() + size_of::<Row>();
        if self.held > MEMORY_MAX {
            let message = format!("the statement needs more than {} MiB of memory", MEMORY_MAX >> 20);
            return Err(SqlError::new(state::OUT_OF_MEMORY, message));
        }
        self.check()
    }

    /// Looks from time to time at whether the statement was cancelled.
    pub fn check(&mut self) -> Result<()> {
        self.unchecked += 1;
        if self.unchecked < ROWS_PER_CHECK {
            return Ok(());
        }
        self.unchecked = 0;
        self.context.check_cancelled()
    }
}

fn bytes_of(value: &Datum) -> usize {
    size_of::<Datum>()
        + match value {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            Datum::List(values) => values.iter().map(bytes_of).sum(),
            _ => 0,
        }
}

/// The state of an operator. It belongs to a plan, which is passed to every call.
pub enum Node {
    /// The number of the next row of expressions.
    Values(usize),
    /// A range of a table.
    Scan(Box<scan::ScanState>),
    /// Rows that were made before the first one is asked for.
    Rows(Option<std::vec::IntoIter<Row>>),
    /// Rows that several operators read.
    Shared(Option<Rc<Vec<Row>>>, usize),
    /// An operator that passes on rows of another one.
    Input(Box<Node>),
    /// A join.
    Join(Box<join::JoinState>),
    /// The rows that are left out, and those that may come.
    Limit(Box<Node>, Option<(u64, u64)>),
    /// Rows that were given.
    Distinct(Box<Node>, BTreeSet<Key>),
    /// The first input, until it has ended, and the rows of the second one.
    Combine(Box<CombineState>),
}

/// State of a combination of two sets of rows.
pub struct CombineState {
    left: Option<Node>,
    right: Node,
    /// Rows of the right side with their numbers.
    counted: Option<BTreeMap<Key, usize>>,
    given: BTreeSet<Key>,
}

impl Node {
    /// Returns the state in which a plan begins.
    pub fn new(plan: &Plan) -> Node {
        match plan {
            Plan::Values(_) => Node::Values(0),
            Plan::Scan(_) => Node::Scan(Box::default()),
            Plan::Catalog(_)
            | Plan::Function(..)
            | Plan::Sort(..)
            | Plan::Aggregate(_)
            | Plan::Window(..)
            | Plan::Recursive(_) => Node::Rows(None),
            Plan::Common(..) | Plan::Round(_) => Node::Shared(None, 0),
            Plan::Filter(input, _) | Plan::Project(input, _) | Plan::Widen(input, _) => {
                Node::Input(Box::new(Node::new(input)))
            }
            Plan::Join(join) => Node::Join(Box::new(join::JoinState::new(join))),
            Plan::Limit(limit) => Node::Limit(Box::new(Node::new(&limit.input)), None),
            Plan::Distinct(input, _) => Node::Distinct(Box::new(Node::new(input)), BTreeSet::new()),
            Plan::Combine(combination) => Node::Combine(Box::new(CombineState {
                left: Some(Node::new(&combination.left)),
                right: Node::new(&combination.right),
                counted: None,
                given: BTreeSet::new(),
            })),
        }
    }

    /// Returns the next row; `None` at the end.
    pub fn next(&mut self, plan: &Plan, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        match (self, plan) {
            (Node::Values(next), Plan::Values(rows)) => {
                let Some(row) = rows.get(*next) else { return Ok(None) };
                *next += 1;
                row.iter().map(|value| value.eval(&[], x)).collect::<Result<Row>>().map(Some)
            }
            (Node::Scan(state), Plan::Scan(scan)) => state.next(scan, x),
            (Node::Input(input), Plan::Filter(of, condition)) => {
                while let Some(row) = input.next(of, x)? {
                    x.check()?;
                    if condition.holds(&row, x)? {
                        return Ok(Some(row));
                    }
                }
                Ok(None)
            }
            (Node::Input(input), Plan::Project(of, columns)) => {
                let Some(row) = input.next(of, x)? else { return Ok(None) };
                columns.iter().map(|column| column.eval(&row, x)).collect::<Result<Row>>().map(Some)
            }
            (Node::Input(input), Plan::Widen(of, place)) => {
                let Some(row) = input.next(of, x)? else { return Ok(None) };
                let mut wide = vec![Datum::Null; place.width];
                row.into_iter().enumerate().for_each(|(at, value)| wide[place.offset + at] = value);
                Ok(Some(wide))
            }
            (Node::Join(state), Plan::Join(join)) => state.next(join, x),
            (Node::Limit(input, counts), Plan::Limit(limit)) => next_within(input, counts, limit, x),
            (Node::Distinct(input, given), Plan::Distinct(of, on)) => {
                while let Some(row) = input.next(of, x)? {
                    let key = match on {
                        Some(on) => on.iter().map(|value| value.eval(&row, x)).collect::<Result<Row>>()?,
                        None => row.clone(),
                    };
                    x.hold(&key)?;
                    if given.insert(Key(key)) {
                        return Ok(Some(row));
                    }
                }
                Ok(None)
            }
            (Node::Combine(state), Plan::Combine(combination)) => state.next(combination, x),
            (Node::Shared(rows, next), plan) => {
                let rows = match rows {
                    Some(rows) => rows,
                    none => none.insert(shared(plan, x)?),
                };
                *next += 1;
                Ok(rows.get(*next - 1).cloned())
            }
            (Node::Rows(rows), plan) => {
                let rows = match rows {
                    Some(rows) => rows,
                    none => none.insert(made(plan, x)?.into_iter()),
                };
                Ok(rows.next())
            }
            _ => Err(SqlError::new(state::INTERNAL, "a state of another plan")),
        }
    }
}

/// Returns all rows of a plan.
pub fn all_rows(plan: &Plan, x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let (mut node, mut rows) = (Node::new(plan), Vec::new());
    while let Some(row) = node.next(plan, x)? {
        x.hold(&row)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Makes the rows of an operator that needs all of its input before the first one.
fn made(plan: &Plan, x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    match plan {
        Plan::Catalog(table) => {
            let rows = table.rows(x.context);
            rows.iter().try_for_each(|row| x.hold(row))?;
            Ok(rows)
        }
        Plan::Function(function, arguments, numbered) => {
            let arguments = arguments.iter().map(|value| value.eval(&[], x)).collect::<Result<Vec<_>>>()?;
            let mut rows = function.rows(&arguments, x)?;
            if *numbered {
                let numbers = (1..).map(Datum::Signed);
                rows.iter_mut().zip(numbers).for_each(|(row, number)| row.push(number));
            }
            Ok(rows)
        }
        Plan::Sort(input, keys) => sort::sorted(input, keys, x),
        Plan::Aggregate(grouping) => aggregate::grouped(grouping, x),
        Plan::Window(input, calls) => sort::windows(input, calls, x),
        Plan::Recursive(recursion) => recursive(recursion, x),
        _ => Err(SqlError::new(state::INTERNAL, "an operator that gives rows one by one")),
    }
}

fn shared(plan: &Plan, x: &mut Exec<'_, '_>) -> Result<Rc<Vec<Row>>> {
    let (Plan::Common(id, _) | Plan::Round(id)) = plan else { return Ok(Rc::default()) };
    if let Some(rows) = x.common.get(id) {
        return Ok(Rc::clone(rows));
    }
    let Plan::Common(_, input) = plan else { return Ok(Rc::default()) };
    let rows = Rc::new(all_rows(input, x)?);
    x.common.insert(*id, Rc::clone(&rows));
    Ok(rows)
}

fn next_within(
    input: &mut Node,
    counts: &mut Option<(u64, u64)>,
    limit: &Limit,
    x: &mut Exec<'_, '_>,
) -> Result<Option<Row>> {
    let (skipped, left) = match counts {
        Some(counts) => counts,
        none => {
            let count = |expr: &Option<crate::expr::Expr>, x: &mut Exec<'_, '_>, name| match expr {
                None => Ok(None),
                Some(expr) => match expr.eval(&[], x)? {
                    Datum::Signed(count @ 0..) => Ok(Some(count as u64)),
                    Datum::Null => Ok(None),
                    _ => {
                        let code = if name == "LIMIT" { "2201W" } else { "2201X" };
                        Err(SqlError::new(code, format!("{name} must not be negative")))
                    }
                },
            };
            let offset = count(&limit.offset, x, "OFFSET")?.unwrap_or(0);
            let most = count(&limit.limit, x, "LIMIT")?.unwrap_or(u64::MAX);
            none.insert((offset, most))
        }
    };
    while *skipped > 0 && *left > 0 {
        *skipped -= 1;
        if input.next(&limit.input, x)?.is_none() {
            *left = 0;
        }
    }
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    input.next(&limit.input, x)
}

impl CombineState {
    fn next(&mut self, combination: &Combination, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        if combination.operation != SetOperation::Union && self.counted.is_none() {
            let mut counted = BTreeMap::new();
            while let Some(row) = self.right.next(&combination.right, x)? {
                x.hold(&row)?;
                *counted.entry(Key(row)).or_insert(0) += 1;
            }
            self.counted = Some(counted);
        }
        while let Some(row) = self.next_of_both(combination, x)? {
            let key = Key(row);
            let is_kept = match (&mut self.counted, combination.operation) {
                (Some(counted), operation) => {
                    let count = counted.get_mut(&key);
                    let is_there = count.as_ref().is_some_and(|count| **count > 0);
                    if let Some(count) = count.filter(|count| combination.all && **count > 0) {
                        *count -= 1;
                    }
                    is_there == (operation == SetOperation::Intersect)
                }
                (None, _) => true,
            };
            if !is_kept {
                continue;
            }
            if combination.all {
                return Ok(Some(key.0));
            }
            x.hold(&key.0)?;
            if self.given.insert(key.clone()) {
                return Ok(Some(key.0));
            }
        }
        Ok(None)
    }

    fn next_of_both(&mut self, combination: &Combination, x: &mut Exec<'_, '_>) -> Result<Option<Row>> {
        if let Some(left) = &mut self.left {
            if let Some(row) = left.next(&combination.left, x)? {
                return Ok(Some(row));
            }
            self.left = None;
        }
        match combination.operation {
            SetOperation::Union => self.right.next(&combination.right, x),
            _ => Ok(None),
        }
    }
}

fn recursive(recursion: &Recursion, x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    let (mut found, mut given) = (VecDeque::new(), BTreeSet::new());
    let mut round = all_rows(&recursion.base, x)?;
    for _ in 0..ROUNDS_MAX {
        if !recursion.all {
            round.retain(|row| given.insert(Key(row.clone())));
        }
        if round.is_empty() {
            x.common.remove(&recursion.id);
            return Ok(found.into());
        }
        found.extend(round.iter().cloned());
        x.common.insert(recursion.id, Rc::new(round));
        round = all_rows(&recursion.step, x)?;
    }
    Err(SqlError::new(state::TOO_COMPLEX, "a recursive query does not end"))
}
