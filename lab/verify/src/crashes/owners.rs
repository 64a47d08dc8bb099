//! Crashes of a machine with a durable database whose workers own partitions, several times over
//! the same disk.
//!
//! Transactions write in the partitions of several owners; the record of a commit names the
//! branches of all, or has their changes, if rows are in memory. After a crash a transaction has to
//! be there as a whole, or not at all: the rules are those of `ledger`, in which each worker's site
//! is a partition. In half of the runs partitions are split, merged and moved meanwhile. Over rows
//! in memory checkpoints are made meanwhile in two thirds of the runs. In a third of the runs a
//! socket fails meanwhile: its workers serve the partitions that they own, until other workers own
//! them under the execution that adapts.

use std::sync::atomic::Ordering;

use harness::{Adaptation, Control, Durability, Execution, Failure, Length, Plan};
use platform::Nanos;
use sim::{Config, Disk, SimError, VirtualMachine};
use terms::random::Random;
use terms::{Fault, Faults};

use super::deployment_trial::{draw_crash, draw_disk, draw_durability};
use super::ledger::Ledger;
use super::machine::EPOCH_NANOS;
use crate::benchmark::{owners_deployment, owners_execution, violated_checks};
use crate::injected::Injected;
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, owners_nanos_max};

/// Boots that end in a crash.
const ROUNDS: u64 = 5;
/// Transactions of each worker in a boot.
const TRANSACTIONS: u64 = 30;
/// Longest boot.
const NANOS_MAX: u64 = 20_000_000_000;
/// Bytes of log that make a checkpoint due, over rows in memory.
const CHECKPOINT_BYTES: [Option<u64>; 3] = [None, Some(0), Some(4 << 10)];

/// In one of three runs a socket fails, in each life, soon after the beginning.
const SOCKET_FAILS: u64 = 3;
const FAILURE_NANOS: std::ops::Range<u64> = 1_000..200_000;
/// Interval of the controller that gives partitions of failed workers to others.
const INTERVAL_SECONDS: f64 = 0.000_05;

/// The length of epochs over rows in memory: many commits in each, in half of the runs.
fn epoch_nanos(seed: u64) -> u64 {
    if (seed / 8).is_multiple_of(2) { EPOCH_NANOS } else { 100 * EPOCH_NANOS }
}

fn fails(seed: u64) -> bool {
    seed % SOCKET_FAILS == 1
}

/// The failure of a socket, if one fails.
fn failure(seed: u64, random: &mut Random) -> Vec<Failure> {
    if !fails(seed) {
        return Vec::new();
    }
    let nanos = FAILURE_NANOS.start + random.below(FAILURE_NANOS.end - FAILURE_NANOS.start);
    vec![Failure { seconds: nanos as f64 * 1e-9, socket: random.below(2) as u32 }]
}

/// The adaptation that moves partitions away from a socket that fails.
fn adaptation(seed: u64) -> Option<Adaptation> {
    let adapts = fails(seed) && owners_execution(seed) == Execution::Atrapos;
    adapts.then(|| Adaptation::every(INTERVAL_SECONDS))
}

/// Runs a trial with these faults. Returns violations, and the number of transactions
/// that are there.
///
/// # Errors
/// The machine cannot run.
pub fn violations(driven: Driven, seed: u64, faults: Faults) -> Result<(Vec<String>, u64), SimError> {
    let (work, machine) = (Work::Owners, &Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: false };
    let Observed { violations, transactions, .. } = run(driven, &task, faults)?;
    Ok((violations, transactions))
}

/// Runs a task with these faults.
pub(crate) fn run(driven: Driven, task: &Task<'_>, faults: Faults) -> Result<Observed, SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 41);
    let (model, disk_faults) = draw_disk(&mut random, seed);
    let disk = Disk::new(model, disk_faults);
    let durability = draw_durability(&mut random);
    let ledger = Ledger::new(task.workers as u16, durability != Durability::Async).counting_all();
    // The mutant does not wait for the log.
    let is_early = faults.has(Fault::EarlyAcknowledgement);
    let waits = if is_early { Durability::Async } else { durability };
    let checkpoint_bytes = CHECKPOINT_BYTES[(seed / 4 % 3) as usize];
    let mut observed = Observed::default();
    for round in 0..=2 * ROUNDS {
        // The first boot loads; of the others every second one only checks.
        let crashes = round % 2 == 1;
        let crash = draw_crash(&mut random, model);
        let life_seed = seed.wrapping_mul(31).wrapping_add(round);
        let config = task.machine.config(task).with_seed(life_seed).with_disk(&disk);
        let config = Config { time_limit: Some(Nanos(NANOS_MAX)), ..config };
        let config = if crashes { config.crashing(crash) } else { config };
        let length = Length::Transactions(if crashes { TRANSACTIONS } else { 0 });
        let standard = Plan::new(driven.scheme, length);
        let plan = Plan {
            seed: life_seed,
            durability: waits,
            epoch_nanos: if driven.has_pages() { standard.epoch_nanos } else { epoch_nanos(seed) },
            checkpoint_bytes,
            engine: driven.engine,
            execution: owners_execution(seed),
            faults,
            restless: seed / 2 % 2 == 1,
            failures: failure(seed, &mut random),
            adaptation: adaptation(seed),
            transaction_nanos_max: Some(owners_nanos_max(true)),
            ..standard
        };
        ledger.round.store(round, Ordering::Relaxed);
        let deployment = owners_deployment(task.workers);
        let ran = VirtualMachine::run(&config, |c| {
            let inline = harness::dynamic::<VirtualMachine, _>;
            harness::run_and_inspect(c, &ledger, &plan, &deployment, Control::NONE, inline, |_, _| ())
        });
        match ran {
            Ok(outcome) => {
                let wrong = match outcome.value {
                    Ok(measured) => violated_checks(measured.checks),
                    Err(error) => vec![error.to_string()],
                };
                observed.violations.extend(wrong.into_iter().map(|what| format!("life {round}: {what}")));
                ledger.closed();
            }
            Err(SimError::Crashed { .. }) => {
                observed.injected.add(Injected { crashes: 1, ..Injected::default() })
            }
            Err(error) => return Err(error),
        }
        if crashes && random.below(4) > 0 {
            disk.lose_power();
        }
        if !observed.violations.is_empty() {
            break;
        }
    }
    observed.transactions = ledger.acknowledged() as u64;
    Ok(observed)
}
