//! Crashes of a machine, or of several at the same moment, with a durable deployment of several
//! instances, which restarts several times over the same disks.
//!
//! A crash happens at any moment, also while instances open and resolve branches in doubt. `ledger`
//! states what has to be there afterwards, over all instances.

use sim::{DiskFaults, SimError};
use terms::random::Random;

use super::cluster::Cluster;
use super::deployment_trial::{
    Boot, DeploymentMarks, DeploymentTrial, Scenario, draw_crash, draw_disk, draw_durability,
};
use crate::subject::Driven;
use crate::task::Task;

/// Boots that end in a crash.
const ROUNDS: u64 = 5;
/// Transactions of each worker in a boot.
const TRANSACTIONS: u64 = 30;

/// Crashes of all machines at the same moment.
pub const SCENARIO: Scenario = Scenario(run_on);

fn run_on(
    driven: Driven,
    task: &Task<'_>,
    planted: terms::Faults,
) -> Result<(Vec<String>, DeploymentMarks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 40);
    let (model, faults) = draw_disk(&mut random, seed);
    let durability = draw_durability(&mut random);
    let workers = task.workers.min(3 + random.below(2) as usize);
    let cluster = match random.below(4) {
        0 => Cluster::of_several_machines(&mut random, task, workers)?,
        _ => Cluster::of_one_machine(&mut random, task, workers),
    };
    let mut trial =
        DeploymentTrial::new(driven, task, planted, durability, cluster.with_disks(model, faults), workers);
    let mut violations = Vec::new();
    // The first boot loads the data.
    trial.boot(Boot::default(), &mut violations)?;
    trial.may_refuse = random.below(4) == 0;
    let flush_failure_one_in = if trial.may_refuse { 12 + 20 * random.below(3) } else { 0 };
    trial.cluster.set_faults(DiskFaults { flush_failure_one_in, ..faults });
    for round in 1..=ROUNDS {
        let crash = draw_crash(&mut random, model);
        let boot =
            Boot { round: 2 * round, transactions: TRANSACTIONS, crash: Some(crash), ..Boot::default() };
        trial.boot(boot, &mut violations)?;
        // One crash in four ends only the processes.
        if random.below(4) > 0 {
            trial.cluster.lose_power();
        }
        let checks = round == ROUNDS || random.below(2) == 0;
        if checks && round == ROUNDS {
            // The last boot reads the disks without faults.
            trial.cluster.set_faults(DiskFaults { seed, ..DiskFaults::default() });
            trial.may_refuse = false;
        }
        if checks {
            trial.boot(Boot { round: 2 * round + 1, ..Boot::default() }, &mut violations)?;
        }
        if !violations.is_empty() {
            break;
        }
    }
    trial.marks.transactions = trial.ledger.acknowledged() as u64;
    Ok((violations, trial.marks))
}
