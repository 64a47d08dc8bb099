//! Crashes of some instances of a durable deployment while the others run, and their return: one
//! instance, two at the same moment, one and later another or the same again, or all on one of
//! several machines. Also: connections that break and are restored, and connections that are slower
//! than others, so that messages of different pairs overtake each other. Between several machines,
//! also: partitions of the network between two machines, and messages that are lost, or delivered
//! twice, which TCP repairs. After a loss the protocol itself repeats messages, which then arrive
//! twice.
//!
//! An instance crashes at any event of its workers, so at each step of the protocol. Its directory
//! keeps what was flushed, or what its processes had written to the operating system. Each boot
//! ends in order, and then nothing may be in doubt: a worker leaves when all its decisions are
//! acknowledged, and a branch whose decision is unknown keeps its worker. So the next boot, which
//! opens all instances together, must find nothing to resolve. `ledger` states what has to be
//! there.

use harness::{Deployment, Missing, Transport, Troubles};
use platform::Nanos;
use sim::{Cut, DiskFaults, DiskModel, Fall, NetworkFaults, SimError};
use terms::random::Random;

use super::cluster::Cluster;
use super::deployment_trial::{Boot, DeploymentMarks, DeploymentTrial, Scenario, draw_durability};
use crate::subject::Driven;
use crate::task::Task;

/// Boots with faults.
const ROUNDS: u64 = 2;
/// Transactions of each worker in a boot.
const TRANSACTIONS: u64 = 24;
/// An instance crashes after at most this many events of its workers.
const EVENTS_MAX: u64 = 12_000;
/// The same between machines, where workers wait more than they work.
const EVENTS_MAX_APART: u64 = 3_000;
/// Latest begin and longest duration of a partition of the network between two machines.
const CUT_AT_MAX: u64 = 3_000_000;
const CUT_NANOS_MAX: u64 = 600_000;
/// Longest additional delay of a slow connection.
const DELAY_NANOS_MAX: u64 = 60_000;
/// Time after which TCP retransmits a lost message: shorter than in practice, for the same order of
/// events in less time.
const AGAIN_NANOS: u64 = 200_000;
/// Longest time that a crashed instance is down.
const AWAY_NANOS_MAX: u64 = 400_000;

/// Crashes of some instances while the others run.
pub const SCENARIO: Scenario = Scenario(run_on);

/// Instances that crash and connections that break in a boot.
struct CrashPlan {
    falls: Vec<Fall>,
    /// True if all instances of one machine crash.
    machine: bool,
    /// Number of connections that break.
    cuts: u64,
}

/// Draws the instances that crash, and the number of connections that break.
fn draw_crashes(random: &mut Random, cluster: &Cluster) -> CrashPlan {
    let instances = cluster.deployment.instances.len() as u64;
    let is_apart = cluster.deployment.machines() > 1;
    let most = if is_apart { EVENTS_MAX_APART } else { EVENTS_MAX };
    let one = random.below(instances) as u16;
    let other = (one + 1 + random.below(instances - 1) as u16) % instances as u16;
    let scenario = random.below(8);
    let mut fall = |instances: &[u16]| {
        let crews = instances.iter().map(|instance| instance + 1).collect();
        Fall { crews, event: 1 + random.below(most) }
    };
    let (machine, falls, cuts) = match scenario {
        0 => (false, Vec::new(), 6),
        1 | 2 => (false, vec![fall(&[one])], 0),
        3 => (false, vec![fall(&[one])], 2),
        4 => (false, vec![fall(&[one, other])], 0),
        5 => (false, vec![fall(&[one, other]), fall(&[one])], 1),
        6 => (false, vec![fall(&[one]), fall(&[one]), fall(&[other])], 0),
        _ if is_apart => {
            let machine = cluster.deployment.instances[usize::from(one)].machine;
            let all: Vec<u16> = cluster.instances_on(machine).into_iter().map(|one| one as u16).collect();
            (true, vec![fall(&all)], 0)
        }
        _ => (false, vec![fall(&[one]), fall(&[other])], 0),
    };
    CrashPlan { falls, machine, cuts }
}

