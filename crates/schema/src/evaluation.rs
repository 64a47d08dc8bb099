//! Evaluation of expressions: names of columns are looked up and types are compared once, then the
//! expression is evaluated for each row.

use std::cmp::Ordering;

use crate::bounded::without_blanks;
use crate::datum::Datum;
use crate::decimal::Decimal;
use crate::expression::{Arithmetic, Comparison, Expression};
use crate::value_type::ValueType;

/// Most parts of an expression, and most levels of parts within parts.
const PARTS_MAX: usize = 4096;
const LEVELS_MAX: usize = 64;

/// Values that compare with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueClass {
    /// The constant null, which compares with everything.
    Null,
    Truth,
    Integer,
    Exact,
    Float,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    List,
    /// JSON, arrays and groups: only null or not.
    Other,
}

impl ValueClass {
    pub(crate) fn of(kind: &ValueType) -> Self {
        match kind {
            ValueType::Unsigned(_) | ValueType::Signed(_) => ValueClass::Integer,
            ValueType::Numeric { .. } => ValueClass::Exact,
            ValueType::Float(_) => ValueClass::Float,
            ValueType::Bool => ValueClass::Truth,
            ValueType::Text(_) | ValueType::String | ValueType::Char(_) | ValueType::VarChar(_) => {
                ValueClass::Text
            }
            ValueType::Array(of, _) if **of == ValueType::Unsigned(1) => ValueClass::Bytes,
            ValueType::Bytes => ValueClass::Bytes,
            ValueType::Date => ValueClass::Date,
            ValueType::Time => ValueClass::Time,
            ValueType::Timestamp => ValueClass::Timestamp,
            ValueType::TimestampTz => ValueClass::TimestampTz,
            ValueType::Interval => ValueClass::Interval,
            ValueType::Uuid => ValueClass::Uuid,
            ValueType::List(_) => ValueClass::List,
            ValueType::Json | ValueType::Array(..) | ValueType::Group(_) => ValueClass::Other,
        }
    }

    fn of_constant(value: &Datum) -> Self {
        match value {
            Datum::Null => ValueClass::Null,
            Datum::Unsigned(_) | Datum::Signed(_) | Datum::Unsigned128(_) | Datum::Signed128(_) => {
                ValueClass::Integer
            }
            Datum::Numeric(_) => ValueClass::Exact,
            Datum::Float(_) => ValueClass::Float,
            Datum::Bool(_) => ValueClass::Truth,
            Datum::Text(_) => ValueClass::Text,
            Datum::Bytes(_) => ValueClass::Bytes,
            Datum::List(_) => ValueClass::Other,
            Datum::Date(_) => ValueClass::Date,
            Datum::Time(_) => ValueClass::Time,
            Datum::Timestamp(_) => ValueClass::Timestamp,
            Datum::TimestampTz(_) => ValueClass::TimestampTz,
            Datum::Interval(_) => ValueClass::Interval,
            Datum::Uuid(_) => ValueClass::Uuid,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, ValueClass::Integer | ValueClass::Exact | ValueClass::Float | ValueClass::Null)
    }

    fn compares_with(self, other: ValueClass) -> bool {
        let null = self == ValueClass::Null || other == ValueClass::Null;
        let ordered = !matches!(self, ValueClass::Other | ValueClass::List);
        null || (self.is_number() && other.is_number()) || (self == other && ordered)
    }

    /// Returns true if a column of type `kind` can have values of this class, as far as they fit.
    pub(crate) fn fits(self, kind: &ValueType) -> bool {
        match (self, ValueClass::of(kind)) {
            (ValueClass::Null, _) => true,
            (ValueClass::Integer, ValueClass::Exact) => true,
            (own, column) => own == column && own != ValueClass::Other,
        }
    }
}

/// An expression whose columns have numbers.
#[derive(Clone, Debug)]
pub(crate) enum BoundExpression {
    Column {
        number: usize,
        /// True for `char(n)`, whose values end with blanks that do not count.
        padded: bool,
    },
    Constant(Datum),
    Compare(Comparison, Box<BoundExpression>, Box<BoundExpression>),
    And(Vec<BoundExpression>),
    Or(Vec<BoundExpression>),
    Not(Box<BoundExpression>),
    IsNull(Box<BoundExpression>),
    Calculate(Arithmetic, Box<BoundExpression>, Box<BoundExpression>),
    Length(Box<BoundExpression>),
    In(Box<BoundExpression>, Vec<BoundExpression>),
    Between(Box<BoundExpression>, Box<BoundExpression>, Box<BoundExpression>),
}

