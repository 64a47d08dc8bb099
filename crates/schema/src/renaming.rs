//! Descriptions of tables with other names of tables and columns.

use crate::constraints::ForeignKey;
use crate::description::{TableDescription, check_columns};
use crate::expression::Expression;
use crate::table_limits::{TableError, TableFault};

impl TableDescription {
    /// Returns the table under another name. References of its rows to rows of the same table stay
    /// such.
    ///
    /// # Errors
    /// A table cannot have this name.
    pub fn renamed(&self, name: impl Into<String>) -> Result<TableDescription, TableError> {
        let name = name.into();
        let mut table = self.referring_to(&self.name, &name);
        table.name = name;
        table.checked()
    }

    /// Returns the table with references to table `to` in place of those to table `from`.
    #[must_use]
    pub fn referring_to(&self, from: &str, to: &str) -> TableDescription {
        let mut table = self.clone();
        for key in table.constraints.foreign_keys.iter_mut().filter(|key| key.table == from) {
            to.clone_into(&mut key.table);
        }
        table
    }

    /// Returns the table with another name of a column, also in its constraints.
    ///
    /// # Errors
    /// There is no such column, or a column cannot have this name.
    pub fn with_renamed_column(&self, from: &str, to: &str) -> Result<TableDescription, TableError> {
        let mut table = self.clone();
        let column = table.columns.iter_mut().find(|column| column.name == from);
        let Some(column) = column else {
            let fault = TableFault::Name { name: from.to_owned() };
            return Err(TableError { table: table.name, fault });
        };
        to.clone_into(&mut column.name);
        let rename = |name: &mut String| {
            if name == from {
                to.clone_into(name);
            }
        };
        let own = &mut table.constraints;
        own.not_null.iter_mut().for_each(|(_, column)| rename(column));
        own.checks.iter_mut().for_each(|check| rename_in(&mut check.condition, &rename));
        own.defaults.iter_mut().for_each(|(column, _)| rename(column));
        own.identities.iter_mut().for_each(|(column, _)| rename(column));
        own.expires.iter_mut().for_each(rename);
        for (column, value) in &mut own.generated {
            rename(column);
            rename_in(value, &rename);
        }
        for ForeignKey { columns, table: parent, references, .. } in &mut own.foreign_keys {
            columns.iter_mut().for_each(rename);
            if *parent == table.name {
                references.iter_mut().for_each(rename);
            }
        }
        table.checked()
    }

    /// Returns the table with references to this column of another table under its new name.
    #[must_use]
    pub fn referring_to_column(&self, parent: &str, from: &str, to: &str) -> TableDescription {
        let mut table = self.clone();
        let keys = table.constraints.foreign_keys.iter_mut().filter(|key| key.table == parent);
        for column in keys.flat_map(|key| &mut key.references).filter(|column| *column == from) {
            to.clone_into(column);
        }
        table
    }

    fn checked(self) -> Result<TableDescription, TableError> {
        let checked = check_columns(&self.name, &self.columns).and_then(|()| self.check_constraints());
        match checked {
            Ok(()) => Ok(self),
            Err(fault) => Err(TableError { table: self.name, fault }),
        }
    }
}

fn rename_in(expression: &mut Expression, rename: &impl Fn(&mut String)) {
    if let Expression::Column(name) = expression {
        rename(name);
    }
    expression.parts_mut().into_iter().for_each(|part| rename_in(part, rename));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnDescription, Constraints, TableBuilder, ValueType};

    #[test]
    fn constraints_follow_the_names() {
        let column = |name: &str| ColumnDescription::new(name, ValueType::Signed(4));
        let named = |table: &str, amount: &str| {
            let constraints = Constraints::new()
                .check("c", Expression::column(amount).more(0).and(!Expression::column("id").is_null()))
                .default_value(amount, 1)
                .generated("twice", Expression::column(amount) * 2)
                .foreign_key(ForeignKey::new("f", [amount], table, [amount]));
            TableBuilder::new(table)
                .column(column("id"))
                .column(column(amount))
                .column(column("twice"))
                .key(["id"])
                .unique_index("by_amount", [amount])
                .constraints(constraints)
                .build()
                .expect("a table")
        };
        let table = named("t", "amount");
        assert_eq!(table.with_renamed_column("amount", "sum"), Ok(named("t", "sum")));
        assert_eq!(table.renamed("u"), Ok(named("u", "amount")));
        assert_eq!(table.referring_to("other", "third"), table);
        let other = table.referring_to("t", "p").referring_to_column("p", "amount", "sum");
        assert_eq!(other.constraints().foreign_keys[0].references, ["sum"]);
        let expiring = |ends: &str| {
            TableBuilder::new("t")
                .column(column("id"))
                .column(ColumnDescription::new(ends, ValueType::TimestampTz))
                .key(["id"])
                .index("by_end", [ends])
                .constraints(Constraints::new().expires(ends))
                .build()
                .expect("a table")
        };
        assert_eq!(expiring("ends").with_renamed_column("ends", "until"), Ok(expiring("until")));
        assert!(table.with_renamed_column("none", "x").is_err());
        assert!(table.with_renamed_column("amount", "id").is_err());
        assert!(table.renamed("").is_err());
    }
}
