//! The choice of a transaction's rows.

use super::spec::{MicroSpec, Skew};
use crate::batch::{Batches, Grouping, key};
use crate::equal_instances::EqualInstances;
use crate::zipf::Zipf;
use terms::random::Random;

/// Draws of a row that is in one of several sites before any of the sites is taken.
const SITE_DRAWS_MAX: u32 = 1 << 12;
/// Redraws of one row before the next free row is chosen instead.
const REDRAWS_MAX: u32 = 32;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// The row.
    pub key: u64,
    /// True if the row is updated, false if it is read.
    pub update: bool,
}

/// The requests of a transaction.
pub struct Chosen {
    /// The requests.
    pub batches: Batches<Request>,
    /// Random values drawn for the requests.
    pub draws: u32,
}

/// A distribution over the rows `low..high`, numbered over all sites.
#[derive(Clone, Debug)]
enum Rows {
    Uniform {
        low: u64,
        high: u64,
    },
    Zipf(Zipf),
    /// Rows below `middle` are chosen with probability `share`.
    Hot {
        low: u64,
        middle: u64,
        high: u64,
        share: f64,
    },
}

impl Rows {
    fn new(skew: Skew, all: u64, low: u64, high: u64) -> Self {
        match skew {
            Skew::None => Rows::Uniform { low, high },
            Skew::Zipf(theta) => Rows::Zipf(Zipf::within(low, high, theta)),
            Skew::Hot { requests, data } => {
                let hot = ((all as f64 * data).round() as u64).clamp(1, all);
                let middle = hot.clamp(low, high);
                // The share of each part in the interval, times the popularity of that part.
                let above = if hot == all { 0.0 } else { (1.0 - requests) / (all - hot) as f64 };
                let weight_hot = (middle - low) as f64 * requests / hot as f64;
                let weight_cold = (high - middle) as f64 * above;
                let share = match (middle - low, weight_hot + weight_cold) {
                    (0, _) => 0.0,
                    // No row of the interval is ever requested: a local transaction of this site
                    // takes any row.
                    (rows, 0.0) => rows as f64 / (high - low) as f64,
                    (_, total) => weight_hot / total,
                };
                Rows::Hot { low, middle, high, share }
            }
        }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Rows::Uniform { low, high } => low + random.below(high - low),
            Rows::Zipf(zipf) => zipf.draw(random),
            Rows::Hot { low, middle, high, share } => {
                let is_hot = middle == high || random.unit() < *share;
                if is_hot && low < middle {
                    low + random.below(middle - low)
                } else {
                    middle + random.below(high - middle)
                }
            }
        }
    }
}

/// The distributions from which rows are chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    rows_per_site: u64,
    rows_per_part: u64,
    parts_per_site: u16,
    grouping: Grouping,
    /// True if rows are not skewed: a transaction starts at its worker's site.
    is_even: bool,
    other_instances: Option<EqualInstances>,
    everywhere: Rows,
    of_site: Vec<Rows>,
}

/// The requests of one transaction under construction.
struct Picking {
    chosen: Chosen,
    updates_left: u32,
}

impl Choice {
    pub(super) fn new(spec: &MicroSpec) -> Self {
        let all = spec.rows_per_site * u64::from(spec.sites);
        let of_site = (0..u64::from(spec.sites)).map(|site| {
            let low = site * spec.rows_per_site;
            Rows::new(spec.skew, all, low, low + spec.rows_per_site)
        });
        Choice {
            rows_per_site: spec.rows_per_site,
            rows_per_part: spec.rows_per_part(),
            parts_per_site: spec.parts_per_site,
            grouping: spec.grouping,
            is_even: spec.skew == Skew::None,
            other_instances: spec.other_instances,
            everywhere: Rows::new(spec.skew, all, 0, all),
            of_site: of_site.collect(),
        }
    }

