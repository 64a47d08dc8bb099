//! Opening of a database: a new one, or the one that a directory holds.

pub(crate) mod examine;
mod lost_end;
pub(crate) mod repair;
mod restart;

use std::path::Path;

use boundary::directory::description::{Description, DirectoryTable};
use boundary::{Progress, Recovered, SchemaBuilder, SchemaError, Stage};
use platform::files::{Access, Entry, Existence, Files, Operation};
use redo_log::LogError;
use schema::TableDescription;

use self::restart::Analysis;
use crate::checkpoints::checkpoint::{Checkpoints, FixedContent};
use crate::checkpoints::master::{self, MAKING, Master};
use crate::checkpoints::undecided::{KnownPart, UndecidedContent};
use crate::database::PagedDatabase;
use crate::error::PagedError;
use crate::files::channel::{self, PageFile, PageFileAttributes};
use crate::files::head;
use crate::files::life::Life;
use crate::locks::LockManager;
use crate::log::reader::{LogFiles, LogTail};
use crate::log::record::Logged;
use crate::log::segments::{self, SegmentNames, SegmentPlan};
use crate::log::{Log, LogPlan};
use crate::lsn::Lsn;
use crate::options::{PagedLogOptions, PagedOptions};
use crate::pool::{Pool, PoolWorker};
use crate::rows::overflow;
use crate::rows::tables::Table;
use crate::shared::SharedState;
use crate::tree::Tree;
use crate::undo::PartInDoubt;

/// Receives the progress of an opening.
pub type Listener<'l> = Option<&'l mut dyn FnMut(Progress)>;

/// The declared tables.
type Declared = Vec<(TableDescription, concurrency::TableShape)>;

impl<P: Files> PagedDatabase<P> {
    /// Makes the declared tables, empty. Without a log nothing of them outlives the process.
    ///
    /// # Errors
    /// There is no memory, the pool is too small, rows are too long, or the files cannot be made.
    pub fn create(c: P::Core, options: &PagedOptions, schema: SchemaBuilder) -> Result<Self, PagedError> {
        let file = match &options.directory {
            Some(path) => {
                let directory = P::open_directory(c, path, true)?;
                // Nothing of it outlives the process, and no other thread reads it.
                let about =
                    PageFileAttributes { page_bytes: options.page_bytes, identity: 0, lives: Vec::new() };
                Some(PageFile::open(c, path, directory, Existence::New, about)?)
            }
            None => None,
        };
        let pool = Pool::new(c, options, file, None)?;
        let mut worker = pool.worker(c, 0);
        let (tables, descriptions) = make_tables(&mut worker, schema.into_tables(), &[])?;
        drop(worker);
        PagedDatabase::new(c, options, pool, tables, descriptions, None)
    }

    fn new(
        c: P::Core,
        options: &PagedOptions,
        pool: Pool<P>,
        tables: Vec<Table>,
        descriptions: Vec<TableDescription>,
        checkpoints: Option<Checkpoints<P>>,
    ) -> Result<Self, PagedError> {
        let locks = LockManager::new(c, options, tables.len())?;
        let shared = SharedState::new(c, options, pool, locks, tables, checkpoints)?;
        Ok(PagedDatabase { shared, descriptions })
    }

