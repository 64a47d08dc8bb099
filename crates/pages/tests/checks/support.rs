//! Support of all checks.

use std::ops::ControlFlow;
use std::path::PathBuf;

use boundary::{AnyDatabase, Direction, Session, Verbs};
use pages::{PagedDatabase, PagedOptions};
use platform::Intent;
use platform::files::Files;
use schema::{Field, Row, Table};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualMachine};
use terms::Abort;
use terms::random::{GOLDEN, Xorshift};

/// Runs a program in a small virtual machine with a disk, whose schedule depends on the seed.
pub fn virtually<R: Send>(seed: u64, cores: usize, program: impl FnOnce(sim::VirtualCore) -> R) -> R {
    let shape = Shape::new(2, cores.div_ceil(2), 1);
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let config = Config { memory_bytes: 256 << 20, ..Config::new(shape).with_seed(seed).perturbed() };
    match VirtualMachine::run(&config.with_disk(&disk), program) {
        Ok(outcome) => outcome.value,
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

/// A pool of this many small frames over a file of its own.
pub fn options(frames: u64, page_bytes: usize, sessions_max: usize) -> PagedOptions {
    PagedOptions {
        sessions_max,
        page_bytes,
        pages_max: 4_000,
        directory: Some(PathBuf::from("pages")),
        lock_lists: 64,
        locks_max: 4_096,
        ..PagedOptions::with_pool(frames * page_bytes as u64)
    }
}

pub fn session<P: Files>(database: &PagedDatabase<P>, c: P::Core) -> Session<'_> {
    Session::new(AnyDatabase::session(database, c, None, false).expect("a session"))
}

/// Random numbers.
pub struct Random(Xorshift);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Xorshift::new(seed.wrapping_mul(GOLDEN) | 1))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.0.next() >> 11) % bound
    }
}

/// Nothing is wrong with pages, trees and indexes.
pub fn assert_sound<P: Files>(database: &PagedDatabase<P>, c: P::Core) {
    assert_eq!(database.check(c).expect("all pages can be read"), Vec::<String>::new());
    assert_eq!(database.failure(c), None);
}

/// The sum of a field of all rows, as one scan sees them.
pub fn sum<R: Row<Key = u64>>(
    t: &mut impl Verbs,
    table: Table<R>,
    field: Field<R, u64>,
    direction: Direction,
) -> Result<u64, Abort> {
    let mut sum = 0;
    t.scan(table.primary(), &0, &u64::MAX, direction, Intent::Read, &mut |t, row| {
        sum += t.get(row, field)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sum)
}
