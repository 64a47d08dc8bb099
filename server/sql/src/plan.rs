//! Physical plans: what a statement does, operator by operator.

use std::sync::Arc;

use crate::catalog::CatalogTable;
use crate::expr::Expr;
use crate::functions::{Aggregate, SetFunction};
use crate::schema::Table;

/// An operator and its inputs.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Rows of expressions.
    Values(Vec<Vec<Expr>>),
    /// Rows of a table.
    Scan(Box<TableScan>),
    /// Rows of a table of the catalog.
    Catalog(CatalogTable),
    /// Rows of a function; `true`: with their numbers as last column.
    Function(SetFunction, Vec<Expr>, bool),
    /// Rows that meet a condition.
    Filter(Box<Plan>, Expr),
    /// Other columns of each row.
    Project(Box<Plan>, Vec<Expr>),
    /// Rows at a place in wider rows.
    Widen(Box<Plan>, Placement),
    /// Rows of two inputs.
    Join(Box<Join>),
    /// Rows in an order.
    Sort(Box<Plan>, Vec<SortKey>),
    /// Some of the rows.
    Limit(Box<Limit>),
    /// Rows that differ, in these expressions or as a whole.
    Distinct(Box<Plan>, Option<Vec<Expr>>),
    /// A row for each group.
    Aggregate(Box<Grouping>),
    /// Rows with the results of window functions behind their columns.
    Window(Box<Plan>, Vec<WindowCall>),
    /// Union, intersection or difference.
    Combine(Box<Combination>),
    /// Rows of a query that is executed once.
    Common(usize, Arc<Plan>),
    /// A query that refers to its own rows.
    Recursive(Box<Recursion>),
    /// The rows that the last round of a recursive query has found.
    Round(usize),
}

/// A range of a table by one of its indexes.
#[derive(Clone, Debug)]
pub struct TableScan {
    /// The table.
    pub table: Arc<Table>,
    /// The number of the index.
    pub index: usize,
    /// Values of the leading columns of the index.
    pub equal: Vec<Expr>,
    /// Values of the column behind them: an array, or several expressions.
    pub points: Option<Points>,
    /// Least value of the column behind them; `true`: included.
    pub low: Option<(Expr, bool)>,
    /// Greatest value of that column.
    pub high: Option<(Expr, bool)>,
    /// True from the end on.
    pub reverse: bool,
    /// True if the rows are read to be changed.
    pub for_update: bool,
    /// Condition of each row.
    pub filter: Option<Expr>,
    /// Rows that are needed, if that is known.
    pub rows_hint: Option<usize>,
}

/// Several values of a column.
#[derive(Clone, Debug)]
pub enum Points {
    /// These.
    List(Vec<Expr>),
    /// The members of an array.
    Array(Expr),
}

/// A place in wider rows.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The first column.
    pub offset: usize,
    /// The columns of the wider rows.
    pub width: usize,
}

/// Rows that a join keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and rows of the left side without one.
    Left,
    /// Pairs, and rows of both sides without one.
    Full,
}

/// The way by which a join finds pairs.
#[derive(Clone, Debug)]
pub enum JoinMethod {
    /// The right side is executed again for each row of the left one, which leaves values in slots.
    Lookup(Vec<(usize, Expr)>),
    /// The rows of the right side are kept by their key.
    Hash {
        /// The key of a row of the left side.
        left: Vec<Expr>,
        /// The key of a row of the right side, of which only its own columns are set.
        right: Vec<Expr>,
    },
    /// The rows of the right side are kept.
    Loop,
}

/// A join. All rows have the same width; each side sets its own columns.
#[derive(Clone, Debug)]
pub struct Join {
    /// The left side.
    pub left: Plan,
    /// The right side.
    pub right: Plan,
    /// Columns of the right side.
    pub right_columns: Vec<(usize, usize)>,
    /// The rows that are kept.
    pub kind: JoinKind,
    /// The way.
    pub method: JoinMethod,
    /// The condition of a pair.
    pub condition: Option<Expr>,
}

/// A column of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The value.
    pub expr: Expr,
    /// True if larger values come first.
    pub descending: bool,
    /// True if nulls come first.
    pub nulls_first: bool,
}

/// Some of the rows.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The rows.
    pub input: Plan,
    /// The number of rows.
    pub limit: Option<Expr>,
    /// Rows that are left out before.
    pub offset: Option<Expr>,
}

/// An aggregate of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The function.
    pub function: Aggregate,
    /// Its arguments.
    pub arguments: Vec<Expr>,
    /// True if equal values count once.
    pub distinct: bool,
    /// Rows that count.
    pub filter: Option<Expr>,
    /// The order in which values are added: expression, descending, nulls first.
    pub order: Vec<(Expr, bool, bool)>,
}

/// Groups and their aggregates: rows have the values of the groups, then those of the aggregates.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The rows.
    pub input: Plan,
    /// The values by which rows belong together.
    pub groups: Vec<Expr>,
    /// The aggregates of each group.
    pub aggregates: Vec<AggregateCall>,
}

