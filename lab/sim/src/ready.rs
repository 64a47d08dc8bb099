//! Queue of ready fibers: a calendar of the fibers' keys.
//!
//! The next few fibers are in a short sorted array, the front. Behind the front comes a ring of
//! buckets: each is an unordered list of fibers whose clocks are in the same small span. Fibers
//! beyond the ring are in one more list. When the front runs short, the first bucket that is not
//! empty is sorted into it. So a fiber goes to sleep and wakes up in constant time, and the run
//! loop can see the fibers after the next one ([`ReadyQueue::ahead`]).
//!
//! A sleeping fiber has the key of its deadline, or [`NEVER`]: then it is in no list. A fiber
//! leaves its list when it gets another key, so there are no stale entries.

use platform::Nanos;

/// A moment on the machine's clock.
pub(crate) fn picoseconds(moment: Nanos) -> u64 {
    moment.0.saturating_mul(1000)
}

/// Key of a fiber that waits for another fiber to wake it.
pub(crate) const NEVER: u128 = u128::MAX;

/// Packs (clock, priority, fiber): the smallest runs.
#[inline(always)]
pub(crate) fn key(clock: u64, order: u64) -> u128 {
    (u128::from(clock) << 64) | u128::from(order)
}

/// Packs the part of the key that decides between equal clocks.
#[inline(always)]
pub(crate) fn order(priority: u32, fiber: u32) -> u64 {
    (u64::from(priority) << 32) | u64::from(fiber)
}

/// Fiber of a key.
#[inline(always)]
pub(crate) fn fiber_of(key: u128) -> u32 {
    key as u32
}

/// Clock of a key.
#[inline(always)]
pub(crate) fn clock_of(key: u128) -> u64 {
    (key >> 64) as u64
}

/// Capacity of the front.
const FRONT: usize = 32;
/// The front is refilled when it has fewer fibers than this.
const FRONT_LOW: usize = 10;
/// Buckets of the ring.
const BUCKETS: u64 = 4096;
const BUCKETS_PER_WORD: u64 = u64::BITS as u64;
/// log2 of the span of a bucket in picoseconds at first, and its bounds.
const SPAN_SHIFT: u32 = 12;
const SPAN_SHIFTS: std::ops::RangeInclusive<u32> = 4..=30;
/// After this many buckets the span is doubled or halved if they held fewer or more fibers than
/// these on average.
const BUCKETS_SAMPLED: u32 = 1024;
const HELD_MIN: u32 = 3;
const HELD_MAX: u32 = 14;

/// No fiber.
const NO_FIBER: u32 = u32::MAX;

/// The list that a fiber is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    Nowhere,
    Front,
    /// The bucket in this slot of the ring.
    Bucket(u16),
    Late,
}

/// A fiber in its list.
#[derive(Clone, Copy)]
struct Entry {
    key: u128,
    next: u32,
    previous: u32,
    list: List,
}

/// Keys of all fibers that do not run.
pub(crate) struct ReadyQueue {
    /// Ascending, from `first` on, `count` of them; the array has spare room on both sides.
    front: [u128; 2 * FRONT],
    first: usize,
    count: usize,
    /// Smaller keys are in the front, all others behind it.
    horizon: u128,
    /// First fiber of each bucket of the ring.
    heads: Vec<u32>,
    /// One bit for each bucket that is not empty.
    occupied: Vec<u64>,
    /// Number of the first bucket of the ring: no key behind the front lies in an earlier one.
    floor: u64,
    /// First of the fibers beyond the ring, and the number of the earliest bucket that any of them
    /// may belong to.
    late: u32,
    late_from: u64,
    /// log2 of the span of a bucket.
    shift: u32,
    /// By fiber.
    entries: Vec<Entry>,
    /// Scratch memory for the sorting of a bucket.
    scratch: Vec<u128>,
    /// Buckets sorted since the last adjustment of the span, and the fibers in them.
    sampled: (u32, u32),
}

