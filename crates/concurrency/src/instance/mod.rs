//! One instance: tables, their memory, and the sessions that work on them.
//!
//! While tables are filled, all sessions share one catalog. [`Instance::loaded`] makes those that
//! they use afterwards, one for each memory node, and the copies of tables that are never written.

mod inspection;

use std::sync::Arc;

use platform::{Node, OutOfMemory, Platform};
use storage::index::Shape;
use storage::{Epochs, Latched, Local, Memory, MemoryUse, Optimisation, Optimisations, Partition, Table};
use terms::Epoch;
use terms::rows::KeyBytes;

use crate::catalog::{
    Catalog, Descriptors, IndexDraft, TableDraft, Tables, copy_table, lay_out, lay_out_one,
};
use crate::meter::Meter;
use crate::options::InstanceOptions;
use crate::scheme::{Context, Filling, Parts, WorkerState};
use crate::ways::RowLock;
use crate::writes::ROW_BYTES_MAX;

pub use inspection::{Content, Structure};

/// Epochs after which every snapshot shows what was committed before.
const SETTLING_EPOCHS: u32 = 4;

/// Description of an index to make.
#[derive(Clone, Debug)]
pub struct IndexShape {
    /// Words of its keys: 1, 2, 4, 5 or 8.
    pub words: usize,
    /// Leading key column of partition 0; `None` if keys do not name their partition.
    pub first: Option<u16>,
    /// Shape and node of each partition.
    pub partitions: Vec<(Shape, Option<Node>)>,
}

/// Description of a table to make. Tables and indexes have no names here: errors and reports name
/// them by their numbers.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// Words of a row, the pointer to its tail included.
    pub row_words: u32,
    /// True if rows have a tail.
    pub has_tail: bool,
    /// Never written after [`Instance::loaded`].
    pub read_only: bool,
    /// Words of rows, as [`terms::rows::word_set`] names them, that are never written after
    /// [`Instance::loaded`]. If there are any, no row is inserted or deleted after that.
    pub constant: u64,
    /// As [`Table::key_bytes`].
    pub key_bytes: Vec<KeyBytes>,
    /// As [`Table::key_tail`].
    pub key_tail: Vec<usize>,
    /// As [`Table::key_in_tail`].
    pub key_in_tail: bool,
    /// Index 0 is the primary key.
    pub indexes: Vec<IndexShape>,
}

/// All sessions of an instance are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {0} sessions are in use: end one, or open the database for more")]
pub struct TooManySessions(pub usize);

/// A worker without a session: its memory, and, if it has had a session before, what the scheme
/// keeps for it.
struct IdleWorker<P: Platform, S: Parts<P>> {
    node: Option<Node>,
    local: Local<P>,
    state: Option<S::WorkerState>,
    /// Attempts of transactions so far.
    attempts: u32,
}

/// The workers of an instance.
struct WorkerPool<P: Platform, S: Parts<P>> {
    idle: Vec<IdleWorker<P, S>>,
    /// Workers made so far.
    made: usize,
    /// Sessions that are open.
    sessions: usize,
    /// The worker that is inside an epoch for the threads that inspect the instance, and the number
    /// of those threads.
    pinned: Option<(IdleWorker<P, S>, usize)>,
}

impl<P: Platform, S: Parts<P>> WorkerPool<P, S> {
    fn new() -> Self {
        WorkerPool { idle: Vec::new(), made: 0, sessions: 0, pinned: None }
    }
}

/// The use of a table when all are filled.
struct Outlook {
    read_only: bool,
    /// Words of its rows that no transaction writes then.
    constant: u64,
    /// The node of all its partitions, if they are on one.
    node: Option<Node>,
}

impl Outlook {
    fn of(shape: &TableShape) -> Self {
        let mut nodes = shape.indexes.iter().flat_map(|index| index.partitions.iter().map(|(_, node)| *node));
        let node = nodes.next().flatten().filter(|first| nodes.all(|node| node == Some(*first)));
        Outlook { read_only: shape.read_only, constant: shape.constant, node }
    }
}

