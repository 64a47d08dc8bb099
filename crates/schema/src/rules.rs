//! Constraints of a table against its description: their validation, and the rules that each row
//! has to meet, which need no other row. References are `references`.

use crate::constraints::Constraints;
use crate::datum::Datum;
use crate::description::{IndexDescription, TableDescription};
use crate::evaluation::{BoundExpression, ValueClass, bind};
use crate::expression::Expression;
use crate::row_error::{ConstraintKind, RowError, RuleError, Violation};
use crate::row_format::RowBytes;
use crate::table_limits::{Difference, NAME_BYTES_MAX, TableError, TableFault};
use crate::value_type::ValueType;

/// Most constraints of a table.
pub const CONSTRAINTS_MAX: usize = 255;
/// Longest name of a sequence.
const SEQUENCE_BYTES_MAX: usize = 48;

/// The rules for the rows of a table.
#[derive(Clone, Debug, Default)]
pub struct RowRules {
    not_null: Vec<(String, usize)>,
    checks: Vec<(String, Expression, BoundExpression)>,
    generated: Vec<(usize, Expression, BoundExpression)>,
}

impl RowRules {
    /// Returns true if every row meets them.
    pub fn is_empty(&self) -> bool {
        self.not_null.is_empty() && self.checks.is_empty() && self.generated.is_empty()
    }

    /// Returns true if columns are generated.
    pub fn generates(&self) -> bool {
        !self.generated.is_empty()
    }

    /// Computes the generated columns of a row of these values, one for each column.
    ///
    /// # Errors
    /// The first one without a value.
    pub fn generate(&self, table: &TableDescription, values: &mut [Datum]) -> Result<(), Violation> {
        for (number, expression, bound) in &self.generated {
            let value = bound.evaluate(&|column| values.get(column).cloned());
            let value = value.map_err(|fault| Violation {
                constraint: table.columns[*number].name.clone(),
                kind: ConstraintKind::Generated,
                reason: format!("{expression} has no value: {fault}"),
            })?;
            values[*number] = value;
        }
        Ok(())
    }

    /// Checks a row, whose generated columns were computed.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub fn check(&self, table: &TableDescription, fixed: &[u8], tail: &[u8]) -> Result<(), Violation> {
        let value = |column| table.decode_column(column, fixed, tail).ok();
        for (name, column) in &self.not_null {
            if value(*column) == Some(Datum::Null) {
                return Err(Violation {
                    constraint: name.clone(),
                    kind: ConstraintKind::NotNull,
                    reason: format!("column {:?} has no value", table.columns[*column].name),
                });
            }
        }
        for (name, condition, bound) in &self.checks {
            let reason = match bound.evaluate(&value) {
                Ok(Datum::Bool(false)) => {
                    let named = |column: &usize| condition.names(&table.columns[*column].name);
                    let columns: Vec<usize> = (0..table.columns.len()).filter(named).collect();
                    format!("{condition} is false for {}", table.format_columns(&columns, fixed, tail))
                }
                Ok(_) => continue,
                Err(fault) => format!("{condition} has no value: {fault}"),
            };
            return Err(Violation { constraint: name.clone(), kind: ConstraintKind::Check, reason });
        }
        Ok(())
    }
}

impl TableDescription {
    /// Returns its constraints.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// Returns the table with these constraints instead of its own.
    ///
    /// # Errors
    /// The first constraint that the table cannot have.
    pub fn with_constraints(mut self, constraints: Constraints) -> Result<Self, TableError> {
        self.constraints = constraints;
        match self.check_constraints() {
            Ok(()) => Ok(self),
            Err(fault) => Err(TableError { table: self.name, fault }),
        }
    }

    /// Returns the rules for its rows.
    pub fn rules(&self) -> RowRules {
        self.bind_rules().unwrap_or_default()
    }

