//! Histories in the notation of textbooks (Bernstein, Hadzilacos, Goodman, 1987), and their
//! execution under a scheme.
//!
//! A history such as `"r1(x) w2(x) c2 c1"` is executed in the virtual machine, each transaction on
//! a core of its own, one operation every 50 us. The result is the same history with the results of
//! the operations, in the order in which the operations end: `"r1(x)=0 w2(x) c2 a1(ReadChanged)"`.
//! An operation that waits appears where its wait ends; an operation that fails appears as the
//! abort of its transaction, and later operations of that transaction are left out.
//!
//! The rows are `a`, `c`, `e` in one partition of the table and `x`, `y`, `z` in another; their
//! value is 0 at first. All other letters are absent keys.
//!
//! - `b1` begins transaction 1, and so does its first operation; `s1` begins a snapshot.
//! - `r1(x)` reads a row: `r1(x)=2` is the value that transaction 2 wrote, `r1(b)=-` no row.
//! - `k1(a-e)=ac` visits the rows of a range that are free, and locks them, if the scheme locks.
//! - `w1(x)` writes the transaction's number into a row, without reading the row.
//! - `i1(b)` inserts a row, `d1(c)` deletes a row, `q1(a-e)=ace` scans a range.
//! - `e1(x)` announces the partition of a key.
//! - `c1` commits, `a1` rolls back. `p1` only prepares, so that a later `c1` completes the commit.
//! - `+` lets some epochs pass, `.` two milliseconds (twice the longest wait for a lock).

use std::sync::{Mutex, PoisonError};

use concurrency::{
    Context, Filler, Holder, IndexShape, Instance, InstanceOptions, Parts, Scheme, TableShape, WorkerContext,
};
use platform::{HardwareThread, Intent, Nanos, Place, Platform};
use sim::{Config, Shape, VirtualCore, VirtualMachine};
use storage::tree::Direction;
use terms::rows::{KeyBounds, KeyBytes, TableIndex};
use terms::{Abort, Fault, Faults, Mode, Stamp};

type P = VirtualMachine;

const STEP_NANOS: u64 = 50_000;
/// Steps that `.` lasts.
const LONG_STEPS: u64 = 40;

/// Executes a history under scheme `S`.
pub fn execute<S: Scheme<P>>(history: &str) -> String {
    run::<S>(Faults::NONE, history).0
}

/// Executes a history under a scheme that breaks these rules.
pub fn execute_with<S: Scheme<P>>(faults: &[Fault], history: &str) -> String {
    run::<S>(Faults::of(faults), history).0
}

/// Executes a history under a scheme with queues of locks, in sessions that wait for a lock this
/// long.
pub fn execute_waiting<S: Scheme<P>>(longest: u64, faults: &[Fault], history: &str) -> String {
    run_with::<S>(Faults::of(faults), Some(longest), history).0
}

/// The transactions of a history that commit, by their stamps: `"2 < 1"`, or `"1 = 2"` if the
/// stamps are equal.
pub fn commit_order<S: Scheme<P>>(history: &str) -> String {
    commit_order_with::<S>(&[], history)
}

/// The same under a scheme that breaks these rules.
pub fn commit_order_with<S: Scheme<P>>(faults: &[Fault], history: &str) -> String {
    let mut commits = run::<S>(Faults::of(faults), history).1;
    commits.sort_unstable();
    let mut order = String::new();
    let mut last = None;
    for (stamp, number) in commits {
        let sign = last.map_or("", |last| if last == stamp { " = " } else { " < " });
        order.push_str(&format!("{sign}{number}"));
        last = Some(stamp);
    }
    order
}

/// One operation of a history.
#[derive(Clone, Copy)]
struct Operation {
    verb: char,
    /// Number of the transaction; 0 for time that passes.
    transaction: u64,
    /// The key, or the first and the last key of a range.
    keys: (char, char),
    /// The step in which the operation begins, unless an earlier operation of its transaction still
    /// waits.
    step: u64,
}

fn parse(history: &str) -> Vec<Operation> {
    let mut step = 0;
    let parse_one = |token: &str| {
        let letters: Vec<char> = token.chars().collect();
        let digit = letters.get(1).and_then(|letter| letter.to_digit(10)).unwrap_or(0);
        let key = |place: usize| letters.get(place).copied().unwrap_or(' ');
        let keys = (key(3), if key(4) == '-' { key(5) } else { key(3) });
        step += if letters[0] == '.' { LONG_STEPS } else { 1 };
        Operation { verb: letters[0], transaction: digit.into(), keys, step }
    };
    history.split_whitespace().map(parse_one).collect()
}

/// An operation that has ended: sorted, operations are in the order in which they have ended.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    step: u64,
    /// True if the operation has waited since an earlier step: the operation that ends the wait
    /// comes first.
    waited: bool,
    nanos: u64,
    text: String,
}