/// One instance of a database under scheme `S`.
///
/// Field order matters: what points into `memory` and `epochs` is dropped before them.
pub struct Instance<P: Platform, S: Parts<P>> {
    /// At least one; after loading one for each of the nodes.
    catalogs: Vec<Catalog<P>>,
    /// By table.
    outlooks: Vec<Outlook>,
    nodes: Vec<Node>,
    spare_tables: usize,
    optimisations: Optimisations,
    row_lock: RowLock,
    loaded: bool,
    shared: S::SharedState,
    workers: Latched<P, WorkerPool<P, S>>,
    sessions_max: usize,
    wait_nanos_max: u64,
    // Shared from the beginning: workers hold their addresses, which a box that moves with the
    // instance would claim for itself.
    epochs: Arc<Epochs<P>>,
    memory: Arc<Memory<P>>,
}

impl<P: Platform, S: Parts<P>> Instance<P, S> {
    /// An instance with these tables, empty.
    pub fn new(c: P::Core, options: &InstanceOptions, shapes: &[TableShape]) -> Result<Self, OutOfMemory> {
        assert!(
            options.spare_tables == 0 || options.nodes.is_empty(),
            "an instance that tables are added to has one catalog"
        );
        // One more for the instance's own use while it makes tables.
        let workers = options.sessions_max + 1;
        let mut instance = Instance {
            catalogs: Vec::new(),
            outlooks: shapes.iter().map(Outlook::of).collect(),
            nodes: options.nodes.clone(),
            spare_tables: options.spare_tables,
            optimisations: options.optimisations,
            row_lock: options.ways.row_lock,
            loaded: false,
            shared: S::shared(c, workers, options)?,
            workers: Latched::new(c, "sessions", WorkerPool::new())?,
            sessions_max: options.sessions_max,
            wait_nanos_max: options.wait_nanos_max,
            epochs: Arc::new(Epochs::new(c, workers, options.epoch_nanos)?),
            memory: Arc::new(Memory::with_optimisations(
                c,
                options.memory_bytes_max,
                workers,
                options.optimisations,
            )?),
        };
        let mut partition = |kind, node| {
            // SAFETY: the partition becomes part of this instance, whose fields are dropped before
            // its memory; all uses go through sessions, which are inside their epoch while a
            // transaction runs.
            instance.with_local(c, node, |local| unsafe { Partition::new(c, local, kind) })
        };
        let drafts = shapes.iter().map(|shape| draft(shape, &mut partition)).collect::<Result<_, _>>()?;
        // SAFETY: catalogs are dropped before the memory.
        let tables = unsafe { lay_out(c, &instance.memory, None, drafts, instance.spare_tables)? };
        instance.catalogs.push(Catalog { node: None, tables });
        Ok(instance)
    }
}

/// A table of this shape; `partition` makes each partition.
fn draft<P: Platform>(
    shape: &TableShape,
    partition: &mut dyn FnMut(Shape, Option<Node>) -> Result<Partition<P>, OutOfMemory>,
) -> Result<TableDraft<P>, OutOfMemory> {
    assert!(!shape.indexes.is_empty() && shape.indexes.len() <= 16, "a table has 1 to 16 indexes");
    let words = shape.row_words as usize;
    assert!(words >= usize::from(shape.has_tail) && words * 8 <= ROW_BYTES_MAX, "rows have room for all");
    let mut indexes = Vec::new();
    for index in &shape.indexes {
        let partitions = index.partitions.iter().map(|(kind, node)| partition(*kind, *node));
        let partitions = partitions.collect::<Result<_, _>>()?;
        let IndexShape { words, first, .. } = *index;
        indexes.push(IndexDraft { words, first, partitions: Descriptors::Own(partitions) });
    }
    let TableShape { row_words, has_tail, key_in_tail, .. } = *shape;
    let (key_bytes, key_tail) = (shape.key_bytes.clone(), shape.key_tail.clone());
    let (read_only, constant) = (false, 0);
    Ok(TableDraft { row_words, has_tail, read_only, constant, key_bytes, key_tail, key_in_tail, indexes })
}