    /// Opens the database that the directory of the options holds, or makes a new one there;
    /// changes are logged.
    ///
    /// # Errors
    /// The directory holds something else, or other tables; files are damaged or cannot be read or
    /// written; there is no memory.
    pub fn open(
        c: P::Core,
        options: &PagedOptions,
        schema: SchemaBuilder,
        mut listener: Listener<'_>,
    ) -> Result<(Self, Recovered), PagedError> {
        let began = P::now(c);
        let (Some(path), Some(log)) = (&options.directory, options.log) else {
            return Ok((PagedDatabase::create(c, options, schema)?, Recovered::default()));
        };
        options.check()?;
        let directory = P::open_directory(c, path, true)?;
        let mut queue = P::queue(c, &directory)?;
        let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
        let exists = exists::<P>(c, &mut queue, path, &entries)?;
        let declared = schema.into_tables();
        let found = match exists {
            true => FoundDirectory::read::<P>(c, &mut queue, &entries, &declared)?,
            false => {
                begin_making::<P>(c, &mut queue, &entries)?;
                let identity = P::fresh_identity(c, &directory)?;
                FoundDirectory::nothing(options.page_bytes, identity)
            }
        };
        if found.master.page_bytes != options.page_bytes {
            let (found, asked) = (found.master.page_bytes, options.page_bytes);
            return Err(PagedError::OtherPages { path: path.clone(), found, asked });
        }
        let (analysis, tail) = found.analyse::<P>(c, &mut queue, &mut listener)?;
        if let Some(files) = &found.files {
            lost_end::check::<P>(c, &mut queue, path, &found.master, files, &tail)?;
        }
        let life = P::fresh_identity(c, &directory)?;
        let opening = Opening { c, options, log, found, analysis, tail, life };
        let (database, mut recovered) = opening.run(directory, &mut queue, declared, &mut listener)?;
        if !exists || entries.iter().any(|entry| entry.name == MAKING) {
            P::perform(c, &mut queue, Operation::Remove { name: MAKING.to_owned() }).result?;
            P::perform(c, &mut queue, Operation::FlushDirectory).result?;
        }
        recovered.existed = exists;
        recovered.nanos = P::now(c).since(began);
        Ok((database, recovered))
    }
}

/// Returns true if a directory with these files has a database; one that was never made as a whole
/// counts as none: nothing was ever logged in it.
fn exists<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    path: &Path,
    entries: &[Entry],
) -> Result<bool, PagedError> {
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if has(master::NAME) {
        return Ok(true);
    }
    if has(redo_log::MANIFEST) {
        return Err(PagedError::OtherEngine(path.to_path_buf()));
    }
    let made = [head::NAME, master::NEW_NAME, segments::NEW_NAME, MAKING];
    let is_ours = |name: &str| made.contains(&name) || segments::parse(name).is_some();
    if !entries.iter().all(|entry| is_ours(&entry.name)) {
        return Err(LogError::NotADatabase(path.to_path_buf()).into());
    }
    let mut is_unmade = || LogFiles::find::<P>(c, queue)?.has_nothing::<P>(c, queue);
    if entries.is_empty() || has(MAKING) && is_unmade()? {
        return Ok(false);
    }
    Err(master::missing())
}

/// The file of pages is not as it was.
fn lost_pages(what: &'static str) -> PagedError {
    LogError::Damaged { file: head::NAME.to_owned(), offset: 0, what }.into()
}

/// Notes, durably, that a database is being made, and removes what an earlier attempt has left: in
/// a directory with that note, and without a checkpoint, nothing was ever acknowledged.
fn begin_making<P: Files>(c: P::Core, queue: &mut P::Queue, left: &[Entry]) -> Result<(), PagedError> {
    if left.iter().all(|entry| entry.name != MAKING) {
        let (existence, access) = (Existence::New, Access::Cached);
        let name = MAKING.to_owned();
        P::perform(c, queue, Operation::Open { name, existence, access }).into_file()?;
        P::perform(c, queue, Operation::FlushDirectory).result?;
    }
    for entry in left.iter().filter(|entry| entry.name != MAKING) {
        P::perform(c, queue, Operation::Remove { name: entry.name.clone() }).result?;
    }
    Ok(())
}