    /// Chooses one of several sites, by the popularity of their rows.
    pub(super) fn home(&self, sites: &[usize], random: &mut Random) -> usize {
        if !self.is_even && sites.len() > 1 {
            for _ in 0..SITE_DRAWS_MAX {
                let site = (self.everywhere.draw(random) / self.rows_per_site) as usize;
                if sites.contains(&site) {
                    return site;
                }
            }
        }
        sites[random.below(sites.len() as u64) as usize]
    }

    /// Chooses the rows of one transaction: `count` distinct ones, of which the first `updates` are
    /// updated. The first row is of site `home` if it has to be, or if rows are not skewed.
    #[inline]
    pub(super) fn rows(
        &self,
        home: u16,
        starts_at_home: bool,
        multisite: bool,
        count: u32,
        updates: u32,
        random: &mut Random,
    ) -> Chosen {
        let chosen = Chosen { batches: Batches::new(), draws: count + 1 };
        let mut picking = Picking { chosen, updates_left: updates };
        let at_home = starts_at_home || self.is_even;
        let first = if at_home { &self.of_site[usize::from(home)] } else { &self.everywhere };
        let site = self.pick(first, random, &mut picking);
        let others = if multisite { &self.everywhere } else { &self.of_site[usize::from(site)] };
        for _ in 1..count {
            let others = match self.other_instances {
                Some(instances) if multisite => {
                    let sites = self.of_site.len() as u64;
                    &self.of_site[instances.part_of_another(random, u64::from(site), sites) as usize]
                }
                _ => others,
            };
            self.pick(others, random, &mut picking);
        }
        picking.chosen
    }

    /// Adds a row that the transaction does not have yet, and returns its site.
    #[inline]
    fn pick(&self, rows: &Rows, random: &mut Random, picking: &mut Picking) -> u16 {
        let mut request = self.request(rows.draw(random), picking);
        let mut redraws = 0;
        while picking.has(request.key) {
            redraws += 1;
            let row = if redraws <= REDRAWS_MAX { rows.draw(random) } else { self.after(request.key) };
            request = self.request(row, picking);
        }
        picking.chosen.draws += redraws;
        picking.chosen.batches.push(self.grouping, crate::batch::partition(request.key), request);
        picking.updates_left = picking.updates_left.saturating_sub(1);
        self.site(request.key)
    }

    /// The site of a row.
    #[inline]
    pub(super) fn site(&self, key: u64) -> u16 {
        crate::batch::partition(key) / self.parts_per_site
    }

    #[inline]
    fn request(&self, row: u64, picking: &Picking) -> Request {
        let (part, number) = (row / self.rows_per_part, row % self.rows_per_part);
        Request { key: key(part as u16, number), update: picking.updates_left > 0 }
    }

    /// The next row of the same site.
    fn after(&self, key: u64) -> u64 {
        let row = u64::from(crate::batch::partition(key)) * self.rows_per_part + crate::batch::number(key);
        let first = row - row % self.rows_per_site;
        first + (row + 1) % self.rows_per_site
    }
}

impl Picking {
    #[inline]
    fn has(&self, key: u64) -> bool {
        self.chosen.batches.requests().any(|request| request.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{number, partition};

    fn choice(skew: Skew, sites: u16, rows_per_site: u64) -> Choice {
        Choice::new(&MicroSpec { skew, sites, rows_per_site, ..MicroSpec::default() })
    }

    fn keys(choice: &Choice, multisite: bool, count: u32, random: &mut Random) -> Vec<u64> {
        let chosen = choice.rows(2, false, multisite, count, 0, random);
        chosen.batches.requests().map(|request| request.key).collect()
    }

    #[test]
    fn rows_are_distinct_and_local() {
        let mut random = Random::new(1, 0);
        for skew in [Skew::None, Skew::Zipf(1.0), Skew::Hot { requests: 0.9, data: 0.05 }] {
            let choice = choice(skew, 4, 30);
            for count in [1, 2, 17, 30] {
                let mut keys = keys(&choice, false, count, &mut random);
                assert!(keys.iter().all(|key| partition(*key) == partition(keys[0]) && number(*key) < 30));
                assert!(skew != Skew::None || partition(keys[0]) == 2);
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), count as usize);
            }
        }
    }

