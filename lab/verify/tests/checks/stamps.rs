//! Stamps of rows as transactions see them, under each scheme: that of a row's last writer, or one
//! before its next.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;

use concurrency::{
    Hstore, IndexShape, Instance, InstanceOptions, Parts, RowNumber, Scheme, Silo, TableShape, TicToc,
    WorkerContext,
};
use platform::{Hardware, Intent, Place, Platform};
use sim::{Config, VirtualCore, VirtualMachine};
use storage::index::Shape;
use terms::{Abort, Fault, Faults, Mode, Stamp};

/// Rows of a table, in two partitions: key and value, a word each.
const KEYS: [u64; 4] = [1, 2, 1 << 48, 2 << 48];
const WORKERS: usize = 4;
const SEEDS: u64 = 150;
/// Transactions of a worker.
const TRANSACTIONS: u64 = 40;

fn instance<P: Platform, S: Scheme<P>>(c: P::Core, broken: &[Fault]) -> Instance<P, S> {
    let shape = |read_only| TableShape {
        row_words: 2,
        has_tail: false,
        read_only,
        constant: 0,
        key_bytes: Vec::new(),
        key_tail: Vec::new(),
        key_in_tail: false,
        indexes: vec![IndexShape { words: 1, first: Some(0), partitions: vec![(Shape::Tree(1), None); 2] }],
    };
    let options = InstanceOptions {
        sessions_max: WORKERS + 1,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 3_000,
        faults: Faults::of(broken),
        ..InstanceOptions::default()
    };
    Instance::new(c, &options, &[shape(false), shape(true)]).expect("memory")
}

type Body<'b, 'i, P, S, T> =
    &'b mut dyn FnMut(&mut <S as Parts<P>>::Transaction, &mut WorkerContext<'i, P, S>) -> Result<T, Abort>;

/// One attempt of a transaction.
fn transact<'i, P: Platform, S: Scheme<P>, T>(
    session: &mut WorkerContext<'i, P, S>,
    mode: Mode,
    body: Body<'_, 'i, P, S, T>,
) -> Result<(T, Stamp), Abort> {
    session.enter();
    let mut transaction = S::begin(&mut session.context(), mode);
    match body(&mut transaction, session) {
        Ok(value) => {
            let prepared = S::prepare(transaction, &mut session.context())?;
            Ok((value, S::commit(prepared, &mut session.context())))
        }
        Err(abort) => {
            S::abort(transaction, &mut session.context());
            Err(abort)
        }
    }
}

fn find<P: Platform, S: Scheme<P>>(
    transaction: &mut S::Transaction,
    session: &mut WorkerContext<'_, P, S>,
    table: usize,
    key: u64,
    intent: Intent,
) -> Result<RowNumber, Abort> {
    let (mut cx, key) = (session.context(), &[key][..]);
    let found = S::find(transaction, &mut cx, table, 0, key, intent)?;
    Ok(found.expect("the row is there"))
}

/// The value of a row, and its stamp as the transaction sees it.
fn read<P: Platform, S: Scheme<P>>(
    transaction: &mut S::Transaction,
    session: &mut WorkerContext<'_, P, S>,
    row: RowNumber,
) -> Result<(u64, Stamp), Abort> {
    let mut words = [0; 2];
    S::read(transaction, &mut session.context(), row, 0, &mut words)?;
    Ok((words[1], S::stamp(transaction, row)))
}

fn insert<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    table: usize,
    key: u64,
    value: u64,
) -> Stamp {
    let row: Vec<u8> = [key, value].iter().flat_map(|word| word.to_le_bytes()).collect();
    let inserted = transact(session, Mode::Single, &mut |transaction, session| {
        S::insert(transaction, &mut session.context(), table, &[&[key]], &row, &[])
    });
    inserted.expect("inserted").1
}

/// Adds one to a row's value. Returns the new value, and the commit's stamp.
fn add<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    key: u64,
) -> Result<(u64, Stamp), Abort> {
    transact(session, Mode::Single, &mut |transaction, session| {
        let row = find::<P, S>(transaction, session, 0, key, Intent::Write)?;
        let (value, _) = read::<P, S>(transaction, session, row)?;
        S::write(transaction, &mut session.context(), row, 8, &(value + 1).to_le_bytes())?;
        Ok(value + 1)
    })
}

/// The value and stamp that one transaction reads, which then rolls back.
fn read_once<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    table: usize,
    key: u64,
) -> (u64, Stamp) {
    let mut seen = None;
    let ended = transact(session, Mode::Single, &mut |transaction, session| {
        let row = find::<P, S>(transaction, session, table, key, Intent::Read)?;
        seen = Some(read::<P, S>(transaction, session, row)?);
        Err::<(), _>(Abort::RollBack)
    });
    assert_eq!(ended, Err(Abort::RollBack));
    seen.expect("read")
}