/// Makes tables; those of which the directory has roots are there already.
fn make_tables<P: Files>(
    worker: &mut PoolWorker<'_, P>,
    declared: Declared,
    known: &[(String, Vec<Tree>)],
) -> Result<(Vec<Table>, Vec<TableDescription>), PagedError> {
    let mut first: u32 = known.iter().map(|(_, trees)| trees.len() as u32).sum();
    let (mut tables, mut descriptions) = (Vec::new(), Vec::new());
    for (description, shape) in declared {
        let trees = known.iter().find(|(name, _)| name == description.name()).map(|(_, trees)| &trees[..]);
        let table = Table::create(worker, &description, shape, first, trees)?;
        if trees.is_none() {
            first += table.all_trees().count() as u32;
        }
        tables.push(table);
        descriptions.push(description);
    }
    Ok((tables, descriptions))
}

/// The content of a directory.
struct FoundDirectory {
    master: Master,
    /// The directory's tables, in the order of their trees.
    description: Description,
    files: Option<LogFiles>,
    /// All trees, by number, and those of each table.
    trees: Vec<Tree>,
    by_table: Vec<(String, Vec<Tree>)>,
}

impl FoundDirectory {
    fn nothing(page_bytes: usize, identity: u64) -> Self {
        let master = Master { identity, ..Master::nothing(page_bytes) };
        let (trees, by_table) = (Vec::new(), Vec::new());
        FoundDirectory { master, description: Description::default(), files: None, trees, by_table }
    }

    fn read<P: Files>(
        c: P::Core,
        queue: &mut P::Queue,
        entries: &[Entry],
        declared: &Declared,
    ) -> Result<Self, PagedError> {
        let master = Master::read::<P>(c, queue)?;
        let pages = entries.iter().find(|entry| entry.name == head::NAME);
        let pages = pages.ok_or_else(|| lost_pages("the file of pages is missing: put it back"))?;
        if pages.bytes < master.pages_end(channel::stride(master.page_bytes) as u64) {
            return Err(lost_pages("the file of pages ends before its last pages"));
        }
        head::check::<P>(c, queue, master.identity)?;
        let description = Description::decode(&master.description).map_err(SchemaError::from)?;
        let (mut trees, mut by_table) = (Vec::new(), Vec::new());
        for stored in &description.tables {
            let table = stored.table.name();
            let declared = declared.iter().find(|(other, _)| other.name() == table);
            let Some((description, shape)) = declared else {
                return Err(SchemaError::Undeclared { table: table.to_owned() }.into());
            };
            let of_rows = stored.table.difference_from(description);
            if let Some(difference) = of_rows.or_else(|| stored.table.constraint_difference(description)) {
                let schema::table_limits::Difference { part, found, declared } = difference;
                return Err(SchemaError::Rows { table: table.to_owned(), part, found, declared }.into());
            }
            let first = trees.len();
            let overflows = overflow::is_needed(description, master.page_bytes / 8);
            let widths = shape.indexes.iter().map(|index| index.words);
            for width in widths.chain(overflows.then_some(shape.indexes[0].words + 1)) {
                let number = trees.len() as u32;
                let root = master.roots.get(trees.len());
                let root = *root.ok_or(PagedError::UnknownTree(number))?;
                trees.push(Tree::of(number, root, width));
            }
            by_table.push((table.to_owned(), trees[first..].to_vec()));
        }
        let files = Some(LogFiles::find::<P>(c, queue)?);
        Ok(FoundDirectory { master, description, files, trees, by_table })
    }

    /// Reads the log for the first time.
    fn analyse<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        listener: &mut Listener<'_>,
    ) -> Result<(Analysed, LogTail), PagedError> {
        let analysis = Analysis::from(&self.master.carried, &self.trees)?;
        let mut analysed = Analysed { analysis, states: self.master.states.clone() };
        let Some(files) = &self.files else { return Ok((analysed, LogTail::NONE)) };
        let (redo, start) = (self.master.redo, self.master.start());
        report(listener, Stage::Reading, 0);
        let tail = files.read::<P>(c, queue, start, &mut |lsn, logged| {
            if lsn > redo
                && let Logged::Change(change) = &logged
            {
                restart::follow_states(&mut analysed.states, change);
            }
            analysed.analysis.follow(&self.trees, &logged)
        })?;
        report(listener, Stage::Reading, tail.bytes);
        Ok((analysed, tail))
    }
}