/// An open transaction.
struct OpenTransaction<'t, 'i, S: Scheme<P>> {
    session: &'t mut WorkerContext<'i, P, S>,
    transaction: &'t mut S::Transaction,
}

impl<'i, S: Scheme<P>> Holder<'i, P, S> for OpenTransaction<'_, 'i, S> {
    fn parts(&mut self) -> (&mut S::Transaction, Context<'_, 'i, P, S>) {
        (self.transaction, self.session.context())
    }
}

/// The state of a transaction between two operations.
enum Progress<S: Parts<P>> {
    NotBegun,
    Open(S::Transaction),
    Prepared(S::Prepared),
    Ended,
}

fn key_of(letter: char) -> [u64; 1] {
    let partition = u64::from(letter >= 'm');
    [partition << 48 | letter as u64]
}

impl<S: Scheme<P>> OpenTransaction<'_, '_, S> {
    /// Executes an operation other than the beginning or the end; the result as text.
    fn execute(&mut self, operation: Operation) -> Result<String, Abort> {
        let Operation { verb, transaction: number, keys: (first, last), .. } = operation;
        let key = key_of(first);
        let (transaction, mut cx) = self.parts();
        let (t, cx) = (transaction, &mut cx);
        let mut words = [0; 2];
        match verb {
            'e' => S::enlist(t, cx, 0, &key),
            'i' => {
                let fixed = [first as u64, number].map(u64::to_ne_bytes);
                S::insert(t, cx, 0, &[&key], fixed.as_flattened(), &[])?;
            }
            'q' | 'k' => {
                let (high, mut found) = (key_of(last), String::from("="));
                let range = KeyBounds { low: &key, high: &high };
                let mut visit = |open: &mut Self, row| {
                    let (t, mut cx) = open.parts();
                    S::read(t, &mut cx, row, 0, &mut words)?;
                    found.extend(char::from_u32(words[0] as u32));
                    Ok(true)
                };
                match verb {
                    'q' => S::scan(self, 0, 0, range, Direction::Forward, Intent::Read, &mut visit)?,
                    _ => {
                        let place = TableIndex { table: 0, index: 0 };
                        S::scan_or_skip(self, place, range, Direction::Forward, &mut visit)?;
                    }
                }
                return Ok(found);
            }
            _ => {
                let intent = if verb == 'r' { Intent::Read } else { Intent::Write };
                let Some(row) = S::find(t, cx, 0, 0, &key, intent)? else { return Ok("=-".into()) };
                match verb {
                    'r' => {
                        S::read(t, cx, row, 0, &mut words)?;
                        return Ok(format!("={}", words[1]));
                    }
                    'w' => S::write(t, cx, row, 8, &number.to_ne_bytes())?,
                    'd' => S::delete(t, cx, row, &[&key])?,
                    other => panic!("`{other}` is no operation"),
                }
            }
        }
        Ok(String::new())
    }
}

/// Executes one operation of a transaction: its text, and the stamp if it commits.
fn execute_one<S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    progress: &mut Progress<S>,
    operation: Operation,
) -> Option<(String, Option<Stamp>)> {
    let Operation { verb, transaction: number, keys: (first, last), .. } = operation;
    if matches!(verb, 'b' | 's') || matches!(progress, Progress::NotBegun) {
        session.enter();
        let mode = if verb == 's' { Mode::Snapshot } else { Mode::Single };
        *progress = Progress::Open(S::begin(&mut session.context(), mode));
    }
    let ended = |abort: Abort| match abort {
        Abort::Conflict(conflict) => format!("a{number}({conflict:?})"),
        other => format!("a{number}({other:?})"),
    };
    let (text, stamp) = match (std::mem::replace(progress, Progress::Ended), verb) {
        (Progress::Ended, _) => return None,
        (Progress::Open(transaction), 'b' | 's') => {
            *progress = Progress::Open(transaction);
            return Some((format!("{verb}{number}"), None));
        }
        (Progress::Open(transaction), 'a') => {
            S::abort(transaction, &mut session.context());
            (format!("a{number}"), None)
        }
        (Progress::Prepared(prepared), 'a') => {
            S::rollback(prepared, &mut session.context());
            (format!("a{number}"), None)
        }
        (Progress::Prepared(prepared), _) => {
            (format!("c{number}"), Some(S::commit(prepared, &mut session.context())))
        }
        (Progress::Open(transaction), 'c' | 'p') => match S::prepare(transaction, &mut session.context()) {
            Err(abort) => (ended(abort), None),
            Ok(prepared) if verb == 'p' => {
                *progress = Progress::Prepared(prepared);
                return Some((format!("p{number}"), None));
            }
            Ok(prepared) => (format!("c{number}"), Some(S::commit(prepared, &mut session.context()))),
        },
        (Progress::Open(mut transaction), _) => {
            let done = OpenTransaction { session, transaction: &mut transaction }.execute(operation);
            match done {
                Ok(result) => {
                    *progress = Progress::Open(transaction);
                    let range = if first == last { String::new() } else { format!("-{last}") };
                    return Some((format!("{verb}{number}({first}{range}){result}"), None));
                }
                Err(abort) => {
                    S::abort(transaction, &mut session.context());
                    (ended(abort), None)
                }
            }
        }
        (Progress::NotBegun, _) => unreachable!("begun above"),
    };
    let c = session.core();
    session.worker().local.retract_commit(c);
    session.leave();
    Some((text, stamp))
}

