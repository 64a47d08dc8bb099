//! Violations of the conditions.

use crate::workload::Outcome;

/// For each condition the first violation, and the number of violations.
#[derive(Default)]
pub(super) struct Findings {
    first: [Option<String>; 12],
    count: [u64; 12],
}

impl Findings {
    /// Records a violation of condition 3.3.2.`condition` unless `holds`.
    pub(super) fn expect(&mut self, condition: usize, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.count[condition - 1] += 1;
            self.first[condition - 1].get_or_insert_with(message);
        }
    }

    pub(super) fn outcome(&self, condition: usize) -> Outcome {
        match (&self.first[condition - 1], self.count[condition - 1]) {
            (None, _) => Outcome::Ok,
            (Some(message), 1) => Outcome::Violated(message.clone()),
            (Some(message), count) => Outcome::Violated(format!("{message} (and {} more)", count - 1)),
        }
    }
}
