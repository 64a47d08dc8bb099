//! The result of a rollback over two instances never follows from rows that a crash could take
//! back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{Bounds, DurableOptions, Ending, Plan, Procedure, SchemaBuilder, Verbs, run_as};
use concurrency::{InstanceOptions, SchemeName};
use distributed::{Done, End, Map, Member, Setting, WorkerName};
use platform::link::Mechanism;
use platform::{Intent, Nanos, Place, Platform};
use redo_log::LogOptions;
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::{Abort, Category, Epoch, Faults};

type P = VirtualMachine;
type Database = boundary::Database<P>;

/// How long a member waits until it polls again.
const POLL_NANOS: u64 = 5_000;

#[derive(Row, Clone, Debug)]
#[row(key(part))]
struct Value {
    part: u16,
    value: u64,
}

/// Writes a value or reads the values of all parts.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Writes into part 0.
    Write(u64),
    /// Reads both parts, and rolls back because of what part 0 has.
    Refuse { read_only: bool, seen: u64 },
}

/// Writes the value of a part, or reads it if there is no `value`.
#[derive(serde::Serialize, serde::Deserialize, Clone, Debug)]
struct Access {
    part: u16,
    value: Option<u64>,
}

impl Procedure for Work {
    type Tables = Table<Value>;
    type Action = Access;
    type Output = u64;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Self::Action>) -> Plan {
        match (*self, phase) {
            (Work::Write(value), 0) => actions.push(Access { part: 0, value: Some(value) }),
            (Work::Refuse { .. }, 0) => {
                actions.extend([0, 1].map(|part| Access { part, value: None }));
            }
            (Work::Refuse { seen, .. }, _) if seen > 0 => return Plan::RollBack,
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(values: &Self::Tables, access: &Access, routes: &mut Routes) {
        match access.value {
            Some(_) => routes.write(*values, &access.part),
            None => routes.read(*values, &access.part),
        }
    }

    fn execute<T: Verbs>(values: &Self::Tables, access: &Access, t: &mut T) -> Result<u64, Abort> {
        let Access { part, value } = access;
        let intent = if value.is_some() { Intent::Write } else { Intent::Read };
        let row = t.find(values.primary(), part, intent)?.ok_or(Abort::Misuse("no row"))?;
        if let Some(value) = value {
            t.put(row, Value::VALUE, value)?;
        }
        t.get(row, Value::VALUE)
    }

    fn absorb(&mut self, _: usize, _: usize, output: u64) {
        if let Work::Refuse { seen, .. } = self {
            *seen += output;
        }
    }

    fn read_only(&self) -> bool {
        matches!(self, Work::Refuse { read_only: true, .. })
    }
}

fn declare(schema: &mut SchemaBuilder) -> Table<Value> {
    let partitioning = Some(Partitioning { first: 0, count: 2 });
    schema.table("values", TableOptions { partitioning, ..TableOptions::default() })
}

fn open(c: VirtualCore, scheme: SchemeName, instance: usize) -> Database {
    let mut schema = SchemaBuilder::new();
    declare(&mut schema);
    schema.keep_partitions(|part| part == instance);
    let options = InstanceOptions {
        sessions_max: 3,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 200_000,
        wait_nanos_max: distributed::wait_nanos_max(1),
        ..InstanceOptions::default()
    };
    let places = vec![Place { thread: None }];
    let log = LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() };
    let path = format!("instance-{instance}").into();
    let durable = DurableOptions { log, places, ..DurableOptions::new(path) };
    let opened = engine_simulated::open(scheme, c, &options, schema, &|_| None, &durable, None);
    opened.expect("a database").0
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config {
        memory_bytes: 1 << 30,
        time_limit: Some(Nanos(1_000_000_000)),
        ..Config::new(Shape::new(1, 2, 1))
    };
    VirtualMachine::run(&config.with_disk(disk), program).expect("a run").value
}

/// The epoch that the caller of the roll-back waits for, and whether it had to wait.
type Awaited = (Epoch, bool);

