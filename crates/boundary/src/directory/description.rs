//! The description of its tables that a directory keeps: the structure of their rows, and the ids
//! by which the log names them.
//!
//! A table gets its id when it is first declared; no other table gets it ever again. Records name
//! tables by these ids, so that nothing in the files has to be rewritten when the tables of a
//! program change. Indexes are rebuilt from rows at every opening: of them nothing but this
//! description is in the directory.
//!
//! ```text
//! description: number (version), number (next id), number (tables), tables in the order of their ids
//! table: number (id), text (name), number (flags: 1 there are tails, 2 it was dropped, 4 all is said of its columns, 8 the tail
//!        has a directory, 16 its rows went on in another form, 32 its keys have orders, 64 it has constraints, 128 its rows expire), number (epoch) if it was dropped, number (id) if it went on, number (bytes of the fixed part), number (columns),
//!        columns, key, number (other indexes), indexes, constraints if it has any ([`super::constraints`]),
//!        text (column with the moment of expiry) if rows expire
//! column: text (name), text (kind), number (offset, or 0 in the tail), number (bytes, or 0 if they have no fixed length);
//!         if all is said: number (flags: 1 nullable, 2 added, 4 it has a default), bytes of the default
//! key: number (columns), the number of each column; if keys have orders: number (order) of each
//!      column (1 descending, 2 nulls first)
//! index: text (name), number (1 its columns alone are unique, 2 nulls conflict in it), key
//! ```
//!
//! Where not all is said, columns are those of the fixed part, none is nullable or was added, and
//! the tail, if there is one, is one column's value. Version 1 knows no other tables, and version 2
//! only the types that [`ValueType::is_of_first_formats`] has, and only keys without nullable
//! columns, without orders, and of types that keys had first. Version 3 knows no constraints. Each
//! is written where it says all, so that earlier programs read what they know, and refuse the rest
//! by its version.
//! [Numbers](super::wire) are LEB128, texts have their length
//! before them.

use super::constraints::{put_constraints, read_constraints};
use super::undecided::Undecided;
use super::wire::{Bytes, read_bytes, read_list, read_number, read_size, read_text};
use schema::description::{Place, TailForm};
use schema::{
    ColumnDescription, Datum, IndexDescription, KeyOrder, StoredIndex, StoredTable, TableDescription,
    ValueType,
};

/// Versions of this encoding: the newest, the one without constraints, the one that knows only
/// types and keys of its time, and the one that knows only tables of which not all is said.
const VERSION: u64 = 4;
const VERSION_WITHOUT_CONSTRAINTS: u64 = 3;
const VERSION_OF_FEWER_TYPES: u64 = 2;
const VERSION_BRIEF: u64 = 1;
/// Flags of tables.
const HAS_TAIL: u64 = 1;
const DROPPED: u64 = 2;
const FULL: u64 = 4;
const DIRECTORY: u64 = 8;
const CONTINUED: u64 = 16;
const ORDERED: u64 = 32;
const CONSTRAINED: u64 = 64;
const EXPIRES: u64 = 128;
/// Flags of the order of a column of a key.
const DESCENDING: u64 = 1;
const NULLS_FIRST: u64 = 2;
/// Flags of indexes.
const UNIQUE: u64 = 1;
const NULLS_NOT_DISTINCT: u64 = 2;
/// Flags of columns.
const NULLABLE: u64 = 1;
const ADDED: u64 = 2;
const DEFAULT: u64 = 4;
/// The first epoch without a table that was dropped since the last opening, or that does not count
/// yet: the next one finds out.
pub const NOT_COUNTED: u64 = u64::MAX;
/// Most ids that a directory ever gives out.
pub const TABLE_IDS_MAX: u32 = 1 << 20;

