//! Damage of the file is reported, and damaged rows are never returned.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedOptions};
use platform::{Hardware, Intent};
use schema::{Row, Schema, TableOptions};
use terms::Abort;

use crate::support::{options, session};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Wide {
    id: u64,
    body: [u64; 20],
}

const ROWS: u64 = 400;

/// Loads more rows than the pool holds, has the file changed, and reads all rows; the first error.
fn first_error(name: &str, damage: impl FnOnce(&mut std::fs::File)) -> Option<Abort> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Wide>("wide", TableOptions::default());
    let options = PagedOptions { directory: Some(path.clone()), ..options(12, 1024, 1) };
    let database = PagedDatabase::<Hardware>::create(c, &options, schema).expect("a pool and a file");
    let mut session = session(&database, c);
    let row = |id: u64| Wide { id, body: [id; 20] };
    for id in 0..ROWS {
        let ended = session.transact(&Bounds::default(), |t| t.insert(table, &row(id)));
        assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
    }
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join("pages.data"));
    damage(&mut file.expect("pages have left the pool"));
    let mut error = None;
    for id in 0..ROWS {
        let read = session.transact(&Bounds::default(), |t| {
            let found = t.find(table.primary(), &id, Intent::Read)?;
            found.map(|found| t.row(found)).transpose()
        });
        match read {
            Ok(Ending::Committed(read, _)) => assert_eq!(read, Some(row(id))),
            Ok(other) => panic!("{other:?}"),
            Err(abort) => error = error.or(Some(abort)),
        }
    }
    drop(session);
    drop(database);
    std::fs::remove_dir_all(&path).expect("the directory goes");
    error
}

#[test]
fn pages_come_back_as_they_left() {
    assert_eq!(first_error("whole", |_| ()), None);
}

#[test]
fn a_flipped_byte_is_noticed() {
    let damaged = first_error("flipped", |file| {
        for page in 2..60 {
            file.seek(SeekFrom::Start(page * 1024 + 700)).expect("seek");
            file.write_all(&[0x5a; 3]).expect("write");
        }
    });
    let Some(Abort::Storage(why)) = damaged else { panic!("{damaged:?}") };
    assert!(why.contains("its checksum is wrong"), "{why}");
}

#[test]
fn a_page_in_the_place_of_another_is_noticed() {
    let damaged = first_error("misdirected", |file| {
        let mut pages = vec![0; 80 * 1024];
        let read = std::os::unix::fs::FileExt::read_at(file, &mut pages, 0).expect("read");
        pages.truncate(read / 1024 * 1024);
        // Each page where its neighbour was.
        pages.rotate_right(1024);
        file.seek(SeekFrom::Start(0)).expect("seek");
        file.write_all(&pages).expect("write");
    });
    let Some(Abort::Storage(why)) = damaged else { panic!("{damaged:?}") };
    assert!(why.contains("lies in its place") || why.contains("checksum"), "{why}");
}
