//! Several instances as one database, in one process.
//!
//! # Design
//!
//! A deployment divides its data into *parts*: a part is one value of the leading column, a `u16`,
//! of the primary keys of all tables. Parts are dealt to workers in turn, and workers to instances.
//! Each instance is a database of its own, with its share of the memory and, if the deployment is
//! durable, a log and a directory of its own. Tables that are only read are in all instances.
//!
//! There are two ways to work on it:
//!
//! - a [`Session`] of one instance ([`Deployment::session`]) runs closures on the parts of that
//!   instance, on the thread that calls, as a session of a [`Database`] does. It refuses keys of
//!   other instances' parts;
//! - a [`Procedure`] works on any parts. A closure could not: a transaction over several instances
//!   sends each of them its whole part in one message, and none stays open over a message (crate
//!   `distributed`). So a procedure is a value that names all of its steps at once.
//!   [`Deployment::run`] hands it to the worker that has the part of its first step, and waits for
//!   its end.
//!
//! Every worker is a thread with a session and links to the workers of other instances: rings in
//! shared memory. It runs the procedures it is given, prepares parts for others in between, and
//! sleeps when there is nothing to do. A procedure in one instance alone runs there like any
//! transaction. Over several it is two-phase commit: serializable, and, if the deployment is
//! durable, whole after any crash.
//!
//! Sessions and workers lock for 10 us at most before they try again, because who has a row may be
//! waiting for another instance.
// Threads and handles belong to the program, which the engine does not know.
#![allow(clippy::disallowed_types)]

mod carried;
mod copy;
mod division;
mod procedure;
mod queue;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use boundary::{DurableOptions, Recovered, SchemaBuilder};
use concurrency::InstanceOptions;
use distributed::messages::INCARNATIONS_MAX;
use distributed::{DataOwners, DeploymentDirectory, DirectoryError, Map, Rules, WorkerName};
use platform::link::Mechanism;
use platform::{Hardware, Place, Platform};
use schema::{Partitioning, Row, TableError, ValueType};

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
use crate::shared::{Limits, Made, Share};
use crate::table::{Table, TableOptions};

use procedure::Outline;
use queue::{Job, Living, Queue, Reply};
use worker::{Common, Post};

/// How long who closes a deployment waits for its workers.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

/// Declares a table in the schema of an instance.
type Declare = Box<dyn Fn(&mut SchemaBuilder) -> Result<(), TableError>>;
/// Gives a table that all instances have its rows.
type Fill = Box<dyn Fn(&Database) -> Result<()>>;

/// Declares a deployment: division, limits, scheme, tables. [`Deployment::in_memory`] and
/// [`Deployment::at`] give a builder. [`Deployment`] has an example.
pub struct DeploymentBuilder {
    division: Division,
    memory_bytes_max: u64,
    sessions_max: usize,
    scheme: Scheme,
    path: Option<PathBuf>,
    id: u64,
    tables: Vec<Declare>,
    /// By table: its rows, if all instances have them.
    fill: Vec<Option<Fill>>,
    /// The first declaration that was wrong.
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

    /// Most bytes of rows and indexes of all instances together, of which each has its share;
    /// [`MEMORY_LIMIT_DEFAULT`] unless set.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Most sessions of each instance at a time, 1 to [`SESSIONS_MAX`]; [`SESSIONS_DEFAULT`] unless
    /// set.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }

