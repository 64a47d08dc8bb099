//! One seed: a workload under a scheme on a machine, and the verdict.

use sim::Config;

use crate::caught::caught;
use crate::history::{self, History};
use crate::injected::Injected;
use crate::journal::{Journal, last_events};
use crate::running;
use crate::second_opinion;
use crate::subject::Subject;
use crate::task::{Machine, Task, Work};

/// One run.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// What runs.
    pub work: Work,
    /// Where.
    pub machine: &'a Machine,
    /// Workers; `None`: by the seed, a few.
    pub workers: Option<usize>,
    /// Fixes transactions and, in the virtual machine, the schedule.
    pub seed: u64,
}

/// What a trial found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transactions that committed or rolled back by their own decision.
    pub transactions: u64,
    /// Attempts that met another transaction.
    pub aborts: u64,
    /// Histories judged: 0 or 1.
    pub histories: u64,
    /// Histories with more possibilities than the checker tried, without a violation among those it
    /// tried: 0 or 1.
    pub undecided: u64,
    /// Observations that the second opinion had no words for.
    pub withheld: u64,
    /// Observations in histories.
    pub observations: u64,
    /// What went wrong on purpose.
    pub injected: Injected,
    /// What is wrong.
    pub failure: Option<Failure>,
}

/// What is wrong with a run.
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

    /// Runs and judges. A panic inside is a failure of the trial.
    pub fn run(&self) -> Verdict {
        let journal = Journal::default();
        let mut verdict = Verdict::default();
        let outcome = caught(|| running::run(self.subject, &self.task(), &journal));
        let wrong = match outcome {
            Ok(Ok(observed)) => {
                verdict.transactions = observed.transactions;
                verdict.aborts = observed.aborts;
                verdict.injected = observed.injected;
                let wrong = observed.history.as_ref().and_then(|history| judge(history, &mut verdict));
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
    /// Runs once more, on a machine that remembers what its cores do: campaigns do without, because
    /// it costs time.
    fn last_events_of_cores(&self) -> Vec<String> {
        if !self.machine.repeats() {
            return Vec::new();
        }
        let traced =
            Machine::Described(Box::new(Config { trace: true, ..self.machine.config(&self.task()) }));
        let again = Trial { machine: &traced, ..*self };
        let journal = Journal::default();
        // The run ends as before.
        let _ = caught(|| running::run(self.subject, &again.task(), &journal));
        journal.cores()
    }
}

/// Both opinions on a history; `None` if both are content.
fn judge(history: &History, verdict: &mut Verdict) -> Option<String> {
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
