//! What a directory says of its tables: the structure of their rows, and by which id the log names them.
//!
//! A table gets its id when it is first declared; no other table gets it ever again. Records name tables by these ids, so
//! that nothing in the files has to be rewritten when the tables of a program change. Indexes are rebuilt from rows at every
//! opening: of them nothing but this description is in the directory.
//!
//! ```text
//! description: number (version), number (next id), number (tables), tables in the order of their ids
//! table: number (id), text (name), number (1 if there are tails, + 2 if it was dropped), number (epoch) if it was dropped,
//!        number (bytes of the fixed part), number (columns), columns, key, number (other indexes), indexes
//! column: text (name), text (kind), number (offset), number (bytes)
//! key: number (columns), the number of each column
//! index: text (name), number (1 if its columns alone are unique), key
//! ```
//!
//! [Numbers](super::wire) are LEB128, texts have their length before them.

use super::layout::Layout;
use super::wire::{Bytes, read_bytes, read_number, read_size};
use crate::row::{Column, IndexInfo, Row, ValueType};

/// Version of this encoding.
const VERSION: u64 = 1;
/// Most ids that a directory ever gives out.
pub const TABLE_IDS_MAX: u32 = 1 << 20;

/// All tables of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The id of the next table that is declared for the first time.
    pub next_id: u32,
    /// In the order of their ids. Those that were dropped stay as long as records of theirs may be there.
    pub tables: Vec<TableDescription>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// How records name it.
    pub id: u32,
    /// The name; another table may have the name of a dropped table by now.
    pub name: String,
    /// Bytes of a row's fixed part.
    pub row_bytes: usize,
    /// Whether rows have a part of variable length.
    pub has_tail: bool,
    /// Columns of the fixed part.
    pub columns: Vec<ColumnDescription>,
    /// Columns of the primary key: their numbers.
    pub key: Vec<usize>,
    /// The other indexes.
    pub indexes: Vec<IndexDescription>,
    /// If it was dropped, the first epoch without it.
    pub dropped: Option<u64>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// Its type in words: `u32`, `[u8; 4]`, `text(16)`, `{day: u16, hour: u8}`.
    pub kind: String,
    /// Bytes from the start of the row.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// One index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// Whether the declared columns alone are unique.
    pub unique: bool,
    /// Its columns: their numbers; completed with those of the primary key where it is not unique.
    pub columns: Vec<usize>,
}

/// Why a description cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Another version of this program wrote it.
    #[error(
        "the description of the tables has version {found}, this program knows {VERSION}: open the database with the \
         version that wrote it"
    )]
    Version {
        /// The version found.
        found: u64,
    },
    /// The bytes are no description.
    #[error("the description of the tables cannot be read; restore a backup")]
    Damaged,
}

impl Description {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Bytes::default();
        to.append_number(VERSION);
        to.append_number(u64::from(self.next_id));
        to.append_number(self.tables.len() as u64);
        self.tables.iter().for_each(|table| table.encode(&mut to));
        to.into_vec()
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Another version, or damage, or something else.
    pub fn decode(mut bytes: &[u8]) -> Result<Description, DescriptionError> {
        let version = read_number(&mut bytes).ok_or(DescriptionError::Damaged)?;
        if version != VERSION {
            return Err(DescriptionError::Version { found: version });
        }
        let description = Description::decode_tables(&mut bytes).filter(Description::is_sound);
        description.filter(|_| bytes.is_empty()).ok_or(DescriptionError::Damaged)
    }

    fn decode_tables(rest: &mut &[u8]) -> Option<Description> {
        let next_id = u32::try_from(read_number(rest)?).ok()?;
        Some(Description { next_id, tables: read_list(rest, TableDescription::decode)? })
    }

    /// Whether what it says of tables fits together.
    fn is_sound(&self) -> bool {
        let ascending = self.tables.windows(2).all(|pair| pair[0].id < pair[1].id);
        let last = self.tables.last().is_none_or(|table| table.id < self.next_id);
        let mut names: Vec<_> = self.present().map(|table| &table.name).collect();
        names.sort_unstable();
        let distinct = names.windows(2).all(|pair| pair[0] != pair[1]);
        let sound = self.tables.iter().all(TableDescription::is_sound);
        ascending && last && self.next_id <= TABLE_IDS_MAX && distinct && sound
    }