/// Reason why an expression has no value for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationFault {
    #[error("a number in it is too large")]
    Overflow,
    #[error("it divides by zero")]
    DivisionByZero,
    #[error("the row is not what the description of its table says")]
    Damaged,
}

type Evaluated = Result<Datum, EvaluationFault>;

/// Looks up a column: its number and its type.
pub(crate) type ColumnLookup<'l> = dyn Fn(&str) -> Option<(usize, &'l ValueType)> + 'l;

/// Looks up the columns of an expression and checks its types. Returns it with the class of its
/// values.
///
/// # Errors
/// The first mistake, in words.
pub(crate) fn bind(
    expression: &Expression,
    columns: &ColumnLookup<'_>,
) -> Result<(BoundExpression, ValueClass), String> {
    let mut parts = 0;
    bind_part(expression, columns, &mut parts, 0)
}

fn bind_part(
    expression: &Expression,
    columns: &ColumnLookup<'_>,
    parts: &mut usize,
    level: usize,
) -> Result<(BoundExpression, ValueClass), String> {
    *parts += 1;
    if *parts > PARTS_MAX || level > LEVELS_MAX {
        return Err(format!("at most {PARTS_MAX} parts in {LEVELS_MAX} levels are possible"));
    }
    let mut part = |of: &Expression| bind_part(of, columns, parts, level + 1);
    let truth = |bound| Ok((bound, ValueClass::Truth));
    match expression {
        Expression::Column(name) => match columns(name) {
            Some((number, kind)) => {
                let padded = matches!(kind, ValueType::Char(_));
                Ok((BoundExpression::Column { number, padded }, ValueClass::of(kind)))
            }
            None => Err(format!("there is no column {name:?}")),
        },
        Expression::Constant(Datum::List(_)) => Err("a list cannot be a constant".to_owned()),
        Expression::Constant(value) => {
            Ok((BoundExpression::Constant(value.clone()), ValueClass::of_constant(value)))
        }
        Expression::Compare(comparison, left, right) => {
            let (left, right) = comparable(part(left)?, part(right)?, expression)?;
            truth(BoundExpression::Compare(*comparison, Box::new(left), Box::new(right)))
        }
        Expression::And(all) => {
            let all = all.iter().map(|one| part(one).and_then(|one| truth_of(one, expression)));
            truth(BoundExpression::And(all.collect::<Result<_, _>>()?))
        }
        Expression::Or(all) => {
            let all = all.iter().map(|one| part(one).and_then(|one| truth_of(one, expression)));
            truth(BoundExpression::Or(all.collect::<Result<_, _>>()?))
        }
        Expression::Not(of) => truth(BoundExpression::Not(Box::new(truth_of(part(of)?, expression)?))),
        Expression::IsNull(of) => truth(BoundExpression::IsNull(Box::new(part(of)?.0))),
        Expression::Calculate(operation, left, right) => {
            let ((left, of_left), (right, of_right)) = (part(left)?, part(right)?);
            let class = class_of_result(*operation, of_left, of_right)
                .ok_or_else(|| format!("{expression}: {operation} is not there for these types"))?;
            Ok((BoundExpression::Calculate(*operation, Box::new(left), Box::new(right)), class))
        }
        Expression::Length(of) => match part(of)? {
            (of, ValueClass::Text | ValueClass::Bytes | ValueClass::List | ValueClass::Null) => {
                Ok((BoundExpression::Length(Box::new(of)), ValueClass::Integer))
            }
            _ => Err(format!("{expression}: texts, bytes and lists have a length")),
        },
        Expression::In(of, values) => {
            let (of, class) = part(of)?;
            let values = values.iter().map(|value| {
                let (value, of_value) = part(value)?;
                comparable((of.clone(), class), (value, of_value), expression).map(|(_, value)| value)
            });
            let values = values.collect::<Result<_, String>>()?;
            truth(BoundExpression::In(Box::new(of), values))
        }
        Expression::Between(of, low, high) => {
            let (of, low, high) = (part(of)?, part(low)?, part(high)?);
            let (of, low) =
                comparable(of.clone(), low, expression).map(|(bound, low)| ((bound, of.1), low))?;
            let (of, high) = comparable(of, high, expression)?;
            truth(BoundExpression::Between(Box::new(of), Box::new(low), Box::new(high)))
        }
    }
}

