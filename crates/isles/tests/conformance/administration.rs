//! Operations of a program beside transactions: a database is made, inspected, copied, changed and
//! opened again. Each function is called on each engine, with its expected result there.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isles::{
    Builder, CancelToken, Database, Deployment, Division, Durability, Error, Event, NoProcedure, PageToken,
    Row, Scheme, SequenceOptions, Session, Table, TableChange, TableOptions, TransactionOptions,
};

use crate::altering;
use crate::apply::Tables;
use crate::buckets;
use crate::calls::{self, call, call_function};
use crate::changes;
use crate::constraints;
use crate::deployed::Work;
use crate::engines::{Directory, Engine, Kind};
use crate::rows::{Plain, Probe, TestRow};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Note {
    id: u32,
    text: String,
}

/// A row of a table whose parts are divided among instances.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id))]
struct OwnNote {
    part: u16,
    id: u32,
    text: String,
}

/// The same table with an index and one more column.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_stars(stars)))]
struct StarredNote {
    id: u32,
    text: String,
    stars: u8,
}

fn note(id: u32) -> Note {
    Note { id, text: format!("note {id}") }
}

/// Calls every function on an engine that programs of transactions do not call.
pub fn call_all(engine: Engine) {
    calls::enter(&engine.name());
    bound_transactions(engine);
    if engine == Engine::Deployment {
        constraints::call_on_deployment();
        return call_on_deployment();
    }
    let directory = Directory::new(&format!("{}-life", engine.name()));
    let events = Arc::new(AtomicU64::new(0));
    call_in_new_directory(engine, &directory.0, &events);
    assert!(events.load(Ordering::Relaxed) > 0, "the end of the database was reported");
    call_after_reopening(engine, &directory.0);
    call_sequences(engine);
    constraints::call_on_database(engine, declared);
    buckets::call_on_database(engine, declared);
    let checked = call_function!(Database::check(&directory.0)).expect("it is whole");
    assert!(checked.tables.iter().any(|(name, rows)| name == "notes" && *rows == 21), "{checked:?}");
    let refused = set_pages(call_function!(Database::in_memory())).open();
    assert!(matches!(refused, Err(Error::Misuse(_))), "rows in pages need a directory: {refused:?}");
}

fn set_pages(builder: Builder) -> Builder {
    call!(builder.pages(8 << 20))
}

fn declared(engine: Engine, path: &Path) -> Builder {
    let builder = call_function!(Database::at(path));
    let builder = builder.sessions(8);
    let builder = call!(builder.memory_limit(64 << 20));
    match engine {
        Engine::Memory(scheme) => builder.scheme(scheme),
        // Without effect on this engine.
        _ => set_pages(call!(builder.scheme(Scheme::Silo))),
    }
}