    /// The tables that were not dropped.
    pub fn present(&self) -> impl Iterator<Item = &TableDescription> {
        self.tables.iter().filter(|table| table.dropped.is_none())
    }
}

/// Takes a list, its length first.
fn read_list<T>(rest: &mut &[u8], mut item: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = read_number(rest)?;
    // No room is made ahead for what may not be there.
    (0..count).map(|_| item(rest)).collect()
}

fn read_text(rest: &mut &[u8]) -> Option<String> {
    Some(std::str::from_utf8(read_bytes(rest)?).ok()?.to_owned())
}

fn put_columns(to: &mut Bytes, columns: &[usize]) {
    to.append_number(columns.len() as u64);
    columns.iter().for_each(|column| to.append_number(*column as u64));
}

impl TableDescription {
    /// The table of this row type.
    pub(crate) fn of<R: Row>(id: u32, name: &str) -> Self {
        let columns = R::COLUMNS.iter().map(|column| ColumnDescription {
            name: column.name.to_owned(),
            kind: in_words(&column.kind),
            offset: column.offset,
            bytes: column.bytes,
        });
        let position = |name: &&str| R::COLUMNS.iter().position(|column| column.name == *name);
        let key = |index: &IndexInfo| index.columns.iter().filter_map(position).collect();
        let indexes = R::INDEXES[1..].iter().map(|index| IndexDescription {
            name: index.name.to_owned(),
            unique: index.unique,
            columns: key(index),
        });
        TableDescription {
            id,
            name: name.to_owned(),
            row_bytes: R::BYTES,
            has_tail: R::HAS_TAIL,
            columns: columns.collect(),
            key: key(&R::INDEXES[0]),
            indexes: indexes.collect(),
            dropped: None,
        }
    }

    fn encode(&self, to: &mut Bytes) {
        to.append_number(u64::from(self.id));
        to.append_counted(self.name.as_bytes());
        to.append_number(u64::from(self.has_tail) | u64::from(self.dropped.is_some()) << 1);
        self.dropped.iter().for_each(|epoch| to.append_number(*epoch));
        to.append_number(self.row_bytes as u64);
        to.append_number(self.columns.len() as u64);
        for column in &self.columns {
            to.append_counted(column.name.as_bytes());
            to.append_counted(column.kind.as_bytes());
            to.append_number(column.offset as u64);
            to.append_number(column.bytes as u64);
        }
        put_columns(to, &self.key);
        to.append_number(self.indexes.len() as u64);
        for index in &self.indexes {
            to.append_counted(index.name.as_bytes());
            to.append_number(u64::from(index.unique));
            put_columns(to, &index.columns);
        }
    }

    fn decode(rest: &mut &[u8]) -> Option<Self> {
        let id = u32::try_from(read_number(rest)?).ok()?;
        let name = read_text(rest)?;
        let flags = read_number(rest).filter(|flags| *flags < 4)?;
        Some(TableDescription {
            id,
            name,
            has_tail: flags & 1 != 0,
            dropped: if flags & 2 != 0 { Some(read_number(rest)?) } else { None },
            row_bytes: read_size(rest)?,
            columns: read_list(rest, |rest| {
                let (name, kind) = (read_text(rest)?, read_text(rest)?);
                Some(ColumnDescription { name, kind, offset: read_size(rest)?, bytes: read_size(rest)? })
            })?,
            key: read_list(rest, read_size)?,
            indexes: read_list(rest, |rest| {
                let name = read_text(rest)?;
                let unique = read_number(rest).filter(|unique| *unique < 2)? == 1;
                Some(IndexDescription { name, unique, columns: read_list(rest, read_size)? })
            })?,
        })
    }

    /// Whether rows can be read by it.
    fn is_sound(&self) -> bool {
        let within = |column: &ColumnDescription| {
            column.offset.checked_add(column.bytes).is_some_and(|end| end <= self.row_bytes)
        };
        let known = |columns: &[usize]| columns.iter().all(|column| *column < self.columns.len());
        self.row_bytes <= cc::ROW_BYTES_MAX
            && self.row_bytes.is_multiple_of(8)
            && self.columns.iter().all(within)
            && !self.key.is_empty()
            && known(&self.key)
            && self.indexes.iter().all(|index| known(&index.columns))
    }