/// Returns both operands if their values compare.
fn comparable(
    left: (BoundExpression, ValueClass),
    right: (BoundExpression, ValueClass),
    of: &Expression,
) -> Result<(BoundExpression, BoundExpression), String> {
    match left.1.compares_with(right.1) {
        true => Ok((left.0, right.0)),
        false => Err(format!("{of}: values of these types do not compare ({:?}, {:?})", left.1, right.1)),
    }
}

fn truth_of(
    (bound, class): (BoundExpression, ValueClass),
    of: &Expression,
) -> Result<BoundExpression, String> {
    match class {
        ValueClass::Truth | ValueClass::Null => Ok(bound),
        _ => Err(format!("{of}: an operand is neither true nor false")),
    }
}

/// Returns the class of the result of an operation, if there is such an operation.
fn class_of_result(operation: Arithmetic, left: ValueClass, right: ValueClass) -> Option<ValueClass> {
    if !left.is_number() || !right.is_number() {
        return None;
    }
    let both = [left, right];
    if both.contains(&ValueClass::Float) {
        return Some(ValueClass::Float);
    }
    match both.contains(&ValueClass::Exact) {
        // The number of digits of such a quotient would have to be chosen.
        true if operation == Arithmetic::Divide => None,
        true => Some(ValueClass::Exact),
        false => Some(ValueClass::Integer),
    }
}

impl BoundExpression {
    /// Returns the value for a row, whose columns `row` returns.
    pub(crate) fn evaluate(&self, row: &dyn Fn(usize) -> Option<Datum>) -> Evaluated {
        Ok(match self {
            BoundExpression::Column { number, padded } => {
                match row(*number).ok_or(EvaluationFault::Damaged)? {
                    Datum::Text(text) if *padded => Datum::Text(without_blanks(&text).to_owned()),
                    value => value,
                }
            }
            BoundExpression::Constant(value) => value.clone(),
            BoundExpression::Compare(comparison, left, right) => {
                truth(compared(*comparison, &left.evaluate(row)?, &right.evaluate(row)?))
            }
            BoundExpression::And(all) => return every(all, row, true),
            BoundExpression::Or(all) => return every(all, row, false),
            BoundExpression::Not(of) => match of.evaluate(row)? {
                Datum::Bool(value) => Datum::Bool(!value),
                _ => Datum::Null,
            },
            BoundExpression::IsNull(of) => Datum::Bool(of.evaluate(row)? == Datum::Null),
            BoundExpression::Calculate(operation, left, right) => {
                return calculated(*operation, left.evaluate(row)?, right.evaluate(row)?);
            }
            BoundExpression::Length(of) => match of.evaluate(row)? {
                Datum::Text(text) => Datum::Signed(text.chars().count() as i64),
                Datum::Bytes(bytes) => Datum::Signed(bytes.len() as i64),
                Datum::List(members) => Datum::Signed(members.len() as i64),
                _ => Datum::Null,
            },
            BoundExpression::In(of, values) => {
                let value = of.evaluate(row)?;
                let mut found = Some(false);
                for other in values {
                    match compared(Comparison::Equal, &value, &other.evaluate(row)?) {
                        Some(true) => return Ok(Datum::Bool(true)),
                        Some(false) => {}
                        None => found = None,
                    }
                }
                truth(found)
            }
            BoundExpression::Between(of, low, high) => {
                let value = of.evaluate(row)?;
                let above = compared(Comparison::GreaterOrEqual, &value, &low.evaluate(row)?);
                let below = compared(Comparison::LessOrEqual, &value, &high.evaluate(row)?);
                truth(match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                })
            }
        })
    }
}

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

