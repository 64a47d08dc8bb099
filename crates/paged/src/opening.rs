//! How a database begins: a new one, or what a directory holds.

use std::path::Path;

use engine::durable::SchemaError;
use engine::durable::description::{Description, DirectoryTable};
use engine::{Progress, Recovered, SchemaBuilder, Stage, TableDescription};
use platform::files::{Existence, Files, Operation};
use storage::log::LogError;

use crate::channel::{self, PageFile};
use crate::checkpoint::{Checkpoints, Fixed};
use crate::database::PagedDatabase;
use crate::locks::LockManager;
use crate::log::reader::{LogFiles, Tail};
use crate::log::record::Logged;
use crate::log::segments::{self, SegmentPlan};
use crate::log::{Log, LogPlan};
use crate::lsn::Lsn;
use crate::master::{self, Life, Master};
use crate::options::{PagedError, PagedLogOptions, PagedOptions};
use crate::overflow;
use crate::pool::{Pool, Worker};
use crate::restart::{self, Analysis, Doubted};
use crate::shared::Shared;
use crate::tables::Table;
use crate::tree::Tree;
use crate::undecided::{Carried, KnownPart};

/// Hears how far an opening is.
pub type Listener<'l> = Option<&'l mut dyn FnMut(Progress)>;

/// What is declared.
type Declared = Vec<(TableDescription, cc::TableShape)>;

impl<P: Files> PagedDatabase<P> {
    /// Makes the declared tables, empty. Without a log nothing of them outlives the process.
    ///
    /// # Errors
    /// There is no memory, the pool is too small, rows are too long, or the files cannot be made.
    pub fn create(c: P::Core, options: &PagedOptions, schema: SchemaBuilder) -> Result<Self, PagedError> {
        let file = match &options.directory {
            Some(path) => {
                let directory = P::open_directory(c, path, true)?;
                Some(PageFile::open(c, (path, directory), Existence::New, options.page_bytes)?)
            }
            None => None,
        };
        let pool = Pool::new(c, options, (file, None))?;
        let mut worker = pool.worker(c, 0);
        let (tables, descriptions) = make_tables(&mut worker, schema.into_tables(), &[])?;
        drop(worker);
        PagedDatabase::new(c, options, (pool, tables, descriptions), None)
    }

    fn new(
        c: P::Core,
        options: &PagedOptions,
        (pool, tables, descriptions): (Pool<P>, Vec<Table>, Vec<TableDescription>),
        checkpoints: Option<Checkpoints<P>>,
    ) -> Result<Self, PagedError> {
        let locks = LockManager::new(c, options, tables.len())?;
        let shared = Shared::new(c, options, (pool, locks, tables), checkpoints)?;
        Ok(PagedDatabase { shared, descriptions })
    }

    /// Opens the database that the directory of the options holds, or makes a new one there; changes are logged.
    ///
    /// # Errors
    /// The directory holds something else, or other tables; files are damaged or cannot be read or written; there is no memory.
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
        let names = P::perform(c, &mut queue, Operation::List).into_entries()?;
        let names: Vec<String> = names.into_iter().map(|entry| entry.name).collect();
        let exists = exists::<P>(c, &mut queue, (path, &names))?;
        let declared = schema.into_tables();
        let found = match exists {
            true => Found::read::<P>(c, &mut queue, &declared)?,
            false => {
                for name in names {
                    P::perform(c, &mut queue, Operation::Remove { name }).result?;
                }
                Found::nothing(options.page_bytes)
            }
        };
        if found.master.page_bytes != options.page_bytes {
            let (found, asked) = (found.master.page_bytes, options.page_bytes);
            return Err(PagedError::OtherPages { path: path.clone(), found, asked });
        }
        let (analysis, tail) = found.analyse::<P>(c, &mut queue, &mut listener)?;
        let opening = Opening { c, options, log, found, analysis, tail };
        let (database, mut recovered) = opening.run(directory, &mut queue, declared, &mut listener)?;
        recovered.existed = exists;
        recovered.nanos = P::now(c).since(began);
        Ok((database, recovered))
    }
}

