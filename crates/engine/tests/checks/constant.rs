//! Columns that are never written: read without concurrency control, and refused to every writer.

use boundary::{Bounds, Ending, SchemaBuilder, Transaction as Erased, Verbs};
use concurrency::{InstanceOptions, Scheme, for_each_scheme};
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent, Platform};
use schema::{ColumnSet, Inspector, Partitioning, Row, RowPart, Schema, Table, TableOptions, Text};
use storage::{Optimisation, Optimisations};
use terms::Abort;

use crate::support::{options, virtually};

/// `rate` shares a word with a part of the key, `balance` and `count` lie behind, then come `name`
/// and many words.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id), index(by_name(part, name)))]
struct Account {
    part: u16,
    id: u32,
    rate: u16,
    balance: u64,
    count: u64,
    name: Text<10>,
    wide: [u64; 70],
    last: u64,
    #[row(tail)]
    note: Vec<u8>,
}

const WRITTEN: ColumnSet<Account> = ColumnSet::of(Account::BALANCE).with(Account::COUNT);
const RATE: ColumnSet<Account> = ColumnSet::of(Account::RATE);
const RATE_AND_LAST: ColumnSet<Account> = RATE.with(Account::LAST);
const ROWS: u32 = 4;

fn account(id: u32) -> Account {
    Account {
        part: 1,
        id,
        rate: 10 + id as u16,
        balance: 0,
        count: 0,
        name: Text::from_padded(*b"some name "),
        wide: [u64::from(id); 70],
        last: 77,
        note: b"note".to_vec(),
    }
}

/// Accounts of two parts, written as `written` says when they are loaded.
fn database<P: Platform, S: Scheme<P>>(
    c: P::Core,
    written: ColumnSet<Account>,
    optimisations: Optimisations,
    sessions: usize,
) -> (MemoryDatabase<P, S>, Table<Account>) {
    let mut schema = SchemaBuilder::new();
    let partitioning = Some(Partitioning { first: 0, count: 2 });
    let constant = written.others_are_constant();
    let accounts =
        schema.table("accounts", TableOptions { rows: 8, partitioning, constant, ..TableOptions::default() });
    let options = InstanceOptions { optimisations, ..options(sessions) };
    let database = MemoryDatabase::create(c, &options, schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    for id in 0..ROWS {
        // What is constant afterwards is written before.
        let loaded = session.transact(&Bounds::default(), |t| {
            t.insert(accounts, &Account { rate: 0, ..account(id) })?;
            let row = t.find(accounts.primary(), &(1, id), Intent::Write)?.expect("there");
            t.put(row, Account::RATE, &account(id).rate)
        });
        loaded.expect("loaded");
    }
    drop(session);
    (database, accounts)
}

fn loaded<P: Platform, S: Scheme<P>>(c: P::Core, sessions: usize) -> (MemoryDatabase<P, S>, Table<Account>) {
    let (mut database, accounts) = database(c, WRITTEN, Optimisations::ALL, sessions);
    database.loaded(c).expect("memory");
    (database, accounts)
}

fn session<S: Scheme<Hardware>>(database: &MemoryDatabase<Hardware, S>) -> MemorySession<'_, Hardware, S> {
    database.session(Hardware::core(), None, false).expect("a session")
}

fn once() -> Bounds {
    Bounds { deadline: None, attempts_max: Some(1) }
}

fn add(t: &mut impl Verbs, accounts: Table<Account>, id: u32) -> Result<(), Abort> {
    let row = t.find(accounts.primary(), &(1, id), Intent::Write)?.expect("there");
    let balance = t.get(row, Account::BALANCE)?;
    t.put(row, Account::BALANCE, &(balance + 1))
}

fn rate(t: &mut impl Verbs, accounts: Table<Account>, id: u32) -> Result<u16, Abort> {
    let part = t.find_constant(accounts.primary(), &(1, id), RATE)?.expect("there");
    t.get_part(part, Account::RATE)
}

