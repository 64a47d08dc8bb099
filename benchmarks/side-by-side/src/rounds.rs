//! All engines in turn, round by round, and whether each kept its word.
//!
//! An engine's turn: it is opened in an empty directory and loaded; for each number of clients come
//! a run of each operation and a count of all rows; then it is closed and opened again, and the
//! rows are counted once more. Every update that was acknowledged has to be there, and no other.
//! Rounds begin with different engines, since the machine is not the same all the time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::{Engine, Failure, Operation, ROWS_PER_TRANSACTION, Total};
use crate::engines::{Kind, Setup, open};
use crate::report::Run;
use crate::run::{Measured, Plan, run};

/// Shares of a run's time that come before it: a quarter.
const WARM_UPS_PER_RUN: u32 = 4;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Job {
    /// The engines, in the order of the first round.
    pub engines: Vec<Kind>,
    /// What transactions do.
    pub operations: Vec<Operation>,
    /// Clients of the runs.
    pub clients: Vec<usize>,
    /// Number of the first round.
    pub first_round: u64,
    /// How many there are.
    pub rounds: u64,
    /// Time of each run.
    pub time: Duration,
    /// Decides which rows are chosen, with the round.
    pub seed: u64,
    /// Where the engines' directories are made.
    pub path: PathBuf,
    /// What it takes to open them.
    pub setup: Setup,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// The engine's words.
    #[error("{engine} failed ({doing}): {failure}")]
    Engine {
        /// The engine.
        engine: Kind,
        /// What it was to do.
        doing: &'static str,
        /// What it said.
        failure: Failure,
    },
    /// It has other rows than it should.
    #[error(
        "{engine} broke its word ({when}): it has {found} updates in {rows} rows, and acknowledged {expected} in \
         {rows_expected}; its files are in {path}"
    )]
    Untrue {
        /// The engine.
        engine: Kind,
        /// When it was noticed.
        when: &'static str,
        /// Updates of rows that are there.
        found: u64,
        /// Rows that are there.
        rows: u64,
        /// Updates of rows that were acknowledged.
        expected: u64,
        /// Rows that were loaded or inserted.
        rows_expected: u64,
        /// Where it is.
        path: PathBuf,
    },
    /// A directory cannot be made or removed.
    #[error("{path}: {error}: name a directory that can be written with --path")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Job {
    /// Runs that it has.
    pub fn runs(&self) -> u64 {
        self.rounds * (self.engines.len() * self.operations.len() * self.clients.len()) as u64
    }

    /// Measures; `tell` is called with each result.
    ///
    /// # Errors
    /// The first thing that went wrong; an engine's files are left where they are then.
    pub fn measure(&self, tell: &mut dyn FnMut(Run)) -> Result<(), BenchmarkError> {
        for round in self.first_round..self.first_round + self.rounds {
            let first = (round - 1) as usize % self.engines.len().max(1);
            let (before, after) = self.engines.split_at(first);
            for engine in after.iter().chain(before) {
                let directory = self.path.join(format!("side-by-side-{}-{engine}", std::process::id()));
                let unusable = |error| BenchmarkError::Directory { path: directory.clone(), error };
                fs::create_dir(&directory).map_err(unusable)?;
                // PostgreSQL may run under another user, which has to get through.
                fs::set_permissions(&directory, open_to_all()).map_err(unusable)?;
                let turn = Turn { job: self, engine: *engine, round, path: &directory };
                turn.measure(&|| open(*engine, &directory, &self.setup), tell)?;
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
        tell: &mut dyn FnMut(Run),
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
                tell(self.result(&plan, &measured));
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

    /// Whether the engine has all rows, and the updates that it acknowledged.
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

    /// What is wrong with an engine.
    #[derive(Clone, Copy, PartialEq)]
    enum Flaw {
        None,
        /// It acknowledges an update that it did not do.
        Skips,
        /// It does an update twice.
        Repeats,
        /// It forgets an update when it is closed.
        Forgets,
        /// It forgets a row.
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
