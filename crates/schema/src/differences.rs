//! Differences between two descriptions of a table, and the conditions under which rows of one can
//! become rows of the other.

use crate::description::{ColumnDescription, IndexDescription, Place, TableDescription, TailForm};
use crate::key_order::KeyOrder;
use crate::row::Row;
use crate::table_limits::Difference;
use crate::value_type::ValueType;

impl TableDescription {
    /// Returns the first difference between the rows of this table and the rows of `declared`.
    pub fn row_difference(&self, declared: &TableDescription) -> Option<Difference> {
        let format = |table: &TableDescription, number: usize| {
            // Types that are stored alike are no difference.
            let kind = declared.columns.get(number).map(|column| &column.kind);
            table.format_column(number, kind).unwrap_or_else(|| match table.columns.get(number) {
                Some(_) => "the rest of the row".to_owned(),
                None => "not there".to_owned(),
            })
        };
        let numbers = 0..self.columns.len().max(declared.columns.len());
        let columns = numbers
            .map(|number| (format!("column {}", number + 1), format(self, number), format(declared, number)));
        let tail = |table: &TableDescription| {
            match table.tail {
                TailForm::None => "not there",
                TailForm::Whole => "there",
                TailForm::Directory => "of columns",
            }
            .to_owned()
        };
        let key = |table: &TableDescription| format!("({})", table.format_key(0));
        let bytes = |table: &TableDescription| format!("{} bytes", table.row_bytes);
        let others = [
            ("the part of variable length".to_owned(), tail(self), tail(declared)),
            ("the primary key".to_owned(), key(self), key(declared)),
            ("the length of a row".to_owned(), bytes(self), bytes(declared)),
        ];
        let mut all = columns.chain(others);
        all.find(|(_, found, declared)| found != declared).map(|(part, found, declared)| Difference {
            part,
            found,
            declared,
        })
    }

    /// Describes a column, whose type is `alike` if both are stored alike; `None` for a tail that
    /// is one column's value, because not every directory stores its name.
    fn format_column(&self, number: usize, alike: Option<&ValueType>) -> Option<String> {
        let column = self.columns.get(number)?;
        let kind = alike.filter(|kind| column.kind.is_stored_like(kind)).unwrap_or(&column.kind);
        let place = match self.places[number] {
            Place::Fixed { offset, .. } => format!(" at byte {offset}"),
            Place::Tail(_) => " in the tail".to_owned(),
            Place::WholeTail => return None,
        };
        let null = if column.nullable { " or null" } else { "" };
        // Rows written without the column have the default.
        let absent = if column.added { format!(", else {}", column.absent_value()) } else { String::new() };
        Some(format!("{}: {kind}{null}{place}{absent}", column.name))
    }

    /// Returns true if each row of this table is also a row of `to`, except for optional columns
    /// and the places of columns.
    pub fn is_extended_by(&self, to: &TableDescription) -> bool {
        let mut kept = 0;
        let fits = to.columns.iter().enumerate().all(|(number, column)| match self.counterpart(to, number) {
            None => column.is_optional(),
            Some(own) => {
                let own = &self.columns[own];
                kept += 1;
                own.kind.is_stored_like(&column.kind) && (column.nullable || !own.nullable)
            }
        });
        let key = |table: &TableDescription| table.format_key(0);
        fits && kept == self.columns.len() && key(self) == key(to)
    }

    /// Returns the column of this table that corresponds to column `number` of `to`.
    pub fn counterpart(&self, to: &TableDescription, number: usize) -> Option<usize> {
        // Not every directory stores the name of a tail that is one column's value.
        if self.tail == TailForm::Whole && to.places[number] == Place::WholeTail {
            return Some(self.columns.len() - 1);
        }
        self.column(&to.columns[number].name)
    }

    /// Returns the first difference between this table and rows of type `R`. Room for further
    /// columns in the table is no difference.
    pub fn difference_to<R: Row>(&self) -> Option<Difference> {
        let declared = match TableDescription::of::<R>(self.name.clone()) {
            Ok(declared) => declared,
            Err(error) => {
                let (part, found) = ("the row type".to_owned(), "a table".to_owned());
                return Some(Difference { part, found, declared: error.fault.to_string() });
            }
        };
        let mut own = self.clone();
        if self.tail == TailForm::Directory && !R::HAS_TAIL {
            // Columns in the tail are a difference; an empty directory is not.
            own.tail = TailForm::None;
        }
        own.difference_from(&declared)
    }

    /// Returns the first difference between this table and a declared one, in rows or indexes.
    pub fn difference_from(&self, declared: &TableDescription) -> Option<Difference> {
        self.row_difference(declared).or_else(|| self.index_difference(declared))
    }

    fn index_difference(&self, declared: &TableDescription) -> Option<Difference> {
        let format = |table: &TableDescription, number: usize| match table.indexes.get(number) {
            None => "none".to_owned(),
            Some(_) => table.format_index(number),
        };
        let differ = |number: &usize| format(self, *number) != format(declared, *number);
        let number = (0..self.indexes.len().max(declared.indexes.len())).find(differ)?;
        let (found, declared) = (format(self, number), format(declared, number));
        Some(Difference { part: format!("index {number}"), found, declared })
    }

