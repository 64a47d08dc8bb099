//! Descriptions of tables that were read from a file, and their validation.

use terms::rows::FIXED_BYTES_MAX;

use crate::constraints::Constraints;
use crate::description::{ColumnDescription, IndexDescription, Place, TableDescription, TailForm};
use crate::key_order::KeyOrder;

/// A description of a table as read from a file, not validated.
#[derive(Clone, Debug)]
pub struct StoredTable {
    /// The table's name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<ColumnDescription>,
    /// The place of each column.
    pub places: Vec<Place>,
    /// The form of the variable part.
    pub tail: TailForm,
    /// The first byte of the null bits.
    pub nulls_at: usize,
    /// Bytes of the fixed part.
    pub row_bytes: usize,
    /// The primary key, and the other indexes.
    pub indexes: Vec<StoredIndex>,
}

/// A description of an index as read from a file.
#[derive(Clone, Debug)]
pub struct StoredIndex {
    /// The index's name.
    pub name: String,
    /// True if keys are unique.
    pub unique: bool,
    /// True if nulls conflict like values in a unique index.
    pub nulls_not_distinct: bool,
    /// Numbers of its columns.
    pub columns: Vec<usize>,
    /// The order of each column.
    pub orders: Vec<KeyOrder>,
}

impl TableDescription {
    /// Validates the description. `None` if rows cannot be read by it.
    pub fn from_stored(stored: StoredTable) -> Option<Self> {
        let StoredTable { name, columns, places, tail, nulls_at, row_bytes, indexes } = stored;
        let begins_within = |place: &Place| match place {
            Place::Fixed { offset, .. } => *offset <= row_bytes,
            Place::Tail(_) | Place::WholeTail => true,
        };
        if columns.len() != places.len() || !places.iter().all(begins_within) {
            return None;
        }
        let (none, constraints) = (Vec::new(), Constraints::default());
        let mut table =
            TableDescription { name, columns, places, tail, nulls_at, row_bytes, indexes: none, constraints };
        for StoredIndex { name, unique, nulls_not_distinct, columns, orders } in indexes {
            let sound = |column: &usize| match table.places.get(*column) {
                Some(Place::Fixed { .. }) => true,
                Some(Place::Tail(_)) => !table.columns[*column].added,
                _ => false,
            };
            if !columns.iter().all(sound) || columns.len() != orders.len() {
                return None;
            }
            let mut index =
                IndexDescription { name, unique, nulls_not_distinct, columns, orders, key_bits: 0 };
            index.key_bits = table.key_bits(&index);
            table.indexes.push(index);
        }
        table.is_sound().then_some(table)
    }

    fn is_sound(&self) -> bool {
        let within = |column| self.span(column).is_none_or(|(_, end)| end <= self.row_bytes);
        let known = |columns: &[usize]| columns.iter().all(|column| *column < self.columns.len());
        let whole = self.places.iter().filter(|place| **place == Place::WholeTail).count();
        let last = self.places.last() == Some(&Place::WholeTail);
        let columns_are_sound = self
            .columns
            .iter()
            .all(|column| column.kind.is_sound() && (!column.added || column.is_optional()));
        let has_fixed_only = self.places.iter().all(|place| matches!(place, Place::Fixed { .. }));
        self.row_bytes <= FIXED_BYTES_MAX
            && self.row_bytes.is_multiple_of(8)
            && columns_are_sound
            && (0..self.columns.len()).all(within)
            && self.nulls_at.saturating_add(self.null_bytes()) <= self.row_bytes
            && (whole == usize::from(self.tail == TailForm::Whole) && (whole == 0 || last))
            && (self.tail != TailForm::None || has_fixed_only)
            && self.indexes.first().is_some_and(|key| !key.columns.is_empty())
            && self.indexes.iter().all(|index| known(&index.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ValueType;

    /// Describes a table with two columns, a primary key on the first, and an index on the second.
    fn stored() -> StoredTable {
        let index = |name: &str, unique, columns: Vec<usize>| StoredIndex {
            name: name.to_owned(),
            unique,
            nulls_not_distinct: false,
            orders: vec![KeyOrder::ASCENDING; columns.len()],
            columns,
        };
        StoredTable {
            name: "t".to_owned(),
            columns: ["a", "b"].map(|name| ColumnDescription::new(name, ValueType::Unsigned(4))).into(),
            places: [0, 4].map(|offset| Place::Fixed { offset, null: None }).into(),
            tail: TailForm::None,
            nulls_at: 8,
            row_bytes: 8,
            indexes: vec![index("primary", true, vec![0]), index("by_b", false, vec![1])],
        }
    }

    #[test]
    fn valid_descriptions_are_accepted() {
        let table = TableDescription::from_stored(stored()).expect("sound");
        assert_eq!((table.row_bytes(), table.indexes().len()), (8, 2));
    }

    #[test]
    fn inconsistent_descriptions_are_refused() {
        let refused = |change: &dyn Fn(&mut StoredTable)| {
            let mut unsound = stored();
            change(&mut unsound);
            TableDescription::from_stored(unsound).is_none()
        };
        let place = |offset| Place::Fixed { offset, null: None };
        assert!(refused(&|it| it.indexes.clear()));
        assert!(refused(&|it| it.indexes[0].columns.clear()));
        assert!(refused(&|it| it.indexes[0].columns[0] = 2));
        assert!(refused(&|it| it.indexes[1].columns.push(9)));
        assert!(refused(&|it| it.indexes[1].orders.clear()));
        assert!(refused(&|it| it.places[1] = place(5)));
        assert!(refused(&|it| it.places[1] = place(usize::MAX - 4)));
        assert!(refused(&|it| it.places[1] = Place::Tail(0)), "without a tail");
        assert!(refused(&|it| it.places[0] = Place::WholeTail), "a whole tail is last");
        assert!(refused(&|it| it.places.truncate(1)));
        assert!(refused(&|it| it.row_bytes = 12));
        assert!(refused(&|it| it.row_bytes = 8 << 40));
        assert!(refused(&|it| it.nulls_at = usize::MAX), "null bits are in the row");
    }
}
