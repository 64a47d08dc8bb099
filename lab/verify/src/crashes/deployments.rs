//! Crashes of a machine with a durable deployment of several instances, which is booted again,
//! several times over the same disk; or of several machines, all at one moment.
//!
//! Crashes come at any moment, also while instances are opened and transactions in doubt are
//! resolved. What has to be there afterwards, over all instances, stands in `ledger`.

use harness::Rules;
use platform::Nanos;
use sim::{Crash, DiskModel, Faults, SimError};
use terms::random::Random;

use super::lives::{Life, Lives, Marks, Story, draw_durability};
use super::places::Place;
use crate::subject::Driven;
use crate::task::Task;

/// Lives of the machine that end in a crash.
const ROUNDS: u64 = 5;
/// Transactions of each worker between two boots.
const TRANSACTIONS: u64 = 30;

/// Machines that crash as one.
pub const STORY: Story = Story(run_on);

fn run_on(driven: Driven, task: &Task<'_>, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 40);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME][random.below(3) as usize];
    let faults = Faults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..Faults::default() };
    let durability = draw_durability(&mut random);
    let workers = task.workers.min(3 + random.below(2) as usize);
    let place = match random.below(4) {
        0 => Place::several(&mut random, task, workers)?,
        _ => Place::one(&mut random, task, workers),
    };
    let mut lives = Lives::new((driven, task, rules), durability, place.with_disks(model, faults), workers);
    let mut violations = Vec::new();
    // Loads.
    lives.live(Life::default(), &mut violations)?;
    lives.refuses = random.below(4) == 0;
    let flush_failure_one_in = if lives.refuses { 12 + 20 * random.below(3) } else { 0 };
    lives.place.set_faults(Faults { flush_failure_one_in, ..faults });
    for round in 1..=ROUNDS {
        let longest = 600_000 + 60 * model.flush_nanos;
        let crash = match random.below(3) {
            0 => Crash::At(Nanos(random.below(longest))),
            1 => Crash::DiskOperation(1 + random.below(200)),
            _ => Crash::Event(1 + random.below(60_000)),
        };
        let life =
            Life { round: 2 * round, transactions: TRANSACTIONS, crash: Some(crash), ..Life::default() };
        lives.live(life, &mut violations)?;
        // One crash in four is that of the processes alone.
        if random.below(4) > 0 {
            lives.place.lose_power();
        }
        let looks = round == ROUNDS || random.below(2) == 0;
        if looks && round == ROUNDS {
            // What is left is read by a machine without faults.
            lives.place.set_faults(Faults { seed, ..Faults::default() });
            lives.refuses = false;
        }
        if looks {
            lives.live(Life { round: 2 * round + 1, ..Life::default() }, &mut violations)?;
        }
        if !violations.is_empty() {
            break;
        }
    }
    lives.marks.transactions = lives.ledger.acknowledged() as u64;
    Ok((violations, lives.marks))
}
