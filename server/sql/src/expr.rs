//! Bound expressions: columns are places in a row, types are checked, and all that is left to do is
//! to compute.

use std::cmp::Ordering;
use std::sync::Arc;

use isles::Datum;

use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Node};
use crate::functions::Builtin;
use crate::plan::Plan;
use crate::types::SqlType;
use crate::value::{self, Operation, compare};

/// Comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    Differs,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Returns true if values in this order meet the comparison.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Differs => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::More => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }

    /// Returns the comparison of exchanged operands.
    pub fn exchanged(self) -> Self {
        match self {
            Comparison::Less => Comparison::More,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::More => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            same => same,
        }
    }
}

/// A bound expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value.
    Constant(Datum),
    /// A column of the row.
    Column(usize),
    /// A value that an outer query or the left side of a join has left.
    Slot(usize),
    /// A parameter of the statement, from 0 on.
    Param(usize),
    /// The result of an aggregate, before rows are grouped.
    Aggregate(usize),
    /// The result of a window function, before rows have it.
    Window(usize),
    /// All are true.
    And(Vec<Expr>),
    /// One is true.
    Or(Vec<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// True for null.
    IsNull(Box<Expr>),
    /// True for this truth value, false for all others and for null.
    Is(Box<Expr>, bool),
    /// A comparison.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// A comparison of rows, with nulls of their members.
    CompareRows(Comparison, Vec<Expr>, Vec<Expr>),
    /// True if two values are the same, nulls too.
    SameAs(Box<Expr>, Box<Expr>),
    /// An operation on numbers or times.
    Calculate(Operation, Box<Expr>, Box<Expr>, SqlType),
    /// A conversion.
    Cast(Box<Cast>),
    /// The first branch whose condition is true.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// True if the value is one of these.
    InList(Box<Expr>, Vec<Expr>),
    /// A comparison with the members of an array; `bool`: with all of them.
    Quantified(Comparison, Box<Expr>, Box<Expr>, bool),
    /// A function.
    Call(&'static Builtin, Vec<Expr>),
    /// The first value that is not null.
    Coalesce(Vec<Expr>),
    /// An array of these values.
    Array(Vec<Expr>),
    /// A row of these values.
    Row(Vec<Expr>),
    /// A query.
    Subquery(Box<Subquery>),
}

/// A conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// The value before.
    pub of: Expr,
    /// The type before.
    pub from: SqlType,
    /// The type afterwards.
    pub to: SqlType,
    /// True if the statement has the cast.
    pub explicit: bool,
}

/// The use of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryUse {
    /// The value of the only row.
    Scalar,
    /// True if there is a row.
    Exists,
    /// An array of the values.
    Array,
    /// A comparison of values with rows; `bool`: with all of them.
    Quantified(Comparison, Vec<Expr>, bool),
}

/// A query within an expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// The query.
    pub plan: Arc<Plan>,
    /// Slots that get values of the row around.
    pub bindings: Vec<(usize, Expr)>,
    /// The use of the rows.
    pub purpose: SubqueryUse,
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.purpose == other.purpose
    }
}

/// An expression and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// The expression.
    pub expr: Expr,
    /// Its type.
    pub kind: SqlType,
}

impl Typed {
    /// Returns an expression with its type.
    pub fn new(expr: Expr, kind: SqlType) -> Self {
        Typed { expr, kind }
    }
}

impl Expr {
    /// A constant that is true or false.
    pub const fn truth(value: bool) -> Expr {
        Expr::Constant(Datum::Bool(value))
    }