impl<P: Platform, S: Filling<P>> Instance<P, S> {
    /// Ends the filling of tables: no transaction runs or is prepared. From now on tables and words
    /// of rows that are never written need no concurrency control (unless rows that were deleted
    /// are still to go), and sessions use the catalogs and copies of their nodes. What needs no
    /// concurrency control is not written: verbs refuse to. Without [`Optimisation::ReadOnlySkip`]
    /// nothing refuses to write such a table, but sessions on other nodes would not see it, or such
    /// words, which are read like others then.
    ///
    /// # Errors
    /// There is no memory for them: all is as before, but for the memory that is in use.
    pub fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        if self.loaded {
            return Ok(());
        }
        let nodes: Vec<_> = match self.nodes.is_empty() {
            true => vec![None],
            false => self.nodes.iter().copied().map(Some).collect(),
        };
        let filled = self.catalogs[0].tables.get(c);
        let shares = !self.optimisations.has(Optimisation::ReplicateIndex);
        let tables = || filled.iter().zip(&self.outlooks);
        let fixed: Vec<bool> = tables().map(|(table, outlook)| self.is_fixed(c, table, outlook)).collect();
        let skips = self.optimisations.has(Optimisation::ReadOnlySkip);
        // Copies of a row have no managers of their own: rows that are locked have one place then.
        let copyable = skips || self.row_lock == RowLock::Word;
        let copies_are_wanted =
            self.nodes.len() > 1 && self.optimisations.has(Optimisation::Replicate) && copyable;
        let mut catalogs = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut drafts = Vec::with_capacity(filled.len());
            for ((table, outlook), fixed) in tables().zip(&fixed) {
                // The node on which it was filled needs no copy.
                let mut copies =
                    match *fixed && outlook.read_only && copies_are_wanted && node != outlook.node {
                        // SAFETY: the copies become part of this instance, as in `draft`.
                        true => Some(self.with_local(c, node, |local| unsafe {
                            copy_table::<P, S::Header>(c, local, table)
                        })?),
                        false => None,
                    };
                let alias = |partition: &Partition<P>| {
                    // SAFETY: as the partition itself, which is used under the same conditions.
                    unsafe { partition.alias() }
                };
                let free = *fixed && skips;
                let read_only = free && outlook.read_only;
                let constant = if free { outlook.constant } else { 0 };
                drafts.push(TableDraft::of(table, read_only, constant, |index| match &mut copies {
                    Some(copies) => Descriptors::Own(std::mem::take(&mut copies[index])),
                    // SAFETY: catalogs are dropped before the memory.
                    None if shares => Descriptors::Shared(unsafe { table.indexes[index].share_partitions() }),
                    None => {
                        Descriptors::Own(table.indexes[index].all_partitions().iter().map(alias).collect())
                    }
                }));
            }
            let place = node.filter(|_| !shares);
            // SAFETY: catalogs are dropped before the memory.
            let tables = unsafe { lay_out(c, &self.memory, place, drafts, self.spare_tables)? };
            catalogs.push(Catalog { node, tables });
        }
        self.catalogs = catalogs;
        self.loaded = true;
        Ok(())
    }

    /// Returns true if the table will have always the same rows, and all rows that its indexes name
    /// are present. A row that was deleted but is still in the indexes would be unlinked from one
    /// of the copies only, and readers without concurrency control would find it there.
    fn is_fixed(&self, c: P::Core, table: &Table<P>, outlook: &Outlook) -> bool {
        let mut all_present = outlook.read_only || outlook.constant != 0;
        if all_present {
            self.for_each_row(c, table, &mut |row| all_present &= S::is_present(c, row.header()));
        }
        all_present
    }
}

impl<P: Platform, S: Parts<P>> Instance<P, S> {
    /// Uses memory on `node`, inside an epoch.
    fn with_local<T>(&self, c: P::Core, node: Option<Node>, body: impl FnOnce(&mut Local<P>) -> T) -> T {
        let taken = self.workers.with(c, |pool| self.take_idle(pool, node, self.sessions_max + 1));
        let mut worker = taken.expect("one is always left");
        worker.local.enter(c);
        let result = body(&mut worker.local);
        worker.local.leave(c);
        self.workers.with(c, |pool| pool.idle.push(worker));
        result
    }

    /// Begins with this epoch: what an earlier instance has committed is older.
    pub fn begin_at(&mut self, c: P::Core, epoch: Epoch) {
        // SAFETY: no session borrows the instance, and idle workers are in no epoch.
        unsafe { self.epochs.begin_at(c, epoch) };
    }

