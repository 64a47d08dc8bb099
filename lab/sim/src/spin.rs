//! Moments at which a spinning core reads its word again.

/// A spin loop: it reads the word, pauses, and from time to time yields the processor to the
/// operating system.
#[derive(Clone, Copy)]
pub(crate) struct SpinLoop {
    /// Time from one read to the next.
    pub(crate) turn_ps: u64,
    /// Turns before the processor is yielded.
    pub(crate) turns: u64,
    /// Time of a yield.
    pub(crate) yield_ps: u64,
}

impl SpinLoop {
    /// First read at or after `from_ps` of a loop that read the word at `since_ps` without success.
    pub(crate) fn next_read_ps(&self, since_ps: u64, from_ps: u64) -> u64 {
        let round_ps = self.turns * self.turn_ps + self.yield_ps;
        let spun_ps = from_ps.saturating_sub(since_ps);
        let rounds_ps = spun_ps / round_ps * round_ps;
        // Not before the end of the first turn; after the last turn of a round the processor is
        // yielded.
        let turns = (spun_ps - rounds_ps).div_ceil(self.turn_ps).max(u64::from(rounds_ps == 0));
        let within_ps = if turns > self.turns - 1 { round_ps } else { turns * self.turn_ps };
        since_ps + rounds_ps + within_ps
    }

    /// First yield after `from_ps` of a loop that began at `since_ps`.
    pub(crate) fn next_yield_ps(&self, since_ps: u64, from_ps: u64) -> u64 {
        let round_ps = self.turns * self.turn_ps + self.yield_ps;
        let rounds = from_ps.saturating_sub(since_ps) / round_ps + 1;
        since_ps + rounds * round_ps
    }

    /// Turns in this time, and yields of the processor.
    pub(crate) fn turns(&self, spun_ps: u64) -> (u64, u64) {
        let round_ps = self.turns * self.turn_ps + self.yield_ps;
        let (yields, rest_ps) = (spun_ps / round_ps, spun_ps % round_ps);
        (yields * self.turns + (rest_ps / self.turn_ps).min(self.turns), yields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_reads_once_a_turn_and_not_while_the_processor_is_yielded() {
        let spin = SpinLoop { turn_ps: 10, turns: 4, yield_ps: 100 };
        let reads = |from: u64| spin.next_read_ps(1_000, from);
        assert_eq!(
            [990, 1_000, 1_001, 1_010, 1_011, 1_030].map(reads),
            [1_010, 1_010, 1_010, 1_010, 1_020, 1_030]
        );
        // The fourth turn ends with the yield.
        assert_eq!(
            [1_031, 1_100, 1_140, 1_141, 1_170, 1_171].map(reads),
            [1_140, 1_140, 1_140, 1_150, 1_170, 1_280]
        );
    }
}
