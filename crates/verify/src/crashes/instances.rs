//! A durable deployment of which one instance crashes while the others run on, and comes back; connections that break and are made
//! again; and connections that take longer than others, so that messages of different pairs overtake each other.
//!
//! An instance crashes at any event of its workers: that is at every step of the protocol. Its directory keeps what was flushed, or
//! what its processes had the operating system write. Each life of the machine ends well, and then nothing may be in doubt:
//! a worker leaves when everything that it has decided is acknowledged, and a part whose end is not known keeps its worker.
//! So the next life, which opens all instances together, must find nothing to resolve. What has to be there stands in `ledger`.

use cc::SchemeName;
use driver::{Deployment, Durability, Missing, Rules, Transport, Troubles};
use sim::{Disk, DiskModel, Fall, Faults, SimError};
use workloads::Random;

use super::deployments::{self, Life, Marks, Trial};
use super::ledger::Ledger;
use crate::task::{Observed, Task};

/// Lives of the machine with troubles.
const ROUNDS: u64 = 2;
/// Transactions of each worker in a life.
const TRANSACTIONS: u64 = 24;
/// An instance crashes when its workers were resumed so many times, at most.
const EVENTS_MAX: u64 = 12_000;

/// Runs a task.
pub(crate) fn run(scheme: SchemeName, task: &Task<'_>) -> Result<Observed, SimError> {
    deployments::observed(scheme, task, run_on)
}

/// What is wrong after a trial of a scheme in which the protocol has these rules, and what happened.
///
/// # Errors
/// The machine cannot run.
pub fn violations(scheme: SchemeName, seed: u64, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    run_on(scheme, &deployments::task(seed), rules)
}

fn run_on(scheme: SchemeName, task: &Task<'_>, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 42);
    let model = [DiskModel::RAM, DiskModel::NVME][random.below(2) as usize];
    let faults = Faults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..Faults::default() };
    let durability =
        [Durability::Group, Durability::Group, Durability::Sync, Durability::Async][random.below(4) as usize];
    let workers = task.workers.min(3 + random.below(2) as usize);
    let mut deployment = deployments::deployment(&mut random, workers);
    if random.below(3) == 0 {
        deployment = Deployment { transport: Transport::Tcp, ..deployment };
    }
    let instances = deployment.instances.len() as u64;
    let mut trial = Trial {
        scheme,
        task,
        rules,
        durability,
        deployment,
        ledger: Ledger::new(workers as u16, durability != Durability::Async),
        disk: Disk::new(model, faults),
        refuses: false,
        marks: Marks::default(),
    };
    let mut violations = Vec::new();
    // Loads.
    trial.live(Life::default(), &mut violations)?;
    for round in 1..=ROUNDS {
        let (falls, cuts) = [(true, 0), (true, 2), (false, 6)][random.below(3) as usize];
        let (crew, event) = (1 + random.below(instances) as u16, 1 + random.below(EVENTS_MAX));
        let troubles = Troubles {
            seed: seed.wrapping_mul(31).wrapping_add(round),
            cuts,
            delay_nanos_max: 60_000,
            loses_power: random.below(4) > 0,
        };
        let life = Life {
            round: 2 * round,
            transactions: TRANSACTIONS,
            fall: falls.then_some(Fall { crew, event }),
            troubles: Some(troubles),
            missing: [Missing::Wait, Missing::Wait, Missing::Refuse][random.below(3) as usize],
            ..Life::default()
        };
        // Whoever waits for ever, waits until the machine's time is over.
        match trial.live(life, &mut violations) {
            Err(error @ (SimError::TimeLimit { .. } | SimError::Deadlock { .. })) => {
                violations.push(format!("life {}: nothing ends: {error}", 2 * round));
            }
            ended => ended?,
        }
        if violations.is_empty() {
            let before = trial.marks.in_doubt;
            trial.live(Life { round: 2 * round + 1, ..Life::default() }, &mut violations)?;
            let left = trial.marks.in_doubt - before;
            if left > 0 {
                violations.push(format!("life {}: {left} parts are in doubt at the end", 2 * round));
            }
        }
        if !violations.is_empty() {
            break;
        }
    }
    trial.marks.transactions = trial.ledger.acknowledged() as u64;
    Ok((violations, trial.marks))
}
