//! All engines in turn, round by round, with checks of their rows.
//!
//! An engine's turn: it is opened in an empty directory and loaded; for each number of clients
//! there are a run of each operation and a count of all rows; then it is closed and opened again,
//! and the rows are counted once more. The rows must contain every acknowledged update, and no
//! other. Rounds begin with different engines, because the speed of the machine varies over time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::{Engine, Failure, Operation, ROWS_PER_TRANSACTION, Total};
use crate::engines::{Kind, Setup, open};
use crate::report::Run;
use crate::run::{Measured, Plan, run};

/// The warm-up before a run takes this fraction of its time: a quarter.
const WARM_UPS_PER_RUN: u32 = 4;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Job {
    /// The engines, in the order of the first round.
    pub engines: Vec<Kind>,
    /// The operations of transactions.
    pub operations: Vec<Operation>,
    /// Numbers of clients of the runs.
    pub clients: Vec<usize>,
    /// Number of the first round.
    pub first_round: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// Time of each run.
    pub time: Duration,
    /// Seed of the choice of rows, together with the round.
    pub seed: u64,
    /// The directory in which the engines' directories are created.
    pub path: PathBuf,
    /// Settings of the engines.
    pub setup: Setup,
}

/// An error of the benchmark.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// The engine has failed.
    #[error("{engine} failed ({doing}): {failure}")]
    Engine {
        /// The engine.
        engine: Kind,
        /// The operation that failed.
        doing: &'static str,
        /// The engine's error.
        failure: Failure,
    },
    /// The engine has other rows than it should have.
    #[error(
        "{engine} broke its word ({when}): it has {found} updates in {rows} rows, and acknowledged {expected} in \
         {rows_expected}; its files are in {path}"
    )]
    Untrue {
        /// The engine.
        engine: Kind,
        /// The moment of the check.
        when: &'static str,
        /// Updates that the rows contain.
        found: u64,
        /// Number of rows.
        rows: u64,
        /// Acknowledged updates.
        expected: u64,
        /// Number of rows that were loaded or inserted.
        rows_expected: u64,
        /// The directory of the database.
        path: PathBuf,
    },
    /// A directory cannot be created or removed.
    #[error("{path}: {error}: name a directory that can be written with --path")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

impl Job {
    /// Number of runs.
    pub fn runs(&self) -> u64 {
        self.rounds * (self.engines.len() * self.operations.len() * self.clients.len()) as u64
    }

    /// Measures, and calls `report` with each result.
    ///
    /// # Errors
    /// The first failure; the engine's files are kept then.
    pub fn measure(&self, report: &mut dyn FnMut(Run)) -> Result<(), BenchmarkError> {
        for round in self.first_round..self.first_round + self.rounds {
            let first = (round - 1) as usize % self.engines.len().max(1);
            let (before, after) = self.engines.split_at(first);
            for engine in after.iter().chain(before) {
                let directory = self.path.join(format!("side-by-side-{}-{engine}", std::process::id()));
                let unusable = |error| BenchmarkError::Directory { path: directory.clone(), error };
                fs::create_dir(&directory).map_err(unusable)?;
                // PostgreSQL may run under another user, which needs access.
                fs::set_permissions(&directory, open_to_all()).map_err(unusable)?;
                let turn = Turn { job: self, engine: *engine, round, path: &directory };
                turn.measure(&|| open(*engine, &directory, &self.setup), report)?;
                fs::remove_dir_all(&directory).map_err(unusable)?;
            }
        }
        Ok(())
    }
}

fn open_to_all() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// Transactions that a database has acknowledged.
#[derive(Clone, Copy, Default)]
struct Acknowledged {
    runs: u64,
    updates: u64,
    insertions: u64,
}

impl Acknowledged {
    fn add(&mut self, operation: Operation, transactions: u64) {
        if operation.increments() {
            self.updates += transactions;
        } else if operation == Operation::Insert {
            self.insertions += transactions;
        }
    }
}

/// One engine in one round.
struct Turn<'a> {
    job: &'a Job,
    engine: Kind,
    round: u64,
    path: &'a Path,
}