    /// Returns the reason why rows of this table cannot be converted to rows of `to`, if there is
    /// one. `has_template`: new columns have values.
    pub fn obstacle(&self, to: &TableDescription, has_template: bool) -> Option<String> {
        let key = |table: &TableDescription| {
            let IndexDescription { columns, orders, .. } = &table.indexes[0];
            let columns = columns.iter().map(|column| &table.columns[*column]).zip(orders);
            let format = |(column, order): (&ColumnDescription, &KeyOrder)| {
                format!("{} {}{}", column.name, column.kind, order.suffix())
            };
            columns.map(format).collect::<Vec<_>>().join(", ")
        };
        if key(self) != key(to) {
            return Some(format!("the primary key ({}) stays as it is", key(self)));
        }
        self.row_obstacle(to, has_template)
    }

    /// As [`Self::obstacle`], where the rows of `to` may have another primary key.
    pub fn row_obstacle(&self, to: &TableDescription, has_template: bool) -> Option<String> {
        to.columns.iter().enumerate().find_map(|(number, column)| match self.counterpart(to, number) {
            None if column.is_optional() || has_template => None,
            None => Some(format!(
                "column {:?} is new, and rows that are there have no value for it: give one",
                column.name
            )),
            Some(own) => {
                let own = &self.columns[own];
                if !own.kind.casts_to(&column.kind) {
                    return Some(format!(
                        "column {:?} is {}, and cannot be {}",
                        own.name, own.kind, column.kind
                    ));
                }
                let lacks = own.nullable && !column.nullable;
                lacks.then(|| format!("column {:?} may be without a value in rows that are there", own.name))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::TableBuilder;
    use crate::table::Table;

    fn column(name: &str, kind: ValueType) -> ColumnDescription {
        ColumnDescription::new(name, kind)
    }

    /// Builds a table with a key and a column of this type.
    fn with(kind: ValueType) -> TableBuilder {
        TableBuilder::new("t")
            .column(column("id", ValueType::Unsigned(8)))
            .column(column("c", kind))
            .key(["id"])
    }

    #[derive(row_derive::Row)]
    #[row(key(id), index(by_c(c)), crate = crate)]
    #[allow(dead_code)]
    struct Typed {
        id: u64,
        c: u32,
    }

    #[derive(row_derive::Row)]
    #[row(key(id), crate = crate)]
    #[allow(dead_code)]
    struct Tailed {
        id: u64,
        #[row(tail)]
        c: Vec<u8>,
    }

    /// UUIDs were described as numbers by earlier versions.
    #[test]
    fn types_that_are_stored_alike_are_no_difference() {
        let table = |kind: &str| with(kind.parse().expect("a type")).build().expect("a table");
        for (earlier, now) in [("u128", "uuid"), ("[u128; 2]", "[uuid; 2]"), ("{a: u128}", "{a: uuid}")] {
            let [earlier, now] = [table(earlier), table(now)];
            assert_eq!(earlier.difference_from(&now), None);
            assert!(earlier.is_extended_by(&now) && earlier.obstacle(&now, false).is_none());
        }
        for (earlier, now) in [("i64", "timestamp"), ("i128", "uuid"), ("{a: u128}", "{b: uuid}")] {
            assert!(table(earlier).difference_from(&table(now)).is_some());
        }
    }

    #[test]
    fn typed_views_are_checked() {
        let view = |builder: TableBuilder| {
            let table = builder.build().expect("a table");
            Table::<Typed>::view(3, &table)
                .map(Table::number)
                .map_err(|error| (error.difference.part, error.difference.found))
        };
        let number = || ValueType::Unsigned(4);
        let indexed = |kind| with(kind).index("by_c", ["c"]);
        assert_eq!(view(indexed(number())), Ok(3), "there is room for more columns");
        assert_eq!(view(indexed(number()).compact()), Ok(3));
        let refused = |part: &str, found: &str| Err((part.to_owned(), found.to_owned()));
        assert_eq!(view(indexed(ValueType::Signed(4))), refused("column 2", "c: i32 at byte 8"));
        assert_eq!(view(with(number())), refused("index 1", "none"));
        assert_eq!(view(with(number()).unique_index("by_c", ["c"])), refused("index 1", "unique by_c (c)"));
        let more = indexed(number()).column(column("d", ValueType::Bytes).nullable());
        assert_eq!(view(more), refused("column 3", "d: bytes or null in the tail"));
        let nullable = with(number()).column(column("n", number()).nullable()).index("by_c", ["c"]);
        assert_eq!(view(nullable), refused("column 3", "n: u32 or null at byte 12"));
        let tailed = with(ValueType::Bytes).compact().build().expect("a table");
        assert!(Table::<Tailed>::view(0, &tailed).is_ok());
        let directory = with(ValueType::Bytes).build().expect("a table");
        assert!(Table::<Tailed>::view(0, &directory).is_err());
        assert_eq!(TableDescription::of::<Typed>("t"), indexed(number()).compact().build());
        assert_eq!(TableDescription::of::<Tailed>("t"), Ok(tailed));
    }
}
