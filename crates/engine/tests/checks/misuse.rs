//! Wrong uses of the verbs lead to an error, and never to a row of another shape, a freed row, or
//! half a transaction.

use boundary::{Bounds, Ending, SchemaBuilder, Span, Verbs};
use concurrency::{NoWait, Scheme};
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent};
use schema::row::TAIL_BYTES_MAX;
use schema::{Inspector, Row, Schema, Table, TableOptions};
use terms::Abort;
use terms::rows::KeyBounds;

use crate::support::options;

const ROWS: u64 = if cfg!(miri) { 12 } else { 100 };
/// Keys of rows that are inserted where others were.
const LATER: u64 = 10_000;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_code(code)))]
struct Plain {
    id: u64,
    code: u64,
    value: u64,
}

/// As long as [`Plain`], with other keys.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Bare {
    id: u64,
    code: u64,
    value: u64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Noted {
    id: u64,
    wide: [u64; 6],
    #[row(tail)]
    note: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Tables {
    plain: Table<Plain>,
    noted: Table<Noted>,
}

fn plain(id: u64) -> Plain {
    Plain { id, code: id + 500, value: 0x10 }
}

fn noted(id: u64) -> Noted {
    Noted { id, wide: [id; 6], note: b"a note".to_vec() }
}

fn database<S: Scheme<Hardware>>() -> (MemoryDatabase<Hardware, S>, Tables) {
    let mut schema = SchemaBuilder::new();
    let plain_rows = schema.table::<Plain>("plain", TableOptions::default());
    let noted_rows = schema.table::<Noted>("noted", TableOptions::default());
    let c = Hardware::core();
    let database = MemoryDatabase::create(c, &options(3), schema, &|_| None).expect("memory");
    let mut session = session(&database);
    for id in 0..ROWS {
        let load = |t: &mut engine::Transaction<'_, '_, Hardware, S>| {
            t.insert(plain_rows, &plain(id))?;
            t.insert(noted_rows, &noted(id))
        };
        session.transact(&Bounds::default(), load).expect("loaded");
    }
    session.idle();
    drop(session);
    (database, Tables { plain: plain_rows, noted: noted_rows })
}

fn session<S: Scheme<Hardware>>(database: &MemoryDatabase<Hardware, S>) -> MemorySession<'_, Hardware, S> {
    database.session(Hardware::core(), None, false).expect("a session")
}

fn once() -> Bounds {
    Bounds { deadline: None, attempts_max: Some(1) }
}

fn is_misuse<T: std::fmt::Debug>(ended: &Result<Ending<T>, Abort>) -> bool {
    matches!(ended, Err(Abort::Misuse(_)))
}

/// Lets epochs pass, so that what is not in use is used again.
fn pass<S: Scheme<Hardware>>(
    database: &MemoryDatabase<Hardware, S>,
    session: &mut MemorySession<'_, Hardware, S>,
) {
    for _ in 0..10 {
        database.instance().epochs().try_advance(Hardware::core());
        session.transact(&once(), |_| Ok(())).expect("nothing is in the way");
        session.idle();
    }
}

fn all_is_as_loaded<S: Scheme<Hardware>>(database: &MemoryDatabase<Hardware, S>, tables: Tables) {
    let mut seen = Vec::new();
    let mut inspector = database.inspector(Hardware::core());
    inspector.scan(tables.plain.primary(), &0, &u64::MAX, &mut |row: &Plain| seen.push(row.clone()));
    assert_eq!(seen, (0..ROWS).map(plain).collect::<Vec<_>>());
    seen.clear();
    let by_code = tables.plain.index(Plain::BY_CODE);
    inspector.scan(by_code, &0, &u64::MAX, &mut |row: &Plain| seen.push(row.clone()));
    assert_eq!(seen, (0..ROWS).map(plain).collect::<Vec<_>>());
    let mut notes = Vec::new();
    inspector.scan(tables.noted.primary(), &0, &u64::MAX, &mut |row: &Noted| notes.push(row.clone()));
    assert_eq!(notes, (0..ROWS).map(noted).collect::<Vec<_>>());
}

type Wrong = dyn Fn(&mut dyn boundary::AnyVerbs) -> Result<(), Abort>;

