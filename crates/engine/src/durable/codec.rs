//! The changes of rows as bytes, written and read with the types of the rows. The encoding is
//! described in [`super::layout`].

use boundary::directory::description::DirectoryTable;
use boundary::directory::wire::{Bytes, NUMBER_BYTES, ONE_BYTE, Unreadable};
use boundary::{Declared, RowKeys};
use schema::{AnyKey, KeyBuffer, RowError, TableDescription, key_words};

use super::global::Item;
use super::layout::{ChangedBytes, DELETE, INSERT, Layout, UPDATE, UntypedChange, read_head};

/// Bytes of changes after which a transaction's changes continue in another record.
const RECORD_BYTES: usize = 64 << 10;

/// Indexes of a table whose keys are made on the stack.
const INDEXES_INLINE: usize = 8;

/// Encoding and decoding of a table's changes for the log.
#[derive(Clone)]
pub(crate) struct TableCodec {
    pub table: TableDescription,
    /// How records name the table.
    pub id: u32,
    pub layout: Layout,
    keys: RowKeys,
    /// Words of the primary key.
    pub key_words: usize,
}

impl TableCodec {
    /// The codec of a table with rows of type `R`, without an id.
    #[cfg(test)]
    pub(crate) fn of<R: schema::Row>(table: &TableDescription) -> TableCodec {
        TableCodec { keys: RowKeys::of::<R>(), ..TableCodec::described(table) }
    }

    /// The codec of a declared table, without an id.
    pub(crate) fn declared(table: &Declared) -> TableCodec {
        TableCodec { keys: table.keys, ..TableCodec::described(&table.description) }
    }

    /// The codec of a table that is known by its description alone, without an id.
    pub(crate) fn described(table: &TableDescription) -> TableCodec {
        TableCodec {
            table: table.clone(),
            id: 0,
            layout: Layout::of(table),
            keys: RowKeys::Described,
            key_words: key_words(table.indexes()[0].key_bits),
        }
    }

    /// Calls back with all keys of a row, one slice an index.
    pub(crate) fn keys_of(&self, fixed: &[u8], tail: &[u8], visit: &mut dyn FnMut(&[&[u64]])) {
        match self.keys {
            RowKeys::Typed(all) => all(fixed, tail, visit),
            RowKeys::Described => {
                let indexes = self.table.indexes();
                if indexes.len() > INDEXES_INLINE {
                    let buffers: Vec<_> =
                        (0..indexes.len()).map(|number| self.table.key_of(number, fixed, tail)).collect();
                    return visit(&self.table.words_of(&buffers));
                }
                let mut buffers = [const { AnyKey::Short(KeyBuffer::new()) }; INDEXES_INLINE];
                let mut keys: [&[u64]; INDEXES_INLINE] = [&[]; INDEXES_INLINE];
                for (number, (buffer, key)) in
                    buffers.iter_mut().zip(&mut keys).enumerate().take(indexes.len())
                {
                    *buffer = self.table.key_of(number, fixed, tail);
                    *key = buffer.words(key_words(indexes[number].key_bits));
                }
                visit(&keys[..indexes.len()]);
            }
        }
    }

    /// The primary key of a row of which only the key's columns are there. A row type cannot say
    /// it: zeros in another column may be no value of the column's type, such as an enum without a
    /// variant of that number.
    fn primary_of(&self, fixed: &[u8], tail: &[u8]) -> AnyKey {
        self.table.key_of(0, fixed, tail)
    }

    /// The key that these bytes of its columns are.
    fn primary(&self, columns: &[u8], image: &mut KeyImage) -> AnyKey {
        self.layout.key.row(columns, &mut image.fixed, &mut image.tail);
        self.primary_of(&image.fixed, &image.tail)
    }
}

/// A row with nothing but the columns of its key.
#[derive(Default)]
struct KeyImage {
    fixed: Vec<u8>,
    tail: Vec<u8>,
}

/// In which form a row of a table is: as declared, or as it was before columns were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form(Option<u32>);

impl Form {
    pub(crate) const DECLARED: Form = Form(None);
}

