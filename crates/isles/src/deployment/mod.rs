//! Several instances as one database, in one process.
//!
//! # Design
//!
//! A deployment divides its data into *parts*: a part is one value of the leading column, a `u16`,
//! of the primary keys of all tables. Parts are assigned to workers round-robin, and workers to
//! instances in contiguous groups. Each instance is a database of its own, with its share of the
//! memory and, if the deployment is durable, its own log and directory. Every instance has a copy
//! of each table that is only read.
//!
//! There are two ways to access a deployment:
//!
//! - a [`Session`] of one instance ([`Deployment::session`]) runs closures on the parts of that
//!   instance, on the calling thread, as a session of a [`Database`] does. It refuses keys of other
//!   instances' parts;
//! - a [`Procedure`] accesses any parts. A closure could not: a transaction over several instances
//!   sends each instance its whole branch in one message, and no branch stays open between messages
//!   (crate `distributed`). A procedure is therefore a value that lists all its steps at once.
//!   [`Deployment::run`] passes it to the worker that has the part of its first step, and waits for
//!   its end.
//!
//! Every worker is a thread with a session and with links to the workers of other instances: rings
//! in shared memory. A worker runs its procedures, executes and prepares branches for coordinators
//! in other instances, and sleeps when it has no work. A procedure whose steps are all in one
//! instance runs like any transaction. A procedure over several instances uses two-phase commit: it
//! is serializable and, if the deployment is durable, atomic across any crash.
//!
//! Sessions and workers wait for a lock for 10 us at most: its owner may wait for another instance.
// Threads and handles belong to the program, not to the engine.
#![allow(clippy::disallowed_types)]

mod changes;
mod constraints;
mod copy;
mod division;
mod procedure;
mod queue;
mod wire_value;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use boundary::{DurableOptions, Recovered, SchemaBuilder};
use concurrency::InstanceOptions;
use distributed::messages::INCARNATIONS_MAX;
use distributed::{DataOwners, DeploymentDirectory, DirectoryError, Map, WorkerName};
use platform::link::Mechanism;
use platform::{Hardware, Place, Platform};
use schema::{Constraints, Partitioning, Row, TableError};

pub use copy::copy_deployment;
pub use division::Division;
pub use procedure::{NoProcedure, Procedure};

use crate::builder::{
    EPOCH_NANOS, MEMORY_LIMIT_DEFAULT, SESSIONS_DEFAULT, SESSIONS_MAX, check_compiled, new_id,
};
use crate::database::{Database, Scheme};
use crate::error::{Error, OpenReason, Result};
use crate::nesting::check_outside;
use crate::options::TransactionOptions;
use crate::session::Session;
use crate::shared::{InstanceShare, Limits, OpenedDatabase};
use crate::table::{Table, TableOptions};

use constraints::check_constraints;
use copy::missing;
use division::undivided;
use procedure::Outline;
use queue::{ProcedureJob, Queue, Reply, WorkerCount};
use terms::Faults;
use worker::{DeploymentState, WorkerStart};

/// Longest wait for the workers when a deployment is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

/// Declares a table in the schema of an instance.
type Declare = Box<dyn Fn(&mut SchemaBuilder) -> Result<(), TableError>>;
/// Inserts the rows of a copied table into an instance.
type Fill = Box<dyn Fn(&Database) -> Result<()>>;

/// Declares a deployment: division, limits, scheme and tables. [`Deployment::in_memory`] and
/// [`Deployment::at`] return a builder. [`Deployment`] has an example.
pub struct DeploymentBuilder {
    division: Division,
    memory_bytes_max: u64,
    sessions_max: usize,
    scheme: Scheme,
    path: Option<PathBuf>,
    id: u64,
    tables: Vec<Declare>,
    /// For each table, its rows if it is a copied table.
    fill: Vec<Option<Fill>>,
    /// Error of the first invalid declaration.
    failed: Option<Error>,
}

