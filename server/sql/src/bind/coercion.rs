//! Types of expressions that meet each other.

use isles::Datum;

use crate::bind::Binder;
use crate::error::{Result, SqlError, state};
use crate::expr::{Cast, Expr, Typed};
use crate::functions::converts;
use crate::text::from_text;
use crate::types::SqlType;

impl Binder {
    /// Brings an expression to a type to which it converts by itself.
    pub fn coerce(&mut self, typed: Typed, to: &SqlType) -> Result<Expr> {
        let Typed { expr, kind } = typed;
        match (&expr, &kind) {
            (_, kind) if kind == to => Ok(expr),
            (Expr::Param(number), SqlType::Unknown) => {
                // A length is no part of a parameter's type.
                let kind = match to {
                    SqlType::Char(_) | SqlType::VarChar(_) | SqlType::Numeric(_) => to.plain(),
                    to => to.clone(),
                };
                let known = &mut self.params[*number];
                if *known == SqlType::Unknown {
                    known.clone_from(&kind);
                }
                let from = known.clone();
                Ok(cast_if_needed(expr, from, to, false))
            }
            (Expr::Constant(Datum::Text(text)), SqlType::Unknown) => match to {
                SqlType::RegClass | SqlType::RegType | SqlType::RegProc => {
                    Ok(cast_if_needed(expr, SqlType::Text, to, false))
                }
                to => {
                    let value = from_text(text, to)?;
                    Ok(Expr::Constant(crate::value::cast(value, &to.plain(), to, false)?))
                }
            },
            (Expr::Constant(Datum::Null), SqlType::Unknown) => Ok(expr),
            (_, SqlType::Unknown) => Ok(cast_if_needed(expr, SqlType::Text, to, false)),
            _ => Ok(cast_if_needed(expr, kind, to, false)),
        }
    }

