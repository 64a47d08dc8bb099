//! Merges the tables of a directory with the tables that the opening program declares.
//!
//! A declared table must have the same rows as the directory's table of the same name, and may have
//! further columns that rows can do without; its indexes may be others. A table that is not in the
//! directory yet gets a new id. So does one whose rows have other columns from now on: the records
//! by its earlier id count, and their rows are [converted](Codecs::convert), until
//! a checkpoint has been made since. A table that the program does not declare is removed only if
//! the program says so: its description stays until a checkpoint has been made since, after which
//! no record of the table counts.

use boundary::SchemaError;
use boundary::directory::description::{Description, DirectoryTable, NOT_COUNTED};
use schema::table_limits::Difference;
use schema::{IndexDescription, TableDescription};

use super::codec::{Codecs, TableCodec};

/// The tables of an opening.
pub(crate) struct Tables {
    /// The description that the directory gets.
    pub description: Description,
    pub codecs: Codecs,
    /// The description that the directory had.
    found: Description,
}

impl Tables {
    /// Brings what the directory says together with what the program does. Records that count are
    /// of epochs after `copied`; those to come begin with epoch `first`.
    pub(crate) fn new(
        found: Description,
        declared: Vec<(TableDescription, TableCodec)>,
        dropped: &[String],
        copied: u64,
        first: u64,
    ) -> Result<Self, SchemaError> {
        let declares = |name: &str| declared.iter().any(|(table, _)| table.name() == name);
        if let Some(table) = dropped.iter().find(|name| declares(name)) {
            return Err(SchemaError::DeclaredAndDropped { table: table.clone() });
        }
        let mut description = Description { next_id: found.next_id, tables: Vec::new() };
        for table in &found.tables {
            match table.dropped {
                // A table that was dropped, or was to come or to go, when the database was open
                // last.
                Some(NOT_COUNTED) => {
                    description.tables.push(DirectoryTable { dropped: Some(first), ..table.clone() });
                }
                Some(epoch) if epoch <= copied => {}
                Some(_) => description.tables.push(table.clone()),
                None if declares(table.table.name()) => {}
                None if dropped.iter().any(|name| name == table.table.name()) => {
                    description.tables.push(DirectoryTable { dropped: Some(first), ..table.clone() });
                }
                None => return Err(SchemaError::Undeclared { table: table.table.name().to_owned() }),
            }
        }
        let mut codecs = Vec::new();
        for (table, mut codec) in declared {
            let before = found.present().find(|other| other.table.name() == table.name());
            before.map_or(Ok(()), |before| compare_constraints(&before.table, &table))?;
            codec.id = match before {
                Some(other) => match compare(&other.table, &table) {
                    Ok(()) => other.id,
                    Err(_) if other.table.is_extended_by(&table) => {
                        let id = description.new_id()?;
                        description.tables.push(DirectoryTable { dropped: Some(first), ..other.clone() });
                        let forms = description
                            .tables
                            .iter_mut()
                            .filter(|table| table.id == other.id || table.continued_by == Some(other.id));
                        forms.for_each(|table| table.continued_by = Some(id));
                        id
                    }
                    Err(difference) => return Err(difference),
                },
                None => description.new_id()?,
            };
            description.tables.push(DirectoryTable {
                id: codec.id,
                dropped: None,
                continued_by: None,
                table,
            });
            codecs.push(codec);
        }
        description.tables.sort_by_key(|table| table.id);
        // A table that went on may have been dropped since.
        let present: Vec<_> = description.present().map(|table| table.id).collect();
        for table in &mut description.tables {
            table.continued_by = table.continued_by.filter(|id| present.contains(id));
        }
        let earlier = description.tables.iter().filter(|table| table.dropped.is_some());
        let codecs = Codecs::new(codecs, earlier);
        Ok(Tables { description, codecs, found })
    }

