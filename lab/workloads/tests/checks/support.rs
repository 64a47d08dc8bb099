//! Runs a workload on the real engine by the harness, and counts effects of its transactions.
// Counts of a test are outside of the machine that it observes.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Database, Procedure};
use concurrency::SchemeName;
use harness::{Check, Control, Deployment, Host, Length, MakeInline, Measurement, Plan};
use schema::{Inspector, Loader, Schema};
use terms::Abort;
use terms::random::Random;
use workloads::{Outcome, Workload};

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The measurement of the harness.
    pub measured: Measurement,
    /// Committed transactions by kind.
    pub committed: Vec<u64>,
    /// Attempts that aborted.
    pub aborts: u64,
    /// Sum of the test's counts over the transactions.
    pub counted: u64,
    /// Worker and time of each transaction, in the order in which they began.
    pub began: Vec<(usize, u64)>,
}

impl Ran {
    /// Panics unless all checks hold.
    pub fn assert_consistent(&self) {
        assert!(!self.measured.checks.is_empty());
        for (name, check) in &self.measured.checks {
            assert_eq!(*check, Check::Ok, "{name}: {self:?}");
        }
    }

    /// Commits per second.
    pub fn throughput(&self) -> f64 {
        self.committed.iter().sum::<u64>() as f64 / self.measured.elapsed_seconds
    }
}

/// Asserts that exactly the checks with these names are violated, and that the outcome of the first
/// contains `says`.
pub fn assert_violated(checks: &[workloads::Check], names: &[&str], says: &str) {
    let violated: Vec<_> = checks.iter().filter(|check| check.result != Outcome::Ok).collect();
    assert!(violated.iter().map(|check| &check.name).eq(names), "{violated:?}");
    assert!(violated.first().is_none_or(|first| first.result.to_string().contains(says)), "{violated:?}");
}

/// Length of a run, and number of workers.
pub struct Load {
    /// Workers.
    pub workers: usize,
    /// Transactions of each worker.
    pub transactions: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// A workload that adds up a count over the transactions that it draws.
struct Counting<W: Workload> {
    inner: W,
    count: fn(&W::Procedure) -> u64,
    counted: AtomicU64,
    began: Mutex<Vec<(usize, u64)>>,
}

impl<W: Workload> Workload for Counting<W> {
    type Procedure = W::Procedure;

    fn create(&self, schema: &mut impl Schema) -> <W::Procedure as Procedure>::Tables {
        self.inner.create(schema)
    }

    fn parts(&self) -> usize {
        self.inner.parts()
    }

    fn rows(&self, part: usize) -> u64 {
        self.inner.rows(part)
    }

    fn load(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        self.inner.load(tables, part, random, loader)
    }

    fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> W::Procedure {
        self.inner.next(worker, random, now_nanos)
    }

    fn begin(&self, worker: usize, procedure: &mut W::Procedure, now_nanos: u64) {
        self.inner.begin(worker, procedure, now_nanos);
        self.counted.fetch_add((self.count)(procedure), Ordering::Relaxed);
        self.began.lock().expect("no worker panics").push((worker, now_nanos));
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.inner.kinds()
    }

    fn kind(procedure: &W::Procedure) -> usize {
        W::kind(procedure)
    }

    fn check(
        &self,
        tables: &<W::Procedure as Procedure>::Tables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<workloads::Check> {
        self.inner.check(tables, inspector, committed)
    }
}

/// Loads, runs and checks; `count` is added up over the transactions, all of which commit.
/// `inspect` reads the database in the end.
pub fn run<P: Host, W: Workload>(
    c: P::Core,
    scheme: SchemeName,
    workload: W,
    load: &Load,
    count: fn(&W::Procedure) -> u64,
    inspect: impl FnMut(&Database<P>, &<W::Procedure as Procedure>::Tables),
) -> Ran {
    let rows: u64 = (0..workload.parts()).map(|part| workload.rows(part)).sum();
    let ran = run_inline::<P, W>(c, scheme, workload, load, count, harness::dynamic, inspect);
    assert_eq!(ran.committed.iter().sum::<u64>(), ran.began.len() as u64, "every transaction commits");
    assert_eq!(ran.measured.rows_loaded, rows);
    ran
}

/// As above, with the executors that `inline` creates; transactions may roll back.
pub fn run_inline<P: Host, W: Workload>(
    c: P::Core,
    scheme: SchemeName,
    workload: W,
    load: &Load,
    count: fn(&W::Procedure) -> u64,
    inline: MakeInline<P, W::Procedure>,
    inspect: impl FnMut(&Database<P>, &<W::Procedure as Procedure>::Tables),
) -> Ran {
    let counted = AtomicU64::new(0);
    let counting = Counting { inner: workload, count, counted, began: Mutex::new(Vec::new()) };
    let plan = Plan {
        seed: load.seed,
        epoch_nanos: 100_000,
        ..Plan::new(scheme, Length::Transactions(load.transactions))
    };
    let deployment = Deployment::unpinned(load.workers, 1 << 30);
    let measured = harness::run_and_inspect(c, &counting, &plan, &deployment, Control::NONE, inline, inspect);
    let measured = measured.expect("it runs");
    let committed: Vec<u64> = measured.kinds.iter().map(|(_, kind)| kind.commits).collect();
    let aborts = measured.kinds.iter().map(|(_, kind)| kind.aborts).sum();
    let began = counting.began.into_inner().expect("no worker panics");
    Ran { measured, committed, aborts, counted: counting.counted.into_inner(), began }
}