    /// Checks that its rows can have its constraints, as far as other tables do not matter.
    pub(crate) fn check_constraints(&self) -> Result<(), TableFault> {
        let own = &self.constraints;
        let fault =
            |name: &str, reason: String| Err(TableFault::Constraint { name: name.to_owned(), reason });
        let named = own.not_null.iter().map(|(name, _)| name);
        let named = named.chain(own.checks.iter().map(|check| &check.name));
        let names: Vec<&String> = named.chain(own.foreign_keys.iter().map(|key| &key.name)).collect();
        if names.len() > CONSTRAINTS_MAX {
            return fault(
                names[0],
                format!("it has {} constraints, and at most 255 are possible", names.len()),
            );
        }
        for (number, name) in names.iter().enumerate() {
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
                return Err(TableFault::Name { name: (*name).clone() });
            }
            if names[..number].contains(name) {
                return fault(name, "another constraint has this name".to_owned());
            }
        }
        self.bind_rules().map_err(|(name, reason)| TableFault::Constraint { name, reason })?;
        self.check_made_columns().map_err(|(name, reason)| TableFault::Constraint { name, reason })?;
        if let Some(column) = &own.expires
            && let Err(reason) = self.check_expiry(column)
        {
            return fault(column, reason);
        }
        for key in &own.foreign_keys {
            if let Err(reason) = self.check_foreign_key(key) {
                return fault(&key.name, reason);
            }
        }
        Ok(())
    }

    fn constraint_column(&self, name: &str) -> Result<usize, String> {
        self.column(name).ok_or_else(|| format!("there is no column {name:?}, but {}", self.column_names()))
    }

    /// Looks up the columns of the rules; an error has the name of the constraint and the reason.
    fn bind_rules(&self) -> Result<RowRules, (String, String)> {
        let lookup = |name: &str| self.column(name).map(|number| (number, &self.columns[number].kind));
        let mut rules = RowRules::default();
        for (name, column) in &self.constraints.not_null {
            let fail = |reason| (name.clone(), reason);
            let number = self.constraint_column(column).map_err(fail)?;
            rules.not_null.push((name.clone(), number));
        }
        for check in &self.constraints.checks {
            let fail = |reason| (check.name.clone(), reason);
            let (bound, class) = bind(&check.condition, &lookup).map_err(fail)?;
            if !matches!(class, ValueClass::Truth | ValueClass::Null) {
                return Err(fail(format!("{} is no condition", check.condition)));
            }
            rules.checks.push((check.name.clone(), check.condition.clone(), bound));
        }
        for (column, value) in &self.constraints.generated {
            let fail = |reason| (column.clone(), reason);
            let number = self.constraint_column(column).map_err(fail)?;
            let (bound, class) = bind(value, &lookup).map_err(fail)?;
            let kind = &self.columns[number].kind;
            if !class.fits(kind) {
                return Err(fail(format!("{value} is no {kind}")));
            }
            rules.generated.push((number, value.clone(), bound));
        }
        Ok(rules)
    }

    /// Checks the columns whose values the engine makes; an error as in [`Self::bind_rules`].
    fn check_made_columns(&self) -> Result<(), (String, String)> {
        let Constraints { generated, defaults, identities, .. } = &self.constraints;
        let made: Vec<&String> = generated
            .iter()
            .map(|(column, _)| column)
            .chain(defaults.iter().map(|(column, _)| column))
            .chain(identities.iter().map(|(column, _)| column))
            .collect();
        for (number, name) in made.iter().enumerate() {
            let fail = |reason: &str| Err(((*name).clone(), reason.to_owned()));
            if made[..number].contains(name) {
                return fail("the column gets its value in two ways");
            }
            let column = self.constraint_column(name).map_err(|reason| ((*name).clone(), reason))?;
            let is_key = self.indexes.first().is_some_and(|key| key.columns.contains(&column));
            if is_key && number < generated.len() {
                return fail("a column of the primary key is not generated: an index can have it");
            }
        }
        for (name, value) in generated {
            if let Some((other, _)) = generated.iter().find(|(other, _)| value.names(other)) {
                return Err((name.clone(), format!("it is computed of {other:?}, which is generated too")));
            }
        }
        for (name, value) in defaults {
            let kind = self.column(name).map(|number| &self.columns[number].kind);
            if let Some(kind) = kind
                && value.append(kind, &mut Vec::new()).is_err()
            {
                return Err((name.clone(), format!("the default {value} is no {kind} that fits")));
            }
        }
        for (name, sequence) in identities {
            let kind = self.column(name).map(|number| &self.columns[number].kind);
            if !kind.is_some_and(|kind| ValueClass::of(kind) == ValueClass::Integer) {
                return Err((name.clone(), "numbers of a sequence are integers".to_owned()));
            }
            if !(1..=SEQUENCE_BYTES_MAX).contains(&sequence.len()) {
                return Err((name.clone(), "the name of a sequence has 1 to 48 bytes".to_owned()));
            }
        }
        Ok(())
    }

    /// Checks the column with the moment of expiry.
    fn check_expiry(&self, name: &str) -> Result<(), String> {
        let column = self.constraint_column(name)?;
        let kind = &self.columns[column].kind;
        if *kind != ValueType::TimestampTz {
            return Err(format!("the moment of expiry is a timestamptz, and the column is {kind}"));
        }
        match self.expiry_index() {
            Some(_) => Ok(()),
            None => Err("no index begins with the moment of expiry, ascending: declare one".to_owned()),
        }
    }

    /// Returns the index whose first column is the moment at which a row expires, ascending, if
    /// rows of the table expire.
    pub fn expiry_index(&self) -> Option<usize> {
        let column = self.column(self.constraints.expires.as_ref()?)?;
        let first =
            |index: &IndexDescription| index.columns.first() == Some(&column) && !index.orders[0].descending;
        self.indexes.iter().position(first)
    }

    /// Returns the value that a column gets in a row that is inserted without it, if it has one.
    pub fn default_of(&self, column: usize) -> Option<Datum> {
        let described = &self.columns[column];
        let declared = self.constraints.defaults.iter().find(|(name, _)| *name == described.name);
        let value = declared.map(|(_, value)| value).or(described.default.as_ref()).cloned();
        value.or_else(|| described.nullable.then_some(Datum::Null))
    }

    /// Returns the first difference between the constraints of this table and those of `declared`.
    pub fn constraint_difference(&self, declared: &TableDescription) -> Option<Difference> {
        if self.constraints == declared.constraints {
            return None;
        }
        let (own, others) = (self.constraints.texts(), declared.constraints.texts());
        let number = (0..own.len().max(others.len())).find(|number| own.get(*number) != others.get(*number));
        let number = number.unwrap_or(0);
        let text = |of: &[(String, String)]| {
            of.get(number).map_or_else(|| "none".to_owned(), |(name, text)| format!("{name}: {text}"))
        };
        let part = format!("constraint {} (`Database::change_table` changes constraints)", number + 1);
        Some(Difference { part, found: text(&own), declared: text(&others) })
    }

    /// Computes the generated columns of a row again.
    pub(crate) fn regenerate(&self, fixed: Vec<u8>, tail: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        if self.constraints.generated.is_empty() {
            return Ok((fixed, tail));
        }
        let mut row = RowBytes { fixed, tail, keys: Vec::new() };
        self.complete(&self.rules(), &mut row).map_err(|error| match error {
            RuleError::Row(error) => error,
            RuleError::Violation(violation) => {
                RowError::Rule { table: self.name.clone(), violation: Box::new(violation) }
            }
        })?;
        Ok((row.fixed, row.tail))
    }

    /// Computes the generated columns of a row.
    ///
    /// # Errors
    /// One of them has no value, or none that fits.
    pub fn complete(&self, rules: &RowRules, row: &mut RowBytes) -> Result<(), RuleError> {
        if !rules.generates() {
            return Ok(());
        }
        let mut values = self.decode_row(&row.fixed, &row.tail)?;
        rules.generate(self, &mut values)?;
        Ok(self.encode_row(&values, row)?)
    }

    /// Checks that a row meets the rules that need no other row.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_rules(&self, fixed: &[u8], tail: &[u8]) -> Result<(), Violation> {
        if self.constraints.is_empty() { Ok(()) } else { self.rules().check(self, fixed, tail) }
    }
}

impl IndexDescription {
    /// Returns true if keys begin with these columns, in this order.
    pub(crate) fn begins_with(&self, columns: &[usize]) -> bool {
        self.columns.starts_with(columns)
    }
}
