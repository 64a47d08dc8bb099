//! The catalogs of an instance: one while tables are filled, then one for each memory node that
//! sessions use.
//!
//! All catalogs name the same partitions, but for tables that are never written: of those, rows and
//! indexes have a copy on every node, and a node's catalog names its own ("read-only relations
//! replicated per socket": Bang et al., VLDB Journal 2022, section 4).

use platform::{Node, OutOfMemory, Platform};
use storage::{Index, Listed, Local, Memory, Partition, Places, RecordHeader, RecordRef, Space, Table};
use terms::rows::KeyBytes;

/// The tables as sessions of one node see them.
pub(crate) struct Catalog<P: Platform> {
    /// The node whose sessions use the catalog; `None` if all sessions do.
    pub(crate) node: Option<Node>,
    pub(crate) tables: Tables<P>,
}

/// The descriptors of a catalog's tables.
pub(crate) enum Tables<P: Platform> {
    /// Those that the instance was made with, on the catalog's node.
    Fixed(Listed<Table<P>>),
    /// With room for others.
    Growing(Places<P, Table<P>>),
}

impl<P: Platform> Tables<P> {
    /// Those that there are by now.
    pub(crate) fn get(&self, c: P::Core) -> &[Table<P>] {
        match self {
            Tables::Fixed(tables) => tables,
            Tables::Growing(tables) => tables.get(c),
        }
    }
}

/// Partitions of a table's indexes, by index.
pub(crate) type Partitions<P> = Vec<Vec<Partition<P>>>;

/// The descriptors of an index's partitions in a catalog.
pub(crate) enum Descriptors<P: Platform> {
    /// The catalog has descriptors of its own.
    Own(Vec<Partition<P>>),
    /// The catalog uses those of another catalog.
    Shared(Listed<Partition<P>>),
}

/// An index of a catalog to be.
pub(crate) struct IndexDraft<P: Platform> {
    pub(crate) words: usize,
    pub(crate) first: Option<u16>,
    pub(crate) partitions: Descriptors<P>,
}

/// A table of a catalog to be.
pub(crate) struct TableDraft<P: Platform> {
    pub(crate) row_words: u32,
    pub(crate) has_tail: bool,
    pub(crate) read_only: bool,
    pub(crate) constant: u64,
    pub(crate) key_bytes: Vec<KeyBytes>,
    pub(crate) key_tail: Vec<usize>,
    pub(crate) key_in_tail: bool,
    pub(crate) indexes: Vec<IndexDraft<P>>,
}

impl<P: Platform> TableDraft<P> {
    /// The same table with descriptors from `descriptors`, which receives the number of each index.
    pub(crate) fn of(
        table: &Table<P>,
        read_only: bool,
        constant: u64,
        mut descriptors: impl FnMut(usize) -> Descriptors<P>,
    ) -> Self {
        let indexes = table.indexes.iter().enumerate().map(|(number, index)| IndexDraft {
            words: index.words,
            first: index.first,
            partitions: descriptors(number),
        });
        let Table { row_words, has_tail, key_in_tail, .. } = *table;
        let (key_bytes, key_tail) = (table.key_bytes.to_vec(), table.key_tail.to_vec());
        let indexes = indexes.collect();
        TableDraft { row_words, has_tail, read_only, constant, key_bytes, key_tail, key_in_tail, indexes }
    }

    fn bytes(&self) -> usize {
        let own = self.indexes.iter().map(|index| match &index.partitions {
            Descriptors::Own(partitions) => Space::bytes_of::<Partition<P>>(partitions.len()),
            Descriptors::Shared(_) => 0,
        });
        let key_bytes =
            Space::bytes_of::<KeyBytes>(self.key_bytes.len()) + Space::bytes_of::<usize>(self.key_tail.len());
        own.sum::<usize>() + Space::bytes_of::<Index<P>>(self.indexes.len()) + key_bytes
    }

