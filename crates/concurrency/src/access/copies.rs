//! Copying whole rows, and writing them back.

use platform::{Platform, Work};
use storage::RecordHeader;

use super::Accesses;

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Copies a row by `read`, which fills the words.
    pub(crate) fn copy_whole<E>(
        &mut self,
        c: P::Core,
        number: u32,
        read: impl FnOnce(&mut Self, &mut [u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.list[number as usize].row.words().len();
        let mut words = std::mem::take(&mut self.whole.words);
        let start = words.len();
        words.resize(start + count, 0);
        let copied = read(self, &mut words[start..]);
        P::work(c, Work::CopyWord, count as u32);
        self.whole.words = words;
        let starts = &mut self.whole.starts;
        if starts.len() <= number as usize {
            starts.resize(number as usize + 1, 0);
        }
        starts[number as usize] = start + 1;
        copied
    }

    /// Reads words of the copy of a row.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn read_whole(&self, number: u32, first: usize, out: &mut [u64]) {
        let start = self.whole.start(number).expect("the row was copied") + first;
        out.copy_from_slice(&self.whole.words[start..start + out.len()]);
    }

    /// Writes the copy of a row, if there is one, back to the row, which the transaction has to
    /// itself and has not changed.
    #[cold]
    pub(crate) fn write_back(&self, c: P::Core, number: u32) {
        if let Some(start) = self.whole.start(number) {
            let row = self.list[number as usize].row.words();
            P::work(c, Work::CopyWord, row.len() as u32);
            P::write_words(c, row, &self.whole.words[start..start + row.len()]);
        }
    }

    /// As [`Self::apply`], but writes all words of the row.
    #[cold]
    pub(crate) fn apply_whole(&mut self, c: P::Core, local: &mut storage::Local<P>, number: u32) {
        self.apply(c, local, number);
        let row = self.list[number as usize].row.words();
        let words: Vec<u64> = row.iter().map(P::peek).collect();
        P::work(c, Work::CopyWord, row.len() as u32);
        P::write_words(c, row, &words);
    }
}
