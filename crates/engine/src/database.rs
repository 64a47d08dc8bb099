//! A database of one instance: tables are made from a schema, loaded, and worked on through
//! sessions. Durable databases are opened and closed in `recovery/opening.rs`.

use boundary::{Decision, Elder, PartOf, SchemaBuilder};
use concurrency::{Instance, InstanceOptions, RowCopies, Scheme, TableShape, TooManySessions};
use platform::{Nanos, Node, OutOfMemory, Platform};
use redo_log::{LogError, LogUse, Target};
use schema::TableDescription;
use storage::index::Shape;
use storage::{MemoryUse, Optimisation, last_complete};
use terms::{Abort, Epoch};

use crate::durable::{Durable, RedoWriter, not_durable};
use crate::participants::parts::{KeptPart, Prepared};
use crate::participants::undecided::Undecided;
use crate::session::MemorySession;
use crate::tables::table_list::TableList;
use crate::transaction::Scratch;
use crate::transaction::columns::Columns;

/// Time between two checks of a commit of another worker that is waited for.
const COMMIT_PAUSE_NANOS: u64 = 1_000;

/// A database of one instance under scheme `S`.
pub struct MemoryDatabase<P: Platform, S: Scheme<P>> {
    pub(crate) instance: Instance<P, S>,
    pub(crate) tables: TableList<P>,
    elder: Elder<P>,
    /// The columns of rows, for access to rows that is not compiled.
    columns: Option<Columns<P>>,
    row_copies: RowCopies,
    pub(crate) durable: Option<Durable<P>>,
    /// There if the database is durable.
    pub(crate) undecided: Option<Undecided<P, S>>,
}

impl<P: Platform, S: Scheme<P>> MemoryDatabase<P, S> {
    /// Makes the declared tables, empty; `node_of` says where partition `i` of a table lives.
    pub fn create(
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        node_of: &dyn Fn(usize) -> Option<Node>,
    ) -> Result<Self, OutOfMemory> {
        let declared = schema.tables.into_iter().map(|declared| (declared.description, declared.shape));
        let (tables, mut shapes): (Vec<TableDescription>, Vec<TableShape>) = declared.unzip();
        let interpreted = !options.optimisations.has(Optimisation::CompiledRows);
        let columns = interpreted.then(|| Columns::new(c, &tables)).transpose()?;
        for index in shapes.iter_mut().flat_map(|shape| &mut shape.indexes) {
            if !options.optimisations.has(Optimisation::HashIndex) {
                index.partitions.iter_mut().for_each(|(shape, _)| *shape = Shape::Tree(index.words));
            }
            let nodes = (0..).map(node_of);
            index.partitions.iter_mut().zip(nodes).for_each(|(partition, node)| partition.1 = node);
        }
        let instance = Instance::new(c, options, &shapes)?;
        let (elder, row_copies) = (Elder::new(c, options.faults)?, options.ways.row_copies);
        let tables = TableList::new(c, tables, options.spare_tables, options.faults)?;
        Ok(MemoryDatabase { instance, tables, elder, columns, row_copies, durable: None, undecided: None })
    }

    /// The work of the log since the database was opened; `None` if the database is not durable.
    pub fn log_used(&self, c: P::Core) -> Option<LogUse> {
        self.durable.as_ref().map(|durable| durable.journal.used(c, self.instance.epochs()))
    }

    /// How many checkpoints have ended since the database was opened, and how the last of them did.
    pub fn checkpoints(&self, c: P::Core) -> (u64, Result<(), LogError>) {
        let checkpoints = self.durable.as_ref().map(|durable| &durable.checkpoints);
        checkpoints.map_or((0, Ok(())), |checkpoints| (checkpoints.ended(c), checkpoints.last(c)))
    }

    /// True if an outcome survives whatever happens: see [`MemorySession::is_durable`].
    pub fn is_durable(&self, c: P::Core, outcome: Epoch) -> bool {
        self.durable.as_ref().is_none_or(|durable| durable.journal.durable(c) >= outcome.0)
    }

    /// Waits until an outcome is durable, no longer than until the deadline, if there is one;
    /// returns true if it is. No session of the caller is inside an epoch: see
    /// [`MemorySession::wait_durable_until`].
    ///
    /// # Errors
    /// The log has stopped: the outcome is not to be acknowledged.
    pub fn wait_durable_until(
        &self,
        c: P::Core,
        outcome: Epoch,
        deadline: Option<Nanos>,
    ) -> Result<bool, Abort> {
        self.wait_for(c, Target { epoch: outcome.0, deadline, by_epoch: true })
    }