/// The table that an id names.
#[derive(Clone, Copy)]
enum Known {
    /// No table that a record which counts may name.
    Nothing,
    /// The declared table at this place.
    Declared(u32),
    /// The earlier form at this place.
    Earlier(u32),
}

/// A table as it was at an earlier opening.
struct Earlier {
    table: TableDescription,
    layout: Layout,
    /// The place of the declared table that has its rows; `None` if they were dropped.
    now: Option<u32>,
}

/// All tables that records may be about.
pub(crate) struct Codecs {
    declared: Vec<TableCodec>,
    earlier: Vec<Earlier>,
    by_id: Vec<Known>,
}

impl std::ops::Deref for Codecs {
    type Target = [TableCodec];

    /// The declared tables, in the order of their declaration.
    fn deref(&self) -> &[TableCodec] {
        &self.declared
    }
}

impl Codecs {
    /// The declared tables alone.
    pub(crate) fn into_declared(self) -> Vec<TableCodec> {
        self.declared
    }

    /// The declared tables, and those of earlier openings: the records of some are passed over.
    pub(crate) fn new<'t>(
        declared: Vec<TableCodec>,
        earlier: impl Iterator<Item = &'t DirectoryTable> + Clone,
    ) -> Self {
        let ids = declared.iter().map(|codec| codec.id).chain(earlier.clone().map(|table| table.id));
        let mut by_id = vec![Known::Nothing; ids.max().map_or(0, |last| last as usize + 1)];
        for (place, codec) in (0..).zip(&declared) {
            by_id[codec.id as usize] = Known::Declared(place);
        }
        for (place, table) in (0..).zip(earlier.clone()) {
            by_id[table.id as usize] = Known::Earlier(place);
        }
        let place = |id| (0..).zip(&declared).find(|(_, codec)| Some(codec.id) == id).map(|(place, _)| place);
        let earlier = earlier.map(|earlier| Earlier {
            table: earlier.table.clone(),
            layout: Layout::of(&earlier.table),
            now: place(earlier.continued_by),
        });
        let earlier = earlier.collect();
        Codecs { declared, earlier, by_id }
    }

    /// The description of rows of the declared table at this place in this form.
    fn description(&self, table: usize, form: Form) -> &TableDescription {
        match form.0 {
            None => &self.declared[table].table,
            Some(place) => &self.earlier[place as usize].table,
        }
    }

    /// A row of the declared table at this place in another form: fixed part and tail.
    pub(crate) fn convert(
        &self,
        table: usize,
        from: Form,
        to: Form,
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        self.description(table, from).convert(self.description(table, to), fixed, tail, None)
    }
}

/// Makes the records of one transaction, which are independent of each other.
pub(crate) struct Encoder<'d> {
    codecs: &'d [TableCodec],
    bytes: Bytes,
    /// Where records end, but for the last.
    ends: Vec<usize>,
}

impl<'d> Encoder<'d> {
    pub(crate) fn new(codecs: &'d [TableCodec]) -> Self {
        Encoder { codecs, bytes: Bytes::default(), ends: Vec::new() }
    }

