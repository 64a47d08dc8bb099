//! When a core that spins looks at its word again.

/// A loop that spins: looks, and pauses, and now and then offers the processor to the operating
/// system.
#[derive(Clone, Copy)]
pub(crate) struct SpinLoop {
    /// From one look to the next.
    pub(crate) turn_ps: u64,
    /// Turns before the processor is offered.
    pub(crate) turns: u64,
    /// What offering it takes.
    pub(crate) yield_ps: u64,
}

impl SpinLoop {
    /// When a loop that looked at `since_ps` and found nothing looks first at `from_ps` or later.
    pub(crate) fn next_look_ps(&self, since_ps: u64, from_ps: u64) -> u64 {
        let round_ps = self.turns * self.turn_ps + self.yield_ps;
        let spun_ps = from_ps.saturating_sub(since_ps);
        let rounds_ps = spun_ps / round_ps * round_ps;
        // Never before the first turn is over; after the last turn of a round the processor is
        // offered.
        let turns = (spun_ps - rounds_ps).div_ceil(self.turn_ps).max(u64::from(rounds_ps == 0));
        let within_ps = if turns > self.turns - 1 { round_ps } else { turns * self.turn_ps };
        since_ps + rounds_ps + within_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_looks_once_a_turn_and_not_while_it_has_given_the_processor_away() {
        let spin = SpinLoop { turn_ps: 10, turns: 4, yield_ps: 100 };
        let looks = |from: u64| spin.next_look_ps(1_000, from);
        assert_eq!(
            [990, 1_000, 1_001, 1_010, 1_011, 1_030].map(looks),
            [1_010, 1_010, 1_010, 1_010, 1_020, 1_030]
        );
        // The fourth turn ends with the offer.
        assert_eq!(
            [1_031, 1_100, 1_140, 1_141, 1_170, 1_171].map(looks),
            [1_140, 1_140, 1_140, 1_150, 1_170, 1_280]
        );
    }
}
