//! Rows that are longer than a record may be: their fixed parts, their tails, and what of them is
//! left.

use std::ops::ControlFlow;
use std::path::Path;

use boundary::{AnyDatabase, Bounds, Direction, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedLogOptions, PagedOptions, examine};
use platform::files::Files;
use platform::{Hardware, Intent};
use schema::{Row, Schema, Table, TableOptions};
use sim::VirtualMachine;
use terms::{Abort, Fault, Faults};

use crate::support::{Random, assert_sound, options, session, virtually};

/// A record takes 27 words of a page of 1 KiB: most of a row lies elsewhere, the indexed column
/// too.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_name(name)))]
struct Long {
    id: u32,
    first: [u64; 20],
    second: [u64; 40],
    name: u64,
    odd: [u8; 13],
    third: [u64; 50],
    #[row(tail)]
    note: Vec<u8>,
}

impl Long {
    fn of(id: u32, salt: u64, note: usize) -> Self {
        let all = |place: u64| u64::from(id) << 32 | salt << 8 | place;
        Long {
            id,
            first: std::array::from_fn(|place| all(place as u64)),
            second: std::array::from_fn(|place| all(100 + place as u64)),
            name: u64::from(id) * 1_000 + salt,
            odd: [salt as u8; 13],
            third: std::array::from_fn(|place| all(200 + place as u64)),
            note: (0..note).map(|place| (place as u64 * 7 + salt) as u8).collect(),
        }
    }
}

type Rows = std::collections::BTreeMap<u32, Long>;

fn run<P: Files, R>(
    database: &PagedDatabase<P>,
    c: P::Core,
    body: impl FnMut(&mut boundary::Transaction<'_>) -> Result<R, Abort>,
) -> Result<Ending<R>, Abort> {
    session(database, c).transact(&Bounds::default(), body)
}

/// One change of one row, on both.
fn change(t: &mut impl Verbs, table: Table<Long>, rows: &mut Rows, random: &mut Random) -> Result<(), Abort> {
    let (id, salt) = (random.below(12) as u32, random.below(200));
    let note = [0, 9, 200, 3_000][random.below(4) as usize];
    let other = Long::of(id, salt, random.below(note + 1) as usize);
    let Some(row) = t.find(table.primary(), &id, Intent::Write)? else {
        t.insert(table, &other)?;
        rows.insert(id, other);
        return Ok(());
    };
    let own = rows.get_mut(&id).expect("the model has it, too");
    match random.below(6) {
        0 => {
            t.delete(row)?;
            rows.remove(&id);
        }
        1 => {
            t.replace(row, &other)?;
            *own = other;
        }
        2 => {
            t.put(row, Long::FIRST, &other.first)?;
            own.first = other.first;
        }
        3 => {
            t.put(row, Long::ODD, &other.odd)?;
            own.odd = other.odd;
        }
        4 => {
            t.put(row, Long::THIRD, &other.third)?;
            assert_eq!(t.get(row, Long::THIRD)?, other.third);
            assert_eq!(t.get(row, Long::SECOND)?, own.second);
            own.third = other.third;
        }
        _ => {
            t.put(row, Long::SECOND, &other.second)?;
            own.second = other.second;
        }
    }
    Ok(())
}

/// All rows, by both indexes.
fn is_the_same(t: &mut impl Verbs, table: Table<Long>, rows: &Rows) -> Result<(), Abort> {
    let mut found = Vec::new();
    t.scan(table.primary(), &0, &u32::MAX, Direction::Forward, Intent::Read, &mut |t, row| {
        found.push(t.row(row)?);
        Ok(ControlFlow::Continue(()))
    })?;
    assert!(found.iter().eq(rows.values()), "{} rows", found.len());
    for row in rows.values() {
        let by_name = t.find(table.index(Long::BY_NAME), &row.name, Intent::Read)?;
        assert_eq!(by_name.map(|found| t.row(found)).transpose()?.as_ref(), Some(row));
    }
    Ok(())
}

fn behaves_like_a_map<P: Files>(c: P::Core, options: &PagedOptions, seed: u64) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Long>("long", TableOptions::default());
    let database = PagedDatabase::<P>::create(c, options, schema).expect("a pool");
    let (mut random, mut rows) = (Random::new(seed), Rows::new());
    for _ in 0..60 {
        let (before, rolls_back) = (rows.clone(), random.below(3) == 0);
        let ended = run(&database, c, |t| {
            (0..1 + random.below(5)).try_for_each(|_| change(t, table, &mut rows, &mut random))?;
            if rolls_back { Err(Abort::RollBack) } else { Ok(()) }
        });
        assert!(ended.is_ok(), "{ended:?}");
        if rolls_back {
            rows = before;
        }
        assert_sound(&database, c);
        let same = run(&database, c, |t| is_the_same(t, table, &rows));
        assert!(matches!(same, Ok(Ending::Committed(..))), "{same:?}");
    }
    let removed = run(&database, c, |t| {
        t.scan(table.primary(), &0, &u32::MAX, Direction::Forward, Intent::Write, &mut |t, row| {
            t.delete(row).map(|()| ControlFlow::Continue(()))
        })
    });
    assert!(matches!(removed, Ok(Ending::Committed(..))), "{removed:?}");
    assert_sound(&database, c);
}