    /// There may be more tables by now.
    pub(crate) fn know(&mut self, codecs: &'d [TableCodec]) {
        self.codecs = codecs;
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an item; the caller adds items before changes.
    pub(crate) fn item(&mut self, item: &Item) {
        item.put(&mut self.bytes);
    }

    /// Adds encoded changes; they are part of the last record.
    pub(crate) fn add(&mut self, changes: &[u8]) {
        self.bytes.room(changes.len());
        self.bytes.put(changes);
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The body of one record with everything.
    pub(crate) fn whole(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Bytes of the body, if there is one record or none.
    #[inline(always)]
    pub(crate) fn only_body(&self) -> Option<usize> {
        self.ends.is_empty().then_some(self.bytes.len())
    }

    /// The bodies of the records: one, or several if there is much.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes.as_slice();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ends = self.ends.iter().copied().chain(std::iter::once(bytes.len()));
        starts.zip(ends).map(|(start, end)| &bytes[start..end]).filter(|body| !body.is_empty())
    }

    /// Begins a change; there is room for `bytes` behind its head.
    #[inline(always)]
    fn begin(&mut self, table: usize, kind: u64, bytes: usize) -> &'d TableCodec {
        let codec = &self.codecs[table];
        self.bytes.room(NUMBER_BYTES + bytes);
        if self.bytes.len() - self.ends.last().copied().unwrap_or(0) >= RECORD_BYTES {
            self.ends.push(self.bytes.len());
        }
        self.bytes.put_number(u64::from(codec.id) << 2 | kind);
        codec
    }

    /// Names a row, of which `tail` is needed only if columns of the key are there.
    #[inline(always)]
    fn key(&mut self, codec: &TableCodec, word: &mut impl FnMut(usize) -> u64, tail: &[u8]) {
        if codec.layout.key_in_tail {
            return self.key_with_tail(codec, word, tail);
        }
        for piece in &codec.layout.key_pieces {
            self.bytes.put_word(word(piece.word as usize) >> piece.shift, usize::from(piece.bytes));
        }
    }

    #[cold]
    fn key_with_tail(&mut self, codec: &TableCodec, word: &mut impl FnMut(usize) -> u64, tail: &[u8]) {
        let fixed: Vec<u8> = (0..codec.layout.row_bytes / 8).flat_map(|at| word(at).to_le_bytes()).collect();
        let mut key = Vec::new();
        codec.layout.put_key(&fixed, tail, &mut key);
        self.bytes.room(key.len() + 1);
        self.bytes.put(&key);
    }

    #[inline]
    pub(crate) fn insert(&mut self, table: usize, words: impl ExactSizeIterator<Item = u64>, tail: &[u8]) {
        let codec = self.begin(table, INSERT, words.len() * 8);
        words.for_each(|word| self.bytes.put_word(word, 8));
        if codec.layout.has_tail {
            self.bytes.append_counted(tail);
        }
    }

    #[inline]
    pub(crate) fn update<'b>(
        &mut self,
        table: usize,
        word: &mut impl FnMut(usize) -> u64,
        changes: impl Iterator<Item = (usize, &'b [u8])>,
        tail: Option<&[u8]>,
        key_tail: &[u8],
    ) {
        let codec = self.begin(table, UPDATE, self.codecs[table].layout.key_bytes + 1);
        self.key(codec, word, key_tail);
        let count_at = self.bytes.len();
        self.bytes.put_byte(0);
        let mut count = 0;
        // Where the length of the last change is, and where the change ends in the row.
        let mut last = None;
        for (offset, bytes) in changes {
            self.bytes.room(2 * NUMBER_BYTES + bytes.len());
            let end = offset + bytes.len();
            if let Some((length_at, last_end)) = last
                && last_end == offset
                && usize::from(*self.bytes.at(length_at)) + bytes.len() < ONE_BYTE
            {
                *self.bytes.at(length_at) += bytes.len() as u8;
                last = Some((length_at, end));
            } else {
                self.bytes.put_number(offset as u64);
                let length_at = self.bytes.len();
                self.bytes.put_number(bytes.len() as u64);
                last = (bytes.len() < ONE_BYTE).then_some((length_at, end));
                count += 1;
            }
            self.bytes.put(bytes);
        }
        let count = count << 1 | u64::from(tail.is_some());
        if count < ONE_BYTE as u64 {
            *self.bytes.at(count_at) = count as u8;
        } else {
            // The count takes more than the one byte that was left for it.
            let after = self.bytes.split_off(count_at);
            self.bytes.room(NUMBER_BYTES + after.len());
            self.bytes.put_number(count);
            self.bytes.put(&after[1..]);
        }
        if let Some(tail) = tail {
            self.bytes.append_counted(tail);
        }
    }

    pub(crate) fn delete(&mut self, table: usize, word: &mut impl FnMut(usize) -> u64, key_tail: &[u8]) {
        let codec = self.begin(table, DELETE, self.codecs[table].layout.key_bytes);
        self.key(codec, word, key_tail);
    }
}

/// A change as the row type reads it: with the primary key of its row.
pub(crate) enum TypedChange<'a> {
    Insert { row: LoggedRow<'a> },
    Update { key: AnyKey, form: Form, changes: ChangedBytes<'a>, tail: Option<&'a [u8]> },
    Delete { key: AnyKey },
}

/// A row as a record has it.
#[derive(Clone)]
pub(crate) struct LoggedRow<'a> {
    pub form: Form,
    /// The primary key, if the row is in an earlier form.
    key: Option<AnyKey>,
    pub fixed: &'a [u8],
    pub tail: &'a [u8],
}

