//! Transactions that are all over several instances and want the same few rows come to an end,
//! whatever the bounds of waits in the instances are: the holder of a row may wait for another
//! instance. Where parts are prepared in the order of the instances, none of
//! them gives up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{Backoff, Bounds, Ending, Plan, Procedure, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use distributed::{Done, End, Map, Member, Setting, WorkerName};
use platform::link::Mechanism;
use platform::{Intent, Nanos, Place, Platform};
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualCore, VirtualMachine};
use terms::{Abort, Category, Faults};

type P = VirtualMachine;

/// Workers, in turn of each instance; each has a part of the data.
const WORKERS: usize = 4;
/// Transactions of each.
const TRANSACTIONS: u64 = 20;
/// Transactions that a worker has under way.
const IN_FLIGHT: usize = 2;
/// How long a member waits until it polls again.
const POLL_NANOS: u64 = 20_000;

#[derive(Row, Clone, Debug)]
#[row(key(part))]
struct Count {
    part: u16,
    count: u64,
}

/// Counts in these parts.
#[derive(Clone, Debug)]
struct Parts(Vec<u16>);

impl Procedure for Parts {
    type Tables = Table<Count>;
    type Action = u16;
    type Output = ();

    fn plan(&mut self, phase: usize, parts: &mut Vec<u16>) -> Plan {
        if phase > 0 {
            return Plan::Commit;
        }
        parts.extend(&self.0);
        Plan::Run
    }

    fn route(counts: &Self::Tables, part: &u16, routes: &mut Routes) {
        routes.write(*counts, part);
    }

    fn execute<T: Verbs>(counts: &Self::Tables, part: &u16, t: &mut T) -> Result<(), Abort> {
        let row = t.find(counts.primary(), part, Intent::Write)?.ok_or(Abort::Misuse("no row"))?;
        let count = t.get(row, Count::COUNT)?;
        t.put(row, Count::COUNT, &(count + 1))
    }

    fn absorb(&mut self, _: usize, _: usize, (): ()) {}
}