#[derive(Debug, PartialEq)]
enum Outcome {
    /// The reader and the writer of the other column have both committed.
    BothCommit,
    /// One of them conflicted with the other.
    Conflict,
}

/// A writer changes and commits another column while a reader of the rate is under way, both in one
/// attempt.
fn read_beside_a_writer<S: Scheme<Hardware>>(
    database: &MemoryDatabase<Hardware, S>,
    accounts: Table<Account>,
) -> Outcome {
    let (mut reader, mut writer) = (session(database), session(database));
    let mut written = None;
    let read = reader.transact(&once(), |t| {
        let before = rate(t, accounts, 2)?;
        written = Some(writer.transact(&once(), |t| add(t, accounts, 2)));
        assert_eq!((before, rate(t, accounts, 2)?), (12, 12), "{}", S::NAME);
        // The reader changes something, so that it has to be behind the writer or before.
        add(t, accounts, 3)
    });
    match (read, written.expect("it ran")) {
        (Ok(Ending::Committed(..)), Ok(Ending::Committed(..))) => Outcome::BothCommit,
        (Err(Abort::Conflict(_)), _) | (_, Err(Abort::Conflict(_))) => Outcome::Conflict,
        other => panic!("{}: {other:?}", S::NAME),
    }
}

fn skips<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let without = Optimisations::ALL.without(Optimisation::ReadOnlySkip);
    let (database_loaded, accounts) = loaded::<_, S>(c, 3);
    assert_eq!(read_beside_a_writer(&database_loaded, accounts), Outcome::BothCommit, "{}", S::NAME);
    let (mut checked, accounts) = database::<_, S>(c, WRITTEN, without, 3);
    checked.loaded(c).expect("memory");
    assert_eq!(read_beside_a_writer(&checked, accounts), Outcome::Conflict, "{} without", S::NAME);
    let (filling, accounts) = database::<_, S>(c, WRITTEN, Optimisations::ALL, 3);
    assert_eq!(
        read_beside_a_writer(&filling, accounts),
        Outcome::Conflict,
        "{} before it is loaded",
        S::NAME
    );
    let (mut written, accounts) = database::<_, S>(c, WRITTEN.with(Account::RATE), Optimisations::ALL, 3);
    written.loaded(c).expect("memory");
    assert_eq!(
        read_beside_a_writer(&written, accounts),
        Outcome::Conflict,
        "{}, where the rate is written",
        S::NAME
    );
}

#[test]
fn constant_columns_are_read_without_concurrency_control_and_others_with() {
    for_each_scheme!(S => { skips::<S>(); });
}

/// Under a scheme that locks partitions, a transaction that reads constant columns only enters
/// none.
fn read_elsewhere<S: Scheme<Hardware>>() {
    let (database, accounts) = loaded::<_, S>(Hardware::core(), 3);
    let (mut reader, mut writer) = (session(&database), session(&database));
    let written = writer.transact(&once(), |t| {
        add(t, accounts, 2)?;
        let read = reader.transact(&once(), |t| rate(t, accounts, 2));
        assert!(matches!(read, Ok(Ending::Committed(12, _))), "{}: {read:?}", S::NAME);
        Ok(())
    });
    assert!(matches!(written, Ok(Ending::Committed(..))), "{}: {written:?}", S::NAME);
}

#[test]
fn a_reader_of_constant_columns_waits_for_no_writer() {
    for_each_scheme!(S => { read_elsewhere::<S>(); });
}

fn unchanged<S: Scheme<Hardware>>(database: &MemoryDatabase<Hardware, S>, accounts: Table<Account>) {
    let mut seen = Vec::new();
    let mut inspector = database.inspector(Hardware::core());
    inspector.scan(accounts.primary(), &(0, 0), &(1, u32::MAX), &mut |row: &Account| seen.push(row.clone()));
    assert_eq!(seen, (0..ROWS).map(account).collect::<Vec<_>>(), "{}", S::NAME);
}

type Wrong = fn(&mut dyn boundary::AnyVerbs, Table<Account>) -> Result<(), Abort>;

