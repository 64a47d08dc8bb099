//! Reads of rows of fixed length, which return rows without a reference to them, together with
//! changes of the same transaction and of other transactions.

use std::ops::ControlFlow;

use crate::common::SCHEMES;
use isles::{Database, Error, Result, Row, Scheme, Table};

const ROWS: u64 = 200;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_group(group)))]
struct Cell {
    id: u64,
    group: u64,
    value: u64,
    words: [u64; 5],
}

fn cell(id: u64, value: u64) -> Cell {
    Cell { id, group: id / 10, value, words: [value; 5] }
}

fn cells(scheme: Scheme) -> (Database, Table<Cell>) {
    let mut builder = Database::in_memory().scheme(scheme);
    let cells = builder.table::<Cell>("cells");
    let database = builder.open().expect("a database");
    database.transaction(|t| t.insert_all(cells, (0..ROWS).map(|id| cell(id, id)))).expect("rows");
    (database, cells)
}

#[test]
fn every_kind_of_read_sees_the_transactions_own_changes() {
    for scheme in SCHEMES {
        let (database, cells) = cells(scheme);
        let outcome = database.transaction(|t| {
            // Read before they are changed, so that the transaction refers to them twice.
            assert_eq!(t.scan(cells, ..).collect()?.len() as u64, ROWS);
            assert_eq!(
                (t.get(cells, &3)?, t.get_field(cells, &4, Cell::VALUE)?),
                (Some(cell(3, 3)), Some(4))
            );
            assert!(
                t.set_field(cells, &3, Cell::VALUE, &33)? && t.set_field(cells, &3, Cell::WORDS, &[33; 5])?
            );
            t.update(cells, &4, |row| (row.value, row.words) = (44, [44; 5]))?;
            t.delete(cells, &5)?;
            t.insert(cells, &cell(1_000, 7))?;
            t.delete(cells, &6)?;
            t.insert(cells, &cell(6, 66))?;

            assert_eq!((t.get(cells, &3)?, t.get(cells, &5)?), (Some(cell(3, 33)), None));
            assert_eq!(t.get_field(cells, &4, Cell::VALUE)?, Some(44));
            let expected = [(2, 2), (3, 33), (4, 44), (6, 66), (7, 7)].map(|(id, value)| cell(id, value));
            assert_eq!(t.scan(cells, 2..8).collect()?, expected);
            assert_eq!(t.scan(cells, 2..8).rows().collect::<Result<Vec<_>>>()?, expected);
            assert_eq!(t.scan(cells, 900..).first()?, Some(cell(1_000, 7)));
            assert_eq!(
                t.scan(cells.by(Cell::BY_GROUP), isles::prefix(0)).reverse().limit(4).collect()?.len(),
                4
            );
            Ok(())
        });
        assert_eq!(outcome, Ok(()), "{scheme:?}");
        let all = database.transaction(|t| t.scan(cells, ..).collect()).expect("rows");
        assert_eq!((all.len() as u64, &all[3], &all[5]), (ROWS, &cell(3, 33), &cell(6, 66)));
    }
}

#[test]
fn a_visitor_may_change_later_rows_of_its_scan() {
    for scheme in SCHEMES {
        let (database, cells) = cells(scheme);
        let outcome = database.transaction(|t| {
            let mut seen = Vec::new();
            t.scan(cells, 10..14).try_for_each(|t, row| {
                t.set_field(cells, &(row.id + 1), Cell::VALUE, &(100 + row.id))?;
                seen.push(row.value);
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(seen)
        });
        assert_eq!(outcome, Ok(vec![10, 110, 111, 112]), "{scheme:?}");
    }
}

#[test]
fn rows_read_in_batches_are_validated() {
    type Read = fn(&mut isles::OpenTransaction<'_>, Table<Cell>) -> Result<()>;
    let reads: [Read; 4] = [
        |t, cells| t.get(cells, &20).map(drop),
        |t, cells| t.get_field(cells, &20, Cell::VALUE).map(drop),
        |t, cells| t.scan(cells, 5..=20).collect().map(drop),
        |t, cells| t.scan(cells, 15..30).rows().take(7).try_for_each(|row| row.map(drop)),
    ];
    for read in reads {
        let (database, cells) = cells(Scheme::Silo);
        let mut sessions = [(); 2].map(|()| database.session().expect("a session"));
        let [first, second] = &mut sessions;
        // A row that was read changes before the transaction that read it commits.
        let mut open = first.begin().expect("begun");
        read(&mut open, cells).expect("read");
        open.set_field(cells, &100, Cell::VALUE, &1).expect("written");
        second.transaction(|t| t.set_field(cells, &20, Cell::VALUE, &0).map(drop)).expect("changed");
        assert!(matches!(open.commit(), Err(Error::Conflict { .. })));
        // The transaction itself changes the row; other transactions change other rows.
        let mut open = first.begin().expect("begun");
        read(&mut open, cells).expect("read");
        open.set_field(cells, &20, Cell::VALUE, &1).expect("written");
        second.transaction(|t| t.set_field(cells, &150, Cell::VALUE, &0).map(drop)).expect("changed");
        open.commit().expect("no transaction conflicts");
        // Another transaction changes the row after the read and before the transaction's own
        // change.
        let mut open = first.begin().expect("begun");
        read(&mut open, cells).expect("read");
        second.transaction(|t| t.set_field(cells, &20, Cell::VALUE, &5).map(drop)).expect("changed");
        open.set_field(cells, &20, Cell::VALUE, &6).expect("written");
        assert!(matches!(open.commit(), Err(Error::Conflict { .. })));
        assert_eq!(database.transaction(|t| t.get_field(cells, &20, Cell::VALUE)), Ok(Some(5)));
    }
}

#[test]
fn no_row_appears_in_a_scanned_range() {
    let (database, cells) = cells(Scheme::Silo);
    let mut sessions = [(); 2].map(|()| database.session().expect("a session"));
    let [first, second] = &mut sessions;
    let mut open = first.begin().expect("begun");
    assert_eq!(open.scan(cells, 150..).collect().expect("rows").len() as u64, ROWS - 150);
    open.set_field(cells, &1, Cell::VALUE, &1).expect("written");
    second.transaction(|t| t.insert(cells, &cell(ROWS, 1))).expect("inserted");
    assert!(matches!(open.commit(), Err(Error::Conflict { .. })));
}