    /// The concurrency control of all instances; [`Scheme::Silo`] unless set. See
    /// [`Builder::scheme`](crate::Builder::scheme).
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Declares a table that is divided by the leading column of its primary key, a `u16`, which
    /// says the part. [`Self::open`] reports what is wrong with it.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn table<R: Row>(&mut self, name: &str) -> Table<R> {
        if let Some(reason) = undivided::<R>() {
            let table = name.to_owned();
            self.failed.get_or_insert(Error::Declaration { table, reason });
        }
        let partitioning = Some(Partitioning { first: 0, count: self.division.parts.max(1) });
        self.declare(name, partitioning, None)
    }

    /// Declares a table that all instances have, with these rows and no others, and that is only
    /// read.
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
        self.declare(name, None, Some(Box::new(fill)))
    }

    fn declare<R: Row>(
        &mut self,
        name: &str,
        partitioning: Option<Partitioning>,
        fill: Option<Fill>,
    ) -> Table<R> {
        let inner = schema::Table::new(self.tables.len());
        let name = name.to_owned();
        let declare = move |schema: &mut SchemaBuilder| {
            let options = schema::TableOptions { partitioning, ..TableOptions::<R>::new().into_engine() };
            schema.declare_rows::<R>(name.clone(), &options).map(drop)
        };
        self.tables.push(Box::new(declare));
        self.fill.push(fill);
        Table { inner, database: self.id }
    }

    /// Makes the deployment, or opens the one in the directory, for procedures `Q`, whose steps get
    /// `tables`. What was under way when a durable deployment ended is brought to its end first:
    /// committed in all instances, or in none.
    ///
    /// Errors: [`Error::Deployment`] for a division that cannot be; [`Error::Declaration`] for the
    /// first table that cannot be made; [`Error::Open`] for a directory that holds something else,
    /// or a deployment that is divided otherwise; [`Error::OutOfMemory`]; [`Error::Misuse`] for a
    /// number of sessions that is out of range; [`Error::NotCompiled`] for a scheme that needs the
    /// feature `all-schemes`.
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
        let resolved = distributed::resolve(c, &all, Rules::SOUND);
        resolved.map_err(|error| Error::open(OpenReason::InDoubt, error.to_string()))?;
        let instances = self.fill_all(made, &map)?;
        let nodes = vec![None; names.len()];
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = distributed::mesh::connect::<Hardware>(c, &names, &nodes, &mechanism, &mut || None);
        let seats = seats.map_err(|error| Error::Deployment(error.to_string()))?;
        let queues = seats.iter().map(|seat| Queue::new(Arc::clone(&seat.bell))).collect();
        let (parts, durable) = (division.parts, directory.is_some());
        let common = Arc::new(Common { map, fingerprint, parts, tables, durable, queues });
        let (threads, living, directory) = (Vec::new(), Living::new(), directory.map(Arc::new));
        let mut deployment = Deployment { common, instances, threads, living, id: self.id, directory };
        for (me, seat) in names.into_iter().zip(seats) {
            let instance = usize::from(me.instance);
            let shared = Arc::clone(&deployment.instances[instance].shared);
            let post = Post { me, seat, shared, opening: openings[instance] };
            if let Err(why) = deployment.start(post) {
                // Those that have begun would wait for the others.
                deployment.common.stop(&why);
                return Err(why);
            }
        }
        Ok(deployment)
    }

    /// The tables.
    fn schema(&self) -> Result<SchemaBuilder> {
        let mut schema = SchemaBuilder::new();
        self.tables.iter().try_for_each(|declare| declare(&mut schema))?;
        Ok(schema)
    }

    /// Makes or opens the database of an instance.
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
            // Sessions of the program are others than the worker that holds a part.
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
        Ok(engine_native::open(self.scheme, c, &options, schema, &nowhere, (&durable, None))?)
    }

    /// Gives the copied tables their rows, and each instance what it has.
    fn fill_all(&self, made: Vec<boundary::Database<Hardware>>, map: &Map) -> Result<Vec<Database>> {
        let mut instances = Vec::with_capacity(made.len());
        for (instance, made) in made.into_iter().enumerate() {
            let (memory_bytes, sessions) = (self.memory_bytes_max, self.sessions_max);
            let limits = Limits { memory_bytes, sessions, spare_tables: 0, latencies: false };
            let made = Made { inner: made, id: self.id, scheme: self.scheme, limits };
            let mut database = Database::of(made, None, None);
            self.fill.iter().flatten().try_for_each(|fill| fill(&database))?;
            let parts = map.instances().iter().map(|owner| usize::from(*owner) == instance).collect();
            let copied = self.fill.iter().map(Option::is_some).collect();
            if let Some(shared) = Arc::get_mut(&mut database.shared) {
                shared.share = Some(Share { parts, copied });
            }
            instances.push(database);
        }
        Ok(instances)
    }
}

/// The first of these directories of instances that holds no database.
fn missing(instances: &[PathBuf]) -> Option<&PathBuf> {
    instances.iter().find(|path| !path.join(redo_log::MANIFEST).exists() && !pages::holds_pages(path))
}

/// Why rows of this type cannot be divided, if they cannot.
fn undivided<R: Row>() -> Option<String> {
    let leading = R::INDEXES[0].columns[0];
    let column = R::COLUMNS.iter().find(|column| column.name == leading);
    if column.is_none_or(|column| (column.kind)() != ValueType::Unsigned(2)) {
        return Some(format!(
            "its key begins with `{leading}`: a table that is divided has a `u16` there, the part"
        ));
    }
    let unique = R::INDEXES[1..].iter().find(|index| index.unique && index.columns[0] != leading)?;
    let name = unique.name;
    Some(format!(
        "index `{name}` does not begin with `{leading}`: it cannot be unique over several instances"
    ))
}

/// Several instances as one database: the guide `docs/embedding.md` has a chapter on them.
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
    common: Arc<Common<Q>>,
    instances: Vec<Database>,
    threads: Vec<JoinHandle<()>>,
    living: Arc<Living>,
    id: u64,
    /// Locked until everything has ended: the threads have it, too.
    directory: Option<Arc<DeploymentDirectory<Hardware>>>,
}

impl<Q: Procedure> std::fmt::Debug for Deployment<Q> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Deployment").field("instances", &self.instances).finish()
    }
}

