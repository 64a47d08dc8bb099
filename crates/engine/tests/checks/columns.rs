//! Columns that are added from one opening to the next, of tables that are described at run time.

use boundary::{Bounds, Database, Ending, SchemaBuilder, SchemaError, Span};
use platform::Intent;
use schema::{
    ColumnDescription, Datum, KeyBuffer, RowBytes, TableBuilder, TableDescription, TableOptions, ValueType,
};
use sim::VirtualCore;
use terms::Abort;

use crate::changing::{
    Content, P, Plain, checked, contents, disk, insert, item, open, run, schema_error, set, table, transact,
};

/// The table of [`Plain`] as it is described at run time: further columns, before the tail.
fn described(further: &[ColumnDescription]) -> TableDescription {
    let column = |name: &str, bytes| ColumnDescription::new(name, ValueType::Unsigned(bytes));
    let builder = TableBuilder::new("things").column(column("id", 4)).column(column("a", 4));
    let builder = further.iter().cloned().fold(builder, TableBuilder::column);
    let builder = builder.column(column("b", 8)).column(ColumnDescription::new("text", ValueType::Bytes));
    builder.key(["id"]).build().expect("a table")
}

fn declaring(table: TableDescription) -> impl Fn(&mut SchemaBuilder) -> usize {
    move |schema| schema.declare(table.clone(), &TableOptions::default()).expect("declared")
}

/// The rows that the first table has under these keys, as its description reads them.
fn described_rows(database: &Database<P>, c: VirtualCore, ids: &[u32]) -> Vec<Option<Vec<Datum>>> {
    let table = &database.tables()[0];
    let mut session = database.session(c, None, false).expect("a session");
    let read = session.transact(&Bounds::default(), |transaction| {
        let verbs = transaction.verbs();
        let row = |id: &u32| {
            let Some(found) = verbs.find(0, 0, KeyBuffer::of(id).words(1), Intent::Read)? else {
                return Ok(None);
            };
            let (mut words, mut tail) = (vec![0; table.row_bytes() / 8], Vec::new());
            verbs.read(found, Span { offset: 0, bytes: table.row_bytes() }, &mut words)?;
            verbs.read_tail(found, &mut tail)?;
            Ok(Some(table.decode_row(bytemuck::cast_slice(&words), &tail).expect("a row")))
        };
        ids.iter().map(row).collect::<Result<Vec<_>, Abort>>()
    });
    match read {
        Ok(Ending::Committed(rows, _)) => rows,
        other => panic!("{other:?}"),
    }
}

/// Makes the row of this key be this one.
fn put(database: &Database<P>, c: VirtualCore, values: &[Datum]) {
    let mut row = RowBytes::default();
    database.tables()[0].encode_row(values, &mut row).expect("a row");
    let key = row.keys[0].words(1);
    let committed = transact(database, c, |transaction| {
        let verbs = transaction.verbs();
        match verbs.find(0, 0, key, Intent::Write)? {
            None => verbs.insert(0, &[key], &row.fixed, &row.tail),
            Some(found) => {
                verbs.write(found, 0, &row.fixed)?;
                verbs.write_tail(found, &row.tail)
            }
        }
    });
    assert!(committed);
}

/// A row with these values in the columns behind `a`.
fn values(content: Content, further: &[Datum]) -> Vec<Datum> {
    let (id, a, b, text) = content;
    let number = |value: u32| Datum::Unsigned(u64::from(value));
    let mut row = vec![number(id), number(a)];
    row.extend_from_slice(further);
    row.extend([Datum::Unsigned(b), Datum::Bytes(text)]);
    row
}

