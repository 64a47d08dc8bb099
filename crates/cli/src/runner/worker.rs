//! What one worker does and counts during a run.

use std::sync::atomic::Ordering;

use cc::Scheme;
use engine::{Bounds, Database, Ending, Procedure};
use hdrhistogram::Histogram;
use platform::{LINE_BYTES, Nanos, Node, OutOfMemory, Platform};
use workloads::{Random, Workload};

use super::counted::Counted;
use super::durable::Acknowledgements;
use crate::choices::Durability;
use crate::errors::Failure;

/// Longest latency that histograms tell apart, in nanoseconds.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;
/// Digits that histograms keep.
const LATENCY_DIGITS: u8 = 2;
/// Commits between two announcements to the main thread.
const ANNOUNCE_COMMITS: u64 = 64;
/// Intervals in which commits are counted.
pub(super) const BINS: u64 = 400;

/// Lines of the board before those of the workers.
const LINES: usize = 5;

/// Words that workers and the main thread share.
pub(super) struct Board<P: Platform> {
    region: P::Region,
    workers: usize,
}

impl<P: Platform> Board<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let region = P::region(c, None, (LINES + workers) * LINE_BYTES, "benchmark board")?;
        Ok(Board { region, workers })
    }

    fn word(&self, line: usize, word: usize) -> &P::Word {
        assert!(line < LINES + self.workers && word < 8);
        P::word_of(&self.region, (line * 8 + word) * 8)
    }

    /// Not 0 once everybody shall stop.
    pub(super) fn stop(&self) -> &P::Word {
        self.word(0, 0)
    }

    /// Workers that are done.
    pub(super) fn done(&self) -> &P::Word {
        self.word(1, 0)
    }

    /// Rows loaded.
    pub(super) fn rows(&self) -> &P::Word {
        self.word(2, 0)
    }

    /// Waits until all workers are here: the moment at which they begin.
    fn meet(&self, c: P::Core) -> Nanos {
        // Relaxed, all of them: nothing but the moment is handed on.
        if P::fetch_add(c, self.word(3, 0), 1, Ordering::Relaxed) + 1 == self.workers as u64 {
            // 0 says that somebody is missing.
            P::store(c, self.began(), P::now(c).0.max(1), Ordering::Relaxed);
        }
        let mut began = 0;
        while began == 0 {
            began = P::spin_while(c, self.began(), 0, None);
        }
        Nanos(began)
    }

    /// When the workers began; 0 before.
    pub(super) fn began(&self) -> &P::Word {
        self.word(4, 0)
    }

    /// Commits and aborts of one worker, as announced.
    pub(super) fn counts(&self, worker: usize) -> (&P::Word, &P::Word) {
        (self.word(LINES + worker, 0), self.word(LINES + worker, 1))
    }
}

/// Commits, aborts and latencies of one kind of transaction.
pub(super) struct KindCounts {
    pub commits: u64,
    pub aborts: u64,
    pub rollbacks: u64,
    pub latency_nanos: Histogram<u64>,
}

impl KindCounts {
    pub(super) fn new() -> Result<Self, Failure> {
        let latency_nanos = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, LATENCY_DIGITS)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(KindCounts { commits: 0, aborts: 0, rollbacks: 0, latency_nanos })
    }

    pub(super) fn add(&mut self, other: &KindCounts) {
        self.commits += other.commits;
        self.aborts += other.aborts;
        self.rollbacks += other.rollbacks;
        // Equal bounds: adding cannot fail.
        let _ = self.latency_nanos.add(&other.latency_nanos);
    }
}

/// What one worker measured.
pub(super) struct WorkerResult {
    pub kinds: Vec<KindCounts>,
    /// Commits by kind, warm-up included.
    pub committed: Vec<u64>,
    pub bins: Vec<u64>,
    pub breakdown: [u64; cc::CATEGORIES],
    pub attempts_max: u32,
    /// When its warm-up ended.
    pub warm: Nanos,
    pub ended: Nanos,
}

/// How long a run is, from the moment at which all workers are there.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    pub warm_up_nanos: u64,
    pub nanos: u64,
    pub bin_nanos: u64,
    /// Commits of a worker after which all stop.
    pub commits_max: Option<u64>,
}

/// One worker of a run.
pub(super) struct Job<'a, P: Platform, S: Scheme<P>, W: Workload> {
    pub database: &'a Database<P, S>,
    pub workload: &'a W,
    pub tables: &'a <W::Procedure as Procedure>::Tables,
    pub board: &'a Board<P>,
    pub schedule: Schedule,
    pub seed: u64,
    pub measure: bool,
    pub durability: Durability,
}

