//! Lives of the machines of a durable deployment over the same disks, one after the other, and what
//! happened in them.

use std::sync::atomic::{AtomicU64, Ordering};

use harness::{
    Check, Control, Durability, Length, Measurement, Missing, Plan, RunError, Troubles, TroublesMet,
};
use platform::Nanos;
use sim::{Config, Crash, Fall, FaultCounts, NetworkFaults, SimError, VirtualMachine};
use terms::random::Random;

use super::ledger::Ledger;
use super::machine::EPOCH_NANOS;
use super::places::Place;
use crate::injected::Injected;
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, transaction_nanos_max};

pub use harness::Rules;

/// No life is as long as this.
const NANOS_MAX: u64 = 2_000_000_000;
/// The same where one instance crashes, or connections break: a protocol that goes wrong waits so
/// long.
const NANOS_MAX_TROUBLED: u64 = 400_000_000;
/// So often does the main thread look at such a life, each 5 us, before it ends the run: then
/// workers begin nothing any more, and give up what has met others. With few rows and a slow disk,
/// transactions can meet each other again and again.
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

/// What all lives of a deployment have in common.
pub(super) struct Lives<'a> {
    pub driven: Driven,
    pub task: &'a Task<'a>,
    pub rules: Rules,
    pub durability: Durability,
    pub place: Place,
    pub ledger: Ledger,
    /// True if the disks may refuse.
    pub refuses: bool,
    pub marks: Marks,
}

/// What befalls the machines of a deployment, drawn from a seed: in trials of campaigns, and by
/// itself.
#[derive(Clone, Copy)]
pub struct Story(pub(super) RunOn);

/// Runs a story in which the protocol has these rules: what is wrong after it, and what happened.
type RunOn = fn(Driven, &Task<'_>, Rules) -> Result<(Vec<String>, Marks), SimError>;

impl Story {
    /// Runs a task of a campaign.
    pub(crate) fn run(self, driven: Driven, task: &Task<'_>) -> Result<Observed, SimError> {
        let (violations, marks) = self.0(driven, task, Rules::SOUND)?;
        let Marks { transactions, injected, .. } = marks;
        Ok(Observed { transactions, violations, injected, ..Observed::default() })
    }

    /// What is wrong after a trial of a scheme in which the protocol has these rules, and what
    /// happened.
    ///
    /// # Errors
    /// The machine cannot run.
    pub fn violations(
        self,
        driven: impl Into<Driven>,
        seed: u64,
        rules: Rules,
    ) -> Result<(Vec<String>, Marks), SimError> {
        let (work, machine) = (Work::Islands, &Machine::Small);
        self.0(
            driven.into(),
            &Task { work, machine, workers: work.workers(seed), seed, partitioned: false },
            rules,
        )
    }
}

/// How durable transactions are.
pub(super) fn draw_durability(random: &mut Random) -> Durability {
    [Durability::Group, Durability::Group, Durability::Sync, Durability::Async][random.below(4) as usize]
}

impl<'a> Lives<'a> {
    /// Before its first life.
    pub(super) fn new(
        (driven, task, rules): (Driven, &'a Task<'a>, Rules),
        durability: Durability,
        place: Place,
        workers: usize,
    ) -> Self {
        let ledger = Ledger::new(workers as u16, durability != Durability::Async);
        Lives { driven, task, rules, durability, place, ledger, refuses: false, marks: Marks::default() }
    }

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
            engine: self.driven.engine,
            ..Plan::new(self.driven.scheme, Length::Transactions(transactions))
        };
        self.ledger.round.store(round, Ordering::Relaxed);
        let (ledger, deployment, looks) = (&self.ledger, &self.place.deployment, AtomicU64::new(0));
        let is_long = || looks.fetch_add(1, Ordering::Relaxed) > LOOKS_MAX;
        let mut control = Control::NONE;
        if plan.troubles.is_some() {
            control.stop_requested = &is_long;
        }
        let ran = VirtualMachine::run(&config, |c| {
            let inline = harness::dynamic::<VirtualMachine, _>;
            harness::run_and_inspect(c, ledger, &plan, deployment, control, inline, |_, _| ())
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
