//! Statements that change rows: INSERT, UPDATE, DELETE.

use std::sync::Arc;

use isles::Datum;
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget as AstTarget, Delete, Expr as Ast, FromTable, Insert,
    OnConflictAction, OnInsert, SelectItem, SetExpr, TableFactor, TableObject, Update, UpdateTableFromKind,
};

use crate::bind::{Binder, OutputColumn, Scope, ScopeColumn, name_of, object_of, span_of, table_of};
use crate::error::{Result, SqlError, state};
use crate::expr::{Expr, Typed};
use crate::plan::{JoinKind, Plan};
use crate::roles::Privilege;
use crate::schema::{ColumnDefault, Table};
use crate::types::SqlType;

use super::from::FromTree;

/// A statement that changes rows.
#[derive(Clone, Debug)]
pub enum ModifyPlan {
    /// New rows.
    Insert(InsertPlan),
    /// Other values of rows: column and value.
    Update(Change, Vec<(usize, Expr)>),
    /// No rows any more.
    Delete(Change),
}

/// New rows.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    /// The table.
    pub table: Arc<Table>,
    /// Rows with all columns that can be seen, in order.
    pub source: Plan,
    /// The effect on a row whose key is taken.
    pub conflict: Option<ConflictPlan>,
    /// Values that are returned of each row.
    pub returning: Option<Vec<Expr>>,
}

/// The unique keys for which a conflict is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictTarget {
    /// All.
    All,
    /// This index.
    Index(usize),
}

/// The effect on a row whose key is taken.
#[derive(Clone, Debug)]
pub struct ConflictPlan {
    /// The keys.
    pub target: ConflictTarget,
    /// Column and value of the row that is there, and the condition for that: over the row that is
    /// there, and behind it the one that was to be inserted. `None`: nothing.
    pub update: Option<ConflictUpdate>,
}

/// Columns with their values, and a condition.
pub type ConflictUpdate = (Vec<(usize, Expr)>, Option<Expr>);

/// The rows that a statement changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: Arc<Table>,
    /// Rows that begin with a row of the table.
    pub source: Plan,
    /// Values that are returned of each row.
    pub returning: Option<Vec<Expr>>,
}

