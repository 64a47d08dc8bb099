//! Queries: SELECT, VALUES, UNION, WITH, ORDER BY, LIMIT.

use std::sync::Arc;

use isles::Datum;
use sqlparser::ast::{
    Distinct, Expr as Ast, GroupByExpr, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, Value, With,
};

use crate::bind::aggregates::{Grouped, place_aggregates, place_windows};
use crate::bind::order::{hint_rows, ordered_plan};
use crate::bind::special::sort_key;
use crate::bind::{Binder, BoundQuery, CommonQuery, OutputColumn, Scope, name_of, object_of};
use crate::error::{Result, SqlError, state};
use crate::expr::{Expr, Typed};
use crate::plan::{Combination, Grouping, Limit, Plan, Recursion, SetOperation, SortKey};
use crate::types::SqlType;

/// Most columns of a result.
const COLUMNS_MAX: usize = 1664;

/// A query as it is written, without what is around it.
struct Body<'q> {
    order: &'q [OrderByExpr],
}

impl Binder {
    /// Binds a query.
    pub fn query(&mut self, query: &Query, parent: Option<&Scope<'_>>) -> Result<BoundQuery> {
        let names = self.common.len();
        if let Some(with) = &query.with {
            self.with(with, parent)?;
        }
        let for_update = std::mem::replace(&mut self.for_update, !query.locks.is_empty());
        let bound = self.ordered(query, parent);
        self.for_update = for_update;
        self.common.truncate(names);
        bound
    }

