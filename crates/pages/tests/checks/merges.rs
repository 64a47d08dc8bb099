//! Pages that become thin are merged, and used again; what is lost in a crash then is made anew
//! from the log.

use std::ops::ControlFlow;
use std::path::Path;

use boundary::{AnyDatabase, Bounds, Direction, Ending, SchemaBuilder, Session, Verbs};
use pages::{ExaminedTree, PagedDatabase, PagedLogOptions, PagedOptions, examine};
use platform::Intent;
use schema::{Row, Schema, Table, TableOptions};
use sim::{VirtualCore, VirtualMachine};
use terms::{Fault, Faults};

use crate::support::{Random, assert_sound, options, session, virtually};

/// 13 words in a leaf, of which a page of 1 KiB has 120.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Item {
    id: u64,
    body: [u64; 10],
}

const ROWS: u64 = 1_200;

type Items = (PagedDatabase<VirtualMachine>, Table<Item>);

fn opened(c: VirtualCore, frames: u64) -> Items {
    opened_as(c, options(frames, 1024, 2))
}

fn opened_as(c: VirtualCore, options: PagedOptions) -> Items {
    let log = PagedLogOptions { segment_bytes: 1 << 20, buffer_bytes: 1 << 20, checkpoint_bytes: 1 << 30 };
    let options = PagedOptions { log: Some(log), ..options };
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Item>("items", TableOptions::default());
    let (database, _) = PagedDatabase::open(c, &options, schema, None).expect("a database");
    (database, table)
}

fn change(
    session: &mut Session<'_>,
    body: impl FnMut(&mut boundary::Transaction<'_>) -> Result<(), terms::Abort>,
) {
    let ended = session.transact(&Bounds::default(), body);
    assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
}

fn insert(session: &mut Session<'_>, table: Table<Item>, ids: &[u64]) {
    for ids in ids.chunks(10) {
        change(session, |t| {
            ids.iter().try_for_each(|id| t.insert(table, &Item { id: *id, body: [*id; 10] }))
        });
    }
}

fn delete(session: &mut Session<'_>, table: Table<Item>, ids: &[u64]) {
    for ids in ids.chunks(10) {
        change(session, |t| {
            ids.iter().try_for_each(|id| {
                let row = t.find(table.primary(), id, Intent::Write)?.expect("it was inserted");
                t.delete(row)
            })
        });
    }
}

/// All keys, in a random order.
fn shuffled(random: &mut Random) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..ROWS).collect();
    for place in (1..ids.len()).rev() {
        ids.swap(place, random.below(place as u64 + 1) as usize);
    }
    ids
}

/// The content of a closed directory: pages in use, free pages, and the tree of the rows.
fn closed(c: VirtualCore, database: PagedDatabase<VirtualMachine>) -> ((u64, u64), ExaminedTree) {
    assert_sound(&database, c);
    AnyDatabase::close(Box::new(database), c).expect("it closes");
    let examined = examine::<VirtualMachine>(c, Path::new("pages")).expect("it can be read");
    assert_eq!(examined.wrong, Vec::<String>::new());
    ((examined.pages_in_use, examined.pages_free), examined.tables[0].1[0])
}

#[test]
fn pages_of_rows_that_are_deleted_at_random_are_used_again() {
    virtually(3, 1, |c| {
        let mut random = Random::new(3);
        let ids = shuffled(&mut random);
        let items = opened(c, 60);
        insert(&mut session(&items.0, c), items.1, &ids);
        let ((in_use, free), all) = closed(c, items.0);
        let total = in_use + free;
        assert_eq!(all.entries, ROWS);

        let items = opened(c, 60);
        let (gone, left) = ids.split_at(ids.len() * 9 / 10);
        delete(&mut session(&items.0, c), items.1, gone);
        let ((now, free), few) = closed(c, items.0);
        assert_eq!(few.entries, ROWS / 10);
        assert!(now + free <= total + 2, "{now} pages and {free} free ones, {total} before");
        println!("{} pages, {} when nine rows in ten are gone", all.pages, few.pages);
        // A tenth of the rows; a page that has become one of two is filled by three quarters at
        // most.
        assert!(few.pages * 4 < all.pages, "{} of {} pages", few.pages, all.pages);

        let items = opened(c, 60);
        delete(&mut session(&items.0, c), items.1, left);
        let ((now, free), none) = closed(c, items.0);
        assert_eq!((now, none), (1, ExaminedTree { pages: 1, entries: 0 }));
        assert!(now + free <= total + 2, "{now} pages and {free} free ones, {total} before");

        let items = opened(c, 60);
        insert(&mut session(&items.0, c), items.1, &ids);
        let ((again, free), all_again) = closed(c, items.0);
        assert_eq!(all_again.entries, ROWS);
        assert!(again + free <= total + 2, "{again} pages and {free} free ones, {total} before");
    });
}

/// True if a row is inserted into a gap between two leaves that a scan relies on while the leaves
/// become thin; and true if the scan sees the row.
fn comes_into_a_scanned_gap(c: VirtualCore, faults: Faults) -> (bool, bool) {
    let (database, table) =
        opened_as(c, PagedOptions { faults, wait_nanos_max: Some(1_000), ..options(60, 1024, 3) });
    let [mut scans, mut deletes, mut inserts] = [0; 3].map(|_| session(&database, c));
    // Two leaves: 0 to 70, and from 80 on, where their fence is and stays.
    insert(&mut deletes, table, &(0..17).map(|number| number * 10).collect::<Vec<_>>());
    delete(&mut deletes, table, &[30, 40, 50, 60, 70, 80, 90]);
    let mut has_come = false;
    let ended = scans.transact(&Bounds::default(), |t| {
        let mut seen = 0;
        for round in 0..2 {
            t.scan(table.primary(), &30, &79, Direction::Forward, Intent::Read, &mut |_, _| {
                seen += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            if round == 0 {
                // Both leaves would fill one by three quarters now.
                delete(&mut deletes, table, &[100, 110, 120, 130]);
                let once = Bounds { deadline: None, attempts_max: Some(1) };
                let inserted = inserts.transact(&once, |t| t.insert(table, &Item { id: 50, body: [50; 10] }));
                has_come = matches!(inserted, Ok(Ending::Committed(..)));
            }
        }
        Ok(seen > 0)
    });
    let Ok(Ending::Committed(is_seen, _)) = ended else { panic!("{ended:?}") };
    (has_come, is_seen)
}

#[test]
fn leaves_stay_apart_while_a_transaction_relies_on_the_gap_between_them() {
    let found = |faults| virtually(5, 1, |c| comes_into_a_scanned_gap(c, faults));
    assert_eq!(found(Faults::NONE), (false, false));
    assert_eq!(found(Faults::of(&[Fault::MergedBusyLeaves])), (true, true));
}
