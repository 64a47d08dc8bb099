//! The counter experiment (Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2 and
//! figure 2): threads increment counters, each behind a latch, shared by all threads, by those of a
//! socket, or by none. It shows the cost of sharing across and within islands, without a database.

use platform::{Node, OutOfMemory, Place, Platform};
use storage::{LatchSeat, LatchedWord};

use crate::threads::{Phase, Phases, Times, on_threads};

/// Operations between two reads of the phase.
const OPERATIONS_PER_PHASE_READ: u64 = 8;

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterThread {
    /// The hardware thread on which it runs.
    pub place: Place,
    /// The memory node of its entry in the latch's queue; `None`: the node on which the thread
    /// runs.
    pub node: Option<Node>,
    /// Number of the counter that it increments.
    pub group: usize,
}

/// Parameters of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterSpec {
    /// The threads, at least one.
    pub threads: Vec<CounterThread>,
    /// The memory node of each counter; `None`: the node on which the caller runs.
    pub counters: Vec<Option<Node>>,
    /// Time before increments count.
    pub warm_up_nanos: u64,
    /// Time that is measured.
    pub nanos: u64,
}

/// Result of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterResult {
    /// Increments of each thread while the run measured.
    pub operations: Vec<u64>,
    /// Increments of all threads, those of the warm-up included.
    pub all_operations: u64,
    /// Final value of each counter.
    pub values: Vec<u64>,
    /// Length of the measurement.
    pub elapsed_nanos: u64,
}

/// The reason why the experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// No threads, or a thread of a counter that does not exist.
    #[error("thread {thread} increments counter {group} of {counters}")]
    NoSuchCounter {
        /// The thread.
        thread: usize,
        /// The counter that it names.
        group: usize,
        /// Number of counters.
        counters: usize,
    },
    /// Memory for a thread's entry in the latch's queue was refused.
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
        self.values.iter().sum::<u64>() == self.all_operations
    }
}

/// Increments of one thread.
struct Increments {
    /// Those of the warm-up included.
    all: u64,
    measured: u64,
}

/// Runs the experiment, and ends it early if `stop` returns true. Calls `measuring` when the
/// warm-up is over.
///
/// # Errors
/// [`CounterError`].
pub fn run_counter<P: Platform>(
    c: P::Core,
    spec: &CounterSpec,
    measuring: &mut dyn FnMut(P::Core),
    stop: &dyn Fn() -> bool,
) -> Result<CounterResult, CounterError> {
    let counters = spec.counters.len();
    for (thread, CounterThread { group, .. }) in spec.threads.iter().enumerate() {
        if *group >= counters {
            return Err(CounterError::NoSuchCounter { thread, group: *group, counters });
        }
    }
    let words = spec.counters.iter().map(|node| LatchedWord::<P>::new(c, *node));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let places: Vec<Place> = spec.threads.iter().map(|thread| thread.place).collect();
    let times = Times { warm_up_nanos: spec.warm_up_nanos, nanos: spec.nanos };
    let job = |c, index: usize, phases: &Phases<P>| {
        let thread = &spec.threads[index];
        // A thread without memory arrives, too, because the others wait for all threads.
        let seat = LatchSeat::new(c, thread.node);
        phases.start(c);
        Ok(seat.ok().map(|seat| increment(c, seat, &words[thread.group], phases)))
    };
    let (increments, elapsed_nanos) = on_threads(c, &places, times, measuring, stop, &job)?;
    let without_memory = |thread| CounterError::ThreadWithoutMemory { thread };
    let increments: Vec<Increments> = (0..)
        .zip(increments)
        .map(|(thread, increments)| increments.ok_or_else(|| without_memory(thread)))
        .collect::<Result<_, _>>()?;
    Ok(CounterResult {
        operations: increments.iter().map(|thread| thread.measured).collect(),
        all_operations: increments.iter().map(|thread| thread.all).sum(),
        values: words.iter().map(LatchedWord::value).collect(),
        elapsed_nanos,
    })
}

/// Increments a counter until the run is over, on one thread.
fn increment<P: Platform>(
    c: P::Core,
    mut seat: LatchSeat<P>,
    counter: &LatchedWord<P>,
    phases: &Phases<P>,
) -> Increments {
    let mut increments = Increments { all: 0, measured: 0 };
    loop {
        let phase = phases.now(c);
        if phase == Phase::Over {
            return increments;
        }
        for _ in 0..OPERATIONS_PER_PHASE_READ {
            counter.add(c, &mut seat, 1);
        }
        increments.all += OPERATIONS_PER_PHASE_READ;
        if phase == Phase::Measuring {
            increments.measured += OPERATIONS_PER_PHASE_READ;
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, HardwareThread};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    /// Runs on a machine with two sockets of two cores; `group` maps a thread to its counter.
    fn simulate(counters: usize, group: fn(usize) -> usize) -> CounterResult {
        simulate_after(0, counters, group)
    }

    /// As [`simulate`], after a warm-up.
    fn simulate_after(warm_up_nanos: u64, counters: usize, group: fn(usize) -> usize) -> CounterResult {
        let thread = |index: usize| CounterThread {
            place: Place { thread: Some(HardwareThread(index as u32)) },
            node: Some(Node(index as u32 / 2)),
            group: group(index),
        };
        let spec = CounterSpec {
            threads: (0..4).map(thread).collect(),
            counters: (0..counters).map(|counter| Some(Node((counter * 2 / counters) as u32))).collect(),
            warm_up_nanos,
            nanos: 200_000,
        };
        let config = Config::new(Shape::new(2, 2, 1));
        let outcome =
            VirtualMachine::run(&config, |c| run_counter::<VirtualMachine>(c, &spec, &mut |_| (), &|| false));
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
    fn increments_of_the_warm_up_are_made_and_not_counted() {
        let [cold, warm] = [0, 1_000_000].map(|nanos| simulate_after(nanos, 1, |_| 0));
        let measured = |result: &CounterResult| result.operations.iter().sum::<u64>();
        assert!(warm.is_exact() && warm.all_operations > 4 * measured(&warm), "{warm:?}");
        assert!(measured(&warm) < 2 * measured(&cold), "{warm:?} after {cold:?}");
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
            warm_up_nanos: 1_000_000,
            nanos: 5_000_000,
        };
        let result =
            run_counter::<Hardware>(Hardware::core(), &spec, &mut |_| (), &|| false).expect("memory");
        assert!(result.is_exact(), "{result:?}");
        assert!(result.values[1] >= result.operations[2], "{result:?}");
    }

    #[test]
    fn wrong_groups_are_refused() {
        let threads = vec![CounterThread { place: Place { thread: None }, node: None, group: 1 }];
        let spec = CounterSpec { threads, counters: vec![None], warm_up_nanos: 0, nanos: 1 };
        let error =
            run_counter::<Hardware>(Hardware::core(), &spec, &mut |_| (), &|| false).expect_err("refused");
        assert_eq!(error, CounterError::NoSuchCounter { thread: 0, group: 1, counters: 1 });
    }
}