    /// Where these columns lie in a row: start and end.
    pub(crate) fn spans(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        let span = |column: &usize| {
            let ColumnDescription { offset, bytes, .. } = self.columns[*column];
            (offset, offset + bytes)
        };
        columns.iter().map(span).collect()
    }

    /// How its changes are read.
    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.row_bytes, self.has_tail, self.spans(&self.key))
    }

    /// The names of these columns.
    pub fn names(&self, columns: &[usize]) -> String {
        let names: Vec<_> = columns.iter().map(|column| &*self.columns[*column].name).collect();
        names.join(", ")
    }
}

/// A type in words.
fn in_words(kind: &ValueType) -> String {
    match kind {
        ValueType::Unsigned(bytes) => format!("u{}", 8 * bytes),
        ValueType::Signed(bytes) => format!("i{}", 8 * bytes),
        ValueType::Float(bytes) => format!("f{}", 8 * bytes),
        ValueType::Bool => "bool".to_owned(),
        ValueType::Text(bytes) => format!("text({bytes})"),
        ValueType::Array(of, count) => format!("[{}; {count}]", in_words(of)),
        ValueType::Group(columns) => {
            let column = |column: &Column| format!("{}: {}", column.name, in_words(&column.kind));
            format!("{{{}}}", columns.iter().map(column).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let column = |name: &str, kind: &str, offset| ColumnDescription {
            name: name.into(),
            kind: kind.into(),
            offset,
            bytes: 4,
        };
        let index = IndexDescription { name: "by_size".into(), unique: true, columns: vec![1] };
        let table = |id, name: &str, dropped| TableDescription {
            id,
            name: name.into(),
            row_bytes: 8,
            has_tail: id == 3,
            columns: vec![column("id", "u32", 0), column("size", "i32", 4)],
            key: vec![0],
            indexes: vec![index.clone()],
            dropped,
        };
        let tables = vec![table(1, "one", Some(300)), table(3, "three", None), table(4, "one", None)];
        Description { next_id: 7, tables }
    }

    #[test]
    fn descriptions_are_read_as_written() {
        let bytes = description().encode();
        assert_eq!(Description::decode(&bytes), Ok(description()));
        assert_eq!(Description::decode(&Description::default().encode()), Ok(Description::default()));
        let mut newer = bytes;
        newer[0] = 2;
        assert_eq!(Description::decode(&newer), Err(DescriptionError::Version { found: 2 }));
    }

    #[test]
    fn nothing_that_is_no_description_is_taken_for_one() {
        let bytes = description().encode();
        for length in 0..bytes.len() {
            assert_eq!(Description::decode(&bytes[..length]), Err(DescriptionError::Damaged), "{length}");
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(Description::decode(&longer), Err(DescriptionError::Damaged));
        // The manifest's checksum finds flipped bits; here they must do no harm.
        for place in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            if let Ok(read) = Description::decode(&flipped) {
                assert!(read.is_sound() && read != description());
                read.tables.iter().for_each(|table| drop(table.layout()));
            }
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let refused = |change: &dyn Fn(&mut Description)| {
            let mut unsound = description();
            change(&mut unsound);
            Description::decode(&unsound.encode()) == Err(DescriptionError::Damaged)
        };
        assert!(refused(&|it| it.next_id = 4), "an id that is given out again");
        assert!(refused(&|it| it.next_id = TABLE_IDS_MAX + 1));
        assert!(refused(&|it| it.tables.swap(0, 1)));
        assert!(refused(&|it| it.tables[0].dropped = None), "two tables of one name");
        assert!(refused(&|it| it.tables[1].key.clear()));
        assert!(refused(&|it| it.tables[1].key[0] = 2));
        assert!(refused(&|it| it.tables[1].columns[1].offset = 5));
        assert!(refused(&|it| it.tables[1].columns[1].offset = usize::MAX));
        assert!(refused(&|it| it.tables[1].indexes[0].columns.push(9)));
        assert!(refused(&|it| it.tables[1].row_bytes = 12));
        assert!(refused(&|it| it.tables[1].row_bytes = 8 << 40));
    }
}