/// Writes a value, and lets a transaction over both instances roll back because of it.
fn roll_back<'d>(
    c: VirtualCore,
    values: Table<Value>,
    member: &mut Member<'d, P, Work, ()>,
    session: &mut boundary::Session<'d>,
    read_only: bool,
) -> Awaited {
    let written = run_as(
        session.object(),
        terms::Mode::Single,
        &values,
        &mut Work::Write(7),
        &mut Vec::new(),
        &Bounds::default(),
    );
    let Ok(Ending::Committed((), _)) = written else { panic!("{written:?}") };
    let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
    let mut next = Some(Work::Refuse { read_only, seen: 0 });
    let mut done = Vec::new();
    loop {
        if let Some(work) = next.take() {
            member.submit(c, session.object(), work, (), once).expect("a deployment that is whole");
        }
        session.object().tend(P::now(c));
        member.turn(c, session.object(), &mut done).expect("a deployment that is whole");
        match done.pop().map(|Done { end, .. }| end) {
            Some(End::RolledBack(epoch)) => {
                let waits = !session.object().is_durable(epoch);
                session.wait_durable(epoch).expect("durable");
                return (epoch, waits);
            }
            Some(End::Conflict) => next = Some(Work::Refuse { read_only, seen: 0 }),
            Some(end) => panic!("{end:?}"),
            None => member.wait(c, session.object(), Category::Communication, P::now(c).plus(POLL_NANOS)),
        }
    }
}

/// Rolls back, reports that, and loses power; returns true if the caller had to wait.
fn lose_power_after_rollback(scheme: SchemeName, read_only: bool) -> bool {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    let names = [0, 1].map(|number| WorkerName { instance: number, worker: number });
    let waited = run(&disk, |c| {
        let mut schema = SchemaBuilder::new();
        let values = declare(&mut schema);
        let map = Map::new(&schema.divisions(), names.to_vec(), 2).expect("both parts have an instance");
        let databases = [0, 1].map(|instance| open(c, scheme, instance));
        for (part, database) in databases.iter().enumerate() {
            let mut session = database.session(c, None, false).expect("a session");
            let row = Value { part: part as u16, value: 0 };
            let filled = session.transact(&Bounds::default(), |t| t.insert(values, &row));
            let Ok(Ending::Committed((), commit)) = filled else { panic!("{filled:?}") };
            session.wait_durable(commit).expect("durable");
        }
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = distributed::mesh::connect::<P>(c, &names, &[None; 2], &mechanism, &mut || None);
        let seats = Mutex::new(seats.expect("links").into_iter().map(Some).collect::<Vec<_>>());
        let (over, reported) = (AtomicBool::new(false), Mutex::new(None));
        let worker = |c: VirtualCore, number: usize| {
            let seat = seats.lock().unwrap_or_else(PoisonError::into_inner)[number].take().expect("a seat");
            let setting = Setting {
                me: names[number],
                tables: &values,
                map: &map,
                fingerprint: 0,
                incarnation: 1,
                durable: true,
                in_order: false,
                own_first: false,
                duplicate_one_in: 0,
                faults: Faults::NONE,
            };
            let mut member = Member::new(setting, seat.bell, seat.connections).expect("a member");
            let mut session = databases[number].session(c, None, false).expect("a session");
            if number == 0 {
                let ended = roll_back(c, values, &mut member, &mut session, read_only);
                *reported.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                over.store(true, Ordering::SeqCst);
            }
            while !over.load(Ordering::SeqCst) {
                session.object().tend(P::now(c));
                member.turn(c, session.object(), &mut Vec::new()).expect("a deployment that is whole");
                let until: Nanos = P::now(c).plus(POLL_NANOS);
                member.wait(c, session.object(), Category::Communication, until);
            }
        };
        P::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
        reported.into_inner().unwrap_or_else(PoisonError::into_inner).expect("it was reported").1
    });
    disk.lose_power();
    let found = run(&disk, |c| {
        let values = declare(&mut SchemaBuilder::new());
        let database = open(c, scheme, 0);
        let mut session = database.session(c, None, false).expect("a session");
        let read = session.transact(&Bounds::default(), |t| {
            let row = t.find(values.primary(), &0, Intent::Read)?.expect("it is there");
            t.get(row, Value::VALUE)
        });
        let Ok(Ending::Committed(value, _)) = read else { panic!("{read:?}") };
        value
    });
    assert_eq!(found, 7, "{scheme}, read_only {read_only}: a lost state was reported");
    waited
}

#[test]
fn a_roll_back_is_reported_when_what_it_follows_from_is_durable() {
    for scheme in SchemeName::ALL {
        let waited = [false, true].map(|read_only| lose_power_after_rollback(scheme, read_only));
        // Under others a vote takes as long as the caller would have to wait.
        if scheme == SchemeName::Silo {
            assert_eq!(waited, [true; 2], "the worker was held up instead, or there was nothing to wait for");
        }
    }
}
