//! The counter experiment (Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2 and
//! figure 2): threads increment counters, each behind a latch, shared by all threads, by those of a
//! socket, or not at all. It shows what sharing costs across and within islands, without a
//! database.

use platform::{Nanos, Node, OutOfMemory, Place, Platform};
use storage::{LatchSeat, LatchedWord};

/// Operations between two looks at the clock.
const OPERATIONS_PER_LOOK: u64 = 8;

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterThread {
    /// Where it runs.
    pub place: Place,
    /// The memory node of its place in the queue; `None`: where the thread runs.
    pub node: Option<Node>,
    /// Number of the counter that it increments.
    pub group: usize,
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterSpec {
    /// The threads, at least one.
    pub threads: Vec<CounterThread>,
    /// The memory node of each counter; `None`: where the caller runs.
    pub counters: Vec<Option<Node>>,
    /// Duration.
    pub nanos: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterResult {
    /// Increments of each thread.
    pub operations: Vec<u64>,
    /// Final value of each counter.
    pub values: Vec<u64>,
    /// From the start to the end of the last thread.
    pub elapsed_nanos: u64,
}

/// Why the experiment says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// No threads, or a thread of a counter that does not exist.
    #[error("thread {thread} increments counter {group} of {counters}")]
    NoSuchCounter {
        /// The thread.
        thread: usize,
        /// The counter it asks for.
        group: usize,
        /// How many there are.
        counters: usize,
    },
    /// Memory for a thread's place in the queue was refused.
    #[error("thread {thread} got no memory on its node: run fewer threads, or give it another node")]
    ThreadWithoutMemory {
        /// The thread.
        thread: usize,
    },
    /// Memory for counters was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl CounterResult {
    /// Increments of all threads per second.
    pub fn throughput(&self) -> f64 {
        self.operations.iter().sum::<u64>() as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }

    /// True if no increment was lost.
    pub fn is_exact(&self) -> bool {
        self.values.iter().sum::<u64>() == self.operations.iter().sum::<u64>()
    }
}

/// What a thread leaves behind, in shared memory.
struct Finished<P: Platform> {
    operations: LatchedWord<P>,
    /// 0 if it never ran.
    end_nanos: LatchedWord<P>,
}

impl<P: Platform> Finished<P> {
    fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        Ok(Finished { operations: LatchedWord::new(c, node)?, end_nanos: LatchedWord::new(c, node)? })
    }
}

/// Runs the experiment, until `stop` says so at the latest.
pub fn run_counter<P: Platform>(
    c: P::Core,
    spec: &CounterSpec,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<CounterResult, CounterError> {
    let counters = spec.counters.len();
    for (thread, CounterThread { group, .. }) in spec.threads.iter().enumerate() {
        if *group >= counters {
            return Err(CounterError::NoSuchCounter { thread, group: *group, counters });
        }
    }
    let words = spec.counters.iter().map(|node| LatchedWord::<P>::new(c, *node));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let finished = spec.threads.iter().map(|thread| Finished::<P>::new(c, thread.node));
    let finished = finished.collect::<Result<Vec<_>, _>>()?;
    let places: Vec<Place> = spec.threads.iter().map(|thread| thread.place).collect();
    let start = P::now(c);
    let end = start.plus(spec.nanos);
    let worker = |c, index: usize| {
        let thread = &spec.threads[index];
        // A thread that gets no memory leaves no end, which is noticed below.
        if let Ok(seat) = LatchSeat::new(c, thread.node) {
            increment(c, seat, &words[thread.group], &finished[index], (end, stop));
        }
    };
    P::parallel(c, &places, &worker, &mut |_| ());
    let ends: Vec<u64> = finished.iter().map(|thread| thread.end_nanos.value()).collect();
    if let Some(thread) = ends.iter().position(|end| *end == 0) {
        return Err(CounterError::ThreadWithoutMemory { thread });
    }
    Ok(CounterResult {
        operations: finished.iter().map(|thread| thread.operations.value()).collect(),
        values: words.iter().map(LatchedWord::value).collect(),
        elapsed_nanos: Nanos(ends.into_iter().max().unwrap_or(0)).since(start),
    })
}

/// One thread: increments until its own clock has passed `end`, or `stop` says so.
fn increment<P: Platform>(
    c: P::Core,
    mut seat: LatchSeat<P>,
    counter: &LatchedWord<P>,
    finished: &Finished<P>,
    (end, stop): (Nanos, &(dyn Fn() -> bool + Sync)),
) {
    let mut operations = 0;
    let mut now = P::now(c);
    while now < end && !stop() {
        for _ in 0..OPERATIONS_PER_LOOK {
            counter.add(c, &mut seat, 1);
        }
        operations += OPERATIONS_PER_LOOK;
        now = P::now(c);
    }
    finished.operations.add(c, &mut seat, operations);
    finished.end_nanos.add(c, &mut seat, now.0);
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, HardwareThread};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    /// `group` says which counter a thread of the machine with two sockets of two cores increments.
    fn simulate(counters: usize, group: fn(usize) -> usize) -> CounterResult {
        let thread = |index: usize| CounterThread {
            place: Place { thread: Some(HardwareThread(index as u32)) },
            node: Some(Node(index as u32 / 2)),
            group: group(index),
        };
        let spec = CounterSpec {
            threads: (0..4).map(thread).collect(),
            counters: (0..counters).map(|counter| Some(Node((counter * 2 / counters) as u32))).collect(),
            nanos: 200_000,
        };
        let config = Config::new(Shape::new(2, 2, 1));
        let outcome = VirtualMachine::run(&config, |c| run_counter::<VirtualMachine>(c, &spec, &|| false));
        outcome.expect("the run ends").value.expect("memory")
    }

    #[test]
    fn sharing_costs_more_the_farther_it_goes() {
        let results = [simulate(1, |_| 0), simulate(2, |index| index / 2), simulate(4, |index| index)];
        for result in &results {
            assert!(result.is_exact() && result.operations.iter().all(|count| *count > 0), "{result:?}");
            assert!((200_000..220_000).contains(&result.elapsed_nanos), "{result:?}");
        }
        let [single, socket, core] = results.map(|result| result.throughput());
        assert!(core > socket && socket > single, "{single} {socket} {core}");
    }

    #[test]
    fn simulated_runs_repeat() {
        assert_eq!(simulate(1, |_| 0), simulate(1, |_| 0));
    }

    #[test]
    fn no_increment_is_lost_on_hardware() {
        let thread = |group| CounterThread { place: Place { thread: None }, node: None, group };
        let spec = CounterSpec {
            threads: [0, 0, 1].map(thread).to_vec(),
            counters: vec![None; 2],
            nanos: 5_000_000,
        };
        let result = run_counter::<Hardware>(Hardware::core(), &spec, &|| false).expect("memory");
        assert!(result.is_exact(), "{result:?}");
        assert_eq!(result.values[1], result.operations[2]);
    }

    #[test]
    fn wrong_groups_are_refused() {
        let threads = vec![CounterThread { place: Place { thread: None }, node: None, group: 1 }];
        let spec = CounterSpec { threads, counters: vec![None], nanos: 1 };
        let error = run_counter::<Hardware>(Hardware::core(), &spec, &|| false).expect_err("refused");
        assert_eq!(error, CounterError::NoSuchCounter { thread: 0, group: 1, counters: 1 });
    }
}
