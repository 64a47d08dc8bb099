//! Constraints of the tables of a deployment: those that an instance can keep by itself.

use schema::{ForeignKey, TableDescription};

use crate::error::{Error, Result};
use crate::plans::{Plans, TableForm};
use terms::Faults;

/// Checks that each instance can keep the constraints of its rows. `is_copied` says which tables
/// all instances have.
pub(super) fn check_constraints(
    tables: &[&TableDescription],
    is_copied: impl Fn(usize) -> bool,
) -> Result<()> {
    let forms: Vec<_> = tables.iter().copied().enumerate().map(TableForm::of).collect();
    Plans::of(&forms, Faults::NONE)?;
    for table in tables {
        let refuse = |name: &str, reason: String| {
            let reason = format!("constraint {name:?}: {reason}");
            Err(Error::Declaration { table: table.name().to_owned(), reason })
        };
        if let Some((column, _)) = table.constraints().identities.first() {
            return refuse(column, "an instance of a deployment has no sequences".to_owned());
        }
        if let Some(column) = &table.constraints().expires {
            return refuse(column, "rows of a deployment do not expire by themselves".to_owned());
        }
        for key in &table.constraints().foreign_keys {
            let parent = tables.iter().position(|parent| parent.name() == key.table);
            if let Some(reason) =
                parent.and_then(|parent| obstacle(table, key, tables[parent], is_copied(parent)))
            {
                return refuse(&key.name, reason);
            }
        }
    }
    Ok(())
}

/// Returns the reason why an instance cannot keep a foreign key by itself.
fn obstacle(
    child: &TableDescription,
    key: &ForeignKey,
    parent: &TableDescription,
    is_copied: bool,
) -> Option<String> {
    if is_copied {
        return Some(format!("each opening gives table {:?} its rows anew", parent.name()));
    }
    if key.deferred {
        return Some("the instances of a transaction commit one after the other: do not defer it".to_owned());
    }
    let part = |table: &TableDescription| table.columns()[table.indexes()[0].columns[0]].name.clone();
    let is_of_parts =
        key.columns.first() == Some(&part(child)) && key.references.first() == Some(&part(parent));
    (!is_of_parts).then(|| {
        format!(
            "rows of several instances could refer to each other: begin its columns with {:?}, which refers to {:?}",
            part(child),
            part(parent)
        )
    })
}
