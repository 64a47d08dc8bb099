//! Examination of the files of a closed directory, without a program's tables, and without changing
//! anything: for checks and inspection.

use std::collections::BTreeSet;
use std::path::Path;

use boundary::directory::description::Description;
use boundary::{Decision, PartOf, SchemaError};
use platform::files::{Existence, Files, Operation};
use redo_log::LogError;
use schema::{TableDescription, key_words};

use crate::checkpoints::master::{self, Master};
use crate::error::PagedError;
use crate::files::channel::{PageFile, PageFileAttributes};
use crate::files::head;
use crate::files::life::Life;
use crate::inspection::{TableTrees, check_trees};
use crate::log::reader::LogFiles;
use crate::log::record::Logged;
use crate::lsn::Lsn;
use crate::opening::restart::{self, Analysis, follow_states};
use crate::options::PagedOptions;
use crate::page::PageFault;
use crate::pool::Pool;
use crate::rows::overflow::{self, Division};
use crate::tree::{ExaminedTree, Tree};

/// Frames that an examination reads pages with.
const FRAMES: u64 = 1 << 10;

/// Findings about a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The life of the database that made the last checkpoint.
    pub generation: u64,
    /// Pages that a tree has.
    pub pages_in_use: u64,
    /// Pages that a tree has had, and none has.
    pub pages_free: u64,
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
    /// Each table, with pages and rows of the trees of its indexes, and then pages and pieces of
    /// that of long rows, if it has one: as the next opening has them. Empty if pages are damaged.
    pub tables: Vec<(TableDescription, Vec<ExaminedTree>)>,
    /// Pages in use that are damaged, and that the log does not make anew.
    pub damaged: Vec<u64>,
    /// Descriptions of all faults.
    pub wrong: Vec<String>,
}

/// A directory with rows in pages, opened to be read.
pub(crate) struct Directory<P: Files> {
    pub directory: P::Directory,
    pub queue: P::Queue,
    pub master: Master,
    pub files: LogFiles,
}

impl<P: Files> Directory<P> {
    /// Opens it, and reads what says what there is.
    pub(crate) fn open(c: P::Core, path: &Path) -> Result<Self, PagedError> {
        let directory = P::open_directory(c, path, false)?;
        let mut queue = P::queue(c, &directory)?;
        let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
        let has = |name: &str| entries.iter().any(|entry| entry.name == name);
        if !has(master::NAME) {
            let was_made = has(head::NAME) && !has(master::MAKING);
            let none = || LogError::NotADatabase(path.to_path_buf()).into();
            return Err(if was_made { master::missing() } else { none() });
        }
        let master = Master::read::<P>(c, &mut queue)?;
        let files = LogFiles::find::<P>(c, &mut queue)?;
        Ok(Directory { directory, queue, master, files })
    }
}

/// A small pool over the pages of a directory, which are only read.
pub(crate) fn pool_over<P: Files>(
    c: P::Core,
    path: &Path,
    directory: P::Directory,
    master: &Master,
) -> Result<Pool<P>, PagedError> {
    pool_with(c, path, directory, master, master.lives.clone(), FRAMES)
}

/// A pool of this many frames, with pages of these generations.
fn pool_with<P: Files>(
    c: P::Core,
    path: &Path,
    directory: P::Directory,
    master: &Master,
    lives: Vec<Life>,
    frames: u64,
) -> Result<Pool<P>, PagedError> {
    let page_bytes = master.page_bytes;
    let about = PageFileAttributes { page_bytes, identity: master.identity, lives };
    let mut file = PageFile::open(c, path, directory, Existence::Old, about)?;
    file.is_only_read = true;
    let options = PagedOptions {
        sessions_max: 1,
        page_bytes,
        pages_max: master.states.len() as u64 + frames,
        ..PagedOptions::with_pool(frames * page_bytes as u64)
    };
    Pool::new(c, &options, Some(file), None)
}

/// Returns true if a directory holds rows in pages.
pub fn holds_pages(path: &Path) -> bool {
    // One without the other is damaged, and reported so.
    [master::NAME, head::NAME].iter().any(|name| path.join(name).exists())
}

/// Returns the descriptions of the tables that the last checkpoint of a directory has.
///
/// # Errors
/// The directory has no rows in pages, or the file that describes it cannot be read or is damaged.
pub fn described_tables<P: Files>(c: P::Core, path: &Path) -> Result<Vec<TableDescription>, PagedError> {
    let master = Directory::<P>::open(c, path)?.master;
    let description = Description::decode(&master.description).map_err(SchemaError::from)?;
    Ok(description.present().map(|stored| stored.table.clone()).collect())
}