    /// The epochs.
    pub fn epochs(&self) -> &Epochs<P> {
        &self.epochs
    }

    /// All tables, by number, as sessions on this node see them.
    fn tables(&self, c: P::Core, node: Option<Node>) -> &[Table<P>] {
        let own = self.catalogs.iter().find(|catalog| node.is_some() && catalog.node == node);
        own.unwrap_or(&self.catalogs[0]).tables.get(c)
    }

    /// How much memory there is for rows and indexes, and is used.
    pub fn memory_use(&self, c: P::Core) -> MemoryUse {
        self.memory.memory_use(c)
    }

    /// The optimisations that it has.
    pub fn optimisations(&self) -> Optimisations {
        self.optimisations
    }

    /// Removes an idle worker from the pool, of this node if there is one; makes a worker if fewer
    /// than `most` were made so far.
    fn take_idle(
        &self,
        pool: &mut WorkerPool<P, S>,
        node: Option<Node>,
        most: usize,
    ) -> Option<IdleWorker<P, S>> {
        let place = pool.idle.iter().rposition(|worker| worker.node == node);
        if let Some(place) = place {
            return Some(pool.idle.remove(place));
        }
        if pool.made >= most {
            // A worker of another node is better than none.
            return pool.idle.pop();
        }
        pool.made += 1;
        // SAFETY: memory and epochs lie on the heap, so they stay in place; they are dropped after
        // all locals, which live in `workers` or in sessions that borrow the instance. Each number
        // is given once.
        let local = unsafe { Local::new(&self.memory, &self.epochs, pool.made - 1, node) };
        Some(IdleWorker { node, local, state: None, attempts: 0 })
    }

    /// The worker of a new session.
    fn begin_session(&self, c: P::Core, node: Option<Node>) -> Option<IdleWorker<P, S>> {
        self.workers.with(c, |pool| {
            if pool.sessions >= self.sessions_max {
                return None;
            }
            pool.sessions += 1;
            // One worker more than sessions is made while a thread inspects the instance with the
            // worker of a session.
            let worker = self.take_idle(pool, node, self.sessions_max);
            worker.or_else(|| self.take_idle(pool, node, self.sessions_max + 1))
        })
    }

    /// Gives the worker of a session back to the pool.
    fn end_session(&self, c: P::Core, worker: IdleWorker<P, S>) {
        self.workers.with(c, |pool| {
            pool.sessions -= 1;
            pool.idle.push(worker);
        });
    }

    /// Lets epochs pass while no session is inside one: what was committed before is in all
    /// snapshots then.
    pub fn settle(&self, c: P::Core) {
        for _ in 0..SETTLING_EPOCHS {
            self.epochs.try_advance(c);
        }
    }

    /// A session for the calling core, with new rows on `node`. `measure`: with a breakdown of its
    /// time.
    pub fn session(
        &self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<WorkerContext<'_, P, S>, TooManySessions> {
        let idle = self.begin_session(c, node).ok_or(TooManySessions(self.sessions_max))?;
        let IdleWorker { node, local, state, attempts } = idle;
        let state = state.unwrap_or_else(|| S::worker(&self.shared, local.worker()));
        let brand = self.memory.address(c).0 ^ (local.worker() as u64) << 40;
        let brand = (brand.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let (meter, wait_nanos_max) = (Meter::new(measure), self.wait_nanos_max);
        let worker =
            WorkerState { local, meter, state, lookups: Vec::new(), wait_nanos_max, transaction_ends: None };
        Ok(WorkerContext {
            instance: self,
            tables: self.tables(c, node),
            grows: self.spare_tables > 0,
            c,
            node,
            brand,
            attempts,
            worker: Some(worker),
        })
    }
}

/// A worker's place in an instance: core, epoch, measurements. Ends when dropped.
pub struct WorkerContext<'i, P: Platform, S: Parts<P>> {
    instance: &'i Instance<P, S>,
    tables: &'i [Table<P>],
    /// True if there may be more of them before the next transaction.
    grows: bool,
    c: P::Core,
    node: Option<Node>,
    /// Distinguishes its attempts from those of other sessions.
    brand: u32,
    /// Attempts of this session's worker so far.
    attempts: u32,
    /// There until the session is dropped.
    worker: Option<WorkerState<P, S>>,
}