/// The result of the first reading of the log.
struct Analysed {
    analysis: Analysis,
    /// The known state of all pages at the end of the log.
    states: Vec<u64>,
}

fn report(listener: &mut Listener<'_>, stage: Stage, done: u64) {
    if let Some(listener) = listener {
        listener(Progress { stage, done, total: done });
    }
}

/// Parts in doubt, as checkpoints carry them.
fn known(doubted: &[PartInDoubt]) -> Vec<KnownPart> {
    let known = doubted.iter().map(|PartInDoubt { transaction, part, undo }| {
        let mut steps = Vec::new();
        undo.encode(&mut steps);
        KnownPart { transaction: *transaction, part: *part, steps }
    });
    known.collect()
}

/// An opening under way.
struct Opening<'o, P: Files> {
    c: P::Core,
    options: &'o PagedOptions,
    log: PagedLogOptions,
    found: FoundDirectory,
    analysis: Analysed,
    tail: LogTail,
    /// The name of the life that begins.
    life: u64,
}

impl<P: Files> Opening<'_, P> {
    fn run(
        mut self,
        directory: P::Directory,
        queue: &mut P::Queue,
        declared: Declared,
        listener: &mut Listener<'_>,
    ) -> Result<(PagedDatabase<P>, Recovered), PagedError> {
        let c = self.c;
        let mut options = self.options.clone();
        options.pages_max = options.pages_max.max(2 * self.analysis.states.len() as u64);
        let doubted = self.analysis.analysis.take_doubted();
        options.parts_max = options.parts_max.max(doubted.len());
        let (generation, begins) = self.begins();
        let log = self.begin_log(&directory, queue, options.owners_in_log())?;
        let existence = if self.found.files.is_some() { Existence::Old } else { Existence::New };
        let path = options.directory.clone().unwrap_or_default();
        let (page_bytes, identity) = (options.page_bytes, self.found.master.identity);
        let about = PageFileAttributes { page_bytes, identity, lives: self.lives(begins) };
        let file = PageFile::open(c, &path, directory, existence, about)?;
        let pool = Pool::new(c, &options, Some(file), Some(log))?;
        pool.set_states(c, &self.analysis.states)?;
        pool.find_free(c);
        let restarted = self.restart(&mut pool.worker(c, options.sessions_max.max(1)), queue, listener);
        if let (Err(_), Some(log)) = (&restarted, pool.log()) {
            log.withdraw(c);
        }
        restarted?;
        let mut worker = pool.worker(c, options.sessions_max.max(1));
        let (tables, descriptions) = make_tables(&mut worker, declared, &self.found.by_table)?;
        drop(worker);
        let fixed = self.fixed(&tables, &descriptions, self.lives(begins));
        let carried =
            UndecidedContent { parts: known(&doubted), decisions: self.analysis.analysis.decisions() };
        let checkpoints = Checkpoints::new(c, &pool, self.log.checkpoint_bytes, fixed, carried)?;
        if let (Some(checkpoints), Some(log)) = (&checkpoints, pool.log()) {
            checkpoints.make(c, &pool, log)?;
        }
        // The checkpoint names the log from before no more.
        for name in self.found.files.iter().flat_map(|files| files.names_before(generation)) {
            P::perform(c, queue, Operation::Remove { name }).result?;
        }
        let Analysis { records, changes, .. } = self.analysis.analysis;
        let recovered = Recovered {
            records,
            changes,
            log_bytes: self.tail.bytes,
            opening: generation,
            in_doubt: doubted.len() as u64,
            ..Recovered::default()
        };
        let database = PagedDatabase::new(c, &options, pool, tables, descriptions, checkpoints)?;
        doubted.into_iter().try_for_each(|doubted| database.shared.adopt(c, doubted))?;
        Ok((database, recovered))
    }

    /// Makes all changes that count, and none that do not.
    fn restart(
        &mut self,
        worker: &mut PoolWorker<'_, P>,
        queue: &mut P::Queue,
        listener: &mut Listener<'_>,
    ) -> Result<(), PagedError> {
        self.redo(worker, queue, listener)?;
        self.analysis.analysis.undo(worker, &self.found.trees)
    }

    /// The generation of this life, and the first byte of its log: behind all that is there.
    fn begins(&self) -> (u64, Lsn) {
        self.found.files.as_ref().map_or((1, Lsn(0)), |files| {
            let generation = files.next_generation().max(self.found.master.generation + 1);
            (generation, files.behind(self.log.segment_bytes))
        })
    }

    /// All lives, with this one.
    fn lives(&self, begins: Lsn) -> Vec<Life> {
        let mut more = self.tail.lives.clone();
        more.push(Life { name: self.life, continues: self.tail.lsn, begins });
        self.found.master.lives_with(&more)
    }

    /// Begins the log of this life.
    fn begin_log(
        &self,
        directory: &P::Directory,
        queue: &mut P::Queue,
        owners: usize,
    ) -> Result<Log<P>, PagedError> {
        let c = self.c;
        let segment_bytes = self.log.segment_bytes;
        let (generation, begins) = self.begins();
        if let Some(files) = &self.found.files {
            for name in files.torn() {
                P::perform(c, queue, Operation::Remove { name: name.clone() }).result?;
            }
            files.keep::<P>(c, queue, &self.tail)?;
        }
        let names =
            SegmentNames { identity: self.found.master.identity, life: self.life, follows: self.tail.life };
        let segments = SegmentPlan { bytes: segment_bytes, names, generation, continues: self.tail.lsn };
        let buffer_bytes = self.log.buffer_bytes;
        // One worker more than sessions: that of openings.
        let workers = self.options.sessions_max.max(1) + 1;
        let (nodes, fills_apart) = (self.options.nodes.clone(), self.options.has_aether());
        let plan = LogPlan { segments, buffer_bytes, workers, owners, nodes, begins, fills_apart };
        Log::begin(c, directory, plan)
    }

    /// Reads the log for the second time, and makes all changes that pages do not have.
    fn redo(
        &self,
        worker: &mut PoolWorker<'_, P>,
        queue: &mut P::Queue,
        listener: &mut Listener<'_>,
    ) -> Result<(), PagedError> {
        let Some(files) = &self.found.files else { return Ok(()) };
        let (redo, start) = (self.found.master.redo, self.found.master.start());
        let mut repeated = 0;
        report(listener, Stage::Repeating, 0);
        files.read::<P>(self.c, queue, start, &mut |lsn, logged| {
            repeated += 1;
            if lsn > redo { restart::redo(worker, lsn, &logged) } else { Ok(()) }
        })?;
        report(listener, Stage::Repeating, repeated);
        Ok(())
    }

    /// The content of checkpoints from now on.
    fn fixed(&self, tables: &[Table], descriptions: &[TableDescription], lives: Vec<Life>) -> FixedContent {
        let mut description = self.found.description.clone();
        let mut trees: Vec<Tree> = tables.iter().flat_map(Table::all_trees).collect();
        trees.sort_by_key(|tree| tree.number);
        for table in descriptions {
            if description.tables.iter().all(|known| known.table.name() != table.name()) {
                let id = description.next_id;
                description.next_id += 1;
                let table = table.clone();
                description.tables.push(DirectoryTable { id, dropped: None, continued_by: None, table });
            }
        }
        FixedContent {
            identity: self.found.master.identity,
            lives,
            page_bytes: self.options.page_bytes,
            description: description.encode(),
            roots: trees.iter().map(Tree::root).collect(),
        }
    }
}