#[test]
fn columns_are_added_without_rewriting() {
    let disk = disk();
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<Plain>(s, "things")).expect("new");
        (0..10).for_each(|id| assert!(insert(&database, c, things, item(id, id))));
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        // Rows of the checkpoint that the log changes, and rows of the log.
        set(&database, c, things, item(3, 99));
        (10..15).for_each(|id| assert!(insert(&database, c, things, item(id, id))));
        set(&database, c, things, item(12, 99));
    });
    disk.lose_power();
    let earlier = |id: u32| item(id, if id == 3 || id == 12 { 99 } else { id });
    let flag = ColumnDescription::new("flag", ValueType::Bool).with_default(Datum::Bool(true));
    let size = ColumnDescription::new("size", ValueType::Unsigned(2)).nullable();
    let note = ColumnDescription::new("note", ValueType::String).nullable();
    let second = [flag.clone(), size.clone(), note.clone()];
    let (absent, own) = (
        [Datum::Bool(true), Datum::Null, Datum::Null],
        [Datum::Bool(false), Datum::Unsigned(7), Datum::Text("own".into())],
    );
    let changed = |id: u32| [3, 5, 12, 100].contains(&id);
    let ids: Vec<u32> = (0..15).chain([100]).collect();
    let expected = |id: u32, further: &[Datum]| match changed(id) {
        true => values(item(id, 7), &[&own[..], further].concat()),
        false => values(earlier(id), &[&absent[..], further].concat()),
    };
    for round in 0..3 {
        run(&disk, |c| {
            let (database, _) = open(c, declaring(described(&second))).expect("with more columns");
            let rows = described_rows(&database, c, &ids);
            let before = |id: u32| match (round, id) {
                (0, 100) => None,
                (0, id) => Some(values(earlier(id), &absent)),
                (_, id) => Some(expected(id, &[])),
            };
            assert_eq!(rows, ids.iter().map(|id| before(*id)).collect::<Vec<_>>(), "{round}");
            for id in ids.iter().filter(|id| changed(**id)) {
                put(&database, c, &values(item(*id, 7), &own));
            }
        });
        disk.lose_power();
        let checked = checked(&disk);
        assert_eq!(checked.rows, [("things".to_owned(), 16)]);
        let ids: Vec<_> =
            checked.description.tables.iter().map(|table| (table.id, table.continued_by)).collect();
        assert_eq!(ids, [(0, Some(1)), (1, None)]);
    }
    // And once more, while records of both forms count.
    let ratio = ColumnDescription::new("ratio", ValueType::Float(8)).with_default(Datum::Float(1.5));
    let third = [flag, size, note, ratio];
    for round in 0..3 {
        run(&disk, |c| {
            let (database, _) = open(c, declaring(described(&third))).expect("with one more");
            let rows = described_rows(&database, c, &ids);
            let all: Vec<_> = ids.iter().map(|id| Some(expected(*id, &[Datum::Float(1.5)]))).collect();
            assert_eq!(rows, all, "{round}");
            if round == 1 {
                let mut session = database.session(c, None, false).expect("a session");
                assert_eq!(session.checkpoint(), Ok(true));
            }
        });
        disk.lose_power();
        let checked = checked(&disk);
        assert_eq!(checked.rows, [("things".to_owned(), 16)]);
        let ids: Vec<_> =
            checked.description.tables.iter().map(|table| (table.id, table.continued_by)).collect();
        match round {
            2 => assert_eq!(ids, [(2, None)], "after a checkpoint no earlier record counts"),
            _ => assert_eq!(ids, [(0, Some(2)), (1, Some(2)), (2, None)]),
        }
    }
}

#[test]
fn columns_that_rows_cannot_do_without_are_refused() {
    let disk = disk();
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<Plain>(s, "things")).expect("new");
        assert!(insert(&database, c, things, item(1, 1)));
        database.close(c).expect("closed");
    });
    let before = disk.contents();
    let plain = ColumnDescription::new("size", ValueType::Unsigned(2));
    let refused = |declared: &str, table: TableDescription| {
        let error = run(&disk, |c| schema_error(open(c, declaring(table.clone()))));
        let SchemaError::Rows { part, declared: as_declared, .. } = error else { panic!("{error}") };
        assert_eq!((&*part, &*as_declared), ("column 3", declared));
        assert_eq!(disk.contents(), before, "a refused opening changes nothing");
    };
    refused("size: u16 at byte 8", described(std::slice::from_ref(&plain)));
    run(&disk, |c| drop(open(c, declaring(described(&[plain.clone().nullable()]))).expect("a column")));
    disk.lose_power();
    let before = disk.contents();
    let gone = run(&disk, |c| schema_error(open(c, |s| table::<Plain>(s, "things"))));
    assert!(matches!(gone, SchemaError::Rows { .. }), "{gone}");
    let required = run(&disk, |c| schema_error(open(c, declaring(described(std::slice::from_ref(&plain))))));
    assert!(matches!(required, SchemaError::Rows { .. }), "{required}");
    assert_eq!(disk.contents(), before, "refused openings change nothing");
    // A table whose rows went on in another form, and that is dropped then, is gone.
    for round in 0..2 {
        run(&disk, |c| {
            let (database, other) = open(c, |s| {
                s.drop_table("things");
                table::<Plain>(s, "other")
            })
            .expect("without it");
            assert_eq!(contents(&database, c, other).len(), round);
            assert_eq!(insert(&database, c, other, item(1, 1)), round == 0);
        });
        disk.lose_power();
        assert_eq!(checked(&disk).rows, [("other".to_owned(), 1)]);
    }
}
