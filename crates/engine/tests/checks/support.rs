//! Support of all checks: databases, machines, and a random source.

use boundary::{Bounds, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, Scheme};
use engine::testing::Shuffle;
use engine::{MemoryDatabase, MemorySession};
use platform::{Place, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualMachine};

/// Bytes that a small test may use.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

pub fn options(sessions_max: usize) -> InstanceOptions {
    InstanceOptions {
        sessions_max,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: 3_000,
        ..InstanceOptions::default()
    }
}

/// A database of one table with these rows.
pub fn with_rows<P: Platform, S: Scheme<P>, R: Row>(
    c: P::Core,
    options: &InstanceOptions,
    of_table: TableOptions,
    rows: impl IntoIterator<Item = R>,
) -> (MemoryDatabase<P, S>, Table<R>) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<R>("rows", of_table);
    let database = MemoryDatabase::create(c, options, schema, &|_| None).expect("memory for tables");
    let mut session = database.session(c, None, false).expect("a session");
    for row in rows {
        session.transact(&Bounds::default(), |t| t.insert(table, &row)).expect("no other transaction runs");
    }
    drop(session);
    (database, table)
}

/// Runs a program in a small virtual machine whose schedule depends on the seed. A deadlock fails
/// the test.
pub fn virtually<R: Send>(seed: u64, cores: usize, program: impl FnOnce(sim::VirtualCore) -> R) -> R {
    match try_virtually(seed, cores, program) {
        Ok(value) => value,
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

/// The same, for programs that may fail.
pub fn try_virtually<R: Send>(
    seed: u64,
    cores: usize,
    program: impl FnOnce(sim::VirtualCore) -> R,
) -> Result<R, sim::SimError> {
    let shape = Shape::new(2, cores.div_ceil(2), 1);
    let config = Config { memory_bytes: 256 << 20, ..Config::new(shape).with_seed(seed).perturbed() };
    VirtualMachine::run(&config, program).map(|outcome| outcome.value)
}

/// Runs `work` with a session for each of some workers.
pub fn workers<P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &MemoryDatabase<P, S>,
    count: usize,
    work: &(dyn Fn(&mut MemorySession<'_, P, S>, usize) + Sync),
) {
    let worker = |c: P::Core, number: usize| {
        let mut session = database.session(c, None, P::VIRTUAL).expect("sessions for all workers");
        session.seed(number as u64);
        work(&mut session, number);
    };
    P::parallel(c, &vec![Place { thread: None }; count], &worker, &mut |_| ());
}

/// Random choices of a worker.
pub struct Random(Shuffle);

impl Random {
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(Shuffle::new(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93),
        ))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound as usize) as u64
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
