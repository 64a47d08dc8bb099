//! Partitions that follow the workload: skew is detected, keys change their owners while
//! transactions run, and nothing is lost.

use harness::{
    Adaptation, BorderAction, Clients, Deployment, Durability, Execution, Failure, Length, Measurement,
    PartitionEventKind, Partitioning, Plan, Shift, Workload,
};
use platform::{HardwareThread, Nanos};
use repartitioning::{Core, Settings, Story};
use sim::{Config, Withdrawal};
use workloads::tatp::{Hot, Tatp};

use crate::owners::{over_pages, simulated_by, two_sockets};
use crate::support::{config, nvme, simulate, violations};

const WORKERS: usize = 4;
const INTERVAL_SECONDS: f64 = 0.001;
const CHANGE_SECONDS: f64 = 3.0 * INTERVAL_SECONDS;

/// Intervals that do not become longer, because tests are short.
fn adaptation() -> Adaptation {
    let settings = Settings { longest: 1.0, ..Settings::new(INTERVAL_SECONDS) };
    Adaptation { settings, decides: true, cores: None }
}

/// Workers whose partitions follow each other.
fn deployment() -> Deployment {
    Deployment { partitioning: Partitioning::Blocks, ..two_sockets(WORKERS) }
}

fn tatp(hot: Option<Hot>) -> Workload {
    Workload::Tatp(Tatp { hot, parts_each: 10, ..Tatp::new(800, 10 * WORKERS as u16) })
}

fn plan(intervals: f64, seed: u64) -> Plan {
    let adaptation = Some(adaptation());
    let length = Length::Seconds(intervals * INTERVAL_SECONDS);
    Plan { adaptation, length, ..over_pages(Execution::Atrapos, seed) }
}

fn run(workload: &Workload, plan: &Plan) -> Measurement {
    // Not perturbed, so that measurements are exact.
    let config = Config { perturb: false, ..config(WORKERS, plan.seed) };
    let measured = simulated_by(config, workload, plan, &deployment()).expect("a run");
    assert_eq!(violations(&measured), Vec::<String>::new());
    measured
}

fn story(measured: &Measurement) -> &Story {
    measured.adaptation.as_ref().expect("a story")
}

/// The load of the busiest core, as a multiple of the mean.
fn busiest(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max)
}

#[test]
fn hot_keys_are_divided_among_workers() {
    let hot = tatp(Some(Hot { requests: 0.5, data: 0.2 }));
    let workload = Workload::changing(tatp(None), vec![(CHANGE_SECONDS, hot)]).expect("the same data");
    let measured = run(&workload, &plan(10.0, 1));
    let story = story(&measured);
    let text = story.text();
    let [first, ..] = &story.repartitionings[..] else { panic!("nothing was changed: {text}") };
    // The first of four workers owns little more than the hot fifth of the data.
    assert_eq!(first.before.hottest().0, Core(0), "{text}");
    assert!(first.before.hottest().1 > 1.6 && first.after.hottest().1 < 1.2, "{text}");
    let after_seconds = first.at_seconds - CHANGE_SECONDS;
    assert!((0.0..5.0 * INTERVAL_SECONDS).contains(&after_seconds), "{text}");
    assert!(first.reason.starts_with("core 0 (socket 0) has "), "{text}");
    let seen = story.repartitionings.iter().rev().find_map(|one| one.seen.as_ref()).expect("measured again");
    assert!(busiest(seen) < 1.3, "{text}");
}

/// If all keys are equally popular, their owners do not change.
#[test]
fn nothing_moves_without_a_reason() {
    let measured = run(&tatp(None), &plan(10.0, 5));
    let story = story(&measured);
    assert_eq!(story.count(), 0, "{}", story.text());
    assert!(story.measurements > 5, "{}", story.text());
    let still = Plan { adaptation: None, ..plan(2.0, 5) };
    assert_eq!(run(&tatp(None), &still).adaptation, None);
}

/// Counts are kept, which costs time, and the map stays whatever they say.
#[test]
fn monitoring_alone_decides_nothing() {
    let hot = tatp(Some(Hot { requests: 0.5, data: 0.2 }));
    let workload = Workload::changing(tatp(None), vec![(CHANGE_SECONDS, hot)]).expect("the same data");
    let runs = [Some(Adaptation { decides: false, ..adaptation() }), None, Some(adaptation())];
    let runs = runs.map(|adaptation| run(&workload, &Plan { adaptation, ..plan(10.0, 1) }));
    let [monitored, still, adapted] = &runs;
    assert_eq!((&monitored.adaptation, &monitored.events[..]), (&None, &[][..]));
    let sum = |run: &Measurement| run.bins.iter().sum::<u64>();
    assert!(sum(monitored) < sum(still), "{} and {}", sum(monitored), sum(still));
    let story = story(adapted);
    let events: Vec<_> =
        adapted.events.iter().filter(|event| event.kind == PartitionEventKind::Adapt).collect();
    assert_eq!(events.len(), story.repartitionings.len());
    for (event, one) in events.iter().zip(&story.repartitionings) {
        assert_eq!((event.actions, Some(event.seconds)), (one.changes.len(), one.took_seconds));
        assert_eq!(event.interval, Some(INTERVAL_SECONDS));
    }
}

