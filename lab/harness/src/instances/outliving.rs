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
use super::said::{Order, Word};

/// The reason for refusing an instance that comes back too late.
const TOO_LATE: &str = "the time is over";

/// The stage of an instance.
enum Stage {
    Runs,
    Ran(Vec<WorkerResult>),
    Missing,
    Opens,
    /// The instance waits for the other missing ones.
    Ready,
    Meets,
}

/// Sends the others the endpoints of the instances that have come back, once none is missing.
fn introduce(crew: &mut Crew<'_>, stages: &mut [Stage], endpoints: &[String]) {
    if stages.iter().any(|stage| matches!(stage, Stage::Missing | Stage::Opens)) {
        return;
    }
    for instance in 0..stages.len() {
        if !matches!(stages[instance], Stage::Ready) {
            continue;
        }
        for other in (0..stages.len()).filter(|other| matches!(stages[*other], Stage::Runs)) {
            crew.tell(other, &Order::Meet { instance, endpoint: endpoints[instance].clone() });
        }
        crew.tell(instance, &Order::Connect(endpoints.to_vec()));
    }
    let ready = stages.iter_mut().filter(|stage| matches!(stage, Stage::Ready));
    ready.for_each(|stage| *stage = Stage::Meets);
}

/// The reason for refusing an instance that has come back with other data; `None` if it belongs to
/// the deployment.
fn stranger(found: &Found, number: usize, count: usize, owners: u32) -> Option<String> {
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
    (mut endpoints, owners, begin): (Vec<String>, u32, &dyn Fn(usize) -> Order),
) -> Result<Ran, RunError> {
    let (progress, count) = (cx.control.progress, endpoints.len());
    progress.running(seconds_of(cx.plan.length));
    crew.tell_all(&Order::Run);
    let mut stages: Vec<Stage> = (0..count).map(|_| Stage::Runs).collect();
    let (mut samples, mut returned) = (vec![None::<Sample>; count], vec![false; count]);
    let (mut logs, mut memory_taken, mut is_told) = (Vec::new(), MemoryTaken::default(), false);
    let is_done = |stage: &Stage| matches!(stage, Stage::Ran(_));
    loop {
        let is_missing = stages.iter().any(|stage| matches!(stage, Stage::Missing));
        let all_done = stages.iter().all(|stage| is_done(stage) || matches!(stage, Stage::Missing));
        if all_done && (!is_missing || is_told) {
            break;
        }
        // Instances that run since the beginning report when the time is over.
        let from_the_beginning =
            |number: &usize| !returned[*number] && matches!(stages[*number], Stage::Runs);
        let mut left = (0..count).filter(from_the_beginning);
        let is_over = left.all(|number| samples[number].is_some_and(|sample| sample.seconds_left <= 0.0));
        if (is_over || crew.stopping()) && !is_told {
            is_told = true;
            for number in 0..count {
                if returned[number] {
                    crew.tell(number, &Order::Stop);
                }
                if matches!(stages[number], Stage::Opens | Stage::Ready) {
                    crew.tell(number, &Order::Refuse(TOO_LATE.to_owned()));
                    continue;
                }
                if !stages.iter().all(|stage| matches!(stage, Stage::Runs | Stage::Ran(_))) {
                    crew.tell(number, &Order::GiveUp);
                }
            }
        }
        match crew.event()? {
            None => {}
            Some(Event::Back(number)) if is_told => {
                crew.tell(number, &Order::Refuse(TOO_LATE.to_owned()));
            }
            Some(Event::Back(number)) => {
                crew.tell(number, &begin(number));
                stages[number] = Stage::Opens;
            }
            Some(Event::Gone(number, why)) => {
                if is_done(&stages[number]) {
                    return Err(RunError::InstanceGone(format!("{}: {why}", crew.name(number))));
                }
                if !matches!(stages[number], Stage::Missing) {
                    warn(format_args!(
                        "{}: {why}; the others refuse what needs it, until isles deploy --instance {number} brings it back",
                        crew.name(number)
                    ));
                }
                stages[number] = Stage::Missing;
                samples[number] = None;
                if is_told {
                    crew.tell_all(&Order::GiveUp);
                }
            }
            Some(Event::Said(number, word)) => match (&stages[number], word) {
                (Stage::Runs, Word::Goes(sample)) => {
                    samples[number] = Some(sample);
                    progress.tick(together(samples.iter().flatten()));
                }
                (Stage::Runs, Word::Ran { results, memory, log }) => {
                    if results.len() != cx.deployment.instances[number].workers.len() {
                        return Err(crew.senseless(number));
                    }
                    memory_taken = memory_taken.and(memory);
                    logs.extend(log);
                    stages[number] = Stage::Ran(results);
                }
                (Stage::Opens, Word::Opened { found, .. }) => match stranger(&found, number, count, owners) {
                    Some(why) => crew.tell(number, &Order::Refuse(why)),
                    None => crew.tell(number, &Order::Return),
                },
                (Stage::Opens, Word::Loaded(_)) => {}
                (Stage::Opens, Word::Ready { endpoint, .. }) => {
                    endpoints[number] = endpoint;
                    stages[number] = Stage::Ready;
                    introduce(crew, &mut stages, &endpoints);
                }
                (Stage::Meets, Word::Connected) => {
                    crew.tell(number, &Order::Run);
                    crew.is_back(number);
                    warn(format_args!("{} is back", crew.name(number)));
                    returned[number] = true;
                    stages[number] = Stage::Runs;
                }
                _ => return Err(crew.senseless(number)),
            },
        }
    }
    let results = stages.into_iter().flat_map(|stage| match stage {
        Stage::Ran(results) => results,
        _ => Vec::new(),
    });
    let log = logs.into_iter().reduce(LogGrowth::and);
    Ok(Ran { results: results.collect(), memory: memory_taken, log })
}

/// Combines the samples of all instances.
pub(crate) fn together<'a>(samples: impl Iterator<Item = &'a Sample>) -> Sample {
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