/// An instance with the rows of all histories.
fn instance<S: Scheme<P>>(c: VirtualCore, faults: Faults, lock_queues: bool) -> Instance<P, S> {
    let partition = (storage::index::Shape::Tree(1), None);
    let shape = TableShape {
        row_words: 2,
        has_tail: false,
        read_only: false,
        constant: 0,
        key_bytes: vec![KeyBytes { from: 0, to: 8, mask: u8::MAX }],
        key_tail: Vec::new(),
        key_in_tail: false,
        indexes: vec![IndexShape { words: 1, first: Some(0), partitions: vec![partition; 2] }],
    };
    let options = InstanceOptions {
        sessions_max: 10,
        memory_bytes_max: 64 << 20,
        faults,
        lock_queues,
        ..InstanceOptions::default()
    };
    let instance = Instance::new(c, &options, &[shape]).expect("memory");
    let mut filler = Filler::<P, S>::new(instance.session(c, None, false).expect("a session"));
    for letter in ['a', 'c', 'e', 'x', 'y', 'z'] {
        let fixed = [letter as u64, 0].map(u64::to_ne_bytes);
        filler.fill(0, &[&key_of(letter)], fixed.as_flattened(), &[]).expect("memory");
    }
    drop(filler);
    instance.settle(c);
    instance
}

/// Executes a history: the executed history, and the stamps of the commits.
fn run<S: Scheme<P>>(faults: Faults, history: &str) -> (String, Vec<(Stamp, u64)>) {
    run_with::<S>(faults, None, history)
}

/// The same, with sessions that wait for a lock this long.
fn run_with<S: Scheme<P>>(
    faults: Faults,
    longest: Option<u64>,
    history: &str,
) -> (String, Vec<(Stamp, u64)>) {
    let operations = parse(history);
    let workers = operations.iter().map(|operation| operation.transaction).max().unwrap_or(0) + 1;
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, workers as usize, 1)) };
    let events = Mutex::new((Vec::new(), Vec::new()));
    let program = |c: VirtualCore| {
        let instance = instance::<S>(c, faults, longest.is_some());
        let start = P::now(c);
        let pause_until = |c: VirtualCore, step: u64| {
            let Nanos(now) = P::now(c);
            P::pause(c, (start.0 + step * STEP_NANOS).saturating_sub(now));
        };
        let worker = |c: VirtualCore, number: usize| {
            let mut session = instance.session(c, None, false).expect("a session");
            S::wait_for_locks(session.worker(), longest);
            let mut progress = Progress::NotBegun;
            for operation in operations.iter().filter(|next| next.transaction == number as u64) {
                pause_until(c, operation.step);
                if number == 0 {
                    if operation.verb == '+' {
                        instance.settle(c);
                    }
                    continue;
                }
                let Some((text, stamp)) = execute_one(&mut session, &mut progress, *operation) else {
                    continue;
                };
                let nanos = P::now(c).since(start);
                let step = nanos / STEP_NANOS;
                let event = Event { step, waited: step > operation.step, nanos, text };
                let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
                events.0.push(event);
                events.1.extend(stamp.map(|stamp| (stamp, operation.transaction)));
            }
            // A transaction that its history leaves open.
            match progress {
                Progress::Open(transaction) => S::abort(transaction, &mut session.context()),
                Progress::Prepared(prepared) => S::rollback(prepared, &mut session.context()),
                Progress::NotBegun | Progress::Ended => {}
            }
        };
        let place = |number| Place { thread: Some(HardwareThread(number)) };
        let places: Vec<_> = (0..workers as u32).map(place).collect();
        P::parallel(c, &places, &worker, &mut |_| ());
    };
    VirtualMachine::run(&config, program).unwrap_or_else(|error| panic!("{history}: {error}"));
    let (mut events, stamps) = events.into_inner().unwrap_or_else(PoisonError::into_inner);
    events.sort_unstable();
    let texts: Vec<_> = events.into_iter().map(|event| event.text).collect();
    (texts.join(" "), stamps)
}