    /// Computes the value for a row.
    pub fn eval(&self, row: &[Datum], x: &mut Exec<'_, '_>) -> Result<Datum> {
        Ok(match self {
            Expr::Constant(value) => value.clone(),
            Expr::Column(place) => row[*place].clone(),
            Expr::Slot(slot) => x.slots[*slot].clone(),
            Expr::Param(number) => {
                let missing =
                    || SqlError::new(state::NO_PARAMETER, format!("there is no parameter ${}", number + 1));
                x.params.get(*number).cloned().ok_or_else(missing)?
            }
            Expr::Aggregate(_) | Expr::Window(_) => return Err(misplaced()),
            Expr::And(parts) => all_of(parts, row, x, false)?,
            Expr::Or(parts) => all_of(parts, row, x, true)?,
            Expr::Not(of) => match of.eval(row, x)? {
                Datum::Bool(value) => Datum::Bool(!value),
                other => other,
            },
            Expr::IsNull(of) => Datum::Bool(of.eval(row, x)? == Datum::Null),
            Expr::Is(of, truth) => Datum::Bool(of.eval(row, x)? == Datum::Bool(*truth)),
            Expr::Compare(comparison, left, right) => {
                let (left, right) = (left.eval(row, x)?, right.eval(row, x)?);
                compared(*comparison, &left, &right)
            }
            Expr::CompareRows(comparison, left, right) => {
                let values = |of: &[Expr], x: &mut Exec<'_, '_>| {
                    of.iter().map(|member| member.eval(row, x)).collect::<Result<Vec<_>>>()
                };
                let (left, right) = (values(left, x)?, values(right, x)?);
                compared_rows(*comparison, &left, &right)
            }
            Expr::SameAs(left, right) => {
                let (left, right) = (left.eval(row, x)?, right.eval(row, x)?);
                Datum::Bool(compare(&left, &right).is_eq())
            }
            Expr::Calculate(operation, left, right, kind) => {
                let (left, right) = (left.eval(row, x)?, right.eval(row, x)?);
                if left == Datum::Null || right == Datum::Null {
                    return Ok(Datum::Null);
                }
                value::calculate(*operation, &left, &right, kind)?
            }
            Expr::Cast(cast) => {
                let value = cast.of.eval(row, x)?;
                crate::functions::cast(value, cast, x)?
            }
            Expr::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    if condition.eval(row, x)? == Datum::Bool(true) {
                        return result.eval(row, x);
                    }
                }
                otherwise.eval(row, x)?
            }
            _ => return self.eval_list(row, x),
        })
    }

    /// Computes what has several values or rows.
    fn eval_list(&self, row: &[Datum], x: &mut Exec<'_, '_>) -> Result<Datum> {
        let values = |of: &[Expr], x: &mut Exec<'_, '_>| {
            of.iter().map(|member| member.eval(row, x)).collect::<Result<Vec<_>>>()
        };
        Ok(match self {
            Expr::InList(left, list) => {
                let left = left.eval(row, x)?;
                let mut has_null = false;
                for member in list {
                    match compared(Comparison::Equal, &left, &member.eval(row, x)?) {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => has_null = true,
                        _ => {}
                    }
                }
                if has_null { Datum::Null } else { Datum::Bool(false) }
            }
            Expr::Quantified(comparison, left, array, all) => {
                let (left, array) = (left.eval(row, x)?, array.eval(row, x)?);
                let Datum::List(members) = array else { return Ok(Datum::Null) };
                let results = members.iter().map(|member| compared(*comparison, &left, member));
                quantified(results, *all)
            }
            Expr::Call(builtin, arguments) => {
                let arguments = values(arguments, x)?;
                if builtin.strict && arguments.contains(&Datum::Null) {
                    return Ok(Datum::Null);
                }
                (builtin.run)(&arguments, x)?
            }
            Expr::Coalesce(parts) => {
                for part in parts {
                    let value = part.eval(row, x)?;
                    if value != Datum::Null {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Array(members) | Expr::Row(members) => Datum::List(values(members, x)?),
            Expr::Subquery(subquery) => subquery.eval(row, x)?,
            _ => return Err(misplaced()),
        })
    }

    /// Returns true if the row meets the condition.
    pub fn holds(&self, row: &[Datum], x: &mut Exec<'_, '_>) -> Result<bool> {
        Ok(self.eval(row, x)? == Datum::Bool(true))
    }

    /// Calls `visit` with the parts of the expression, not with those of its queries.
    pub fn for_each_part(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::Array(parts) => {
                parts.iter().for_each(visit);
            }
            Expr::Row(parts) | Expr::Call(_, parts) => parts.iter().for_each(visit),
            Expr::Not(of) | Expr::IsNull(of) | Expr::Is(of, _) => visit(of),
            Expr::Compare(_, left, right)
            | Expr::SameAs(left, right)
            | Expr::Calculate(_, left, right, _)
            | Expr::Quantified(_, left, right, _) => {
                visit(left);
                visit(right);
            }
            Expr::CompareRows(_, left, right) => left.iter().chain(right).for_each(visit),
            Expr::Cast(cast) => visit(&cast.of),
            Expr::Case(branches, otherwise) => {
                branches.iter().for_each(|(condition, result)| {
                    visit(condition);
                    visit(result);
                });
                visit(otherwise);
            }
            Expr::InList(left, list) => {
                visit(left);
                list.iter().for_each(visit);
            }
            Expr::Subquery(subquery) => {
                subquery.bindings.iter().for_each(|(_, expr)| visit(expr));
                if let SubqueryUse::Quantified(_, left, _) = &subquery.purpose {
                    left.iter().for_each(visit);
                }
            }
            _ => {}
        }
    }

    /// Replaces parts of the expression, the outermost first; `change` returns true where it has
    /// replaced one.
    pub fn replace(&mut self, change: &mut dyn FnMut(&mut Expr) -> Result<bool>) -> Result<()> {
        if change(self)? {
            return Ok(());
        }
        match self {
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::Array(parts) => {
                parts.iter_mut().try_for_each(|part| part.replace(change))
            }
            Expr::Row(parts) | Expr::Call(_, parts) => {
                parts.iter_mut().try_for_each(|part| part.replace(change))
            }
            Expr::Not(of) | Expr::IsNull(of) | Expr::Is(of, _) => of.replace(change),
            Expr::Compare(_, left, right)
            | Expr::SameAs(left, right)
            | Expr::Calculate(_, left, right, _)
            | Expr::Quantified(_, left, right, _) => {
                left.replace(change)?;
                right.replace(change)
            }
            Expr::CompareRows(_, left, right) => {
                left.iter_mut().chain(right).try_for_each(|part| part.replace(change))
            }
            Expr::Cast(cast) => cast.of.replace(change),
            Expr::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    condition.replace(change)?;
                    result.replace(change)?;
                }
                otherwise.replace(change)
            }
            Expr::InList(left, list) => {
                left.replace(change)?;
                list.iter_mut().try_for_each(|part| part.replace(change))
            }
            Expr::Subquery(subquery) => {
                subquery.bindings.iter_mut().try_for_each(|(_, expr)| expr.replace(change))?;
                match &mut subquery.purpose {
                    SubqueryUse::Quantified(_, left, _) => {
                        left.iter_mut().try_for_each(|part| part.replace(change))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a part meets the condition.
    pub fn has(&self, condition: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = condition(self);
        self.for_each_part(&mut |part| found = found || part.has(condition));
        found
    }

    /// Calls `visit` with each column of the row that the expression reads.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        if let Expr::Column(place) = self {
            visit(*place);
        }
        self.for_each_part(&mut |part| part.columns(visit));
    }

    /// Returns the parts of a conjunction.
    pub fn conjuncts(self, to: &mut Vec<Expr>) {
        match self {
            Expr::And(parts) => parts.into_iter().for_each(|part| part.conjuncts(to)),
            Expr::Constant(Datum::Bool(true)) => {}
            other => to.push(other),
        }
    }

    /// Returns the conjunction of these conditions; `None` if there is none.
    pub fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
        if parts.len() > 1 { Some(Expr::And(parts)) } else { parts.pop() }
    }
}

fn misplaced() -> SqlError {
    SqlError::new(state::INTERNAL, "an expression that only the planner knows")
}

/// A conjunction, or with `end` true a disjunction: the first part with the value `end` decides.
fn all_of(parts: &[Expr], row: &[Datum], x: &mut Exec<'_, '_>, end: bool) -> Result<Datum> {
    let mut has_null = false;
    for part in parts {
        match part.eval(row, x)? {
            Datum::Bool(value) if value == end => return Ok(Datum::Bool(end)),
            Datum::Null => has_null = true,
            _ => {}
        }
    }
    Ok(if has_null { Datum::Null } else { Datum::Bool(!end) })
}

/// Compares two values; null if one of them is null.
pub fn compared(comparison: Comparison, left: &Datum, right: &Datum) -> Datum {
    if *left == Datum::Null || *right == Datum::Null {
        return Datum::Null;
    }
    Datum::Bool(comparison.holds(compare(left, right)))
}

/// Compares two rows member by member; null where nulls leave it open.
pub fn compared_rows(comparison: Comparison, left: &[Datum], right: &[Datum]) -> Datum {
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::Differs);
    let mut has_null = false;
    for (left, right) in left.iter().zip(right) {
        match compared(Comparison::Equal, left, right) {
            Datum::Bool(true) => {}
            Datum::Null if is_equality => has_null = true,
            Datum::Null => return Datum::Null,
            _ => return Datum::Bool(comparison.holds(compare(left, right))),
        }
    }
    if has_null { Datum::Null } else { Datum::Bool(comparison.holds(Ordering::Equal)) }
}