/// All tables of a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The id of the next table that is declared for the first time.
    pub next_id: u32,
    /// In the order of their ids. Those that were dropped stay as long as records of theirs may be
    /// there.
    pub tables: Vec<DirectoryTable>,
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryTable {
    /// How records name it.
    pub id: u32,
    /// If it was dropped, the first epoch without it. Another table may have its name by now. While
    /// the database is open in which it was dropped this is the last number there is: a checkpoint
    /// that began before may have copied some of its rows. A table whose rows get another form
    /// while the database is open is two tables, of which one counts, and of the other that number
    /// is said.
    pub dropped: Option<u64>,
    /// If its rows have had other columns since that epoch, the id by which records name them
    /// since. The table's earlier records still count.
    pub continued_by: Option<u32>,
    /// The present or last description of the table.
    pub table: TableDescription,
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
        to.append_number(self.version());
        to.append_number(u64::from(self.next_id));
        to.append_number(self.tables.len() as u64);
        self.tables.iter().for_each(|table| table.encode(&mut to));
        to.into_vec()
    }

    /// Reads what [`Self::encode`] wrote; of two descriptions of which a transaction
    /// [decides](Undecided), the one before the transaction.
    ///
    /// # Errors
    /// Another version, or damage, or something else.
    pub fn decode(bytes: &[u8]) -> Result<Description, DescriptionError> {
        Description::decode_one(Undecided::decode(bytes).map_or(bytes, |undecided| undecided.before))
    }

    /// Reads all descriptions that the bytes are: one, or two of which a transaction decides.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Description>, DescriptionError> {
        match Undecided::decode(bytes) {
            None => Ok(vec![Description::decode_one(bytes)?]),
            Some(both) => [both.before, both.after].into_iter().map(Description::decode_one).collect(),
        }
    }

    fn decode_one(mut bytes: &[u8]) -> Result<Description, DescriptionError> {
        let version = read_number(&mut bytes).ok_or(DescriptionError::Damaged)?;
        if !(VERSION_BRIEF..=VERSION).contains(&version) {
            return Err(DescriptionError::Version { found: version });
        }
        let description = Description::decode_tables(&mut bytes).filter(Description::is_sound);
        // Earlier versions lack what later ones are for. A brief description may have been written
        // in the next version.
        let is_written_so = |found: &Description| match found.version() {
            VERSION_BRIEF | VERSION_OF_FEWER_TYPES => version <= VERSION_OF_FEWER_TYPES,
            own => version == own,
        };
        let description = description.filter(is_written_so);
        description.filter(|_| bytes.is_empty()).ok_or(DescriptionError::Damaged)
    }

    /// The first version that can say all of this.
    fn version(&self) -> u64 {
        let has_later_types = |table: &TableDescription| {
            table.has_ordered_keys()
                || !table.columns().iter().all(|column| column.kind.is_of_first_formats())
        };
        let any =
            |test: &dyn Fn(&TableDescription) -> bool| self.tables.iter().any(|table| test(&table.table));
        let brief = self.tables.iter().all(|table| is_brief(&table.table) && table.continued_by.is_none());
        match brief {
            _ if any(&|table| !table.constraints().is_empty()) => VERSION,
            _ if any(&has_later_types) => VERSION_WITHOUT_CONSTRAINTS,
            false => VERSION_OF_FEWER_TYPES,
            true => VERSION_BRIEF,
        }
    }

    fn decode_tables(rest: &mut &[u8]) -> Option<Description> {
        let next_id = u32::try_from(read_number(rest)?).ok()?;
        Some(Description { next_id, tables: read_list(rest, DirectoryTable::decode)? })
    }

    /// True if what it says of tables fits together.
    fn is_sound(&self) -> bool {
        let ascending = self.tables.windows(2).all(|pair| pair[0].id < pair[1].id);
        let last = self.tables.last().is_none_or(|table| table.id < self.next_id);
        let mut names: Vec<_> = self.present().map(|table| table.table.name()).collect();
        names.sort_unstable();
        let distinct = names.windows(2).all(|pair| pair[0] != pair[1]);
        let continued = self.tables.iter().all(|table| self.is_continued(table));
        ascending && last && self.next_id <= TABLE_IDS_MAX && distinct && continued
    }

    /// True if a table whose rows went on did so in a table that is there, and that can have them.
    fn is_continued(&self, table: &DirectoryTable) -> bool {
        let Some(id) = table.continued_by else { return true };
        let now = self.present().find(|other| other.id == id);
        table.dropped.is_some() && now.is_some_and(|now| table.table.is_extended_by(&now.table))
    }

    /// The tables that were not dropped.
    pub fn present(&self) -> impl Iterator<Item = &DirectoryTable> {
        self.tables.iter().filter(|table| table.dropped.is_none())
    }
}

fn put_key(to: &mut Bytes, index: &IndexDescription, ordered: bool) {
    to.append_number(index.columns.len() as u64);
    index.columns.iter().for_each(|column| to.append_number(*column as u64));
    let flag = |flag, set: bool| if set { flag } else { 0 };
    for order in index.orders.iter().filter(|_| ordered) {
        to.append_number(flag(DESCENDING, order.descending) | flag(NULLS_FIRST, order.nulls_first));
    }
}

