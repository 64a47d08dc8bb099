//! What checks find.

use crate::workload::{Check, Outcome};

/// The first thing that is wrong, by check.
pub(crate) struct Findings<const CHECKS: usize>([Option<String>; CHECKS]);

impl<const CHECKS: usize> Findings<CHECKS> {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Findings([const { None }; CHECKS])
    }

    /// Records that something is wrong, unless it `holds`.
    pub(crate) fn expect(&mut self, check: usize, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0[check].get_or_insert_with(what);
        }
    }

    /// What the checks of these names have found.
    pub(crate) fn checks(self, names: [&'static str; CHECKS]) -> Vec<Check> {
        let outcome = |found: Option<String>| found.map_or(Outcome::Ok, Outcome::Violated);
        names.into_iter().zip(self.0).map(|(name, found)| Check { name, result: outcome(found) }).collect()
    }
}
