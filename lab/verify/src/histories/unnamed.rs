//! Reads and scans in one call, as the embedded library makes them: an optimistic scheme records
//! less about such rows. A typed transaction that is compiled together with its scheme finds the
//! rows first, and then reads them.

use std::ops::ControlFlow;

use boundary::{Direction, ScanOrder, Verbs};
use concurrency::RowWords;
use platform::Intent;
use schema::{KeyBuffer, Row, Table};
use terms::Abort;
use terms::rows::{KeyBounds, TableIndex};

/// Rows that a scan reads before it shows the first one.
const AHEAD: usize = 5;

fn decode<R: Row>(words: &[u64]) -> R {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    R::fetch(&bytes, &[])
}

/// The row with this key.
pub(super) fn read<T: Verbs, R: Row<Key = u64>>(
    t: &mut T,
    table: Table<R>,
    key: u64,
) -> Result<Option<R>, Abort> {
    if let Some(verbs) = t.untyped() {
        let mut words = vec![0; R::BYTES / 8];
        let place = TableIndex { table: table.number(), index: 0 };
        let found = verbs.find_and_read(place, KeyBuffer::of(&key).words(1), 0, &mut words)?;
        return Ok(found.then(|| decode(&words)));
    }
    let Some(row) = t.find(table.primary(), &key, Intent::Read)? else { return Ok(None) };
    t.row(row).map(Some)
}

/// The rows with keys from `low` to `high`, until `visit` breaks.
pub(super) fn scan<T: Verbs, R: Row<Key = u64>>(
    t: &mut T,
    table: Table<R>,
    low: u64,
    high: u64,
    direction: Direction,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<(), Abort> {
    if let Some(verbs) = t.untyped() {
        let (low, high) = (KeyBuffer::of(&low), KeyBuffer::of(&high));
        let place = TableIndex { table: table.number(), index: 0 };
        let range = KeyBounds { low: low.words(1), high: high.words(1) };
        let order = ScanOrder { direction, intent: Intent::Read };
        let wanted = RowWords { first: 0, count: R::BYTES / 8, ahead: AHEAD, most: u64::MAX };
        return verbs.scan_and_read(place, range, order, wanted, &mut |_, words| {
            Ok(words.chunks_exact(R::BYTES / 8).all(|row| visit(decode(row)).is_continue()))
        });
    }
    t.scan(table.primary(), &low, &high, direction, Intent::Read, &mut |t, row| Ok(visit(t.row(row)?)))
}