fn read_key(rest: &mut &[u8], name: String, flags: u64, ordered: bool) -> Option<StoredIndex> {
    let (unique, nulls_not_distinct) = (flags & UNIQUE != 0, flags & NULLS_NOT_DISTINCT != 0);
    let columns = read_list(rest, read_size)?;
    let order = |_: &usize| match ordered {
        false => Some(KeyOrder::ASCENDING),
        true => {
            let flags = read_number(rest).filter(|flags| *flags < 4)?;
            Some(KeyOrder { descending: flags & DESCENDING != 0, nulls_first: flags & NULLS_FIRST != 0 })
        }
    };
    let orders = columns.iter().map(order).collect::<Option<_>>()?;
    Some(StoredIndex { name, unique, nulls_not_distinct, columns, orders })
}

/// True if a description in brief says all of a table.
fn is_brief(table: &TableDescription) -> bool {
    let plain =
        |column: &ColumnDescription| *column == ColumnDescription::new(&*column.name, column.kind.clone());
    table.tail() == TailForm::None && table.columns().iter().all(plain)
}

impl DirectoryTable {
    fn encode(&self, to: &mut Bytes) {
        let table = &self.table;
        let full = !is_brief(table);
        let ordered = !table.indexes().iter().all(IndexDescription::is_plain);
        to.append_number(u64::from(self.id));
        to.append_counted(table.name().as_bytes());
        let flag = |flag, set| if set { flag } else { 0 };
        to.append_number(
            flag(HAS_TAIL, table.has_tail())
                | flag(DROPPED, self.dropped.is_some())
                | flag(FULL, full)
                | flag(DIRECTORY, table.tail() == TailForm::Directory)
                | flag(CONTINUED, self.continued_by.is_some())
                | flag(ORDERED, ordered)
                | flag(CONSTRAINED, !table.constraints().is_empty())
                | flag(EXPIRES, table.constraints().expires.is_some()),
        );
        self.dropped.iter().for_each(|epoch| to.append_number(*epoch));
        self.continued_by.iter().for_each(|id| to.append_number(u64::from(*id)));
        to.append_number(table.row_bytes() as u64);
        to.append_number(table.columns().len() as u64);
        for (number, column) in table.columns().iter().enumerate() {
            to.append_counted(column.name.as_bytes());
            to.append_counted(column.kind.to_string().as_bytes());
            to.append_number(table.span(number).map_or(0, |(offset, _)| offset) as u64);
            to.append_number(column.kind.bytes().unwrap_or(0) as u64);
            if full {
                put_rest_of_column(to, column);
            }
        }
        put_key(to, &table.indexes()[0], ordered);
        to.append_number(table.indexes().len() as u64 - 1);
        for index in &table.indexes()[1..] {
            to.append_counted(index.name.as_bytes());
            to.append_number(flag(UNIQUE, index.unique) | flag(NULLS_NOT_DISTINCT, index.nulls_not_distinct));
            put_key(to, index, ordered);
        }
        if !table.constraints().is_empty() {
            put_constraints(to, table.constraints());
        }
        table.constraints().expires.iter().for_each(|column| to.append_counted(column.as_bytes()));
    }

    fn decode(rest: &mut &[u8]) -> Option<Self> {
        let id = u32::try_from(read_number(rest)?).ok()?;
        let name = read_text(rest)?;
        let flags = read_number(rest).filter(|flags| *flags < 256)?;
        let dropped = if flags & DROPPED != 0 { Some(read_number(rest)?) } else { None };
        let continued_by = match flags & CONTINUED {
            0 => None,
            _ => Some(u32::try_from(read_number(rest)?).ok()?),
        };
        let row_bytes = read_size(rest)?;
        let tail = match (flags & HAS_TAIL != 0, flags & DIRECTORY != 0) {
            (false, false) => TailForm::None,
            (true, false) => TailForm::Whole,
            (true, true) => TailForm::Directory,
            (false, true) => return None,
        };
        let (mut places, mut nulls, mut nulls_at, mut in_tail) = (Vec::new(), 0, 0, 0);
        let mut columns = read_list(rest, |rest| {
            let (name, kind) = (read_text(rest)?, read_text(rest)?.parse::<ValueType>().ok()?);
            let (offset, bytes) = (read_size(rest)?, read_size(rest)?);
            let mut column = ColumnDescription::new(name, kind);
            if flags & FULL != 0 {
                read_rest_of_column(rest, &mut column)?;
            }
            places.push(match column.kind.bytes().filter(|_| !column.added) {
                Some(own) => {
                    let end = offset.checked_add(own).filter(|end| own == bytes && *end <= row_bytes)?;
                    nulls_at = end.max(nulls_at);
                    let null = column.nullable.then_some(nulls);
                    nulls += usize::from(column.nullable);
                    Place::Fixed { offset, null }
                }
                None if offset != 0 || bytes != column.kind.bytes().unwrap_or(0) => return None,
                None if tail == TailForm::Whole => Place::WholeTail,
                None => {
                    in_tail += 1;
                    Place::Tail(in_tail - 1)
                }
            });
            Some(column)
        })?;
        if flags & FULL == 0 && tail == TailForm::Whole {
            columns.push(ColumnDescription::new("tail", ValueType::Bytes));
            places.push(Place::WholeTail);
        }
        let ordered = flags & ORDERED != 0;
        let mut indexes = vec![read_key(rest, "primary".to_owned(), UNIQUE, ordered)?];
        for _ in 0..read_number(rest)? {
            let name = read_text(rest)?;
            let flags = read_number(rest).filter(|flags| *flags < 4)?;
            indexes.push(read_key(rest, name, flags, ordered)?);
        }
        let stored = StoredTable { name, columns, places, tail, nulls_at, row_bytes, indexes };
        let mut table = TableDescription::from_stored(stored)?;
        if flags & (CONSTRAINED | EXPIRES) == EXPIRES {
            return None;
        }
        if flags & CONSTRAINED != 0 {
            let mut constraints = read_constraints(rest)?;
            if flags & EXPIRES != 0 {
                constraints.expires = Some(read_text(rest)?);
            }
            if constraints.is_empty() {
                return None;
            }
            table = table.with_constraints(constraints).ok()?;
        }
        Some(DirectoryTable { id, dropped, continued_by, table })
    }
}