/// Whether a directory with these files has a database; one that was never made as a whole counts as none: nothing was ever logged in it.
fn exists<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    (path, names): (&Path, &[String]),
) -> Result<bool, PagedError> {
    if names.iter().any(|name| name == master::NAME) {
        return Ok(true);
    }
    if names.iter().any(|name| name == storage::log::MANIFEST) {
        return Err(PagedError::OtherEngine(path.to_path_buf()));
    }
    let made = [channel::NAME, master::NEW_NAME, segments::NEW_NAME];
    let is_ours = |name: &String| made.contains(&&name[..]) || segments::parse(name).is_some();
    if !names.iter().all(is_ours) {
        return Err(LogError::NotADatabase(path.to_path_buf()).into());
    }
    if !LogFiles::find::<P>(c, queue)?.has_nothing::<P>(c, queue)? {
        let what = "it is not there, and the log has records";
        return Err(LogError::Damaged { file: master::NAME.to_owned(), offset: 0, what }.into());
    }
    Ok(false)
}

/// Makes tables; those of which the directory has roots are there already.
fn make_tables<P: Files>(
    worker: &mut Worker<'_, P>,
    declared: Declared,
    known: &[(String, Vec<Tree>)],
) -> Result<(Vec<Table>, Vec<TableDescription>), PagedError> {
    let mut first: u32 = known.iter().map(|(_, trees)| trees.len() as u32).sum();
    let (mut tables, mut descriptions) = (Vec::new(), Vec::new());
    for (description, shape) in declared {
        let trees = known.iter().find(|(name, _)| name == description.name()).map(|(_, trees)| &trees[..]);
        let table = Table::create(worker, (&description, shape), (first, trees))?;
        if trees.is_none() {
            first += table.all_trees().count() as u32;
        }
        tables.push(table);
        descriptions.push(description);
    }
    Ok((tables, descriptions))
}

/// What a directory has.
struct Found {
    master: Master,
    /// The directory's tables, in the order of their trees.
    description: Description,
    files: Option<LogFiles>,
    /// All trees, by number, and those of each table.
    trees: Vec<Tree>,
    by_table: Vec<(String, Vec<Tree>)>,
}

impl Found {
    fn nothing(page_bytes: usize) -> Self {
        let master = Master::nothing(page_bytes);
        let (trees, by_table) = (Vec::new(), Vec::new());
        Found { master, description: Description::default(), files: None, trees, by_table }
    }

