//! A durable deployment of which instances crash while the others run on, and come back: one, two
//! at one moment, one and later another or the same again, or all of one of several machines;
//! connections that break and are made again; and connections that take longer than others, so that
//! messages of different pairs overtake each other. Between several machines, besides: two machines
//! that are cut off from each other for a time, and messages that are lost, or come twice, and that
//! TCP sends again, or takes once. What the protocol itself repeats after a loss, it hears twice.
//!
//! An instance crashes at any event of its workers: that is at every step of the protocol. Its
//! directory keeps what was flushed, or what its processes had the operating system write. Each
//! life of the machine ends well, and then nothing may be in doubt: a worker leaves when everything
//! that it has decided is acknowledged, and a part whose end is not known keeps its worker. So the
//! next life, which opens all instances together, must find nothing to resolve. What has to be
//! there stands in `ledger`.

use harness::{Deployment, Missing, Rules, Transport, Troubles};
use platform::Nanos;
use sim::{Cut, DiskModel, Fall, Faults, NetworkFaults, SimError};
use terms::random::Random;

use super::lives::{Life, Lives, Marks, Story, draw_durability};
use super::places::Place;
use crate::subject::Driven;
use crate::task::Task;

/// Lives of the machine with troubles.
const ROUNDS: u64 = 2;
/// Transactions of each worker in a life.
const TRANSACTIONS: u64 = 24;
/// An instance crashes when its workers were resumed so many times, at most.
const EVENTS_MAX: u64 = 12_000;
/// The same between machines, where workers wait more than they work.
const EVENTS_MAX_APART: u64 = 3_000;
/// Machines are cut off from each other before this moment, after the beginning, for so long at
/// most.
const CUT_AT_MAX: u64 = 3_000_000;
const CUT_NANOS_MAX: u64 = 600_000;
/// Connections are slower than others by so much, at most.
const DELAY_NANOS_MAX: u64 = 60_000;
/// TCP sends again what was lost after this time: less than a real one takes, for the same order of
/// events in less time.
const AGAIN_NANOS: u64 = 200_000;
/// Instances that have crashed are away for so long at most.
const AWAY_NANOS_MAX: u64 = 400_000;

/// Instances that crash while the others run on.
pub const STORY: Story = Story(run_on);

/// What goes wrong in a life.
struct Plot {
    falls: Vec<Fall>,
    /// True if all instances of a machine crash.
    machine: bool,
    /// Connections that break.
    cuts: u64,
}

/// Draws who crashes, and how many connections break.
fn plot(random: &mut Random, place: &Place) -> Plot {
    let instances = place.deployment.instances.len() as u64;
    let is_apart = place.deployment.machines() > 1;
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
            let machine = place.deployment.instances[usize::from(one)].machine;
            let all: Vec<u16> = place.instances_on(machine).into_iter().map(|one| one as u16).collect();
            (true, vec![fall(&all)], 0)
        }
        _ => (false, vec![fall(&[one]), fall(&[other])], 0),
    };
    Plot { falls, machine, cuts }
}

/// Draws what goes wrong between machines.
fn network(random: &mut Random, machines: u64) -> NetworkFaults {
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

fn run_on(driven: Driven, task: &Task<'_>, rules: Rules) -> Result<(Vec<String>, Marks), SimError> {
    let seed = task.seed;
    let mut random = Random::new(seed, 42);
    let model = [DiskModel::RAM, DiskModel::NVME][random.below(2) as usize];
    let faults = Faults { seed, garbage_one_in: [0, 3][random.below(2) as usize], ..Faults::default() };
    let durability = draw_durability(&mut random);
    let workers = task.workers.min(3 + random.below(2) as usize);
    let mut place = match random.below(2) {
        0 => Place::several(&mut random, task, workers)?,
        _ => Place::one(&mut random, task, workers),
    };
    if place.deployment.machines() == 1 && random.below(3) == 0 {
        place.deployment = Deployment { transport: Transport::Tcp, ..place.deployment };
    }
    let rules = Rules { echo_one_in: [0, 2, 5][random.below(3) as usize], ..rules };
    let mut lives = Lives::new((driven, task, rules), durability, place.with_disks(model, faults), workers);
    let mut violations = Vec::new();
    // Loads.
    lives.live(Life::default(), &mut violations)?;
    for round in 1..=ROUNDS {
        in_trouble(&mut lives, &mut random, round, &mut violations)?;
        if violations.is_empty() {
            let before = lives.marks.in_doubt;
            lives.live(Life { round: 2 * round + 1, ..Life::default() }, &mut violations)?;
            let left = lives.marks.in_doubt - before;
            if left > 0 {
                violations.push(format!("life {}: {left} parts are in doubt at the end", 2 * round));
            }
        }
        if !violations.is_empty() {
            break;
        }
    }
    lives.marks.transactions = lives.ledger.acknowledged() as u64;
    Ok((violations, lives.marks))
}

/// A life with troubles.
fn in_trouble(
    lives: &mut Lives<'_>,
    random: &mut Random,
    round: u64,
    violations: &mut Vec<String>,
) -> Result<(), SimError> {
    let Plot { falls, machine, cuts } = plot(random, &lives.place);
    let troubles = Troubles {
        seed: lives.task.seed.wrapping_mul(31).wrapping_add(round),
        cuts,
        delay_nanos_max: DELAY_NANOS_MAX,
        loses_power: machine || random.below(4) > 0,
        away_nanos_max: [1, AWAY_NANOS_MAX][random.below(2) as usize],
        in_turn: random.below(2) == 0,
    };
    let life = Life {
        round: 2 * round,
        transactions: TRANSACTIONS,
        falls,
        network: network(random, lives.place.deployment.machines() as u64),
        troubles: Some(troubles),
        missing: [Missing::Wait, Missing::Wait, Missing::Refuse][random.below(3) as usize],
        ..Life::default()
    };
    let deaths = lives.marks.injected.deaths;
    // Whoever waits for ever, waits until the machine's time is over.
    match lives.live(life, violations) {
        Err(error @ (SimError::TimeLimit { .. } | SimError::Deadlock { .. })) => {
            violations.push(format!("life {}: nothing ends: {error}", 2 * round));
        }
        ended => ended?,
    }
    lives.marks.injected.machines += u64::from(machine && lives.marks.injected.deaths > deaths);
    Ok(())
}
