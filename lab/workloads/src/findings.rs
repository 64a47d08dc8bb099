//! Results of consistency checks while they run.

use crate::workload::{Check, Outcome};

/// The first violation that each check has found.
pub(crate) struct Findings<const CHECKS: usize>([Option<String>; CHECKS]);

impl<const CHECKS: usize> Findings<CHECKS> {
    /// No violations.
    pub(crate) fn new() -> Self {
        Findings([const { None }; CHECKS])
    }

    /// Records a violation of a check unless the condition `holds`.
    pub(crate) fn expect(&mut self, check: usize, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0[check].get_or_insert_with(what);
        }
    }

    /// The results of the checks with these names.
    pub(crate) fn checks(self, names: [&'static str; CHECKS]) -> Vec<Check> {
        let outcome = |found: Option<String>| found.map_or(Outcome::Ok, Outcome::Violated);
        names.into_iter().zip(self.0).map(|(name, found)| Check { name, result: outcome(found) }).collect()
    }
}
