//! Functions, and expressions with words of their own.

use isles::Datum;
use sqlparser::ast::{
    CeilFloorKind, DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, OrderByExpr, TrimWhereField, WindowType,
};
use sqlparser::tokenizer::Span;

use crate::bind::{Binder, Scope, object_of, span_of};
use crate::error::{Result, SqlError, state};
use crate::expr::{Comparison, Expr, SubqueryUse, Typed};
use crate::functions::{self, Aggregate, SetFunction};
use crate::plan::{AggregateCall, SortKey, WindowCall, WindowFunction};
use crate::types::SqlType;

/// Words that are functions without parentheses.
const WORDS: [&str; 11] = [
    "current_user",
    "session_user",
    "user",
    "current_role",
    "current_catalog",
    "current_schema",
    "current_date",
    "current_timestamp",
    "localtimestamp",
    "localtime",
    "current_time",
];

impl Binder {
    /// Binds a call of a function by its name.
    pub fn call(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        functions::resolve(name, arguments, &mut |typed, kind| self.coerce(typed, kind))
    }

    /// Binds a word that may be a function without parentheses.
    pub fn word(&mut self, name: &str, span: Span, scope: &Scope<'_>) -> Result<Typed> {
        match name {
            "current_timestamp" => self.call("now", Vec::new()),
            "current_time" => self.call("localtime", Vec::new()),
            name if WORDS.contains(&name) => self.call(name, Vec::new()),
            name => Err(scope.unknown(None, name, span)),
        }
    }

