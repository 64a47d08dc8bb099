//! Tables, functions and queries in FROM.

use std::sync::Arc;

use sqlparser::ast::{
    Expr as Ast, FunctionArg, Join as AstJoin, JoinConstraint, JoinOperator, Query, TableAlias, TableFactor,
    TableWithJoins,
};

use crate::bind::special::argument_of;
use crate::bind::{
    Binder, BoundQuery, OutputColumn, Scope, ScopeColumn, VIEWS_MAX, name_of, object_of, span_of,
};
use crate::catalog::CatalogTable;
use crate::error::{Result, SqlError, state};
use crate::expr::{Comparison, Expr, Typed};
use crate::functions::SetFunction;
use crate::plan::{JoinKind, Plan};
use crate::roles::Privilege;
use crate::schema::Table;
use crate::types::SqlType;

/// The source of some columns of a query's rows.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The first of its columns in the rows of the query.
    pub offset: usize,
    /// Its columns.
    pub width: usize,
    /// The source.
    pub source: Source,
}

/// Rows of FROM.
#[derive(Clone, Debug)]
pub enum Source {
    /// A table of the engine.
    Table(Arc<Table>),
    /// Anything else, with the slots that it needs of columns before it.
    Plan(Plan, Vec<(usize, Expr)>),
}

/// Joins as they are written.
#[derive(Clone, Debug)]
pub enum FromTree {
    /// A relation.
    Leaf(Relation),
    /// Two sides and the conditions between them.
    Join(JoinKind, Box<FromTree>, Box<FromTree>, Vec<Expr>),
}

impl Binder {
    /// Binds all tables of FROM; their columns come into the scope.
    pub fn from(&mut self, tables: &[TableWithJoins], scope: &mut Scope<'_>) -> Result<Option<FromTree>> {
        let mut tree = None;
        for table in tables {
            let next = self.joined(table, scope)?;
            tree = Some(match tree {
                None => next,
                Some(tree) => FromTree::Join(JoinKind::Inner, Box::new(tree), Box::new(next), Vec::new()),
            });
        }
        Ok(tree)
    }

    fn joined(&mut self, table: &TableWithJoins, scope: &mut Scope<'_>) -> Result<FromTree> {
        let start = scope.columns.len();
        let mut tree = self.factor(&table.relation, scope)?;
        for join in &table.joins {
            let middle = scope.columns.len();
            let right = self.factor(&join.relation, scope)?;
            tree = self.join(tree, right, join, (start, middle), scope)?;
        }
        Ok(tree)
    }