    fn read<P: Files>(c: P::Core, queue: &mut P::Queue, declared: &Declared) -> Result<Self, PagedError> {
        let master = Master::read::<P>(c, queue)?;
        let description = Description::decode(&master.description).map_err(SchemaError::from)?;
        let (mut trees, mut by_table) = (Vec::new(), Vec::new());
        for stored in &description.tables {
            let table = stored.table.name();
            let declared = declared.iter().find(|(other, _)| other.name() == table);
            let Some((description, shape)) = declared else {
                return Err(SchemaError::Undeclared { table: table.to_owned() }.into());
            };
            if let Some(difference) = stored.table.difference_from(description) {
                let engine::table_limits::Difference { part, found, declared } = difference;
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
        Ok(Found { master, description, files, trees, by_table })
    }

    /// Reads the log for the first time.
    fn analyse<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        listener: &mut Listener<'_>,
    ) -> Result<(Analysed, Tail), PagedError> {
        let analysis = Analysis::from(&self.master.carried, &self.trees)?;
        let mut analysed = Analysed { analysis, states: self.master.states.clone() };
        let Some(files) = &self.files else { return Ok((analysed, Tail::NONE)) };
        let Master { redo, low, durable, .. } = self.master;
        tell(listener, Stage::Reading, 0);
        let tail = files.read::<P>(c, queue, (low, durable), &mut |lsn, logged| {
            if lsn > redo
                && let Logged::Change(change) = &logged
            {
                restart::follow_states(&mut analysed.states, change);
            }
            analysed.analysis.follow(&self.trees, &logged)
        })?;
        tell(listener, Stage::Reading, tail.bytes);
        Ok((analysed, tail))
    }
}

/// What the log says, read once.
struct Analysed {
    analysis: Analysis,
    /// What is known of all pages at its end.
    states: Vec<u64>,
}

fn tell(listener: &mut Listener<'_>, stage: Stage, done: u64) {
    if let Some(listener) = listener {
        listener(Progress { stage, done, total: done });
    }
}

/// Parts in doubt, as checkpoints say them.
fn known(doubted: &[Doubted]) -> Vec<KnownPart> {
    let known = doubted.iter().map(|Doubted { transaction, part, undo }| {
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
    found: Found,
    analysis: Analysed,
    tail: Tail,
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
        let log = self.begin_log(&directory, queue, options.owners_in_log())?;
        let generation = log.generation();
        let existence = if self.found.files.is_some() { Existence::Old } else { Existence::New };
        let path = options.directory.clone().unwrap_or_default();
        let file = PageFile::open(c, (&path, directory), existence, options.page_bytes)?;
        let pool = Pool::new(c, &options, (Some(file), Some(log)))?;
        pool.set_states(c, &self.analysis.states)?;
        pool.find_free(c);
        let mut worker = pool.worker(c, options.sessions_max.max(1));
        self.redo(&mut worker, queue, listener)?;
        self.analysis.analysis.undo(&mut worker, &self.found.trees)?;
        let (tables, descriptions) = make_tables(&mut worker, declared, &self.found.by_table)?;
        drop(worker);
        let fixed = self.fixed(&tables, &descriptions)?;
        let carried = Carried { parts: known(&doubted), decisions: self.analysis.analysis.decisions() };
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
        let database = PagedDatabase::new(c, &options, (pool, tables, descriptions), checkpoints)?;
        doubted.into_iter().try_for_each(|doubted| database.shared.adopt(c, doubted))?;
        Ok((database, recovered))
    }

    /// Begins the log of this life, behind all that is there.
    fn begin_log(
        &self,
        directory: &P::Directory,
        queue: &mut P::Queue,
        owners: usize,
    ) -> Result<Log<P>, PagedError> {
        let c = self.c;
        let segment_bytes = self.log.segment_bytes;
        let (generation, begins) = match &self.found.files {
            Some(files) => {
                for name in files.torn() {
                    P::perform(c, queue, Operation::Remove { name: name.clone() }).result?;
                }
                files.keep::<P>(c, queue, self.tail)?;
                let generation = files.next_generation().max(self.found.master.generation + 1);
                (generation, files.behind(segment_bytes))
            }
            None => (1, Lsn(0)),
        };
        let segments = SegmentPlan { bytes: segment_bytes, generation, continues: self.tail.lsn };
        let buffer_bytes = self.log.buffer_bytes;
        // One worker more than sessions: that of openings.
        let workers = self.options.sessions_max.max(1) + 1;
        let fills_apart = self.options.has_aether();
        Log::begin(c, directory, LogPlan { segments, buffer_bytes, workers, owners, begins, fills_apart })
    }

    /// Reads the log for the second time, and makes all changes that pages do not have.
    fn redo(
        &self,
        worker: &mut Worker<'_, P>,
        queue: &mut P::Queue,
        listener: &mut Listener<'_>,
    ) -> Result<(), PagedError> {
        let Some(files) = &self.found.files else { return Ok(()) };
        let Master { redo, low, durable, .. } = self.found.master;
        let mut repeated = 0;
        tell(listener, Stage::Repeating, 0);
        files.read::<P>(self.c, queue, (low, durable), &mut |lsn, logged| {
            repeated += 1;
            if lsn > redo { restart::redo(worker, lsn, &logged) } else { Ok(()) }
        })?;
        tell(listener, Stage::Repeating, repeated);
        Ok(())
    }

    /// What checkpoints say from now on.
    fn fixed(&self, tables: &[Table], descriptions: &[TableDescription]) -> Result<Fixed, PagedError> {
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
        let life = Life { name: P::timestamp(self.c), continues: self.tail.lsn };
        Ok(Fixed {
            lives: self.found.master.lives_with(life),
            page_bytes: self.options.page_bytes,
            description: description.encode(),
            roots: trees.iter().map(Tree::root).collect(),
        })
    }
}
