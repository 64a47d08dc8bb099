//! Moments from which an L3 can supply a line that is on its way to it, or that it is supplying
//! already.
//!
//! The tags of an L3 contain a line from its request on, so that later requests find that it is
//! coming. A line without an entry here has arrived. Entries of lines that have arrived are
//! dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arena::prefetch;
use crate::line::LineNumber;
use crate::recent::{EntryLimit, is_remembered};

/// Buckets of each group.
const BUCKETS: usize = 256;
/// Lines of a bucket. Each bucket is one line of the host's memory.
const LINES: usize = 4;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    from_ps: [u64; LINES],
    lines: [LineNumber; LINES],
    /// Until this moment some lines of this bucket are in [`Overflow`], for lack of room.
    overflow_until_ps: u64,
}

const _: () = assert!(size_of::<Bucket>() == 64);

pub(crate) struct Arrivals {
    /// By group, then by the lowest bits of the line's number.
    buckets: Vec<Bucket>,
    overflow: Overflow,
}

/// Lines for which their bucket had no room: if ports are saturated, up to the number of misses
/// that all cores may have.
struct Overflow {
    /// Lines and moments of each bucket, oldest first.
    lists: Vec<Vec<(LineNumber, u64)>>,
    /// The same entries as moments, buckets and lines, by moment.
    by_moment: BinaryHeap<Reverse<(u64, u32, LineNumber)>>,
    limit: EntryLimit,
}

impl Overflow {
    fn new(buckets: usize) -> Overflow {
        Overflow {
            lists: vec![Vec::new(); buckets],
            by_moment: BinaryHeap::new(),
            limit: EntryLimit::default(),
        }
    }

    #[cold]
    fn add(&mut self, bucket: usize, line: LineNumber, from_ps: u64, now_ps: u64) {
        if self.limit.is_full(self.by_moment.len()) {
            self.forget(now_ps);
        }
        self.lists[bucket].push((line, from_ps));
        self.by_moment.push(Reverse((from_ps, bucket as u32, line)));
    }

    fn forget(&mut self, now_ps: u64) {
        while let Some(&Reverse((from_ps, bucket, line))) = self.by_moment.peek()
            && !is_remembered(from_ps, now_ps)
        {
            self.by_moment.pop();
            let list = &mut self.lists[bucket as usize];
            if let Some(place) = list.iter().position(|entry| *entry == (line, from_ps)) {
                list.remove(place);
            }
        }
        self.limit.adjust(self.by_moment.len());
    }

    /// The latest moment of a line; 0 if it has no entry.
    #[cold]
    fn ready_ps(&self, bucket: usize, line: LineNumber) -> u64 {
        self.lists[bucket].iter().rev().find(|entry| entry.0 == line).map_or(0, |entry| entry.1)
    }
}

impl Arrivals {
    pub(crate) fn new(groups: usize) -> Arrivals {
        let empty = Bucket { from_ps: [0; LINES], lines: [0; LINES], overflow_until_ps: 0 };
        let buckets = groups * BUCKETS;
        Arrivals { buckets: vec![empty; buckets], overflow: Overflow::new(buckets) }
    }

    fn bucket(group: usize, line: LineNumber) -> usize {
        group * BUCKETS + line as usize % BUCKETS
    }

    /// Prefetches the host's data that a lookup of this line needs.
    #[inline(always)]
    pub(crate) fn announce(&self, group: usize, line: LineNumber) {
        prefetch(&raw const self.buckets[Self::bucket(group, line)]);
    }

    /// Moment from which the L3 of this group can supply a line. A moment in the past, or 0, means
    /// now.
    #[inline]
    pub(crate) fn ready_ps(&self, group: usize, line: LineNumber, now_ps: u64) -> u64 {
        let number = Self::bucket(group, line);
        let bucket = &self.buckets[number];
        if let Some(place) = bucket.lines.iter().position(|arriving| *arriving == line) {
            return bucket.from_ps[place];
        }
        if now_ps >= bucket.overflow_until_ps {
            return 0;
        }
        self.overflow.ready_ps(number, line)
    }