/// Changes a table in several transactions, which may be interrupted, and leaves it empty.
fn call_batches(database: &Database) {
    let drafts = database.table::<Note>("drafts").expect("it is there");
    database.transaction(|t| t.insert_all(drafts, (0..30).map(note))).expect("inserted");
    let mut seen = Vec::new();
    let mark = |note: &mut Note| note.text.push('!');
    let updated = call!(database.update_in_batches(drafts, 3.., 10, mark, |batch| {
        seen.push((batch.rows, batch.last.id));
        ControlFlow::Continue(())
    }));
    assert_eq!((updated, seen), (Ok(27), vec![(10, 12), (20, 22), (27, 29)]));
    let marked = database.transaction(|t| {
        let rows = t.scan(drafts, ..).collect()?;
        Ok(rows.iter().filter(|row| row.text.ends_with('!')).count())
    });
    assert_eq!(marked, Ok(27));
    let interrupted = call!(database.delete_in_batches(drafts, .., 7, |batch| match batch.rows {
        14 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }));
    assert_eq!(interrupted, Ok(14));
    assert_eq!(database.delete_in_batches(drafts, .., 100, |_| ControlFlow::Continue(())), Ok(16));
    assert_eq!(database.transaction(|t| t.scan(drafts, ..).count()), Ok(0));
    let refused = database.delete_in_batches(drafts, .., 0, |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

fn call_in_new_directory(engine: Engine, path: &Path, events: &Arc<AtomicU64>) {
    let (counted, builder) = (Arc::clone(events), declared(engine, path));
    let builder = call!(builder.spare_tables(4));
    let builder = call!(builder.retained_changes(8 << 20));
    let builder = call!(builder.latencies(true));
    let builder = call!(builder.slow_after(Duration::from_secs(60)));
    let builder = call!(builder.on_progress(|_| {}));
    let mut builder = call!(builder.on_event(move |_| _ = counted.fetch_add(1, Ordering::Relaxed)));
    let notes = builder.table::<Note>("notes");
    builder.table::<Note>("drafts");
    let database = builder.open().expect("a database");
    database.transaction(|t| t.insert_all(notes, (0..20).map(note))).expect("inserted");
    let same = call!(database.table::<Note>("notes")).expect("it is there");
    assert_eq!(database.transaction(|t| t.get(same, &3)), Ok(Some(note(3))));
    let waiting = call!(database.session_within(Duration::from_secs(60))).map(drop);
    assert_eq!(waiting, Ok(()), "a place is free");
    let names: Vec<_> = call!(database.tables()).iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(names, ["notes", "drafts"]);
    if let Engine::Memory(scheme) = engine {
        assert_eq!(call!(database.scheme()), scheme);
    } else {
        call!(database.scheme());
    }
    assert!(call!(database.memory_in_use()) <= call!(database.memory_bytes()));
    call!(database.flush()).expect("the disk is there");
    call!(database.checkpoint()).expect("the disk is there");
    let statistics = call!(database.statistics());
    assert_eq!(statistics.transactions.commits, 2);
    call_function!(record_metrics(&statistics));
    call_function!(trace_event(&Event::Closed));
    let conflicts = statistics.transactions.conflicts;
    assert_eq!(call!(conflicts.total()), 0);
    let latencies = statistics.latencies.expect("they are counted");
    assert_eq!(call!(latencies.count()), 2);
    assert!(call!(latencies.at(1.0)) >= latencies.at(0.5));
    let refused = call!(database.try_transaction(|_| Err::<(), Error>(Error::RollBack)));
    assert_eq!(refused, Err(Error::RollBack));
    let rename = |note: &mut Note| note.text = "another text".to_owned();
    match engine {
        Engine::Pages => changes::refuse(&database, notes),
        _ => changes::call_all(&database, notes, &note(77), rename),
    }
    let mut reader = declared(engine, path);
    reader.table::<Note>("notes");
    reader.table::<Note>("drafts");
    changes::read_copy::<Note>(reader, "notes", &std::env::temp_dir(), 20);
    call_batches(&database);
    let copy = Directory::new(&format!("{}-copy", engine.name()));
    call!(database.backup(&copy.0)).expect("a copy");
    call!(database.close()).expect("no session uses it");
    let again = Directory::new(&format!("{}-copy-of-copy", engine.name()));
    call_function!(copy_directory(&copy.0, &again.0)).expect("a copy of the copy");
    for copy in [&copy, &again] {
        let mut builder = declared(engine, &copy.0);
        let notes = builder.table::<Note>("notes");
        builder.table::<Note>("drafts");
        let database = builder.open().expect("a copy is a database");
        assert_eq!(database.transaction(|t| t.scan(notes, ..).count()), Ok(20));
        database.close().expect("no session uses it");
    }
}

/// Opens the directory with its tables, and changes them.
fn call_after_reopening(engine: Engine, path: &Path) {
    let mut builder = declared(engine, path);
    let in_memory = engine != Engine::Pages;
    if in_memory {
        call!(builder.drop_table("drafts"));
        let names = call!(builder.tables_of_directory()).expect("they can be read");
        assert_eq!(names, ["notes"]);
    } else {
        builder.table::<Note>("notes");
        builder.table::<Note>("drafts");
        refuse_what_pages_lack(path);
    }
    let database = builder.open().expect("a database");
    let mut notes = database.table::<Note>("notes").expect("rows of this type");
    let made = call!(database.create_table::<Note>("later"));
    let made_with = {
        let options = call_function!(TableOptions::new()).hash(Note::KEY);
        call!(database.create_table_with::<Note>("hashed", options))
    };
    if in_memory {
        let (later, hashed) = (made.expect("a table"), made_with.expect("a table"));
        database
            .transaction(|t| t.insert(later, &note(1)).and_then(|()| t.insert(hashed, &note(2))))
            .expect("inserted");
        call!(database.drop_table("later")).expect("no session uses it");
        database.drop_table("hashed").expect("no session uses it");
        let starred = StarredNote { id: 0, text: String::new(), stars: 3 };
        let token = call_function!(CancelToken::new());
        let (change, mut copied) = (call_function!(TableChange::new()), 0);
        let change = call!(change.new_columns_of(&starred));
        let change = call!(change.options(TableOptions::new()));
        let change = call!(change.wait(Duration::from_secs(5)));
        let change = call!(change.cancel(&token));
        let change = call!(change.on_progress(|rows| copied = rows));
        let changed = call!(database.change_table("notes", change)).expect("another form");
        let stars =
            database.transaction(|t| t.scan(changed.by(StarredNote::BY_STARS), isles::prefix(3)).count());
        assert_eq!((stars, copied), (Ok(20), 20));
        let back: isles::Result<_> = database.change_table("notes", TableChange::<Note>::new());
        notes = back.expect("its first form");
    } else {
        let misuse = |result: isles::Result<()>| {
            assert!(matches!(result, Err(Error::Misuse(_) | Error::Declaration { .. })), "{result:?}")
        };
        misuse(made.map(drop));
        misuse(made_with.map(drop));
        misuse(call!(database.drop_table("drafts")));
        let token = CancelToken::new();
        let change = call_function!(TableChange::new());
        let change = call!(change.new_columns_of(&StarredNote { id: 0, text: String::new(), stars: 3 }));
        let change = call!(change.options(TableOptions::new()));
        let change = call!(change.wait(Duration::from_secs(5)));
        let change = call!(change.cancel(&token));
        let change = call!(change.on_progress(|_| {}));
        misuse(call!(database.change_table("notes", change)).map(drop));
    }
    database.transaction(|t| t.insert(notes, &note(20))).expect("inserted");
    database.close().expect("no session uses it");
}

/// A sequence, also after another opening.
fn call_sequences(engine: Engine) {
    let directory = Directory::new(&format!("{}-sequences", engine.name()));
    let opened = || {
        let mut builder = declared(engine, &directory.0);
        call!(builder.sequences());
        let database = builder.open().expect("a database");
        let options = call_function!(SequenceOptions::new());
        let options = call!(options.first(-10));
        let options = call!(options.increment(2));
        let options = call!(options.last(60));
        let options = call!(options.block(4));
        let numbers = call!(database.sequence("even", options)).expect("a sequence");
        (database, numbers)
    };
    let (database, numbers) = opened();
    assert_eq!(call!(numbers.next_value()), Ok(-10));
    let several = call!(numbers.next_values(5)).expect("numbers").collect::<Vec<_>>();
    assert_eq!(several, [-8, -6, -4, -2, 0]);
    call!(numbers.raise_to(19)).expect("raised");
    assert_eq!(numbers.next_value(), Ok(20));
    assert_eq!(call!(numbers.name()), "even");
    drop(numbers);
    database.close().expect("no handle is left");
    let (database, numbers) = opened();
    let next = numbers.next_value().expect("a number");
    assert!((22..=28).contains(&next), "{next}");
    drop(numbers);
    assert_eq!(call!(database.drop_sequence("even")), Ok(true));
    database.close().expect("no handle is left");
}

fn refuse_what_pages_lack(path: &Path) {
    let mut builder = declared(Engine::Pages, path);
    builder.table::<Note>("notes");
    call!(builder.drop_table("drafts"));
    let refused = builder.open();
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    let mut builder = declared(Engine::Pages, path);
    // The result for a directory of pages does not matter: the call declares the tables that it
    // names.
    let _ = call!(builder.tables_of_directory());
}

/// Reads a part of a table page by page, in both directions, and puts it back as it was.
fn read_pages(session: &mut Session, plain: Table<Plain>) {
    let rows = (0..7).map(|number| Plain::make(Probe { part: 0, id: number, salt: 3 * number }));
    let inserted = session.transaction(|t| t.insert_all(plain, rows.clone().collect::<Vec<_>>()));
    inserted.expect("new rows");
    for is_reversed in [false, true] {
        let (mut pages, mut token) = (Vec::new(), None::<PageToken>);
        loop {
            let page = session.transaction(|t| {
                let scan = t.scan(plain, isles::prefix(0)).limit(3);
                let scan = if is_reversed { scan.reverse() } else { scan };
                call!(scan.page(token.as_ref()))
            });
            let (rows, next) = page.expect("a page");
            pages.push(rows.len());
            let Some(next) = next else { break };
            // As a client gives it back.
            token = Some(next.to_string().parse().expect("a token"));
        }
        assert_eq!(pages, [3, 3, 1]);
        let of_other = session.transaction(|t| {
            let scan = t.scan(plain, isles::prefix(0)).limit(3);
            let scan = if is_reversed { scan } else { scan.reverse() };
            scan.page(token.as_ref()).map(drop)
        });
        assert!(matches!(of_other, Err(Error::Misuse(_))), "{of_other:?}");
    }
    assert!("12345".parse::<PageToken>().is_err() && "1234567x".parse::<PageToken>().is_err());
    assert_eq!(session.transaction(|t| t.scan(plain, isles::prefix(0)).delete()), Ok(7));
}

/// Every bound of a transaction.
fn bound_transactions(engine: Engine) {
    let name = format!("{}-bounds", engine.name());
    let directory = (engine == Engine::Pages).then(|| Directory::new(&name));
    let path = directory.as_ref().map(|directory| directory.0.as_path());
    let opened = engine.open(0, path).expect("an engine");
    let Tables { plain, .. } = opened.tables;
    let mut session = opened.new_session(0).expect("a session");
    let count = |t: &mut isles::Transaction<'_>| t.scan(plain, isles::prefix(0)).count();
    altering::call_all(&mut session, engine);
    let token = call_function!(CancelToken::new());
    let options = call_function!(TransactionOptions::new());
    let options = call!(options.attempts(3));
    let options = call!(options.deadline(Duration::ZERO));
    let options = call!(options.durability(Durability::Group(Duration::from_micros(10))));
    let late = session.with(options.clone()).transaction(count);
    assert!(matches!(late, Err(Error::Deadline) | Ok(0)), "{late:?}");
    let options = call!(options.without_deadline());
    let options = call!(options.lock_wait(Duration::from_secs(1)));
    let options = call!(options.idle(Duration::from_secs(3_600)));
    let open = session.with(options.clone()).begin().expect("it begins");
    assert!(call!(open.idle_for()).is_some());
    drop(open);
    let owned = opened.new_session(0).expect("a session").into_transaction().expect("it begins");
    assert_eq!(call!(owned.idle_for()), None, "nothing bounds it");
    drop(owned);
    let options = call!(options.cancel(&token));
    assert_eq!(call!(session.with(options.clone())).transaction(count), Ok(0));
    read_pages(&mut session, plain);
    assert!(!call!(token.is_cancelled()));
    call!(token.cancel());
    assert_eq!(session.with(options.clone()).transaction(count), Err(Error::Cancelled));
    assert!(call!(session.stats()).commits > 0);
    if let Kind::Several { deployment, .. } = &opened.kind {
        let cancelled = call!(deployment.run_with(&options, Work::new(&[], false, false)));
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        assert!(call!(deployment.memory_in_use()) <= call!(deployment.memory_bytes()));
    }
    // An open session keeps the database open, and the error reports it.
    let refused = opened.close();
    assert!(matches!(refused, Err(Error::InUse { sessions: 1, .. })), "{refused:?}");
}

fn call_on_deployment() {
    let directory = Directory::new("deployment-life");
    let [data, copy] = ["data", "copy"].map(|name| directory.0.join(name));
    std::fs::create_dir_all(&directory.0).expect("a directory");
    for path in [&data, &data, &copy] {
        if path == &copy {
            let copied = call_function!(copy_deployment(&data, &copy)).expect("no process has it open");
            assert_eq!(copied.len(), 2, "{copied:?}");
        }
        let division = Division { instances: 2, workers: 2, parts: 2 };
        let mut builder = call_function!(Deployment::at(path, division));
        let notes = call!(builder.copied_table("notes", (0..20).map(note).collect()));
        let own = builder.table::<OwnNote>("own");
        let deployment = builder.open::<NoProcedure>(()).expect("a deployment");
        let rename = |note: &mut OwnNote| note.text = "another text".to_owned();
        let row = OwnNote { part: 0, id: 1, text: "a text".to_owned() };
        changes::call_on_instance(&deployment, deployment.instance_of(0), own, &row, rename);
        for instance in 0..deployment.instances() {
            let mut session = deployment.session(instance).expect("a session");
            assert_eq!(session.transaction(|t| t.scan(notes, ..).count()), Ok(20));
            let refused = session.transaction(|t| t.insert(notes, &note(50)));
            assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
        }
        deployment.close().expect("no session uses it");
    }
}
