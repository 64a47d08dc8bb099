//! The cores that draw the transactions that act on a sub-partition.
//!
//! Not of the paper, whose clients send each transaction to the socket of its data. Here a
//! transaction begins at the worker that has drawn it, which asks the owners of what belongs to
//! others and waits for them: no balance mends that, but a map in which keys belong to those that
//! draw them does.

use serde::{Deserialize, Serialize};

use crate::cores::Core;

/// Cores of a sub-partition that are told apart.
const DRAWERS_MAX: usize = 8;
/// A core that draws less than this multiple of what each of the others draws is one of them.
const OFTEN: f64 = 2.0;
/// So many deviations of what chance would give the others are needed besides.
const CHANCE: f64 = 4.0;

/// Whose transactions have acted on a sub-partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// Actions of all transactions.
    pub all: f64,
    /// Cores whose transactions act much more often than those of the others, with their actions.
    pub often: Vec<(Core, f64)>,
    /// Actions of each of the others, on average.
    pub others: f64,
}

impl Drawn {
    /// The draws of these actions of each core's transactions.
    pub(crate) fn of(mut counts: Vec<(Core, f64)>) -> Self {
        counts.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let all: f64 = counts.iter().map(|(_, count)| count).sum();
        let (mut often, mut left) = (0, all);
        let mean = |often: usize, left: f64| left / (counts.len() - often).max(1) as f64;
        while often < counts.len().min(DRAWERS_MAX) {
            let count = counts[often].1;
            let others = mean(often + 1, left - count);
            if count <= OFTEN * others + CHANCE * others.max(1.0).sqrt() {
                break;
            }
            (often, left) = (often + 1, left - count);
        }
        let others = mean(often, left).max(0.0);
        counts.truncate(often);
        Drawn { all, often: counts, others }
    }

    /// Actions of transactions that other cores draw than this one.
    pub(crate) fn elsewhere(&self, owner: Core) -> f64 {
        let here =
            self.often.iter().find(|(core, _)| *core == owner).map_or(self.others, |(_, count)| *count);
        (self.all - here).max(0.0)
    }
}

/// Whose transactions have acted on what, in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draws {
    /// Nanoseconds that the core of a transaction waits for an action on a partition of another
    /// owner.
    pub ask_nanos: f64,
    /// By sub-partition; empty if nobody knows.
    pub by_sub: Vec<Drawn>,
}

impl Draws {
    /// The waiting of the cores that draw transactions, if this core owns the sub-partition.
    pub fn asking(&self, sub: usize, owner: Core) -> f64 {
        self.by_sub.get(sub).map_or(0.0, |drawn| self.ask_nanos * drawn.elsewhere(owner))
    }

    /// The least possible waiting, over all owners of each sub-partition.
    pub(crate) fn asking_least(&self) -> f64 {
        let least = |drawn: &Drawn| drawn.all - drawn.often.first().map_or(drawn.others, |(_, count)| *count);
        self.ask_nanos * self.by_sub.iter().map(least).sum::<f64>()
    }

    /// The waiting saved if a core that draws transactions on the sub-partition much more often
    /// than others owns it.
    pub(crate) fn saved(&self, sub: usize) -> impl Iterator<Item = (Core, f64)> {
        let often =
            |drawn: &Drawn, (core, count): &(Core, f64)| (*core, self.ask_nanos * (count - drawn.others));
        let drawn = self.by_sub.get(sub);
        drawn.into_iter().flat_map(move |drawn| drawn.often.iter().map(move |one| often(drawn, one)))
    }

    /// Cores that draw transactions on the sub-partition much more often than others.
    pub(crate) fn often(&self, sub: usize) -> impl Iterator<Item = Core> {
        self.by_sub.get(sub).into_iter().flat_map(|drawn| drawn.often.iter().map(|(core, _)| *core))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(counts: &[u32]) -> Drawn {
        let of_core = |(core, count): (usize, &u32)| (Core(core as u16), f64::from(*count));
        Drawn::of(counts.iter().enumerate().map(of_core).collect())
    }

    #[test]
    fn who_draws_much_more_often_is_told_apart() {
        let home = drawn(&[100, 1000, 90, 110]);
        assert_eq!((home.all, &home.often[..], home.others), (1300.0, &[(Core(1), 1000.0)][..], 100.0));
        assert_eq!([0, 1, 2].map(|core| home.elsewhere(Core(core))), [1200.0, 300.0, 1200.0]);
        // All of it, and nobody else anything.
        let alone = drawn(&[0, 500]);
        assert_eq!([0, 1].map(|core| alone.elsewhere(Core(core))), [500.0, 0.0]);
        assert_eq!(drawn(&[7]).elsewhere(Core(0)), 0.0);
        // Two of four.
        let two = drawn(&[400, 4, 0, 900]);
        assert_eq!((two.often, two.others), (vec![(Core(3), 900.0), (Core(0), 400.0)], 2.0));
    }

    /// A difference by chance is no reason to prefer a core.
    #[test]
    fn chance_prefers_nobody() {
        for counts in [[10, 12, 8, 21].as_slice(), &[600, 400], &[3, 0, 0, 0], &[0, 0], &[]] {
            let drawn = drawn(counts);
            assert_eq!(drawn.often, [], "{counts:?}");
            let first = drawn.elsewhere(Core(0));
            assert!((0..4).all(|core| drawn.elsewhere(Core(core)) == first), "{counts:?}");
        }
    }
}