/// The next reader sees the writer's stamp; whatever other transactions do, it stays smaller than
/// that of the next writer.
fn follows_writers<S: Scheme<Hardware>>(broken: &[Fault]) {
    let c = Hardware::core();
    let mut instance = instance::<Hardware, S>(c, broken);
    let fixed = {
        let session = &mut instance.session(c, None, false).expect("a session");
        insert(session, 1, 1, 5)
    };
    instance.loaded(c).expect("memory");
    let mut sessions = [(); 2].map(|()| instance.session(c, None, false).expect("a session"));
    for key in KEYS {
        let written = insert(&mut sessions[0], 0, key, 0);
        assert_eq!(read_once(&mut sessions[1], 0, key), (0, written), "{}", S::NAME);
    }
    for round in 1..40 {
        for (place, key) in KEYS.into_iter().enumerate() {
            let (_, before) = read_once(&mut sessions[1], 0, key);
            let (value, written) = add(&mut sessions[round % 2], key).expect("nobody else is there");
            assert!(before < written, "{}", S::NAME);
            assert_eq!(read_once(&mut sessions[1], 0, key), (value, written), "{}", S::NAME);
            // Other transactions read the row, and epochs advance.
            let read = transact(&mut sessions[1], Mode::Single, &mut |transaction, session| {
                let row = find::<_, S>(transaction, session, 0, key, Intent::Read)?;
                read::<_, S>(transaction, session, row)
            });
            assert_eq!(read.expect("nobody else is there").0, (value, written), "{}", S::NAME);
            if place % 2 == 0 {
                sessions.iter_mut().for_each(|session| session.leave());
                assert!(instance.epochs().try_advance(c));
            }
            assert!(read_once(&mut sessions[0], 0, key).1 >= written, "{}", S::NAME);
        }
        assert!(read_once(&mut sessions[round % 2], 1, 1).1 >= fixed, "{}", S::NAME);
    }
}

/// A branch that waits after it was prepared gets a stamp of the epoch in which it commits, and
/// readers see that stamp.
fn parts_have_stamps_of_their_commit<S: Scheme<Hardware>>(broken: &[Fault]) {
    let c = Hardware::core();
    let instance = instance::<Hardware, S>(c, broken);
    let mut sessions = [(); 2].map(|()| instance.session(c, None, false).expect("a session"));
    let [first, other] = &mut sessions;
    let inserted = KEYS.map(|key| insert(first, 0, key, 0));
    for round in 1..10 {
        first.enter();
        let mut transaction = S::begin(&mut first.context(), Mode::Participant);
        let row = find::<_, S>(&mut transaction, first, 0, KEYS[0], Intent::Write).expect("found");
        let read_only = find::<_, S>(&mut transaction, first, 0, KEYS[1], Intent::Read).expect("found");
        read(&mut transaction, first, read_only).expect("read");
        let bytes = u64::to_le_bytes(round);
        S::write(&mut transaction, &mut first.context(), row, 8, &bytes).expect("written");
        let prepared = S::prepare(transaction, &mut first.context()).expect("prepared");
        first.leave();
        (0..round).for_each(|_| assert!(instance.epochs().try_advance(c)));
        other.enter();
        let stamp = S::commit(prepared, &mut other.context());
        assert!(stamp.epoch() >= instance.epochs().current(c), "{}", S::NAME);
        assert_eq!(read_once(first, 0, KEYS[0]), (round, stamp), "{}", S::NAME);
        let (_, seen) = read_once(first, 0, KEYS[1]);
        assert!(inserted[1] <= seen && seen <= stamp, "{}", S::NAME);
        let (_, overwritten) = add(first, KEYS[1]).expect("nobody else is there");
        assert!(overwritten.epoch() >= stamp.epoch(), "{}", S::NAME);
        first.leave();
        other.leave();
    }
}

/// A value of a row and a stamp: of the commit that wrote it, or as a reader saw it.
#[derive(Clone, Copy, Debug)]
struct Observation {
    key: u64,
    value: u64,
    stamp: Stamp,
}

/// Values that workers wrote and saw.
#[derive(Default)]
struct Observations {
    written: Vec<Observation>,
    seen: Vec<Observation>,
}

