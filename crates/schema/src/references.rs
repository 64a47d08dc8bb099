//! References from rows of one table to rows of another: their validation against both
//! descriptions, and the keys by which referenced and referring rows are found.

use crate::constraints::{ForeignAction, ForeignKey};
use crate::datum::Datum;
use crate::description::{IndexDescription, Place, TableDescription};
use crate::key::key_words;
use crate::long_key::AnyKey;
use crate::row_error::RowError;
use crate::table_limits::KEY_COLUMNS_MAX;

/// A foreign key whose columns and indexes have numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundForeignKey {
    /// The columns that refer to a row.
    pub columns: Vec<usize>,
    /// The index by which rows are found that refer to a row.
    pub index: usize,
    /// The referenced columns, in the same order.
    pub referenced_columns: Vec<usize>,
    /// The index by which the referenced row is found.
    pub referenced_index: usize,
    /// The place among the columns of each column of that index.
    order: Vec<usize>,
}

impl TableDescription {
    fn find_columns(&self, names: &[String]) -> Result<Vec<usize>, String> {
        let find = |name: &String| {
            let missing =
                || format!("table {:?} has no column {name:?}, but {}", self.name, self.column_names());
            self.column(name).ok_or_else(missing)
        };
        names.iter().map(find).collect()
    }

    /// Checks a foreign key of this table, as far as the other table does not matter.
    pub(crate) fn check_foreign_key(&self, key: &ForeignKey) -> Result<(), String> {
        let columns = self.find_columns(&key.columns)?;
        if columns.is_empty() || columns.len() > KEY_COLUMNS_MAX || columns.len() != key.references.len() {
            return Err(format!(
                "{} columns refer to {}: name as many columns of the other table, 1 to {KEY_COLUMNS_MAX}",
                columns.len(),
                key.references.len()
            ));
        }
        if let Some(twice) = (1..columns.len()).find(|number| columns[..*number].contains(&columns[*number]))
        {
            return Err(format!("column {:?} is there twice", key.columns[twice]));
        }
        self.referring_index(&columns)?;
        for (name, column) in key.columns.iter().zip(&columns) {
            if self.constraints.generated.iter().any(|(generated, _)| generated == name) {
                return Err(format!("column {name:?} is generated, and cannot refer to a row"));
            }
            let demands_value = self.constraints.not_null.iter().any(|(_, other)| other == name);
            let sets_null = [key.on_delete, key.on_update].contains(&ForeignAction::SetNull);
            if sets_null && (demands_value || !self.columns[*column].nullable) {
                return Err(format!("column {name:?} cannot become null: it is not nullable"));
            }
        }
        Ok(())
    }

    /// Returns the index by which rows are found that refer with these columns.
    fn referring_index(&self, columns: &[usize]) -> Result<usize, String> {
        let found = self.indexes.iter().position(|index: &IndexDescription| index.begins_with(columns));
        found.ok_or_else(|| {
            format!(
                "no index begins with ({}), by which referring rows are found: add one",
                self.names(columns)
            )
        })
    }

    /// Looks up the columns and indexes of a foreign key of this table, which refers to `parent`.
    ///
    /// # Errors
    /// The reason why the tables cannot keep it.
    pub fn bind_foreign_key(
        &self,
        key: &ForeignKey,
        parent: &TableDescription,
    ) -> Result<BoundForeignKey, String> {
        let columns = self.find_columns(&key.columns)?;
        let referenced_columns = parent.find_columns(&key.references)?;
        let index = self.referring_index(&columns)?;
        let is_key = |index: &IndexDescription| {
            index.columns.len() == referenced_columns.len()
                && referenced_columns.iter().all(|column| index.columns.contains(column))
        };
        let unique = parent.indexes.iter().enumerate().find(|(_, index)| index.unique && is_key(index));
        let Some((referenced_index, unique)) = unique else {
            return Err(format!(
                "({}) is neither the primary key nor a unique index of table {:?}",
                parent.names(&referenced_columns),
                parent.name
            ));
        };
        for (own, other) in columns.iter().zip(&referenced_columns) {
            let (own, other) = (&self.columns[*own], &parent.columns[*other]);
            if !own.kind.is_stored_like(&other.kind) {
                return Err(format!(
                    "column {:?} is {}, and column {:?} of table {:?} is {}",
                    own.name, own.kind, other.name, parent.name, other.kind
                ));
            }
        }
        let place = |column: &usize| referenced_columns.iter().position(|other| other == column);
        let order = unique.columns.iter().filter_map(place).collect();
        Ok(BoundForeignKey { columns, index, referenced_columns, referenced_index, order })
    }