/// Evaluates `and` (`all` is true) and `or`: the other truth value decides, else null does.
fn every(of: &[BoundExpression], row: &dyn Fn(usize) -> Option<Datum>, all: bool) -> Evaluated {
    let mut result = Datum::Bool(all);
    for one in of {
        match one.evaluate(row)? {
            Datum::Bool(value) if value == all => {}
            Datum::Bool(value) => return Ok(Datum::Bool(value)),
            _ => result = Datum::Null,
        }
    }
    Ok(result)
}

/// Compares two values; null if one of them is.
fn compared(comparison: Comparison, left: &Datum, right: &Datum) -> Option<bool> {
    let order = order_of(left, right)?;
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// Returns the order of two values of classes that compare; `None` if one of them is null.
fn order_of(left: &Datum, right: &Datum) -> Option<Ordering> {
    Some(match (left, right) {
        (Datum::Null, _) | (_, Datum::Null) => return None,
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) => left.cmp(right),
        (Datum::Bytes(left), Datum::Bytes(right)) => left.cmp(right),
        (Datum::Date(left), Datum::Date(right)) => left.cmp(right),
        (Datum::Time(left), Datum::Time(right)) => left.cmp(right),
        (Datum::Timestamp(left), Datum::Timestamp(right)) => left.cmp(right),
        (Datum::TimestampTz(left), Datum::TimestampTz(right)) => left.cmp(right),
        (Datum::Interval(left), Datum::Interval(right)) => left.cmp(right),
        (Datum::Uuid(left), Datum::Uuid(right)) => left.cmp(right),
        (Datum::Float(_), _) | (_, Datum::Float(_)) => order_of_floats(float(left)?, float(right)?),
        (left, right) => match (integer(left), integer(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => decimal(left)?.cmp(&decimal(right)?),
        },
    })
}

/// Orders numbers as PostgreSQL does: NaN is equal to itself and greater than all others.
fn order_of_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Returns an integer as its sign above the range of `i128`, and its distance from that limit.
fn integer(value: &Datum) -> Option<(bool, i128)> {
    Some(match value {
        Datum::Unsigned(value) => (false, i128::from(*value)),
        Datum::Signed(value) => (false, i128::from(*value)),
        Datum::Signed128(value) => (false, *value),
        Datum::Unsigned128(value) => match i128::try_from(*value) {
            Ok(value) => (false, value),
            Err(_) => (true, (value ^ 1 << 127) as i128),
        },
        _ => return None,
    })
}

fn decimal(value: &Datum) -> Option<Decimal> {
    match value {
        Datum::Numeric(number) => Some(*number),
        // An integer beyond 38 digits is beyond all decimal numbers.
        value => match integer(value)? {
            (false, value) => Decimal::new(value, 0).or_else(|_| Decimal::new(limit(value), 0)).ok(),
            (true, _) => Decimal::new(limit(i128::MAX), 0).ok(),
        },
    }
}

/// Returns the decimal integer furthest from zero, with this sign.
fn limit(value: i128) -> i128 {
    value.signum() * (10_i128.pow(38) - 1)
}

fn float(value: &Datum) -> Option<f64> {
    match value {
        Datum::Float(value) => Some(*value),
        Datum::Numeric(number) => Some(number.digits() as f64 / 10_f64.powi(number.scale().into())),
        Datum::Unsigned128(value) => Some(*value as f64),
        value => integer(value).map(|(_, value)| value as f64),
    }
}

fn calculated(operation: Arithmetic, left: Datum, right: Datum) -> Evaluated {
    match (&left, &right) {
        (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
        (Datum::Float(_), _) | (_, Datum::Float(_)) => {
            let (Some(left), Some(right)) = (float(&left), float(&right)) else {
                return Err(EvaluationFault::Damaged);
            };
            of_floats(operation, left, right)
        }
        (Datum::Numeric(_), _) | (_, Datum::Numeric(_)) => of_decimals(operation, &left, &right),
        _ => of_integers(operation, &left, &right),
    }
}

fn of_floats(operation: Arithmetic, left: f64, right: f64) -> Evaluated {
    let divides = matches!(operation, Arithmetic::Divide | Arithmetic::Remainder);
    if divides && right == 0.0 {
        return Err(EvaluationFault::DivisionByZero);
    }
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    };
    match result.is_infinite() && left.is_finite() && right.is_finite() {
        true => Err(EvaluationFault::Overflow),
        false => Ok(Datum::Float(result)),
    }
}

fn of_integers(operation: Arithmetic, left: &Datum, right: &Datum) -> Evaluated {
    let (Some((false, left)), Some((false, right))) = (integer(left), integer(right)) else {
        return Err(EvaluationFault::Overflow);
    };
    integers(operation, left, right).map(of_integer)
}

fn integers(operation: Arithmetic, left: i128, right: i128) -> Result<i128, EvaluationFault> {
    if matches!(operation, Arithmetic::Divide | Arithmetic::Remainder) && right == 0 {
        return Err(EvaluationFault::DivisionByZero);
    }
    let result = match operation {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
    };
    result.ok_or(EvaluationFault::Overflow)
}

/// Returns an integer in the form that columns of its length have.
fn of_integer(value: i128) -> Datum {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => Datum::Signed(value),
        (_, Ok(value)) => Datum::Unsigned(value),
        _ => Datum::Signed128(value),
    }
}

