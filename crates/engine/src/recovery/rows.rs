//! Rows made from their changes.

use std::borrow::Cow;

use boundary::directory::wire::Unreadable;
use boundary::{OpenError, SchemaError};
use platform::{Intent, LINE_BYTES, Platform};
use redo_log::LogBlock;
use terms::Abort;

use super::entries::{Entry, Remainder};
use super::fillers::RowFiller;
use crate::durable::codec::{Codecs, Decoder, Form, LoggedRow, TypedChange};
use crate::durable::layout::{INSERT, UPDATE};

/// How many changes ahead the bytes of a change are prefetched: they lie anywhere in the log.
const AHEAD: usize = 16;

/// Makes rows for one worker.
pub(super) struct Maker<'m, 'd, P: Platform> {
    c: P::Core,
    codecs: &'m Codecs,
    blocks: &'m [LogBlock<'m>],
    filler: Box<dyn RowFiller + 'd>,
    decoder: Decoder<'m, 'm>,
    image: Vec<u8>,
}

impl<'m, 'd, P: Platform> Maker<'m, 'd, P> {
    pub fn new(
        c: P::Core,
        codecs: &'m Codecs,
        blocks: &'m [LogBlock<'m>],
        filler: Box<dyn RowFiller + 'd>,
    ) -> Self {
        Maker { c, codecs, blocks, filler, decoder: Decoder::new(codecs, &[]), image: Vec::new() }
    }

    /// Makes those rows of a share that the log inserts; gives what remains. The share is in order.
    pub fn make_share(&mut self, entries: &mut [Entry]) -> Result<Remainder, OpenError> {
        let (mut rest, mut at, mut fetched) = (Remainder::default(), 0, 0);
        while at < entries.len() {
            let name = entries[at].row();
            let end = at + entries[at..].iter().take_while(|entry| entry.row() == name).count();
            let ahead = (end + AHEAD).min(entries.len());
            entries[end.max(fetched)..ahead].iter().for_each(|entry| self.prefetch(entry));
            fetched = ahead;
            let named = &mut entries[at..end];
            at = end;
            if !self.is_one_row(named)? {
                self.part_rows(named)?;
            }
            let mut others = &*named;
            while let [first, ..] = others {
                let count = self.same_key(others, first)?;
                let (row, behind) = others.split_at(count);
                self.make_row(row, &mut rest)?;
                others = behind;
            }
        }
        // The memory of entries that are done with is needed for other shares.
        rest.entries.shrink_to_fit();
        Ok(rest)
    }

    /// Makes a row, given all of its changes in order, if the log inserts the row; otherwise the
    /// changes go to `rest`.
    fn make_row(&mut self, changes: &[Entry], rest: &mut Remainder) -> Result<(), OpenError> {
        let (first, table) = (changes[0], changes[0].table());
        let decisive = changes.iter().rposition(|entry| u64::from(entry.kind()) != UPDATE);
        let Some(decisive) = decisive else {
            rest.entries.extend_from_slice(changes);
            rest.changed += 1;
            return Ok(());
        };
        rest.entries.push(first.gone());
        let (begins, updates) = (&changes[decisive], &changes[decisive + 1..]);
        if u64::from(begins.kind()) == INSERT {
            let TypedChange::Insert { row } = self.change(begins)? else {
                return Err(Unreadable.into());
            };
            return self.make(table, &row, updates);
        }
        match updates {
            [] => Ok(()),
            _ => {
                let name = self.codecs[table].table.name();
                Err(OpenError::Contradiction(format!("a row of {name} changes that is not there")))
            }
        }
    }

    /// Makes a row from its first content and the changes since. Both may be in the forms that the
    /// row had before columns were added.
    pub fn make(&mut self, table: usize, row: &LoggedRow<'_>, updates: &[Entry]) -> Result<(), OpenError> {
        let LoggedRow { mut form, fixed, tail, .. } = *row;
        if updates.is_empty() && form == Form::DECLARED {
            return self.put(table, fixed, tail);
        }
        let mut tail = Cow::Borrowed(tail);
        let mut image = std::mem::take(&mut self.image);
        image.clear();
        image.extend_from_slice(fixed);
        for (place, entry) in updates.iter().enumerate() {
            if let Some(later) = updates.get(place + AHEAD) {
                self.prefetch(later);
            }
            let TypedChange::Update { form: next, changes, tail: new_tail, .. } = self.change(entry)? else {
                continue;
            };
            self.convert(table, &mut form, next, &mut image, &mut tail)?;
            for (offset, bytes) in changes {
                image[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            tail = new_tail.map_or(tail, Cow::Borrowed);
        }
        self.convert(table, &mut form, Form::DECLARED, &mut image, &mut tail)?;
        let put = self.put(table, &image, &tail);
        self.image = image;
        put
    }

    /// Brings a row into another form.
    fn convert(
        &self,
        table: usize,
        form: &mut Form,
        to: Form,
        image: &mut Vec<u8>,
        tail: &mut Cow<'_, [u8]>,
    ) -> Result<(), OpenError> {
        if *form != to {
            let converted = self.codecs.convert(table, *form, to, image, tail);
            let (fixed, new_tail) = converted.map_err(|error| OpenError::Contradiction(error.to_string()))?;
            *image = fixed;
            *tail = Cow::Owned(new_tail);
            *form = to;
        }
        Ok(())
    }

    /// Makes a row.
    pub fn put(&mut self, table: usize, fixed: &[u8], tail: &[u8]) -> Result<(), OpenError> {
        let mut filled = Ok(());
        self.codecs[table].keys_of(fixed, tail, &mut |keys| {
            filled = self.filler.fill(table, keys, fixed, tail);
        });
        match filled {
            Ok(()) => Ok(()),
            Err(Abort::OutOfMemory(error)) => Err(OpenError::Memory(error)),
            Err(Abort::Duplicate { index, .. }) => {
                let table = &self.codecs[table].table;
                let (table, index) = (table.name().to_owned(), table.index_name(index as usize).to_owned());
                Err(SchemaError::NotUnique { table, index }.into())
            }
            Err(abort) => Err(OpenError::Contradiction(abort.to_string())),
        }
    }

    /// The changes of the row with this key, among the changes of all rows with the same name.
    pub fn of_key<'e>(&mut self, named: &'e [Entry], key: &[u64]) -> Result<&'e [Entry], OpenError> {
        let is_named = |first: &Entry| self.codecs[first.table()].key_words == 1;
        if named.first().is_none_or(is_named) {
            return Ok(named);
        }
        let mut others = named;
        while let [first, ..] = others {
            let count = self.same_key(others, first)?;
            if self.key(first)?[..] == *key {
                return Ok(&others[..count]);
            }
            others = &others[count..];
        }
        Ok(&[])
    }

    /// How many entries at the beginning are of the row of the first entry; all entries have the
    /// same name.
    fn same_key(&mut self, named: &[Entry], first: &Entry) -> Result<usize, OpenError> {
        if self.codecs[first.table()].key_words == 1 || named.len() == 1 {
            return Ok(named.len());
        }
        let key = self.key(first)?;
        for (place, entry) in named.iter().enumerate().skip(1) {
            if self.key(entry)? != key {
                return Ok(place);
            }
        }
        Ok(named.len())
    }

    fn is_one_row(&mut self, named: &[Entry]) -> Result<bool, OpenError> {
        Ok(self.same_key(named, &named[0])? == named.len())
    }

    /// Brings the changes of each row together where several rows have the same name.
    #[cold]
    fn part_rows(&mut self, named: &mut [Entry]) -> Result<(), OpenError> {
        let mut keyed = named
            .iter()
            .map(|entry| Ok((self.key(entry)?, *entry)))
            .collect::<Result<Vec<_>, OpenError>>()?;
        keyed.sort_by(|one, other| one.0.cmp(&other.0));
        named.iter_mut().zip(keyed).for_each(|(place, (_, entry))| *place = entry);
        Ok(())
    }

    fn key(&mut self, entry: &Entry) -> Result<Vec<u64>, OpenError> {
        let codec = &self.codecs[entry.table()];
        Ok(self.change(entry)?.key(codec).words(codec.key_words).to_vec())
    }

    fn bytes(&self, entry: &Entry) -> Option<&'m [u8]> {
        self.blocks.get(entry.block())?.payload.get(entry.at()..)
    }

    fn prefetch(&self, entry: &Entry) {
        if let Some(bytes) = self.bytes(entry) {
            P::prefetch(self.c, bytes.as_ptr(), bytes.len().min(LINE_BYTES), Intent::Read);
        }
    }

    fn change(&mut self, entry: &Entry) -> Result<TypedChange<'m>, OpenError> {
        self.decoder.begin(self.bytes(entry).ok_or(Unreadable)?);
        let next = self.decoder.next()?;
        Ok(next.map(|(_, change)| change).ok_or(Unreadable)?)
    }
}