impl ReadyQueue {
    pub(crate) fn new() -> ReadyQueue {
        ReadyQueue {
            front: [NEVER; 2 * FRONT],
            first: 0,
            count: 0,
            horizon: 0,
            heads: vec![NO_FIBER; BUCKETS as usize],
            occupied: vec![0; (BUCKETS / BUCKETS_PER_WORD) as usize],
            floor: 0,
            late: NO_FIBER,
            late_from: u64::MAX,
            shift: SPAN_SHIFT,
            entries: Vec::new(),
            scratch: Vec::new(),
            sampled: (0, 0),
        }
    }

    /// Sets the key of a fiber.
    #[inline]
    pub(crate) fn set(&mut self, fiber: u32, key: u128) {
        if fiber as usize >= self.entries.len() {
            self.grow(fiber);
        }
        match self.entries[fiber as usize].list {
            List::Nowhere => {}
            List::Front => self.leave_front(fiber),
            _ => self.unlink(fiber),
        }
        if key == NEVER {
            self.entries[fiber as usize].list = List::Nowhere;
        } else if key < self.horizon {
            self.enter_front(key);
        } else {
            self.link(key);
        }
        if self.count < FRONT_LOW {
            self.refill();
        }
    }

    /// The smallest key.
    #[inline(always)]
    pub(crate) fn first(&self) -> u128 {
        if self.count == 0 { NEVER } else { self.front[self.first] }
    }

