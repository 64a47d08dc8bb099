//! Pages of a scan: a cursor that survives its transaction, as a token.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use boundary::Direction;
use schema::row_keys::with_keys;
use schema::{Key, Row, key_words};

use crate::error::{Error, Result};
use crate::scan::{ROWS_AHEAD, Scan};

/// A place in the order of an index, behind the last row of a page ([`Scan::page`]). It holds no
/// lock and no memory of the database, and stays valid whatever becomes of the row. As a text
/// (`to_string`, `parse`) it can be given to a client and come back later, also after a restart:
/// the text tells the key of the row, and is not protected against changes by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// Tells tables, indexes and directions apart.
    scan: u32,
    /// The normalized key of the last row, without zeros at its end.
    key: Vec<u8>,
}

const NO_TOKEN: Error = Error::Misuse("a text that is no token of a page");

/// As hexadecimal digits.
impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.scan)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PageToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() < 8 || !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NO_TOKEN);
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| NO_TOKEN);
        let scan = u32::from_str_radix(&text[..8], 16).map_err(|_| NO_TOKEN)?;
        let key = (8..text.len()).step_by(2).map(byte).collect::<Result<_>>()?;
        Ok(PageToken { scan, key })
    }
}

impl<R: Row, K: Key> Scan<'_, R, K> {
    /// Returns the rows of the next page, up to [`Self::limit`] of them, and a token for the page
    /// behind it, with which another transaction continues. `None` for the first page; there is no
    /// token when the range has ended. Each page is of the transaction that reads it: rows that
    /// were inserted or deleted meanwhile are there or not, and no row is visited twice.
    ///
    /// Errors: [`Error::Misuse`] for a token of another table, index or direction.
    ///
    /// ```
    /// use isles::{Database, PageToken, Row};
    ///
    /// #[derive(Row, Debug)]
    /// #[row(key(id))]
    /// struct Message { id: u64, read: bool }
    ///
    /// let mut builder = Database::in_memory();
    /// let messages = builder.table::<Message>("messages");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert_all(messages, (0..25).map(|id| Message { id, read: false })))?;
    ///
    /// // What a service answers to `GET /messages?after=..`.
    /// let answer = |after: Option<&str>| -> isles::Result<(Vec<u64>, Option<String>)> {
    ///     let token = after.map(|text| text.parse::<PageToken>()).transpose()?;
    ///     let (page, next) =
    ///         database.transaction(|t| t.scan(messages, ..).reverse().limit(10).page(token.as_ref()))?;
    ///     Ok((page.iter().map(|message| message.id).collect(), next.map(|token| token.to_string())))
    /// };
    /// let (first, next) = answer(None)?;
    /// assert_eq!(first, (15..25).rev().collect::<Vec<_>>());
    /// // The row at the end of the page goes, and the next page begins behind it all the same.
    /// database.transaction(|t| t.delete(messages, &15))?;
    /// let (second, next) = answer(next.as_deref())?;
    /// assert_eq!((second[0], second[9]), (14, 5));
    /// let (third, next) = answer(next.as_deref())?;
    /// assert_eq!((third.len(), next), (5, None));
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn page(mut self, token: Option<&PageToken>) -> Result<(Vec<R>, Option<PageToken>)> {
        let scan = self.fingerprint();
        if self.begin()?.is_none() {
            return Ok((Vec::new(), None));
        }
        if let Some(token) = token {
            if token.scan != scan || token.key.len() > 8 * key_words(K::BITS) {
                return Err(Error::Misuse("a token of another table, index or direction"));
            }
            self.range = self.behind_key(&token.words::<K>());
        }
        let mut rows = Vec::new();
        self.read_again(ROWS_AHEAD, &mut |_, row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        let last = rows.last().filter(|_| rows.len() as u64 == self.limit);
        let next = last.and_then(|row| {
            let number = self.index.inner.number();
            with_keys(row, |keys| self.behind_key(keys[number]).map(|_| PageToken::of(scan, keys[number])))
        });
        Ok((rows, next))
    }

    /// A number that another table, index or direction seldom has.
    fn fingerprint(&self) -> u32 {
        let (table, index) = (self.index.table().inner.number(), self.index.inner.number());
        let name = self.transaction.shared.tables().get(table).map_or("", |table| table.name());
        let direction = u8::from(self.direction == Direction::Reverse);
        crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), &[index as u8, direction])
    }
}

impl PageToken {
    fn of(scan: u32, key: &[u64]) -> Self {
        let mut key: Vec<u8> = key.iter().flat_map(|word| word.to_be_bytes()).collect();
        key.truncate(key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        PageToken { scan, key }
    }

    /// The words of the key in an index over keys of type `K`.
    fn words<K: Key>(&self) -> Vec<u64> {
        let mut words = vec![0; key_words(K::BITS)];
        for (word, bytes) in words.iter_mut().zip(self.key.chunks(8)) {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_be_bytes(all);
        }
        words
    }
}
