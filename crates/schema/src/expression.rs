//! Expressions over the columns of a row, as values: conditions of check constraints, and contents
//! of generated columns.
//!
//! An expression is data, not code: it is stored with the description of its table and evaluated
//! by whichever program writes a row. It has the three truth values of SQL: true, false and null.

use std::fmt;
use std::ops::{Add, Div, Mul, Not, Rem, Sub};

use crate::datum::Datum;

/// Comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// Arithmetic operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: of integers the quotient without its fraction.
    Divide,
    /// `%`: the rest of that division, with the sign of the left operand.
    Remainder,
}

/// An expression over the columns of a row.
///
/// A comparison or an operation of which an operand is null is null; `and`, `or` and `not` follow
/// the truth tables of SQL. Integers and exact decimal numbers compare and calculate exactly; a
/// number that has no place, and a division by zero, is an error that refuses the row.
///
/// ```
/// use schema::Expression;
///
/// let sound = Expression::column("price")
///     .more(0)
///     .and(Expression::column("discount").at_most(Expression::column("price")))
///     .or(Expression::column("status").is_in(["draft", "void"]));
/// assert_eq!(
///     sound.to_string(),
///     r#"((price > 0 and discount <= price) or status in ("draft", "void"))"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// The value of a column.
    Column(String),
    /// A constant.
    Constant(Datum),
    /// Comparison of two expressions.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// True if all are true.
    And(Vec<Expression>),
    /// True if one is true.
    Or(Vec<Expression>),
    /// True if the operand is false.
    Not(Box<Expression>),
    /// True if the operand is null, else false.
    IsNull(Box<Expression>),
    /// Operation on two numbers.
    Calculate(Arithmetic, Box<Expression>, Box<Expression>),
    /// Characters of a text, bytes of bytes, or members of a list.
    Length(Box<Expression>),
    /// True if the first is equal to one of the others.
    In(Box<Expression>, Vec<Expression>),
    /// True if the first is not less than the second and not greater than the third.
    Between(Box<Expression>, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Returns the value of a column.
    pub fn column(name: impl Into<String>) -> Self {
        Expression::Column(name.into())
    }

    /// Returns a constant.
    pub fn constant(value: impl Into<Datum>) -> Self {
        Expression::Constant(value.into())
    }

    fn compare(self, comparison: Comparison, other: impl Into<Expression>) -> Self {
        Expression::Compare(comparison, Box::new(self), Box::new(other.into()))
    }

    /// `=`
    #[must_use]
    pub fn equals(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::Equal, other)
    }

    /// `<>`
    #[must_use]
    pub fn differs(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::NotEqual, other)
    }

    /// `<`
    #[must_use]
    pub fn less(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::Less, other)
    }

    /// `<=`
    #[must_use]
    pub fn at_most(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::LessOrEqual, other)
    }

    /// `>`
    #[must_use]
    pub fn more(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::Greater, other)
    }

    /// `>=`
    #[must_use]
    pub fn at_least(self, other: impl Into<Expression>) -> Self {
        self.compare(Comparison::GreaterOrEqual, other)
    }

    /// True if both are true.
    #[must_use]
    pub fn and(self, other: Expression) -> Self {
        match self {
            Expression::And(mut all) => {
                all.push(other);
                Expression::And(all)
            }
            first => Expression::And(vec![first, other]),
        }
    }

    /// True if one of both is true.
    #[must_use]
    pub fn or(self, other: Expression) -> Self {
        match self {
            Expression::Or(mut all) => {
                all.push(other);
                Expression::Or(all)
            }
            first => Expression::Or(vec![first, other]),
        }
    }

    /// True if there is no value.
    #[must_use]
    pub fn is_null(self) -> Self {
        Expression::IsNull(Box::new(self))
    }

    /// Characters of a text, bytes of bytes, or members of a list.
    #[must_use]
    pub fn length(self) -> Self {
        Expression::Length(Box::new(self))
    }

    /// True if the value is one of these.
    #[must_use]
    pub fn is_in<E: Into<Expression>>(self, values: impl IntoIterator<Item = E>) -> Self {
        Expression::In(Box::new(self), values.into_iter().map(E::into).collect())
    }

    /// True if the value is between these, both included.
    #[must_use]
    pub fn between(self, low: impl Into<Expression>, high: impl Into<Expression>) -> Self {
        Expression::Between(Box::new(self), Box::new(low.into()), Box::new(high.into()))
    }

    fn calculate(self, operation: Arithmetic, other: impl Into<Expression>) -> Self {
        Expression::Calculate(operation, Box::new(self), Box::new(other.into()))
    }

    /// Returns the parts that this expression is made of.
    pub(crate) fn parts(&self) -> Vec<&Expression> {
        match self {
            Expression::Column(_) | Expression::Constant(_) => Vec::new(),
            Expression::Compare(_, left, right) | Expression::Calculate(_, left, right) => vec![left, right],
            Expression::And(all) | Expression::Or(all) => all.iter().collect(),
            Expression::Not(of) | Expression::IsNull(of) | Expression::Length(of) => vec![of],
            Expression::In(of, values) => std::iter::once(&**of).chain(values).collect(),
            Expression::Between(of, low, high) => vec![of, low, high],
        }
    }

    /// As [`Self::parts`], to be changed.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Expression::Column(_) | Expression::Constant(_) => Vec::new(),
            Expression::Compare(_, left, right) | Expression::Calculate(_, left, right) => vec![left, right],
            Expression::And(all) | Expression::Or(all) => all.iter_mut().collect(),
            Expression::Not(of) | Expression::IsNull(of) | Expression::Length(of) => vec![of],
            Expression::In(of, values) => std::iter::once(&mut **of).chain(values).collect(),
            Expression::Between(of, low, high) => vec![of, low, high],
        }
    }

    /// Returns true if the expression names this column.
    pub fn names(&self, column: &str) -> bool {
        matches!(self, Expression::Column(name) if name == column)
            || self.parts().iter().any(|part| part.names(column))
    }
}