impl DeploymentBuilder {
    fn new(division: Division, path: Option<PathBuf>) -> Self {
        DeploymentBuilder {
            division,
            memory_bytes_max: MEMORY_LIMIT_DEFAULT,
            sessions_max: SESSIONS_DEFAULT,
            scheme: Scheme::default(),
            path,
            id: new_id(),
            tables: Vec::new(),
            fill: Vec::new(),
            failed: division.check().err(),
        }
    }

    /// Limits the bytes of rows and indexes of all instances together, of which each instance gets
    /// its share. The default is [`MEMORY_LIMIT_DEFAULT`].
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Limits the number of sessions of each instance, 1 to [`SESSIONS_MAX`]; the default is
    /// [`SESSIONS_DEFAULT`].
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }

    /// Sets the concurrency control of all instances; the default is [`Scheme::Silo`]. See
    /// [`Builder::scheme`](crate::Builder::scheme).
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Declares a table that is divided by the leading column of its primary key, a `u16` that
    /// names the part. [`Self::open`] reports an invalid declaration.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn table<R: Row>(&mut self, name: &str) -> Table<R> {
        self.constrained_table(name, Constraints::new())
    }

    /// Declares a divided table as [`Self::table`] does, with constraints.
    ///
    /// A foreign key begins with the part of the row, and refers to the part of the other row: both
    /// are in one instance then. [`Self::open`] refuses others with [`Error::Declaration`], also
    /// deferred ones, those to tables that all instances have, and identities.
    ///
    /// ```
    /// use isles::{Constraints, Deployment, Division, Expression, NoProcedure, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(part, id))]
    /// struct Account { part: u16, id: u32, balance: i64 }
    ///
    /// let division = Division { instances: 1, workers: 1, parts: 2 };
    /// let mut builder = Deployment::in_memory(division);
    /// let solvent = Constraints::new().check("solvent", Expression::column("balance").at_least(0));
    /// let accounts = builder.constrained_table::<Account>("accounts", solvent);
    /// let deployment: Deployment<NoProcedure> = builder.open(())?;
    /// let account = Account { part: 0, id: 1, balance: -1 };
    /// assert!(deployment.session(0)?.transaction(|t| t.insert(accounts, &account)).is_err());
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn constrained_table<R: Row>(&mut self, name: &str, constraints: Constraints) -> Table<R> {
        if let Some(reason) = undivided::<R>() {
            let table = name.to_owned();
            self.failed.get_or_insert(Error::Declaration { table, reason });
        }
        let partitioning = Some(Partitioning { first: 0, count: self.division.parts.max(1) });
        self.declare(name, partitioning, None, constraints)
    }

    /// Declares a read-only table with these rows, of which every instance has a copy.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn copied_table<R: Row + 'static>(&mut self, name: &str, rows: Vec<R>) -> Table<R> {
        let table = Table { inner: schema::Table::new(self.tables.len()), database: self.id };
        let fill = move |database: &Database| {
            database.transaction(|t| {
                t.scan(table, ..).delete()?;
                rows.iter().try_for_each(|row| t.insert(table, row))
            })
        };
        self.declare(name, None, Some(Box::new(fill)), Constraints::new())
    }

    fn declare<R: Row>(
        &mut self,
        name: &str,
        partitioning: Option<Partitioning>,
        fill: Option<Fill>,
        constraints: Constraints,
    ) -> Table<R> {
        let inner = schema::Table::new(self.tables.len());
        let name = name.to_owned();
        let declare = move |schema: &mut SchemaBuilder| {
            let options = TableOptions::<R>::new().constraints(constraints.clone());
            let options = schema::TableOptions { partitioning, ..options.into_engine() };
            schema.declare_rows::<R>(name.clone(), &options).map(drop)
        };
        self.tables.push(Box::new(declare));
        self.fill.push(fill);
        Table { inner, database: self.id }
    }

    /// Creates the deployment, or opens the deployment in the directory, for procedures of type
    /// `Q`, whose steps receive `tables`. Transactions that were in progress when a durable
    /// deployment ended are first committed in all instances, or aborted in all instances.
    ///
    /// Errors: [`Error::Deployment`] for an invalid division; [`Error::Declaration`] for the first
    /// table that cannot be created; [`Error::Open`] for a directory that holds something else, or
    /// a deployment with another division; [`Error::OutOfMemory`]; [`Error::Misuse`] for a number
    /// of sessions that is out of range; [`Error::NotCompiled`] for a scheme that needs the feature
    /// `all-schemes`.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn open<Q: Procedure>(self, tables: Q::Tables) -> Result<Deployment<Q>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !(1..=SESSIONS_MAX).contains(&self.sessions_max) {
            return Err(Error::Misuse("an instance is opened for 1 to 16384 sessions"));
        }
        check_compiled(self.scheme)?;
        let (c, division) = (Hardware::core(), self.division);
        let names: Vec<WorkerName> = (0..division.workers)
            .map(|worker| WorkerName { instance: division.instance(worker) as u16, worker: worker as u16 })
            .collect();
        let owners: Vec<WorkerName> =
            (0..usize::from(division.parts)).map(|part| names[division.worker(part)]).collect();
        let schema = self.schema()?;
        let declared: Vec<_> = schema.descriptions().collect();
        check_constraints(&declared, |table| self.fill[table].is_some())?;
        let mut divisions = schema.divisions();
        for (table, fill) in divisions.iter_mut().zip(&self.fill) {
            table.read_only = fill.is_some();
        }
        let cannot = |error: distributed::MapError| Error::Deployment(error.to_string());
        let map = Map::new(&divisions, owners, division.instances).map_err(cannot)?;
        let fingerprint = distributed::messages::fingerprint(schema.descriptions());
        let data = DataOwners { instances: division.instances, parts: map.instances() };
        let opened = self.path.as_ref().map(|path| DeploymentDirectory::<Hardware>::open(c, path, &data));
        let directory = opened.transpose()?;
        if let Some(directory) = directory.as_ref().filter(|directory| directory.existed) {
            let instances: Vec<_> =
                (0..division.instances).map(|number| directory.instance(number)).collect();
            if let Some(path) = missing(&instances) {
                return Err(DirectoryError::Missing(path.clone()).into());
            }
        }
        let (mut made, mut openings) = (Vec::new(), Vec::new());
        for instance in 0..division.instances {
            let path = directory.as_ref().map(|directory| directory.instance(instance));
            let (database, recovered) = self.make(instance, path, &map)?;
            made.push(database);
            openings.push(recovered.opening);
        }
        directory.as_ref().map_or(Ok(()), |directory| directory.settle(c))?;
        if let Some(instance) = openings.iter().position(|opening| *opening >= INCARNATIONS_MAX) {
            let times = openings[instance];
            let why =
                format!("instance {instance} was opened {times} times: copy its rows to a new directory");
            return Err(Error::open(OpenReason::UsedUp, why));
        }
        let all: Vec<_> = made.iter().collect();
        let resolved = distributed::resolve(c, &all, Faults::NONE);
        resolved.map_err(|error| Error::open(OpenReason::InDoubt, error.to_string()))?;
        let instances = self.fill_all(made, &map)?;
        let nodes = vec![None; names.len()];
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = distributed::mesh::connect::<Hardware>(c, &names, &nodes, &mechanism, &mut || None);
        let seats = seats.map_err(|error| Error::Deployment(error.to_string()))?;
        let queues = seats.iter().map(|seat| Queue::new(Arc::clone(&seat.bell))).collect();
        let (parts, durable) = (division.parts, directory.is_some());
        let state = Arc::new(DeploymentState { map, fingerprint, parts, tables, durable, queues });
        let (threads, workers, directory) = (Vec::new(), WorkerCount::new(), directory.map(Arc::new));
        let mut deployment = Deployment { state, instances, threads, workers, id: self.id, directory };
        for (me, seat) in names.into_iter().zip(seats) {
            let instance = usize::from(me.instance);
            let shared = Arc::clone(&deployment.instances[instance].shared);
            let start = WorkerStart { me, seat, shared, opening: openings[instance] };
            if let Err(why) = deployment.start(start) {
                // Workers that have begun would wait for the others.
                deployment.state.stop(&why);
                return Err(why);
            }
        }
        Ok(deployment)
    }

    /// Declares the tables.
    fn schema(&self) -> Result<SchemaBuilder> {
        let mut schema = SchemaBuilder::new();
        self.tables.iter().try_for_each(|declare| declare(&mut schema))?;
        Ok(schema)
    }

    /// Creates or opens the database of an instance.
    fn make(
        &self,
        instance: usize,
        path: Option<PathBuf>,
        map: &Map,
    ) -> Result<(boundary::Database<Hardware>, Recovered)> {
        let division = self.division;
        let is_here = |worker: &usize| division.instance(*worker) == instance;
        let workers = (0..division.workers).filter(is_here).count();
        let options = InstanceOptions {
            sessions_max: self.sessions_max + workers + 1,
            memory_bytes_max: self.memory_bytes_max / division.workers as u64 * workers as u64,
            epoch_nanos: EPOCH_NANOS,
            // Sessions of the program compete with the worker that has the part.
            wait_nanos_max: match division.instances {
                1 => InstanceOptions::default().wait_nanos_max,
                _ => distributed::wait_nanos_max(workers + self.sessions_max),
            },
            ..InstanceOptions::default()
        };
        let mut schema = self.schema()?;
        schema.keep_partitions(|part| usize::from(map.owner_of_part(part).instance) == instance);
        let (c, nowhere) = (Hardware::core(), |_| None);
        let Some(path) = path else {
            let database = engine_native::create(self.scheme, c, &options, schema, &nowhere)?;
            return Ok((database, Recovered::default()));
        };
        let places = vec![Place { thread: None }; workers];
        let durable = DurableOptions { places, ..DurableOptions::new(path) };
        Ok(engine_native::open(self.scheme, c, &options, schema, &nowhere, &durable, None)?)
    }

    /// Fills the copied tables, and records the parts of each instance.
    fn fill_all(&self, made: Vec<boundary::Database<Hardware>>, map: &Map) -> Result<Vec<Database>> {
        let mut instances = Vec::with_capacity(made.len());
        for (instance, made) in made.into_iter().enumerate() {
            let (memory_bytes, sessions) = (self.memory_bytes_max, self.sessions_max);
            let limits = Limits { memory_bytes, sessions, spare_tables: 0, latencies: false };
            let made = OpenedDatabase {
                inner: made,
                id: self.id,
                scheme: self.scheme,
                limits,
                faults: Faults::NONE,
            };
            let mut database = Database::of(made, None, None);
            database.shared.publish_plans(&database.shared.changing.lock())?;
            self.fill.iter().flatten().try_for_each(|fill| fill(&database))?;
            let parts = map.instances().iter().map(|owner| usize::from(*owner) == instance).collect();
            let copied = self.fill.iter().map(Option::is_some).collect();
            if let Some(shared) = Arc::get_mut(&mut database.shared) {
                shared.share = Some(InstanceShare { parts, copied });
            }
            instances.push(database);
        }
        Ok(instances)
    }
}