    /// Records that the L3 of this group can supply a line from this moment on.
    #[inline]
    pub(crate) fn set(&mut self, group: usize, line: LineNumber, from_ps: u64, now_ps: u64) {
        let number = Self::bucket(group, line);
        let bucket = &mut self.buckets[number];
        let known = bucket.lines.iter().position(|arriving| *arriving == line);
        let place = known.unwrap_or_else(|| {
            let mut first = 0;
            for place in 1..LINES {
                if bucket.from_ps[place] < bucket.from_ps[first] {
                    first = place;
                }
            }
            first
        });
        let (left, left_ps) = (bucket.lines[place], bucket.from_ps[place]);
        (bucket.lines[place], bucket.from_ps[place]) = (line, from_ps);
        if known.is_none() && is_remembered(left_ps, now_ps) && left != 0 {
            bucket.overflow_until_ps = bucket.overflow_until_ps.max(left_ps);
            self.overflow.add(number, left, left_ps, now_ps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn lines_are_known_until_they_have_arrived() {
        let mut arrivals = Arrivals::new(2);
        arrivals.set(1, 5, 1_000, 0);
        arrivals.set(1, 5 + 256, 2_000, 0);
        let known = |arrivals: &Arrivals| {
            [(1, 5), (1, 261), (0, 5)].map(|(group, line)| arrivals.ready_ps(group, line, 10))
        };
        assert_eq!(known(&arrivals), [1_000, 2_000, 0]);
        arrivals.set(1, 5, 3_000, 10);
        assert_eq!(known(&arrivals), [3_000, 2_000, 0]);
        // A bucket accepts any number of lines.
        (0..50).for_each(|rank| arrivals.set(1, 7 + 256 * rank, 5_000 + u64::from(rank), 10));
        for rank in 0..50 {
            assert_eq!(arrivals.ready_ps(1, 7 + 256 * rank, 100), 5_000 + u64::from(rank));
        }
        assert_eq!(arrivals.ready_ps(1, 7 + 256 * 50, 100), 0);
        for line in 1..1_000_000 {
            arrivals.set(0, 256 * line, u64::from(line) * 10_000, u64::from(line) * 10_000);
        }
        let overflow = &arrivals.overflow;
        assert!(overflow.by_moment.len() < 1_000, "what has arrived is forgotten");
        assert_eq!(overflow.lists.iter().map(Vec::len).sum::<usize>(), overflow.by_moment.len());
    }

    #[test]
    fn the_overflow_is_a_list_that_is_searched_from_its_end() {
        let random = Random::new(1);
        let mut overflow = Overflow::new(8);
        let mut list: Vec<(usize, LineNumber, u64)> = Vec::new();
        let (mut limit, mut found) = (EntryLimit::default(), 0);
        for step in 0..20_000 {
            // Some requests are far ahead of the others, whose lines they drop.
            let now_ps = step * 2_000 + random.below(2) * random.below(9_000_000);
            let (bucket, line) = (random.below(8) as usize, random.below(5) as LineNumber);
            let from_ps = now_ps + random.below(4_000_000);
            overflow.add(bucket, line, from_ps, now_ps);
            if limit.is_full(list.len()) {
                list.retain(|entry| is_remembered(entry.2, now_ps));
                limit.adjust(list.len());
            }
            list.push((bucket, line, from_ps));
            let (bucket, line) = (random.below(8) as usize, random.below(5) as LineNumber);
            let newest = list.iter().rev().find(|entry| (entry.0, entry.1) == (bucket, line));
            assert_eq!(overflow.ready_ps(bucket, line), newest.map_or(0, |entry| entry.2));
            found += u32::from(newest.is_some());
        }
        assert!((1..20_000).contains(&found) && list.len() > 100);
    }
}