/// Uses of the erased verbs with numbers and lengths that are not those of the catalog: tables 0
/// and 1 have 3 words and two keys, and 7 words, a tail and one key.
fn wrong_uses() -> Vec<(&'static str, Box<Wrong>)> {
    const NEW: [u64; 1] = [LATER];
    const TWO: [u64; 2] = [LATER; 2];
    const FAR: Option<Span> = Some(Span { offset: usize::MAX - 7, bytes: usize::MAX });
    macro_rules! uses {
        ($($name:literal: |$t:ident| $body:expr;)*) => {
            vec![$(($name, Box::new(|$t: &mut dyn boundary::AnyVerbs| $body) as Box<Wrong>)),*]
        };
    }
    macro_rules! row {
        ($t:ident, $table:literal) => {
            $t.find($table, 0, &[1], Intent::Write)?.expect("loaded")
        };
    }
    uses! {
        "a short row": |t| t.insert(0, &[&NEW, &NEW], &[0; 16], &[]);
        "a long row": |t| t.insert(0, &[&NEW, &NEW], &[0; 32], &[]);
        "a row of no words": |t| t.insert(0, &[&NEW, &NEW], &[0; 23], &[]);
        "a tail that the table has not": |t| t.insert(0, &[&NEW, &NEW], &[0; 24], b"tail");
        "a row without a place for its tail": |t| t.insert(1, &[&NEW], &[0; 48], b"tail");
        "a key too few": |t| t.insert(0, &[&NEW], &[0; 24], &[]);
        "a key too many": |t| t.insert(0, &[&NEW, &NEW, &NEW], &[0; 24], &[]);
        "a short key": |t| t.insert(0, &[&NEW, &[]], &[0; 24], &[]);
        "a long key": |t| t.insert(0, &[&TWO, &NEW], &[0; 24], &[]);
        "no such table": |t| t.insert(2, &[&NEW], &[0; 24], &[]);
        "a lookup in no such table": |t| t.find(2, 0, &NEW, Intent::Read).map(drop);
        "a lookup in no such index": |t| t.find(1, 1, &NEW, Intent::Read).map(drop);
        "a lookup of a short key": |t| t.find(0, 0, &[], Intent::Read).map(drop);
        "a lookup of a long key": |t| t.find(0, 0, &TWO, Intent::Read).map(drop);
        "a scan of no such table": |t| scan(t, 2, 0, KeyBounds { low: &[0], high: &[9] });
        "a scan of no such index": |t| scan(t, 1, 1, KeyBounds { low: &[0], high: &[9] });
        "a scan from a short key": |t| scan(t, 0, 0, KeyBounds { low: &[], high: &[9] });
        "a scan to a long key": |t| scan(t, 0, 0, KeyBounds { low: &[0], high: &TWO });
        "a read behind the row": |t| { let row = row!(t, 0); t.read(row, Span { offset: 8, bytes: 24 }, &mut [0; 3]) };
        "a read far behind the row": |t| { let row = row!(t, 0); t.read(row, Span { offset: usize::MAX - 7, bytes: 8 }, &mut [0; 1]) };
        "many lookups in no such index": |t| t.find_prefetched(0, 9, &[0], Intent::Read, None, &mut Vec::new());
        "a field to prefetch far behind the row": |t| t.find_prefetched(0, 0, &[0], Intent::Read, FAR, &mut Vec::new());
        "a write behind the row": |t| { let row = row!(t, 0); t.write(row, 17, &[0; 8]) };
        "a write far behind the row": |t| { let row = row!(t, 0); t.write(row, usize::MAX - 3, &[0; 8]) };
        "a write over the pointer to a tail": |t| { let row = row!(t, 1); t.write(row, 56, &[1; 8]) };
        "a write into the pointer to a tail": |t| { let row = row!(t, 1); t.write(row, 52, &[1; 8]) };
        "a write of a key": |t| { let row = row!(t, 0); t.write(row, 15, &[1]) };
        "a tail of a row that has none": |t| { let row = row!(t, 0); t.read_tail(row, &mut Vec::new()) };
        "a new tail of a row that has none": |t| { let row = row!(t, 0); t.write_tail(row, b"tail") };
        "a new row with a tail that is too long": |t| t.insert(1, &[&NEW], &[0; 56], &vec![0; TAIL_BYTES_MAX + 1]);
        "a loose row with a tail that is too long": |t| t.insert_unindexed(1, &[&NEW], &[0; 56], &vec![0; TAIL_BYTES_MAX + 1]);
        "a tail that is too long": |t| { let row = row!(t, 1); t.write_tail(row, &vec![0; TAIL_BYTES_MAX + 1]) };
        "another row with a tail that is too long": |t| { let row = row!(t, 1); t.replace(row, &[&[1]], &[&[1]], &[0; 56], &vec![0; TAIL_BYTES_MAX + 1]) };
        "a deletion with a key too few": |t| { let row = row!(t, 0); t.delete(row, &[&[1]]) };
        "a deletion with a long key": |t| { let row = row!(t, 0); t.delete(row, &[&[1], &TWO]) };
    }
}

