//! Undo steps apart from the changes that they undo.

use super::Takeback;
use super::decode::Decoder;
use super::encode::Encoder;

/// An undo step, as words that are in no record.
///
/// ```text
/// word 0     tree (32 bits), words of the key (16)
/// then       the key; the first word that was written; what undoes it, as in a record
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepWords<'r> {
    pub tree: u32,
    pub key: &'r [u64],
    pub first: usize,
    pub takeback: Takeback<'r>,
}

impl<'r> StepWords<'r> {
    /// Appends it.
    pub(crate) fn put(&self, to: &mut Vec<u64>) {
        let StepWords { tree, key, first, takeback } = *self;
        to.push(u64::from(tree) | (key.len() as u64) << 32);
        to.extend_from_slice(key);
        to.push(first as u64);
        Encoder(to).takeback(takeback);
    }

    /// Takes one off the front.
    pub(crate) fn take(words: &mut &'r [u64]) -> Option<Self> {
        let mut rest = Decoder(words);
        let head = rest.word()?;
        let key = rest.words((head >> 32 & 0xffff) as usize)?;
        let first = rest.word()? as usize;
        let takeback = rest.takeback()?;
        *words = rest.0;
        Some(StepWords { tree: head as u32, key, first, takeback })
    }
}
