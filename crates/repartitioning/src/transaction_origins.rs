//! Origins of transactions: the cores that draw the transactions which access a sub-partition.
//!
//! This part is not in the paper, whose clients send each transaction to the socket of its data.
//! Here a transaction begins at the worker that has drawn it. The worker requests actions on the
//! keys of other owners and waits for them. Balance does not reduce these waits, but a map in which
//! keys belong to the cores that draw them does.

use serde::{Deserialize, Serialize};

use crate::cores::Core;

/// Most cores of a sub-partition that are counted separately.
const DRAWERS_MAX: usize = 8;
/// A core is counted separately if it draws at least this multiple of the mean of the others.
const OFTEN: f64 = 2.0;
/// Standard deviations by which it has to exceed the others, so that chance does not count.
const CHANCE: f64 = 4.0;

/// Origins of the transactions that accessed a sub-partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// Actions of all transactions.
    pub all: f64,
    /// Cores whose transactions act much more often than those of the others, with their actions.
    pub often: Vec<(Core, f64)>,
    /// Mean actions of each other core.
    pub others: f64,
}

impl Drawn {
    /// Summarizes the numbers of actions of each core's transactions.
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

    /// Returns the actions of transactions that cores other than `owner` draw.
    pub(crate) fn elsewhere(&self, owner: Core) -> f64 {
        let here =
            self.often.iter().find(|(core, _)| *core == owner).map_or(self.others, |(_, count)| *count);
        (self.all - here).max(0.0)
    }
}

/// Origins of all transactions of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draws {
    /// Nanoseconds that a core waits for an action of its transaction which another core executes.
    pub ask_nanos: f64,
    /// Origins for each sub-partition; empty if unknown.
    pub by_sub: Vec<Drawn>,
}

impl Draws {
    /// Returns the waits of all cores if this core owns the sub-partition.
    pub fn asking(&self, sub: usize, owner: Core) -> f64 {
        self.by_sub.get(sub).map_or(0.0, |drawn| self.ask_nanos * drawn.elsewhere(owner))
    }

    /// Returns the least possible waits: with the best owner of each sub-partition.
    pub(crate) fn asking_least(&self) -> f64 {
        let least = |drawn: &Drawn| drawn.all - drawn.often.first().map_or(drawn.others, |(_, count)| *count);
        self.ask_nanos * self.by_sub.iter().map(least).sum::<f64>()
    }

    /// Returns the cores that draw transactions on the sub-partition much more often than others,
    /// with the waits saved if they own it instead of another core.
    pub(crate) fn saved(&self, sub: usize) -> impl Iterator<Item = (Core, f64)> {
        let often =
            |drawn: &Drawn, (core, count): &(Core, f64)| (*core, self.ask_nanos * (count - drawn.others));
        let drawn = self.by_sub.get(sub);
        drawn.into_iter().flat_map(move |drawn| drawn.often.iter().map(move |one| often(drawn, one)))
    }

    /// Returns the cores that draw transactions on the sub-partition much more often than others.
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
    fn frequent_drawers_are_counted_separately() {
        let home = drawn(&[100, 1000, 90, 110]);
        assert_eq!((home.all, &home.often[..], home.others), (1300.0, &[(Core(1), 1000.0)][..], 100.0));
        assert_eq!([0, 1, 2].map(|core| home.elsewhere(Core(core))), [1200.0, 300.0, 1200.0]);
        // One core draws everything.
        let alone = drawn(&[0, 500]);
        assert_eq!([0, 1].map(|core| alone.elsewhere(Core(core))), [500.0, 0.0]);
        assert_eq!(drawn(&[7]).elsewhere(Core(0)), 0.0);
        // Two of four.
        let two = drawn(&[400, 4, 0, 900]);
        assert_eq!((two.often, two.others), (vec![(Core(3), 900.0), (Core(0), 400.0)], 2.0));
    }

    /// Differences within chance do not make a core preferred.
    #[test]
    fn chance_prefers_no_core() {
        for counts in [[10, 12, 8, 21].as_slice(), &[600, 400], &[3, 0, 0, 0], &[0, 0], &[]] {
            let drawn = drawn(counts);
            assert_eq!(drawn.often, [], "{counts:?}");
            let first = drawn.elsewhere(Core(0));
            assert!((0..4).all(|core| drawn.elsewhere(Core(core)) == first), "{counts:?}");
        }
    }
}
