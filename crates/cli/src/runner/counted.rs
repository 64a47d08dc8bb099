//! Counters that a platform keeps of itself.

use platform::Hardware;
use platform::files::Files;
use sim::VirtualMachine;

use crate::report::Counters;

/// A platform that a benchmark runs on.
pub(crate) trait Counted: Files {
    /// What came before is not part of the measurement.
    fn count_from_here(c: Self::Core);
    /// What was counted since.
    fn counters(c: Self::Core) -> Counters;
}

impl Counted for Hardware {
    fn count_from_here(_: Self::Core) {}

    fn counters(_: Self::Core) -> Counters {
        Counters::default()
    }
}

impl Counted for VirtualMachine {
    fn count_from_here(c: Self::Core) {
        VirtualMachine::count_from_here(c);
    }

    fn counters(c: Self::Core) -> Counters {
        let statistics = VirtualMachine::statistics(c);
        Counters {
            llc_misses: Some(statistics.counts.llc_misses()),
            interconnect_bytes: Some(statistics.interconnect_bytes),
            memory_bytes: Some(statistics.memory_bytes),
            ..Counters::default()
        }
    }
}