    #[test]
    fn a_site_has_parts() {
        let spec = MicroSpec { sites: 3, rows_per_site: 30, parts_per_site: 10, ..MicroSpec::default() };
        let choice = Choice::new(&spec);
        let keys = keys(&choice, false, 30, &mut Random::new(1, 0));
        let mut parts: Vec<u16> = keys.iter().map(|key| partition(*key)).collect();
        assert!(keys.iter().all(|key| number(*key) < 3 && choice.site(*key) == 2));
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts, Vec::from_iter(20..30));
    }

    #[test]
    fn multisite_rows_come_from_all_sites() {
        let choice = choice(Skew::None, 4, 1000);
        let mut random = Random::new(2, 0);
        let mut sites = [0; 4];
        for _ in 0..1000 {
            let keys = keys(&choice, true, 5, &mut random);
            assert_eq!(keys.iter().filter(|key| partition(**key) == 2).count().min(1), 1);
            keys.iter().for_each(|key| sites[usize::from(partition(*key))] += 1);
        }
        // One of five rows at home, and a quarter of the others.
        assert!((1900..2100).contains(&sites[2]), "{sites:?}");
        assert!((900..1100).contains(&sites[0]), "{sites:?}");
    }

    #[test]
    fn other_rows_can_all_be_in_other_instances() {
        let other_instances = Some(EqualInstances { workers: 4, size: 2 });
        let spec = MicroSpec { sites: 4, rows_per_site: 1000, other_instances, ..MicroSpec::default() };
        let (choice, mut random) = (Choice::new(&spec), Random::new(7, 0));
        for _ in 0..100 {
            let sites: Vec<u16> = keys(&choice, true, 5, &mut random).into_iter().map(partition).collect();
            assert!(sites[0] == 2 && sites[1..].iter().all(|site| *site < 2), "{sites:?}");
            assert!(keys(&choice, false, 5, &mut random).into_iter().all(|key| partition(key) == 2));
        }
    }

    #[test]
    fn hot_rows_get_their_share() {
        let choice = choice(Skew::Hot { requests: 0.5, data: 0.2 }, 5, 100);
        let mut random = Random::new(3, 0);
        let mut sites = [0; 5];
        for _ in 0..10_000 {
            sites[usize::from(partition(keys(&choice, false, 1, &mut random)[0]))] += 1;
        }
        assert!((4800..5200).contains(&sites[0]), "{sites:?}");
        assert!((1100..1400).contains(&sites[4]), "{sites:?}");
    }

    #[test]
    fn all_requests_may_go_to_the_hot_rows() {
        let choice = choice(Skew::Hot { requests: 1.0, data: 0.5 }, 2, 10);
        let mut random = Random::new(4, 0);
        for _ in 0..100 {
            assert!(keys(&choice, true, 4, &mut random).iter().all(|key| partition(*key) == 0));
        }
    }

    #[test]
    fn requests_for_some_sites_are_as_skewed_as_their_rows() {
        let choice = choice(Skew::Hot { requests: 0.8, data: 0.25 }, 4, 100);
        let mut random = Random::new(6, 0);
        let mut homes = [0; 4];
        (0..10_000).for_each(|_| homes[choice.home(&[0, 3], &mut random)] += 1);
        // Site 0 has four fifths of the requests, each other one a third of the rest.
        assert!((9_100..9_400).contains(&homes[0]), "{homes:?}");
        assert_eq!(homes[0] + homes[3], 10_000);
        assert_eq!(choice.home(&[2], &mut random), 2);
        let chosen = choice.rows(2, true, false, 4, 0, &mut random);
        assert!(chosen.batches.requests().all(|request| partition(request.key) == 2));
    }

    #[test]
    fn the_first_rows_are_updated() {
        let choice = choice(Skew::None, 4, 1000);
        let chosen = choice.rows(1, false, true, 6, 1, &mut Random::new(5, 0));
        let updated: Vec<_> = chosen.batches.requests().filter(|request| request.update).collect();
        assert_eq!(updated.len(), 1);
        assert_eq!(partition(updated[0].key), 1);
    }
}
