//! Names that an expression can use.

use std::cell::RefCell;

use sqlparser::tokenizer::Span;

use crate::bind::Binder;
use crate::error::{Result, SqlError, state};
use crate::expr::{Expr, Typed};
use crate::types::SqlType;

/// A column that an expression can name.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The name of its table in the query.
    pub relation: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// True if `*` contains it and it can be named without its table.
    pub visible: bool,
    /// Number of the table and of the column in it.
    pub origin: Option<(u32, i16)>,
}

/// The columns of the rows of a query, and the query around it.
#[derive(Debug, Default)]
pub struct Scope<'p> {
    /// The columns, by their places in rows.
    pub columns: Vec<ScopeColumn>,
    /// The scope around this one.
    pub parent: Option<&'p Scope<'p>>,
    /// Columns of this scope that inner queries use: slot and column.
    pub captures: RefCell<Vec<(usize, Expr)>>,
}

impl<'p> Scope<'p> {
    /// Returns a scope without columns.
    pub fn new(parent: Option<&'p Scope<'p>>) -> Self {
        Scope { columns: Vec::new(), parent, captures: RefCell::default() }
    }

    /// Returns the place of a column; `None` if there is none of this name.
    fn place(&self, relation: Option<&str>, name: &str, span: Span) -> Result<Option<usize>> {
        let is_it = |column: &&(usize, &ScopeColumn)| {
            let (_, column) = column;
            column.name == name
                && match relation {
                    Some(relation) => column.relation == relation,
                    None => column.visible,
                }
        };
        let columns: Vec<_> = self.columns.iter().enumerate().collect();
        let mut found = columns.iter().filter(is_it);
        let first = found.next();
        if first.is_some() && found.next().is_some() {
            let message = format!("column reference \"{name}\" is ambiguous");
            return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message).at(span));
        }
        Ok(first.map(|(place, _)| *place))
    }

    /// Returns true if a table has this name here or around.
    pub fn has_relation(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.relation == name)
            || self.parent.is_some_and(|parent| parent.has_relation(name))
    }

    /// Returns what an expression of this scope writes for a column: its place, or the slot in
    /// which a scope around leaves its value.
    pub fn resolve(
        &self,
        relation: Option<&str>,
        name: &str,
        span: Span,
        binder: &mut Binder,
    ) -> Result<Option<Typed>> {
        if let Some(place) = self.place(relation, name, span)? {
            return Ok(Some(Typed::new(Expr::Column(place), self.columns[place].kind.clone())));
        }
        let Some(parent) = self.parent else { return Ok(None) };
        let Some(found) = parent.resolve(relation, name, span, binder)? else { return Ok(None) };
        let Expr::Column(_) = found.expr else { return Ok(Some(found)) };
        let mut captures = parent.captures.borrow_mut();
        if let Some((slot, _)) = captures.iter().find(|(_, expr)| *expr == found.expr) {
            return Ok(Some(Typed::new(Expr::Slot(*slot), found.kind)));
        }
        let slot = binder.slot();
        captures.push((slot, found.expr));
        Ok(Some(Typed::new(Expr::Slot(slot), found.kind)))
    }

    /// Returns the error for a name that is no column.
    pub fn unknown(&self, relation: Option<&str>, name: &str, span: Span) -> SqlError {
        match relation {
            Some(relation) if !self.has_relation(relation) => {
                SqlError::new(state::NO_TABLE, format!("missing FROM-clause entry for table \"{relation}\""))
            }
            Some(relation) => {
                SqlError::new(state::NO_COLUMN, format!("column {relation}.{name} does not exist"))
            }
            None => SqlError::new(state::NO_COLUMN, format!("column \"{name}\" does not exist")),
        }
        .at(span)
    }
}
