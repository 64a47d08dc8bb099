//! Which structure of a database lies where: names for lines that a report shows.

use concurrency::{Scheme, Structure};
use platform::{Address, LINE_BYTES, Platform};

use boundary::Occupant;

use crate::database::MemoryDatabase;
use schema::TableDescription;

impl<P: Platform, S: Scheme<P>> MemoryDatabase<P, S> {
    /// The rows and parts of indexes on the lines at these addresses: `None` for a line with
    /// neither. No transaction runs meanwhile. This walks the whole database.
    pub fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        let mut wanted: Vec<(u64, usize)> =
            lines.iter().enumerate().map(|(number, line)| (line.0, number)).collect();
        wanted.sort_unstable();
        let mut found = vec![None; lines.len()];
        self.instance().visit_structures(c, &mut |structure, at, bytes| {
            let start = P::address(c, at).0;
            let first = wanted.partition_point(|(line, _)| line + LINE_BYTES as u64 <= start);
            let covered = wanted[first..].iter().take_while(|(line, _)| *line < start + bytes as u64);
            for (line, number) in covered {
                let offset = line.saturating_sub(start);
                found[*number]
                    .get_or_insert_with(|| Occupant { structure: name(self.tables(), structure), offset });
            }
        });
        found
    }
}

fn name(tables: &[TableDescription], structure: Structure) -> String {
    match structure {
        Structure::Row(table) => format!("{} row", tables[table].name()),
        Structure::Index(table, 0, part) => format!("{} primary key, {}", tables[table].name(), part.name()),
        Structure::Index(table, index, part) => {
            let (table, index) = (tables[table].name(), tables[table].index_name(index));
            format!("{table} index {index}, {}", part.name())
        }
    }
}