fn scan(
    t: &mut dyn boundary::AnyVerbs,
    table: usize,
    index: usize,
    range: KeyBounds<'_>,
) -> Result<(), Abort> {
    t.scan(table, index, range, boundary::Direction::Forward, Intent::Read, &mut |_, _| Ok(true))
}

fn erased_verbs_check_numbers_and_lengths<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let mut session = session(&database);
    for (name, wrong) in wrong_uses() {
        let ended = session.transact(&once(), |t| wrong(t));
        assert!(is_misuse(&ended), "{}: {name}: {ended:?}", S::NAME);
        // Nor does it commit if the caller does not mind.
        let ended = session.transact(&once(), |t| {
            assert!(wrong(t).is_err());
            Ok(())
        });
        assert!(is_misuse(&ended), "{}: {name}, swallowed: {ended:?}", S::NAME);
    }
    all_is_as_loaded(&database, tables);
}

/// One wrong use of the typed verbs.
type Use<'b, S> = &'b dyn Fn(&mut engine::Transaction<'_, '_, Hardware, S>) -> Result<(), Abort>;

fn stale_handles_are_refused<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let (other, _) = self::database::<S>();
    let mut session = session(&database);
    let mut elsewhere = self::session(&other);
    let mut kept = None;
    let found = session.transact(&once(), |t| {
        kept = t.find(tables.plain.primary(), &1, Intent::Read)?;
        Ok(())
    });
    assert!(found.is_ok());
    let stale = kept.expect("loaded");
    for session in [&mut session, &mut elsewhere] {
        let mut uses = |body: Use<'_, S>| {
            let ended = session.transact(&once(), |t| {
                // The row with the number of the stale handle is one of another table.
                t.find(tables.noted.primary(), &2, Intent::Write)?.expect("loaded");
                t.prefetch(stale, Plain::VALUE, Intent::Read);
                body(t)
            });
            assert!(is_misuse(&ended), "{}: {ended:?}", S::NAME);
        };
        uses(&|t| t.get(stale, Plain::VALUE).map(drop));
        uses(&|t| t.row(stale).map(drop));
        uses(&|t| t.put(stale, Plain::VALUE, &7));
        uses(&|t| t.replace(stale, &plain(LATER)));
        uses(&|t| t.delete(stale));
    }
    all_is_as_loaded(&database, tables);
    all_is_as_loaded(&other, tables);
}

/// A table that is named with another type of row.
fn forged_tables_reach_nothing<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let mut session = session(&database);
    let forged = Table::<Noted>::new(tables.plain.number());
    let mut uses = |body: Use<'_, S>| {
        let ended = session.transact(&once(), |t| body(t));
        assert!(is_misuse(&ended), "{}: {ended:?}", S::NAME);
    };
    uses(&|t| t.insert(forged, &noted(LATER)));
    uses(&|t| t.insert(Table::<Bare>::new(0), &Bare { id: LATER, code: 0, value: 0 }));
    uses(&|t| {
        let row = t.find(forged.primary(), &1, Intent::Write)?.expect("loaded");
        t.row(row).map(drop)
    });
    uses(&|t| {
        let row = t.find(forged.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Noted::WIDE, &[7; 6])
    });
    uses(&|t| {
        let row = t.find(forged.primary(), &1, Intent::Write)?.expect("loaded");
        t.delete(row)
    });
    all_is_as_loaded(&database, tables);
}

/// Keys that are changed behind the back of an index, or are those of another row: an index goes on
/// naming the row, which is not reused.
fn rows_that_an_index_names_are_not_reused<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let mut session = session(&database);
    let may_be_deleted = |deleted: &Result<Ending<()>, Abort>| deleted.is_ok() || is_misuse(deleted);
    let bare = Table::<Bare>::new(tables.plain.number());
    let changed = session.transact(&once(), |t| {
        let row = t.find(bare.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Bare::CODE, &LATER)
    });
    assert!(changed.is_ok());
    let deleted = session.transact(&once(), |t| {
        let row = t.find(tables.plain.primary(), &1, Intent::Write)?.expect("loaded");
        t.delete(row)
    });
    assert!(may_be_deleted(&deleted), "{}: {deleted:?}", S::NAME);
    let deleted = session.transact(&once(), |t| {
        let verbs: &mut dyn boundary::AnyVerbs = t;
        let row = verbs.find(0, 0, &[2], Intent::Write)?.expect("loaded");
        verbs.delete(row, &[&[2], &[LATER]])
    });
    assert!(may_be_deleted(&deleted), "{}: {deleted:?}", S::NAME);
    pass(&database, &mut session);
    for id in LATER..LATER + ROWS {
        session.transact(&once(), |t| t.insert(tables.plain, &plain(id))).expect("inserted");
    }
    for id in [1, 2] {
        let found = session.transact(&once(), |t| {
            match t.find(tables.plain.index(Plain::BY_CODE), &plain(id).code, Intent::Read)? {
                Some(row) => Ok(t.row(row)?.id),
                None => Ok(id),
            }
        });
        let is_its_own = match &found {
            Ok(Ending::Committed(found, _)) => *found == id,
            ended => matches!(ended, Err(Abort::Conflict(_))),
        };
        assert!(is_its_own, "{}: {found:?}", S::NAME);
    }
}

