//! First-level instruction caches: one for each core, shared by its hardware threads.
//!
//! Code is a set of *segments*: parts of the engines, tables' typed verbs, and procedures. A
//! segment has a number of lines, and a worker that enters it executes all of them once. The
//! measured footprints and their method are in `docs/calibration.md`.
//!
//! A core keeps its segments in the order of their last use. The lines of all segments used since a
//! segment's last use are its *stack distance*. In a set-associative cache a line has left if its
//! set got more distinct lines since than ways remain for it. Sets get lines as if at random
//! (Poisson), which is Smith's model ("A comparative study of set associative memory mapping
//! algorithms", 1978; Hill and Smith, "Evaluating associativity in CPU caches", 1989). The
//! segment's own lines follow each other, so that each set has equally many of them. So a segment
//! costs one walk along a short list, and misses are expected values in parts of 1024.
//!
//! Misses are counted on every machine whose cache is known. Front ends fetch ahead along predicted
//! branches, so the wait for a missing line is a figure of the machine, not a rule: the key
//! `code_miss_ns` of its description, 0 where no measurement is known.

use platform::Code;

use crate::SimError;

/// Size of an instruction cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionCache {
    /// Capacity in bytes.
    pub bytes: usize,
    /// Ways of a set, 1 to 16.
    pub ways: usize,
    /// Bytes of a line, 64 or a multiple of it.
    pub line_bytes: usize,
}

impl InstructionCache {
    /// Checks the size.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let lines = self.bytes / self.line_bytes.max(1);
        let fits = (1..=16).contains(&self.ways) && lines >= self.ways && lines <= LINES_MAX;
        if fits && self.line_bytes.is_power_of_two() && self.line_bytes >= 64 {
            return Ok(());
        }
        Err(SimError::Config(format!("an instruction cache of {self:?}: 1 to 16 ways, lines from 64 bytes")))
    }
}

const LINES_MAX: usize = 1 << 16;
const PARTS: usize = 22;
const TABLES: usize = 16;
const PROCEDURES: usize = 16;
const SEGMENTS: usize = PARTS + TABLES + PROCEDURES;
/// Lines of the verbs that are compiled for one table.
const TABLE_LINES: u16 = 24;
/// Share of executed lines that follow an executed line, measured for the engines.
const SEQUENTIAL: f64 = 0.73;
/// Expected misses are in parts of this number.
pub(crate) const LINE_PARTS: u64 = 1024;
/// Lines between two entries of the table of misses.
const STRIDE: u32 = 8;

/// Number of a segment, and its lines of 64 bytes.
fn segment(code: Code) -> (usize, u16) {
    match code {
        Code::Driver => (0, 130),
        Code::Begin => (1, 65),
        Code::Commit => (2, 65),
        Code::Log => (3, 100),
        Code::Find => (4, 45),
        Code::Write => (5, 20),
        Code::Insert => (6, 80),
        Code::Delete => (7, 60),
        Code::Scan => (8, 120),
        Code::InsertHash => (9, 45),
        Code::InsertTree => (10, 100),
        Code::Remove => (11, 60),
        Code::PagesBegin => (12, 33),
        Code::PagesCommit => (13, 33),
        Code::PagesFind => (14, 90),
        Code::PagesRead => (15, 30),
        Code::PagesWrite => (16, 105),
        Code::PagesInsert => (17, 95),
        Code::PagesDelete => (18, 60),
        Code::PagesScan => (19, 120),
        Code::PagesSearch => (20, 50),
        Code::PagesLock => (21, 68),
        Code::Table(number) => (PARTS + number % TABLES, TABLE_LINES),
        Code::Procedure { number, lines } => (PARTS + TABLES + usize::from(number) % PROCEDURES, lines),
    }
}

/// Segments of one core by their last use, the newest first.
#[derive(Clone)]
struct Recent {
    segments: [u8; SEGMENTS],
    count: usize,
}

/// The instruction caches of all cores.
pub(crate) struct CodeCaches {
    cores: Vec<Recent>,
    /// Lines of each segment that was used, in lines of the cache.
    lines: [u32; SEGMENTS],
    /// Cache lines for 1024 lines of 64 bytes.
    line_parts: u32,
    sets: u32,
    ways: u32,
    /// Expected share of missing lines, in parts of 1024: by the ways that the segment's own lines
    /// leave, and by the stack distance.
    missing: Vec<Vec<u32>>,
    /// Time for which a missing line is waited for.
    pub(crate) wait_ps: u64,
}

