//! Runs a workload on the real engine: loads it in parallel, runs transactions, and checks.

use cc::{Abort, InstanceOptions, Scheme};
use engine::{Bounds, Database, Ending, Procedure, RowLoader, SchemaBuilder};
use platform::{Place, Platform};
use storage::{LatchSeat, LatchedWord};
use workloads::{Check, Outcome, Random, Workload};

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Committed transactions by kind.
    pub committed: Vec<u64>,
    /// Attempts that failed.
    pub aborts: u64,
    /// Sum over the committed transactions of what the test counts.
    pub counted: u64,
    /// Results of the checks.
    pub checks: Vec<Check>,
    /// Duration of the transactions.
    pub nanos: u64,
}

impl Ran {
    /// Panics unless all checks hold.
    pub fn assert_consistent(&self) {
        assert!(!self.checks.is_empty());
        for check in &self.checks {
            assert_eq!(check.result, Outcome::Ok, "{}: {self:?}", check.name);
        }
    }

    /// Commits per second.
    #[allow(dead_code, reason = "each test program uses its part of this module")]
    pub fn throughput(&self) -> f64 {
        self.committed.iter().sum::<u64>() as f64 * 1e9 / self.nanos as f64
    }
}

/// How long, and how many workers.
pub struct Plan {
    /// Where the workers run.
    pub places: Vec<Place>,
    /// Transactions of each worker.
    pub transactions: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// Loads, runs, checks; `count` is added up over the committed transactions, and sees the database before the check.
pub fn run<P: Platform, S: Scheme<P>, W: Workload>(
    c: P::Core,
    workload: &W,
    plan: &Plan,
    count: fn(&W::Procedure) -> u64,
) -> (Ran, Database<P, S>, <W::Procedure as Procedure>::Tables) {
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let options = InstanceOptions {
        sessions_max: plan.places.len() + workload.parts() + 1,
        memory_bytes_max: 1 << 30,
        epoch_nanos: 100_000,
        ..InstanceOptions::default()
    };
    let mut database = Database::<P, S>::create(c, &options, schema, &|_| None).expect("memory");
    load(c, &database, workload, &tables, plan);
    database.loaded(c).expect("memory");
    let word = || LatchedWord::<P>::new(c, None).expect("memory");
    let committed: Vec<_> = workload.kinds().iter().map(|_| word()).collect();
    let (aborts, counted) = (word(), word());
    let worker = |c, number: usize| {
        let mut seat = LatchSeat::new(c, None).expect("memory");
        let mut session = database.session(c, None, false).expect("a session");
        session.seed(number as u64);
        let mut random = Random::new(plan.seed, number as u64);
        let mut actions = Vec::new();
        for _ in 0..plan.transactions {
            let mut procedure = workload.next(number, &mut random, P::now(c).0);
            let ending = session.run(&tables, &mut procedure, &mut actions, &Bounds::default());
            assert!(matches!(ending, Ok(Ending::Committed(..))), "{ending:?}");
            committed[W::kind(&procedure)].add(c, &mut seat, 1);
            counted.add(c, &mut seat, count(&procedure));
            session.tend(P::now(c));
        }
        aborts.add(c, &mut seat, session.stats().aborts);
    };
    let start = P::now(c);
    P::parallel(c, &plan.places, &worker, &mut |_| ());
    let nanos = P::now(c).since(start);
    let committed: Vec<u64> = committed.iter().map(LatchedWord::value).collect();
    let checks = workload.check_committed(&tables, &mut database.inspector(c), &committed);
    let ran = Ran { committed, aborts: aborts.value(), counted: counted.value(), checks, nanos };
    (ran, database, tables)
}

fn load<P: Platform, S: Scheme<P>, W: Workload>(
    c: P::Core,
    database: &Database<P, S>,
    workload: &W,
    tables: &<W::Procedure as Procedure>::Tables,
    plan: &Plan,
) {
    let loader = |c, part: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        let mut rows = 0;
        let mut progress = |more| rows += more;
        let mut loader = RowLoader::new(&mut session, &mut progress);
        let mut random = Random::new(plan.seed, 1000 + part as u64);
        let result: Result<(), Abort> = workload.load(tables, part, &mut random, &mut loader);
        loader.finish();
        assert_eq!(result, Ok(()));
        assert_eq!(rows, workload.rows(part));
    };
    P::parallel(c, &vec![Place { thread: None }; workload.parts()], &loader, &mut |_| ());
}