fn declare(schema: &mut SchemaBuilder) -> Table<Count> {
    let partitioning = Some(Partitioning { first: 0, count: WORKERS as u16 });
    schema.table("counts", TableOptions { partitioning, ..TableOptions::default() })
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Case {
    scheme: SchemeName,
    seed: u64,
    instances: u16,
    wait_nanos_max: u64,
    in_order: bool,
}

impl Case {
    /// The parts of a worker's transaction: its own one and one or two others.
    fn parts(self, worker: u16, number: u64) -> Vec<u16> {
        let other = |distance: u16| (worker + distance) % WORKERS as u16;
        match (self.instances, number % 3) {
            (2, _) => vec![worker, other(1 + 2 * (number % 2) as u16)],
            (_, 0) => vec![worker, other(1), other(3)],
            (_, 1) => vec![worker, other(2)],
            _ => vec![worker, other(2), other(1)],
        }
    }
}

/// The outcome of a run.
struct Ran {
    nanos: u64,
    /// Attempts that gave up.
    conflicts: u64,
}

/// Runs them all.
fn run(case: Case) -> Ran {
    let Case { scheme, seed, instances, wait_nanos_max, in_order } = case;
    let conflicts = AtomicU64::new(0);
    let config = Config {
        memory_bytes: 1 << 30,
        time_limit: Some(Nanos(2_000_000_000)),
        ..Config::new(Shape::new(1, WORKERS, 1))
    };
    let names: Vec<WorkerName> =
        (0..WORKERS as u16).map(|worker| WorkerName { instance: worker % instances, worker }).collect();
    let program = |c: VirtualCore| {
        let mut schema = SchemaBuilder::new();
        let counts = declare(&mut schema);
        let map = Map::new(&schema.divisions(), names.clone(), instances.into())
            .expect("all parts have an instance");
        let create = |instance: u16| {
            let mut schema = SchemaBuilder::new();
            declare(&mut schema);
            schema.keep_partitions(|part| part % usize::from(instances) == usize::from(instance));
            let options = InstanceOptions {
                sessions_max: WORKERS,
                memory_bytes_max: 64 << 20,
                wait_nanos_max,
                ..InstanceOptions::default()
            };
            let database = engine_simulated::create(scheme, c, &options, schema, &|_| None).expect("memory");
            let mut session = database.session(c, None, false).expect("a session");
            let filled = session.transact(&Bounds::default(), |t| {
                let parts = (0..WORKERS as u16).filter(|part| *part % instances == instance);
                parts.into_iter().try_for_each(|part| t.insert(counts, &Count { part, count: 0 }))
            });
            assert!(matches!(filled, Ok(Ending::Committed(..))));
            drop(session);
            database
        };
        let databases: Vec<_> = (0..instances).map(create).collect();
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = distributed::mesh::connect::<P>(c, &names, &[None; WORKERS], &mechanism, &mut || None);
        let seats = Mutex::new(seats.expect("links").into_iter().map(Some).collect::<Vec<_>>());
        let began = P::now(c);
        let worker = |c: VirtualCore, number: usize| {
            let seat = seats.lock().unwrap_or_else(PoisonError::into_inner)[number].take().expect("a seat");
            let me = names[number];
            let setting = Setting {
                me,
                tables: &counts,
                map: &map,
                fingerprint: 0,
                incarnation: 0,
                durable: false,
                in_order,
                own_first: false,
                duplicate_one_in: 0,
                faults: Faults::NONE,
            };
            let mut member = Member::new(setting, seat.bell, seat.connections).expect("a member");
            let mut session = databases[usize::from(me.instance)].session(c, None, false).expect("a session");
            let session = session.object();
            session.seed(seed + number as u64);
            let mut backoff = Backoff::new(seed * 7 + number as u64);
            let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
            let (mut left, mut waiting, mut done) = (TRANSACTIONS, Vec::new(), Vec::new());
            loop {
                member.turn(c, session, &mut done).expect("a deployment that is whole");
                let now = P::now(c);
                for Done { procedure, ticket: attempts, end } in done.drain(..) {
                    match end {
                        End::Committed(_) => {}
                        End::Conflict => {
                            // Relaxed: nothing but the number is handed on.
                            conflicts.fetch_add(1, Ordering::Relaxed);
                            let ready = now.plus(backoff.nanos(attempts, false));
                            waiting.push((procedure, attempts + 1, ready));
                        }
                        end => panic!("{end:?}"),
                    }
                }
                session.tend(now);
                let can_submit = member.can_submit();
                member.wait_for_turn(left > 0 && !can_submit);
                let ready = waiting.iter().position(|(_, _, ready)| *ready <= now);
                if let Some(ready) = ready.filter(|_| can_submit) {
                    let (parts, attempts, _) = waiting.swap_remove(ready);
                    member.submit(c, session, parts, attempts, once).expect("a deployment that is whole");
                } else if left > 0 && can_submit && member.open() + waiting.len() < IN_FLIGHT {
                    left -= 1;
                    let parts = Parts(case.parts(number as u16, left));
                    member.submit(c, session, parts, 1, once).expect("a deployment that is whole");
                } else {
                    let is_over = left == 0 && member.open() + waiting.len() == 0;
                    if is_over && member.leave(c).expect("a deployment that is whole") {
                        break;
                    }
                    let ready = waiting.iter().map(|(_, _, ready)| *ready);
                    let until = ready.fold(now.plus(POLL_NANOS), Nanos::min);
                    member.wait(c, session, Category::Communication, until);
                }
            }
        };
        P::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
        P::now(c).since(began)
    };
    let ran = VirtualMachine::run(&config.with_seed(seed), program);
    let nanos = ran.unwrap_or_else(|error| panic!("{scheme}: {error}")).value;
    Ran { nanos, conflicts: conflicts.into_inner() }
}

#[test]
fn few_rows_and_long_waits_hold_up_no_transaction() {
    for scheme in SchemeName::ALL {
        let run = |wait_nanos_max| {
            run(Case { scheme, seed: 1, instances: 2, wait_nanos_max, in_order: false }).nanos
        };
        let long = run(InstanceOptions::default().wait_nanos_max);
        let short = run(concurrency::WAIT_NANOS_MAX_PARTICIPANT);
        assert!(long < 2 * short, "{scheme}: {long} ns, and {short} where waits are short");
    }
}

#[test]
fn parts_in_the_order_of_the_instances_wait_and_do_not_give_up() {
    for seed in 0..8 {
        let (scheme, instances) = (SchemeName::Hstore, WORKERS as u16);
        let ran = run(Case { scheme, seed, instances, wait_nanos_max: 0, in_order: true });
        assert_eq!(ran.conflicts, 0, "seed {seed}: in {} ns", ran.nanos);
    }
}
