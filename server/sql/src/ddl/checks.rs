//! Conditions of checks, as the engine keeps them.

use isles::{Datum, Expression, ValueType};
use sqlparser::ast::{BinaryOperator, Expr as Ast, Function, FunctionArguments, InTarget, UnaryOperator};

use crate::bind::{Binder, name_of, object_of};
use crate::ddl::draft::Draft;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::types::SqlType;

/// Returns a condition or a computation over columns of a table.
pub fn expression_of(ast: &Ast, draft: &Draft) -> Result<Expression> {
    let kind = kind_of(ast, draft);
    convert(ast, draft, kind.as_ref())
}

fn unsupported(ast: &Ast) -> SqlError {
    SqlError::unsupported(format!("{ast} in a check or a generated column"))
}

/// Returns the type of the first column in an expression, which its constants get.
fn kind_of(ast: &Ast, draft: &Draft) -> Option<SqlType> {
    match ast {
        Ast::Identifier(ident) => {
            let name = name_of(ident);
            draft.columns.iter().find(|column| column.name == name).map(|column| column.kind.clone())
        }
        Ast::Nested(of) | Ast::UnaryOp { expr: of, .. } | Ast::IsNull(of) | Ast::IsNotNull(of) => {
            kind_of(of, draft)
        }
        Ast::BinaryOp { left, right, .. } => kind_of(left, draft).or_else(|| kind_of(right, draft)),
        Ast::Cast { expr, .. } | Ast::Between { expr, .. } | Ast::In { expr, .. } => kind_of(expr, draft),
        Ast::Function(_) => Some(SqlType::Int8),
        _ => None,
    }
}

fn convert(ast: &Ast, draft: &Draft, kind: Option<&SqlType>) -> Result<Expression> {
    let both = |left: &Ast, right: &Ast| {
        let kind = kind_of(left, draft).or_else(|| kind_of(right, draft)).or_else(|| kind.cloned());
        Ok::<_, SqlError>((convert(left, draft, kind.as_ref())?, convert(right, draft, kind.as_ref())?))
    };
    Ok(match ast {
        Ast::Nested(of) => convert(of, draft, kind)?,
        Ast::Identifier(ident) => {
            let name = name_of(ident);
            if !draft.columns.iter().any(|column| column.name == name) {
                let message = format!("column \"{name}\" does not exist");
                return Err(SqlError::new(state::NO_COLUMN, message).at(ident.span));
            }
            Expression::column(name)
        }
        Ast::Value(_) | Ast::TypedString(_) => constant(ast, kind)?,
        Ast::Cast { expr, .. } => match &**expr {
            Ast::Value(_) => constant(ast, kind)?,
            // A column keeps its type.
            of => convert(of, draft, kind)?,
        },
        Ast::UnaryOp { op: UnaryOperator::Not, expr } => !convert(expr, draft, kind)?,
        Ast::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Ast::Value(_)) => {
            constant(ast, kind)?
        }
        Ast::IsNull(of) => convert(of, draft, kind)?.is_null(),
        Ast::IsNotNull(of) => !convert(of, draft, kind)?.is_null(),
        Ast::Between { expr, negated, low, high } => {
            let kind = kind_of(expr, draft);
            let of = convert(expr, draft, kind.as_ref())?;
            let between =
                of.between(convert(low, draft, kind.as_ref())?, convert(high, draft, kind.as_ref())?);
            if *negated { !between } else { between }
        }
        Ast::In { expr, target: InTarget::List(list), negated, .. } => {
            let kind = kind_of(expr, draft);
            let list = list
                .iter()
                .map(|member| convert(member, draft, kind.as_ref()))
                .collect::<Result<Vec<_>>>()?;
            let found = convert(expr, draft, kind.as_ref())?.is_in(list);
            if *negated { !found } else { found }
        }
        Ast::BinaryOp { left, op, right } => {
            let (left, right) = both(left, right)?;
            match op {
                BinaryOperator::Eq => left.equals(right),
                BinaryOperator::NotEq => left.differs(right),
                BinaryOperator::Lt => left.less(right),
                BinaryOperator::LtEq => left.at_most(right),
                BinaryOperator::Gt => left.more(right),
                BinaryOperator::GtEq => left.at_least(right),
                BinaryOperator::And => left.and(right),
                BinaryOperator::Or => left.or(right),
                BinaryOperator::Plus => left + right,
                BinaryOperator::Minus => left - right,
                BinaryOperator::Multiply => left * right,
                BinaryOperator::Divide => left / right,
                BinaryOperator::Modulo => left % right,
                _ => return Err(unsupported(ast)),
            }
        }
        Ast::Function(Function { name, args: FunctionArguments::List(list), .. })
            if matches!(object_of(name)?.1.as_str(), "length" | "char_length") && list.args.len() == 1 =>
        {
            let of = crate::bind::argument_of(&list.args[0])?;
            convert(of, draft, None)?.length()
        }
        _ => return Err(unsupported(ast)),
    })
}

/// Returns a constant of this type.
fn constant(ast: &Ast, kind: Option<&SqlType>) -> Result<Expression> {
    let mut binder = Binder::new(std::sync::Arc::default(), Vec::new());
    let typed = binder.constant(ast)?;
    let kind = kind.cloned().unwrap_or_else(|| typed.kind.clone());
    // Lengths are no matter of a comparison.
    match binder.assign(typed, &kind.plain(), "constant")? {
        Expr::Constant(value) => Ok(Expression::constant(value)),
        Expr::Cast(cast) => match cast.of {
            Expr::Constant(value) => {
                Ok(Expression::constant(crate::value::cast(value, &cast.from, &kind.plain(), true)?))
            }
            _ => Err(unsupported(ast)),
        },
        _ => Err(unsupported(ast)),
    }
}

/// Returns the text of a condition.
pub fn text_of(expression: &Expression) -> String {
    expression.to_string().replace('"', "'")
}

/// Returns true if a value fits a column of this type.
pub fn fits(value: &Datum, kind: &ValueType) -> bool {
    value.append(kind, &mut Vec::new()).is_ok()
}