/// Draws the faults of the network between machines.
fn draw_network_faults(random: &mut Random, machines: u64) -> NetworkFaults {
    if machines < 2 {
        return NetworkFaults::default();
    }
    let mut cut = || {
        let one = random.below(machines);
        let other = (one + 1 + random.below(machines - 1)) % machines;
        let at = random.below(CUT_AT_MAX);
        let until = Nanos(at + 1 + random.below(CUT_NANOS_MAX));
        Cut { machines: [one as u16, other as u16], at: Nanos(at), until }
    };
    let cuts = [cut(), cut(), cut()];
    let cuts = cuts[..[0, 0, 1, 3][random.below(4) as usize]].to_vec();
    NetworkFaults {
        delay_max: Nanos([0, DELAY_NANOS_MAX][random.below(2) as usize]),
        loss_one_in: [0, 0, 100][random.below(3) as usize],
        again_after: Nanos(AGAIN_NANOS),
        duplicate_one_in: [0, 30][random.below(2) as usize],
        cuts,
    }
}

fn run_on(
    driven: Driven,
    task: &Task<'_>,
    planted: terms::Faults,
) -> Result<(Vec<String>, DeploymentMarks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 42);
    let model = [DiskModel::RAM, DiskModel::NVME][random.below(2) as usize];
    let faults =
        DiskFaults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..DiskFaults::default() };
    let durability = draw_durability(&mut random);
    let workers = task.workers.min(3 + random.below(2) as usize);
    let mut cluster = match random.below(2) {
        0 => Cluster::of_several_machines(&mut random, task, workers)?,
        _ => Cluster::of_one_machine(&mut random, task, workers),
    };
    if cluster.deployment.machines() == 1 && random.below(3) == 0 {
        cluster.deployment = Deployment { transport: Transport::Tcp, ..cluster.deployment };
    }
    let duplicate_one_in = [0, 2, 5][random.below(3) as usize];
    let mut trial =
        DeploymentTrial::new(driven, task, planted, durability, cluster.with_disks(model, faults), workers);
    trial.duplicate_one_in = duplicate_one_in;
    let mut violations = Vec::new();
    // The first boot loads the data.
    trial.boot(Boot::default(), &mut violations)?;
    for round in 1..=ROUNDS {
        boot_with_faults(&mut trial, &mut random, round, &mut violations)?;
        if violations.is_empty() {
            let before = trial.marks.in_doubt;
            trial.boot(Boot { round: 2 * round + 1, ..Boot::default() }, &mut violations)?;
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

/// A boot with faults.
fn boot_with_faults(
    trial: &mut DeploymentTrial<'_>,
    random: &mut Random,
    round: u64,
    violations: &mut Vec<String>,
) -> Result<(), SimError> {
    let CrashPlan { falls, machine, cuts } = draw_crashes(random, &trial.cluster);
    let troubles = Troubles {
        seed: trial.task.seed.wrapping_mul(31).wrapping_add(round),
        cuts,
        delay_nanos_max: DELAY_NANOS_MAX,
        loses_power: machine || random.below(4) > 0,
        away_nanos_max: [1, AWAY_NANOS_MAX][random.below(2) as usize],
        in_turn: random.below(2) == 0,
    };
    let boot = Boot {
        round: 2 * round,
        transactions: TRANSACTIONS,
        falls,
        network: draw_network_faults(random, trial.cluster.deployment.machines() as u64),
        troubles: Some(troubles),
        missing: [Missing::Wait, Missing::Wait, Missing::Refuse][random.below(3) as usize],
        ..Boot::default()
    };
    let deaths = trial.marks.injected.deaths;
    // A wait without end lasts until the machine's time limit.
    match trial.boot(boot, violations) {
        Err(error @ (SimError::TimeLimit { .. } | SimError::Deadlock { .. })) => {
            violations.push(format!("life {}: nothing ends: {error}", 2 * round));
        }
        ended => ended?,
    }
    trial.marks.injected.machines += u64::from(machine && trial.marks.injected.deaths > deaths);
    Ok(())
}
