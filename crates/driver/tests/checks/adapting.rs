//! Partitions that follow the workload: skew is noticed, keys change their owners while transactions run, and nothing is lost.

use adapt::Settings;
use driver::{Execution, Measurement, Plan, Workload};
use workloads::tatp::{Hot, Tatp};

use crate::owners::{over_pages, simulated};
use crate::several::violations;

const WORKERS: usize = 4;
/// Ten for each worker, so that partitions can be split.
const PARTS: u16 = 40;

fn run(hot: bool, adapt: Option<Settings>, seed: u64) -> Measurement {
    let hot = hot.then_some(Hot { requests: 0.6, data: 0.2 });
    let tatp = Tatp { multisite: 1.0, hot, ..Tatp::new(800, PARTS) };
    let plan =
        Plan { adapt, length: driver::Length::Transactions(1500), ..over_pages(Execution::Atrapos, seed) };
    let measured = simulated(&Workload::Tatp(tatp), &plan, WORKERS).expect("a run");
    assert_eq!(violations(&measured), Vec::<String>::new());
    measured
}

#[test]
fn hot_keys_are_divided_among_workers() {
    for seed in 1..3 {
        let measured = run(true, Some(Settings::new(0.0005)), seed);
        let story = measured.adaptation.expect("a story");
        let text = story.text();
        assert!(story.count() >= 1, "{text}");
        let first = &story.repartitionings[0];
        // A fifth of the data is nearly all that the first of four workers owns.
        assert_eq!(first.before.hottest().0, adapt::Core(0), "{text}");
        assert!(first.before.hottest().1 > 1.8 && first.after.hottest().1 < 1.4, "{text}");
        let seen = first.seen.as_ref().expect("measured again");
        assert!(seen.iter().all(|load| *load < 1.6), "{text}");
    }
    assert_eq!(run(true, None, 1).adaptation, None);
}

/// Where all keys are alike, their owners stay who they are.
#[test]
fn nothing_moves_without_a_reason() {
    let story = run(false, Some(Settings::new(0.0005)), 5).adaptation.expect("a story");
    assert_eq!(story.count(), 0, "{}", story.text());
    assert!(story.measurements > 3, "{}", story.text());
}