/// Reads everything that a directory has. No program has it open.
///
/// # Errors
/// Files cannot be read, or what says what there is is damaged. What is wrong with pages is in the
/// result.
pub fn examine<P: Files>(c: P::Core, path: &Path) -> Result<Examined, PagedError> {
    let Directory { directory, mut queue, master, files } = Directory::<P>::open(c, path)?;
    head::check::<P>(c, &mut queue, master.identity)?;
    let description = Description::decode(&master.description).map_err(SchemaError::from)?;
    let trees = trees_of(&master, &description)?;
    let all: Vec<Tree> = trees.iter().flat_map(TableTrees::all).collect();
    let (mut analysis, mut states) = (Analysis::from(&master.carried, &all)?, master.states.clone());
    // Pages that the log can make anew.
    let mut rebuilt = BTreeSet::new();
    let tail = files.read::<P>(c, &mut queue, master.start(), &mut |lsn, logged| {
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
        pages_in_use: in_use,
        pages_free: states.len() as u64 - in_use,
        records: analysis.records,
        log_bytes: tail.bytes,
        unfinished: analysis.unfinished(),
        in_doubt: analysis.doubted(),
        decisions: analysis.decisions(),
        tables: description.tables.iter().map(|table| (table.table.clone(), Vec::new())).collect(),
        damaged: Vec::new(),
        wrong: Vec::new(),
    };
    // Pages that the log changes stay in memory: nothing is written.
    let frames = FRAMES + rebuilt.len() as u64 + analysis.steps();
    // Nothing lies behind the end of the log.
    let mut lives = tail.lives;
    lives.push(Life { name: 0, continues: tail.lsn, begins: Lsn(u64::MAX) });
    let pool = pool_with(c, path, directory, &master, master.lives_with(&lives), frames)?;
    let pages = Pages::<P> { c, states: &states };
    pages.read_all(&pool, &rebuilt, &mut examined);
    if examined.wrong.is_empty() {
        if !rebuilt.is_empty() {
            pool.begin_behind(c, states.len() as u64);
            let mut worker = pool.worker(c, 0);
            files.read::<P>(c, &mut queue, master.start(), &mut |lsn, logged| {
                if lsn > master.redo { restart::redo(&mut worker, lsn, &logged) } else { Ok(()) }
            })?;
            analysis.take_doubted();
            analysis.take_back(&mut worker)?;
        }
        pages.walk(&pool, &trees, &mut examined)?;
    }
    Ok(examined)
}

/// The trees of each table.
fn trees_of(master: &Master, description: &Description) -> Result<Vec<TableTrees>, PagedError> {
    let mut number = 0;
    let mut next = |width: usize| {
        let root = master.roots.get(number as usize).copied().ok_or(PagedError::UnknownTree(number))?;
        number += 1;
        Ok(Tree::of(number - 1, root, width))
    };
    let page_words = master.page_bytes / 8;
    let of_table = |table: &TableDescription| {
        let widths = table.indexes().iter().map(|index| key_words(index.key_bits));
        let indexes = widths.map(&mut next).collect::<Result<Vec<_>, PagedError>>()?;
        let width = indexes[0].width;
        let overflow = overflow::is_needed(table, page_words).then(|| next(width + 1)).transpose()?;
        let division = Division::new(table.row_bytes() / 8, width, page_words);
        Ok(TableTrees { indexes, overflow, division })
    };
    description.tables.iter().map(|stored| &stored.table).map(of_table).collect()
}

/// The pages of a directory.
struct Pages<'s, P: Files> {
    c: P::Core,
    /// The known state of each page at the end of the log.
    states: &'s [u64],
}

impl<P: Files> Pages<'_, P> {
    /// Reads all pages in use; those that the log makes anew may be damaged.
    fn read_all(&self, pool: &Pool<P>, rebuilt: &BTreeSet<u64>, examined: &mut Examined) {
        let states = self.states;
        let mut worker = pool.worker(self.c, 0);
        let is_read = |number: u64| states[number as usize - 1] != 0 && !rebuilt.contains(&number);
        let (window, mut ahead) = (worker.read_ahead_max() as u64, 1);
        for (number, state) in (1..).zip(states) {
            if number + window / 2 >= ahead && window > 0 {
                let until = (number + window).min(states.len() as u64 + 1);
                worker.read_ahead(&(number..until).filter(|number| is_read(*number)).collect::<Vec<_>>());
                ahead = until;
            }
            if !is_read(number) {
                continue;
            }
            let wrong = match worker.read(number) {
                Ok(read) if *state > 1 && read.page(1).lsn().0 < *state => {
                    format!("page {number}: {}", PageFault::Older)
                }
                Ok(_) => continue,
                Err(PagedError::Page { fault, .. }) => format!("page {number}: {fault}"),
                Err(error) => error.to_string(),
            };
            examined.wrong.push(wrong);
            examined.damaged.push(number);
        }
    }

    /// Checks all trees: each page in use is in one place of one tree, and the indexes of a table
    /// have as many rows.
    fn walk(&self, pool: &Pool<P>, trees: &[TableTrees], examined: &mut Examined) -> Result<(), PagedError> {
        let mut worker = pool.worker(self.c, 0);
        let mut seen = BTreeSet::new();
        for (trees, (table, found)) in trees.iter().zip(&mut examined.tables) {
            *found = check_trees(&mut worker, &mut seen, table.name(), trees, &mut examined.wrong)?;
        }
        let states = (1..).zip(self.states);
        let lost = states.filter(|(number, state)| **state != 0 && !seen.contains(number));
        examined.wrong.extend(lost.map(|(number, _)| format!("page {number} is in use, and in no tree")));
        Ok(())
    }
}
