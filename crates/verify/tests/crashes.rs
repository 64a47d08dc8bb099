//! Crashes of a durable database on a simulated disk.
#![allow(missing_docs)]

use verify::{Campaign, Machine, Tally, Work, scheme};

fn campaign(name: &str, seeds: std::ops::Range<u64>) -> Tally {
    let subject = scheme(name).expect("a scheme");
    let campaign = Campaign {
        subject: &subject,
        work: Work::Crashes,
        machine: &Machine::Small,
        workers: None,
        seeds,
        threads: 1,
        failures_max: 3,
    };
    let tally = campaign.run(&mut |_| true);
    println!("{name}: {} seeds, {:?}", tally.seeds, tally.sum);
    tally
}

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for name in ["silo", "no-wait", "wait-die", "dl-detect"] {
        let tally = campaign(name, 0..600);
        assert_eq!(tally.failures, [], "{name}");
        assert!(tally.sum.transactions > 1_000, "{name}");
    }
}
