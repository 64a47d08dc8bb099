//! Keys of described tables: their checks, their lengths, and the bytes of rows that belong to
//! them.

use terms::rows::KeyBytes;

use crate::datum::{Datum, format_value};
use crate::description::{
    ColumnDescription, DeclaredIndex, IndexDescription, Place, TableDescription, is_name,
};
use crate::key::{KEY_BYTES_MAX, SHORT_KEY_BITS, VARIABLE_BITS};
use crate::key_order::{KeyOrder, NULL_BITS};
use crate::long_key::AnyKey;
use crate::row_error::RowError;
use crate::table_limits::{INDEXES_MAX, KEY_COLUMNS_MAX, KeyFault, ROW_BYTES_MAX, TableFault};

impl IndexDescription {
    /// Returns true if all columns have the default order, and nulls conflict as by default.
    pub fn is_plain(&self) -> bool {
        !self.nulls_not_distinct && self.orders.iter().all(|order| *order == Default::default())
    }
}

impl TableDescription {
    /// Looks up the columns of an index and completes its key.
    pub(crate) fn add_index(&mut self, declared: &DeclaredIndex) -> Result<(), TableFault> {
        let fault = |column: &str, fault| {
            Err(TableFault::Key { index: declared.name.clone(), column: column.to_owned(), fault })
        };
        let is_primary = self.indexes.is_empty();
        let (mut columns, mut orders) = (Vec::new(), Vec::new());
        for declared in &declared.columns {
            let name = &declared.name;
            let Some(number) = self.column(name) else {
                return fault(name, KeyFault::Unknown { known: self.column_names() });
            };
            let column = &self.columns[number];
            match self.places[number] {
                _ if columns.contains(&number) => return fault(name, KeyFault::Twice),
                Place::WholeTail => return fault(name, KeyFault::WholeTail),
                _ if column.added => return fault(name, KeyFault::Added),
                _ if column.nullable && is_primary => return fault(name, KeyFault::Nullable),
                _ if !column.kind.is_key() && !column.kind.is_variable_key() => {
                    return fault(name, KeyFault::Type { kind: column.kind.to_string() });
                }
                _ => columns.push(number),
            }
            let nulls_first =
                if column.nullable { declared.order.nulls_first } else { declared.order.descending };
            orders.push(KeyOrder { nulls_first, ..declared.order });
        }
        if columns.is_empty() {
            return Err(TableFault::EmptyKey { index: declared.name.clone() });
        }
        if let Some(primary) = self.indexes.first().filter(|_| !declared.unique) {
            for (column, order) in primary.columns.iter().zip(&primary.orders) {
                if !columns.contains(column) {
                    columns.push(*column);
                    orders.push(*order);
                }
            }
        }
        let mut index = IndexDescription {
            name: declared.name.clone(),
            unique: declared.unique,
            nulls_not_distinct: declared.nulls_not_distinct,
            columns,
            orders,
            key_bits: 0,
        };
        index.key_bits = self.key_bits(&index);
        self.indexes.push(index);
        Ok(())
    }

    /// Returns the length of the normalized keys of an index.
    pub(crate) fn key_bits(&self, index: &IndexDescription) -> u32 {
        // A column of variable length has at least the byte at its end.
        let bits = |column: &usize| {
            let column = &self.columns[*column];
            let null = if column.nullable { NULL_BITS } else { 0 };
            8 * column.kind.bytes().unwrap_or(1) as u32 + null
        };
        let own = index.columns.iter().map(bits).fold(0, u32::saturating_add);
        let own = if self.is_variable(index) { own.max(VARIABLE_BITS) } else { own };
        match self.indexes.first().filter(|_| self.has_distinct_nulls(index)) {
            // The longest key is what is possible anyway.
            Some(_) if self.is_variable(index) => own,
            Some(primary) => own.saturating_add(primary.key_bits),
            None => own,
        }
    }

    /// Returns true if keys of the index have several lengths.
    pub fn is_variable(&self, index: &IndexDescription) -> bool {
        index.columns.iter().any(|column| self.columns[*column].kind.is_variable_key())
    }

    /// Returns the normalized form of the first columns of index number `index`, which all keys
    /// begin with that have these values there.
    ///
    /// # Errors
    /// The first value that does not fit, or too many values.
    pub fn encode_key_prefix(&self, index: usize, values: &[Datum]) -> Result<AnyKey, RowError> {
        let IndexDescription { columns, key_bits, .. } = &self.indexes[index];
        let Some(first) = columns.get(..values.len()) else {
            let (table, values, columns) = (self.name.clone(), values.len(), columns.len());
            return Err(RowError::Count { table, values, columns });
        };
        let (fixed, tail) = self.row_of(first, values)?;
        let mut key = AnyKey::new(*key_bits);
        self.append_columns(index, values.len(), (&fixed, &tail), &mut key);
        Ok(key)
    }

