//! Constraints of a table as values: conditions of its rows, columns whose values the engine makes,
//! and references to rows of other tables. `rules` checks them against the table's description.

use crate::datum::Datum;
use crate::expression::Expression;

/// The effect of a change of a row on rows that refer to it: a deletion, or another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignAction {
    /// The deletion or change is refused as long as there are such rows.
    #[default]
    Restrict,
    /// They are deleted too, or get the changed key.
    Cascade,
    /// They refer to no row any more: the columns become null.
    SetNull,
}

/// A condition of each row. A row for which it is null is accepted, as in SQL.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The condition.
    pub condition: Expression,
}

/// A reference: in each row the columns are those of a row of another table, or one of them is
/// null.
///
/// The referenced columns are the primary key or the columns of a unique index of the other table,
/// and an ordered index of the own table begins with the columns, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its name.
    pub name: String,
    /// The columns that refer to a row.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: String,
    /// The columns of that table.
    pub references: Vec<String>,
    /// The effect of a deletion of the referenced row.
    pub on_delete: ForeignAction,
    /// The effect of a change of the referenced columns.
    pub on_update: ForeignAction,
    /// True if the reference is checked when the transaction commits, not at each change.
    pub deferred: bool,
}

impl ForeignKey {
    /// Returns a reference that restricts deletions and changes, and is checked at each change.
    pub fn new<C: Into<String>, R: Into<String>>(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        table: impl Into<String>,
        references: impl IntoIterator<Item = R>,
    ) -> Self {
        ForeignKey {
            name: name.into(),
            columns: columns.into_iter().map(C::into).collect(),
            table: table.into(),
            references: references.into_iter().map(R::into).collect(),
            on_delete: ForeignAction::Restrict,
            on_update: ForeignAction::Restrict,
            deferred: false,
        }
    }

    /// Sets the effect of a deletion of the referenced row.
    #[must_use]
    pub fn on_delete(mut self, action: ForeignAction) -> Self {
        self.on_delete = action;
        self
    }

    /// Sets the effect of a change of the referenced columns.
    #[must_use]
    pub fn on_update(mut self, action: ForeignAction) -> Self {
        self.on_update = action;
        self
    }

    /// Checks the reference when the transaction commits: until then rows may refer to rows that
    /// are not there yet, and referenced rows may be deleted and inserted again.
    #[must_use]
    pub fn deferred(mut self) -> Self {
        self.deferred = true;
        self
    }
}

/// Constraints of a table, and the columns whose values the engine makes.
///
/// ```
/// use schema::{Constraints, Expression, ForeignAction, ForeignKey};
///
/// let of_orders = Constraints::new()
///     .check("positive_amount", Expression::column("amount").more(0))
///     .not_null("customer_known", "customer")
///     .foreign_key(
///         ForeignKey::new("customer_exists", ["customer"], "customers", ["id"])
///             .on_delete(ForeignAction::Cascade),
///     )
///     .generated("total", Expression::column("price") * Expression::column("amount"))
///     .default_value("amount", 1)
///     .identity("id", "order ids");
/// assert_eq!(of_orders.checks.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// Names of nullable columns that have a value in each row, behind the names of the
    /// constraints.
    pub not_null: Vec<(String, String)>,
    /// Conditions of each row.
    pub checks: Vec<Check>,
    /// References to other tables.
    pub foreign_keys: Vec<ForeignKey>,
    /// Columns that are computed of other columns whenever a row is written.
    pub generated: Vec<(String, Expression)>,
    /// Columns with the value that an insertion without them gives.
    pub defaults: Vec<(String, Datum)>,
    /// Columns that get numbers of a sequence, and its name.
    pub identities: Vec<(String, String)>,
    /// The column with the moment at which a row expires.
    pub expires: Option<String>,
}

impl Constraints {
    /// Returns no constraints.
    pub fn new() -> Self {
        Constraints::default()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        *self == Constraints::default()
    }

    /// Returns true if there are any that a change of a row can break, or that give a row values.
    pub fn concern_changes(&self) -> bool {
        Constraints { expires: None, ..self.clone() } != Constraints::default()
    }

    /// Adds a condition of each row.
    #[must_use]
    pub fn check(mut self, name: impl Into<String>, condition: Expression) -> Self {
        self.checks.push(Check { name: name.into(), condition });
        self
    }

    /// Demands a value in a column that is nullable.
    #[must_use]
    pub fn not_null(mut self, name: impl Into<String>, column: impl Into<String>) -> Self {
        self.not_null.push((name.into(), column.into()));
        self
    }

    /// Adds a reference to another table.
    #[must_use]
    pub fn foreign_key(mut self, key: ForeignKey) -> Self {
        self.foreign_keys.push(key);
        self
    }

    /// Has a column computed of others whenever a row is written. What a program writes there does
    /// not count.
    #[must_use]
    pub fn generated(mut self, column: impl Into<String>, value: Expression) -> Self {
        self.generated.push((column.into(), value));
        self
    }

    /// Sets the value that a column gets in rows that are inserted without it.
    #[must_use]
    pub fn default_value(mut self, column: impl Into<String>, value: impl Into<Datum>) -> Self {
        self.defaults.push((column.into(), value.into()));
        self
    }

    /// Gives a column the numbers of a sequence in rows that are inserted without it.
    #[must_use]
    pub fn identity(mut self, column: impl Into<String>, sequence: impl Into<String>) -> Self {
        self.identities.push((column.into(), sequence.into()));
        self
    }

    /// Has rows deleted some time after the moment in this column, which is a `timestamptz`
    /// (`SystemTime` in row types). An ordered index begins with the column. Rows without a moment
    /// stay. Sessions of the library delete expired rows, some at a time, while they run
    /// transactions; until then the rows are there.
    #[must_use]
    pub fn expires(mut self, column: impl Into<String>) -> Self {
        self.expires = Some(column.into());
        self
    }

    /// Returns each part as its name and a text that says all of it, in order.
    pub(crate) fn texts(&self) -> Vec<(String, String)> {
        let not_null =
            self.not_null.iter().map(|(name, column)| (name.clone(), format!("{column} not null")));
        let checks = self.checks.iter().map(|check| (check.name.clone(), check.condition.to_string()));
        let foreign = self.foreign_keys.iter().map(|key| (key.name.clone(), format!("{key:?}")));
        let generated = self.generated.iter().map(|(column, value)| (column.clone(), format!("as {value}")));
        let defaults =
            self.defaults.iter().map(|(column, value)| (column.clone(), format!("default {value}")));
        let identities =
            self.identities.iter().map(|(column, sequence)| (column.clone(), format!("of {sequence:?}")));
        let expires = self.expires.iter().map(|column| (column.clone(), "moment of expiry".to_owned()));
        let of_rows = not_null.chain(checks).chain(foreign);
        of_rows.chain(generated).chain(defaults).chain(identities).chain(expires).collect()
    }
}