    fn ordered(&mut self, query: &Query, parent: Option<&Scope<'_>>) -> Result<BoundQuery> {
        let order = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[][..],
            Some(OrderByKind::Expressions(order)) => order,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let mut bound = match &*query.body {
            SetExpr::Select(select) => self.select(select, &Body { order }, parent)?,
            body => {
                let mut bound = self.set(body, parent)?;
                bound.plan = self.ordered_output(bound.plan, &bound.columns, order, parent)?;
                bound
            }
        };
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit: most, offset: skipped, .. }) => {
                limit = most.as_ref();
                offset = skipped.as_ref().map(|offset| &offset.value);
            }
            Some(LimitClause::OffsetCommaLimit { offset: skipped, limit: most }) => {
                (limit, offset) = (Some(most), Some(skipped));
            }
            None => {}
        }
        let one = Ast::value(Value::Number("1".to_owned(), false));
        if let Some(fetch) = &query.fetch {
            limit = Some(fetch.quantity.as_ref().unwrap_or(&one));
        }
        if limit.is_some() || offset.is_some() {
            let mut count = |ast: Option<&Ast>| match ast {
                Some(ast) => {
                    let typed = self.constant(ast)?;
                    self.coerce(typed, &SqlType::Int8).map(Some)
                }
                None => Ok(None),
            };
            let (limit, offset) = (count(limit)?, count(offset)?);
            if let (Some(Expr::Constant(Datum::Signed(rows))), None) = (&limit, &offset) {
                hint_rows(&mut bound.plan, usize::try_from(*rows).unwrap_or(0));
            }
            bound.plan = Plan::Limit(Box::new(Limit { input: bound.plan, limit, offset }));
        }
        Ok(bound)
    }

    /// Binds what ORDER BY can follow: a union, values, a query in parentheses.
    fn set(&mut self, body: &SetExpr, parent: Option<&Scope<'_>>) -> Result<BoundQuery> {
        match body {
            SetExpr::Select(select) => self.select(select, &Body { order: &[] }, parent),
            SetExpr::Query(query) => self.query(query, parent),
            SetExpr::Values(values) => {
                let rows: Vec<_> = values.rows.iter().map(|row| &row.content[..]).collect();
                self.values(&rows, &[], parent)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let operation = match op {
                    SetOperator::Union => SetOperation::Union,
                    SetOperator::Intersect => SetOperation::Intersect,
                    SetOperator::Except | SetOperator::Minus => SetOperation::Except,
                };
                let (left, right) = (self.set(left, parent)?, self.set(right, parent)?);
                self.combined(operation, *set_quantifier == SetQuantifier::All, left, right)
            }
            SetExpr::Table(table) => {
                let name = table.table_name.as_ref().map(name_of).unwrap_or_default();
                let query = crate::parse::query(&format!("select * from {}", crate::parse::quoted(&name)))?;
                self.query(&query, parent)
            }
            _ => Err(SqlError::unsupported("a statement that changes rows within a query")),
        }
    }

    fn combined(
        &mut self,
        operation: SetOperation,
        all: bool,
        left: BoundQuery,
        right: BoundQuery,
    ) -> Result<BoundQuery> {
        let name = format!("{operation:?}").to_uppercase();
        if left.columns.len() != right.columns.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(SqlError::new(state::SYNTAX, message));
        }
        let pairs = left.columns.iter().zip(&right.columns);
        let kinds = pairs.map(|(l, r)| self.common_kind(&[l.kind.clone(), r.kind.clone()], &name));
        let kinds = kinds.collect::<Result<Vec<_>>>()?;
        let (left, right) = (self.with_kinds(left, &kinds)?, self.with_kinds(right, &kinds)?);
        let columns = left.columns;
        let combination = Combination { operation, all, left: left.plan, right: right.plan };
        Ok(BoundQuery { plan: Plan::Combine(Box::new(combination)), columns })
    }

    /// Converts the columns of a query.
    fn with_kinds(&mut self, mut bound: BoundQuery, kinds: &[SqlType]) -> Result<BoundQuery> {
        if bound.columns.iter().zip(kinds).all(|(column, kind)| column.kind == *kind) {
            return Ok(bound);
        }
        let mut converted = Vec::new();
        for (place, (column, kind)) in bound.columns.iter_mut().zip(kinds).enumerate() {
            let own = std::mem::replace(&mut column.kind, kind.clone());
            converted.push(super::coercion::cast_if_needed(Expr::Column(place), own, kind, false));
        }
        bound.plan = Plan::Project(Box::new(bound.plan), converted);
        Ok(bound)
    }

    /// Binds rows of expressions; `expected` are types that columns get if nothing else says one.
    pub fn values(
        &mut self,
        rows: &[&[Ast]],
        expected: &[SqlType],
        parent: Option<&Scope<'_>>,
    ) -> Result<BoundQuery> {
        let scope = Scope::new(parent);
        let count = rows.first().map_or(0, |row| row.len());
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != count {
                return Err(SqlError::new(state::SYNTAX, "VALUES lists must all be the same length"));
            }
            bound.push(row.iter().map(|ast| self.expression(ast, &scope)).collect::<Result<Vec<_>>>()?);
        }
        let mut columns = Vec::new();
        for place in 0..count {
            let kinds: Vec<_> = bound.iter().map(|row: &Vec<Typed>| row[place].kind.clone()).collect();
            let is_unknown = kinds.iter().all(|kind| *kind == SqlType::Unknown);
            let kind = match expected.get(place) {
                Some(kind) if is_unknown => kind.clone(),
                _ => self.common_kind(&kinds, "VALUES")?,
            };
            columns.push(OutputColumn { name: format!("column{}", place + 1), kind, origin: None });
        }
        let mut plan = Vec::with_capacity(bound.len());
        for row in bound {
            let values =
                row.into_iter().zip(&columns).map(|(value, column)| self.coerce(value, &column.kind));
            plan.push(values.collect::<Result<Vec<_>>>()?);
        }
        Ok(BoundQuery { plan: Plan::Values(plan), columns })
    }

    fn with(&mut self, with: &With, parent: Option<&Scope<'_>>) -> Result<()> {
        for cte in &with.cte_tables {
            let name = name_of(&cte.alias.name);
            let renamed: Vec<_> = cte.alias.columns.iter().map(|column| name_of(&column.name)).collect();
            let rename = |mut columns: Vec<OutputColumn>| {
                columns.iter_mut().zip(&renamed).for_each(|(column, name)| column.name.clone_from(name));
                columns
            };
            let (id, slots) = (self.common_ids, self.slots);
            self.common_ids += 1;
            if let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } =
                &*cte.query.body
                && with.recursive
            {
                let base = self.set(left, parent)?;
                let columns = rename(base.columns.clone());
                self.common.push(CommonQuery {
                    name: name.clone(),
                    columns: columns.clone(),
                    plan: Plan::Round(id),
                });
                let step = self.set(right, parent);
                self.common.pop();
                let kinds: Vec<_> = columns.iter().map(|column| column.kind.clone()).collect();
                let step = step?;
                if step.columns.len() != kinds.len() {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "each UNION query must have the same number of columns",
                    ));
                }
                let step = self.with_kinds(step, &kinds)?;
                let all = *set_quantifier == SetQuantifier::All;
                let recursion = Recursion { id, base: base.plan, step: step.plan, all };
                let plan = Plan::Recursive(Box::new(recursion));
                // The rows of rounds and the whole have different numbers.
                let whole = self.common_ids;
                self.common_ids += 1;
                let plan = if self.slots == slots { Plan::Common(whole, Arc::new(plan)) } else { plan };
                self.common.push(CommonQuery { name, columns, plan });
                continue;
            }
            let bound = self.query(&cte.query, parent)?;
            // A query that uses values of the row around is not the same for all rows.
            let plan = match self.slots == slots {
                true => Plan::Common(id, Arc::new(bound.plan)),
                false => bound.plan,
            };
            self.common.push(CommonQuery { name, columns: rename(bound.columns), plan });
        }
        Ok(())
    }

    /// Binds SELECT.
    fn select(&mut self, select: &Select, body: &Body<'_>, parent: Option<&Scope<'_>>) -> Result<BoundQuery> {
        if select.into.is_some() {
            return Err(SqlError::unsupported("SELECT INTO").hint("Use CREATE TABLE AS."));
        }
        let outer = (self.aggregates.take(), std::mem::take(&mut self.windows));
        let lifted = crate::bind::set_calls::lifted(select);
        let bound = self.select_within(lifted.as_ref().unwrap_or(select), body, parent);
        (self.aggregates, self.windows) = outer;
        bound
    }

    fn select_within(
        &mut self,
        select: &Select,
        body: &Body<'_>,
        parent: Option<&Scope<'_>>,
    ) -> Result<BoundQuery> {
        let mut scope = Scope::new(parent);
        let tree = self.from(&select.from, &mut scope)?;
        let mut conditions = Vec::new();
        if let Some(ast) = &select.selection {
            let condition = self.expression(ast, &scope)?;
            self.boolean(condition)?.conjuncts(&mut conditions);
        }
        self.aggregates = Some(Vec::new());
        let mut items = self.items(&select.projection, &scope)?;
        let having = match &select.having {
            Some(ast) => {
                let having = self.expression(ast, &scope)?;
                Some(self.boolean(having)?)
            }
            None => None,
        };
        let mut order = self.order_of(body.order, &items, &scope)?;
        let mut on = match &select.distinct {
            Some(Distinct::On(asts)) => Some(self.order_values(asts, &items, &scope)?),
            _ => None,
        };
        let aggregates = self.aggregates.take().unwrap_or_default();
        let groups = self.groups_of(&select.group_by, &items, &scope)?;
        let width = scope.columns.len();
        let mut plan = match tree {
            Some(tree) => self.plan_from(tree, conditions, width),
            None => match Expr::conjunction(conditions) {
                Some(condition) => Plan::Filter(Box::new(Plan::one()), condition),
                None => Plan::one(),
            },
        };
        let mut columns = width;
        let is_grouped = !groups.is_empty() || !aggregates.is_empty() || having.is_some();
        let mut exprs: Vec<&mut Expr> = Vec::new();
        let mut having = having;
        let mut windows = std::mem::take(&mut self.windows);
        exprs.extend(items.iter_mut().map(|(typed, _)| &mut typed.expr));
        exprs.extend(order.iter_mut().map(|key| &mut key.expr));
        exprs.extend(on.iter_mut().flatten());
        exprs.extend(having.iter_mut());
        for window in &mut windows {
            exprs.extend(window.partition.iter_mut());
            exprs.extend(window.order.iter_mut().map(|key| &mut key.expr));
        }
        if is_grouped {
            let own = groups.len();
            let whole = whole_tables(&groups, &scope, &self.schema);
            let mut grouped = Grouped { groups, scope: &scope, whole };
            exprs.iter_mut().try_for_each(|expr| grouped.rewrite(expr, own))?;
            let groups = grouped.groups;
            exprs.iter_mut().try_for_each(|expr| place_aggregates(expr, groups.len()))?;
            columns = groups.len() + aggregates.len();
            plan = Plan::Aggregate(Box::new(Grouping { input: plan, groups, aggregates }));
        }
        exprs.iter_mut().try_for_each(|expr| place_windows(expr, columns))?;
        if let Some(having) = having {
            plan = Plan::Filter(Box::new(plan), having);
        }
        if !windows.is_empty() {
            plan = Plan::Window(Box::new(plan), windows);
        }
        plan = ordered_plan(plan, &order, !is_grouped);
        if let Some(on) = on {
            plan = Plan::Distinct(Box::new(plan), Some(on));
        }
        let (values, columns): (Vec<_>, Vec<_>) =
            items.into_iter().map(|(typed, column)| (typed.expr, column)).unzip();
        // A query of all columns needs no projection.
        let is_identity = |(place, value): (usize, &Expr)| *value == Expr::Column(place);
        let is_same = values.len() == width && !is_grouped && values.iter().enumerate().all(is_identity);
        if !is_same || matches!(plan, Plan::Window(..)) {
            plan = Plan::Project(Box::new(plan), values);
        }
        if matches!(select.distinct, Some(Distinct::Distinct)) {
            // Sorted rows keep their order, because the first of equal rows stays.
            plan = Plan::Distinct(Box::new(plan), None);
        }
        Ok(BoundQuery { plan, columns })
    }

    /// Binds the columns of a result.
    pub fn items(&mut self, items: &[SelectItem], scope: &Scope<'_>) -> Result<Vec<(Typed, OutputColumn)>> {
        let mut bound: Vec<(Typed, OutputColumn)> = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(ast) => {
                    let name = name_of_expression(ast);
                    bound.push(self.item(ast, name, scope)?);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    bound.push(self.item(expr, name_of(alias), scope)?);
                }
                SelectItem::Wildcard(_) => {
                    all_columns(scope, None, &mut bound);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let (_, relation) = object_of(name)?;
                    let before = bound.len();
                    all_columns(scope, Some(&relation), &mut bound);
                    if bound.len() == before && !scope.has_relation(&relation) {
                        let message = format!("missing FROM-clause entry for table \"{relation}\"");
                        return Err(SqlError::new(state::NO_TABLE, message));
                    }
                }
                other => return Err(SqlError::unsupported(format!("the column {other}"))),
            }
        }
        if bound.len() > COLUMNS_MAX {
            return Err(SqlError::new(
                state::LIMIT,
                format!("target lists can have at most {COLUMNS_MAX} entries"),
            ));
        }
        Ok(bound)
    }

    fn item(&mut self, ast: &Ast, name: String, scope: &Scope<'_>) -> Result<(Typed, OutputColumn)> {
        let typed = self.expression(ast, scope)?;
        let typed = match typed.kind {
            SqlType::Unknown => Typed::new(self.coerce(typed, &SqlType::Text)?, SqlType::Text),
            _ => typed,
        };
        let origin = match &typed.expr {
            Expr::Column(place) => scope.columns.get(*place).and_then(|column| column.origin),
            _ => None,
        };
        let column = OutputColumn { name, kind: typed.kind.clone(), origin };
        Ok((typed, column))
    }

    fn order_of(
        &mut self,
        keys: &[OrderByExpr],
        items: &[(Typed, OutputColumn)],
        scope: &Scope<'_>,
    ) -> Result<Vec<SortKey>> {
        let asts: Vec<_> = keys.iter().map(|key| key.expr.clone()).collect();
        let values = self.order_values(&asts, items, scope)?;
        Ok(values.into_iter().zip(keys).map(|(value, key)| sort_key(value, key)).collect())
    }

    /// Binds expressions that may be names or numbers of columns of the result.
    fn order_values(
        &mut self,
        asts: &[Ast],
        items: &[(Typed, OutputColumn)],
        scope: &Scope<'_>,
    ) -> Result<Vec<Expr>> {
        let mut values = Vec::new();
        for ast in asts {
            values.push(match output_of(ast, items)? {
                Some(value) => value,
                None => {
                    let typed = self.expression(ast, scope)?;
                    self.coerce_unknown(typed)?
                }
            });
        }
        Ok(values)
    }

    fn coerce_unknown(&mut self, typed: Typed) -> Result<Expr> {
        if typed.kind == SqlType::Unknown { self.coerce(typed, &SqlType::Text) } else { Ok(typed.expr) }
    }

    fn groups_of(
        &mut self,
        groups: &GroupByExpr,
        items: &[(Typed, OutputColumn)],
        scope: &Scope<'_>,
    ) -> Result<Vec<Expr>> {
        let GroupByExpr::Expressions(asts, modifiers) = groups else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("GROUP BY with a modifier"));
        }
        let mut values = Vec::new();
        for ast in asts {
            // A column of the tables comes before one of the result.
            let own = match ast {
                Ast::Identifier(_) => self.expression(ast, scope).ok(),
                _ => None,
            };
            let value = match (own, output_of(ast, items)?) {
                (Some(own), _) => own.expr,
                (None, Some(value)) => value,
                (None, None) => {
                    let typed = self.expression(ast, scope)?;
                    self.coerce_unknown(typed)?
                }
            };
            if value.has(&|part| matches!(part, Expr::Aggregate(_))) {
                return Err(SqlError::new(
                    state::GROUPING,
                    "aggregate functions are not allowed in GROUP BY",
                ));
            }
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(values)
    }

    /// Orders rows of which only the columns are known.
    fn ordered_output(
        &mut self,
        plan: Plan,
        columns: &[OutputColumn],
        keys: &[OrderByExpr],
        parent: Option<&Scope<'_>>,
    ) -> Result<Plan> {
        if keys.is_empty() {
            return Ok(plan);
        }
        let item = |(place, column): (usize, &OutputColumn)| {
            (Typed::new(Expr::Column(place), column.kind.clone()), column.clone())
        };
        let items: Vec<_> = columns.iter().enumerate().map(item).collect();
        let order = self.order_of(keys, &items, &Scope::new(parent))?;
        Ok(Plan::Sort(Box::new(plan), order))
    }
}