fn work<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    session: &mut WorkerContext<'_, VirtualMachine, S>,
    mut choices: u64,
    observations: &Mutex<Observations>,
) {
    for _ in 0..TRANSACTIONS {
        choices = choices.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let (first, kind) = ((choices >> 40) as usize % KEYS.len(), (choices >> 50) as usize % 8);
        if kind < 4 {
            let key = KEYS[first];
            if let Ok((value, stamp)) = add(session, key) {
                observations.lock().expect("no panic").written.push(Observation { key, value, stamp });
            }
        } else {
            let mode = [Mode::Single, Mode::Participant, Mode::Snapshot, Mode::Single][kind - 4];
            let seen = transact(session, mode, &mut |transaction, session| {
                let mut seen = Vec::new();
                for key in KEYS.into_iter().skip(first) {
                    let row = find::<_, S>(transaction, session, 0, key, Intent::Read)?;
                    read::<_, S>(transaction, session, row)?;
                    VirtualMachine::pause(c, choices >> 52);
                    let (value, stamp) = read::<_, S>(transaction, session, row)?;
                    seen.push(Observation { key, value, stamp });
                }
                Ok(seen)
            });
            if let Ok((seen, _)) = seen {
                observations.lock().expect("no panic").seen.extend(seen);
            }
        }
        let now = VirtualMachine::now(c);
        session.worker().local.tend(c, now);
    }
    session.leave();
}

/// A committed transaction saw each row with the stamp of the value's writer or a later one, and
/// before that of the next writer.
fn lies_between_writers<S: Scheme<VirtualMachine>>(broken: &[Fault]) {
    let mut seen_of_others = 0;
    for seed in 0..SEEDS {
        let config = Config {
            memory_bytes: 256 << 20,
            ..Config::new(sim::Shape::new(2, 2, 1)).with_seed(seed).perturbed()
        };
        let run = VirtualMachine::run(&config, |c| {
            let instance = instance::<VirtualMachine, S>(c, broken);
            let observations = Mutex::new(Observations::default());
            {
                let session = &mut instance.session(c, None, false).expect("a session");
                for key in KEYS {
                    let stamp = insert(session, 0, key, 0);
                    observations.lock().expect("no panic").written.push(Observation { key, value: 0, stamp });
                }
            }
            instance.settle(c);
            let worker = |c, number: usize| {
                let mut session = instance.session(c, None, false).expect("sessions for all");
                work(c, &mut session, seed * 100 + number as u64, &observations);
            };
            let places = [Place { thread: None }; WORKERS];
            VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
            observations.into_inner().expect("no panic")
        });
        let Observations { written, seen } = run.expect("a run").value;
        for observation in seen {
            let of = |value| written.iter().find(|one| (one.key, one.value) == (observation.key, value));
            let its = of(observation.value).expect("what was read was written");
            assert!(observation.stamp >= its.stamp, "{} seed {seed}: {observation:x?} of {its:x?}", S::NAME);
            if let Some(next) = of(observation.value + 1) {
                assert!(
                    observation.stamp < next.stamp,
                    "{} seed {seed}: {observation:x?} before {next:x?}",
                    S::NAME
                );
                seen_of_others += 1;
            }
        }
    }
    assert!(seen_of_others > 1_000, "{}: {seen_of_others}", S::NAME);
}

#[test]
fn stamps_follow_writers() {
    concurrency::for_each_scheme!(S => { follows_writers::<S>(&[]); });
}

#[test]
fn stamps_of_parts_are_those_of_their_commit() {
    concurrency::for_each_scheme!(S => { parts_have_stamps_of_their_commit::<S>(&[]); });
}

#[test]
fn stamps_lie_between_writers() {
    concurrency::for_each_scheme!(S => { lies_between_writers::<S>(&[]); });
}

/// Schemes that are broken on purpose.
mod mutants {
    use super::*;

    #[test]
    #[should_panic(expected = "silo")]
    fn one_stamp_for_all_commits_of_an_epoch_is_not_that_of_the_row() {
        follows_writers::<Silo>(&[Fault::UnorderedStamps]);
    }

    #[test]
    #[should_panic(expected = "silo seed")]
    fn one_stamp_for_all_commits_of_an_epoch_is_not_before_the_next() {
        lies_between_writers::<Silo>(&[Fault::UnorderedStamps]);
    }

    #[test]
    #[should_panic(expected = "hstore seed")]
    fn stamps_of_sites_have_to_ascend() {
        lies_between_writers::<Hstore>(&[Fault::UnorderedStamps]);
    }

    #[test]
    #[should_panic(expected = "tictoc")]
    fn times_of_preparations_are_too_old() {
        parts_have_stamps_of_their_commit::<TicToc>(&[Fault::StampOfPreparation]);
    }

    #[test]
    #[should_panic(expected = "hstore")]
    fn stamps_of_preparations_are_too_old() {
        parts_have_stamps_of_their_commit::<Hstore>(&[Fault::StampOfPreparation]);
    }
}
