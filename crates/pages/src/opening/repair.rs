//! Damaged pages, made anew from a backup.
//!
//! The last checkpoint has the last change of each page that was written. A backup has a page in
//! that state, if the change was made before the backup, or its log has the changes up to there. A
//! page whose changes came later exists nowhere: the log from before a checkpoint is removed, so
//! only the whole database can be restored then, to the state of the backup. Pages that have
//! changed since the last checkpoint need no backup: the next opening rebuilds them from the log.

use std::collections::BTreeSet;
use std::path::Path;

use platform::files::{Access, Existence, Files, Operation};

use crate::checkpoints::master::Master;
use crate::error::PagedError;
use crate::files::channel::{Channel, PageFile, PageFileAttributes};
use crate::files::head;
use crate::log::record::Logged;
use crate::opening::examine::{Directory, examine, pool_over};

/// Most pages that are made anew at a time: they stay in the pool of an examination, which writes
/// nothing then.
const PAGES_MAX: usize = 256;

/// The outcome for damaged pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Pages that are as they were.
    pub pages: Vec<u64>,
    /// The pages that the backup does not have in their last state, or that are too many to repair
    /// at a time.
    pub left: Vec<u64>,
}

/// Makes damaged pages of a database anew, as far as a backup of it has them. No program has either
/// open.
///
/// # Errors
/// A directory cannot be read or written; they are not of one database; the backup is damaged.
pub fn repair<P: Files>(c: P::Core, path: &Path, backup: &Path) -> Result<Repaired, PagedError> {
    mend_head::<P>(c, path)?;
    let damaged = examine::<P>(c, path)?.damaged;
    if damaged.is_empty() {
        return Ok(Repaired::default());
    }
    let (wanted, left) = damaged.split_at(damaged.len().min(PAGES_MAX));
    let mut repaired = Repaired { pages: Vec::new(), left: left.to_vec() };
    let own = Directory::<P>::open(c, path)?;
    let mut source = Directory::<P>::open(c, backup)?;
    let other = || PagedError::OtherBackup { path: path.to_path_buf(), backup: backup.to_path_buf() };
    let agrees = own.master.agrees_up_to(&source.master);
    let agrees = agrees.filter(|_| own.master.page_bytes == source.master.page_bytes).ok_or_else(other)?;
    let Master { page_bytes, identity, lives, .. } = own.master.clone();
    let about = PageFileAttributes { page_bytes, identity, lives };
    let file = PageFile::<P>::open(c, path, own.directory, Existence::Old, about)?;
    let mut channel = Channel::new();
    let pool = pool_over::<P>(c, backup, source.directory, &source.master)?;
    let mut worker = pool.worker(c, 0);
    let numbers: BTreeSet<u64> = wanted.iter().copied().collect();
    let (redo, start) = (source.master.redo, source.master.start());
    let tail = source.files.read::<P>(c, &mut source.queue, start, &mut |lsn, logged| match logged {
        Logged::Change(change) if lsn > redo => worker.repeat(&change, lsn, &|page| numbers.contains(&page)),
        _ => Ok(()),
    })?;
    if tail.lsn > agrees {
        return Err(other());
    }
    for number in numbers {
        let state = own.master.states.get(number as usize - 1).copied().unwrap_or_default();
        let found = worker.read(number).ok().filter(|read| read.page(1).lsn().0 == state);
        match found {
            Some(read) => {
                channel.write(c, &file, number, read.words())?;
                repaired.pages.push(number);
            }
            None => repaired.left.push(number),
        }
    }
    flush(c, &file)?;
    Ok(repaired)
}

/// Rebuilds the head of the file if it is damaged: pages carry the identity of their database.
fn mend_head<P: Files>(c: P::Core, path: &Path) -> Result<(), PagedError> {
    let Directory { directory: _directory, mut queue, master, .. } = Directory::<P>::open(c, path)?;
    if head::is_whole::<P>(c, &mut queue, master.identity)? {
        return Ok(());
    }
    let (name, existence) = (head::NAME.to_owned(), Existence::Old);
    let open = Operation::Open { name, existence, access: Access::Cached };
    let file = P::perform(c, &mut queue, open).into_file()?;
    head::write::<P>(c, &mut queue, file.clone(), master.identity)?;
    Ok(P::perform(c, &mut queue, Operation::Flush { file }).result.map(drop)?)
}

fn flush<P: Files>(c: P::Core, file: &PageFile<P>) -> Result<(), PagedError> {
    let mut queue = file.queue(c)?;
    Ok(P::perform(c, &mut queue, Operation::Flush { file: file.handle() }).result.map(drop)?)
}
