//! Crashes of a machine with a durable deployment of several instances, which is booted again, several times over the same disk; or of several
//! machines, all at one moment.
//!
//! Crashes come at any moment, also while instances are opened and transactions in doubt are resolved. What has to be there
//! afterwards, over all instances, stands in `ledger`.

use std::sync::atomic::{AtomicU64, Ordering};

use cc::SchemeName;
use driver::{
    Check, Control, Durability, Length, Measurement, Missing, Plan, RunError, Troubles, TroublesMet,
};
use platform::Nanos;
use sim::{Config, Crash, DiskModel, Fall, FaultCounts, Faults, NetworkFaults, SimError, VirtualMachine};
use workloads::Random;

use super::ledger::Ledger;
use super::machine::EPOCH_NANOS;
use super::places::Place;
use crate::injected::Injected;
use crate::task::{Machine, Observed, Task, Work, transaction_nanos_max};

pub use driver::Rules;

/// Lives of the machine that end in a crash.
const ROUNDS: u64 = 5;
/// Transactions of each worker between two boots.
const TRANSACTIONS: u64 = 30;
/// No life is as long as this.
const NANOS_MAX: u64 = 2_000_000_000;
/// The same where one instance crashes, or connections break: a protocol that goes wrong waits so long.
const NANOS_MAX_TROUBLED: u64 = 400_000_000;
/// So often does the main thread look at such a life, each 5 us, before it ends the run: then workers begin nothing any more, and
/// give up what has met others. With few rows and a slow disk, transactions can meet each other again and again.
const LOOKS_MAX: u64 = 30_000;

/// What is to be tested happened so often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// What went wrong on purpose.
    pub injected: Injected,
    /// Parts in doubt that were resolved.
    pub in_doubt: u64,
    /// Of these, those that were committed.
    pub committed: u64,
    /// Transactions that were there in the end.
    pub transactions: u64,
    /// Instances that crashed while the others ran on, and came back.
    pub returned: u64,
    /// Parts in doubt that they found.
    pub adopted: u64,
    /// Links that were lost, counted at each end.
    pub losses: u64,
    /// Transactions that were refused because an instance was missing.
    pub refused: u64,
}

impl Marks {
    /// What happened in another trial, too.
    pub fn add(&mut self, other: Marks) {
        let Marks { injected, in_doubt, committed, transactions, returned, adopted, losses, refused } = other;
        self.injected.add(injected);
        self.in_doubt += in_doubt;
        self.committed += committed;
        self.transactions += transactions;
        self.returned += returned;
        self.adopted += adopted;
        self.losses += losses;
        self.refused += refused;
    }
}

/// Runs a task.
pub(crate) fn run(scheme: SchemeName, task: &Task<'_>) -> Result<Observed, SimError> {
    observed(scheme, task, run_on)
}

/// A trial of a scheme in which the protocol has these rules: what is wrong after it, and what happened.
pub(super) type RunOn = fn(SchemeName, &Task<'_>, Rules) -> Result<(Vec<String>, Marks), SimError>;

/// What a campaign hears of a trial.
pub(super) fn observed(scheme: SchemeName, task: &Task<'_>, run_on: RunOn) -> Result<Observed, SimError> {
    let (violations, marks) = run_on(scheme, task, Rules::SOUND)?;
    let Marks { transactions, injected, .. } = marks;
    Ok(Observed { transactions, violations, injected, ..Observed::default() })
}

/// The task of a seed that no campaign has chosen.
pub(super) fn task(seed: u64) -> Task<'static> {
    let (work, machine) = (Work::Islands, &Machine::Small);
    Task { work, machine, workers: work.workers(seed), seed, partitioned: false }
}

/// What is wrong after a trial of a scheme in which the protocol has these rules, and what happened.
///
/// # Errors
/// The machine cannot run.
pub fn violations(scheme: SchemeName, seed: u64, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    run_on(scheme, &task(seed), rules)
}

/// One life of the machine.
#[derive(Default)]
pub(super) struct Life {
    /// The number of the life.
    pub round: u64,
    /// Transactions of each worker.
    pub transactions: u64,
    pub crash: Option<Crash>,
    /// Instances crash.
    pub falls: Vec<Fall>,
    /// What goes wrong between machines.
    pub network: NetworkFaults,
    pub troubles: Option<Troubles>,
    pub missing: Missing,
}

/// What all lives of one machine have in common.
pub(super) struct Trial<'a> {
    pub scheme: SchemeName,
    pub task: &'a Task<'a>,
    pub rules: Rules,
    pub durability: Durability,
    pub place: Place,
    pub ledger: Ledger,
    /// Whether the disks may refuse.
    pub refuses: bool,
    pub marks: Marks,
}

