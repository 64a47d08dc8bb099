//! A run of durable instances on separate machines. An instance may end while the others continue,
//! and come back to them.
//!
//! An instance that is started again reports the content of its directory and connects to all
//! others, and its workers resolve with theirs the transactions in doubt. If several instances are
//! missing, they come back together. When the time is over the instances no longer wait for a
//! missing one.

use crate::context::Context;
use crate::control::Sample;
use crate::error::RunError;
use crate::measurement::memory_figures::MemoryTaken;
use crate::run::transactions::seconds_of;
use crate::workers::membership::{Found, Membership};
use crate::workers::opening::LogGrowth;
use crate::workers::worker::WorkerResult;

use super::arrivals::warn;
use super::crew::{Crew, Event};
use super::messages::{Order, Report};

/// The reason for refusing an instance that comes back too late.
const TOO_LATE: &str = "the time is over";

/// The stage of an instance.
enum InstanceStage {
    Runs,
    Ran(Vec<WorkerResult>),
    Missing,
    Opens,
    /// The instance waits for the other missing ones.
    Ready,
    Connects,
}

/// Sends the others the endpoints of the instances that have come back, once none is missing.
fn introduce(crew: &mut Crew<'_>, stages: &mut [InstanceStage], endpoints: &[String]) {
    if stages.iter().any(|stage| matches!(stage, InstanceStage::Missing | InstanceStage::Opens)) {
        return;
    }
    for instance in 0..stages.len() {
        if !matches!(stages[instance], InstanceStage::Ready) {
            continue;
        }
        for other in (0..stages.len()).filter(|other| matches!(stages[*other], InstanceStage::Runs)) {
            crew.send(other, &Order::ConnectReturned { instance, endpoint: endpoints[instance].clone() });
        }
        crew.send(instance, &Order::Connect(endpoints.to_vec()));
    }
    let ready = stages.iter_mut().filter(|stage| matches!(stage, InstanceStage::Ready));
    ready.for_each(|stage| *stage = InstanceStage::Connects);
}

/// The reason for refusing an instance that has come back with other data; `None` if it belongs to
/// the deployment.
fn refusal(found: &Found, number: usize, count: usize, owners: u32) -> Option<String> {
    let is_own = |membership: Membership| {
        let Membership { instance, instances, .. } = membership;
        (usize::from(instance), usize::from(instances), membership.owners) == (number, count, owners)
    };
    let fits = found.is_loaded && found.membership.is_some_and(is_own);
    (!fits).then(|| format!("{}: does not hold the data that instance {number} had", found.path.display()))
}

/// Results of all workers by their numbers, the memory they took, and the work of all logs.
pub(crate) struct Ran {
    pub(crate) results: Vec<WorkerResult>,
    pub(crate) memory: MemoryTaken,
    pub(crate) log: Option<LogGrowth>,
}

