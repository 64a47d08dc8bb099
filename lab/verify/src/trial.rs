//! One trial: a workload under a scheme on a machine with a seed, and its verdict.

use sim::Config;

use crate::history::{self, History};
use crate::injected::Injected;
use crate::journal::{Journal, last_events};
use crate::panics::catch_panic;
use crate::running;
use crate::second_opinion;
use crate::subject::Subject;
use crate::task::{Machine, Task, Work};

/// One trial.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The workload.
    pub work: Work,
    /// The machine.
    pub machine: &'a Machine,
    /// Workers; `None`: a few, by the seed.
    pub workers: Option<usize>,
    /// Fixes transactions and, in the virtual machine, the schedule.
    pub seed: u64,
}

/// The result of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transactions that committed or rolled back by their own decision.
    pub transactions: u64,
    /// Attempts that conflicted.
    pub aborts: u64,
    /// Histories checked: 0 or 1.
    pub histories: u64,
    /// Histories on which the checker gave up without having found a violation: 0 or 1.
    pub undecided: u64,
    /// Observations that the second checker cannot express.
    pub withheld: u64,
    /// Observations in histories.
    pub observations: u64,
    /// Counts of injected faults.
    pub injected: Injected,
    /// The failure, if any.
    pub failure: Option<Failure>,
}

/// The failure of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The violation, panic or deadlock.
    pub what: String,
    /// The last events of each core.
    pub last_events: Vec<String>,
}

impl Trial<'_> {
    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or_else(|| self.work.workers(self.seed))
    }

    fn task(&self) -> Task<'_> {
        let Trial { subject, work, machine, seed, .. } = *self;
        Task { work, machine, workers: self.workers(), seed, partitioned: subject.partitioned }
    }

    /// Runs the workload and checks the result. A panic inside is a failure of the trial.
    pub fn run(&self) -> Verdict {
        let journal = Journal::default();
        let mut verdict = Verdict::default();
        let outcome = catch_panic(|| running::run(self.subject, &self.task(), &journal));
        let wrong = match outcome {
            Ok(Ok(observed)) => {
                verdict.transactions = observed.transactions;
                verdict.aborts = observed.aborts;
                verdict.injected = observed.injected;
                let wrong = observed.history.as_ref().and_then(|history| check(history, &mut verdict));
                let entries = observed.history.map(|history| history.entries).unwrap_or_default();
                entries.into_iter().for_each(|entry| journal.push(entry));
                wrong.into_iter().chain(observed.violations).reduce(|all, one| all + "; " + &one)
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(format!("panicked: {panic}")),
        };
        if let Some(what) = wrong {
            let mut last_events = last_events(&journal.take());
            last_events.extend(self.last_events_of_cores());
            verdict.failure = Some(Failure { seed: self.seed, what, last_events });
        }
        verdict
    }
}

impl Trial<'_> {
    /// Runs the trial again on a machine that traces its cores, which campaigns avoid because of
    /// its cost.
    fn last_events_of_cores(&self) -> Vec<String> {
        if !self.machine.repeats() {
            return Vec::new();
        }
        let traced =
            Machine::Described(Box::new(Config { trace: true, ..self.machine.config(&self.task()) }));
        let again = Trial { machine: &traced, ..*self };
        let journal = Journal::default();
        // The run fails as before.
        let _ = catch_panic(|| running::run(self.subject, &again.task(), &journal));
        journal.cores()
    }
}

/// Checks a history with both checkers; `None` if neither finds a violation.
fn check(history: &History, verdict: &mut Verdict) -> Option<String> {
    let opinion = second_opinion::opinion(history);
    verdict.histories = 1;
    verdict.withheld = opinion.withheld as u64;
    verdict.observations = (opinion.withheld + opinion.expressed) as u64;
    let objections: Vec<String> =
        opinion.objections.iter().map(|(kind, text)| format!("{kind} ({text})")).collect();
    match history::check(history) {
        Ok(report) => {
            verdict.undecided = u64::from(report.undecided);
            (!objections.is_empty()).then(|| format!("only adya objects: {}", objections.join("; ")))
        }
        Err(violation) if objections.is_empty() => Some(format!("{violation}; adya has no objection")),
        Err(violation) => Some(format!("{violation}; adya: {}", objections.join("; "))),
    }
}