/// Wrong uses of the table, by the verbs of both boundaries, which end in the same check.
const WRONG: [(&str, Wrong); 9] = [
    ("a constant column", |t, accounts| {
        let mut t = Erased::new(t);
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.put(row, Account::RATE, &99)
    }),
    ("a constant column behind the others", |t, accounts| {
        let mut t = Erased::new(t);
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.put(row, Account::LAST, &99)
    }),
    ("bytes from a column that is written into one that is not", |t, accounts| {
        let row = Erased::new(t).find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.write(row.row(), Account::COUNT.offset(), &[9; 12])
    }),
    ("one byte of a constant column", |t, accounts| {
        let row = Erased::new(t).find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.write(row.row(), Account::RATE.offset() + 1, &[9])
    }),
    ("the whole row", |t, accounts| {
        let mut t = Erased::new(t);
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.replace(row, &Account { balance: 5, ..account(2) })
    }),
    ("a key", |t, accounts| {
        let mut t = Erased::new(t);
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.replace(row, &account(9))
    }),
    ("a new row", |t, accounts| Erased::new(t).insert(accounts, &account(9))),
    ("a row in no index", |t, accounts| Erased::new(t).insert_unindexed(accounts, &account(9))),
    ("a row less", |t, accounts| {
        let mut t = Erased::new(t);
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.delete(row)
    }),
];

fn refused<S: Scheme<Hardware>>() {
    let (database, accounts) = loaded::<_, S>(Hardware::core(), 2);
    let mut session = session(&database);
    for (what, wrong) in WRONG {
        let ended = session.transact(&once(), |t| {
            // Whatever the program makes of the error, the transaction does not commit.
            let result = wrong(t, accounts);
            assert!(matches!(result, Err(Abort::Misuse(_))), "{}: {what}: {result:?}", S::NAME);
            Ok(())
        });
        assert!(matches!(ended, Err(Abort::Misuse(_))), "{}: {what}: {ended:?}", S::NAME);
        unchanged(&database, accounts);
    }
    let typed = session.transact(&once(), |t| {
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.put(row, Account::RATE, &99)
    });
    assert_eq!(
        typed.expect_err("refused").to_string(),
        Abort::Misuse("a column that was declared never to be written").to_string()
    );
    unchanged(&database, accounts);
    // What is declared to be written is written, and so is the tail.
    let allowed = session.transact(&once(), |t| {
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.put(row, Account::BALANCE, &1)?;
        t.put(row, Account::COUNT, &2)?;
        boundary::AnyVerbs::write_tail(t, row.row(), b"another note")
    });
    assert!(matches!(allowed, Ok(Ending::Committed(..))), "{}: {allowed:?}", S::NAME);
}

#[test]
fn constant_columns_are_never_written() {
    for_each_scheme!(S => { refused::<S>(); });
}

fn allowed_without<S: Scheme<Hardware>>() {
    let without = Optimisations::ALL.without(Optimisation::ReadOnlySkip);
    let (mut database, accounts) = database::<Hardware, S>(Hardware::core(), WRITTEN, without, 2);
    database.loaded(Hardware::core()).expect("memory");
    for (what, wrong) in WRONG {
        // Bytes across columns would end in the name, which is a key of an index.
        if what.starts_with("bytes") {
            continue;
        }
        let rolled_back = session(&database).transact(&once(), |t| {
            wrong(t, accounts)?;
            Err::<(), _>(Abort::RollBack)
        });
        assert!(matches!(rolled_back, Ok(Ending::RolledBack(_))), "{}: {what}: {rolled_back:?}", S::NAME);
    }
}

#[test]
fn without_the_optimisation_nothing_is_refused() {
    for_each_scheme!(S => { allowed_without::<S>(); });
}