impl<'i, P: Platform, S: Parts<P>> WorkerContext<'i, P, S> {
    /// The core it runs on.
    #[inline(always)]
    pub fn core(&self) -> P::Core {
        self.c
    }

    /// The instance.
    pub fn instance(&self) -> &'i Instance<P, S> {
        self.instance
    }

    /// All tables, by number, as they were filled. Inside its epoch only, which it does not leave
    /// as long as the result is used.
    pub fn tables(&mut self) -> &[Table<P>] {
        assert!(self.worker().local.inside(), "indexes are used inside an epoch");
        self.instance.tables(self.c, None)
    }

    /// Adds a table, empty, which transactions can use that begin after this; its number. The
    /// session may be inside an epoch. `agree` receives the number when all is made that can fail
    /// for want of memory; if `agree` refuses, there is no such table. `None`: there is no place
    /// left. One core at a time adds tables.
    ///
    /// # Errors
    /// There is no memory, or an error of `agree`. What was taken until then stays in use.
    pub fn add_table<E: From<OutOfMemory>>(
        &mut self,
        shape: &TableShape,
        agree: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let (c, instance) = (self.c, self.instance);
        let Tables::Growing(tables) = &instance.catalogs[0].tables else { return Ok(None) };
        let number = tables.get(c).len();
        if !tables.has_room(c) {
            return Ok(None);
        }
        let was_inside = self.worker().local.inside();
        if !was_inside {
            self.enter();
        }
        let local = &mut self.worker().local;
        let made = draft(shape, &mut |kind, _| {
            // SAFETY: the partition becomes part of this instance, as in `Instance::new`.
            unsafe { Partition::new(c, local, kind) }
        });
        if !was_inside {
            self.leave();
        }
        // SAFETY: catalogs are dropped before the memory.
        let table = unsafe { lay_out_one(c, &instance.memory, made?)? };
        agree(number)?;
        let pushed =
            tables.push(c, table).unwrap_or_else(|_| unreachable!("there was room, and one core adds"));
        assert_eq!(pushed, number, "one core at a time adds tables");
        Ok(Some(number))
    }

    /// From now on the transaction under way can use the tables that were added since it began.
    pub fn learn_tables(&mut self) {
        if self.grows {
            self.tables = self.instance.tables(self.c, self.node);
        }
    }

    /// The node of its new rows.
    pub fn node(&self) -> Option<Node> {
        self.node
    }

    /// The worker.
    #[inline(always)]
    pub fn worker(&mut self) -> &mut WorkerState<P, S> {
        self.worker.as_mut().expect("a session has its worker until it is dropped")
    }

    /// The context of the verbs.
    #[inline(always)]
    pub fn context(&mut self) -> Context<'_, 'i, P, S> {
        let WorkerContext { instance, tables, c, .. } = *self;
        Context { c, tables, shared: &instance.shared, worker: self.worker() }
    }

    /// A number for another attempt of a transaction: none that is under way has it, and hardly any
    /// that is over.
    #[inline(always)]
    pub fn next_attempt(&mut self) -> u32 {
        self.attempts = self.attempts.wrapping_add(1);
        self.brand.wrapping_add(self.attempts)
    }

    /// Enters the current epoch: before each transaction.
    #[inline(always)]
    pub fn enter(&mut self) {
        let c = self.c;
        self.worker().local.enter(c);
        if self.grows {
            self.tables = self.instance.tables(c, self.node);
        }
    }

    /// Leaves the epoch: when no transaction follows soon.
    pub fn leave(&mut self) {
        let c = self.c;
        self.worker().local.leave(c);
    }
}

impl<P: Platform, S: Parts<P>> Drop for WorkerContext<'_, P, S> {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            worker.local.leave(self.c);
            let WorkerState { local, state, .. } = worker;
            let WorkerContext { node, attempts, .. } = *self;
            self.instance.end_session(self.c, IdleWorker { node, local, state: Some(state), attempts });
        }
    }
}