impl Deployment<NoProcedure> {
    /// Declares a deployment that lives in memory and ends with the process.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn in_memory(division: Division) -> DeploymentBuilder {
        DeploymentBuilder::new(division, None)
    }

    /// Declares a deployment that lives in a directory, which is made if it is not there: a
    /// directory for each instance, and a file that says how the data are divided. What a call
    /// returns is on disk. One process at a time can have it open.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn at(path: impl Into<PathBuf>, division: Division) -> DeploymentBuilder {
        DeploymentBuilder::new(division, Some(path.into()))
    }
}

impl<Q: Procedure> Deployment<Q> {
    /// Starts a worker.
    // The thread belongs to the program, and runs on the machine itself.
    #[allow(clippy::disallowed_methods)]
    fn start(&mut self, post: Post) -> Result<()> {
        let (common, alive) = (Arc::clone(&self.common), self.living.one_more());
        let directory = self.directory.clone();
        let name = format!("isles-{}-{}", post.me.instance, post.me.worker);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            worker::work(&common, post);
            drop((common, directory, alive));
        });
        let refused = |error| Error::Deployment(format!("a worker's thread cannot be started: {error}"));
        self.threads.push(thread.map_err(refused)?);
        Ok(())
    }

    /// Runs a procedure, and waits until it is committed and, if the deployment is durable, on
    /// disk; gives it back as its [`Procedure::conclude`] has left it.
    ///
    /// Errors: the reason of [`Procedure::conclude`]; those of the verbs in steps, of which another
    /// instance's come as [`Error::Elsewhere`]; [`Error::Conflict`], [`Error::Deadline`] and
    /// [`Error::Cancelled`] by the options; [`Error::Deployment`] or [`Error::NotDurable`] if the
    /// deployment has stopped.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn run(&self, procedure: Q) -> Result<Q> {
        self.run_with(&TransactionOptions::default(), procedure)
    }

    /// As [`Self::run`], within other bounds. A procedure that no worker has begun when the
    /// deadline passes never begins; one that a worker has begun is waited for a second longer, and
    /// its end is [`Error::OutcomeUnknown`] then. Without a deadline a caller waits for as long as
    /// its steps take.
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
        let queue = &self.common.queues[usize::from(self.common.map.owner(outline.home()).worker)];
        let job = Job { procedure, outline, deadline, attempts_max, cancel, reply: Arc::clone(&reply) };
        queue.push(job)?;
        reply.wait((deadline, options.cancel.as_ref()), || queue.withdraw(&reply))
    }

    /// A session of one instance, for closures on the parts that it has: [`Error::Misuse`] for keys
    /// of others. A scan over several parts, or by another index than the primary key, shows what
    /// the instance has.
    ///
    /// Errors: [`Error::TooManySessions`]; [`Error::Misuse`] if there is no such instance.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn session(&self, instance: usize) -> Result<Session> {
        let database = self.instances.get(instance);
        database.ok_or(Error::Misuse("the deployment has no such instance"))?.session()
    }

    /// How many instances there are.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The instance that has a part. Numbers that no part has belong to that of the last one.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn instance_of(&self, part: u16) -> usize {
        usize::from(self.common.map.owner(part).instance)
    }

    /// Bytes taken from the machine for rows and indexes, by all instances.
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn memory_bytes(&self) -> u64 {
        self.instances.iter().map(Database::memory_bytes).sum()
    }

    /// Bytes of that in which rows and indexes are: see [`Database::memory_in_use`].
    ///
    /// [`Deployment`](crate::Deployment) has an example.
    pub fn memory_in_use(&self) -> u64 {
        self.instances.iter().map(Database::memory_in_use).sum()
    }

    /// Ends all workers, and notes in the directories that the deployment was closed, so that any
    /// later damage to the files is noticed. A deployment that is dropped loses nothing either.
    ///
    /// Errors: [`Error::NotDurable`] if a log has stopped; [`Error::InUse`] for sessions that are
    /// left; [`Error::Deployment`] if a step does not end within a minute. Its thread is left
    /// behind, and the directory is locked until the step ends.
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

    /// Ends all workers, once they have run what they were given; how many have not ended.
    fn end(&mut self) -> usize {
        if self.instances.iter().any(|instance| instance.shared.check_process().is_err()) {
            // The threads are those of the process that this one was forked from.
            std::mem::forget(std::mem::take(&mut self.threads));
            return 0;
        }
        self.common.queues.iter().for_each(|queue| queue.close(&worker::ended()));
        // Once is enough: threads that were left behind are known.
        let patience = if self.threads.is_empty() { Duration::ZERO } else { CLOSE_PATIENCE };
        let left = self.living.wait(patience);
        if left > 0 {
            self.common.stop(&worker::ended());
        }
        for thread in self.threads.drain(..) {
            if left == 0 {
                // A worker that panicked has been noticed by whoever waited for it.
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