impl Turn<'_> {
    fn failed(&self, doing: &'static str) -> impl FnOnce(Failure) -> BenchmarkError {
        let engine = self.engine;
        move |failure| BenchmarkError::Engine { engine, doing, failure }
    }

    fn measure(
        &self,
        open: &dyn Fn() -> Result<Box<dyn Engine>, Failure>,
        report: &mut dyn FnMut(Run),
    ) -> Result<(), BenchmarkError> {
        let rows = self.job.setup.rows;
        let engine = open().map_err(self.failed("opening"))?;
        engine.load(rows).map_err(self.failed("loading"))?;
        let mut acknowledged = Acknowledged::default();
        for clients in &self.job.clients {
            for operation in &self.job.operations {
                acknowledged.runs += 1;
                let plan = self.plan(*operation, *clients, acknowledged.runs);
                let measured = run(&*engine, &plan).map_err(self.failed("running transactions"))?;
                acknowledged.add(*operation, measured.acknowledged);
                report(self.result(&plan, &measured));
            }
            self.check(&*engine, "after a run", acknowledged)?;
        }
        drop(engine);
        let engine = open().map_err(self.failed("opening again"))?;
        self.check(&*engine, "opened again", acknowledged)
    }

    fn plan(&self, operation: Operation, clients: usize, number: u64) -> Plan {
        let Job { time, setup, seed, .. } = self.job;
        let warm_up = *time / WARM_UPS_PER_RUN;
        let seed = crate::random::mix(*seed, self.round);
        Plan { operation, clients, warm_up, time: *time, most: None, rows: setup.rows, seed, number }
    }

    fn result(&self, plan: &Plan, measured: &Measured) -> Run {
        let micros = |quantile| measured.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        Run {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: self.engine,
            operation: plan.operation,
            clients: plan.clients,
            round: self.round,
            rows: plan.rows,
            seconds: plan.time.as_secs_f64(),
            seed: self.job.seed,
            transactions: measured.acknowledged,
            commits_per_second: measured.commits as f64 / plan.time.as_secs_f64(),
            latency_median_us: micros(0.5),
            latency_p99_us: micros(0.99),
            attempts_per_commit: measured.attempts as f64 / measured.commits.max(1) as f64,
        }
    }

    /// Checks that the engine has all rows, and the updates that it acknowledged.
    fn check(
        &self,
        engine: &dyn Engine,
        when: &'static str,
        acknowledged: Acknowledged,
    ) -> Result<(), BenchmarkError> {
        let found = engine.total().map_err(self.failed("counting"))?;
        let Acknowledged { updates, insertions, .. } = acknowledged;
        let count = ROWS_PER_TRANSACTION as u64;
        let expected = Total { rows: self.job.setup.rows + insertions * count, counters: updates * count };
        if found == expected {
            return Ok(());
        }
        Err(BenchmarkError::Untrue {
            engine: self.engine,
            when,
            found: found.counters,
            rows: found.rows,
            expected: expected.counters,
            rows_expected: expected.rows,
            path: self.path.to_path_buf(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::{Client, Keys};

    /// A defect of an engine.
    #[derive(Clone, Copy, PartialEq)]
    enum Flaw {
        None,
        /// It acknowledges an update that it did not make.
        Skips,
        /// It makes an update twice.
        Repeats,
        /// It loses an update when it is closed.
        Forgets,
        /// It loses a row.
        Drops,
    }

    #[derive(Clone)]
    struct Table {
        counters: Arc<Mutex<Vec<u64>>>,
        flaw: Flaw,
    }

    impl Engine for Table {
        fn load(&self, rows: u64) -> Result<(), Failure> {
            let rows = if self.flaw == Flaw::Drops { rows - 1 } else { rows };
            self.counters.lock().unwrap().resize(rows as usize, 0);
            Ok(())
        }

        fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
            Ok(Box::new(TableClient { table: self, updates: 0 }))
        }

        fn total(&self) -> Result<Total, Failure> {
            let mut total = Total::default();
            self.counters.lock().unwrap().iter().for_each(|counter| total.add(*counter));
            Ok(total)
        }
    }

    struct TableClient<'d> {
        table: &'d Table,
        updates: u64,
    }

    impl Client for TableClient<'_> {
        fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
            self.updates += 1;
            let times = match self.table.flaw {
                Flaw::Skips if self.updates == 2 => 0,
                Flaw::Repeats if self.updates == 2 => 2,
                _ => 1,
            };
            let mut counters = self.table.counters.lock().unwrap();
            for key in keys {
                if let Some(counter) = counters.get_mut(*key as usize) {
                    *counter += times;
                }
            }
            Ok(1)
        }

        fn read(&mut self, _: &Keys) -> Result<(u32, u64), Failure> {
            Ok((1, 0))
        }

        fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
            self.table.counters.lock().unwrap().extend(keys.map(|_| 0));
            Ok(1)
        }

        fn scan(&mut self, _: u64) -> Result<(u32, u64), Failure> {
            Ok((1, 0))
        }
    }

    fn job() -> Job {
        Job {
            engines: Vec::new(),
            operations: Operation::ALL.to_vec(),
            clients: vec![1, 3],
            first_round: 1,
            rounds: 1,
            time: Duration::from_millis(5),
            seed: 1,
            path: PathBuf::new(),
            setup: Setup { clients_max: 3, rows: 120, memory: None, postgres: None },
        }
    }

    fn measure(flaw: Flaw) -> (usize, Result<(), BenchmarkError>) {
        let job = job();
        let turn = Turn { job: &job, engine: Kind::Isles, round: 1, path: Path::new("nowhere") };
        let table = Table { counters: Arc::default(), flaw };
        let opened = std::cell::Cell::new(0);
        let open = || -> Result<Box<dyn Engine>, Failure> {
            opened.set(opened.get() + 1);
            if flaw == Flaw::Forgets && opened.get() == 2 {
                table.counters.lock().unwrap()[0] -= 1;
            }
            Ok(Box::new(table.clone()))
        };
        let mut runs = 0;
        let result = turn.measure(&open, &mut |_| runs += 1);
        (runs, result)
    }

    #[test]
    fn engines_that_keep_their_word_pass() {
        let (runs, result) = measure(Flaw::None);
        result.unwrap();
        assert_eq!(runs, 10);
    }

    #[test]
    fn engines_that_break_it_do_not() {
        for (flaw, expected) in [
            (Flaw::Skips, "after a run"),
            (Flaw::Repeats, "after a run"),
            (Flaw::Drops, "after a run"),
            (Flaw::Forgets, "opened again"),
        ] {
            let Err(BenchmarkError::Untrue { when, .. }) = measure(flaw).1 else {
                panic!("nothing was noticed");
            };
            assert_eq!(when, expected);
        }
    }
}