/// Lets all workers run; returns the results of each in its last life.
pub(crate) fn work(
    cx: Context<'_>,
    crew: &mut Crew<'_>,
    mut endpoints: Vec<String>,
    owners: u32,
    begin: &dyn Fn(usize) -> Order,
) -> Result<Ran, RunError> {
    let progress = cx.control.progress;
    let count = endpoints.len();
    progress.running(seconds_of(cx.plan.length));
    crew.send_to_all(&Order::Run);
    let mut stages: Vec<InstanceStage> = (0..count).map(|_| InstanceStage::Runs).collect();
    let (mut samples, mut returned) = (vec![None::<Sample>; count], vec![false; count]);
    let (mut logs, mut memory_taken, mut is_announced) = (Vec::new(), MemoryTaken::default(), false);
    let is_done = |stage: &InstanceStage| matches!(stage, InstanceStage::Ran(_));
    loop {
        let is_missing = stages.iter().any(|stage| matches!(stage, InstanceStage::Missing));
        let all_done = stages.iter().all(|stage| is_done(stage) || matches!(stage, InstanceStage::Missing));
        if all_done && (!is_missing || is_announced) {
            break;
        }
        // Instances that run since the beginning report when the time is over.
        let from_the_beginning =
            |number: &usize| !returned[*number] && matches!(stages[*number], InstanceStage::Runs);
        let mut left = (0..count).filter(from_the_beginning);
        let is_over = left.all(|number| samples[number].is_some_and(|sample| sample.seconds_left <= 0.0));
        if (is_over || crew.stopping()) && !is_announced {
            is_announced = true;
            for number in 0..count {
                if returned[number] {
                    crew.send(number, &Order::Stop);
                }
                if matches!(stages[number], InstanceStage::Opens | InstanceStage::Ready) {
                    crew.send(number, &Order::Refuse(TOO_LATE.to_owned()));
                    continue;
                }
                if !stages.iter().all(|stage| matches!(stage, InstanceStage::Runs | InstanceStage::Ran(_))) {
                    crew.send(number, &Order::GiveUp);
                }
            }
        }
        match crew.event()? {
            None => {}
            Some(Event::Back(number)) if is_announced => {
                crew.send(number, &Order::Refuse(TOO_LATE.to_owned()));
            }
            Some(Event::Back(number)) => {
                crew.send(number, &begin(number));
                stages[number] = InstanceStage::Opens;
            }
            Some(Event::Gone(number, why)) => {
                if is_done(&stages[number]) {
                    return Err(RunError::InstanceGone(format!("{}: {why}", crew.name(number))));
                }
                if !matches!(stages[number], InstanceStage::Missing) {
                    warn(format_args!(
                        "{}: {why}; the others refuse what needs it, until isles deploy --instance {number} brings it back",
                        crew.name(number)
                    ));
                }
                stages[number] = InstanceStage::Missing;
                samples[number] = None;
                if is_announced {
                    crew.send_to_all(&Order::GiveUp);
                }
            }
            Some(Event::Report(number, report)) => match (&stages[number], report) {
                (InstanceStage::Runs, Report::Progress(sample)) => {
                    samples[number] = Some(sample);
                    progress.tick(combined(samples.iter().flatten()));
                }
                (InstanceStage::Runs, Report::Ran { results, memory, log }) => {
                    if results.len() != cx.deployment.instances[number].workers.len() {
                        return Err(crew.unexpected(number));
                    }
                    memory_taken = memory_taken.and(memory);
                    logs.extend(log);
                    stages[number] = InstanceStage::Ran(results);
                }
                (InstanceStage::Opens, Report::Opened { found, .. }) => {
                    match refusal(&found, number, count, owners) {
                        Some(why) => crew.send(number, &Order::Refuse(why)),
                        None => crew.send(number, &Order::Return),
                    }
                }
                (InstanceStage::Opens, Report::Loaded(_)) => {}
                (InstanceStage::Opens, Report::Ready { endpoint, .. }) => {
                    endpoints[number] = endpoint;
                    stages[number] = InstanceStage::Ready;
                    introduce(crew, &mut stages, &endpoints);
                }
                (InstanceStage::Connects, Report::Connected) => {
                    crew.send(number, &Order::Run);
                    crew.is_back(number);
                    warn(format_args!("{} is back", crew.name(number)));
                    returned[number] = true;
                    stages[number] = InstanceStage::Runs;
                }
                _ => return Err(crew.unexpected(number)),
            },
        }
    }
    let results = stages.into_iter().flat_map(|stage| match stage {
        InstanceStage::Ran(results) => results,
        _ => Vec::new(),
    });
    let log = logs.into_iter().reduce(LogGrowth::and);
    Ok(Ran { results: results.collect(), memory: memory_taken, log })
}

/// Combines the samples of all instances.
pub(crate) fn combined<'a>(samples: impl Iterator<Item = &'a Sample>) -> Sample {
    let mut all = Sample { seconds_left: 0.0, throughput: 0.0, abort_ratio: 0.0 };
    let mut attempts = 0.0;
    for sample in samples {
        all.seconds_left = sample.seconds_left.max(all.seconds_left);
        all.throughput += sample.throughput;
        // If all attempts abort, their number is unknown.
        attempts += sample.throughput / (1.0 - sample.abort_ratio).max(0.01);
    }
    if attempts > 0.0 {
        all.abort_ratio = 1.0 - (all.throughput / attempts).min(1.0);
    }
    all
}