/// The partitions of a socket that fails get other owners, which also serve its clients.
#[test]
fn a_failed_socket_loses_its_partitions() {
    let failures = vec![Failure { seconds: CHANGE_SECONDS, socket: 1 }];
    let measured = run(&tatp(None), &Plan { failures: failures.clone(), ..plan(9.0, 3) });
    let story = story(&measured);
    let text = story.text();
    let [first, ..] = &story.repartitionings[..] else { panic!("nothing was changed: {text}") };
    assert!(first.reason.starts_with("cores 2 to 3 are gone and owned"), "{text}");
    // Immediately, unless a search is running.
    let after_seconds = first.at_seconds - CHANGE_SECONDS;
    assert!((0.0..5.0 * INTERVAL_SECONDS).contains(&after_seconds), "{text}");
    assert_eq!(first.absent, [Core(2), Core(3)]);
    assert!(first.after.partitions.iter().all(|piece| piece.partition.owner < Core(2)), "{text}");
    // The two remaining workers continue, with the requests of all four.
    let late: u64 = measured.bins[measured.bins.len() * 3 / 4..].iter().sum();
    assert!(late > 0, "{:?}", measured.bins);
    for execution in [Execution::Inline, Execution::Plp] {
        let still = Plan { adaptation: None, execution, failures: failures.clone(), ..plan(4.0, 3) };
        assert_eq!(run(&tatp(None), &still).adaptation, None);
    }
}

/// If partitions stay, the threads of a failed socket serve them on the hardware threads of the
/// other one, and take turns with its workers.
#[test]
fn a_failed_socket_takes_its_share_of_the_throughput() {
    let mut deployment = deployment();
    for (number, worker) in (0..).zip(&mut deployment.instances[0].workers) {
        worker.thread = Some(HardwareThread(number));
    }
    let failures = vec![Failure { seconds: CHANGE_SECONDS, socket: 1 }];
    // Messages between two owners on one hardware thread take a switch and a wake-up each.
    for (execution, share) in [(Execution::Inline, 0.3..0.6), (Execution::Atrapos, 0.01..0.75)] {
        let plan = Plan { adaptation: None, execution, failures: failures.clone(), ..plan(6.0, 3) };
        let config = Config { perturb: false, ..config(WORKERS, plan.seed) };
        let measured = simulated_by(config, &tatp(None), &plan, &deployment).expect("a run");
        assert_eq!(violations(&measured), Vec::<String>::new());
        // Half of the bins are before the failure.
        let (before, after) = measured.bins.split_at(measured.bins.len() / 2);
        let ratio = after.iter().sum::<u64>() as f64 / before.iter().sum::<u64>() as f64;
        assert!(share.contains(&ratio), "{execution:?}: {ratio}");
    }
}

/// An overloaded owner, which gets more requests than it can serve, still answers the monitor: its
/// counts are measured in each interval.
#[test]
fn who_is_asked_for_too_much_is_heard() {
    const MANY: usize = 24;
    let hot = Some(Hot { requests: 1.0, data: 0.04 });
    let workload = Workload::Tatp(Tatp { hot, parts_each: 1, ..Tatp::new(480, MANY as u16) });
    let config = Config { perturb: false, ..config(MANY, 2) };
    let deployment = Deployment { partitioning: Partitioning::Blocks, ..two_sockets(MANY) };
    let measured = simulated_by(config, &workload, &plan(6.0, 2), &deployment).expect("a run");
    assert_eq!(violations(&measured), Vec::<String>::new());
    let story = story(&measured);
    assert!(story.measurements >= 4, "{}", story.text());
}

/// A worker whose processor is gone runs no transactions of its own, and soon owns nothing; when
/// the processor is back it runs its own transactions again, and owns their rows.
#[test]
fn processors_come_and_go() {
    const TAKEN: usize = 1;
    let (from, until) = (CHANGE_SECONDS, 3.0 * CHANGE_SECONDS);
    let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
    let thread = HardwareThread(TAKEN as u32);
    let withdrawals = vec![Withdrawal { thread, from: nanos(from), until: nanos(until) }];
    let config = Config { perturb: false, withdrawals, ..config(WORKERS, 7) };
    let mut pinned = deployment();
    for (number, worker) in pinned.instances[0].workers.iter_mut().enumerate() {
        worker.thread = Some(HardwareThread(number as u32));
    }
    let measured = simulated_by(config, &tatp(None), &plan(18.0, 7), &pinned).expect("a run");
    assert_eq!(violations(&measured), Vec::<String>::new());
    let story = story(&measured);
    let text = story.text();
    let notes: Vec<&str> = story.notes.iter().map(|note| &note.words[..]).collect();
    assert_eq!(notes, ["core 1 is gone; 3 of 4 cores can work", "core 1 is back; 4 of 4 cores can work"]);
    for (note, at) in story.notes.iter().zip([from, until]) {
        assert!((at..at + INTERVAL_SECONDS).contains(&note.at_seconds), "{text}");
    }
    let [first, ..] = &story.repartitionings[..] else { panic!("nothing was changed: {text}") };
    assert!(first.reason.starts_with("core 1 is gone and owned"), "{text}");
    assert!(first.after.partitions.iter().all(|piece| piece.partition.owner != Core(TAKEN as u16)), "{text}");
    let last = story.repartitionings.last().expect("there is one");
    assert!(last.reason.contains("waiting for the owners of what cores draw"), "{text}");
    let owners = |owner: u16| {
        last.after.partitions.iter().filter(|piece| piece.partition.owner == Core(owner)).count()
    };
    assert!((0..WORKERS as u16).all(|owner| owners(owner) > 0), "{text}");
    // Three workers have less throughput than four. A map that is nearly the best is kept.
    let bin = |seconds: f64| (seconds / measured.bin_seconds) as usize;
    let rate = |from: f64, to: f64| {
        let bins = &measured.bins[bin(from)..bin(to)];
        bins.iter().sum::<u64>() as f64 / bins.len() as f64
    };
    let before = rate(0.0, from);
    let (meanwhile, after) = (rate(until - from, until), rate(5.0 * from, 6.0 * from));
    assert!(meanwhile < 0.95 * before && after > 0.8 * before, "{before} {meanwhile} {after}: {text}");
}