/// Several instances as one database. The guide `docs/embedding.md` has a chapter on deployments.
///
/// ```
/// use isles::{Deployment, Division, Procedure, Result, Row, Table, Transaction};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Row)]
/// #[row(key(branch, id))]
/// struct Account { branch: u16, id: u32, balance: i64 }
///
/// /// Puts money into accounts.
/// struct Pay { into: Vec<Payment> }
///
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// struct Payment { branch: u16, id: u32, amount: i64 }
///
/// impl Procedure for Pay {
///     type Tables = Table<Account>;
///     type Step = Payment;
///     type Output = ();
///
///     fn steps(&self, steps: &mut Vec<Payment>) {
///         steps.extend(self.into.iter().cloned());
///     }
///
///     fn part(step: &Payment) -> u16 {
///         step.branch
///     }
///
///     fn run(accounts: &Table<Account>, step: &Payment, t: &mut Transaction<'_>) -> Result<()> {
///         let Payment { branch, id, amount } = *step;
///         if t.update(*accounts, &(branch, id), |account| account.balance += amount)?.is_none() {
///             t.insert(*accounts, &Account { branch, id, balance: amount })?;
///         }
///         Ok(())
///     }
///
///     fn conclude(&mut self, _: Vec<()>) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// let mut builder = Deployment::in_memory(Division { instances: 2, workers: 2, parts: 2 });
/// let accounts = builder.table::<Account>("accounts");
/// let bank = builder.open::<Pay>(accounts)?;
/// let payment = |branch| Payment { branch, id: 7, amount: 5 };
/// bank.run(Pay { into: vec![payment(0), payment(1)] })?;
/// let mut session = bank.session(1)?;
/// assert_eq!(session.transaction(|t| t.get_field(accounts, &(1, 7), Account::BALANCE))?, Some(5));
/// # drop(session);
/// bank.close()?;
/// # Ok::<(), isles::Error>(())
/// ```
pub struct Deployment<Q: Procedure> {
    state: Arc<DeploymentState<Q>>,
    instances: Vec<Database>,
    threads: Vec<JoinHandle<()>>,
    workers: Arc<WorkerCount>,
    id: u64,
    /// The directory stays locked until all threads have ended, which also hold it.
    directory: Option<Arc<DeploymentDirectory<Hardware>>>,
}

