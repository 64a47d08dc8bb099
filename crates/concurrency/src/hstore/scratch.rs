//! Buffers for the changes that a transaction of `hstore` hands to the log.

use platform::Platform;
use storage::record::tail;

use super::row::{Row, last_word};
use crate::writes::{Chain, WriteBuffer};

/// Buffers, kept from transaction to transaction.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) writes: WriteBuffer,
    /// Words as they are now.
    words: Vec<u64>,
    pub(super) tail: Vec<u8>,
}

impl Scratch {
    /// Adds what has changed of a row's words from number `first` on, which were `old`.
    pub(super) fn push_changes<P: Platform>(
        &mut self,
        chain: &mut Chain,
        first: usize,
        old: &[u64],
        now: &[P::Word],
    ) {
        self.words.clear();
        self.words.extend(now.iter().map(P::peek));
        let old: &[u8] = bytemuck::cast_slice(&old[..now.len()]);
        let now: &[u8] = bytemuck::cast_slice(&self.words);
        let differs = |place: &usize| old[*place] != now[*place];
        let from = (0..now.len()).find(differs);
        if let (Some(from), Some(last)) = (from, (0..now.len()).rfind(differs)) {
            self.writes.push(chain, first * 8 + from, &now[from..=last]);
        }
    }

    /// Reads the tail that the row has now.
    pub(super) fn read_tail<P: Platform>(&mut self, c: P::Core, row: Row<P>) {
        self.tail.clear();
        // SAFETY: the row's last word, read in a partition that the transaction has to itself.
        unsafe { tail::read::<P>(c, last_word(c, row), &mut self.tail) };
    }
}