impl Binder {
    /// Binds INSERT; the columns are those of RETURNING.
    pub fn insert(&mut self, insert: &Insert) -> Result<(ModifyPlan, Vec<OutputColumn>)> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into this"));
        };
        let table = self.target(name)?;
        self.touch(&table.name, Privilege::Insert);
        if insert.on.is_some() || insert.returning.is_some() {
            self.touch(&table.name, Privilege::Select);
        }
        let mut targets = Vec::new();
        for column in &insert.columns {
            let (_, column) = object_of(column)?;
            let place = table.column(&column).map_err(|error| error.at(span_of(name)))?;
            if targets.contains(&place) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            targets.push(place);
        }
        if insert.columns.is_empty() {
            targets = (0..table.columns.len()).collect();
        }
        let overrides = insert.overriding.is_some();
        let source = self.inserted(&table, insert, targets, overrides)?;
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(conflict)) => {
                if matches!(conflict.action, OnConflictAction::DoUpdate(_)) {
                    self.touch(&table.name, Privilege::Update);
                }
                Some(self.conflict(&table, conflict, insert)?)
            }
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
        };
        let mut scope = Scope::new(None);
        let alias = insert.table_alias.as_ref().map(|alias| name_of(&alias.alias));
        self.add_table(&table, alias.as_deref().unwrap_or(&table.name), &mut scope);
        let (returning, columns) = self.returning(insert.returning.as_deref(), &scope)?;
        Ok((ModifyPlan::Insert(InsertPlan { table, source, conflict, returning }), columns))
    }

    /// Returns the plan of rows with all columns of the table.
    fn inserted(
        &mut self,
        table: &Arc<Table>,
        insert: &Insert,
        mut targets: Vec<usize>,
        overrides: bool,
    ) -> Result<Plan> {
        let Some(query) = &insert.source else {
            // DEFAULT VALUES
            return Ok(Plan::Values(vec![self.defaults(table)?]));
        };
        if let SetExpr::Values(values) = &*query.body
            && query.limit_clause.is_none()
            && query.order_by.is_none()
        {
            let defaults = self.defaults(table)?;
            let scope = Scope::new(None);
            let mut rows = Vec::with_capacity(values.rows.len());
            for row in &values.rows {
                check_count(row.content.len(), &targets, !insert.columns.is_empty())?;
                let mut values = defaults.clone();
                for (ast, place) in row.content.iter().zip(&targets) {
                    if is_default(ast) {
                        continue;
                    }
                    check_writable(table, *place, overrides)?;
                    let column = &table.columns[*place];
                    let typed = self.expression(ast, &scope)?;
                    values[*place] = self.assign(typed, &column.kind, &column.name)?;
                }
                rows.push(values);
            }
            return Ok(Plan::Values(rows));
        }
        let bound = self.query(query, None)?;
        check_count(bound.columns.len(), &targets, !insert.columns.is_empty())?;
        targets.truncate(bound.columns.len());
        let mut values = self.defaults(table)?;
        for (number, (column, place)) in bound.columns.iter().zip(&targets).enumerate() {
            check_writable(table, *place, overrides)?;
            let target = &table.columns[*place];
            let typed = Typed::new(Expr::Column(number), column.kind.clone());
            values[*place] = self.assign(typed, &target.kind, &target.name)?;
        }
        Ok(Plan::Project(Box::new(bound.plan), values))
    }

    /// Returns the values of all columns that a row gets without any.
    pub fn defaults(&mut self, table: &Table) -> Result<Vec<Expr>> {
        (0..table.columns.len()).map(|place| self.default_of(table, place)).collect()
    }

    fn default_of(&mut self, table: &Table, place: usize) -> Result<Expr> {
        let column = &table.columns[place];
        if column.generated.is_some() {
            return Ok(Expr::Constant(table.description.columns()[place].empty_value()));
        }
        match &column.default {
            ColumnDefault::None => Ok(Expr::Constant(Datum::Null)),
            ColumnDefault::Value(value) => Ok(Expr::Constant(value.clone())),
            ColumnDefault::Sequence(name, _) => {
                let name = Typed::new(
                    Expr::Constant(Datum::Text(crate::functions::quoted_name(name))),
                    SqlType::Text,
                );
                let number = self.call("nextval", vec![name])?;
                self.coerce(number, &column.kind)
            }
            ColumnDefault::Text(text) => {
                let ast = crate::parse::expression(text)?;
                let typed = self.constant(&ast)?;
                self.assign(typed, &column.kind, &column.name)
            }
        }
    }

    fn conflict(
        &mut self,
        table: &Arc<Table>,
        on: &ast::OnConflict,
        insert: &Insert,
    ) -> Result<ConflictPlan> {
        let target = match &on.conflict_target {
            None => ConflictTarget::All,
            Some(AstTarget::Columns { columns, .. }) => {
                let mut places = Vec::new();
                for column in columns {
                    places.push(table.column(&name_of(column))?);
                }
                places.sort_unstable();
                let is_it = |index: &crate::schema::Index| {
                    let mut own = index.columns.clone();
                    own.sort_unstable();
                    index.unique && own == places
                };
                let missing = || {
                    SqlError::new(
                        state::NO_CONFLICT_TARGET,
                        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                    )
                };
                ConflictTarget::Index(table.indexes.iter().position(is_it).ok_or_else(missing)?)
            }
            Some(AstTarget::OnConstraint(name)) => {
                let (_, name) = object_of(name)?;
                let missing = || {
                    let message =
                        format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                    SqlError::new(state::NO_OBJECT, message)
                };
                let place = table.indexes.iter().position(|index| index.name == name && index.unique);
                ConflictTarget::Index(place.ok_or_else(missing)?)
            }
        };
        let OnConflictAction::DoUpdate(update) = &on.action else {
            return Ok(ConflictPlan { target, update: None });
        };
        if target == ConflictTarget::All {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        let mut scope = Scope::new(None);
        let alias = insert.table_alias.as_ref().map(|alias| name_of(&alias.alias));
        self.add_table(table, alias.as_deref().unwrap_or(&table.name), &mut scope);
        let start = scope.columns.len();
        self.add_table(table, "excluded", &mut scope);
        // Names without a table are those of the row that is there.
        scope.columns[start..].iter_mut().for_each(|column| column.visible = false);
        let assignments = self.assignments(table, &update.assignments, &scope)?;
        let filter = match &update.selection {
            Some(ast) => {
                let filter = self.expression(ast, &scope)?;
                Some(self.boolean(filter)?)
            }
            None => None,
        };
        Ok(ConflictPlan { target, update: Some((assignments, filter)) })
    }

    /// Binds UPDATE.
    pub fn update(&mut self, update: &Update) -> Result<(ModifyPlan, Vec<OutputColumn>)> {
        if !update.table.joins.is_empty() {
            return Err(SqlError::unsupported("UPDATE of a join").hint("Use UPDATE .. FROM."));
        }
        let from = match &update.from {
            None => &[][..],
            Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => tables,
        };
        let (mut scope, tree, table) = self.changed(&update.table.relation)?;
        self.touch(&table.name, Privilege::Update);
        if update.selection.is_some() || update.returning.is_some() || !from.is_empty() {
            self.touch(&table.name, Privilege::Select);
        }
        let tree = self.with_others(tree, from, &mut scope)?;
        let assignments = self.assignments(&table, &update.assignments, &scope)?;
        let source = self.changed_rows(tree, update.selection.as_ref(), &scope)?;
        let (returning, columns) = self.returning(update.returning.as_deref(), &scope)?;
        Ok((ModifyPlan::Update(Change { table, source, returning }, assignments), columns))
    }

    /// Binds DELETE.
    pub fn delete(&mut self, delete: &Delete) -> Result<(ModifyPlan, Vec<OutputColumn>)> {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [target] = &tables[..] else { return Err(SqlError::unsupported("DELETE from several tables")) };
        let (mut scope, tree, table) = self.changed(&target.relation)?;
        self.touch(&table.name, Privilege::Delete);
        if delete.selection.is_some() || delete.returning.is_some() || delete.using.is_some() {
            self.touch(&table.name, Privilege::Select);
        }
        let tree = self.with_others(tree, delete.using.as_deref().unwrap_or(&[]), &mut scope)?;
        let source = self.changed_rows(tree, delete.selection.as_ref(), &scope)?;
        let (returning, columns) = self.returning(delete.returning.as_deref(), &scope)?;
        Ok((ModifyPlan::Delete(Change { table, source, returning }), columns))
    }

    /// Returns the scope and the leaf of the table that a statement changes.
    fn changed(&mut self, target: &TableFactor) -> Result<(Scope<'static>, FromTree, Arc<Table>)> {
        let TableFactor::Table { name, alias, args: None, .. } = target else {
            return Err(SqlError::unsupported(format!("a change of {target}")));
        };
        let table = self.target(name)?;
        let mut scope = Scope::new(None);
        let leaf = self.table_leaf(Arc::clone(&table), alias.as_ref(), &mut scope);
        Ok((scope, leaf, table))
    }

    fn with_others(
        &mut self,
        tree: FromTree,
        others: &[ast::TableWithJoins],
        scope: &mut Scope<'_>,
    ) -> Result<FromTree> {
        Ok(match self.from(others, scope)? {
            Some(others) => FromTree::Join(JoinKind::Inner, Box::new(tree), Box::new(others), Vec::new()),
            None => tree,
        })
    }

    fn changed_rows(&mut self, tree: FromTree, selection: Option<&Ast>, scope: &Scope<'_>) -> Result<Plan> {
        let mut conditions = Vec::new();
        if let Some(ast) = selection {
            let condition = self.expression(ast, scope)?;
            self.boolean(condition)?.conjuncts(&mut conditions);
        }
        self.for_update = true;
        let plan = self.plan_from(tree, conditions, scope.columns.len());
        self.for_update = false;
        Ok(plan)
    }

    fn target(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        if let (Some(schema), table) = object_of(name)?
            && (schema == "pg_catalog" || schema == "information_schema")
        {
            return Err(SqlError::new(
                state::PRIVILEGE,
                format!("permission denied: \"{table}\" is a system catalog"),
            ));
        }
        let table = table_of(name)?;
        if self.schema.views.contains_key(&table) {
            return Err(SqlError::unsupported(format!("a change of view \"{table}\"")));
        }
        let found = self.schema.table(&table).cloned().map_err(|error| error.at(span_of(name)))?;
        self.tables.push(Arc::clone(&found));
        Ok(found)
    }

    /// Adds a table's columns to a scope.
    fn add_table(&mut self, table: &Table, relation: &str, scope: &mut Scope<'_>) {
        for (number, column) in table.columns.iter().enumerate() {
            scope.columns.push(ScopeColumn {
                relation: relation.to_owned(),
                name: column.name.clone(),
                kind: column.kind.clone(),
                visible: true,
                origin: Some((table.oid, number as i16 + 1)),
            });
        }
        if table.hidden_key {
            let (relation, name, kind) = (relation.to_owned(), String::new(), SqlType::Int8);
            scope.columns.push(ScopeColumn { relation, name, kind, visible: false, origin: None });
        }
    }

    fn assignments(
        &mut self,
        table: &Table,
        assignments: &[Assignment],
        scope: &Scope<'_>,
    ) -> Result<Vec<(usize, Expr)>> {
        let mut bound: Vec<(usize, Expr)> = Vec::new();
        for assignment in assignments {
            let pairs: Vec<(String, &Ast)> = match (&assignment.target, &assignment.value) {
                (AssignmentTarget::ColumnName(name), value) => vec![(object_of(name)?.1, value)],
                (AssignmentTarget::Tuple(names), Ast::Tuple(values)) if names.len() == values.len() => {
                    let names = names.iter().map(|name| object_of(name).map(|(_, name)| name));
                    names.collect::<Result<Vec<_>>>()?.into_iter().zip(values).collect()
                }
                (AssignmentTarget::Tuple(_), _) => {
                    return Err(SqlError::unsupported("an assignment of a query to several columns"));
                }
            };
            for (name, value) in pairs {
                let place = table.column(&name)?;
                let column = &table.columns[place];
                let value = if is_default(value) {
                    self.default_of(table, place)?
                } else {
                    check_writable(table, place, false)?;
                    let typed = self.expression(value, scope)?;
                    self.assign(typed, &column.kind, &column.name)?
                };
                if bound.iter().any(|(other, _)| *other == place) {
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                bound.push((place, value));
            }
        }
        Ok(bound)
    }

    fn returning(
        &mut self,
        items: Option<&[SelectItem]>,
        scope: &Scope<'_>,
    ) -> Result<(Option<Vec<Expr>>, Vec<OutputColumn>)> {
        let Some(items) = items else { return Ok((None, Vec::new())) };
        let bound = self.items(items, scope)?;
        let (values, columns): (Vec<_>, Vec<_>) =
            bound.into_iter().map(|(typed, column)| (typed.expr, column)).unzip();
        Ok((Some(values), columns))
    }
}

fn is_default(ast: &Ast) -> bool {
    matches!(ast, Ast::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

fn check_count(values: usize, targets: &[usize], is_listed: bool) -> Result<()> {
    if values > targets.len() {
        return Err(SqlError::new(state::SYNTAX, "INSERT has more expressions than target columns"));
    }
    if values < targets.len() && is_listed {
        return Err(SqlError::new(state::SYNTAX, "INSERT has more target columns than expressions"));
    }
    Ok(())
}

/// Refuses to write columns whose values the engine makes.
fn check_writable(table: &Table, place: usize, overrides: bool) -> Result<()> {
    let column = &table.columns[place];
    let is_identity = matches!(column.default, ColumnDefault::Sequence(_, true)) && !overrides;
    if column.generated.is_none() && !is_identity {
        return Ok(());
    }
    let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
    let kind =
        if is_identity { "an identity column defined as GENERATED ALWAYS" } else { "a generated column" };
    Err(SqlError::new("428C9", message).detail(format!("Column \"{}\" is {kind}.", column.name)))
}
