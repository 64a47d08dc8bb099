//! Functions that return several rows, in the list of a SELECT: they are brought into FROM.
//!
//! `SELECT (f(a.x)).n, a.y FROM a` becomes `SELECT s.n, a.y FROM a, LATERAL f(a.x) AS s`. Several
//! calls are one if they are the same; others would have to walk side by side, and are refused, as
//! are calls beside groups and in other places.

use sqlparser::ast::{
    AccessExpr, Expr as Ast, Function, FunctionArguments, GroupByExpr, Ident, ObjectName, Select, SelectItem,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
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
    let mut found = None;
    let mut select = select.clone();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            lift(expr, &mut found)?;
        }
    }
    select.from.push(TableWithJoins { relation: factor(found?)?, joins: Vec::new() });
    Some(select)
}

/// Puts a column in the place of each call; `None` if there are different calls.
fn lift(expr: &mut Ast, found: &mut Option<Function>) -> Option<()> {
    let column = match expr {
        Ast::Function(call) => match set_of(call) {
            Some(function) => {
                let name = function.name();
                note(call, found)?;
                Some(name.to_owned())
            }
            None => None,
        },
        Ast::CompoundFieldAccess { root, access_chain } => match (plain(root), &access_chain[..]) {
            (Ast::Function(call), [AccessExpr::Dot(Ast::Identifier(field))]) if set_of(call).is_some() => {
                note(call, found)?;
                Some(name_of(field))
            }
            _ => None,
        },
        Ast::Cast { expr, .. } | Ast::Nested(expr) | Ast::UnaryOp { expr, .. } => return lift(expr, found),
        Ast::BinaryOp { left, right, .. } => {
            lift(left, found)?;
            return lift(right, found);
        }
        _ => None,
    };
    if let Some(column) = column {
        *expr = Ast::CompoundIdentifier(vec![Ident::new(ALIAS), Ident::with_quote('"', column)]);
    }
    Some(())
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

fn note(call: &Function, found: &mut Option<Function>) -> Option<()> {
    match found {
        Some(other) if other.args != call.args || other.name != call.name => None,
        _ => {
            *found = Some(call.clone());
            Some(())
        }
    }
}

/// The call as a member of FROM.
fn factor(call: Function) -> Option<TableFactor> {
    let function = set_of(&call)?;
    let FunctionArguments::List(arguments) = call.args else { return None };
    let columns = match function {
        SetFunction::Expand | SetFunction::Keywords => Vec::new(),
        _ => vec![TableAliasColumnDef::from_name(function.name())],
    };
    let alias = TableAlias { explicit: true, name: Ident::new(ALIAS), columns, at: None };
    Some(TableFactor::Function {
        lateral: true,
        name: ObjectName::from(vec![Ident::new(function.name())]),
        args: arguments.args,
        with_ordinality: false,
        alias: Some(alias),
    })
}
