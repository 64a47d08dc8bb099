//! From when on the L3s can hand on the lines that are on their way to them, or that they are handing on.
//!
//! The tags of an L3 have a line from the request on, so that later requests find out that it is coming; what is not here is
//! there already. Lines that have arrived are forgotten.

use crate::line::LineNumber;

/// What has passed is remembered so long: lines of one touch are asked for ahead of the core's clock.
const REMEMBERED_PS: u64 = 1_000_000;
const BUCKETS: usize = 64;

pub(crate) struct Arrivals {
    /// By group, and by the lowest bits of the line.
    buckets: Vec<Vec<(LineNumber, u64)>>,
    /// Of each group the latest moment.
    latest_ps: Vec<u64>,
}

impl Arrivals {
    pub(crate) fn new(groups: usize) -> Arrivals {
        Arrivals { buckets: vec![Vec::new(); groups * BUCKETS], latest_ps: vec![0; groups] }
    }

    /// From when on the L3 of this group can hand on a line; 0 if it could before.
    #[inline]
    pub(crate) fn ready_ps(&self, group: usize, line: LineNumber, now_ps: u64) -> u64 {
        if now_ps >= self.latest_ps[group] {
            return 0;
        }
        let bucket = &self.buckets[group * BUCKETS + line as usize % BUCKETS];
        bucket.iter().find(|(arriving, _)| *arriving == line).map_or(0, |(_, from_ps)| *from_ps)
    }

    /// The L3 of this group can hand on a line from this moment on.
    pub(crate) fn set(&mut self, group: usize, line: LineNumber, from_ps: u64, now_ps: u64) {
        self.latest_ps[group] = self.latest_ps[group].max(from_ps);
        let bucket = &mut self.buckets[group * BUCKETS + line as usize % BUCKETS];
        if let Some((_, known_ps)) = bucket.iter_mut().find(|(arriving, _)| *arriving == line) {
            *known_ps = from_ps;
            return;
        }
        if bucket.len() == bucket.capacity() {
            bucket.retain(|(_, from_ps)| from_ps + REMEMBERED_PS > now_ps);
        }
        bucket.push((line, from_ps));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_until_they_have_arrived() {
        let mut arrivals = Arrivals::new(2);
        arrivals.set(1, 5, 1_000, 0);
        arrivals.set(1, 5 + 64, 2_000, 0);
        let known = |arrivals: &Arrivals| {
            [(1, 5), (1, 69), (0, 5)].map(|(group, line)| arrivals.ready_ps(group, line, 10))
        };
        assert_eq!(known(&arrivals), [1_000, 2_000, 0]);
        arrivals.set(1, 5, 3_000, 10);
        assert_eq!(known(&arrivals), [3_000, 2_000, 0]);
        assert_eq!(arrivals.ready_ps(1, 5, 3_000), 0);
        for line in 0..1_000_000 {
            arrivals.set(0, line, u64::from(line) * 1000, u64::from(line) * 1000);
        }
        assert!(
            arrivals.buckets.iter().all(|bucket| bucket.capacity() < 100),
            "what has arrived is forgotten"
        );
    }
}