    fn join(
        &mut self,
        left: FromTree,
        right: FromTree,
        join: &AstJoin,
        (start, middle): (usize, usize),
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        let (kind, constraint, exchanged) = match &join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
                (JoinKind::Inner, constraint, false)
            }
            JoinOperator::CrossJoin(constraint) => (JoinKind::Inner, constraint, false),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                (JoinKind::Left, constraint, false)
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (JoinKind::Left, constraint, true)
            }
            JoinOperator::FullOuter(constraint) => (JoinKind::Full, constraint, false),
            _ => return Err(SqlError::unsupported("this kind of join")),
        };
        let mut conditions = Vec::new();
        match constraint {
            JoinConstraint::None => {}
            JoinConstraint::On(ast) => {
                let condition = self.expression(ast, scope)?;
                self.boolean(condition)?.conjuncts(&mut conditions);
            }
            JoinConstraint::Using(names) => {
                for name in names {
                    let (_, name) = object_of(name)?;
                    conditions.push(self.using(&name, (start, middle), scope)?);
                }
            }
            JoinConstraint::Natural => {
                let names: Vec<_> =
                    scope.columns[middle..].iter().map(|column| column.name.clone()).collect();
                for name in names {
                    let is_left = |column: &ScopeColumn| column.name == name && column.visible;
                    if scope.columns[start..middle].iter().any(is_left) {
                        conditions.push(self.using(&name, (start, middle), scope)?);
                    }
                }
            }
            JoinConstraint::UsingAlias(..) => return Err(SqlError::unsupported("JOIN USING with an alias")),
        }
        let (left, right) = if exchanged { (right, left) } else { (left, right) };
        Ok(FromTree::Join(kind, Box::new(left), Box::new(right), conditions))
    }

    /// Binds a column that both sides of a join have.
    fn using(&mut self, name: &str, (start, middle): (usize, usize), scope: &mut Scope<'_>) -> Result<Expr> {
        let place = |from: usize, to: usize| {
            let is_it = |place: &usize| scope.columns[*place].name == name && scope.columns[*place].visible;
            (from..to).find(is_it)
        };
        let missing = || {
            let message =
                format!("column \"{name}\" specified in USING clause does not exist in both tables");
            SqlError::new(state::NO_COLUMN, message)
        };
        let left = place(start, middle).ok_or_else(missing)?;
        let right = place(middle, scope.columns.len()).ok_or_else(missing)?;
        let column = |place: usize| Typed::new(Expr::Column(place), scope.columns[place].kind.clone());
        let condition = self.compare(Comparison::Equal, column(left), column(right))?.expr;
        scope.columns[right].visible = false;
        Ok(condition)
    }

    fn factor(&mut self, factor: &TableFactor, scope: &mut Scope<'_>) -> Result<FromTree> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, .. } => {
                let (schema, table) = object_of(name)?;
                let leaf = self.named(schema.as_deref(), &table, alias.as_ref(), scope);
                leaf.map_err(|error| error.at(span_of(name)))
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => self
                .function_in_from(&object_of(name)?.1, &args.args, alias.as_ref(), *with_ordinality, scope),
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.function_in_from(&object_of(name)?.1, args, alias.as_ref(), *with_ordinality, scope)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let mut arguments = Vec::new();
                for ast in array_exprs {
                    arguments.push(self.expression(ast, scope)?);
                }
                self.set_function("unnest", arguments, alias.as_ref(), *with_ordinality, scope)
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                self.derived(*lateral, subquery, alias.as_ref(), scope)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.joined(table_with_joins, scope),
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    /// Binds a name in FROM: a query with this name, a view, a table, a table of the catalog.
    fn named(
        &mut self,
        schema: Option<&str>,
        name: &str,
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        if schema.is_none()
            && let Some(common) = self.common.iter().rev().find(|common| common.name == name)
        {
            let (plan, columns) = (common.plan.clone(), common.columns.clone());
            return Ok(self.leaf(Source::Plan(plan, Vec::new()), columns, name, alias, scope));
        }
        if matches!(schema, None | Some("public")) {
            self.touch(name, Privilege::Select);
            if let Some(table) = self.schema.tables.get(name).cloned() {
                self.tables.push(Arc::clone(&table));
                return Ok(self.table_leaf(table, alias, scope));
            }
            if let Some(view) = self.schema.views.get(name).cloned() {
                let bound = self.view(&view)?;
                return Ok(self.leaf(
                    Source::Plan(bound.plan, Vec::new()),
                    bound.columns,
                    name,
                    alias,
                    scope,
                ));
            }
        }
        if let Some(table) = CatalogTable::of_name(schema, name) {
            let columns = table.columns();
            return Ok(self.leaf(
                Source::Plan(Plan::Catalog(table), Vec::new()),
                columns,
                name,
                alias,
                scope,
            ));
        }
        let full = schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"));
        Err(SqlError::new(state::NO_TABLE, format!("relation \"{full}\" does not exist")))
    }

    /// Notes that the statement needs a privilege on a table; a view has those of its owner.
    pub fn touch(&mut self, name: &str, privilege: Privilege) {
        let is_known = self.schema.tables.contains_key(name) || self.schema.views.contains_key(name);
        if self.views == 0 && is_known {
            self.touched.push((name.to_owned(), privilege));
        }
    }

    fn view(&mut self, view: &crate::schema::View) -> Result<BoundQuery> {
        if self.views >= VIEWS_MAX {
            return Err(SqlError::new(state::TOO_COMPLEX, "views are nested too deeply"));
        }
        let query = crate::parse::query(&view.query)?;
        // Names around the view are none of its own.
        let common = std::mem::take(&mut self.common);
        let aggregates = self.aggregates.take();
        self.views += 1;
        let bound = self.query(&query, None);
        self.views -= 1;
        (self.common, self.aggregates) = (common, aggregates);
        let mut bound = bound?;
        bound.columns.iter_mut().zip(&view.columns).for_each(|(column, name)| column.name.clone_from(name));
        Ok(bound)
    }

    /// Adds a table to the scope.
    pub fn table_leaf(
        &mut self,
        table: Arc<Table>,
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> FromTree {
        let columns = table.columns.iter().enumerate().map(|(number, column)| OutputColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            origin: Some((table.oid, number as i16 + 1)),
        });
        let mut columns: Vec<_> = columns.collect();
        if table.hidden_key {
            // Rows are as wide as those of the engine.
            columns.push(OutputColumn { name: String::new(), kind: SqlType::Int8, origin: None });
        }
        let name = table.name.clone();
        self.leaf(Source::Table(table), columns, &name, alias, scope)
    }

    fn leaf(
        &mut self,
        source: Source,
        columns: Vec<OutputColumn>,
        name: &str,
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> FromTree {
        let relation = alias.map_or_else(|| name.to_owned(), |alias| name_of(&alias.name));
        let (offset, width) = (scope.columns.len(), columns.len());
        for (number, column) in columns.into_iter().enumerate() {
            let renamed =
                alias.and_then(|alias| alias.columns.get(number)).map(|column| name_of(&column.name));
            let is_hidden = column.name.is_empty() && renamed.is_none();
            scope.columns.push(ScopeColumn {
                relation: relation.clone(),
                name: renamed.unwrap_or(column.name),
                kind: column.kind,
                visible: !is_hidden,
                origin: column.origin,
            });
        }
        FromTree::Leaf(Relation { offset, width, source })
    }

    fn derived(
        &mut self,
        lateral: bool,
        query: &Query,
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        let aggregates = self.aggregates.take();
        let bound = if lateral {
            self.inner_query(query, scope)
        } else {
            self.query(query, scope.parent).map(|bound| (bound, Vec::new()))
        };
        self.aggregates = aggregates;
        let (bound, bindings) = bound?;
        Ok(self.leaf(Source::Plan(bound.plan, bindings), bound.columns, "", alias, scope))
    }

    /// Binds a query that may use columns of this scope; returns the slots that it needs of them.
    pub fn inner_query(
        &mut self,
        query: &Query,
        scope: &Scope<'_>,
    ) -> Result<(BoundQuery, Vec<(usize, Expr)>)> {
        let aggregates = self.aggregates.take();
        let windows = std::mem::take(&mut self.windows);
        let before = std::mem::take(&mut *scope.captures.borrow_mut());
        let bound = self.query(query, Some(scope));
        let bindings = std::mem::replace(&mut *scope.captures.borrow_mut(), before);
        (self.aggregates, self.windows) = (aggregates, windows);
        Ok((bound?, bindings))
    }

    fn function_in_from(
        &mut self,
        name: &str,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        numbered: bool,
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        let mut bound = Vec::new();
        for argument in arguments {
            let ast: &Ast = argument_of(argument)?;
            bound.push(self.expression(ast, scope)?);
        }
        self.set_function(name, bound, alias, numbered, scope)
    }

    fn set_function(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        alias: Option<&TableAlias>,
        numbered: bool,
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let (mut arguments, expected, columns, function) = match SetFunction::of_name(name) {
            Some(function) => {
                let (expected, columns) = function.columns(&kinds)?;
                (arguments, expected, columns, Some(function))
            }
            // A function of one value is one row.
            None => {
                let call = self.call(name, arguments)?;
                let columns = vec![("", call.kind.clone())];
                (vec![call], Vec::new(), columns, None)
            }
        };
        let mut columns: Vec<_> = columns
            .into_iter()
            .map(|(column, kind)| {
                // The only column of a function has its alias as name.
                let name = match alias {
                    Some(alias) if column == name || column.is_empty() => name_of(&alias.name),
                    _ if column.is_empty() => name.to_owned(),
                    _ => column.to_owned(),
                };
                OutputColumn { name, kind, origin: None }
            })
            .collect();
        if numbered {
            columns.push(OutputColumn { name: "ordinality".to_owned(), kind: SqlType::Int8, origin: None });
        }
        let mut values = Vec::new();
        for (number, argument) in arguments.drain(..).enumerate() {
            values.push(match expected.get(number) {
                Some(kind) => self.coerce(argument, kind)?,
                None => argument.expr,
            });
        }
        // Columns before the function are values of slots.
        let mut bindings: Vec<(usize, Expr)> = Vec::new();
        for value in &mut values {
            value.replace(&mut |part| {
                let Expr::Column(_) = part else { return Ok(false) };
                let known = bindings.iter().find(|(_, expr)| expr == part).map(|(slot, _)| *slot);
                let slot = known.unwrap_or_else(|| self.slot());
                if known.is_none() {
                    bindings.push((slot, part.clone()));
                }
                *part = Expr::Slot(slot);
                Ok(true)
            })?;
        }
        let plan = match function {
            Some(function) => Plan::Function(function, values, numbered),
            None => Plan::Values(vec![values]),
        };
        Ok(self.leaf(Source::Plan(plan, bindings), columns, name, alias, scope))
    }
}
