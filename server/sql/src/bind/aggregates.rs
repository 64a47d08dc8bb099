//! Expressions over groups: after the rows were grouped, a row has the values of the groups and the
//! results of aggregates.

use crate::bind::Scope;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;

/// The columns of rows of groups.
pub struct Grouped<'s, 'p> {
    /// The expressions by which rows belong together.
    pub groups: Vec<Expr>,
    /// The scope of the rows before they were grouped.
    pub scope: &'s Scope<'p>,
    /// Tables whose primary key is among the groups: all of their columns are known then.
    pub whole: Vec<(usize, usize)>,
}

impl Grouped<'_, '_> {
    /// Brings an expression over rows to one over groups.
    pub fn rewrite(&mut self, expr: &mut Expr, own: usize) -> Result<()> {
        expr.replace(&mut |part| {
            if let Some(place) = self.groups[..own].iter().position(|group| group == part) {
                *part = Expr::Column(place);
                return Ok(true);
            }
            match part {
                // Their places are behind those of the groups, whose number is not final yet.
                Expr::Aggregate(_) | Expr::Window(_) => Ok(true),
                Expr::Column(place) => {
                    let place = *place;
                    if self.whole.iter().any(|(from, to)| (*from..*to).contains(&place)) {
                        let known = self.groups.iter().position(|group| *group == Expr::Column(place));
                        let number = known.unwrap_or(self.groups.len());
                        if known.is_none() {
                            self.groups.push(Expr::Column(place));
                        }
                        *part = Expr::Column(number);
                        return Ok(true);
                    }
                    let column = &self.scope.columns[place];
                    let message = format!(
                        "column \"{}.{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                        column.relation, column.name
                    );
                    Err(SqlError::new(state::GROUPING, message))
                }
                _ => Ok(false),
            }
        })
    }
}

/// Gives aggregates their places behind `columns` other columns.
pub fn place_aggregates(expr: &mut Expr, columns: usize) -> Result<()> {
    expr.replace(&mut |part| {
        let Expr::Aggregate(place) = part else { return Ok(false) };
        *part = Expr::Column(columns + *place);
        Ok(true)
    })
}

/// Gives functions over windows their places behind `columns` other columns.
pub fn place_windows(expr: &mut Expr, columns: usize) -> Result<()> {
    expr.replace(&mut |part| {
        let Expr::Window(place) = part else { return Ok(false) };
        *part = Expr::Column(columns + *place);
        Ok(true)
    })
}