fn put_rest_of_column(to: &mut Bytes, column: &ColumnDescription) {
    let ColumnDescription { kind, nullable, default, added, .. } = column;
    let mut bytes = Vec::new();
    // No value is no default.
    let default = default.as_ref().filter(|default| default.append(kind, &mut bytes).is_ok());
    let flag = |flag, set: bool| if set { flag } else { 0 };
    to.append_number(flag(NULLABLE, *nullable) | flag(ADDED, *added) | flag(DEFAULT, default.is_some()));
    default.iter().for_each(|_| to.append_counted(&bytes));
}

fn read_rest_of_column(rest: &mut &[u8], column: &mut ColumnDescription) -> Option<()> {
    let flags = read_number(rest).filter(|flags| *flags < 8)?;
    column.nullable = flags & NULLABLE != 0;
    column.added = flags & ADDED != 0;
    if flags & DEFAULT != 0 {
        let (bytes, mut again) = (read_bytes(rest)?, Vec::new());
        let default = Datum::fetch(&column.kind, bytes)?;
        default.append(&column.kind, &mut again).ok().filter(|()| again == bytes)?;
        column.default = Some(default);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{KeyColumn, TableBuilder};

    fn table(id: u32, name: &str, dropped: Option<u64>) -> DirectoryTable {
        let builder = TableBuilder::new(name)
            .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
            .column(ColumnDescription::new("size", ValueType::Signed(4)));
        let builder = builder.key(["id"]).unique_index("by_size", ["size"]).compact();
        DirectoryTable { id, dropped, continued_by: None, table: builder.build().expect("a table") }
    }

    fn full(id: u32, name: &str) -> DirectoryTable {
        let builder = TableBuilder::new(name)
            .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
            .column(ColumnDescription::new("text", ValueType::String))
            .column(ColumnDescription::new("age", ValueType::Unsigned(1)).nullable())
            .column(ColumnDescription::new("note", ValueType::Bytes).nullable());
        let table = builder.key(["id"]).index("by_id", ["id"]).build().expect("a table");
        let added =
            ColumnDescription::new("added", ValueType::Text(4)).with_default(Datum::Text("no".into()));
        DirectoryTable {
            id,
            dropped: None,
            continued_by: None,
            table: table.with_column(added).expect("one more"),
        }
    }

    fn description() -> Description {
        let tables = vec![table(1, "one", Some(300)), table(3, "three", None), table(4, "one", None)];
        Description { next_id: 7, tables }
    }

    fn full_description() -> Description {
        let mut description = description();
        description.tables.push(full(5, "full"));
        let whole = TableBuilder::new("whole")
            .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
            .column(ColumnDescription::new("rest", ValueType::Bytes));
        let table = whole.key(["id"]).compact().build().expect("a table");
        description.tables.push(DirectoryTable { id: 6, dropped: None, continued_by: None, table });
        // The first table went on as the third one.
        description.tables[0].continued_by = Some(4);
        description
    }

    /// Keys with orders, with nulls, and of floating-point numbers.
    fn ordered_description() -> Description {
        let mut description = full_description();
        let builder = TableBuilder::new("ordered")
            .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
            .column(ColumnDescription::new("size", ValueType::Float(8)))
            .column(ColumnDescription::new("rank", ValueType::Unsigned(1)).nullable())
            .key([KeyColumn::new("id").descending()])
            .index("by_size", [KeyColumn::new("size")])
            .unique_index("by_rank", [KeyColumn::new("rank").descending().nulls_last()])
            .unique_index_nulls_not_distinct("only_rank", [KeyColumn::new("rank").nulls_first()]);
        let table = builder.build().expect("a table");
        description.next_id = 8;
        description.tables.push(DirectoryTable { id: 7, dropped: None, continued_by: None, table });
        description
    }

    #[test]
    fn descriptions_are_read_as_written() {
        let bytes = description().encode();
        assert_eq!(Description::decode(&bytes), Ok(description()));
        assert_eq!(Description::decode(&Description::default().encode()), Ok(Description::default()));
        assert_eq!(bytes[0], 1, "what version 1 knows is written as it reads it");
        let mut newer = full_description().encode();
        assert_eq!(newer[0], 2);
        assert_eq!(Description::decode(&newer), Ok(full_description()));
        newer[0] = 5;
        assert_eq!(Description::decode(&newer), Err(DescriptionError::Version { found: 5 }));
        let ordered = ordered_description();
        assert_eq!(ordered.encode()[0], 3);
        assert_eq!(Description::decode(&ordered.encode()), Ok(ordered));
        let constrained = constrained_description();
        assert_eq!(constrained.encode()[0], 4, "programs that keep no constraints refuse it");
        assert_eq!(Description::decode(&constrained.encode()), Ok(constrained));
    }

    /// One of the tables has a constraint of each kind.
    fn constrained_description() -> Description {
        let column = schema::Expression::column;
        let constraints = schema::Constraints::new()
            .check("low", column("id").less(1_000).and(!column("id").is_in([7, 8])))
            .not_null("there", "n")
            .foreign_key(schema::ForeignKey::new("up", ["id"], "t", ["id"]).deferred())
            .generated("n", column("id") * 2 + 1);
        let table = TableBuilder::new("t")
            .column(ColumnDescription::new("id", ValueType::Unsigned(4)))
            .column(ColumnDescription::new("n", ValueType::Signed(8)).nullable())
            .key(["id"])
            .constraints(constraints)
            .build()
            .expect("a table");
        let mut description = full_description();
        let id = description.next_id;
        description.next_id += 1;
        description.tables.push(DirectoryTable { id, dropped: None, continued_by: None, table });
        description
    }

    /// A program of version 2 has no name for the type, and refuses the version.
    #[test]
    fn types_that_earlier_versions_lack_raise_the_version() {
        for kind in ["date", "[numeric(20, 2); 3]", "{at: timestamptz}"] {
            let column = ColumnDescription::new("c", kind.parse().expect("a type"));
            let builder = TableBuilder::new("t").column(ColumnDescription::new("id", ValueType::Unsigned(4)));
            let table = builder.column(column).key(["id"]).compact().build().expect("a table");
            let tables = vec![DirectoryTable { id: 1, dropped: None, continued_by: None, table }];
            let description = Description { next_id: 2, tables };
            let bytes = description.encode();
            assert_eq!((bytes[0], Description::decode(&bytes)), (3, Ok(description.clone())));
            refuse_others(&description);
        }
    }

    /// Version 1 describes a table with tails by one column of four bytes, which is the key.
    #[test]
    fn brief_descriptions_of_tails_are_read() {
        let mut bytes = vec![1, 1, 1, 0, 1, b't', 1, 8, 1, 2, b'i', b'd', 3];
        bytes.extend_from_slice(b"u32\x00\x04\x01\x00\x00");
        let read = Description::decode(&bytes).expect("a description");
        let table = &read.tables[0].table;
        assert_eq!((table.tail(), table.columns().len(), table.row_bytes()), (TailForm::Whole, 2, 8));
        assert_eq!(table.indexes()[0].key_bits, 32);
        // It is written with the column that it has by now.
        assert_eq!(Description::decode(&read.encode()), Ok(read));
    }

    #[test]
    fn nothing_that_is_no_description_is_taken_for_one() {
        refuse_others(&description());
        refuse_others(&full_description());
        refuse_others(&ordered_description());
        refuse_others(&constrained_description());
    }

    fn refuse_others(description: &Description) {
        let bytes = description.encode();
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
                assert!(read.is_sound() && read != *description);
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
        assert!(refused(&|it| it.tables[0].continued_by = Some(2)), "no such table");
        assert!(refused(&|it| it.tables[1].continued_by = Some(4)), "it was not dropped");
    }
}