#[test]
fn long_rows_behave_like_a_map() {
    for seed in 0..6 {
        virtually(seed, 1, |c| behaves_like_a_map::<VirtualMachine>(c, &options(8, 1024, 1), seed));
    }
    for seed in 10..16 {
        let options = PagedOptions { directory: None, ..options(400, 1024, 2) };
        behaves_like_a_map::<Hardware>(Hardware::core(), &options, seed);
    }
}

#[test]
fn keys_in_the_far_part_of_a_row_do_not_change() {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Long>("long", TableOptions::default());
    let options = PagedOptions { directory: None, ..options(400, 1024, 1) };
    let database = PagedDatabase::<Hardware>::create(c, &options, schema).expect("a pool");
    run(&database, c, |t| t.insert(table, &Long::of(1, 5, 100))).expect("no transaction conflicts");
    let changed = run(&database, c, |t| {
        let row = t.find(table.primary(), &1, Intent::Write)?.expect("it was inserted");
        t.put(row, Long::NAME, &77)
    });
    assert!(matches!(changed, Err(Abort::Misuse(_))), "{changed:?}");
    assert_sound(&database, c);
}

fn logged() -> PagedOptions {
    let log = PagedLogOptions { segment_bytes: 1 << 20, buffer_bytes: 1 << 20, checkpoint_bytes: 1 << 30 };
    PagedOptions { log: Some(log), ..options(100, 4096, 1) }
}

fn opened(c: sim::VirtualCore, options: &PagedOptions) -> (PagedDatabase<VirtualMachine>, Table<Long>) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Long>("long", TableOptions::default());
    let (database, _) = PagedDatabase::open(c, options, schema, None).expect("a database");
    (database, table)
}

#[test]
fn a_row_of_a_mebibyte_comes_back() {
    virtually(1, 1, |c| {
        let longest = 1 << 20;
        let (database, table) = opened(c, &logged());
        let insert = |database: &PagedDatabase<VirtualMachine>, id, waits| {
            let mut session = session(database, c);
            let ended = session.transact(&Bounds::default(), |t| t.insert(table, &Long::of(id, 3, longest)));
            let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
            if waits {
                session.wait_durable(commit).expect("the disk is there");
            }
        };
        insert(&database, 1, true);
        insert(&database, 2, false);
        // Opened without having been closed: from the log, which lacks the end of the other one.
        drop(database);
        let (database, table) = opened(c, &logged());
        let read = run(&database, c, |t| {
            let row = t.find(table.primary(), &1, Intent::Read)?.expect("it was inserted");
            t.row(row)
        });
        let Ok(Ending::Committed(row, _)) = read else { panic!("{read:?}") };
        assert!(row == Long::of(1, 3, longest));
        let other = run(&database, c, |t| Ok(t.find(table.primary(), &2, Intent::Read)?.is_some()));
        assert!(matches!(other, Ok(Ending::Committed(false, _))), "{other:?}");
        assert_sound(&database, c);
        AnyDatabase::close(Box::new(database), c).expect("it closes");
        let examined = examine::<VirtualMachine>(c, Path::new("pages")).expect("it can be read");
        assert_eq!(examined.wrong, Vec::<String>::new());
        let long = examined.tables[0].1[2];
        assert!(long.entries >= longest as u64 / 1024, "{long:?}");
    });
}

#[test]
fn room_of_long_rows_is_used_again() {
    virtually(2, 1, |c| {
        let (database, table) = opened(c, &logged());
        let mut pages = Vec::new();
        for round in 0..8 {
            run(&database, c, |t| (0..10).try_for_each(|id| t.insert(table, &Long::of(id, round, 20_000))))
                .expect("there is room");
            pages.push(AnyDatabase::memory_use(&database, c).touched);
            run(&database, c, |t| {
                t.scan(table.primary(), &0, &u32::MAX, Direction::Forward, Intent::Write, &mut |t, row| {
                    t.delete(row).map(|()| ControlFlow::Continue(()))
                })
            })
            .expect("they are there");
        }
        assert!(pages[7] <= pages[1], "{pages:?}");
        assert_sound(&database, c);
    });
}

#[test]
fn pieces_that_no_row_has_are_named() {
    virtually(3, 1, |c| {
        let faults = Faults::of(&[Fault::KeptPieces]);
        let (database, table) = opened(c, &PagedOptions { faults, ..logged() });
        run(&database, c, |t| t.insert(table, &Long::of(1, 3, 9_000))).expect("it fits");
        run(&database, c, |t| {
            let row = t.find(table.primary(), &1, Intent::Write)?.expect("it was inserted");
            t.replace(row, &Long::of(1, 3, 50))
        })
        .expect("it is there");
        let wrong = database.check(c).expect("all pages can be read");
        assert!(wrong.len() == 1 && wrong[0].contains("pieces in overflow pages"), "{wrong:?}");
        AnyDatabase::close(Box::new(database), c).expect("it closes");
        let examined = examine::<VirtualMachine>(c, Path::new("pages")).expect("it can be read");
        assert_eq!(examined.wrong, wrong);
    });
}
