//! Detection of a log that has lost its end, by the pages that the log changes.
//!
//! A page is written when its last change is durable in the log. A page in the file with a change
//! that the log does not have proves that the log had more once: opening the database would show a
//! part of that change. If something that is no record lies behind the end, a restart checks the
//! pages that the log changes before it writes anything: most often a crash has left a part of a
//! write there. Any other such page is refused when it is read, in this generation and later ones
//! ([`crate::files::channel::PageFile`]).

use std::collections::BTreeSet;
use std::path::Path;

use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, FileError, Files, Operation};

use crate::checkpoints::master::Master;
use crate::error::PagedError;
use crate::files::channel;
use crate::files::head;
use crate::log::reader::{LogFiles, LogTail};
use crate::log::record::Logged;
use crate::lsn::Lsn;
use crate::page::{self, PageFault};

/// Checks the pages that the log changes.
///
/// # Errors
/// One of them has a change from behind the end of the log; files cannot be read.
pub(crate) fn check<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    path: &Path,
    master: &Master,
    files: &LogFiles,
    tail: &LogTail,
) -> Result<(), PagedError> {
    if !tail.is_torn() {
        return Ok(());
    }
    let mut numbers = BTreeSet::new();
    files.read::<P>(c, queue, master.start(), &mut |lsn, logged| {
        if let (true, Logged::Change(change)) = (lsn > master.redo, &logged) {
            numbers.extend(change.pages.iter().map(|page| page.number));
        }
        Ok(())
    })?;
    let (name, existence) = (head::NAME.to_owned(), Existence::Old);
    let open = Operation::Open { name, existence, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let stride = channel::stride(master.page_bytes);
    let mut buffer = Buffer::new(c, None, stride.max(BLOCK_BYTES), "page that is looked at")?;
    for number in numbers {
        buffer.set_len(0);
        let read = Operation::Read { file: file.clone(), offset: number * stride as u64, buffer };
        let mut completion = P::perform(c, queue, read);
        let bytes = (completion.bytes()? as usize).min(master.page_bytes);
        buffer = completion.buffers.pop().ok_or_else(FileError::stopped)?;
        buffer.set_len(bytes);
        // A page that is torn, or not there, proves nothing.
        if let Ok(lsn) = page::verify(buffer.bytes(), master.page_bytes, master.identity, number, Lsn(0))
            && lsn > tail.lsn
        {
            return Err(PagedError::Page { number, path: path.to_path_buf(), fault: PageFault::Ahead });
        }
    }
    Ok(())
}
