//! A trial of a durable deployment: boots of its machines over the same disks, one after another,
//! and counts of what happened in them.

use std::sync::atomic::{AtomicU64, Ordering};

use harness::{Control, Durability, Length, Measurement, Missing, Plan, RunError, TroubleCounts, Troubles};
use platform::Nanos;
use sim::{Config, Crash, DiskFaults, DiskModel, Fall, FaultCounts, NetworkFaults, SimError, VirtualMachine};
use terms::random::Random;

use super::cluster::Cluster;
use super::ledger::Ledger;
use super::machine::EPOCH_NANOS;
use crate::benchmark::violated_checks;
use crate::injected::Injected;
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, transaction_nanos_max};

/// Longest boot.
const NANOS_MAX: u64 = 2_000_000_000;
/// Longest boot in which one instance crashes or connections break: a faulty protocol waits that
/// long.
const NANOS_MAX_TROUBLED: u64 = 400_000_000;
/// The main thread polls such a boot every 5 us and ends the run after this many polls: workers
/// then begin no transaction, and give up conflicting ones. With few rows and a slow disk,
/// transactions can conflict again and again.
const POLLS_MAX: u64 = 30_000;

/// Counts of the events under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeploymentMarks {
    /// Counts of injected faults.
    pub injected: Injected,
    /// Branches in doubt that were resolved.
    pub in_doubt: u64,
    /// Committed branches among them.
    pub committed: u64,
    /// Transactions that were there in the end.
    pub transactions: u64,
    /// Instances that crashed while the others ran, and returned.
    pub returned: u64,
    /// Branches in doubt that they found.
    pub adopted: u64,
    /// Links that were lost, counted at each end.
    pub losses: u64,
    /// Transactions that were refused because an instance was missing.
    pub refused: u64,
}

impl DeploymentMarks {
    /// Adds the counts of another trial.
    pub fn add(&mut self, other: DeploymentMarks) {
        let DeploymentMarks {
            injected,
            in_doubt,
            committed,
            transactions,
            returned,
            adopted,
            losses,
            refused,
        } = other;
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

/// One boot of the machines.
#[derive(Default)]
pub(super) struct Boot {
    /// The number of the boot.
    pub round: u64,
    /// Transactions of each worker.
    pub transactions: u64,
    pub crash: Option<Crash>,
    /// Crashes of instances.
    pub falls: Vec<Fall>,
    /// Faults of the network between machines.
    pub network: NetworkFaults,
    pub troubles: Option<Troubles>,
    pub missing: Missing,
}

/// Parameters and state that all boots of a deployment share.
pub(super) struct DeploymentTrial<'a> {
    pub driven: Driven,
    pub task: &'a Task<'a>,
    pub faults: terms::Faults,
    /// Duplicate one in this many messages between instances (0: never).
    pub duplicate_one_in: u32,
    pub durability: Durability,
    pub cluster: Cluster,
    pub ledger: Ledger,
    /// True if the disks may refuse operations.
    pub may_refuse: bool,
    pub marks: DeploymentMarks,
}

/// A scenario of faults of a deployment's machines, drawn from a seed. Campaigns run it, and tests
/// directly.
#[derive(Clone, Copy)]
pub struct Scenario(pub(super) RunScenario);

/// Runs a scenario in which these faults are planted. Returns violations, and counts of events.
type RunScenario = fn(Driven, &Task<'_>, terms::Faults) -> Result<(Vec<String>, DeploymentMarks), SimError>;

impl Scenario {
    /// Runs a task of a campaign.
    pub(crate) fn run(self, driven: Driven, task: &Task<'_>) -> Result<Observed, SimError> {
        let (violations, marks) = self.0(driven, task, terms::Faults::NONE)?;
        let DeploymentMarks { transactions, injected, .. } = marks;
        Ok(Observed { transactions, violations, injected, ..Observed::default() })
    }

    /// Runs a trial of a scheme in which these faults are planted. Returns violations, and
    /// counts of events.
    ///
    /// # Errors
    /// The machine cannot run.
    pub fn violations(
        self,
        driven: impl Into<Driven>,
        seed: u64,
        planted: terms::Faults,
    ) -> Result<(Vec<String>, DeploymentMarks), SimError> {
        let (work, machine) = (Work::Islands, &Machine::Small);
        self.0(
            driven.into(),
            &Task { work, machine, workers: work.workers(seed), seed, partitioned: false },
            planted,
        )
    }
}

/// Draws the disk of a deployment's machines, and its faults.
pub(super) fn draw_disk(random: &mut Random, seed: u64) -> (DiskModel, DiskFaults) {
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME][random.below(3) as usize];
    (model, DiskFaults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..DiskFaults::default() })
}

