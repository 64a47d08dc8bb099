//! Expressions.

use isles::Datum;
use sqlparser::ast::{AccessExpr, CastKind, Expr as Ast, InTarget, Query, Subscript, Value, ValueWithSpan};
use sqlparser::tokenizer::Span;

use crate::bind::operators::comparison_of;
use crate::bind::{Binder, PARAMS_MAX, Scope, name_of};
use crate::error::{Result, SqlError, state};
use crate::expr::{Comparison, Expr, Subquery, SubqueryUse, Typed};
use crate::functions;
use crate::text::from_text;
use crate::types::SqlType;

impl Binder {
    /// Binds an expression.
    pub fn expression(&mut self, ast: &Ast, scope: &Scope<'_>) -> Result<Typed> {
        match ast {
            Ast::Nested(inner) => self.expression(inner, scope),
            Ast::Value(value) => self.literal(value),
            Ast::Identifier(ident) => {
                let name = name_of(ident);
                match scope.resolve(None, &name, ident.span, self)? {
                    Some(found) => Ok(found),
                    None if ident.quote_style.is_none() => self.word(&name, ident.span, scope),
                    None => Err(scope.unknown(None, &name, ident.span)),
                }
            }
            Ast::CompoundIdentifier(parts) => {
                let names: Vec<_> = parts.iter().map(name_of).collect();
                let [.., relation, name] = &names[..] else {
                    return Err(SqlError::new(state::SYNTAX, format!("improper name {ast}")));
                };
                let span = parts[0].span;
                let found = scope.resolve(Some(relation), name, span, self)?;
                found.ok_or_else(|| scope.unknown(Some(relation), name, span))
            }
            Ast::BinaryOp { left, op, right } => self.binary_of(left, op, right, scope),
            Ast::UnaryOp { op, expr } => {
                let of = self.expression(expr, scope)?;
                self.unary(op, of)
            }
            Ast::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                let to = SqlType::of_ast(data_type)?;
                let of = match (&**expr, &to) {
                    // An array of literals gets the type at once.
                    (Ast::Array(array), SqlType::Array(member)) => {
                        let members = array.elem.iter().map(|member_ast| {
                            let typed = self.expression(member_ast, scope)?;
                            self.cast(typed, member).map(|typed| typed.expr)
                        });
                        return Ok(Typed::new(Expr::Array(members.collect::<Result<_>>()?), to.clone()));
                    }
                    _ => self.expression(expr, scope)?,
                };
                self.cast(of, &to)
            }
            Ast::TypedString(typed) => {
                let to = SqlType::of_ast(&typed.data_type)?;
                let of = self.literal(&typed.value)?;
                self.cast(of, &to)
            }
            Ast::IsNull(of) => self.test(of, scope, |of| Expr::IsNull(Box::new(of))),
            Ast::IsNotNull(of) => self.test(of, scope, |of| Expr::Not(Box::new(Expr::IsNull(Box::new(of))))),
            Ast::IsTrue(of) => self.truth(of, scope, true, false),
            Ast::IsNotTrue(of) => self.truth(of, scope, true, true),
            Ast::IsFalse(of) => self.truth(of, scope, false, false),
            Ast::IsNotFalse(of) => self.truth(of, scope, false, true),
            Ast::IsUnknown(of) => self.test(of, scope, |of| Expr::IsNull(Box::new(of))),
            Ast::IsNotUnknown(of) => {
                self.test(of, scope, |of| Expr::Not(Box::new(Expr::IsNull(Box::new(of)))))
            }
            Ast::IsDistinctFrom(left, right) => self.same(left, right, scope, true),
            Ast::IsNotDistinctFrom(left, right) => self.same(left, right, scope, false),
            Ast::Between { expr, negated, low, high } => {
                let of = self.expression(expr, scope)?;
                let (low, high) = (self.expression(low, scope)?, self.expression(high, scope)?);
                let low = self.compare(Comparison::AtLeast, of.clone(), low)?.expr;
                let high = self.compare(Comparison::AtMost, of, high)?.expr;
                Ok(truth(Expr::And(vec![low, high]), *negated))
            }
            Ast::In { expr, target, negated, .. } => self.in_target(expr, target, *negated, scope),
            Ast::Collate { expr, .. } => self.expression(expr, scope),
            Ast::Subquery(query) => self.subquery(query, SubqueryUse::Scalar, scope),
            Ast::Exists { subquery, negated } => {
                let found = self.subquery(subquery, SubqueryUse::Exists, scope)?;
                Ok(truth(found.expr, *negated))
            }
            Ast::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, false, scope)
            }
            Ast::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, scope),
            Ast::Tuple(members) => {
                let members =
                    members.iter().map(|member| self.expression(member, scope).map(|typed| typed.expr));
                Ok(Typed::new(Expr::Row(members.collect::<Result<_>>()?), SqlType::Record))
            }
            Ast::Array(array) => self.array(&array.elem, scope),
            Ast::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain, scope),
            other => self.special(other, scope),
        }
    }

    fn binary_of(
        &mut self,
        left: &Ast,
        operator: &sqlparser::ast::BinaryOperator,
        right: &Ast,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        // Rows of literals get the types of the columns they meet.
        if let (Some(comparison), Ast::Tuple(l), Ast::Tuple(r)) = (comparison_of(operator), left, right) {
            return self.rows(comparison, l, r, scope);
        }
        let left = self.expression(left, scope)?;
        let right = self.expression(right, scope)?;
        self.binary(operator, left, right)
    }

    /// Binds a comparison of rows.
    fn rows(
        &mut self,
        comparison: Comparison,
        left: &[Ast],
        right: &[Ast],
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        if left.len() != right.len() {
            return Err(SqlError::new(state::SYNTAX, "unequal number of entries in row expressions"));
        }
        let (mut l, mut r) = (Vec::new(), Vec::new());
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.expression(left, scope)?, self.expression(right, scope)?);
            let (left, right) = self.comparable(left, right)?;
            l.push(left);
            r.push(right);
        }
        // Rows are equal if all members are, which indexes can use.
        let expr = if comparison == Comparison::Equal {
            let pairs = l.into_iter().zip(r);
            Expr::And(pairs.map(|(l, r)| Expr::Compare(comparison, Box::new(l), Box::new(r))).collect())
        } else {
            Expr::CompareRows(comparison, l, r)
        };
        Ok(Typed::new(expr, SqlType::Bool))
    }

    /// Binds a literal or a parameter.
    fn literal(&mut self, value: &ValueWithSpan) -> Result<Typed> {
        let constant = |value, kind| Ok(Typed::new(Expr::Constant(value), kind));
        match &value.value {
            Value::Null => constant(Datum::Null, SqlType::Unknown),
            Value::Boolean(truth) => constant(Datum::Bool(*truth), SqlType::Bool),
            Value::Number(digits, _) => {
                let digits = digits.replace('_', "");
                match digits.parse::<i64>() {
                    Ok(number) if i32::try_from(number).is_ok() => {
                        constant(Datum::Signed(number), SqlType::Int4)
                    }
                    Ok(number) => constant(Datum::Signed(number), SqlType::Int8),
                    Err(_) => {
                        let kind = SqlType::Numeric(None);
                        let number = from_text(&digits, &kind).map_err(|error| error.at(value.span))?;
                        constant(number, kind)
                    }
                }
            }
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => constant(Datum::Text(text.clone()), SqlType::Unknown),
            Value::DollarQuotedString(text) => constant(Datum::Text(text.value.clone()), SqlType::Unknown),
            Value::Placeholder(name) => self.parameter(name, value.span),
            other => Err(SqlError::unsupported(format!("literal {other}")).at(value.span)),
        }
    }

    fn parameter(&mut self, name: &str, span: Span) -> Result<Typed> {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let number = number.filter(|number| (1..=PARAMS_MAX).contains(number));
        let wrong = || SqlError::new(state::NO_PARAMETER, format!("there is no parameter {name}")).at(span);
        let place = number.ok_or_else(wrong)? - 1;
        if self.params.len() <= place {
            self.params.resize(place + 1, SqlType::Unknown);
        }
        Ok(Typed::new(Expr::Param(place), self.params[place].clone()))
    }

    fn test(&mut self, of: &Ast, scope: &Scope<'_>, test: fn(Expr) -> Expr) -> Result<Typed> {
        let of = self.expression(of, scope)?;
        let of = if of.kind == SqlType::Unknown { self.coerce(of, &SqlType::Text)? } else { of.expr };
        Ok(Typed::new(test(of), SqlType::Bool))
    }

    fn truth(&mut self, of: &Ast, scope: &Scope<'_>, value: bool, negated: bool) -> Result<Typed> {
        let of = self.expression(of, scope)?;
        let of = self.boolean(of)?;
        Ok(truth(Expr::Is(Box::new(of), value), negated))
    }

    fn same(&mut self, left: &Ast, right: &Ast, scope: &Scope<'_>, negated: bool) -> Result<Typed> {
        let (left, right) = (self.expression(left, scope)?, self.expression(right, scope)?);
        let (left, right) = self.comparable(left, right)?;
        Ok(truth(Expr::SameAs(Box::new(left), Box::new(right)), negated))
    }

    fn in_target(
        &mut self,
        expr: &Ast,
        target: &InTarget,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let found = match target {
            InTarget::Subquery(query) => {
                self.compared_with_query(expr, Comparison::Equal, query, false, scope)?
            }
            InTarget::List(list) => {
                if let Ast::Tuple(left) = expr {
                    let rows = list.iter().map(|row| match row {
                        Ast::Tuple(right) => {
                            self.rows(Comparison::Equal, left, right, scope).map(|row| row.expr)
                        }
                        _ => Err(SqlError::new(state::SYNTAX, "a row is compared with rows only")),
                    });
                    let rows = rows.collect::<Result<Vec<_>>>()?;
                    return Ok(truth(Expr::Or(rows), negated));
                }
                let left = self.expression(expr, scope)?;
                let mut members = Vec::with_capacity(list.len());
                let mut compared = left.expr.clone();
                for member in list {
                    let member = self.expression(member, scope)?;
                    let (left, member) = self.comparable(left.clone(), member)?;
                    compared = left;
                    members.push(member);
                }
                Typed::new(Expr::InList(Box::new(compared), members), SqlType::Bool)
            }
            _ => return Err(SqlError::unsupported("IN with something else than a list or a query")),
        };
        Ok(truth(found.expr, negated))
    }

    fn quantified(
        &mut self,
        left: &Ast,
        operator: &sqlparser::ast::BinaryOperator,
        right: &Ast,
        all: bool,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let Some(comparison) = comparison_of(operator) else {
            return Err(SqlError::unsupported(format!("{operator} ANY")));
        };
        let right = match right {
            Ast::Nested(inner) => inner,
            right => right,
        };
        if let Ast::Subquery(query) = right {
            return self.compared_with_query(left, comparison, query, all, scope);
        }
        let left = self.expression(left, scope)?;
        let right = self.expression(right, scope)?;
        let (left, right) = match (&left.kind, &right.kind) {
            (SqlType::Unknown, SqlType::Array(of)) => {
                let of = (**of).clone();
                (self.coerce(left, &of)?, right.expr)
            }
            (kind, SqlType::Unknown) => {
                let array = if *kind == SqlType::Unknown { SqlType::Text } else { kind.plain() }.array();
                let right = self.coerce(right, &array)?;
                (left.expr, right)
            }
            (_, SqlType::Array(of)) => {
                let member = Typed::new(Expr::Constant(Datum::Null), (**of).clone());
                (self.comparable(left, member)?.0, right.expr)
            }
            _ => {
                return Err(SqlError::new(
                    state::TYPE_MISMATCH,
                    "op ANY/ALL (array) requires array on right side",
                ));
            }
        };
        let expr = Expr::Quantified(comparison, Box::new(left), Box::new(right), all);
        Ok(Typed::new(expr, SqlType::Bool))
    }

    /// Binds a comparison of an expression, or of a row, with all rows of a query.
    fn compared_with_query(
        &mut self,
        left: &Ast,
        comparison: Comparison,
        query: &Query,
        all: bool,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let members = if let Ast::Tuple(members) = left { &members[..] } else { std::slice::from_ref(left) };
        let lefts =
            members.iter().map(|member| self.expression(member, scope)).collect::<Result<Vec<_>>>()?;
        let (bound, bindings) = self.inner_query(query, scope)?;
        if bound.columns.len() != lefts.len() {
            let few = if bound.columns.len() < lefts.len() { "few" } else { "many" };
            return Err(SqlError::new(state::SYNTAX, format!("subquery has too {few} columns")));
        }
        let mut coerced = Vec::new();
        for (left, column) in lefts.into_iter().zip(&bound.columns) {
            let right = Typed::new(Expr::Constant(Datum::Null), column.kind.clone());
            coerced.push(self.comparable(left, right)?.0);
        }
        let purpose = SubqueryUse::Quantified(comparison, coerced, all);
        let subquery = Subquery { plan: bound.plan.into(), bindings, purpose };
        Ok(Typed::new(Expr::Subquery(Box::new(subquery)), SqlType::Bool))
    }

    /// Binds a query within an expression.
    pub fn subquery(&mut self, query: &Query, purpose: SubqueryUse, scope: &Scope<'_>) -> Result<Typed> {
        let (bound, bindings) = self.inner_query(query, scope)?;
        let first = bound.columns.first().map_or(SqlType::Text, |column| column.kind.clone());
        let kind = match &purpose {
            SubqueryUse::Scalar => first,
            SubqueryUse::Array => first.array(),
            SubqueryUse::Exists | SubqueryUse::Quantified(..) => SqlType::Bool,
        };
        if !matches!(purpose, SubqueryUse::Exists) && bound.columns.len() != 1 {
            return Err(SqlError::new(state::SYNTAX, "subquery must return only one column"));
        }
        let subquery = Subquery { plan: bound.plan.into(), bindings, purpose };
        Ok(Typed::new(Expr::Subquery(Box::new(subquery)), kind))
    }

    fn array(&mut self, members: &[Ast], scope: &Scope<'_>) -> Result<Typed> {
        let members =
            members.iter().map(|member| self.expression(member, scope)).collect::<Result<Vec<_>>>()?;
        let kinds: Vec<_> = members.iter().map(|member| member.kind.clone()).collect();
        let kind = self.common_kind(&kinds, "ARRAY")?;
        let members = members.into_iter().map(|member| self.coerce(member, &kind));
        Ok(Typed::new(Expr::Array(members.collect::<Result<_>>()?), kind.array()))
    }

    fn accessed(&mut self, root: &Ast, chain: &[AccessExpr], scope: &Scope<'_>) -> Result<Typed> {
        // `c.conkey[1]`: the names before the subscript are those of a column.
        let dots = chain.iter().map_while(|access| match access {
            AccessExpr::Dot(Ast::Identifier(ident)) => Some(ident.clone()),
            _ => None,
        });
        let dots: Vec<_> = dots.collect();
        let chain = &chain[dots.len()..];
        let mut of = match (root, dots.is_empty()) {
            (Ast::Identifier(first), false) => {
                let names = std::iter::once(first.clone()).chain(dots).collect();
                self.expression(&Ast::CompoundIdentifier(names), scope)?
            }
            (root, true) => self.expression(root, scope)?,
            _ => return Err(SqlError::unsupported("access to a field")),
        };
        for access in chain {
            let AccessExpr::Subscript(Subscript::Index { index }) = access else {
                return Err(SqlError::unsupported("access to a field or a slice"));
            };
            let index = self.expression(index, scope)?;
            of = functions::resolve("subscript", vec![of, index], &mut |typed, kind| {
                self.coerce(typed, kind)
            })?;
        }
        Ok(of)
    }
}

/// Returns a truth value, negated or not.
pub fn truth(expr: Expr, negated: bool) -> Typed {
    Typed::new(if negated { Expr::Not(Box::new(expr)) } else { expr }, SqlType::Bool)
}