    /// Brings an expression to the type of a column that gets its value.
    pub fn assign(&mut self, typed: Typed, to: &SqlType, column: &str) -> Result<Expr> {
        let from = &typed.kind;
        let is_possible = *from == SqlType::Unknown
            || from.plain() == to.plain()
            || (from.is_number() && to.is_number())
            || to.is_text()
            || converts(from, to) > 0
            || matches!(
                (from, to),
                (
                    SqlType::Timestamp | SqlType::TimestampTz,
                    SqlType::Date | SqlType::Time | SqlType::Timestamp
                ) | (SqlType::Json | SqlType::Jsonb, SqlType::Json | SqlType::Jsonb)
                    | (SqlType::Text, SqlType::RegClass)
            );
        if !is_possible {
            let message = format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                to.name(),
                from.name()
            );
            return Err(SqlError::new(state::TYPE_MISMATCH, message)
                .hint("You will need to rewrite or cast the expression."));
        }
        self.coerce(typed, to)
    }

    /// Converts an expression by a cast that the statement has.
    pub fn cast(&mut self, typed: Typed, to: &SqlType) -> Result<Typed> {
        let expr = match (&typed.expr, &typed.kind) {
            (Expr::Constant(Datum::Text(text)), SqlType::Unknown)
                if !matches!(to, SqlType::RegClass | SqlType::RegType | SqlType::RegProc) =>
            {
                let value = from_text(text, to)?;
                Expr::Constant(crate::value::cast(value, &to.plain(), to, true)?)
            }
            (Expr::Param(_), SqlType::Unknown) => self.coerce(typed, to)?,
            (_, SqlType::Unknown) => cast_if_needed(typed.expr, SqlType::Text, to, true),
            (_, from) => {
                let from = from.clone();
                if !can_cast(&from, to) {
                    let message = format!("cannot cast type {} to {}", from.name(), to.name());
                    return Err(SqlError::new(state::CANNOT_COERCE, message));
                }
                cast_if_needed(typed.expr, from, to, true)
            }
        };
        Ok(Typed::new(expr, to.clone()))
    }

    /// Returns the type to which expressions convert together.
    pub fn common_kind(&self, kinds: &[SqlType], what: &str) -> Result<SqlType> {
        let mut common = SqlType::Unknown;
        for kind in kinds {
            if *kind == SqlType::Unknown || *kind == common {
                continue;
            }
            if common == SqlType::Unknown {
                common = kind.clone();
            } else if common.plain() == kind.plain() {
                common = common.plain();
            } else if converts(&common, kind) > 0 && !(common == SqlType::Text && kind.is_text()) {
                common = kind.clone();
            } else if converts(kind, &common) == 0 {
                let message = format!("{what} types {} and {} cannot be matched", common.name(), kind.name());
                return Err(SqlError::new(state::TYPE_MISMATCH, message));
            }
        }
        Ok(if common == SqlType::Unknown { SqlType::Text } else { common })
    }

    /// Brings two operands of a comparison to types whose values compare. Integers of all lengths
    /// do, and so do texts, so that columns stay as they are and indexes can be used.
    pub fn comparable(&mut self, left: Typed, right: Typed) -> Result<(Expr, Expr)> {
        let (l, r) = (left.kind.clone(), right.kind.clone());
        match (&l, &r) {
            (SqlType::Unknown, SqlType::Unknown) => {
                Ok((self.coerce(left, &SqlType::Text)?, self.coerce(right, &SqlType::Text)?))
            }
            (SqlType::Unknown, kind) => Ok((self.coerce(left, kind)?, right.expr)),
            (kind, SqlType::Unknown) => Ok((left.expr, self.coerce(right, kind)?)),
            (SqlType::Char(_), SqlType::Char(_)) => {
                Ok((self.coerce(left, &SqlType::Text)?, self.coerce(right, &SqlType::Text)?))
            }
            (SqlType::Char(_), other) if other.is_text() => {
                Ok((self.coerce(left, &SqlType::Text)?, right.expr))
            }
            (other, SqlType::Char(_)) if other.is_text() => {
                Ok((left.expr, self.coerce(right, &SqlType::Text)?))
            }
            (l, r) if l.plain() == r.plain() || (l.is_text() && r.is_text()) => Ok((left.expr, right.expr)),
            (l, r) if l.is_number() && r.is_number() => Ok((left.expr, right.expr)),
            (SqlType::RegClass | SqlType::RegType | SqlType::RegProc | SqlType::Oid, SqlType::Text) => {
                Ok((left.expr, self.coerce(right, &l)?))
            }
            _ if converts(&l, &r) > 0 => Ok((self.coerce(left, &r)?, right.expr)),
            _ if converts(&r, &l) > 0 => Ok((left.expr, self.coerce(right, &l)?)),
            _ => {
                let message = format!("operator does not exist: {} = {}", l.name(), r.name());
                Err(SqlError::new(state::NO_FUNCTION, message).hint(
                    "No operator matches the given name and argument types. You might need to add explicit type casts.",
                ))
            }
        }
    }
}

/// Returns a conversion, if one is needed.
pub fn cast_if_needed(of: Expr, from: SqlType, to: &SqlType, explicit: bool) -> Expr {
    let same = from == *to
        || (from.is_text() && *to == SqlType::Text && !matches!(from, SqlType::Char(_)))
        || (from.plain() == *to && !to.is_text() && !matches!(to, SqlType::Numeric(Some(_))));
    if same {
        return of;
    }
    Expr::Cast(Box::new(Cast { of, from, to: to.clone(), explicit }))
}

/// Returns true if a cast between two types exists.
fn can_cast(from: &SqlType, to: &SqlType) -> bool {
    use SqlType::{Array, Bool, Date, Int4, Interval, Json, Jsonb, Time, Timestamp, TimestampTz};
    from.plain() == to.plain()
        || from.is_text()
        || to.is_text()
        || (from.is_number() && to.is_number())
        || matches!((from, to), (Bool, Int4) | (Int4, Bool) | (Json | Jsonb, Json | Jsonb) | (Time, Interval))
        || matches!(
            (from, to),
            (Date | Timestamp | TimestampTz, Date | Timestamp | TimestampTz)
                | (Timestamp | TimestampTz, Time)
        )
        || matches!((from, to), (Array(from), Array(to)) if can_cast(from, to))
        || *from == SqlType::Record
}