    /// Returns the least and the greatest key, as words, of index number `index` whose rows have
    /// these values in the first columns; `None` if no row has.
    ///
    /// # Errors
    /// A value that is none of its column.
    pub fn prefix_range(&self, index: usize, values: &[Datum]) -> Result<Option<[Vec<u64>; 2]>, RowError> {
        let columns = self.indexes[index].columns.get(..values.len()).unwrap_or_default();
        let (fixed, tail) = self.row_of(columns, values)?;
        let mut key = AnyKey::new(self.indexes[index].key_bits);
        self.append_columns(index, columns.len(), (&fixed, &tail), &mut key);
        if key.is_too_long() {
            return Ok(None);
        }
        let words = key_words(self.indexes[index].key_bits);
        let low = key.words(words).to_vec();
        let mut high = Vec::with_capacity(words);
        key.append_words(words, &mut high);
        for (word, number) in high.iter_mut().zip(0_u32..) {
            *word |= match key.bits().saturating_sub(number * u64::BITS) {
                0 => u64::MAX,
                bits @ 1..64 => u64::MAX >> bits,
                _ => 0,
            };
        }
        Ok(Some([low, high]))
    }

    /// Returns true if one of these columns has no value in a row.
    pub fn has_null(&self, columns: &[usize], fixed: &[u8], tail: &[u8]) -> bool {
        let is_null = |column: &usize| match self.places[*column] {
            Place::Fixed { null: None, .. } => false,
            _ => self.decode_column(*column, fixed, tail) == Ok(Datum::Null),
        };
        columns.iter().any(is_null)
    }
}

impl BoundForeignKey {
    /// Returns the values of the referenced columns in the order of their index.
    pub fn in_order(&self, values: &[Datum]) -> Vec<Datum> {
        self.order.iter().map(|place| values[*place].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::description::{ColumnDescription, TableBuilder};
    use crate::key_order::{KeyColumn, KeyOrder};
    use crate::row_format::RowBytes;
    use crate::value_type::ValueType;

    /// Indexes on a nullable number and a text, in both orders of keys.
    fn table() -> TableDescription {
        let column = ColumnDescription::new;
        let descending = |name: &str| KeyColumn {
            name: name.to_owned(),
            order: KeyOrder { descending: true, nulls_first: true },
        };
        TableBuilder::new("t")
            .column(column("id", ValueType::Unsigned(2)))
            .column(column("n", ValueType::Signed(4)).nullable())
            .column(column("s", ValueType::String))
            .key(["id"])
            .index("ascending", ["n", "s"])
            .index("descending", [descending("n"), descending("s")])
            .build()
            .expect("a table")
    }

    fn values() -> impl Strategy<Value = (u16, Option<i32>, String)> {
        (any::<u16>(), prop_oneof![Just(None), (-2..3).prop_map(Some)], "[\\x00-\\x02a]{0,3}")
    }

    proptest! {
        /// A row is in the range of a prefix if its columns have these values, and only then.
        #[test]
        fn a_prefix_is_the_range_of_its_rows(row in values(), other in values()) {
            let table = table();
            let datum = |(id, n, s): &(u16, Option<i32>, String)| {
                let n = n.map_or(Datum::Null, |n| Datum::Signed(n.into()));
                [Datum::Unsigned((*id).into()), n, Datum::Text(s.clone())]
            };
            let (row, other) = (datum(&row), datum(&other));
            let mut bytes = RowBytes::default();
            table.encode_row(&row, &mut bytes).expect("a row");
            for index in [1, 2] {
                let words = key_words(table.indexes()[index].key_bits);
                let key = bytes.keys[index].words(words);
                for count in [1, 2] {
                    let range = table.prefix_range(index, &other[1..=count]).expect("values");
                    let [low, high] = range.expect("a short key");
                    let within = low.as_slice() <= key && key <= high.as_slice();
                    prop_assert_eq!(within, row[1..=count] == other[1..=count], "index {}", index);
                }
            }
        }
    }
}
