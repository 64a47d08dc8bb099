//! Tails that a transaction has made for its rows, until it commits or aborts.

use platform::Platform;
use storage::record::tail;
use storage::{Local, RecordHeader, Table};

use super::Accesses;
use super::allocation::retire_row;
use super::partial_step::PartialStep;
use super::row::{NEW_TAIL, WRITTEN};
use terms::Abort;

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Gives the row, of a table with tails, a new one in place of one that this transaction may
    /// have given it before.
    pub(crate) fn write_tail(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: u32,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let bits = tail::allocate(c, local, bytes)?;
        let access = &mut self.list[number as usize];
        if access.flags & NEW_TAIL != 0 {
            if self.has_savepoints {
                self.partial.push(PartialStep::TailReplaced { number, tail: access.tail });
            } else {
                // SAFETY: this transaction made the tail, and no other ever saw it.
                unsafe { tail::retire(c, local, access.tail) };
            }
        }
        access.tail = bits;
        access.flags |= NEW_TAIL | WRITTEN;
        let offset = (access.row.words().len() - 1) * 8;
        self.writes.push(&mut access.writes, offset, &bits.to_le_bytes());
        Ok(())
    }

    /// Retires row, tail and pending tail.
    ///
    /// # Safety
    /// No index holds the row any more; once; inside an epoch.
    pub(crate) unsafe fn retire(&mut self, c: P::Core, local: &mut Local<P>, table: &Table<P>, number: u32) {
        let access = &self.list[number as usize];
        // SAFETY: the caller's promise, for the row and what it points to.
        unsafe {
            if access.flags & NEW_TAIL != 0 {
                tail::retire(c, local, access.tail);
            }
            retire_row(c, local, table, access.row);
        }
    }

    /// Retires new tails that will not be used.
    pub(crate) fn drop_tails(&mut self, c: P::Core, local: &mut Local<P>) {
        for access in &mut self.list {
            if access.flags & NEW_TAIL != 0 {
                // SAFETY: this transaction made the tail, and no row points to it.
                unsafe { tail::retire(c, local, access.tail) };
            }
            access.flags &= !NEW_TAIL;
        }
    }
}
