//! The trait of workloads, as the harness uses them.

use boundary::Procedure;
use schema::{Inspector, Loader, Schema};
use terms::random::Random;
use terms::{Abort, Conflict};

/// Result of one consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name in reports.
    pub name: &'static str,
    /// Its result.
    pub result: Outcome,
}

/// The result of a consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The condition holds.
    Ok,
    /// The condition does not apply to this configuration, for this reason.
    NotApplicable(String),
    /// The condition is violated: a description of the first violation.
    Violated(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Ok => to.write_str("ok"),
            Outcome::NotApplicable(reason) => write!(to, "n/a: {reason}"),
            Outcome::Violated(what) => to.write_str(what),
        }
    }
}

/// The parameters that determine the rows that a workload loads. A run can continue on a database
/// that was loaded with the same parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedWith {
    /// The workload's name on the command line.
    pub workload: &'static str,
    /// The flags that determine the rows, each with its value.
    pub flags: Vec<(&'static str, String)>,
}

impl LoadedWith {
    /// The parameters of this workload, with these flags.
    pub fn new<const N: usize>(workload: &'static str, flags: [(&'static str, String); N]) -> Self {
        LoadedWith { workload, flags: flags.into() }
    }
}

/// Cache lines of code of a transaction that was not measured: those of the micro-benchmark.
const CODE_LINES: u16 = 70;

/// A workload: tables, their initial rows, transactions, and consistency checks.
///
/// One value serves all workers; it holds parameters only.
pub trait Workload: Send + Sync + 'static {
    /// Any transaction of the workload.
    type Procedure: Procedure + Send;

    /// Declares the tables.
    fn create(&self, schema: &mut impl Schema) -> <Self::Procedure as Procedure>::Tables;

    /// The parameters that determine the rows that [`Self::load`] loads. The default is for
    /// workloads whose databases are not opened again with other parameters.
    fn loaded_with(&self) -> LoadedWith {
        LoadedWith::new("", [])
    }

    /// Number of parts that can be loaded independently, in parallel. Part `i` is the home of
    /// worker `i` if workers have homes.
    fn parts(&self) -> usize;

    /// Number of rows of part `part`, for the progress bar.
    fn rows(&self, part: usize) -> u64;

    /// Loads one part. The same part with the same seed gives the same rows.
    fn load(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort>;

    /// Number of tables that are placed by themselves where workers own partitions, all of the
    /// workload's; 0: tables that are divided alike have the same owners, because an action may
    /// touch several of them.
    fn placed_tables(&self) -> usize {
        0
    }

    /// The worker that owns a part of a table that is placed by itself, and loads its rows, where
    /// workers are in these sockets; `None`: the worker that would load the part of all tables.
    fn owner(&self, table: usize, part: usize, sockets: &[u32]) -> Option<usize> {
        let _ = (table, part, sockets);
        None
    }

    /// Loads a part of a table that is placed by itself.
    fn load_table(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        table: usize,
        part: usize,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let _ = (tables, table, part, loader);
        Ok(())
    }

    /// Loads the rows of read-only tables, which [`Self::load`] loads with [`Self::shared_part`]:
    /// the same rows for the same seed of that part. Instances that do not have the part need these
    /// rows, too.
    fn load_shared(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let _ = (tables, random, loader);
        Ok(())
    }

    /// The part whose read-only tables [`Self::load_shared`] loads; `None` if there are none.
    fn shared_part(&self) -> Option<usize> {
        None
    }

    /// The reason why its transactions cannot run over several instances; `None` if they can.
    fn undivided(&self) -> Option<&'static str> {
        None
    }

    /// Draws the next transaction of worker `worker`. `now_nanos` is the platform's time, for date
    /// columns. Workers draw transactions some time before these begin; the last ones drawn may
    /// never begin.
    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> Self::Procedure;

    /// As [`Self::next`], for workloads that change while they run ([`Changing`](crate::Changing)):
    /// `elapsed_nanos` after the measured time began, or 0 before.
    fn next_at(
        &self,
        elapsed_nanos: u64,
        worker: usize,
        random: &mut Random,
        now_nanos: u64,
    ) -> Self::Procedure {
        let _ = elapsed_nanos;
        self.next(worker, random, now_nanos)
    }

    /// Number of homes of workers. Each has as many consecutive parts as any other.
    fn homes(&self) -> usize {
        self.parts()
    }

    /// Draws a request of a client whose requests are for these homes, at least one, or for all of
    /// the data (`None`); returns its home, too. Times as in [`Self::next_at`].
    fn request(
        &self,
        elapsed_nanos: u64,
        homes: Option<&[usize]>,
        random: &mut Random,
        now_nanos: u64,
    ) -> (Self::Procedure, usize) {
        let home = match homes {
            Some(homes) => homes[random.below(homes.len() as u64) as usize],
            None => random.below(self.homes() as u64) as usize,
        };
        (self.next_at(elapsed_nanos, home, random, now_nanos), home)
    }

    /// Sets the date columns of a transaction to this time, because it begins now. Workers call
    /// this once for each transaction, in the order in which they were drawn.
    fn begin(&self, worker: usize, procedure: &mut Self::Procedure, now_nanos: u64) {
        let _ = (worker, procedure, now_nanos);
    }

    /// Called when a transaction of this worker is acknowledged, with the time that [`Self::begin`]
    /// received for it; for tests.
    fn acknowledged(&self, _worker: usize, _now_nanos: u64) {}

    /// Names of the kinds of transactions, in the order of [`Self::kind`].
    fn kinds(&self) -> &'static [&'static str];

    /// The kind of a transaction: an index into [`Self::kinds`].
    fn kind(procedure: &Self::Procedure) -> usize;

    /// Cache lines of 64 bytes of the program's own code that a transaction executes
    /// (`docs/calibration.md`).
    fn code_lines(_procedure: &Self::Procedure) -> u16 {
        CODE_LINES
    }

    /// Checks the database while no transaction runs. `committed`: number of transactions of each
    /// kind, in the order of [`Self::kinds`], that have committed since the database was loaded,
    /// warm-up included; `None` if it is not known.
    fn check(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check>;
}

/// The abort of a transaction that does not find a row that must exist: an optimistic transaction
/// can observe a part of another transaction's writes, and fails its validation then.
pub(crate) fn row_missing() -> Abort {
    Abort::Conflict(Conflict::ReadChanged)
}