/// Rows that a visitor of [`Inspector::scan`] deletes stay as they were until the scan is over.
fn inspected_rows_stay<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let mut session = session(&database);
    let mut seen = Vec::new();
    let mut inspector = database.inspector(Hardware::core());
    inspector.scan(tables.plain.primary(), &0, &(LATER - 1), &mut |row: &Plain| {
        if seen.is_empty() {
            for id in 0..ROWS {
                let delete = |t: &mut engine::Transaction<'_, '_, Hardware, S>| {
                    let row = t.find(tables.plain.primary(), &id, Intent::Write)?.expect("loaded");
                    t.delete(row)
                };
                session.transact(&once(), delete).expect("deleted");
            }
            pass(&database, &mut session);
            for id in LATER..LATER + 2 * ROWS {
                session.transact(&once(), |t| t.insert(tables.plain, &plain(id))).expect("inserted");
            }
        }
        seen.push(row.id);
    });
    // Those that were read with the first one; under `mvcc` rows say themselves that they were
    // deleted.
    let shown = seen.len() as u64;
    let enough = shown > ROWS / 10 || S::NAME == "mvcc" && shown == 1;
    assert!(enough && seen.iter().copied().eq(0..shown), "{}: {seen:?}", S::NAME);
    pass(&database, &mut session);
}

fn swallowed_failures_do_not_commit<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let mut session = session(&database);
    // The primary key is new, the code is not: the row is in one index when the other refuses it.
    let half: [u64; 3] = [LATER, plain(1).code, 0];
    let ended = session.transact(&once(), |t| {
        let verbs: &mut dyn boundary::AnyVerbs = t;
        let row = verbs.find(0, 0, &[2], Intent::Write)?.expect("loaded");
        verbs.write(row, 16, &77u64.to_le_bytes())?;
        let inserted = verbs.insert(0, &[&half[..1], &half[1..2]], bytemuck::cast_slice(&half), &[]);
        assert_eq!(inserted, Err(Abort::duplicate(0, 1)));
        Ok(())
    });
    assert_eq!(ended.err(), Some(Abort::duplicate(0, 1)), "{}", S::NAME);
    all_is_as_loaded(&database, tables);
    // A verb after the one that failed fails too.
    let ended = session.transact(&once(), |t| {
        let verbs: &mut dyn boundary::AnyVerbs = t;
        let inserted = verbs.insert(0, &[&half[..1], &half[1..2]], bytemuck::cast_slice(&half), &[]);
        assert!(inserted.is_err());
        assert_eq!(verbs.find(0, 0, &[2], Intent::Read).map(drop), inserted);
        Ok(())
    });
    assert!(ended.is_err());
    all_is_as_loaded(&database, tables);
}

fn parts_end_in_their_own_database<S: Scheme<Hardware>>() {
    let (database, tables) = database::<S>();
    let (other, _) = self::database::<S>();
    let (mut session, mut elsewhere) = (session(&database), self::session(&other));
    let prepared = session.prepare(&Bounds::default(), |t| t.insert(tables.plain, &plain(LATER)));
    let ((), prepared) = prepared.expect("no other transaction runs");
    elsewhere.finish(prepared, true);
}

macro_rules! under_all_schemes {
    ($($test:ident,)*) => { $(
        mod $test {
            #[test]
            fn under_all_schemes() {
                concurrency::for_each_scheme!(S => { super::$test::<S>(); });
            }
        }
    )* };
}

under_all_schemes! {
    erased_verbs_check_numbers_and_lengths,
    stale_handles_are_refused,
    forged_tables_reach_nothing,
    rows_that_an_index_names_are_not_reused,
    inspected_rows_stay,
    swallowed_failures_do_not_commit,
}

#[test]
#[should_panic(expected = "prepared in another database")]
fn parts_of_another_database_are_refused() {
    parts_end_in_their_own_database::<NoWait>();
}
