//! Cleaners, which send copies of pages to the file before the pages are evicted.

use platform::OutOfMemory;
use platform::files::Files;
use storage::Latched;

use super::copies::Copies;
use super::store::Store;

/// Most cleaners: this many writes are under way at a time, each cleaner's one behind the other.
const CLEANERS_MAX: usize = 8;
/// Copies that a cleaner has at a time.
const COPIES: usize = 8;
/// A part of the pool: pages whose copies are in flight cannot be evicted.
const POOL_PART: usize = 4;

/// A cleaner for each session, but no more than the pool allows, and none without a file.
pub(super) fn cleaners<P: Files>(
    c: P::Core,
    store: &Store<P>,
    sessions: usize,
) -> Result<Vec<Latched<P, Copies<P>>>, OutOfMemory> {
    let cleaners = sessions.clamp(1, CLEANERS_MAX);
    let most = (store.frames() / POOL_PART / cleaners).min(COPIES);
    let is_written = store.file.as_ref().is_some_and(|file| !file.is_only_read);
    let cleaners = if !is_written || most == 0 { 0 } else { cleaners };
    (0..cleaners).map(|_| Latched::new(c, "cleaner of pages", Copies::new(most))).collect()
}
