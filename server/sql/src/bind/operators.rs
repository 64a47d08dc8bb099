//! Operators.

use sqlparser::ast::{BinaryOperator as Ast, UnaryOperator};

use isles::Datum;

use crate::bind::Binder;
use crate::error::{Result, SqlError, state};
use crate::expr::{Comparison, Expr, Typed};
use crate::functions;
use crate::types::SqlType;
use crate::value::Operation;

/// Returns the comparison of an operator.
pub fn comparison_of(operator: &Ast) -> Option<Comparison> {
    Some(match operator {
        Ast::Eq => Comparison::Equal,
        Ast::NotEq => Comparison::Differs,
        Ast::Lt => Comparison::Less,
        Ast::LtEq => Comparison::AtMost,
        Ast::Gt => Comparison::More,
        Ast::GtEq => Comparison::AtLeast,
        Ast::PGCustomBinaryOperator(parts) if parts.last().is_some_and(|name| name == "=") => {
            Comparison::Equal
        }
        Ast::PGCustomBinaryOperator(parts) if parts.last().is_some_and(|name| name == "<>") => {
            Comparison::Differs
        }
        _ => return None,
    })
}

/// Returns the function of an operator, and whether its result is negated.
fn function_of(operator: &Ast) -> Option<(&'static str, bool)> {
    Some(match operator {
        Ast::StringConcat => ("||", false),
        Ast::PGRegexMatch => ("~", false),
        Ast::PGRegexIMatch => ("~*", false),
        Ast::PGRegexNotMatch => ("~", true),
        Ast::PGRegexNotIMatch => ("~*", true),
        Ast::BitwiseAnd => ("&", false),
        Ast::BitwiseOr => ("|", false),
        Ast::PGBitwiseXor | Ast::BitwiseXor => ("#", false),
        Ast::PGBitwiseShiftLeft => ("<<", false),
        Ast::PGBitwiseShiftRight => (">>", false),
        Ast::PGExp => ("power", false),
        Ast::AtArrow => ("@>", false),
        Ast::ArrowAt => ("<@", false),
        Ast::PGOverlap => ("&&", false),
        Ast::PGStartsWith => ("starts_with", false),
        Ast::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("~") => ("~", false),
            Some("~*") => ("~*", false),
            Some("!~") => ("~", true),
            Some("||") => ("||", false),
            _ => return None,
        },
        _ => return None,
    })
}

fn operation_of(operator: &Ast) -> Option<Operation> {
    Some(match operator {
        Ast::Plus => Operation::Add,
        Ast::Minus => Operation::Subtract,
        Ast::Multiply => Operation::Multiply,
        Ast::Divide => Operation::Divide,
        Ast::Modulo => Operation::Remainder,
        Ast::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("+") => Operation::Add,
            Some("-") => Operation::Subtract,
            Some("*") => Operation::Multiply,
            Some("/") => Operation::Divide,
            _ => return None,
        },
        _ => return None,
    })
}