fn run_on(scheme: SchemeName, task: &Task<'_>, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 40);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME][random.below(3) as usize];
    let faults = Faults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..Faults::default() };
    let durability =
        [Durability::Group, Durability::Group, Durability::Sync, Durability::Async][random.below(4) as usize];
    let workers = task.workers.min(3 + random.below(2) as usize);
    let place = match random.below(4) {
        0 => Place::several(&mut random, task, workers)?,
        _ => Place::one(&mut random, task, workers),
    };
    let mut trial = Trial {
        scheme,
        task,
        rules,
        durability,
        place: place.with_disks(model, faults),
        ledger: Ledger::new(workers as u16, durability != Durability::Async),
        refuses: false,
        marks: Marks::default(),
    };
    let mut violations = Vec::new();
    // Loads.
    trial.live(Life::default(), &mut violations)?;
    trial.refuses = random.below(4) == 0;
    let flush_failure_one_in = if trial.refuses { 12 + 20 * random.below(3) } else { 0 };
    trial.place.set_faults(Faults { flush_failure_one_in, ..faults });
    for round in 1..=ROUNDS {
        let longest = 600_000 + 60 * model.flush_nanos;
        let crash = match random.below(3) {
            0 => Crash::At(Nanos(random.below(longest))),
            1 => Crash::DiskOperation(1 + random.below(200)),
            _ => Crash::Event(1 + random.below(60_000)),
        };
        let life =
            Life { round: 2 * round, transactions: TRANSACTIONS, crash: Some(crash), ..Life::default() };
        trial.live(life, &mut violations)?;
        // One crash in four is that of the processes alone.
        if random.below(4) > 0 {
            trial.place.lose_power();
        }
        let looks = round == ROUNDS || random.below(2) == 0;
        if looks && round == ROUNDS {
            // What is left is read by a machine without faults.
            trial.place.set_faults(Faults { seed, ..Faults::default() });
            trial.refuses = false;
        }
        if looks {
            trial.live(Life { round: 2 * round + 1, ..Life::default() }, &mut violations)?;
        }
        if !violations.is_empty() {
            break;
        }
    }
    trial.marks.transactions = trial.ledger.acknowledged() as u64;
    Ok((violations, trial.marks))
}

impl Trial<'_> {
    /// One life of the machine.
    pub(super) fn live(&mut self, life: Life, violations: &mut Vec<String>) -> Result<(), SimError> {
        let Life { round, transactions, crash, falls, network, troubles, missing } = life;
        let seed = self.task.seed.wrapping_mul(31).wrapping_add(round);
        let longest = if troubles.is_some() { NANOS_MAX_TROUBLED } else { NANOS_MAX };
        let config = Config { time_limit: Some(Nanos(longest)), falls, network, ..self.place.life(seed) };
        let config = match crash {
            Some(crash) => config.crashing(crash),
            None => config,
        };
        let plan = Plan {
            seed,
            durability: self.durability,
            protocol: self.rules,
            in_flight: 1 + (self.task.seed % 4) as usize,
            epoch_nanos: EPOCH_NANOS,
            missing,
            troubles,
            transaction_nanos_max: Some(transaction_nanos_max(true)),
            ..Plan::new(self.scheme, Length::Transactions(transactions))
        };
        self.ledger.round.store(round, Ordering::Relaxed);
        let (ledger, deployment, looks) = (&self.ledger, &self.place.deployment, AtomicU64::new(0));
        let is_long = || looks.fetch_add(1, Ordering::Relaxed) > LOOKS_MAX;
        let mut control = Control::NONE;
        if plan.troubles.is_some() {
            control.stop_requested = &is_long;
        }
        let ran = VirtualMachine::run(&config, |c| {
            let inline = driver::dynamic::<VirtualMachine, _>;
            driver::run_and_inspect(c, ledger, &plan, deployment, control, inline, |_, _| ())
        });
        match ran {
            Ok(outcome) => {
                let FaultCounts { falls, cuts, delays, losses, duplicates } = outcome.statistics.faults;
                let deaths = falls;
                self.marks.injected.add(Injected {
                    deaths,
                    cuts,
                    delays,
                    losses,
                    duplicates,
                    ..Injected::default()
                });
                let refused = self.refuses && outcome.value.is_err();
                if !refused {
                    self.ended(round, outcome.value, violations);
                    self.ledger.closed();
                }
            }
            Err(SimError::Crashed { .. }) => self.marks.injected.crashes += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn ended(&mut self, round: u64, measured: Result<Measurement, RunError>, violations: &mut Vec<String>) {
        let mut violated = |what: String| violations.push(format!("life {round}: {what}"));
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => return violated(error.to_string()),
        };
        for (name, check) in &measured.checks {
            if let Check::Violated(what) = check {
                violated(format!("{name}: {what}"));
            }
        }
        if measured.messages_amiss != 0 {
            violated(format!("{} messages amiss", measured.messages_amiss));
        }
        self.marks.losses += measured.losses;
        self.marks.refused += measured.refused;
        let TroublesMet { cuts, delays, echoes, away_max, .. } = measured.troubles;
        let together = u64::from(away_max > 1);
        self.marks.injected.add(Injected { cuts, delays, echoes, together, ..Injected::default() });
        for returned in measured.returned {
            self.marks.returned += 1;
            self.marks.adopted += returned.in_doubt;
        }
        if let Some(recovered) = measured.recovered {
            self.marks.in_doubt += recovered.in_doubt;
            self.marks.committed += recovered.in_doubt_committed;
        }
    }
}