/// Partitions that have moved in one run stay moved in the next run on the same database, if it has
/// as many workers.
#[test]
fn a_durable_database_finds_its_partitions_again() {
    let disk = nvme();
    let hot = tatp(Some(Hot { requests: 0.8, data: 0.2 }));
    let run = |workers: usize, seed| {
        let plan = Plan { durability: Durability::Group, ..plan(8.0, seed) };
        let deployment = Deployment { partitioning: Partitioning::Blocks, ..two_sockets(workers) };
        let config = Config { perturb: false, ..config(workers, seed) }.with_disk(&disk);
        let measured = simulate(&config, &hot, &plan, &deployment).expect("a run");
        assert_eq!(violations(&measured), Vec::<String>::new());
        story(&measured).clone()
    };
    let first = run(WORKERS, 1);
    let last =
        first.repartitionings.last().unwrap_or_else(|| panic!("nothing was changed: {}", first.text()));
    assert_eq!(first.notes, []);
    let count = last.after.partitions.len();
    let again = run(WORKERS, 2);
    let notes = |story: &Story| story.notes.iter().map(|note| note.words.clone()).collect::<Vec<_>>();
    assert_eq!(notes(&again), [format!("{count} partitions, as an earlier run has left them")]);
    assert_eq!(again.count(), 0, "{}", again.text());
    let fewer = run(2, 3);
    assert_eq!(notes(&fewer), ["an earlier run had 4 workers: partitions begin evenly"]);
}

/// Exactly the planned number of borders shifts at the planned time, in one pause, with both kinds
/// of sharing; nothing is lost.
#[test]
fn borders_shift_when_somebody_wants_to_see_what_it_costs() {
    for execution in [Execution::Plp, Execution::Atrapos] {
        let action = BorderAction::Rearrange;
        let shift = |seconds, count| Shift { seconds, action, count };
        let shifts = vec![shift(0.002, 1_000), shift(0.001, 3)];
        let still = Plan { adaptation: None, execution, shifts, ..plan(3.0, 4) };
        let shifted = run(&tatp(None), &still).shifted;
        // The last three of four workers can give nine columns each, and the last of them also the
        // columns that it gets.
        let counts = shifted.iter().map(|one| (one.actions, one.changes)).collect::<Vec<_>>();
        assert_eq!(counts[0], (3, 9));
        assert!(counts[1].0 > 24 && counts[1].0 < 100 && counts[1].1 == 3 * counts[1].0, "{counts:?}");
        for (one, at) in shifted.iter().zip([0.001, 0.002]) {
            assert!((at..at + 0.0002).contains(&one.at_seconds) && one.took_seconds < 0.0005, "{one:?}");
        }
    }
}

/// Partitions are divided and united at planned times. Dividing one costs more: each page on the
/// path to the border is divided, and only roots are united.
#[test]
fn partitions_are_split_and_merged_as_planned() {
    let shift = |seconds, action, count| Shift { seconds, action, count };
    let shifts = vec![shift(0.001, BorderAction::Split, 4), shift(0.002, BorderAction::Merge, 4)];
    // With clients some workers have no request when the map changes.
    for clients in [Clients::Worker, Clients::Global] {
        let still = Plan { adaptation: None, clients, shifts: shifts.clone(), ..plan(3.0, 4) };
        let measured = run(&tatp(None), &still);
        let found: Vec<_> = measured.events.iter().map(|event| (event.kind, event.actions)).collect();
        assert_eq!(found, [(PartitionEventKind::Split, 4), (PartitionEventKind::Merge, 4)]);
        let [split, merge] = &measured.events[..] else { panic!("two events") };
        for event in [split, merge] {
            assert!(0.0 < event.seconds && event.seconds < 0.0003 && event.interval.is_none(), "{event:?}");
        }
        assert!(clients != Clients::Worker || merge.seconds < split.seconds, "{split:?} {merge:?}");
    }
}