impl<P: Counted, S: Scheme<P>, W: Workload> Job<'_, P, S, W> {
    /// Runs transactions until the schedule or the board ends it.
    pub(super) fn run(&self, c: P::Core, worker: usize, node: Option<Node>) -> Result<WorkerResult, Failure> {
        let session = self.database.session(c, node, self.measure);
        // Whoever has no session comes, too: the others wait.
        let began = self.board.meet(c);
        let mut session = session.map_err(Failure::of)?;
        session.seed(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(worker as u64 + 1));
        let mut random = Random::new(self.seed, worker as u64 + 1);
        let mut result = self.nothing()?;
        result.warm = began.plus(self.schedule.warm_up_nanos);
        let ends = result.warm.plus(self.schedule.nanos);
        let mut actions = Vec::new();
        let bounds = Bounds::default();
        let mut acknowledgements = Acknowledgements::new(self.durability);
        let mut warm = false;
        let (mut commits, mut aborts) = (0, 0);
        let mut now = P::now(c);
        // Relaxed: only says that it is time to go.
        while now < ends && P::load(c, self.board.stop(), Ordering::Relaxed) == 0 {
            if !warm && now >= result.warm {
                warm = true;
                // In virtual time all workers get here within one transaction.
                if worker == 0 {
                    P::count_from_here(c);
                }
                session.reset_stats();
                aborts = 0;
            }
            let mut procedure = self.workload.next(worker, &mut random, now.0);
            let kind = W::kind(&procedure);
            let ending = session
                .run(self.tables, &mut procedure, &mut actions, &bounds)
                .map_err(|abort| Failure::Failed(format!("{}: {abort}", self.workload.kinds()[kind])))?;
            match ending {
                Ending::Committed((), commit) => {
                    acknowledgements.committed(&mut session, (kind, now, commit))?;
                }
                Ending::RolledBack(_) if warm => {
                    let counts = &mut result.kinds[kind];
                    counts.rollbacks += 1;
                    counts.latency_nanos.saturating_record(P::now(c).since(now));
                }
                Ending::RolledBack(_) => {}
            }
            let after = P::now(c);
            session.tend(after);
            if warm {
                let aborted = session.stats().aborts;
                result.kinds[kind].aborts += aborted - aborts;
                aborts = aborted;
            }
            while let Some(done) = acknowledgements.next(&session) {
                self.acknowledge(&mut result, warm, (done.kind, done.began, after));
                commits += u64::from(warm);
                if warm && commits % ANNOUNCE_COMMITS == 0 {
                    self.announce(c, worker, commits, aborts);
                }
            }
            if self.schedule.commits_max.is_some_and(|most| commits >= most) {
                P::store(c, self.board.stop(), 1, Ordering::Relaxed);
            }
            now = after;
        }
        acknowledgements.finish(&mut session)?;
        let end = P::now(c);
        while let Some(done) = acknowledgements.next(&session) {
            self.acknowledge(&mut result, warm, (done.kind, done.began, end));
        }
        result.breakdown = session.breakdown();
        result.attempts_max = session.stats().attempts_max;
        result.ended = end;
        Ok(result)
    }

    /// Counts a commit that is acknowledged at `now`.
    #[inline]
    fn acknowledge(&self, result: &mut WorkerResult, warm: bool, (kind, began, now): (usize, Nanos, Nanos)) {
        result.committed[kind] += 1;
        if warm {
            let bin = now.since(result.warm) / self.schedule.bin_nanos;
            result.bins[bin.min(BINS - 1) as usize] += 1;
            let counts = &mut result.kinds[kind];
            counts.commits += 1;
            counts.latency_nanos.saturating_record(now.since(began));
        }
    }

    fn nothing(&self) -> Result<WorkerResult, Failure> {
        let kinds = self.workload.kinds().iter().map(|_| KindCounts::new()).collect::<Result<_, _>>()?;
        Ok(WorkerResult {
            kinds,
            committed: vec![0; self.workload.kinds().len()],
            bins: vec![0; BINS as usize],
            breakdown: [0; cc::CATEGORIES],
            attempts_max: 0,
            warm: Nanos(0),
            ended: Nanos(0),
        })
    }

    fn announce(&self, c: P::Core, worker: usize, commits: u64, aborts: u64) {
        let (commit_word, abort_word) = self.board.counts(worker);
        // Relaxed, twice: figures for the progress line.
        P::store(c, commit_word, commits, Ordering::Relaxed);
        P::store(c, abort_word, aborts, Ordering::Relaxed);
    }
}