    /// The number of the last whole group of the log that was begun, for [`Self::is_written`]; 0
    /// without a log.
    pub fn whole_groups(&self, c: P::Core) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.journal.whole_groups(c))
    }

    /// True if an outcome survives whatever happens, about which [`Self::whole_groups`] was asked
    /// when it was there: groups are durable before their epochs are.
    pub fn is_written(&self, c: P::Core, outcome: Epoch, begun: u64) -> bool {
        let is_in_group = |durable: &Durable<P>| durable.journal.has_whole_since(c, begun);
        self.is_durable(c, outcome) || self.durable.as_ref().is_some_and(is_in_group)
    }

    /// As [`Self::wait_durable_until`], for a caller that does not ask again: see
    /// [`MemorySession::wait_written_until`].
    ///
    /// # Errors
    /// As [`Self::wait_durable_until`].
    pub fn wait_written_until(
        &self,
        c: P::Core,
        outcome: Epoch,
        deadline: Option<Nanos>,
    ) -> Result<bool, Abort> {
        self.wait_for(c, Target { epoch: outcome.0, deadline, by_epoch: false })
    }

    fn wait_for(&self, c: P::Core, target: Target) -> Result<bool, Abort> {
        let Some(durable) = &self.durable else { return Ok(true) };
        let waited = durable.journal.wait(c, self.instance.epochs(), target);
        waited.map_err(|error| not_durable(&error))
    }

    /// Moves epochs on until snapshots that begin from now on show what was committed before this
    /// call, no longer than until the deadline; returns true if they do. Commits under way are
    /// waited for, no other transaction. The caller is in none.
    pub fn let_snapshots_show(&self, c: P::Core, deadline: Nanos) -> bool {
        let epochs = self.instance.epochs();
        // A snapshot shows the epochs that are complete when its transaction enters.
        let wanted = epochs.current(c).0;
        while last_complete(epochs.current(c)).0 < wanted {
            if !epochs.try_advance(c) {
                if P::now(c) >= deadline {
                    return false;
                }
                P::rest(c, COMMIT_PAUSE_NANOS);
            }
        }
        true
    }

    /// Ends loading: from now on read-only tables are never written, need no concurrency control,
    /// and have a copy on each of the nodes that the options name. No session is open when this is
    /// called, and no transaction is prepared.
    ///
    /// # Errors
    /// There is no memory for the copies.
    pub fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        self.instance.loaded(c)?;
        self.instance.settle(c);
        Ok(())
    }

    /// The instance.
    pub fn instance(&self) -> &Instance<P, S> {
        &self.instance
    }

    /// Descriptions of its tables by their numbers, also of tables that were dropped since the
    /// database was opened. Errors and reports of the layers below name tables and indexes by
    /// numbers alone.
    pub fn tables(&self) -> &[TableDescription] {
        self.tables.get()
    }

    /// Bytes taken from the machine for rows and indexes.
    pub fn memory_bytes(&self, c: P::Core) -> u64 {
        self.instance.memory_use(c).reserved
    }

    /// How much of it is used; see [`storage::Memory::memory_use`].
    pub fn memory_use(&self, c: P::Core) -> MemoryUse {
        self.instance.memory_use(c)
    }

    /// A session for the calling core: new rows lie on `node`; `measure` keeps a breakdown of its
    /// time.
    pub fn session(
        &self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<MemorySession<'_, P, S>, TooManySessions> {
        let mut inner = self.instance.session(c, node, measure)?;
        // The worker may have been another session's, whose last transaction failed.
        S::turn_to_another(inner.worker(), false);
        let redo = self.durable.as_ref().map(|durable| RedoWriter::new(c, durable, &self.tables, node));
        let scratch = Scratch::new(self.instance.optimisations(), self.row_copies, self.columns.as_ref());
        let scratch = scratch.with_tables(&self.tables);
        Ok(MemorySession::new(inner, redo, self.undecided.as_ref(), scratch, &self.elder, &self.tables))
    }

    /// The parts of transactions over several databases that were prepared before the database was
    /// opened, durably, and not finished. Their rows are theirs until some session
    /// [finishes](MemorySession::finish_as) them. Each is given once.
    pub fn in_doubt(&self, c: P::Core) -> Vec<(PartOf, Prepared<'_, P, S>)> {
        let found = self.undecided.as_ref().map_or(Vec::new(), |undecided| undecided.take_in_doubt(c));
        let prepared = |number| Prepared::of(KeptPart::Inside(number), &self.instance);
        found.into_iter().map(|(part, number)| (part, prepared(number))).collect()
    }

    /// The transactions that this database has decided to commit, and not forgotten since, whenever
    /// that was.
    pub fn decisions(&self, c: P::Core) -> Vec<Decision> {
        self.undecided.as_ref().map_or(Vec::new(), |undecided| undecided.decisions(c))
    }
}
