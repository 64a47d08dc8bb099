//! Many seeds: trials on several threads of the host, each with a virtual machine of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::subject::Subject;
use crate::task::{Machine, Work};
use crate::trial::{Failure, Trial, Verdict};

/// Time between two looks at a campaign.
const POLL: Duration = Duration::from_millis(50);

/// A trial for each of some seeds.
pub struct Campaign<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// What runs.
    pub work: Work,
    /// Where.
    pub machine: &'a Machine,
    /// Workers of each trial; `None`: by the seed, a few.
    pub workers: Option<usize>,
    /// The seeds.
    pub seeds: Range<u64>,
    /// Host threads that run trials at the same time.
    pub threads: usize,
    /// Failures after which no further trial begins.
    pub failures_max: usize,
}

/// The sum of what trials found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials.
    pub seeds: u64,
    /// Sums over all trials; `failure` stays empty.
    pub sum: Verdict,
    /// The failures, in the order of their seeds.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Adds what one trial found.
    pub fn add(&mut self, verdict: Verdict) {
        self.seeds += 1;
        self.sum.transactions += verdict.transactions;
        self.sum.aborts += verdict.aborts;
        self.sum.histories += verdict.histories;
        self.sum.undecided += verdict.undecided;
        self.sum.withheld += verdict.withheld;
        self.sum.observations += verdict.observations;
        self.sum.injected.add(verdict.injected);
        self.failures.extend(verdict.failure);
    }
}

/// How a campaign goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Trials that ended.
    pub seeds: u64,
    /// Failures among them.
    pub failures: u64,
    /// The first seed whose trial has not ended, as far as known: if it does not change, that trial
    /// hangs.
    pub oldest: u64,
}

/// What the threads share.
struct Shared<'a> {
    campaign: &'a Campaign<'a>,
    next: AtomicU64,
    stop: AtomicBool,
    ended: AtomicU64,
    tally: Mutex<Tally>,
    /// The seed that each thread tries; `u64::MAX` when it has none.
    current: Vec<AtomicU64>,
}

impl Campaign<'_> {
    /// Runs all trials. `observe` hears how it goes several times a second, on the calling thread;
    /// when it returns false, no further trial begins.
    pub fn run(&self, observe: &mut dyn FnMut(Progress) -> bool) -> Tally {
        let threads = self.threads.max(1);
        let shared = Shared {
            campaign: self,
            next: AtomicU64::new(self.seeds.start),
            stop: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            tally: Mutex::new(Tally::default()),
            current: (0..threads).map(|_| AtomicU64::new(u64::MAX)).collect(),
        };
        thread::scope(|scope| {
            let runners: Vec<_> = (0..threads)
                .map(|number| {
                    let shared = &shared;
                    scope.spawn(move || shared.work(number))
                })
                .collect();
            while !runners.iter().all(thread::ScopedJoinHandle::is_finished) {
                if !observe(shared.progress()) {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                thread::park_timeout(POLL);
            }
        });
        observe(shared.progress());
        let mut tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        tally.failures.sort_by_key(|failure| failure.seed);
        tally
    }
}

impl Shared<'_> {
    fn work(&self, number: usize) {
        let Campaign { subject, work, machine, workers, ref seeds, failures_max, .. } = *self.campaign;
        while !self.stop.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                break;
            }
            self.current[number].store(seed, Ordering::Relaxed);
            let verdict = Trial { subject, work, machine, workers, seed }.run();
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(verdict);
            if tally.failures.len() >= failures_max {
                self.stop.store(true, Ordering::Relaxed);
            }
            self.ended.store(tally.seeds, Ordering::Relaxed);
        }
        self.current[number].store(u64::MAX, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let failures = self.tally.lock().unwrap_or_else(PoisonError::into_inner).failures.len() as u64;
        let seeds = self.ended.load(Ordering::Relaxed);
        let oldest = self.current.iter().map(|seed| seed.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
        Progress { seeds, failures, oldest }
    }
}