/// Returns true if one result is true, or with `all` if all are; null where nulls leave it open.
fn quantified(results: impl Iterator<Item = Datum>, all: bool) -> Datum {
    let mut has_null = false;
    for result in results {
        match result {
            Datum::Bool(value) if value != all => return Datum::Bool(value),
            Datum::Null => has_null = true,
            _ => {}
        }
    }
    if has_null { Datum::Null } else { Datum::Bool(all) }
}

impl Subquery {
    fn eval(&self, row: &[Datum], x: &mut Exec<'_, '_>) -> Result<Datum> {
        for (slot, expr) in &self.bindings {
            x.slots[*slot] = expr.eval(row, x)?;
        }
        let mut node = Node::new(&self.plan);
        match &self.purpose {
            SubqueryUse::Exists => Ok(Datum::Bool(node.next(&self.plan, x)?.is_some())),
            SubqueryUse::Scalar => {
                let Some(mut first) = node.next(&self.plan, x)? else { return Ok(Datum::Null) };
                if node.next(&self.plan, x)?.is_some() {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(SqlError::new(state::CARDINALITY, message));
                }
                Ok(first.swap_remove(0))
            }
            SubqueryUse::Array => {
                let mut values = Vec::new();
                while let Some(mut row) = node.next(&self.plan, x)? {
                    x.hold(&row)?;
                    values.push(row.swap_remove(0));
                }
                Ok(Datum::List(values))
            }
            SubqueryUse::Quantified(comparison, left, all) => {
                let left = left.iter().map(|part| part.eval(row, x)).collect::<Result<Vec<_>>>()?;
                let mut has_null = false;
                while let Some(row) = node.next(&self.plan, x)? {
                    match compared_rows(*comparison, &left, &row) {
                        Datum::Bool(value) if value != *all => return Ok(Datum::Bool(value)),
                        Datum::Null => has_null = true,
                        _ => {}
                    }
                }
                Ok(if has_null { Datum::Null } else { Datum::Bool(*all) })
            }
        }
    }
}