    /// True if this table had this unique index, or primary key, which is called by the table's
    /// name, before.
    pub(crate) fn was_unique(&self, table: &str, index: &str) -> bool {
        let find = |description: &Description| {
            let found = description.present().find(|other| other.table.name() == table);
            found.map(|found| found.table.clone())
        };
        let (Some(before), Some(now)) = (find(&self.found), find(&self.description)) else { return false };
        let is_primary = now.indexes()[1..].iter().all(|other| other.name != index);
        is_primary || {
            // Nulls that conflict make an index unique for more rows.
            let is_as_strict = |before: &IndexDescription, now: &IndexDescription| {
                before.unique && (before.nulls_not_distinct || !now.nulls_not_distinct)
            };
            let mut own = now.indexes()[1..].iter().filter(|other| other.name == index && other.unique);
            own.any(|own| {
                let same = |columns: &[usize]| before.names(columns) == now.names(&own.columns);
                before.indexes()[1..].iter().any(|other| is_as_strict(other, own) && same(&other.columns))
            })
        }
    }
}

/// Tells the first difference between the rows of a table and those declared.
fn compare(found: &TableDescription, declared: &TableDescription) -> Result<(), SchemaError> {
    refuse(found.row_difference(declared), declared)
}

/// Tells the first difference between the constraints of a table and those declared. Rows that are
/// there may break a constraint that they did not have before.
fn compare_constraints(found: &TableDescription, declared: &TableDescription) -> Result<(), SchemaError> {
    refuse(found.constraint_difference(declared), declared)
}

fn refuse(difference: Option<Difference>, declared: &TableDescription) -> Result<(), SchemaError> {
    match difference {
        None => Ok(()),
        Some(Difference { part, found, declared: as_declared }) => {
            let table = declared.name().to_owned();
            Err(SchemaError::Rows { table, part, found, declared: as_declared })
        }
    }
}

#[cfg(test)]
mod tests {
    use boundary::directory::description::TABLE_IDS_MAX;

    use super::*;

    #[derive(schema::Row)]
    #[row(key(id))]
    struct Thing {
        id: u64,
    }

    fn tables(
        found: &Description,
        declared: &[&'static str],
        dropped: &[&str],
        copied: u64,
        first: u64,
    ) -> Result<Description, SchemaError> {
        let declared = declared.iter().map(|name| {
            let table = TableDescription::of::<Thing>(*name).expect("a table");
            let codec = TableCodec::of::<Thing>(&table);
            (table, codec)
        });
        let dropped: Vec<String> = dropped.iter().map(|name| (*name).to_owned()).collect();
        Tables::new(found.clone(), declared.collect(), &dropped, copied, first)
            .map(|tables| tables.description)
    }

    fn ids(description: &Description) -> Vec<(&str, u32, Option<u64>)> {
        description.tables.iter().map(|table| (table.table.name(), table.id, table.dropped)).collect()
    }

    #[test]
    fn ids_are_never_given_out_again() {
        let mut now = tables(&Description::default(), &["a", "b"], &["c"], 0, 4).expect("new");
        assert_eq!(ids(&now), [("a", 0, None), ("b", 1, None)]);
        now = tables(&now, &["c", "a"], &["b"], 0, 10).expect("dropped");
        assert_eq!(ids(&now), [("a", 0, None), ("b", 1, Some(10)), ("c", 2, None)]);
        now = tables(&now, &["b", "a"], &["c"], 9, 20).expect("one of the name");
        assert_eq!(ids(&now), [("a", 0, None), ("b", 1, Some(10)), ("c", 2, Some(20)), ("b", 3, None)]);
        // The checkpoint began when the first one was gone already.
        now = tables(&now, &[], &["a", "b"], 10, 30).expect("forgotten");
        assert_eq!(ids(&now), [("a", 0, Some(30)), ("c", 2, Some(20)), ("b", 3, Some(30))]);
        now = tables(&now, &[], &[], 31, 40).expect("none left");
        assert_eq!((ids(&now), now.next_id), (vec![], 4));
        assert_eq!(ids(&tables(&now, &["a"], &[], 31, 50).expect("new")), [("a", 4, None)]);
    }

    #[test]
    fn ids_come_to_an_end() {
        let last = Description { next_id: TABLE_IDS_MAX - 1, tables: Vec::new() };
        assert_eq!(tables(&last, &["a", "b"], &[], 0, 4), Err(SchemaError::TooManyTables));
        let now = tables(&last, &["a"], &[], 0, 4).expect("the last one");
        assert_eq!(Description::decode(&now.encode()), Ok(now));
    }
}
