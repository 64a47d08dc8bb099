//! Functions that return several rows, in the list of a SELECT: they are brought into FROM.
//!
//! `SELECT (f(a.x)).n, a.y FROM a` becomes `SELECT s.n, a.y FROM a, LATERAL f(a.x) AS s`. Several
//! calls are one if they are the same; others walk side by side, as the arrays of one `unnest`.
//! Calls beside groups and in other places stay, and are refused.

use sqlparser::ast::{
    AccessExpr, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
};

use crate::bind::{name_of, object_of};
use crate::functions::SetFunction;

/// The name of such a function in FROM.
const ALIAS: &str = "isles_set";

/// Returns a SELECT whose list has no such call, if this one has one that can be brought into FROM.
pub(super) fn lifted(select: &Select) -> Option<Select> {
    let is_plain =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    let groups = match &select.group_by {
        GroupByExpr::All(_) => return None,
        GroupByExpr::Expressions(groups, _) => groups,
    };
    if !groups.is_empty() || select.having.is_some() || !select.projection.iter().all(is_plain) {
        return None;
    }
    let mut found = Vec::new();
    let mut select = select.clone();
    for item in &mut select.projection {
        // A call keeps its name.
        if let SelectItem::UnnamedExpr(Ast::Function(call)) = item
            && let Some(function) = set_of(call)
        {
            let alias = Ident::with_quote('"', function.name());
            *item = SelectItem::ExprWithAlias { expr: Ast::Function(call.clone()), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            lift(expr, &mut found);
        }
    }
    let relation = factor(found)?;
    select.from.push(TableWithJoins { relation, joins: Vec::new() });
    Some(select)
}

/// Puts a column in the place of each call, and notes the calls.
fn lift(expr: &mut Ast, found: &mut Vec<Function>) {
    let column = match expr {
        Ast::Function(call) => set_of(call).map(|_| column_name(note(call, found))),
        Ast::CompoundFieldAccess { root, access_chain } => match (plain(root), &access_chain[..]) {
            (Ast::Function(call), [AccessExpr::Dot(Ast::Identifier(field))]) if set_of(call).is_some() => {
                note(call, found);
                Some(name_of(field))
            }
            _ => None,
        },
        Ast::Cast { expr, .. } | Ast::Nested(expr) | Ast::UnaryOp { expr, .. } => return lift(expr, found),
        Ast::BinaryOp { left, right, .. } => {
            lift(left, found);
            return lift(right, found);
        }
        _ => None,
    };
    if let Some(column) = column {
        *expr = Ast::CompoundIdentifier(vec![Ident::new(ALIAS), Ident::with_quote('"', column)]);
    }
}

fn column_name(number: usize) -> String {
    format!("column{number}")
}

/// The expression within parentheses.
fn plain(expr: &Ast) -> &Ast {
    match expr {
        Ast::Nested(inner) => plain(inner),
        other => other,
    }
}

fn set_of(call: &Function) -> Option<SetFunction> {
    SetFunction::of_name(&object_of(&call.name).ok()?.1)
}

/// The number of a call among those that are different.
fn note(call: &Function, found: &mut Vec<Function>) -> usize {
    let is_same = |other: &Function| other.args == call.args && other.name == call.name;
    found.iter().position(is_same).unwrap_or_else(|| {
        found.push(call.clone());
        found.len() - 1
    })
}

/// The calls as a member of FROM; `None` if there are none, or several that have rows of columns.
fn factor(mut calls: Vec<Function>) -> Option<TableFactor> {
    let has_columns =
        |call: &Function| matches!(set_of(call), Some(SetFunction::Expand | SetFunction::Keywords));
    let columns = match &calls[..] {
        [] => return None,
        [call] if has_columns(call) => Vec::new(),
        calls if calls.iter().any(has_columns) => return None,
        calls => (0..calls.len()).map(|number| TableAliasColumnDef::from_name(column_name(number))).collect(),
    };
    let (name, args) = match calls.len() {
        1 => arguments_of(calls.pop()?)?,
        _ => (SetFunction::Unnest.name(), calls.into_iter().map(as_array).collect::<Option<_>>()?),
    };
    let alias = TableAlias { explicit: true, name: Ident::new(ALIAS), columns, at: None };
    Some(TableFactor::Function {
        lateral: true,
        name: ObjectName::from(vec![Ident::new(name)]),
        args,
        with_ordinality: false,
        alias: Some(alias),
    })
}

fn arguments_of(call: Function) -> Option<(&'static str, Vec<FunctionArg>)> {
    let function = set_of(&call)?;
    match call.args {
        FunctionArguments::List(arguments) => Some((function.name(), arguments.args)),
        _ => None,
    }
}

/// The rows of a call as an array.
fn as_array(call: Function) -> Option<FunctionArg> {
    let text = format!("ARRAY(SELECT s.v FROM {call} AS s(v))");
    match arguments_of(call)? {
        ("unnest", mut arguments) if arguments.len() == 1 => arguments.pop(),
        _ => crate::parse::expression(&text)
            .ok()
            .map(|array| FunctionArg::Unnamed(FunctionArgExpr::Expr(array))),
    }
}