impl Not for Expression {
    type Output = Expression;

    fn not(self) -> Expression {
        Expression::Not(Box::new(self))
    }
}

macro_rules! operators {
    ($($operator:ident $function:ident $operation:ident;)*) => { $(
        impl<E: Into<Expression>> $operator<E> for Expression {
            type Output = Expression;

            fn $function(self, other: E) -> Expression {
                self.calculate(Arithmetic::$operation, other)
            }
        }
    )* };
}
operators! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
    Rem rem Remainder;
}

macro_rules! constants {
    ($($kind:ty => $make:expr;)*) => { $(
        impl From<$kind> for Datum {
            fn from(value: $kind) -> Datum {
                $make(value)
            }
        }

        impl From<$kind> for Expression {
            fn from(value: $kind) -> Expression {
                Expression::Constant(value.into())
            }
        }
    )* };
}
constants! {
    i32 => |value: i32| Datum::Signed(value.into());
    i64 => Datum::Signed;
    u32 => |value: u32| Datum::Unsigned(value.into());
    u64 => Datum::Unsigned;
    f64 => Datum::Float;
    bool => Datum::Bool;
    &str => |value: &str| Datum::Text(value.to_owned());
    String => Datum::Text;
}

impl From<Datum> for Expression {
    fn from(value: Datum) -> Expression {
        Expression::Constant(value)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        })
    }
}

/// Writes expressions with a word between them.
fn write_joined(to: &mut fmt::Formatter<'_>, all: &[Expression], word: &str) -> fmt::Result {
    for (number, one) in all.iter().enumerate() {
        write!(to, "{}{one}", if number == 0 { "" } else { word })?;
    }
    Ok(())
}

impl fmt::Display for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Column(name) => to.write_str(name),
            Expression::Constant(value) => write!(to, "{value}"),
            Expression::Compare(comparison, left, right) => write!(to, "{left} {comparison} {right}"),
            Expression::And(all) => {
                to.write_str("(")?;
                write_joined(to, all, " and ")?;
                to.write_str(")")
            }
            Expression::Or(all) => {
                to.write_str("(")?;
                write_joined(to, all, " or ")?;
                to.write_str(")")
            }
            Expression::Not(of) => write!(to, "not ({of})"),
            Expression::IsNull(of) => write!(to, "{of} is null"),
            Expression::Calculate(operation, left, right) => write!(to, "({left} {operation} {right})"),
            Expression::Length(of) => write!(to, "length({of})"),
            Expression::In(of, values) => {
                write!(to, "{of} in (")?;
                write_joined(to, values, ", ")?;
                to.write_str(")")
            }
            Expression::Between(of, low, high) => write!(to, "{of} between {low} and {high}"),
        }
    }
}