    /// Binds an expression with words of its own.
    pub fn special(&mut self, ast: &Ast, scope: &Scope<'_>) -> Result<Typed> {
        let all = |asts: &[&Ast], binder: &mut Binder| {
            asts.iter().map(|ast| binder.expression(ast, scope)).collect::<Result<Vec<_>>>()
        };
        match ast {
            Ast::Function(function) => self.function(function, scope),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), scope)
            }
            Ast::Like { negated, expr, pattern, escape_char, any: false } => {
                self.like("like", [expr, pattern], escape_char.as_deref(), *negated, scope)
            }
            Ast::ILike { negated, expr, pattern, escape_char, any: false } => {
                self.like("ilike", [expr, pattern], escape_char.as_deref(), *negated, scope)
            }
            Ast::Extract { field, expr, .. } => {
                let field = Expr::Constant(Datum::Text(field.to_string().to_lowercase()));
                let of = self.expression(expr, scope)?;
                self.call("extract", vec![Typed::new(field, SqlType::Text), of])
            }
            Ast::Ceil { expr, field: CeilFloorKind::DateTimeField(_) } => {
                let arguments = all(&[expr], self)?;
                self.call("ceil", arguments)
            }
            Ast::Floor { expr, field: CeilFloorKind::DateTimeField(_) } => {
                let arguments = all(&[expr], self)?;
                self.call("floor", arguments)
            }
            Ast::Position { expr, r#in } => {
                let arguments = all(&[expr, r#in], self)?;
                self.call("position", arguments)
            }
            Ast::Substring { expr, substring_from, substring_for, .. } => {
                let one = Ast::value(sqlparser::ast::Value::Number("1".to_owned(), false));
                let from = substring_from.as_deref().unwrap_or(&one);
                let arguments = [Some(&**expr), Some(from), substring_for.as_deref()];
                let arguments: Vec<_> = arguments.into_iter().flatten().collect();
                let arguments = all(&arguments, self)?;
                self.call("substring", arguments)
            }
            Ast::Trim { trim_where, trim_what, expr, .. } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let arguments = [Some(&**expr), trim_what.as_deref()];
                let arguments: Vec<_> = arguments.into_iter().flatten().collect();
                let arguments = all(&arguments, self)?;
                self.call(name, arguments)
            }
            Ast::AtTimeZone { timestamp, time_zone } => {
                let arguments = all(&[time_zone, timestamp], self)?;
                self.call("timezone", arguments)
            }
            Ast::Interval(interval) => {
                let of = self.expression(&interval.value, scope)?;
                let of = match (&of.expr, &interval.leading_field) {
                    (Expr::Constant(Datum::Text(number)), Some(field))
                        if number.trim().parse::<f64>().is_ok() =>
                    {
                        let text = format!("{number} {}", field.to_string().to_lowercase());
                        Typed::new(Expr::Constant(Datum::Text(text)), SqlType::Unknown)
                    }
                    _ => of,
                };
                self.cast(of, &SqlType::Interval)
            }
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        }
    }

    fn like(
        &mut self,
        name: &str,
        operands: [&Ast; 2],
        escape: Option<&Ast>,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let mut arguments = Vec::new();
        for operand in operands {
            arguments.push(self.expression(operand, scope)?);
        }
        arguments.push(match escape {
            Some(escape) => self.expression(escape, scope)?,
            None => Typed::new(Expr::Constant(Datum::Text("\\".to_owned())), SqlType::Text),
        });
        let call = self.call(name, arguments)?;
        Ok(super::expressions::truth(call.expr, negated))
    }

    fn case(
        &mut self,
        operand: Option<&Ast>,
        conditions: &[sqlparser::ast::CaseWhen],
        otherwise: Option<&Ast>,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.expression(operand, scope)).transpose()?;
        let (mut tests, mut results) = (Vec::new(), Vec::new());
        for branch in conditions {
            let condition = self.expression(&branch.condition, scope)?;
            tests.push(match &operand {
                Some(operand) => self.compare(Comparison::Equal, operand.clone(), condition)?.expr,
                None => self.boolean(condition)?,
            });
            results.push(self.expression(&branch.result, scope)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expression(otherwise, scope)?,
            None => Typed::new(Expr::Constant(Datum::Null), SqlType::Unknown),
        });
        let kinds: Vec<_> = results.iter().map(|result| result.kind.clone()).collect();
        let kind = self.common_kind(&kinds, "CASE")?;
        let mut results = results.into_iter().map(|result| self.coerce(result, &kind));
        let otherwise = results.next_back().unwrap_or(Ok(Expr::Constant(Datum::Null)))?;
        let results = results.collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(Expr::Case(tests.into_iter().zip(results).collect(), Box::new(otherwise)), kind))
    }

    fn function(&mut self, function: &Function, scope: &Scope<'_>) -> Result<Typed> {
        let (_, name) = object_of(&function.name)?;
        let at = |error: SqlError| error.at(span_of(&function.name));
        let list = match &function.args {
            FunctionArguments::None => return self.word(&name, span_of(&function.name), scope),
            FunctionArguments::Subquery(query) if name == "array" => {
                return self.subquery(query, SubqueryUse::Array, scope);
            }
            FunctionArguments::Subquery(query) => {
                return self.subquery(query, SubqueryUse::Scalar, scope);
            }
            FunctionArguments::List(list) => list,
        };
        let is_aggregate = Aggregate::resolve(&name, &[]).is_some();
        if is_aggregate || function.over.is_some() {
            return self.aggregate(&name, function, scope).map_err(at);
        }
        let mut arguments = Vec::new();
        for argument in &list.args {
            arguments.push(self.expression(argument_of(argument)?, scope)?);
        }
        match name.as_str() {
            "coalesce" => {
                let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind.clone()).collect();
                let kind = self.common_kind(&kinds, "COALESCE")?;
                let parts = arguments.into_iter().map(|argument| self.coerce(argument, &kind));
                Ok(Typed::new(Expr::Coalesce(parts.collect::<Result<_>>()?), kind))
            }
            "row" => {
                let members = arguments.into_iter().map(|argument| argument.expr).collect();
                Ok(Typed::new(Expr::Row(members), SqlType::Record))
            }
            "greatest" | "least" | "nullif" => {
                let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind.clone()).collect();
                let kind = self.common_kind(&kinds, &name.to_uppercase())?;
                let parts = arguments
                    .into_iter()
                    .map(|argument| Ok(Typed::new(self.coerce(argument, &kind)?, kind.clone())));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                self.call(&name, parts).map_err(at)
            }
            // All arguments are shown as texts.
            "concat" | "concat_ws" | "format" => {
                let texts = arguments.into_iter().map(|argument| match argument.kind {
                    // Truth values are shown by their letters.
                    SqlType::Bool => {
                        let letter = |letter: &str| Expr::Constant(Datum::Text(letter.to_owned()));
                        let negated = Expr::Not(Box::new(argument.expr.clone()));
                        let branches = vec![(argument.expr, letter("t")), (negated, letter("f"))];
                        let shown = Expr::Case(branches, Box::new(Expr::Constant(Datum::Null)));
                        Ok(Typed::new(shown, SqlType::Text))
                    }
                    _ => self.cast(argument, &SqlType::Text),
                });
                let texts = texts.collect::<Result<Vec<_>>>()?;
                self.call(&name, texts).map_err(at)
            }
            name if SetFunction::of_name(name).is_some() => {
                Err(SqlError::unsupported(format!("{name} outside of FROM"))
                    .hint("Write it in FROM: SELECT .. FROM generate_series(..) AS g."))
            }
            "pg_typeof" if arguments.len() == 1 => {
                let name = arguments[0].kind.plain().name();
                Ok(Typed::new(Expr::Constant(Datum::Text(name)), SqlType::Text))
            }
            // A cast in the form of a function.
            name if arguments.len() == 1 && SqlType::of_name(name).is_ok() => {
                let kind = SqlType::of_name(name)?;
                let argument = arguments.swap_remove(0);
                self.cast(argument, &kind)
            }
            name => self.call(name, arguments).map_err(at),
        }
    }

    /// Binds an aggregate or a function over a window.
    fn aggregate(&mut self, name: &str, function: &Function, scope: &Scope<'_>) -> Result<Typed> {
        let FunctionArguments::List(list) = &function.args else {
            return Err(SqlError::new(state::SYNTAX, format!("{name} needs arguments")));
        };
        // No aggregate contains another one.
        let outer = if function.over.is_none() { self.aggregates.take() } else { None };
        if outer.is_none() && function.over.is_none() {
            return Err(SqlError::new(state::GROUPING, "aggregate functions are not allowed here"));
        }
        let call = self.aggregate_call(name, function, list, scope);
        if outer.is_some() {
            self.aggregates = outer;
        }
        let (call, kind) = call?;
        if let Some(window) = &function.over {
            return self.window(name, call, kind, window, scope);
        }
        let (Some(call), Some(aggregates)) = (call, &mut self.aggregates) else {
            return Err(SqlError::new(
                state::NO_FUNCTION,
                format!("window function {name} requires an OVER clause"),
            ));
        };
        let place = aggregates.iter().position(|other| *other == call).unwrap_or(aggregates.len());
        if place == aggregates.len() {
            aggregates.push(call);
        }
        Ok(Typed::new(Expr::Aggregate(place), kind))
    }

    fn aggregate_call(
        &mut self,
        name: &str,
        function: &Function,
        list: &sqlparser::ast::FunctionArgumentList,
        scope: &Scope<'_>,
    ) -> Result<(Option<AggregateCall>, SqlType)> {
        if matches!(name, "row_number" | "rank" | "dense_rank") {
            return Ok((None, SqlType::Int8));
        }
        let is_star = matches!(&list.args[..], [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        let mut arguments = Vec::new();
        for argument in list.args.iter().filter(|_| !is_star) {
            arguments.push(self.expression(argument_of(argument)?, scope)?);
        }
        let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let unknown = || Err(SqlError::new(state::NO_FUNCTION, format!("function {name} does not exist")));
        let (aggregate, expected, result) = Aggregate::resolve(name, &kinds).unwrap_or_else(unknown)?;
        let arguments = arguments.into_iter().zip(expected).map(|(argument, kind)| match kind {
            SqlType::Unknown => self.coerce(argument, &SqlType::Text),
            kind => self.coerce(argument, &kind),
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let filter = match &function.filter {
            Some(filter) => {
                let filter = self.expression(filter, scope)?;
                Some(self.boolean(filter)?)
            }
            None => None,
        };
        let mut order = Vec::new();
        for clause in &list.clauses {
            if let FunctionArgumentClause::OrderBy(keys) = clause {
                for key in self.sort_keys(keys, scope)? {
                    order.push((key.expr, key.descending, key.nulls_first));
                }
            }
        }
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        Ok((Some(AggregateCall { function: aggregate, arguments, distinct, filter, order }), result))
    }

    fn window(
        &mut self,
        name: &str,
        call: Option<AggregateCall>,
        kind: SqlType,
        window: &WindowType,
        scope: &Scope<'_>,
    ) -> Result<Typed> {
        let WindowType::WindowSpec(spec) = window else {
            return Err(SqlError::unsupported("a named window"));
        };
        if spec.window_frame.is_some() {
            return Err(SqlError::unsupported("a frame of a window"));
        }
        let function = match (name, call) {
            ("row_number", _) => WindowFunction::RowNumber,
            ("rank", _) => WindowFunction::Rank,
            ("dense_rank", _) => WindowFunction::DenseRank,
            (_, Some(call)) => WindowFunction::Aggregate(call),
            (_, None) => {
                return Err(SqlError::new(state::NO_FUNCTION, format!("function {name} does not exist")));
            }
        };
        let mut partition = Vec::new();
        for ast in &spec.partition_by {
            partition.push(self.expression(ast, scope)?.expr);
        }
        let order = self.sort_keys(&spec.order_by, scope)?;
        self.windows.push(WindowCall { function, partition, order });
        Ok(Typed::new(Expr::Window(self.windows.len() - 1), kind))
    }

    /// Binds the columns of an order.
    pub fn sort_keys(&mut self, keys: &[OrderByExpr], scope: &Scope<'_>) -> Result<Vec<SortKey>> {
        let mut bound = Vec::with_capacity(keys.len());
        for key in keys {
            let typed = self.expression(&key.expr, scope)?;
            let expr =
                if typed.kind == SqlType::Unknown { self.coerce(typed, &SqlType::Text)? } else { typed.expr };
            bound.push(sort_key(expr, key));
        }
        Ok(bound)
    }
}

/// Returns a column of an order with its direction.
pub fn sort_key(expr: Expr, key: &OrderByExpr) -> SortKey {
    let descending = matches!(key.options.sort, Some(sqlparser::ast::OrderBySort::Desc));
    SortKey { expr, descending, nulls_first: key.options.nulls_first.unwrap_or(descending) }
}

/// Returns the expression of an argument.
pub fn argument_of(argument: &FunctionArg) -> Result<&Ast> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => Ok(ast),
        other => Err(SqlError::unsupported(format!("the argument {other}"))),
    }
}