    /// The table, with its lists in `space`.
    fn lay_out(self, space: &mut Space) -> Table<P> {
        let TableDraft {
            row_words,
            has_tail,
            read_only,
            constant,
            key_bytes,
            key_tail,
            key_in_tail,
            indexes: drafts,
        } = self;
        let mut indexes = Vec::with_capacity(drafts.len());
        for IndexDraft { words, first, partitions } in drafts {
            let partitions = match partitions {
                Descriptors::Own(partitions) => space.list(partitions),
                Descriptors::Shared(partitions) => partitions,
            };
            indexes.push(Index::new(words, first, partitions));
        }
        let has_long_keys = indexes.iter().any(Index::has_long_keys);
        let (indexes, key_bytes, key_tail) =
            (space.list(indexes), space.list(key_bytes), space.list(key_tail));
        let closed = read_only || constant != 0;
        Table {
            row_words,
            has_tail,
            read_only,
            constant,
            closed,
            key_bytes,
            key_tail,
            key_in_tail,
            has_long_keys,
            indexes,
        }
    }
}

/// Lays a catalog out on `node`, with room for `spare` further tables.
///
/// # Safety
/// The catalog is not used after the memory has gone.
pub(crate) unsafe fn lay_out<P: Platform>(
    c: P::Core,
    memory: &Memory<P>,
    node: Option<Node>,
    drafts: Vec<TableDraft<P>>,
    spare: usize,
) -> Result<Tables<P>, OutOfMemory> {
    let list_bytes = if spare == 0 { Space::bytes_of::<Table<P>>(drafts.len()) } else { 0 };
    let bytes = drafts.iter().map(TableDraft::bytes).sum::<usize>() + list_bytes;
    // SAFETY: passed on to the caller.
    let mut space = unsafe { Space::new(c, memory, node, bytes)? };
    let tables = drafts.into_iter().map(|draft| draft.lay_out(&mut space)).collect();
    Ok(match spare {
        0 => Tables::Fixed(space.list(tables)),
        _ => Tables::Growing(Places::new(c, "catalog", tables, spare)?),
    })
}

/// Lays out what belongs to one further table.
///
/// # Safety
/// As [`lay_out`].
pub(crate) unsafe fn lay_out_one<P: Platform>(
    c: P::Core,
    memory: &Memory<P>,
    draft: TableDraft<P>,
) -> Result<Table<P>, OutOfMemory> {
    // SAFETY: passed on to the caller.
    let mut space = unsafe { Space::new(c, memory, None, draft.bytes())? };
    Ok(draft.lay_out(&mut space))
}

/// Copies of a table's rows and indexes, in the memory of `local`, which is inside an epoch. No
/// session uses the table meanwhile.
///
/// # Safety
/// The memory of `local` outlives the copies, and uses of them are inside epochs.
pub(crate) unsafe fn copy_table<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
) -> Result<Partitions<P>, OutOfMemory> {
    // Rows and their copies, as indexes name them.
    let mut names: Vec<(u64, u64)> = Vec::new();
    let mut copies = Vec::with_capacity(table.indexes.len());
    for (number, index) in table.indexes.iter().enumerate() {
        let mut rename = |local: &mut Local<P>, bits: u64| {
            if number > 0 {
                let place = names.binary_search_by_key(&bits, |(name, _)| *name);
                return Ok(names[place.expect("all indexes of a table name the same rows")].1);
            }
            // SAFETY: read from an index of this table, which no session uses meanwhile.
            let row = unsafe { RecordRef::<P, H>::from_bits(bits, table.row_words) };
            // SAFETY: passed on to the caller.
            let copy = unsafe { row.duplicate(c, local, table.has_tail)? }.to_bits();
            names.push((bits, copy));
            Ok(copy)
        };
        let partitions = index.all_partitions();
        // SAFETY: passed on to the caller.
        let copied = partitions.iter().map(|partition| unsafe { partition.copy(c, local, &mut rename) });
        copies.push(copied.collect::<Result<Vec<_>, _>>()?);
        names.sort_unstable();
    }
    Ok(copies)
}
