//! Crashes of a machine with a durable database whose workers own partitions, several times over
//! the same disk.
//!
//! Transactions write in the partitions of several owners; the record of a commit names the
//! branches of all. After a crash each of them has to be there as a whole, or not at all: the rules
//! are those of `ledger`, in which each worker's site is a partition. In half of the runs
//! partitions are split, merged and moved meanwhile.

use std::sync::atomic::Ordering;

use harness::{Check, Control, Durability, Length, Measurement, Plan, RunError};
use platform::Nanos;
use sim::{Config, Crash, Disk, DiskModel, Faults, SimError, VirtualMachine};
use terms::random::Random;

use super::ledger::Ledger;
use super::lives::draw_durability;
use crate::benchmark::{owners_deployment, owners_execution};
use crate::injected::Injected;
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, owners_nanos_max};

/// Lives of the machine that end in a crash.
const ROUNDS: u64 = 5;
/// Transactions of each worker between two boots.
const TRANSACTIONS: u64 = 30;
/// No life is as long as this.
const NANOS_MAX: u64 = 20_000_000_000;
/// What is wrong after a trial in which these rules are broken, and how many transactions are
/// there.
///
/// # Errors
/// The machine cannot run.
pub fn violations(seed: u64, broken: (dora::Broken, pages::Broken)) -> Result<(Vec<String>, u64), SimError> {
    let (work, machine) = (Work::Owners, &Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: false };
    let Observed { violations, transactions, .. } = run(Driven::PAGES, &task, broken)?;
    Ok((violations, transactions))
}

/// Runs the task in which these rules are broken.
pub(crate) fn run(
    driven: Driven,
    task: &Task<'_>,
    broken: (dora::Broken, pages::Broken),
) -> Result<Observed, SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 41);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME][random.below(3) as usize];
    let faults = Faults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..Faults::default() };
    let disk = Disk::new(model, faults);
    let durability = draw_durability(&mut random);
    let ledger = Ledger::new(task.workers as u16, durability != Durability::Async);
    let mut observed = Observed::default();
    for round in 0..=2 * ROUNDS {
        // The first life loads; of the others every second one only looks.
        let crashes = round % 2 == 1;
        let longest = 600_000 + 60 * model.flush_nanos;
        let crash = match random.below(3) {
            0 => Crash::At(Nanos(random.below(longest))),
            1 => Crash::DiskOperation(1 + random.below(200)),
            _ => Crash::Event(1 + random.below(60_000)),
        };
        let life_seed = seed.wrapping_mul(31).wrapping_add(round);
        let config = task.machine.config(task).with_seed(life_seed).with_disk(&disk);
        let config = Config { time_limit: Some(Nanos(NANOS_MAX)), ..config };
        let config = if crashes { config.crashing(crash) } else { config };
        let plan = Plan {
            seed: life_seed,
            durability,
            engine: driven.engine,
            execution: owners_execution(seed),
            owners_broken: broken.0,
            restless: seed / 2 % 2 == 1,
            pages_broken: broken.1,
            transaction_nanos_max: Some(owners_nanos_max(true)),
            ..Plan::new(driven.scheme, Length::Transactions(if crashes { TRANSACTIONS } else { 0 }))
        };
        ledger.round.store(round, Ordering::Relaxed);
        let deployment = owners_deployment(task.workers);
        let ran = VirtualMachine::run(&config, |c| {
            let inline = harness::dynamic::<VirtualMachine, _>;
            harness::run_and_inspect(c, &ledger, &plan, &deployment, Control::NONE, inline, |_, _| ())
        });
        match ran {
            Ok(outcome) => {
                let wrong = wrong(outcome.value);
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

/// What is wrong after a life that did not crash.
fn wrong(measured: Result<Measurement, RunError>) -> Vec<String> {
    match measured {
        Ok(measured) => {
            let violated = |(name, check): (String, Check)| match check {
                Check::Violated(what) => Some(format!("{name}: {what}")),
                Check::Ok | Check::NotApplicable(_) => None,
            };
            measured.checks.into_iter().filter_map(violated).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}