impl<Q: Procedure> std::fmt::Debug for Deployment<Q> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Deployment").field("instances", &self.instances).finish()
    }
}

impl Deployment<NoProcedure> {
    /// Declares a deployment in memory. All rows are lost when the process ends.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn in_memory(division: Division) -> DeploymentBuilder {
        DeploymentBuilder::new(division, None)
    }

    /// Declares a durable deployment in a directory, which [`DeploymentBuilder::open`] creates if
    /// it does not exist. It contains a directory for each instance, and a file that describes the
    /// division of the data. When a call returns, its commit is on disk. One process at a time can
    /// have the deployment open.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn at(path: impl Into<PathBuf>, division: Division) -> DeploymentBuilder {
        DeploymentBuilder::new(division, Some(path.into()))
    }
}

impl<Q: Procedure> Deployment<Q> {
    /// Starts a worker.
    // The thread belongs to the program, and runs on the real machine.
    #[allow(clippy::disallowed_methods)]
    fn start(&mut self, start: WorkerStart) -> Result<()> {
        let (state, alive) = (Arc::clone(&self.state), self.workers.add_worker());
        let directory = self.directory.clone();
        let name = format!("isles-{}-{}", start.me.instance, start.me.worker);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            worker::work(&state, start);
            drop((state, directory, alive));
        });
        let refused = |error| Error::Deployment(format!("a worker's thread cannot be started: {error}"));
        self.threads.push(thread.map_err(refused)?);
        Ok(())
    }

    /// Runs a procedure, and waits until it has committed and, if the deployment is durable, is on
    /// disk. Returns the procedure as its [`Procedure::conclude`] has left it.
    ///
    /// Errors: the error of [`Procedure::conclude`]; those of the verbs in steps, as
    /// [`Error::Elsewhere`] if a step failed in another instance than the coordinator's;
    /// [`Error::Conflict`], [`Error::Deadline`] and [`Error::Cancelled`] by the options;
    /// [`Error::Deployment`] or [`Error::NotDurable`] if the deployment has stopped.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn run(&self, procedure: Q) -> Result<Q> {
        self.run_with(&TransactionOptions::default(), procedure)
    }

    /// As [`Self::run`], with other options. A procedure that no worker has begun when the deadline
    /// passes never begins. If a worker has begun the procedure, the caller waits for a second
    /// longer and then returns [`Error::OutcomeUnknown`]. Without a deadline a caller waits as long
    /// as the steps take.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn run_with(&self, options: &TransactionOptions, procedure: Q) -> Result<Q> {
        check_outside(self.id)?;
        self.instances.first().map_or(Ok(()), |instance| instance.shared.check_process())?;
        let outline = Outline::of(&procedure)?;
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = || Hardware::now(Hardware::core());
        let deadline = options.deadline.map(|time| now().plus(nanos(time)));
        let (attempts_max, cancel) = (options.attempts, options.cancel.clone());
        let reply = Arc::new(Reply::new());
        let queue = &self.state.queues[usize::from(self.state.map.owner(outline.home()).worker)];
        let job =
            ProcedureJob { procedure, outline, deadline, attempts_max, cancel, reply: Arc::clone(&reply) };
        queue.push(job)?;
        reply.wait(deadline, options.cancel.as_ref(), || queue.withdraw(&reply))
    }

    /// Opens a session of one instance, for closures on the parts of that instance; keys of other
    /// parts return [`Error::Misuse`]. A scan over several parts, or by an index other than the
    /// primary key, returns the rows of the instance.
    ///
    /// Errors: [`Error::TooManySessions`]; [`Error::Misuse`] if there is no such instance.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn session(&self, instance: usize) -> Result<Session> {
        let database = self.instances.get(instance);
        database.ok_or(Error::Misuse("the deployment has no such instance"))?.session()
    }

    /// Returns the number of instances.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Returns the instance that has a part. Numbers beyond the last part belong to the instance of
    /// the last part.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn instance_of(&self, part: u16) -> usize {
        usize::from(self.state.map.owner(part).instance)
    }

    /// Returns the bytes reserved for rows and indexes by all instances: see
    /// [`Database::memory_bytes`].
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn memory_bytes(&self) -> u64 {
        self.instances.iter().map(Database::memory_bytes).sum()
    }

    /// Returns the part of these bytes that rows and indexes occupy: see
    /// [`Database::memory_in_use`].
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn memory_in_use(&self) -> u64 {
        self.instances.iter().map(Database::memory_in_use).sum()
    }

    /// Ends all workers, and records in the directories that the deployment was closed, so that a
    /// later opening detects any damage to the files. Dropping a deployment loses nothing either.
    ///
    /// Errors: [`Error::NotDurable`] if a log has stopped; [`Error::InUse`] if sessions still
    /// exist; [`Error::Deployment`] if a step does not end within a minute. The thread of such a
    /// step continues, and the directory stays locked until the step ends.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn close(mut self) -> Result<()> {
        let left = self.end();
        if left > 0 {
            let what =
                format!("{left} workers of the deployment have not ended: a step still runs, or waits");
            return Err(Error::Deployment(what));
        }
        std::mem::take(&mut self.instances).into_iter().try_for_each(Database::close)
    }

    /// Ends all workers after they have run their queued procedures. Returns the number of workers
    /// that have not ended.
    fn end(&mut self) -> usize {
        if self.instances.iter().any(|instance| instance.shared.check_process().is_err()) {
            // The threads belong to the parent process.
            std::mem::forget(std::mem::take(&mut self.threads));
            return 0;
        }
        self.state.queues.iter().for_each(|queue| queue.close(&worker::ended()));
        // A second call need not wait again for threads that did not end before.
        let patience = if self.threads.is_empty() { Duration::ZERO } else { CLOSE_PATIENCE };
        let left = self.workers.wait(patience);
        if left > 0 {
            self.state.stop(&worker::ended());
        }
        for thread in self.threads.drain(..) {
            if left == 0 {
                // The callers that waited for a panicked worker have received an error.
                let _ = thread.join();
            }
        }
        left
    }
}

impl<Q: Procedure> Drop for Deployment<Q> {
    fn drop(&mut self) {
        self.end();
    }
}