impl TypedChange<'_> {
    /// The primary key of the row that changes.
    pub(crate) fn key(&self, codec: &TableCodec) -> AnyKey {
        match self {
            TypedChange::Insert { row } => {
                row.key.clone().unwrap_or_else(|| codec.primary_of(row.fixed, row.tail))
            }
            TypedChange::Update { key, .. } | TypedChange::Delete { key } => key.clone(),
        }
    }
}

/// Reads the changes of a record.
pub(crate) struct Decoder<'d, 'a> {
    codecs: &'d Codecs,
    rest: &'a [u8],
    /// The bytes of the last change.
    last: &'a [u8],
    image: KeyImage,
}

impl<'d, 'a> Decoder<'d, 'a> {
    pub(crate) fn new(codecs: &'d Codecs, body: &'a [u8]) -> Self {
        Decoder { codecs, rest: body, last: &[], image: KeyImage::default() }
    }

    /// Goes on with another record.
    pub(crate) fn begin(&mut self, body: &'a [u8]) {
        self.rest = body;
    }

    /// The rest of the record.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes of the change that [`Self::next`] gave last.
    pub(crate) fn last(&self) -> &'a [u8] {
        self.last
    }

    /// The next change, with the place of its table; `None` at the end. Changes of dropped tables
    /// are passed over.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, TypedChange<'a>)>, Unreadable> {
        while !self.rest.is_empty() {
            let before = self.rest;
            let change = self.step().ok_or(Unreadable)?;
            self.last = &before[..before.len() - self.rest.len()];
            if change.is_some() {
                return Ok(change);
            }
        }
        Ok(None)
    }

    /// Passes over the next change: the place of its table, its kind, and the row's primary key.
    #[inline]
    pub(crate) fn next_key(&mut self) -> Result<Option<(usize, u8, AnyKey)>, Unreadable> {
        let next = self.next()?;
        Ok(next.map(|(table, change)| {
            let kind = match change {
                TypedChange::Insert { .. } => INSERT,
                TypedChange::Update { .. } => UPDATE,
                TypedChange::Delete { .. } => DELETE,
            };
            (table, kind as u8, change.key(&self.codecs[table]))
        }))
    }

    /// Reads a change: `Some(None)` if the table of the change was dropped.
    #[inline]
    fn step(&mut self) -> Option<Option<(usize, TypedChange<'a>)>> {
        let codecs = self.codecs;
        let (id, kind) = read_head(&mut self.rest)?;
        let (place, form, layout) = match codecs.by_id.get(id as usize)? {
            Known::Nothing => return None,
            Known::Declared(place) => {
                (*place as usize, Form::DECLARED, &codecs.declared[*place as usize].layout)
            }
            Known::Earlier(earlier) => {
                let Earlier { layout, now, .. } = &codecs.earlier[*earlier as usize];
                let Some(place) = now else {
                    layout.read_change(kind, &mut self.rest)?;
                    return Some(None);
                };
                (*place as usize, Form(Some(*earlier)), layout)
            }
        };
        let codec = &codecs.declared[place];
        let change = match layout.read_change(kind, &mut self.rest)? {
            UntypedChange::Insert { fixed, tail } => {
                let mut columns = Vec::new();
                let key = (form != Form::DECLARED).then(|| {
                    layout.put_key(fixed, tail, &mut columns);
                    codec.primary(&columns, &mut self.image)
                });
                TypedChange::Insert { row: LoggedRow { form, key, fixed, tail } }
            }
            UntypedChange::Update { key, changes, tail } => {
                TypedChange::Update { key: codec.primary(key, &mut self.image), form, changes, tail }
            }
            UntypedChange::Delete { key } => TypedChange::Delete { key: codec.primary(key, &mut self.image) },
        };
        Some(Some((place, change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Row, Text};

    #[derive(Row, Clone, Debug)]
    #[row(key(id))]
    struct Wide {
        id: u64,
        columns: Text<1000>,
    }

    fn codec<R: Row>(id: u32) -> TableCodec {
        let table = TableDescription::of::<R>("table").expect("a table");
        TableCodec { id, ..TableCodec::of::<R>(&table) }
    }

    /// Changes of this many bytes at each of these places, as they are read.
    fn read_back(changes: &[(usize, usize)]) -> Vec<(usize, Vec<u8>)> {
        let row: Vec<u8> = (0..=u8::MAX).cycle().take(Wide::BYTES).collect();
        let codecs = Codecs::new(vec![codec::<Wide>(3)], std::iter::empty());
        let mut encoder = Encoder::new(&codecs);
        let changes = changes.iter().map(|(offset, bytes)| (*offset, &row[*offset..offset + bytes]));
        encoder.update(0, &mut |_| 7, changes, None, &[]);
        let record: Vec<u8> = encoder.bodies().flatten().copied().collect();
        let mut decoder = Decoder::new(&codecs, &record);
        let Ok(Some((0, TypedChange::Update { key, changes, tail: None, .. }))) = decoder.next() else {
            panic!("it is a change")
        };
        assert_eq!(key.words(1), [7]);
        assert!(matches!(decoder.next(), Ok(None)));
        let changes: Vec<_> = changes.map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
        assert!(changes.iter().all(|(offset, bytes)| *bytes == row[*offset..offset + bytes.len()]));
        changes
    }

    #[test]
    fn changes_that_follow_on_each_other_are_one() {
        let places = |changes: &[(usize, usize)]| -> Vec<(usize, usize)> {
            read_back(changes).into_iter().map(|(offset, bytes)| (offset, bytes.len())).collect()
        };
        assert_eq!(places(&[(8, 4), (12, 8), (24, 2)]), [(8, 12), (24, 2)]);
        // As far as the length stays one byte long.
        assert_eq!(places(&[(8, 100), (108, 27), (135, 1)]), [(8, 127), (135, 1)]);
        assert_eq!(places(&[(8, 128), (136, 4)]), [(8, 128), (136, 4)]);
        assert_eq!(places(&[(16, 4), (8, 8), (16, 4)]), [(16, 4), (8, 12)]);
    }

    /// A key whose columns share words, cross them, and do not lie in order.
    #[derive(Row, Clone, Debug)]
    #[row(key(name, low, high, last))]
    struct Mixed {
        low: u16,
        high: u8,
        other: u32,
        name: Text<11>,
        last: u8,
    }

    #[test]
    fn keys_are_the_bytes_of_their_columns() {
        let codec = codec::<Mixed>(5);
        let row: Vec<u8> = (1..).take(Mixed::BYTES).collect();
        let mut expected = vec![5 << 2 | DELETE as u8];
        codec.layout.put_key(&row, &[], &mut expected);
        let codecs = Codecs::new(vec![codec], std::iter::empty());
        let mut encoder = Encoder::new(&codecs);
        let word = |at: usize| {
            row[8 * at..8 * at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        encoder.delete(0, &mut { word }, &[]);
        let record: Vec<u8> = encoder.bodies().flatten().copied().collect();
        assert_eq!(record, expected);
        assert_eq!(codecs[0].layout.key_pieces.len(), 4, "{:?}", codecs[0].layout);
    }

    #[test]
    fn there_may_be_many_changes() {
        for count in [0, 1, 63, 64, 65, 200] {
            let changes: Vec<_> = (0..count).map(|number| (8 + 4 * number, 3)).collect();
            assert_eq!(read_back(&changes).len(), count, "{count}");
        }
    }
}