fn of_decimals(operation: Arithmetic, left: &Datum, right: &Datum) -> Evaluated {
    let (Some(left), Some(right)) = (decimal(left), decimal(right)) else {
        return Err(EvaluationFault::Damaged);
    };
    let (digits, scale) = match operation {
        Arithmetic::Multiply => {
            let scale = left.scale().checked_add(right.scale());
            (integers(operation, left.digits(), right.digits())?, scale.ok_or(EvaluationFault::Overflow)?)
        }
        _ => {
            let scale = left.scale().max(right.scale());
            let same = |number: Decimal| number.with_scale(scale).ok_or(EvaluationFault::Overflow);
            (integers(operation, same(left)?.digits(), same(right)?.digits())?, scale)
        }
    };
    Decimal::new(digits, scale).map(Datum::Numeric).map_err(|_| EvaluationFault::Overflow)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Evaluates an expression over columns `a` and `b` (integers), `t` (a text), `c` (`char(4)`).
    fn evaluate(expression: &Expression, [a, b]: [Datum; 2]) -> Result<Datum, String> {
        let kinds = [ValueType::Signed(8), ValueType::Signed(8), ValueType::String, ValueType::Char(4)];
        let columns = |name: &str| {
            let number = ["a", "b", "t", "c"].iter().position(|other| *other == name)?;
            Some((number, &kinds[number]))
        };
        let (bound, _) = bind(expression, &columns)?;
        let row = [a, b, Datum::from("héllo "), Datum::from("ab  ")];
        bound.evaluate(&|number| row.get(number).cloned()).map_err(|fault| fault.to_string())
    }

    fn of(expression: Expression) -> Result<Datum, String> {
        evaluate(&expression, [Datum::Signed(7), Datum::Null])
    }

    fn column(name: &str) -> Expression {
        Expression::column(name)
    }

    const TRUE: Datum = Datum::Bool(true);
    const FALSE: Datum = Datum::Bool(false);

    #[test]
    fn truth_has_three_values() {
        let all = [TRUE, FALSE, Datum::Null];
        let and = [[TRUE, FALSE, Datum::Null], [FALSE, FALSE, FALSE], [Datum::Null, FALSE, Datum::Null]];
        let or = [[TRUE, TRUE, TRUE], [TRUE, FALSE, Datum::Null], [TRUE, Datum::Null, Datum::Null]];
        for (i, left) in all.iter().enumerate() {
            for (j, right) in all.iter().enumerate() {
                let [left, right] = [left, right].map(|value| Expression::constant(value.clone()));
                assert_eq!(of(left.clone().and(right.clone())), Ok(and[i][j].clone()), "{left} and {right}");
                assert_eq!(of(left.clone().or(right.clone())), Ok(or[i][j].clone()), "{left} or {right}");
            }
            let negated = [FALSE, TRUE, Datum::Null][i].clone();
            assert_eq!(of(!Expression::constant(left.clone())), Ok(negated));
        }
        assert_eq!(of(column("b").is_null()), Ok(TRUE));
        assert_eq!(of(column("a").equals(column("b"))), Ok(Datum::Null));
        assert_eq!(of(column("a").is_in([1, 7])), Ok(TRUE));
        assert_eq!(of(column("a").is_in([Expression::from(1), column("b")])), Ok(Datum::Null));
        assert_eq!(of(column("a").between(8, column("b"))), Ok(FALSE));
        assert_eq!(of(column("a").between(7, column("b"))), Ok(Datum::Null));
    }

    #[test]
    fn values_of_one_class_compare_and_others_are_refused() {
        let decimal = |text: &str| Expression::constant(Datum::Numeric(text.parse().expect("a number")));
        assert_eq!(of(column("a").equals(decimal("7.00"))), Ok(TRUE));
        assert_eq!(of((column("a") + decimal("0.5")).equals(decimal("7.5"))), Ok(TRUE));
        assert_eq!(of((column("a") * 1.5).more(10)), Ok(TRUE));
        assert_eq!(of(column("a").less(Expression::constant(Datum::Unsigned128(u128::MAX)))), Ok(TRUE));
        assert_eq!(of(decimal("9").more(Expression::constant(Datum::Unsigned128(u128::MAX)))), Ok(FALSE));
        assert_eq!(of(column("c").equals("ab")), Ok(TRUE), "blanks do not count");
        assert_eq!(of(column("c").length()), Ok(Datum::Signed(2)));
        assert_eq!(of(column("t").length()), Ok(Datum::Signed(6)));
        for (wrong, reason) in [
            (column("a").equals("7"), "do not compare"),
            (column("x").is_null(), "no column"),
            (column("a").and(column("a").more(1)), "neither true nor false"),
            (column("a").length(), "have a length"),
            (column("t") + 1, "not there"),
            (decimal("1.5") / 2, "not there"),
            (Expression::constant(Datum::List(Vec::new())).is_null(), "a list"),
        ] {
            let refused = of(wrong.clone()).expect_err("it is wrong");
            assert!(refused.contains(reason), "{wrong}: {refused}");
        }
        let deep = (0..LEVELS_MAX + 1).fold(column("a").more(1), |inner, _| !inner);
        assert!(of(deep).expect_err("too deep").contains("levels"));
        let wide = Expression::In(Box::new(column("a")), vec![Expression::from(1); PARTS_MAX]);
        assert!(of(wide).expect_err("too wide").contains("parts"));
    }

    #[test]
    fn numbers_without_a_place_are_errors() {
        assert_eq!(of(column("a") / 0), Err("it divides by zero".to_owned()));
        assert_eq!(of(column("a") / 0.0), Err("it divides by zero".to_owned()));
        let large = Expression::constant(Datum::Signed128(i128::MAX));
        assert_eq!(of(large.clone() + 1), Err("a number in it is too large".to_owned()));
        assert_eq!(of(column("b") / 0), Ok(Datum::Null));
        // `and` ends at the first false.
        assert_eq!(of(column("a").less(0).and((column("a") / 0).more(1))), Ok(FALSE));
    }

    proptest! {
        #[test]
        fn integers_calculate_like_those_of_rust(a in any::<i64>(), b in any::<i64>()) {
            let both = [Datum::Signed(a), Datum::Signed(b)];
            let value = |expression| evaluate(&expression, both.clone());
            let wide = |value: i128| Ok(of_integer(value));
            let (x, y) = (i128::from(a), i128::from(b));
            prop_assert_eq!(value(column("a") + column("b")), wide(x + y));
            prop_assert_eq!(value(column("a") - column("b")), wide(x - y));
            prop_assert_eq!(value(column("a") * column("b")), wide(x * y));
            if b != 0 {
                prop_assert_eq!(value(column("a") / column("b")), wide(x / y));
                prop_assert_eq!(value(column("a") % column("b")), wide(x % y));
            }
            prop_assert_eq!(value(column("a").less(column("b"))), Ok(Datum::Bool(a < b)));
            prop_assert_eq!(value(column("a").at_least(column("b"))), Ok(Datum::Bool(a >= b)));
        }
    }
}
