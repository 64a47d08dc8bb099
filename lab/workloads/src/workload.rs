//! What the benchmark runner needs of a workload.

use boundary::Procedure;
use schema::{Inspector, Loader, Schema};
use terms::Abort;

use terms::random::Random;

/// Result of one consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name in reports.
    pub name: &'static str,
    /// What it found.
    pub result: Outcome,
}

/// What a consistency check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Ok,
    /// It says nothing about this configuration, for this reason.
    NotApplicable(String),
    /// What is wrong.
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

/// What decides which rows a workload loads: a database that was loaded with the same may go on
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedWith {
    /// The workload's name on the command line.
    pub workload: &'static str,
    /// The flags that decide it, each with its value.
    pub flags: Vec<(&'static str, String)>,
}

impl LoadedWith {
    /// Rows of this workload, which these flags decide.
    pub fn new<const N: usize>(workload: &'static str, flags: [(&'static str, String); N]) -> Self {
        LoadedWith { workload, flags: flags.into() }
    }
}

/// A workload: tables, how to fill them, transactions, and what must hold afterwards.
///
/// One value serves all workers; it holds parameters only.
pub trait Workload: Send + Sync + 'static {
    /// Any transaction of the workload.
    type Procedure: Procedure;

    /// Declares the tables.
    fn create(&self, schema: &mut impl Schema) -> <Self::Procedure as Procedure>::Tables;

    /// What decides which rows [`Self::load`] loads; nothing needs to be said by a workload whose
    /// databases are not opened again with other parameters.
    fn loaded_with(&self) -> LoadedWith {
        LoadedWith::new("", [])
    }

    /// Number of parts that can be loaded independently, in parallel. Part `i` is worker `i`'s home
    /// where there is one.
    fn parts(&self) -> usize;

    /// Rows that part `part` will have, for the progress bar.
    fn rows(&self, part: usize) -> u64;

    /// Loads one part. The same part with the same seed gives the same rows.
    fn load(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort>;

    /// Loads the rows of tables that are only read, which [`Self::load`] loads with some part: the
    /// same rows for the same seed of that part. Instances that do not have the part need these
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

    /// The part that [`Self::load_shared`] is about; `None` if no table is only read.
    fn shared_part(&self) -> Option<usize> {
        None
    }

    /// Why its transactions cannot run over several instances, if they cannot.
    fn undivided(&self) -> Option<&'static str> {
        None
    }

    /// The next transaction of worker `worker`. `now_nanos` is the platform's time, for date
    /// columns. Workers draw transactions some time before these begin: what was drawn last may
    /// never begin.
    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> Self::Procedure;

    /// As [`Self::next`], so many nanoseconds after the beginning of the measured time, or none
    /// before: for workloads that change while they run ([`Changing`](crate::Changing)).
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

    /// A transaction of this worker begins now, which the worker has drawn: gives its date columns
    /// this time. Workers call this once for each transaction, in the order in which they were
    /// drawn.
    fn begin(&self, worker: usize, procedure: &mut Self::Procedure, now_nanos: u64) {
        let _ = (worker, procedure, now_nanos);
    }

    /// The transaction of this worker is acknowledged for which [`Self::begin`] was told this time:
    /// for tests, which remember it.
    fn acknowledged(&self, _worker: usize, _now_nanos: u64) {}

    /// Names of the kinds of transactions, in the order of [`Self::kind`].
    fn kinds(&self) -> &'static [&'static str];

    /// Which kind a transaction is.
    fn kind(procedure: &Self::Procedure) -> usize;

    /// Checks the database while no transaction runs.
    fn check(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        inspector: &mut impl Inspector,
    ) -> Vec<Check>;

    /// [`Self::check`], knowing how many transactions of each kind, in the order of
    /// [`Self::kinds`], have committed since the database was loaded, warm-up included: the runner
    /// calls this one.
    fn check_committed(
        &self,
        tables: &<Self::Procedure as Procedure>::Tables,
        inspector: &mut impl Inspector,
        committed: &[u64],
    ) -> Vec<Check> {
        let _ = committed;
        self.check(tables, inspector)
    }
}
