//! TPC-C's full mix gives the same bytes compiled with the engine and through its dynamic boundary:
//! measurement, virtual time, counts of the machine, the begin of each transaction of each worker,
//! and all rows.

use boundary::{AnySession, Bounds, Database, Ending, Procedure};
use concurrency::{Hstore, Mvcc, NoWait, Scheme, SchemeName, Silo};
use harness::{Executor, ExecutorArguments, ExecutorResult};
use schema::{Index, Inspector, Key, Row};
use sim::{Config, Outcome, Shape, VirtualCore, VirtualMachine};
use terms::Abort;
use workloads::tpcc::{Tables, Tpcc, Transaction};

use crate::support::{Load, Ran, run_inline};

/// Runs procedures that are compiled together with the engine.
struct Compiled<'d, S: Scheme<VirtualMachine>> {
    session: engine::MemorySession<'d, VirtualMachine, S>,
    tables: &'d Tables,
    actions: Vec<<Transaction as Procedure>::Action>,
}

impl<'d, S: Scheme<VirtualMachine>> Executor<'d, Transaction> for Compiled<'d, S> {
    fn run(&mut self, procedure: &mut Transaction, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        self.session.run(self.tables, procedure, &mut self.actions, bounds)
    }

    fn look_ahead(&mut self, procedure: Option<&Transaction>) {
        self.session.look_ahead(self.tables, procedure);
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        &mut self.session
    }
}

fn compiled<'d, S: Scheme<VirtualMachine>>(
    seat: ExecutorArguments<'d, VirtualMachine, Transaction>,
) -> ExecutorResult<'d, Transaction> {
    let ExecutorArguments { c, database, tables, node, measure, .. } = seat;
    let database = database.object().as_any().downcast_ref::<engine::MemoryDatabase<VirtualMachine, S>>();
    let session = database.expect("it has this scheme").session(c, node, measure)?;
    Ok(Box::new(Compiled { session, tables, actions: Vec::new() }))
}

/// Bytes of all rows, table by table.
fn content(database: &Database<VirtualMachine>, c: VirtualCore, tables: &Tables) -> Vec<Vec<u8>> {
    fn of<R: Row, K: Key>(
        database: &Database<VirtualMachine>,
        c: VirtualCore,
        index: Index<R, K>,
        low: K,
        high: K,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        database.inspector(c).scan(index, &low, &high, &mut |row: &R| {
            let begin = bytes.len();
            bytes.resize(begin + R::BYTES, 0);
            row.store(&mut bytes[begin..]);
            bytes.extend_from_slice(&row.tail());
        });
        bytes
    }
    const WORD: u32 = u32::MAX;
    const HALF: u16 = u16::MAX;
    const BYTE: u8 = u8::MAX;
    vec![
        of(database, c, tables.warehouse.primary(), 0, HALF),
        of(database, c, tables.district.primary(), (0, 0), (HALF, BYTE)),
        of(database, c, tables.customer.primary(), (0, 0, 0), (HALF, BYTE, HALF)),
        of(database, c, tables.history.primary(), (0, 0, 0), (HALF, HALF, WORD)),
        of(database, c, tables.new_order.primary(), (0, 0, 0), (HALF, BYTE, WORD)),
        of(database, c, tables.order.primary(), (0, 0, 0), (HALF, BYTE, WORD)),
        of(database, c, tables.order_line.primary(), (0, 0, 0, 0), (HALF, BYTE, WORD, BYTE)),
        of(database, c, tables.item.primary(), 0, WORD),
        of(database, c, tables.stock.primary(), (0, 0), (HALF, WORD)),
    ]
}

fn the_same_both_ways<S: Scheme<VirtualMachine>>() {
    let scheme: SchemeName = S::NAME.parse().expect("a scheme of the registry");
    let tpcc = Tpcc { scale: 0.01, remote_items_percent: 10.0, ..Tpcc::new(2) };
    let load = Load { workers: 4, transactions: 60, seed: 7 };
    let config = Config::new(Shape::new(2, 2, 1)).with_seed(load.seed).perturbed();
    let run = |inline| -> Outcome<(Ran, Vec<Vec<u8>>)> {
        let outcome = VirtualMachine::run(&config, |c| {
            let mut rows = Vec::new();
            let mut inspect = |database: &Database<VirtualMachine>, tables: &Tables| {
                rows = content(database, c, tables);
            };
            let ran = run_inline(c, scheme, tpcc.clone(), &load, |_| 0, inline, &mut inspect);
            (ran, rows)
        });
        outcome.expect("it ends")
    };
    let (first, second) = (run(compiled::<S>), run(harness::dynamic));
    let (ran, rows) = &first.value;
    ran.assert_consistent();
    assert!(ran.committed.iter().all(|commits| *commits > 0), "{scheme}: {ran:?}");
    assert!(rows.iter().all(|table| !table.is_empty()), "{scheme}: a table is empty");
    assert_eq!(ran, &second.value.0, "{scheme}");
    assert_eq!(first.statistics, second.statistics, "{scheme}");
    assert!(first == second, "{scheme}: the rows differ");
}

#[test]
fn the_full_mix_is_the_same_under_optimistic_schemes() {
    the_same_both_ways::<Silo>();
    the_same_both_ways::<Mvcc>();
}

#[test]
fn the_full_mix_is_the_same_under_locks() {
    the_same_both_ways::<NoWait>();
    the_same_both_ways::<Hstore>();
}
