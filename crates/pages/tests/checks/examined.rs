//! The report of an examination of a directory.

use std::path::Path;

use boundary::{AnyDatabase, Bounds, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedLogOptions, PagedOptions, examine};
use schema::{Row, Schema, TableOptions};
use sim::VirtualMachine;

use crate::support::{options, session, virtually};

/// The key of the second index takes three words, and has four in a tree.
#[derive(Row, Clone, Debug)]
#[row(key(part, id), unique_index(by_name(part, name)))]
struct Named {
    id: u64,
    part: u16,
    name: [u8; 15],
}

#[test]
fn a_whole_directory_is_whole_whatever_the_width_of_its_keys() {
    virtually(1, 1, |c| {
        let log = Some(PagedLogOptions {
            segment_bytes: 1 << 20,
            buffer_bytes: 1 << 20,
            checkpoint_bytes: 1 << 30,
        });
        let options = PagedOptions { log, ..options(100, 4096, 1) };
        let mut schema = SchemaBuilder::new();
        let table = schema.table::<Named>("named", TableOptions::default());
        let (database, _) =
            PagedDatabase::<VirtualMachine>::open(c, &options, schema, None).expect("a database");
        {
            let mut session = session(&database, c);
            let ended = session.transact(&Bounds::default(), |t| {
                let named = |id: u64| Named { id, part: id as u16 % 3, name: [id as u8; 15] };
                (0..200).try_for_each(|id| t.insert(table, &named(id)))
            });
            assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
        }
        AnyDatabase::close(Box::new(database), c).expect("it closes");
        let examined = examine::<VirtualMachine>(c, Path::new("pages")).expect("it can be read");
        assert_eq!(examined.wrong, Vec::<String>::new());
        let entries = examined.tables.iter().flat_map(|(_, trees)| trees).map(|tree| tree.entries);
        assert_eq!(entries.collect::<Vec<_>>(), [200, 200]);
    });
}
