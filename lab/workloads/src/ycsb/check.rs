//! The checks after a run: each partition has the records that were loaded and those whose
//! insertion committed, without gaps, and every field was written as a whole for its record.

use schema::Inspector;

use super::rows::{Growth, Record, YcsbTables};
use crate::batch::{number, partition};
use crate::workload::{Check, Outcome};

/// Runs both checks; `loaded`: number of records with which each partition was loaded.
pub(super) fn run(loaded: Vec<u64>, tables: &YcsbTables, inspector: &mut impl Inspector) -> Vec<Check> {
    let mut expected = loaded;
    let mut partitions = 0;
    inspector.scan(tables.growth.primary(), &0, &u16::MAX, &mut |row: &Growth| {
        partitions += 1;
        if let Some(length) = expected.get_mut(usize::from(row.partition)) {
            *length += row.inserted;
        }
    });
    let mut seen = vec![0; expected.len()];
    let (mut strangers, mut damaged) = (0u64, 0u64);
    inspector.scan(tables.records.primary(), &0, &u64::MAX, &mut |row: &Record| {
        let home = usize::from(partition(row.id));
        match expected.get(home) {
            // Keys are unique, so the expected number of keys, all below that number, leaves no
            // gap.
            Some(length) if number(row.id) < *length => seen[home] += 1,
            _ => strangers += 1,
        }
        damaged += u64::from(!row.content.is_intact(row.id));
    });
    let (sum_seen, sum_expected) = (seen.iter().sum::<u64>(), expected.iter().sum::<u64>());
    let records = if partitions != expected.len() {
        Outcome::Violated(format!("{partitions} partitions where there were {}", expected.len()))
    } else if strangers > 0 {
        Outcome::Violated(format!("{strangers} records whose insertion did not commit"))
    } else if seen != expected {
        Outcome::Violated(format!("{sum_seen} records where {sum_expected} were inserted"))
    } else {
        Outcome::Ok
    };
    let fields = match damaged {
        0 => Outcome::Ok,
        count => Outcome::Violated(format!("{count} records with a field that was never written so")),
    };
    vec![Check { name: "ycsb_records", result: records }, Check { name: "ycsb_fields", result: fields }]
}