/// Probability that a Poisson variable is at least `least`.
fn at_least(mean: f64, least: u32) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for count in 0..least {
        below += term;
        term *= mean / f64::from(count + 1);
    }
    (1.0 - below).clamp(0.0, 1.0)
}

impl CodeCaches {
    /// Instruction caches of this size for this many cores, which wait for a missing line for
    /// `wait_ps`.
    pub(crate) fn new(cache: InstructionCache, cores: usize, wait_ps: u64) -> Self {
        let (lines, ways) = ((cache.bytes / cache.line_bytes) as u32, cache.ways as u32);
        let sets = (lines / ways).max(1);
        let entries = (4 * lines / STRIDE).max(1);
        let share = |free: u32, entry: u32| {
            let mean = f64::from(entry * STRIDE) / f64::from(sets);
            (at_least(mean, free) * LINE_PARTS as f64).round() as u32
        };
        let missing =
            (1..=ways).map(|free| (0..=entries).map(|entry| share(free, entry)).collect()).collect();
        // Half of the lines that follow a line share a longer line with it.
        let halvings = (cache.line_bytes / 64).ilog2();
        let line_parts = (1024.0 * (1.0 - SEQUENTIAL / 2.0).powi(halvings as i32)).round() as u32;
        let none = Recent { segments: [0; SEGMENTS], count: 0 };
        CodeCaches {
            cores: vec![none; cores],
            lines: [0; SEGMENTS],
            line_parts,
            sets,
            ways,
            missing,
            wait_ps,
        }
    }

    /// Executes code on a core. Returns the expected number of missing lines, in parts of
    /// [`LINE_PARTS`].
    #[inline]
    pub(crate) fn enter(&mut self, core: usize, code: Code) -> u64 {
        let (segment, lines) = segment(code);
        let lines = (u32::from(lines) * self.line_parts).div_ceil(1024);
        self.lines[segment] = lines;
        let recent = &mut self.cores[core];
        let used = &recent.segments[..recent.count];
        let mut distance = 0;
        let found = used.iter().position(|other| {
            let is_same = usize::from(*other) == segment;
            distance += if is_same { 0 } else { self.lines[usize::from(*other)] };
            is_same
        });
        let place = found.unwrap_or_else(|| {
            recent.count += 1;
            recent.count - 1
        });
        recent.segments.copy_within(..place, 1);
        recent.segments[0] = segment as u8;
        let own_ways = lines.div_ceil(self.sets);
        if found.is_none() || own_ways > self.ways {
            return u64::from(lines) * LINE_PARTS;
        }
        // Its own line has a way; the rest of its lines in the set take theirs.
        let shares = &self.missing[(self.ways - own_ways) as usize];
        let entry = (distance.div_ceil(STRIDE) as usize).min(shares.len() - 1);
        u64::from(lines * shares[entry])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XEON: InstructionCache = InstructionCache { bytes: 32 << 10, ways: 8, line_bytes: 64 };

    fn caches(cache: InstructionCache) -> CodeCaches {
        CodeCaches::new(cache, 2, 0)
    }

    #[test]
    fn segments_have_numbers_of_their_own() {
        let simple =
            [Code::Driver, Code::Begin, Code::Commit, Code::PagesLock, Code::Table(0), Code::Table(15)];
        let mut numbers = simple.map(|code| segment(code).0).to_vec();
        numbers.push(segment(Code::Procedure { number: 0, lines: 1 }).0);
        numbers.push(segment(Code::Procedure { number: 15, lines: 1 }).0);
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        assert!(numbers.iter().all(|number| *number < SEGMENTS));
    }

    #[test]
    fn longer_lines_are_fewer() {
        let mut long = caches(InstructionCache { line_bytes: 128, ..XEON });
        assert_eq!(long.enter(0, Code::Commit), 42 * LINE_PARTS);
    }

    #[test]
    fn more_code_in_between_leaves_fewer_lines() {
        let mut caches = caches(XEON);
        let mut before = 0;
        for between in [0, 100, 300, 450, 600, 2_000] {
            caches.enter(0, Code::Commit);
            caches.enter(0, Code::Procedure { number: 1, lines: between });
            let missing = caches.enter(0, Code::Commit);
            assert!(missing >= before, "{between}: {missing}");
            before = missing;
        }
        assert_eq!(before, 65 * LINE_PARTS);
    }
}