/// Appends all visible columns, or those of a table.
fn all_columns(scope: &Scope<'_>, relation: Option<&str>, to: &mut Vec<(Typed, OutputColumn)>) {
    for (place, column) in scope.columns.iter().enumerate() {
        let is_asked = match relation {
            Some(relation) => column.relation == relation && !column.name.is_empty(),
            None => column.visible,
        };
        if is_asked {
            let typed = Typed::new(Expr::Column(place), column.kind.clone());
            let OutputColumn { name, kind, origin } =
                OutputColumn { name: column.name.clone(), kind: column.kind.clone(), origin: column.origin };
            to.push((typed, OutputColumn { name, kind, origin }));
        }
    }
}

/// Returns the column of the result that a name or a number means.
fn output_of(ast: &Ast, items: &[(Typed, OutputColumn)]) -> Result<Option<Expr>> {
    match ast {
        Ast::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let number = digits.parse::<usize>().ok().filter(|number| (1..=items.len()).contains(number));
                let wrong = || {
                    SqlError::new(state::SYNTAX, format!("position {digits} is not in select list"))
                        .at(value.span)
                };
                number.map(|number| Some(items[number - 1].0.expr.clone())).ok_or_else(wrong)
            }
            _ => Ok(None),
        },
        Ast::Identifier(ident) => {
            let name = name_of(ident);
            let found = items.iter().find(|(_, column)| column.name == name);
            Ok(found.map(|(typed, _)| typed.expr.clone()))
        }
        _ => Ok(None),
    }
}