/// Draws the moment at which machines with this disk crash.
pub(super) fn draw_crash(random: &mut Random, model: DiskModel) -> Crash {
    let longest = 600_000 + 60 * model.flush_nanos;
    match random.below(3) {
        0 => Crash::At(Nanos(random.below(longest))),
        1 => Crash::DiskOperation(1 + random.below(200)),
        _ => Crash::Event(1 + random.below(60_000)),
    }
}

/// Draws the durability of transactions.
pub(super) fn draw_durability(random: &mut Random) -> Durability {
    [Durability::Group, Durability::Group, Durability::Sync, Durability::Async][random.below(4) as usize]
}

impl<'a> DeploymentTrial<'a> {
    /// A trial before its first boot.
    pub(super) fn new(
        driven: Driven,
        task: &'a Task<'a>,
        faults: terms::Faults,
        durability: Durability,
        cluster: Cluster,
        workers: usize,
    ) -> Self {
        let ledger = Ledger::new(workers as u16, durability != Durability::Async);
        DeploymentTrial {
            driven,
            task,
            faults,
            duplicate_one_in: 0,
            durability,
            cluster,
            ledger,
            may_refuse: false,
            marks: DeploymentMarks::default(),
        }
    }

    /// Runs one boot of the machines.
    pub(super) fn boot(&mut self, boot: Boot, violations: &mut Vec<String>) -> Result<(), SimError> {
        let Boot { round, transactions, crash, falls, network, troubles, missing } = boot;
        let seed = self.task.seed.wrapping_mul(31).wrapping_add(round);
        let longest = if troubles.is_some() { NANOS_MAX_TROUBLED } else { NANOS_MAX };
        let config =
            Config { time_limit: Some(Nanos(longest)), falls, network, ..self.cluster.boot_config(seed) };
        let config = match crash {
            Some(crash) => config.crashing(crash),
            None => config,
        };
        let plan = Plan {
            seed,
            durability: self.durability,
            duplicate_one_in: self.duplicate_one_in,
            faults: self.faults,
            in_flight: 1 + (self.task.seed % 4) as usize,
            epoch_nanos: EPOCH_NANOS,
            missing,
            troubles,
            transaction_nanos_max: Some(transaction_nanos_max(true)),
            engine: self.driven.engine,
            ..Plan::new(self.driven.scheme, Length::Transactions(transactions))
        };
        self.ledger.round.store(round, Ordering::Relaxed);
        let (ledger, deployment, polls) = (&self.ledger, &self.cluster.deployment, AtomicU64::new(0));
        let is_long = || polls.fetch_add(1, Ordering::Relaxed) > POLLS_MAX;
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
                let refused = self.may_refuse && outcome.value.is_err();
                if !refused {
                    self.check_end(round, outcome.value, violations);
                    self.ledger.closed();
                }
            }
            Err(SimError::Crashed { .. }) => self.marks.injected.crashes += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn check_end(
        &mut self,
        round: u64,
        measured: Result<Measurement, RunError>,
        violations: &mut Vec<String>,
    ) {
        let mut violated = |what: String| violations.push(format!("life {round}: {what}"));
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => return violated(error.to_string()),
        };
        violated_checks(measured.checks).into_iter().for_each(&mut violated);
        if measured.messages_amiss != 0 {
            violated(format!("{} messages amiss", measured.messages_amiss));
        }
        self.marks.losses += measured.losses;
        self.marks.refused += measured.refused;
        let TroubleCounts { cuts, delays, echoes, away_max, .. } = measured.troubles;
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
