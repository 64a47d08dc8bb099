//! Transactions that are all over two instances and want the same few rows come to an end, whatever instances were told about how
//! long transactions wait for each other: who has a row may be waiting for another instance.

use std::sync::{Mutex, PoisonError};

use cc::{InstanceOptions, SchemeName};
use engine::{Backoff, Bounds, Ending, Plan, Procedure, SchemaBuilder, Verbs};
use islands::{Done, End, Map, Member, Rules, Setting, WorkerName};
use platform::link::Mechanism;
use platform::{Intent, Nanos, Place, Platform};
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualCore, VirtualMachine};
use terms::{Abort, Category};

type P = VirtualMachine;

/// Workers, in turn of the one instance and of the other; each has a part of the data.
const WORKERS: usize = 4;
/// Transactions of each.
const TRANSACTIONS: u64 = 20;
/// Transactions that a worker has under way.
const IN_FLIGHT: usize = 2;
/// How long a member waits until it looks again.
const LOOK_NANOS: u64 = 20_000;

#[derive(Row, Clone, Debug)]
#[row(key(part))]
struct Count {
    part: u16,
    count: u64,
}

/// Counts in these parts.
#[derive(Clone, Copy, Debug)]
struct Both([u16; 2]);

impl Procedure for Both {
    type Tables = Table<Count>;
    type Action = u16;
    type Output = ();

    fn plan(&mut self, phase: usize, parts: &mut Vec<u16>) -> Plan {
        if phase > 0 {
            return Plan::Commit;
        }
        parts.extend(self.0);
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

/// Runs them all; the time that they took.
fn run(scheme: SchemeName, seed: u64, wait_nanos_max: u64) -> u64 {
    let config = Config {
        memory_bytes: 1 << 30,
        time_limit: Some(Nanos(2_000_000_000)),
        ..Config::new(Shape::new(1, WORKERS, 1))
    };
    let names: Vec<WorkerName> =
        (0..WORKERS as u16).map(|worker| WorkerName { instance: worker % 2, worker }).collect();
    let program = |c: VirtualCore| {
        let mut schema = SchemaBuilder::new();
        let counts = declare(&mut schema);
        let map = Map::new(&schema.divisions(), names.clone(), 2).expect("all parts have an instance");
        let databases = [0, 1].map(|instance| {
            let mut schema = SchemaBuilder::new();
            declare(&mut schema);
            schema.keep_partitions(|part| part % 2 == instance);
            let options = InstanceOptions {
                sessions_max: WORKERS,
                memory_bytes_max: 64 << 20,
                wait_nanos_max,
                ..InstanceOptions::default()
            };
            let database = engine_virtual::create(scheme, c, &options, schema, &|_| None).expect("memory");
            let mut session = database.session(c, None, false).expect("a session");
            let filled = session.transact(&Bounds::default(), |t| {
                let parts = (0..WORKERS as u16).filter(|part| usize::from(*part) % 2 == instance);
                parts.into_iter().try_for_each(|part| t.insert(counts, &Count { part, count: 0 }))
            });
            assert!(matches!(filled, Ok(Ending::Committed(..))));
            drop(session);
            database
        });
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = islands::mesh::connect::<P>(c, &names, &[None; WORKERS], &mechanism, &mut || None);
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
                in_order: false,
                rules: Rules::SOUND,
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
                            let ready = now.plus(backoff.nanos(attempts, false));
                            waiting.push((procedure, attempts + 1, ready));
                        }
                        end => panic!("{end:?}"),
                    }
                }
                session.tend(now);
                if let Some(ready) = waiting.iter().position(|(_, _, ready)| *ready <= now) {
                    let (both, attempts, _) = waiting.swap_remove(ready);
                    member.submit(c, session, (both, attempts), once).expect("a deployment that is whole");
                } else if left > 0 && member.open() + waiting.len() < IN_FLIGHT {
                    left -= 1;
                    let other = (number as u16 + 1 + 2 * (left % 2) as u16) % WORKERS as u16;
                    let both = Both([number as u16, other]);
                    member.submit(c, session, (both, 1), once).expect("a deployment that is whole");
                } else {
                    let is_over = left == 0 && member.open() + waiting.len() == 0;
                    if is_over && member.leave(c).expect("a deployment that is whole") {
                        break;
                    }
                    let ready = waiting.iter().map(|(_, _, ready)| *ready);
                    let until = ready.fold(now.plus(LOOK_NANOS), Nanos::min);
                    member.wait(c, session, (Category::Communication, until));
                }
            }
        };
        P::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
        P::now(c).since(began)
    };
    VirtualMachine::run(&config.with_seed(seed), program)
        .unwrap_or_else(|error| panic!("{scheme}: {error}"))
        .value
}

#[test]
fn few_rows_and_long_waits_hold_up_nobody() {
    for scheme in SchemeName::ALL {
        let long = run(scheme, 1, InstanceOptions::default().wait_nanos_max);
        let short = run(scheme, 1, cc::WAIT_NANOS_MAX_PARTICIPANT);
        assert!(long < 2 * short, "{scheme}: {long} ns, and {short} where nobody waits for long");
    }
}