/// Returns the name that a column of a result has if it is given none.
pub fn name_of_expression(ast: &Ast) -> String {
    match ast {
        Ast::Identifier(ident) => name_of(ident),
        Ast::CompoundIdentifier(parts) => parts.last().map(name_of).unwrap_or_default(),
        Ast::Function(function) => object_of(&function.name).map(|(_, name)| name).unwrap_or_default(),
        Ast::Cast { expr, data_type, .. } => match name_of_expression(expr).as_str() {
            "?column?" => SqlType::of_ast(data_type).map_or("?column?".to_owned(), |kind| match &kind {
                SqlType::Array(of) => crate::catalog::type_name(of),
                kind => crate::catalog::type_name(kind),
            }),
            name => name.to_owned(),
        },
        Ast::TypedString(typed) => SqlType::of_ast(&typed.data_type)
            .map_or("?column?".to_owned(), |kind| crate::catalog::type_name(&kind)),
        Ast::Nested(inner) | Ast::Collate { expr: inner, .. } => name_of_expression(inner),
        Ast::CompoundFieldAccess { root, .. } => name_of_expression(root),
        Ast::Case { .. } => "case".to_owned(),
        Ast::Exists { .. } => "exists".to_owned(),
        Ast::Array(_) => "array".to_owned(),
        Ast::Extract { .. } => "extract".to_owned(),
        Ast::Substring { .. } => "substring".to_owned(),
        Ast::Position { .. } => "position".to_owned(),
        Ast::Trim { .. } => "btrim".to_owned(),
        Ast::Ceil { .. } => "ceil".to_owned(),
        Ast::Floor { .. } => "floor".to_owned(),
        Ast::Interval(_) => "interval".to_owned(),
        Ast::Value(value) if matches!(value.value, Value::Boolean(_)) => "bool".to_owned(),
        Ast::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(ast)) => name_of_expression(ast),
                Some(SelectItem::ExprWithAlias { alias, .. }) => name_of(alias),
                _ => "?column?".to_owned(),
            },
            _ => "?column?".to_owned(),
        },
        _ => "?column?".to_owned(),
    }
}

/// Returns the columns of tables whose primary keys are among the groups.
fn whole_tables(groups: &[Expr], scope: &Scope<'_>, schema: &crate::schema::Schema) -> Vec<(usize, usize)> {
    let mut whole = Vec::new();
    let mut start = 0;
    while start < scope.columns.len() {
        let relation = &scope.columns[start].relation;
        let end =
            start + scope.columns[start..].iter().take_while(|column| column.relation == *relation).count();
        let oid = scope.columns[start].origin.map(|(oid, _)| oid);
        let table = schema.tables.values().find(|table| Some(table.oid) == oid && !table.hidden_key);
        if let Some(table) = table {
            let key = &table.indexes[0].columns;
            if key.iter().all(|column| groups.contains(&Expr::Column(start + column))) {
                whole.push((start, end));
            }
        }
        start = end;
    }
    whole
}
