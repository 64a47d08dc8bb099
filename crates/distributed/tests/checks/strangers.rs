//! A worker that speaks for a transaction that it does not coordinate is not obeyed.

use boundary::{Bounds, Ending, Plan, Procedure, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use distributed::mesh::Seat;
use distributed::messages::{GlobalId, Inbox, Message, VERSION, encode};
use distributed::{Connection, Map, Member, MemberError, Setting, WorkerName};
use platform::Intent;
use platform::link::{Mechanism, Patience};
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualCore, VirtualMachine};
use terms::Faults;

type P = VirtualMachine;

#[derive(Row, Clone, Debug)]
#[row(key(part))]
struct Value {
    part: u16,
    value: u64,
}

/// Writes a value into part 1.
struct Write;

impl Procedure for Write {
    type Tables = Table<Value>;
    type Action = u64;
    type Output = u64;

    fn plan(&mut self, _: usize, _: &mut Vec<u64>) -> Plan {
        Plan::Commit
    }

    fn route(values: &Self::Tables, _: &u64, routes: &mut Routes) {
        routes.write(*values, &1_u16);
    }

    fn execute<T: Verbs>(values: &Self::Tables, value: &u64, t: &mut T) -> Result<u64, terms::Abort> {
        let row = t.find(values.primary(), &1, Intent::Write)?.ok_or(terms::Abort::Misuse("no row"))?;
        t.put(row, Value::VALUE, value)?;
        t.get(row, Value::VALUE)
    }

    fn absorb(&mut self, _: usize, _: usize, _: u64) {}
}

type ProcedureMessage = Message<u64, u64>;

/// A worker played by the test.
struct Played<'a> {
    name: WorkerName,
    connection: &'a mut Connection<P>,
}

impl Played<'_> {
    fn send(&mut self, c: VirtualCore, messages: &[ProcedureMessage]) {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| encode(message, &mut bytes).expect("short"));
        self.connection.end.sender.send(c, &bytes).expect("room");
    }

    fn greet(&mut self, c: VirtualCore, to: WorkerName) {
        let hello = Message::Hello { version: VERSION, fingerprint: 0, from: self.name, to };
        self.send(c, &[hello]);
    }

    fn receive_all(&mut self, c: VirtualCore) -> Vec<ProcedureMessage> {
        let (mut inbox, mut messages, mut buffer) = (Inbox::default(), Vec::new(), [0; 4088]);
        while let Some(bytes) =
            self.connection.end.receiver.receive(c, &mut buffer, Patience::None).expect("open")
        {
            inbox.push(&buffer[..bytes]);
        }
        while let Some((message, _)) = inbox.take::<u64, u64>().expect("a message") {
            messages.push(message);
        }
        messages
    }
}

/// The reaction of the worker of instance 1 to messages of its peers after it has prepared a part
/// for the first of them, and its value then.
fn react(
    liar: impl Fn(GlobalId) -> (usize, ProcedureMessage) + Send + Sync,
) -> (Result<bool, MemberError>, u64) {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 1, 1)) };
    let program = |c: VirtualCore| {
        let names = [0, 1, 2].map(|number| WorkerName { instance: number, worker: number });
        let mut schema = SchemaBuilder::new();
        let partitioning = Some(Partitioning { first: 0, count: 3 });
        let options = TableOptions { partitioning, ..TableOptions::default() };
        let values: Table<Value> = schema.table("values", options);
        let map = Map::new(&schema.divisions(), names.to_vec(), 3).expect("all parts have an instance");
        schema.keep_partitions(|part| part == 1);
        let options =
            InstanceOptions { sessions_max: 2, memory_bytes_max: 64 << 20, ..InstanceOptions::default() };
        let database: boundary::Database<P> =
            engine_simulated::create(SchemeName::Silo, c, &options, schema, &|_| None).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        let filled = session.transact(&Bounds::default(), |t| t.insert(values, &Value { part: 1, value: 5 }));
        assert!(matches!(filled, Ok(Ending::Committed(..))), "{filled:?}");
        let mechanism = |_, _| Mechanism::SharedMemory;
        let seats = distributed::mesh::connect::<P>(c, &names, &[None; 3], &mechanism, &mut || None);
        let mut seats = seats.expect("links").into_iter();
        let [mut first, own, mut third] = [(); 3].map(|()| seats.next().expect("a seat"));
        let setting = Setting {
            me: names[1],
            tables: &values,
            map: &map,
            fingerprint: 0,
            incarnation: 1,
            durable: false,
            in_order: false,
            own_first: false,
            duplicate_one_in: 0,
            faults: Faults::NONE,
        };
        let mut member: Member<'_, P, Write, ()> =
            Member::new(setting, own.bell, own.connections).expect("a member");
        fn turn<'d>(
            c: VirtualCore,
            member: &mut Member<'d, P, Write, ()>,
            session: &mut boundary::Session<'d>,
        ) -> Result<bool, MemberError> {
            let mut turned = Ok(false);
            for _ in 0..3 {
                turned = turned.and_then(|_| member.turn(c, session.object(), &mut Vec::new()));
            }
            turned
        }
        fn to_second(seat: &mut Seat<P>, name: WorkerName) -> Played<'_> {
            let connection = seat.connections.iter_mut().find(|connection| connection.to.instance == 1);
            Played { name, connection: connection.expect("a link") }
        }
        let mut others = [to_second(&mut first, names[0]), to_second(&mut third, names[2])];
        others.iter_mut().for_each(|other| other.greet(c, names[1]));
        let id = GlobalId { coordinator: names[0], sequence: 1 };
        others[0].send(c, &[Message::Request { id, is_last: false, only_reads: false, actions: vec![7] }]);
        turn(c, &mut member, &mut session).expect("a part is prepared");
        let voted = others[0].receive_all(c);
        assert!(matches!(voted.last(), Some(Message::Vote { result: Ok(_), .. })), "{voted:?}");
        let (who, lie) = liar(id);
        others[who].send(c, &[lie]);
        let reaction = turn(c, &mut member, &mut session);
        if reaction.is_err() {
            // Its own coordinator is obeyed: nothing else has ended the part.
            drop(member);
            return (reaction, 5);
        }
        let read = session.transact(&Bounds::default(), |t| {
            let row = t.find(values.primary(), &1, Intent::Read)?.expect("it is there");
            t.get(row, Value::VALUE)
        });
        let Ok(Ending::Committed(value, _)) = read else { panic!("{read:?}") };
        drop(member);
        (reaction, value)
    };
    VirtualMachine::run(&config, program).expect("a run").value
}

#[test]
fn a_decision_is_taken_from_the_coordinator_alone() {
    for commit in [false, true] {
        let (reaction, value) = react(|id| (0, Message::Decision { id, commit }));
        assert_eq!((reaction.is_ok(), value), (true, if commit { 7 } else { 5 }));
        let (reaction, _) = react(|id| (1, Message::Decision { id, commit }));
        let error = reaction.expect_err("another worker has decided");
        assert!(matches!(error, MemberError::Stranger { .. }), "{error}");
    }
}

#[test]
fn a_request_is_taken_from_the_coordinator_alone() {
    let (reaction, _) = react(|id| {
        let id = GlobalId { sequence: 2, ..id };
        (1, Message::Request { id, is_last: false, only_reads: false, actions: vec![8] })
    });
    assert!(matches!(reaction, Err(MemberError::Stranger { .. })));
}
