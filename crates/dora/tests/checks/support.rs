//! A durable database of two partitions, and the machine that it is on.

use boundary::{Database, DurableOptions, SchemaBuilder};
use concurrency::{InstanceOptions, SchemeName};
use dora::{Map, Shared, Sharing, Site};
use platform::Place;
use redo_log::LogOptions;
use schema::{Partitioning, Row, Schema, Table, TableOptions};
use sim::{Config, Disk, Shape, VirtualCore, VirtualMachine};

pub const SITE: Site = Site { node: None, socket: 0 };
pub const PLACES: [Place; 2] = [Place { thread: None }; 2];

/// Runs a program on a machine with this disk.
pub fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk);
    VirtualMachine::run(&config, program).expect("a run").value
}

/// A database with a table of two partitions, each with an owner, and what owners share.
pub fn open<R: Row>(
    c: VirtualCore,
    epoch_nanos: u64,
) -> (Database<VirtualMachine>, Table<R>, Shared<VirtualMachine>) {
    let mut schema = SchemaBuilder::new();
    let partitioning = Some(Partitioning { first: 0, count: 2 });
    let table = schema.table::<R>("rows", TableOptions { partitioning, ..TableOptions::default() });
    let map = Map::new(&schema.divisions(), 2, &|part, _| part).expect("a map");
    let instance = InstanceOptions {
        sessions_max: 3,
        memory_bytes_max: 64 << 20,
        epoch_nanos,
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: 1 << 20, buffer_bytes: 256 << 10, ..LogOptions::default() };
    let durable = DurableOptions {
        log,
        places: PLACES.to_vec(),
        checkpoint_bytes: u64::MAX,
        ..DurableOptions::new("d".into())
    };
    let opened = engine_simulated::open(SchemeName::Hstore, c, &instance, schema, &|_| None, &durable, None);
    let (database, _) = opened.expect("a database");
    (database, table, Shared::new(c, &[SITE; 2], map, Sharing::Central).expect("memory"))
}