fn no_operator(operator: &dyn std::fmt::Display, left: &SqlType, right: &SqlType) -> SqlError {
    let message = format!("operator does not exist: {} {operator} {}", left.name(), right.name());
    SqlError::new(state::NO_FUNCTION, message).hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

impl Binder {
    /// Binds an operator between two expressions.
    pub fn binary(&mut self, operator: &Ast, left: Typed, right: Typed) -> Result<Typed> {
        if let Some(comparison) = comparison_of(operator) {
            return self.compare(comparison, left, right);
        }
        if let Some(operation) = operation_of(operator) {
            return self.arithmetic(operation, operator, left, right);
        }
        match operator {
            Ast::And | Ast::Or => {
                let left = self.boolean(left)?;
                let right = self.boolean(right)?;
                let mut parts = Vec::new();
                for part in [left, right] {
                    match (part, operator) {
                        (Expr::And(more), Ast::And) | (Expr::Or(more), Ast::Or) => parts.extend(more),
                        (part, _) => parts.push(part),
                    }
                }
                let expr = if *operator == Ast::And { Expr::And(parts) } else { Expr::Or(parts) };
                Ok(Typed::new(expr, SqlType::Bool))
            }
            _ => {
                let (l, r) = (left.kind.clone(), right.kind.clone());
                let Some((name, negated)) = function_of(operator) else {
                    return Err(no_operator(operator, &l, &r));
                };
                let (left, right) = match name {
                    "||" => self.concatenated(left, right)?,
                    _ => (left, right),
                };
                let call =
                    functions::resolve(name, vec![left, right], &mut |typed, kind| self.coerce(typed, kind));
                let call = call.map_err(|_| no_operator(operator, &l, &r))?;
                Ok(if negated { Typed::new(Expr::Not(Box::new(call.expr)), SqlType::Bool) } else { call })
            }
        }
    }

    /// Makes texts of the operands of `||`, unless they are arrays or bytes.
    fn concatenated(&mut self, left: Typed, right: Typed) -> Result<(Typed, Typed)> {
        let is_own = |kind: &SqlType| matches!(kind, SqlType::Array(_) | SqlType::Bytea);
        match (&left.kind, &right.kind) {
            (SqlType::Array(of), kind) if !matches!(kind, SqlType::Array(_) | SqlType::Unknown) => {
                let of = (**of).clone();
                let member = self.coerce(right, &of)?;
                Ok((left, Typed::new(Expr::Array(vec![member]), of.array())))
            }
            (kind, SqlType::Array(of)) if !matches!(kind, SqlType::Array(_) | SqlType::Unknown) => {
                let of = (**of).clone();
                let member = self.coerce(left, &of)?;
                Ok((Typed::new(Expr::Array(vec![member]), of.array()), right))
            }
            (l, r) if is_own(l) || is_own(r) => Ok((left, right)),
            (l, r) if l.is_text() || r.is_text() || *l == SqlType::Unknown || *r == SqlType::Unknown => {
                let left = Typed::new(self.coerce(left, &SqlType::Text)?, SqlType::Text);
                Ok((left, Typed::new(self.coerce(right, &SqlType::Text)?, SqlType::Text)))
            }
            _ => Ok((left, right)),
        }
    }

    /// Binds a comparison.
    pub fn compare(&mut self, comparison: Comparison, left: Typed, right: Typed) -> Result<Typed> {
        if let (Expr::Row(l), Expr::Row(r)) = (&left.expr, &right.expr) {
            if l.len() != r.len() {
                return Err(SqlError::new(state::SYNTAX, "unequal number of entries in row expressions"));
            }
            let compared = Expr::CompareRows(comparison, l.clone(), r.clone());
            return Ok(Typed::new(compared, SqlType::Bool));
        }
        let (left, right) = self.comparable(left, right)?;
        let compared = Expr::Compare(comparison, Box::new(left), Box::new(right));
        Ok(Typed::new(compared, SqlType::Bool))
    }

    /// Brings an expression to a truth value.
    pub fn boolean(&mut self, typed: Typed) -> Result<Expr> {
        match typed.kind {
            SqlType::Bool => Ok(typed.expr),
            SqlType::Unknown => self.coerce(typed, &SqlType::Bool),
            kind => {
                let message = format!("argument must be type boolean, not type {}", kind.name());
                Err(SqlError::new(state::TYPE_MISMATCH, message))
            }
        }
    }

    fn arithmetic(&mut self, operation: Operation, name: &Ast, left: Typed, right: Typed) -> Result<Typed> {
        use Operation::{Add, Divide, Multiply, Subtract};
        use SqlType::{Date, Int4, Interval, Time, Timestamp, TimestampTz, Unknown};
        let is_time = |kind: &SqlType| matches!(kind, Date | Time | Timestamp | TimestampTz | Interval);
        let (l, r) = (left.kind.clone(), right.kind.clone());
        let (left_kind, right_kind, result) = match (&l, operation, &r) {
            (Unknown, _, Unknown) => return Err(no_operator(name, &l, &r)),
            (Timestamp | TimestampTz, Subtract, Unknown) => (l.clone(), l.clone(), Interval),
            (Timestamp | TimestampTz | Time, Add | Subtract, Unknown) => (l.clone(), Interval, l.clone()),
            (Unknown, Add, Timestamp | TimestampTz) => (Interval, r.clone(), r.clone()),
            (Date, Subtract, Unknown) => (Date, Date, Int4),
            (Date, Add, Unknown) => (Date, Interval, Timestamp),
            (Date, Subtract, Date) => (Date, Date, Int4),
            (Date, Add | Subtract, kind) if kind.is_integer() => (Date, r.clone(), Date),
            (kind, Add, Date) if kind.is_integer() => (l.clone(), Date, Date),
            (Date, Add | Subtract, Interval) | (Interval, Add, Date) => (l.clone(), r.clone(), Timestamp),
            (Timestamp | TimestampTz | Time, Add | Subtract, Interval) => (l.clone(), Interval, l.clone()),
            (Interval, Add, Timestamp | TimestampTz | Time) => (Interval, r.clone(), r.clone()),
            (Timestamp | Date, Subtract, Timestamp | Date) => (Timestamp, Timestamp, Interval),
            (Timestamp | TimestampTz | Date, Subtract, Timestamp | TimestampTz | Date) => {
                (TimestampTz, TimestampTz, Interval)
            }
            (Interval, Add | Subtract, Interval | Unknown) | (Unknown, Add | Subtract, Interval) => {
                (Interval, Interval, Interval)
            }
            (Interval, Multiply | Divide, kind) if kind.is_number() => (Interval, r.clone(), Interval),
            (kind, Multiply, Interval) if kind.is_number() => (l.clone(), Interval, Interval),
            (l, _, r) if is_time(l) || is_time(r) => return Err(no_operator(name, l, r)),
            (l, _, r) if (l.is_number() || *l == Unknown) && (r.is_number() || *r == Unknown) => {
                let kind = number_kind(l, r);
                (kind.clone(), kind.clone(), kind)
            }
            (l, _, r) => return Err(no_operator(name, l, r)),
        };
        // Integers of different lengths calculate as they are.
        let keep = |own: &SqlType, to: &SqlType| own.is_integer() && to.is_number();
        let left = if keep(&l, &left_kind) { left.expr } else { self.coerce(left, &left_kind)? };
        let right = if keep(&r, &right_kind) { right.expr } else { self.coerce(right, &right_kind)? };
        let expr = Expr::Calculate(operation, Box::new(left), Box::new(right), result.clone());
        Ok(Typed::new(expr, result))
    }

    /// Binds an operator before an expression.
    pub fn unary(&mut self, operator: &UnaryOperator, of: Typed) -> Result<Typed> {
        match operator {
            UnaryOperator::Not => Ok(Typed::new(Expr::Not(Box::new(self.boolean(of)?)), SqlType::Bool)),
            UnaryOperator::Plus => Ok(of),
            UnaryOperator::Minus => match (&of.expr, &of.kind) {
                (Expr::Constant(Datum::Signed(number)), kind) if *number != i64::MIN => {
                    Ok(Typed::new(Expr::Constant(Datum::Signed(-number)), kind.clone()))
                }
                // The least integer of 8 bytes was read as an exact number.
                (Expr::Constant(Datum::Numeric(number)), kind) => {
                    let negated = isles::Decimal::new(-number.digits(), number.scale()).unwrap_or(*number);
                    if negated.scale() == 0 && negated.digits() == i128::from(i64::MIN) {
                        return Ok(Typed::new(Expr::Constant(Datum::Signed(i64::MIN)), SqlType::Int8));
                    }
                    Ok(Typed::new(Expr::Constant(Datum::Numeric(negated)), kind.clone()))
                }
                (_, SqlType::Interval) => {
                    let zero =
                        Typed::new(Expr::Constant(Datum::Interval(isles::Interval::ZERO)), SqlType::Interval);
                    self.arithmetic(Operation::Subtract, &Ast::Minus, zero, of)
                }
                _ => {
                    let zero = Typed::new(Expr::Constant(Datum::Signed(0)), SqlType::Int4);
                    self.arithmetic(Operation::Subtract, &Ast::Minus, zero, of)
                }
            },
            UnaryOperator::PGAbs => {
                functions::resolve("abs", vec![of], &mut |typed, kind| self.coerce(typed, kind))
            }
            other => Err(SqlError::unsupported(format!("operator {other}"))),
        }
    }
}

/// Returns the type of an operation on two numbers.
fn number_kind(left: &SqlType, right: &SqlType) -> SqlType {
    use SqlType::{Float4, Float8, Int2, Int4, Int8, Numeric, Unknown};
    match (left, right) {
        (Unknown, kind) | (kind, Unknown) => kind.plain(),
        (Float4, Float4) => Float4,
        (Float4 | Float8, _) | (_, Float4 | Float8) => Float8,
        (Numeric(_), _) | (_, Numeric(_)) => Numeric(None),
        (Int2, Int2) => Int2,
        (Int8, _) | (_, Int8) => Int8,
        _ => Int4,
    }
}
