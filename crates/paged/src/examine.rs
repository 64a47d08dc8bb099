//! What the files of a closed directory say, without a program's tables, and without changing anything: for checks and inspection.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use engine::durable::SchemaError;
use engine::durable::description::Description;
use engine::{Decision, PartOf, TableDescription, key_words};
use platform::files::{Existence, Files, Operation};
use storage::log::LogError;

use crate::channel::PageFile;
use crate::log::reader::LogFiles;
use crate::log::record::Logged;
use crate::master::{self, Master};
use crate::options::{PagedError, PagedOptions};
use crate::pool::Pool;
use crate::restart::{Analysis, follow_states};
use crate::tree::Tree;

/// Frames that an examination reads pages with.
const FRAMES: u64 = 1 << 10;

/// What there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The life of the database that made the last checkpoint.
    pub generation: u64,
    /// Pages in use, and free ones.
    pub pages: (u64, u64),
    /// Records of the log after the last checkpoint, and their bytes.
    pub records: u64,
    /// Bytes of these records.
    pub log_bytes: u64,
    /// Transactions that the next opening takes back.
    pub unfinished: u64,
    /// Parts of transactions over several databases that are in doubt.
    pub in_doubt: Vec<PartOf>,
    /// Decisions of such transactions that are not forgotten.
    pub decisions: Vec<Decision>,
    /// Each table, with pages, levels and rows of the trees of its indexes; empty if the log has changes that pages may not have.
    pub tables: Vec<(TableDescription, Vec<ExaminedTree>)>,
    /// What is wrong, in words.
    pub wrong: Vec<String>,
}

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExaminedTree {
    /// Its pages.
    pub pages: u64,
    /// Its entries, those aside that are deleted.
    pub entries: u64,
}

/// Whether a directory holds rows in pages.
pub fn holds_pages(path: &Path) -> bool {
    path.join(master::NAME).exists()
}

/// Reads everything that a directory has. No program has it open.
///
/// # Errors
/// Files cannot be read, or what says what there is is damaged. What is wrong with pages is in the result.
pub fn examine<P: Files>(c: P::Core, path: &Path) -> Result<Examined, PagedError> {
    let directory = P::open_directory(c, path, false)?;
    let mut queue = P::queue(c, &directory)?;
    let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
    if entries.iter().all(|entry| entry.name != master::NAME) {
        return Err(LogError::NotADatabase(path.to_path_buf()).into());
    }
    let master = Master::read::<P>(c, &mut queue)?;
    let description = Description::decode(&master.description).map_err(SchemaError::from)?;
    let files = LogFiles::find::<P>(c, &mut queue)?;
    let trees = trees_of(&master, &description)?;
    let all: Vec<Tree> = trees.iter().flatten().copied().collect();
    let (mut analysis, mut states) = (Analysis::from(&master.carried, &all)?, master.states.clone());
    // Pages that the log can make anew.
    let mut rebuilt = BTreeSet::new();
    let tail = files.read::<P>(c, &mut queue, master.low, &mut |lsn, logged| {
        if lsn > master.redo
            && let Logged::Change(change) = &logged
        {
            follow_states(&mut states, change);
            rebuilt.extend(change.pages.iter().map(|page| page.number));
        }
        analysis.follow(&all, &logged)
    })?;
    let in_use = states.iter().filter(|state| **state != 0).count() as u64;
    let mut examined = Examined {
        page_bytes: master.page_bytes,
        generation: master.generation,
        pages: (in_use, states.len() as u64 - in_use),
        records: analysis.records,
        log_bytes: tail.bytes,
        unfinished: analysis.unfinished(),
        in_doubt: analysis.doubted(),
        decisions: analysis.decisions(),
        tables: description.tables.iter().map(|table| (table.table.clone(), Vec::new())).collect(),
        wrong: Vec::new(),
    };
    let pages = Pages::<P> { c, path: path.to_path_buf(), master: &master };
    let pool = pages.pool(directory)?;
    pages.read_all(&pool, &states, &rebuilt, &mut examined.wrong);
    if rebuilt.is_empty() && examined.wrong.is_empty() {
        pages.walk(&pool, &trees, &mut examined)?;
    }
    Ok(examined)
}

/// The trees of each table.
fn trees_of(master: &Master, description: &Description) -> Result<Vec<Vec<Tree>>, PagedError> {
    let mut number = 0;
    let mut next = |bits: u32| {
        let root = master.roots.get(number as usize).copied().ok_or(PagedError::UnknownTree(number))?;
        number += 1;
        Ok(Tree::of(number - 1, root, key_words(bits)))
    };
    let of_table = |table: &TableDescription| {
        table.indexes().iter().map(|index| next(index.key_bits)).collect::<Result<Vec<_>, _>>()
    };
    description.tables.iter().map(|stored| &stored.table).map(of_table).collect()
}

/// The pages of a directory.
struct Pages<'m, P: Files> {
    c: P::Core,
    path: PathBuf,
    master: &'m Master,
}

impl<P: Files> Pages<'_, P> {
    /// A pool over the file, which never writes.
    fn pool(&self, directory: P::Directory) -> Result<Pool<P>, PagedError> {
        let page_bytes = self.master.page_bytes;
        let file = PageFile::open(self.c, (&self.path, directory), Existence::Old, page_bytes)?;
        let options = PagedOptions {
            sessions_max: 1,
            page_bytes,
            pages_max: self.master.states.len() as u64 + FRAMES,
            ..PagedOptions::with_pool(FRAMES * page_bytes as u64)
        };
        Pool::new(self.c, &options, (Some(file), None))
    }

    /// Reads all pages in use; those that the log makes anew may be damaged.
    fn read_all(&self, pool: &Pool<P>, states: &[u64], rebuilt: &BTreeSet<u64>, wrong: &mut Vec<String>) {
        let mut worker = pool.worker(self.c, 0);
        for (number, state) in (1..).zip(states) {
            if *state == 0 || rebuilt.contains(&number) {
                continue;
            }
            match worker.read(number) {
                Ok(read) if *state > 1 && read.page(1).lsn().0 < *state => {
                    wrong.push(format!("page {number}: {}", crate::page::PageFault::Older));
                }
                Ok(_) => {}
                Err(error) => wrong.push(error.to_string()),
            }
        }
    }

    /// Looks at all trees: that each page in use is in one place of one tree, and that the indexes of a table have as many rows.
    fn walk(&self, pool: &Pool<P>, trees: &[Vec<Tree>], examined: &mut Examined) -> Result<(), PagedError> {
        let mut worker = pool.worker(self.c, 0);
        let mut seen = BTreeSet::new();
        for (trees, (table, found)) in trees.iter().zip(&mut examined.tables) {
            for tree in trees {
                let mut faults = Vec::new();
                let (pages, entries) = tree.check(&mut worker, &mut seen, &mut faults)?;
                examined.wrong.extend(faults.into_iter().map(|fault| {
                    format!("{}, tree {}, page {}: {}", table.name(), tree.number, fault.page, fault.what)
                }));
                found.push(ExaminedTree { pages, entries });
            }
            if found.iter().any(|tree| tree.entries != found[0].entries) {
                let counts: Vec<u64> = found.iter().map(|tree| tree.entries).collect();
                examined.wrong.push(format!("{}: its indexes lead to {counts:?} rows", table.name()));
            }
        }
        let states = (1..).zip(&self.master.states);
        let lost = states.filter(|(number, state)| **state != 0 && !seen.contains(number));
        examined.wrong.extend(lost.map(|(number, _)| format!("page {number} is in use, and in no tree")));
        Ok(())
    }
}
