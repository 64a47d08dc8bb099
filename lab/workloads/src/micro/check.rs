//! The checks after a run: no row is lost or damaged, and each committed update counts once.

use schema::{Inspector, Table};

use super::rows::{CountedRow, MicroTables, with_table};
use super::spec::MicroSpec;
use crate::workload::{Check, Outcome};

/// Sums over the rows of the table.
#[derive(Debug, Default)]
pub(super) struct TableTotals {
    rows: u64,
    updates: u64,
    damaged: u64,
}

pub(super) fn inspect(spec: &MicroSpec, tables: &MicroTables, inspector: &mut impl Inspector) -> TableTotals {
    let mut seen = TableTotals::default();
    with_table!(tables, table => count(spec, table, inspector, &mut seen));
    seen
}

fn count<R: CountedRow>(
    spec: &MicroSpec,
    table: Table<R>,
    inspector: &mut impl Inspector,
    seen: &mut TableTotals,
) {
    inspector.scan(table.primary(), &0, &u64::MAX, &mut |row: &R| {
        seen.rows += 1;
        seen.updates = seen.updates.wrapping_add(row.counter());
        let key = row.key();
        let is_expected =
            crate::batch::partition(key) < spec.parts() && crate::batch::number(key) < spec.rows_per_part();
        seen.damaged += u64::from(!is_expected || !row.is_intact());
    });
}

impl TableTotals {
    pub(super) fn rows(&self, spec: &MicroSpec) -> Check {
        let expected = spec.rows_per_site * u64::from(spec.sites);
        let result = if self.rows != expected {
            Outcome::Violated(format!("{} rows where {expected} were loaded", self.rows))
        } else if self.damaged > 0 {
            Outcome::Violated(format!("{} rows have a key or payload that was never written", self.damaged))
        } else {
            Outcome::Ok
        };
        Check { name: "micro_rows", result }
    }

    pub(super) fn updates(&self, committed: u64) -> Check {
        let result = if self.updates == committed {
            Outcome::Ok
        } else {
            Outcome::Violated(format!("rows count {} updates where {committed} were committed", self.updates))
        };
        Check { name: "micro_updates", result }
    }
}