fn parts<S: Scheme<Hardware>>() {
    let (database, accounts) = loaded::<Hardware, S>(Hardware::core(), 2);
    let typed = session(&database).transact(&once(), |t| {
        let part = t.find_constant(accounts.primary(), &(1, 1), RATE_AND_LAST)?.expect("there");
        assert_eq!((t.get_part(part, Account::RATE)?, t.get_part(part, Account::LAST)?), (11, 77));
        t.get_part(part, Account::BALANCE)
    });
    assert!(matches!(typed, Err(Abort::Misuse(_))), "{}: {typed:?}", S::NAME);
    let erased = session(&database).transact(&once(), |t| {
        let mut t = Erased::new(t);
        assert!(t.find_constant(accounts.primary(), &(1, 99), RATE)?.is_none());
        let part: RowPart<Account> = t.find_constant(accounts.primary(), &(1, 1), RATE)?.expect("there");
        assert_eq!(t.get_part(part, Account::RATE)?, 11);
        t.get_part(part, Account::COUNT)
    });
    assert!(matches!(erased, Err(Abort::Misuse(_))), "{}: {erased:?}", S::NAME);
}

#[test]
fn a_part_of_a_row_has_its_columns_only() {
    for_each_scheme!(S => { parts::<S>(); });
}

/// A row that was deleted before the table was loaded is not there, whatever is left of it.
fn deleted_before<S: Scheme<Hardware>>() {
    let (mut database, accounts) = database::<Hardware, S>(Hardware::core(), WRITTEN, Optimisations::ALL, 2);
    let deleted = session(&database).transact(&once(), |t| {
        let row = t.find(accounts.primary(), &(1, 2), Intent::Write)?.expect("there");
        t.delete(row)
    });
    deleted.expect("deleted");
    database.loaded(Hardware::core()).expect("memory");
    let found = session(&database).transact(&once(), |t| {
        let gone = t.find_constant(accounts.primary(), &(1, 2), RATE)?.is_none();
        Ok((gone, rate(t, accounts, 1)?))
    });
    assert!(matches!(found, Ok(Ending::Committed((true, 11), _))), "{}: {found:?}", S::NAME);
}

#[test]
fn rows_that_were_deleted_before_are_gone() {
    for_each_scheme!(S => { deleted_before::<S>(); });
}

/// Workers that read rates, and write balances beside them: rates stay, and no addition is lost.
fn side_by_side<P: Platform, S: Scheme<P>>(c: P::Core) {
    const ROUNDS: u64 = 40;
    let (database, accounts) = loaded::<P, S>(c, 4);
    crate::support::workers(c, &database, 3, &|session, number| {
        for round in 0..ROUNDS {
            let id = ((round + number as u64) % u64::from(ROWS)) as u32;
            let done = session.transact(&Bounds::default(), |t| {
                for other in 0..ROWS {
                    assert_eq!(rate(t, accounts, other)?, 10 + other as u16, "{}", S::NAME);
                }
                add(t, accounts, id)
            });
            assert!(matches!(done, Ok(Ending::Committed(..))), "{}: {done:?}", S::NAME);
        }
    });
    let (mut sum, mut inspector) = (0, database.inspector(c));
    inspector.scan(accounts.primary(), &(0, 0), &(1, u32::MAX), &mut |row: &Account| sum += row.balance);
    assert_eq!(sum, 3 * ROUNDS, "{}", S::NAME);
}

#[test]
fn constant_columns_lie_beside_others_that_change() {
    for_each_scheme!(S => {
        side_by_side::<Hardware, S>(Hardware::core());
        for seed in 0..4 {
            virtually(seed, 3, side_by_side::<sim::VirtualMachine, S>);
        }
    });
}

#[test]
fn sets_are_of_words() {
    assert!(WRITTEN.contains(ColumnSet::of(Account::COUNT)) && !WRITTEN.contains(RATE));
    assert!(ColumnSet::ALL.contains(RATE_AND_LAST) && ColumnSet::<Account>::NONE.words() == 0);
    let constant = WRITTEN.others_are_constant().words();
    assert_eq!(constant & WRITTEN.words(), 0);
    assert_eq!(constant | WRITTEN.words(), u64::MAX);
    assert_eq!(ColumnSet::<Account>::ALL.others_are_constant().words(), 0);
}