    /// Returns the columns of the tail that belong to keys, by their numbers there.
    pub fn key_tail_columns(&self) -> Vec<usize> {
        let place = |column: &usize| match self.places[*column] {
            Place::Tail(number) => Some(number),
            _ => None,
        };
        let mut numbers: Vec<_> =
            self.indexes.iter().flat_map(|index| &index.columns).filter_map(place).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns true if the keys of an index have the primary key behind its columns, where one of
    /// these is null: the index is unique, and nulls are distinct.
    pub(crate) fn has_distinct_nulls(&self, index: &IndexDescription) -> bool {
        let is_nullable = |column: &usize| self.columns[*column].nullable;
        index.unique && !index.nulls_not_distinct && index.columns.iter().any(is_nullable)
    }

    /// Returns true if the parts are consistent.
    pub(crate) fn check(&self) -> Result<(), TableFault> {
        if self.row_bytes > ROW_BYTES_MAX {
            return Err(TableFault::RowTooLong { bytes: self.row_bytes });
        }
        if self.indexes.len() > INDEXES_MAX {
            return Err(TableFault::TooManyIndexes { indexes: self.indexes.len() });
        }
        for (number, index) in self.indexes.iter().enumerate() {
            let name = &index.name;
            if !is_name(name) {
                return Err(TableFault::Name { name: name.clone() });
            }
            if self.indexes.iter().take(number).skip(1).any(|other| other.name == *name) {
                return Err(TableFault::DuplicateIndex { index: name.clone() });
            }
            if index.columns.len() > KEY_COLUMNS_MAX {
                let (index, columns) = (name.clone(), index.columns.len());
                return Err(TableFault::TooManyKeyColumns { index, columns });
            }
            let bytes = index.key_bits.div_ceil(8) as usize;
            if bytes > KEY_BYTES_MAX {
                return Err(TableFault::KeyTooLong { index: name.clone(), bytes });
            }
            if bytes == 0 {
                return Err(TableFault::EmptyKey { index: name.clone() });
            }
        }
        Ok(())
    }

    /// Formats the values of these columns of a row.
    pub fn format_columns(&self, columns: &[usize], fixed: &[u8], tail: &[u8]) -> String {
        let value = |column: &usize| {
            let ColumnDescription { name, kind, .. } = &self.columns[*column];
            match self.span(*column) {
                Some((start, end)) if !self.is_null(*column, fixed) => {
                    format!("{name}={}", format_value(kind, &fixed[start..end]))
                }
                Some(_) => format!("{name}=null"),
                None => match self.decode_column(*column, fixed, tail) {
                    Ok(value) => format!("{name}={value}"),
                    Err(_) => name.clone(),
                },
            }
        };
        columns.iter().map(value).collect::<Vec<_>>().join(" ")
    }

    /// Returns the columns of an index with their orders: `town, age desc`.
    pub fn format_key(&self, index: usize) -> String {
        let IndexDescription { columns, orders, .. } = &self.indexes[index];
        let column =
            |(column, order): (&usize, &KeyOrder)| self.columns[*column].name.clone() + order.suffix();
        columns.iter().zip(orders).map(column).collect::<Vec<_>>().join(", ")
    }

    /// Returns an index as text: `unique by_email (email) nulls not distinct`.
    pub fn format_index(&self, index: usize) -> String {
        let IndexDescription { name, unique, nulls_not_distinct, .. } = &self.indexes[index];
        let unique = if *unique { "unique " } else { "" };
        let nulls = if *nulls_not_distinct { " nulls not distinct" } else { "" };
        format!("{unique}{name} ({}){nulls}", self.format_key(index))
    }

    /// Returns true if a key has a form that programs before these orders do not know.
    pub fn has_ordered_keys(&self) -> bool {
        let is_later = |column: &usize| {
            let column = &self.columns[*column];
            column.nullable || !column.kind.is_early_key()
        };
        let is_later_index = |index: &IndexDescription| {
            !index.is_plain() || index.key_bits > SHORT_KEY_BITS || index.columns.iter().any(is_later)
        };
        self.indexes.iter().any(is_later_index)
    }

    /// Returns the bytes of the fixed part that belong to keys.
    pub fn key_bytes(&self) -> Vec<KeyBytes> {
        let is_key = |column: &usize| self.indexes.iter().any(|index| index.columns.contains(column));
        let columns = (0..self.columns.len()).filter(is_key);
        let bytes = columns.flat_map(|column| {
            let values = self.span(column).map(|(from, to)| KeyBytes { from, to, mask: u8::MAX });
            let null = match self.places[column] {
                Place::Fixed { null: Some(bit), .. } => {
                    let from = self.nulls_at + bit / 8;
                    Some(KeyBytes { from, to: from + 1, mask: 1 << (bit % 8) })
                }
                _ => None,
            };
            values.into_iter().chain(null)
        });
        bytes.collect()
    }
}