/// A function over the rows around a row.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function.
    pub function: WindowFunction,
    /// Rows of a partition have the same values.
    pub partition: Vec<Expr>,
    /// The order within a partition.
    pub order: Vec<SortKey>,
}

/// Functions over windows.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// The number of the row.
    RowNumber,
    /// The number of the first row that is equal in order.
    Rank,
    /// The number of different rows in order before this one, and one.
    DenseRank,
    /// An aggregate: of the rows up to this one, or without an order of all rows.
    Aggregate(AggregateCall),
}

/// An operation on two sets of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Rows of both.
    Union,
    /// Rows that are in both.
    Intersect,
    /// Rows of the first that are not in the second.
    Except,
}

/// Union, intersection or difference.
#[derive(Clone, Debug)]
pub struct Combination {
    /// The operation.
    pub operation: SetOperation,
    /// True if equal rows stay.
    pub all: bool,
    /// The first rows.
    pub left: Plan,
    /// The other rows.
    pub right: Plan,
}

/// A query that refers to its own rows.
#[derive(Clone, Debug)]
pub struct Recursion {
    /// Its number.
    pub id: usize,
    /// The first rows.
    pub base: Plan,
    /// Further rows of those of the last round.
    pub step: Plan,
    /// True if equal rows stay.
    pub all: bool,
}

impl Plan {
    /// The plan of one row without columns.
    pub fn one() -> Plan {
        Plan::Values(vec![Vec::new()])
    }

    /// Appends lines that describe the plan.
    pub fn describe(&self, depth: usize, lines: &mut Vec<String>) {
        let indent = if depth == 0 { String::new() } else { format!("{}->  ", " ".repeat(6 * depth - 4)) };
        let mut line = |text: String| lines.push(format!("{indent}{text}"));
        match self {
            Plan::Values(rows) if rows.len() == 1 => line("Result".to_owned()),
            Plan::Values(rows) => line(format!("Values Scan ({} rows)", rows.len())),
            Plan::Scan(scan) => line(scan.describe()),
            Plan::Catalog(table) => line(format!("Catalog Scan on {}", table.name())),
            Plan::Function(function, ..) => line(format!("Function Scan on {}", function.name())),
            Plan::Filter(input, _) => {
                line("Filter".to_owned());
                input.describe(depth + 1, lines);
            }
            Plan::Project(input, _) | Plan::Widen(input, _) => input.describe(depth, lines),
            Plan::Join(join) => {
                let method = match join.method {
                    JoinMethod::Lookup(_) => "Nested Loop",
                    JoinMethod::Hash { .. } => "Hash Join",
                    JoinMethod::Loop => "Nested Loop (right side kept)",
                };
                let kind = match join.kind {
                    JoinKind::Inner => "",
                    JoinKind::Left => " Left",
                    JoinKind::Full => " Full",
                };
                line(format!("{method}{kind}"));
                join.left.describe(depth + 1, lines);
                join.right.describe(depth + 1, lines);
            }
            Plan::Sort(input, keys) => {
                line(format!("Sort ({} keys)", keys.len()));
                input.describe(depth + 1, lines);
            }
            Plan::Limit(limit) => {
                line("Limit".to_owned());
                limit.input.describe(depth + 1, lines);
            }
            Plan::Distinct(input, _) => {
                line("Unique".to_owned());
                input.describe(depth + 1, lines);
            }
            Plan::Aggregate(grouping) => {
                let name = if grouping.groups.is_empty() { "Aggregate" } else { "GroupAggregate" };
                line(name.to_owned());
                grouping.input.describe(depth + 1, lines);
            }
            Plan::Window(input, _) => {
                line("WindowAgg".to_owned());
                input.describe(depth + 1, lines);
            }
            Plan::Combine(combination) => {
                line(format!("{:?}", combination.operation));
                combination.left.describe(depth + 1, lines);
                combination.right.describe(depth + 1, lines);
            }
            Plan::Common(_, input) => {
                line("CTE Scan".to_owned());
                input.describe(depth + 1, lines);
            }
            Plan::Recursive(recursion) => {
                line("Recursive Union".to_owned());
                recursion.base.describe(depth + 1, lines);
                recursion.step.describe(depth + 1, lines);
            }
            Plan::Round(_) => line("WorkTable Scan".to_owned()),
        }
    }
}

impl TableScan {
    fn describe(&self) -> String {
        let (table, index) = (&self.table.name, &self.table.indexes[self.index].name);
        let is_whole = self.equal.is_empty() && self.points.is_none();
        match is_whole && self.low.is_none() && self.high.is_none() {
            true => format!("Seq Scan on {table}"),
            false => {
                let back = if self.reverse { " Backward" } else { "" };
                let keys = self.equal.len() + usize::from(self.points.is_some());
                let range = if self.low.is_some() || self.high.is_some() { " and a range" } else { "" };
                format!("Index Scan{back} using {index} on {table} ({keys} columns{range})")
            }
        }
    }
}