    /// Removes the fiber with the smallest key, which exists.
    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.count > 0);
        let key = self.front[self.first];
        self.entries[fiber_of(key) as usize].list = List::Nowhere;
        self.first += 1;
        self.count -= 1;
        self.floor = self.floor.max(self.bucket(key));
        if self.count < FRONT_LOW {
            self.refill();
        }
    }

    /// The fiber `places` positions after the first one, if the front has it.
    #[inline(always)]
    pub(crate) fn ahead(&self, places: usize) -> Option<u32> {
        (places < self.count).then(|| fiber_of(self.front[self.first + places]))
    }

    /// True if at most `places` fibers come before a key that was set.
    #[inline(always)]
    pub(crate) fn is_ahead(&self, key: u128, places: usize) -> bool {
        self.count <= places || key <= self.front[self.first + places]
    }

    /// Number of the bucket of a key in an unbounded ring.
    #[inline(always)]
    fn bucket(&self, key: u128) -> u64 {
        clock_of(key) >> self.shift
    }

    /// Inserts a key into the front, and moves the last key of a full front behind it.
    fn enter_front(&mut self, key: u128) {
        if self.count == FRONT {
            let last = self.front[self.first + FRONT - 1];
            self.count -= 1;
            self.horizon = last;
            self.link(last);
            if key > last {
                return self.link(key);
            }
        }
        if self.first + self.count == self.front.len() {
            self.front.copy_within(self.first.., 0);
            self.first = 0;
        }
        let mut place = self.first + self.count;
        while place > self.first && self.front[place - 1] > key {
            self.front[place] = self.front[place - 1];
            place -= 1;
        }
        self.front[place] = key;
        self.count += 1;
        let entry = &mut self.entries[fiber_of(key) as usize];
        (entry.key, entry.list) = (key, List::Front);
    }

    #[cold]
    fn leave_front(&mut self, fiber: u32) {
        let keys = self.first..self.first + self.count;
        let place = self.front[keys.clone()].iter().position(|key| fiber_of(*key) == fiber);
        if let Some(place) = place {
            self.front.copy_within(self.first + place + 1..keys.end, self.first + place);
            self.count -= 1;
        }
    }

    /// Inserts a key into its bucket, or into the list of late fibers.
    fn link(&mut self, key: u128) {
        let bucket = self.bucket(key).max(self.floor);
        let fiber = fiber_of(key);
        let (head, list) = if bucket - self.floor < BUCKETS {
            let place = bucket % BUCKETS;
            self.occupied[(place / BUCKETS_PER_WORD) as usize] |= 1 << (place % BUCKETS_PER_WORD);
            (&mut self.heads[place as usize], List::Bucket(place as u16))
        } else {
            self.late_from = self.late_from.min(bucket);
            (&mut self.late, List::Late)
        };
        let next = std::mem::replace(head, fiber);
        self.entries[fiber as usize] = Entry { key, next, previous: NO_FIBER, list };
        if next != NO_FIBER {
            self.entries[next as usize].previous = fiber;
        }
    }

    /// Removes a fiber from its bucket, or from the list of late fibers.
    fn unlink(&mut self, fiber: u32) {
        let Entry { next, previous, list, .. } = self.entries[fiber as usize];
        if next != NO_FIBER {
            self.entries[next as usize].previous = previous;
        }
        if previous != NO_FIBER {
            self.entries[previous as usize].next = next;
            return;
        }
        match list {
            List::Bucket(place) => {
                self.heads[usize::from(place)] = next;
                if next == NO_FIBER {
                    self.vacate(u64::from(place));
                }
            }
            _ => self.late = next,
        }
    }

    /// Marks the bucket in this slot of the ring as empty.
    fn vacate(&mut self, place: u64) {
        self.occupied[(place / BUCKETS_PER_WORD) as usize] &= !(1 << (place % BUCKETS_PER_WORD));
    }

    /// Number of the first bucket of the ring that is not empty.
    fn first_bucket(&self) -> Option<u64> {
        let start = self.floor % BUCKETS;
        let words = BUCKETS / BUCKETS_PER_WORD;
        // The first word is checked twice: its upper bits first, its lower bits last.
        (0..=words).find_map(|step| {
            let word = (start / BUCKETS_PER_WORD + step) % words;
            let from_start = u64::MAX << (start % BUCKETS_PER_WORD);
            let mask = if step == 0 { from_start } else { u64::MAX };
            let bits = self.occupied[word as usize] & mask;
            let place = word * BUCKETS_PER_WORD + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| self.floor + (place.wrapping_sub(start) % BUCKETS))
        })
    }

    /// Refills the front from the earliest buckets.
    fn refill(&mut self) {
        if self.sampled.0 >= BUCKETS_SAMPLED {
            self.adjust_span();
        }
        while self.count < FRONT_LOW {
            let first = self.first_bucket();
            if self.late != NO_FIBER && first.is_none_or(|first| self.late_from <= first) {
                self.sort_late(first);
                continue;
            }
            let Some(first) = first else {
                // All other keys are behind those of the front.
                return;
            };
            self.take_bucket(first);
        }
    }

    /// Moves a bucket to the front, or its first part if it is large.
    fn take_bucket(&mut self, bucket: u64) {
        let place = bucket % BUCKETS;
        let mut keys = std::mem::take(&mut self.scratch);
        let mut at = std::mem::replace(&mut self.heads[place as usize], NO_FIBER);
        self.vacate(place);
        while at != NO_FIBER {
            let entry = &self.entries[at as usize];
            keys.push(entry.key);
            at = entry.next;
        }
        self.sampled = (self.sampled.0 + 1, self.sampled.1 + keys.len() as u32);
        let room = FRONT - self.count;
        let mut taken = keys.len();
        if taken > room {
            taken = room / 2;
            keys.select_nth_unstable(taken);
            self.horizon = keys[taken];
        } else {
            let end = bucket + 1;
            self.horizon = if end > u64::MAX >> self.shift { NEVER } else { key(end << self.shift, 0) };
        }
        for (index, key) in keys.drain(..).enumerate() {
            if index < taken {
                self.enter_front(key);
            } else {
                self.link(key);
            }
        }
        self.scratch = keys;
    }

    /// Moves fibers from beyond the ring into it if their buckets are part of it now. `first`: the
    /// first bucket that is not empty.
    #[cold]
    fn sort_late(&mut self, first: Option<u64>) {
        if first.is_none() {
            self.floor = self.floor.max(self.late_from);
        }
        let mut at = std::mem::replace(&mut self.late, NO_FIBER);
        self.late_from = u64::MAX;
        while at != NO_FIBER {
            let Entry { key, next, .. } = self.entries[at as usize];
            self.link(key);
            at = next;
        }
    }

    /// Makes room for one more fiber.
    #[cold]
    fn grow(&mut self, fiber: u32) {
        let nowhere = Entry { key: NEVER, next: NO_FIBER, previous: NO_FIBER, list: List::Nowhere };
        self.entries.resize(fiber as usize + 1, nowhere);
    }

    /// Adjusts the span of the buckets if they held too few fibers or too many.
    #[cold]
    fn adjust_span(&mut self) {
        let (buckets, fibers) = std::mem::take(&mut self.sampled);
        let shift = match fibers / buckets {
            ..HELD_MIN => self.shift + 1,
            HELD_MIN..HELD_MAX => self.shift,
            HELD_MAX.. => self.shift - 1,
        };
        if shift == self.shift || !SPAN_SHIFTS.contains(&shift) {
            return;
        }
        let present = |entry: &&Entry| entry.list != List::Nowhere;
        let keys: Vec<u128> = self.entries.iter().filter(present).map(|entry| entry.key).collect();
        let earliest = keys.iter().min().map_or(0, |key| clock_of(*key));
        let entries = std::mem::take(&mut self.entries);
        *self = ReadyQueue { entries, shift, floor: earliest >> shift, ..ReadyQueue::new() };
        keys.into_iter().for_each(|key| self.link(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Compares the queue with a linear scan. `clock` draws clocks from the latest clock that was
    /// taken out.
    fn agrees_with_a_scan(fibers: u64, clock: impl Fn(&Random, u64) -> u64) {
        let random = Random::new(1);
        let mut queue = ReadyQueue::new();
        let mut model = vec![NEVER; fibers as usize];
        let mut now = 0;
        for step in 0..30_000 {
            let fiber = random.below(fibers) as u32;
            let order = order(random.below(3) as u32, fiber);
            let value = if random.below(9) == 0 { NEVER } else { key(clock(&random, now), order) };
            queue.set(fiber, value);
            model[fiber as usize] = value;
            while step % 300 > 150 && queue.first() != NEVER && random.below(5) != 0 {
                now = clock_of(queue.first()).max(now);
                model[fiber_of(queue.first()) as usize] = NEVER;
                queue.pop();
            }
            let mut sorted = model.clone();
            sorted.sort_unstable();
            assert_eq!(queue.first(), sorted[0]);
            assert!(sorted[0] == NEVER || queue.ahead(0) == Some(fiber_of(sorted[0])));
            let known = (0..FRONT).map_while(|place| queue.ahead(place));
            assert!(known.zip(sorted).all(|(fiber, key)| fiber == fiber_of(key)));
        }
    }

    #[test]
    fn calendar_agrees_with_a_scan() {
        agrees_with_a_scan(300, |random, now| now + random.below(200_000));
        agrees_with_a_scan(3, |random, now| now + random.below(200_000));
    }

    #[test]
    fn crowds_and_deadlines_are_in_order() {
        agrees_with_a_scan(300, |random, now| now + random.below(2) * 1_000);
        agrees_with_a_scan(100, |random, now| now + (1 << random.below(40)));
        agrees_with_a_scan(
            100,
            |random, now| if random.below(3) == 0 { u64::MAX } else { now.saturating_add(7) },
        );
    }

    #[test]
    fn a_fiber_may_be_woken_before_what_was_taken_out() {
        agrees_with_a_scan(100, |random, now| (now + random.below(100_000)).saturating_sub(50_000));
        agrees_with_a_scan(100, |random, _| random.below(1 << 44));
    }
}
