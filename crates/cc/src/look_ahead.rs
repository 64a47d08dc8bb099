//! Looking ahead: the keys of a transaction that a worker will run soon are known, so their index entries and rows are brought
//! closer while the worker runs others.
//!
//! That takes two steps, because only a bucket or a leaf says where a row is: the far one asks for the lines of the index, and
//! the near one, when these have come, reads them and asks for the lines of the row. Sources: Chen, Ailamaki, Gibbons, Mowry,
//! "Improving hash join performance through prefetching", ICDE 2004 (group prefetching); Kocberber, Falsafi, Grot,
//! "Asynchronous memory access chaining", PVLDB 2015; He, Lu, Wang, "CoroBase: coroutine-oriented main-memory database
//! engine", PVLDB 2021. Those switch between the operations of one query, or between open transactions; here no transaction is
//! open before its turn, so nothing is read or locked earlier than without, under any scheme.
//!
//! Everything that is seen is a hint. Indexes are read as their lookups read them, inside an epoch, but nothing is validated
//! and nothing is remembered; a row is only ever named to the processor's prefetch, which takes any address: the row may be
//! deleted, or its memory may be another row's by now. So look-ahead is no read of a scheme's, and needs no scheme's consent.

use platform::{Intent, LINE_BYTES, Platform};
use storage::RecordHeader;

use crate::scheme::{Context, Parts};

/// How far ahead of its transaction a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Lines of indexes are asked for.
    Far,
    /// Lines of indexes are there, and say which lines of rows to ask for.
    Near,
}

/// Looks ahead for a key of an index (table and index by number), which has as many words as the index compares. `words` are those
/// of the row that will be used, as [`storage::word_set`] names them; `None`: the place in the index is all that is wanted.
///
/// Pre: the session is inside an epoch.
#[inline(always)]
pub fn look_ahead<P: Platform, S: Parts<P>>(
    cx: &Context<'_, '_, P, S>,
    distance: Distance,
    (table, index): (usize, usize),
    key: &[u64],
    words: Option<u64>,
) {
    let partition = cx.tables[table].indexes[index].partition(key);
    match (distance, words) {
        (Distance::Far, _) => partition.prefetch(cx.c, key),
        (Distance::Near, None) => {}
        (Distance::Near, Some(words)) => {
            if let Some(bits) = partition.glance(cx.c, key) {
                bring::<P, S::Header>(cx.c, bits, words);
            }
        }
    }
}

/// Starts to bring the header and these words of a row closer.
#[inline(always)]
fn bring<P: Platform, H: RecordHeader<P>>(c: P::Core, bits: u64, mut words: u64) {
    let row = bits as usize;
    // The line behind the last one that was asked for.
    let mut behind = row & !(LINE_BYTES - 1);
    let mut ask = |from: usize, end: usize| {
        let from = (from & !(LINE_BYTES - 1)).max(behind);
        if from < end {
            P::prefetch(c, std::ptr::without_provenance::<u8>(from), end - from, Intent::Read);
            behind = end.next_multiple_of(LINE_BYTES);
        }
    };
    let first = row + size_of::<H>();
    let (mut from, mut end) = (row, first);
    while words != 0 {
        let start = words.trailing_zeros();
        let count = (words >> start).trailing_ones();
        let at = first + 8 * start as usize;
        // Parts with less than a line between them are asked for at once.
        if at >= end + LINE_BYTES {
            ask(from, end);
            from = at;
        }
        end = at + 8 * count as usize;
        words &= u64::MAX.checked_shl(start + count).unwrap_or(0);
    }
    ask(from, end);
}
