//! Binding: names become places, types are checked, and statements become plans.

mod access;
mod aggregates;
mod coercion;
mod expressions;
mod from;
mod joins;
mod modify;
mod operators;
mod order;
mod queries;
mod scope;
mod set_calls;
mod special;

use std::sync::Arc;

use sqlparser::ast::{Expr as Ast, Ident, ObjectName};

use crate::error::{Result, SqlError, state};
use crate::expr::Typed;
use crate::plan::{AggregateCall, Plan, WindowCall};
use crate::schema::{Schema, Table};
use crate::types::SqlType;

pub use modify::{ConflictPlan, ConflictTarget, InsertPlan, ModifyPlan};
pub use scope::{Scope, ScopeColumn};
pub use special::{argument_of, sort_key};

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Number of the table and of the column in it, if it is one.
    pub origin: Option<(u32, i16)>,
}

/// A bound query.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// Its plan.
    pub plan: Plan,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
}

/// A query with a name (WITH).
#[derive(Clone, Debug)]
struct CommonQuery {
    name: String,
    columns: Vec<OutputColumn>,
    plan: Plan,
}

/// Binds one statement.
pub struct Binder {
    schema: Arc<Schema>,
    /// Types of parameters; `Unknown` as long as nothing has said more.
    pub params: Vec<SqlType>,
    /// Number of slots that the statement needs.
    pub slots: usize,
    /// Number of queries that are executed once.
    common_ids: usize,
    /// Queries with names that are visible.
    common: Vec<CommonQuery>,
    /// Aggregates of the query that is being bound; `None` where there can be none.
    aggregates: Option<Vec<AggregateCall>>,
    /// Functions over windows of that query.
    windows: Vec<WindowCall>,
    /// Views that are being expanded.
    views: usize,
    /// Tables and views that the statement names, and the privileges that it needs on them.
    pub touched: Vec<(String, crate::roles::Privilege)>,
    /// True if rows of tables are read to be changed.
    for_update: bool,
    /// The tables that the statement uses.
    pub tables: Vec<Arc<Table>>,
}

/// Most views within each other.
const VIEWS_MAX: usize = 16;
/// Most parameters of a statement.
const PARAMS_MAX: usize = 65_535;

impl Binder {
    /// Returns a binder; the client may have said types of parameters.
    pub fn new(schema: Arc<Schema>, params: Vec<SqlType>) -> Self {
        Binder {
            schema,
            params,
            slots: 0,
            common_ids: 0,
            common: Vec::new(),
            aggregates: None,
            windows: Vec::new(),
            views: 0,
            touched: Vec::new(),
            for_update: false,
            tables: Vec::new(),
        }
    }

    /// Returns a new slot.
    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    /// Binds an expression without columns.
    pub fn constant(&mut self, ast: &Ast) -> Result<Typed> {
        let scope = Scope::new(None);
        self.expression(ast, &scope)
    }

    /// Binds an expression without columns that has this type.
    pub fn constant_of(&mut self, ast: &Ast, kind: &SqlType) -> Result<crate::expr::Expr> {
        let typed = self.constant(ast)?;
        self.assign(typed, kind, "value")
    }
}

/// Returns an identifier as it is compared: in small letters, unless it is in quotation marks.
pub fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Returns the parts of a name.
pub fn parts_of(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &sqlparser::ast::ObjectNamePart| {
        part.as_ident()
            .map(name_of)
            .ok_or_else(|| SqlError::new(state::SYNTAX, format!("improper name {name}")))
    };
    name.0.iter().map(part).collect()
}

/// Returns the schema, if there is one, and the name of an object.
pub fn object_of(name: &ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = parts_of(name)?;
    let last = parts.pop().unwrap_or_default();
    // A database before the schema does not count.
    Ok((parts.pop(), last))
}

/// Returns the place of a name in the statement.
pub fn span_of(name: &ObjectName) -> sqlparser::tokenizer::Span {
    name.0
        .first()
        .and_then(|part| part.as_ident())
        .map_or_else(sqlparser::tokenizer::Span::empty, |ident| ident.span)
}

/// Returns the name of a table of the schema `public`.
pub fn table_of(name: &ObjectName) -> Result<String> {
    match object_of(name)? {
        (None, table) => Ok(table),
        (Some(schema), table) if schema == "public" => Ok(table),
        (Some(schema), _) => {
            Err(SqlError::new(state::NO_SCHEMA, format!("schema \"{schema}\" does not exist"))
                .at(span_of(name)))
        }
    }
}
