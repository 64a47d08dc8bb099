//! A campaign of many seeds: trials on several threads of the host, each with a virtual machine of
//! its own.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::mutex::{into_inner, lock};
use crate::subject::Subject;
use crate::task::{Machine, Work};
use crate::trial::{Failure, Trial, Verdict};

/// Interval at which progress is reported.
const POLL: Duration = Duration::from_millis(50);

/// A trial for each of a range of seeds.
pub struct Campaign<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The workload.
    pub work: Work,
    /// The machine.
    pub machine: &'a Machine,
    /// Workers of each trial; `None`: a few, by the seed.
    pub workers: Option<usize>,
    /// The seeds.
    pub seeds: Range<u64>,
    /// Host threads that run trials at the same time.
    pub threads: usize,
    /// Failures after which no further trial begins.
    pub failures_max: usize,
}

/// The sum of the verdicts of several trials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of trials.
    pub seeds: u64,
    /// Sums over all trials; `failure` stays empty.
    pub sum: Verdict,
    /// The failures, in the order of their seeds.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Adds the verdict of one trial.
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

/// The progress of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of trials that ended.
    pub seeds: u64,
    /// Number of these trials that failed.
    pub failures: u64,
    /// The lowest seed whose trial is running, as far as known: if it does not change, that trial
    /// hangs.
    pub oldest: u64,
}

/// State that the threads of a campaign share.
struct CampaignState<'a> {
    campaign: &'a Campaign<'a>,
    next: AtomicU64,
    stop: AtomicBool,
    ended: AtomicU64,
    tally: Mutex<Tally>,
    /// The seed that each thread runs; `u64::MAX`: none.
    current: Vec<AtomicU64>,
}

impl Campaign<'_> {
    /// Runs all trials. `observe` receives the progress several times a second, on the calling
    /// thread; when it returns false, no further trial begins.
    pub fn run(&self, observe: &mut dyn FnMut(Progress) -> bool) -> Tally {
        let threads = self.threads.max(1);
        let shared = CampaignState {
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
        let mut tally = into_inner(shared.tally);
        tally.failures.sort_by_key(|failure| failure.seed);
        tally
    }
}

impl CampaignState<'_> {
    fn work(&self, number: usize) {
        let Campaign { subject, work, machine, workers, ref seeds, failures_max, .. } = *self.campaign;
        while !self.stop.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                break;
            }
            self.current[number].store(seed, Ordering::Relaxed);
            let verdict = Trial { subject, work, machine, workers, seed }.run();
            let mut tally = lock(&self.tally);
            tally.add(verdict);
            if tally.failures.len() >= failures_max {
                self.stop.store(true, Ordering::Relaxed);
            }
            self.ended.store(tally.seeds, Ordering::Relaxed);
        }
        self.current[number].store(u64::MAX, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let failures = lock(&self.tally).failures.len() as u64;
        let seeds = self.ended.load(Ordering::Relaxed);
        let oldest = self.current.iter().map(|seed| seed.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
        Progress { seeds, failures, oldest }
    }
}
