//! Texts of decisions.

use std::collections::BTreeSet;

use crate::balance::Balance;
use crate::cores::{Core, Cores};
use crate::map::{Change, PartitionMap};
use crate::search::Proposal;

/// Smallest load, as a multiple of the mean, that a text mentions.
const HOT_CORE_MIN: f64 = 1.05;
/// Smallest share of synchronization in the work that a text mentions.
const SYNCHRONIZATION_SHARE_MIN: f64 = 0.01;

/// Smallest saved share of waits for owners in the work that a text mentions.
const REQUEST_SHARE_SAVED_MIN: f64 = 0.05;

/// Explains a repartitioning: the problem, the changes, the expectation.
pub(crate) fn reason(
    map: &PartitionMap,
    cores: &Cores,
    proposal: &Proposal,
    balance: &Balance,
    must: bool,
) -> String {
    let mut parts = Vec::new();
    if must {
        parts.push(lost(map, cores));
    }
    let (core, times) = proposal.before.hottest();
    if times >= HOT_CORE_MIN {
        let socket = cores.socket(core);
        parts.push(format!("{core} (socket {socket}) has {} the mean load", multiple(times)));
    }
    parts.extend(talk(proposal));
    parts.extend(asking(proposal));
    parts.push(changes(map, &proposal.changes));
    parts.push(format!("{} of the load changes its core", percent(proposal.moved)));
    parts.push(expected(proposal, balance));
    parts.push(price(balance, must));
    parts.join("; ")
}

/// Explains why the map is not changed.
pub(crate) fn why_not(proposal: &Proposal, balance: &Balance) -> String {
    let (core, times) = proposal.before.hottest();
    // A proposal without savings may still reduce imbalance that delays no core.
    let best = match proposal.changes.is_empty() || balance.gain < 0.0 {
        true => "no better map was found".to_owned(),
        false => format!("the best map that was found would save {} of the time", percent(balance.gain)),
    };
    let weighed = match balance.gain < balance.gain_min {
        true => format!("less than {} is not worth a change", percent(balance.gain_min)),
        false => price(balance, false),
    };
    format!("{core} has {} the mean load; {best}; {weighed}", multiple(times))
}

fn lost(map: &PartitionMap, cores: &Cores) -> String {
    let owned = map.partitions().filter(|(_, partition)| !cores.is_present(partition.owner));
    let owners: Vec<Core> = owned.map(|(_, partition)| partition.owner).collect();
    let are = these_are(&owners.iter().copied().collect());
    format!("{are} gone and owned {}", counted(owners.len() as u64, "partition"))
}

/// Names the cores if they are consecutive, else counts them.
fn these_are(cores: &BTreeSet<Core>) -> String {
    match (cores.first(), cores.last()) {
        (Some(first), Some(last)) if first == last => format!("{first} is"),
        (Some(first), Some(last)) if usize::from(last.0 - first.0) + 1 == cores.len() => {
            format!("cores {} to {} are", first.0, last.0)
        }
        _ => format!("{} cores are", cores.len()),
    }
}

/// Describes the cores that were lost and that came back, and the number of present cores.
pub(crate) fn come_and_gone(before: &Cores, now: &Cores) -> String {
    let gone: BTreeSet<Core> = before.present().filter(|core| !now.is_present(*core)).collect();
    let come: BTreeSet<Core> = now.present().filter(|core| !before.is_present(*core)).collect();
    let some = [(gone, "gone"), (come, "back")].into_iter().filter(|(cores, _)| !cores.is_empty());
    let mut parts: Vec<String> = some.map(|(cores, how)| format!("{} {how}", these_are(&cores))).collect();
    parts.push(format!("{} of {} can work", now.present().count(), counted(now.count() as u64, "core")));
    parts.join("; ")
}

/// Describes the synchronization between sockets, if it is large enough.
fn talk(proposal: &Proposal) -> Option<String> {
    let work = proposal.before.mean * proposal.before.present as f64;
    let synchronization = proposal.before.synchronization;
    if synchronization <= SYNCHRONIZATION_SHARE_MIN * work {
        return None;
    }
    let pairs = &proposal.pairs[0];
    let all = (0..pairs.len()).flat_map(|one| (one + 1..pairs.len()).map(move |other| (one, other)));
    let (one, other) = all.max_by(|one, other| pairs[one.0][one.1].total_cmp(&pairs[other.0][other.1]))?;
    Some(format!(
        "synchronization between sockets costs {} of the work, {} of that between sockets {one} and {other}",
        percent(synchronization / work.max(f64::MIN_POSITIVE)),
        percent(pairs[one][other] / synchronization)
    ))
}

/// Describes the waits for owners, if the proposal saves enough of them.
fn asking(proposal: &Proposal) -> Option<String> {
    let work = (proposal.before.mean * proposal.before.present as f64).max(f64::MIN_POSITIVE);
    let (before, after) = (proposal.before.asking / work, proposal.after.asking / work);
    let text = || {
        let (before, after) = (percent(before), percent(after));
        format!(
            "waiting for the owners of what cores draw takes {before} of the work, and would take {after}"
        )
    };
    (before - after > REQUEST_SHARE_SAVED_MIN).then(text)
}

/// Describes the changes, with the tables whose partitions are split.
fn changes(map: &PartitionMap, changes: &[Change]) -> String {
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count() as u64;
    let counts = [
        counted(count(|change| matches!(change, Change::Split { .. })), "split"),
        counted(count(|change| matches!(change, Change::Merge { .. })), "merge"),
        counted(count(|change| matches!(change, Change::Move { .. })), "move"),
    ];
    let of_table = map.tables().iter().filter_map(|table| {
        let split = changes.iter().filter_map(|change| match change {
            Change::Split { table: of, at } if *of == table.table => Some(table.place(*at)),
            _ => None,
        });
        let split: BTreeSet<usize> = split.collect();
        let are = if split.len() == 1 { "is" } else { "are" };
        let text = || format!("{} of {} {are} split", counted(split.len() as u64, "partition"), table.name);
        (!split.is_empty()).then(text)
    });
    let [splits, merges, moves] = counts;
    let mut text = format!("{splits}, {merges} and {moves}");
    for table in of_table {
        text = format!("{text}; {table}");
    }
    text
}

fn expected(proposal: &Proposal, balance: &Balance) -> String {
    let (_, times) = proposal.after.hottest();
    let mut text = format!("expected: the busiest core at {} the mean", multiple(times));
    let work = proposal.after.mean * proposal.after.present as f64;
    let either = proposal.before.synchronization.max(proposal.after.synchronization);
    if either > SYNCHRONIZATION_SHARE_MIN * work {
        let share = percent(proposal.after.synchronization / work.max(f64::MIN_POSITIVE));
        text = format!("{text}, synchronization at {share} of the work");
    }
    match balance.gain < 1.0 {
        true => format!("{text}, {} the throughput", multiple(1.0 / (1.0 - balance.gain))),
        false => text,
    }
}

fn price(balance: &Balance, must: bool) -> String {
    let cost = format!("the change costs about {}", seconds(balance.cost_seconds));
    match must {
        true => format!("{cost} and cannot wait"),
        false => format!(
            "{cost}, and {} of the {} that the workload is likely to stay are {}",
            percent(balance.gain),
            seconds(balance.stay_seconds),
            seconds(balance.gain * balance.stay_seconds)
        ),
    }
}

/// Formats a count with its noun.
pub fn counted(count: u64, what: &str) -> String {
    let plural = if what.ends_with("ch") { "es" } else { "s" };
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}{plural}") }
}

fn multiple(times: f64) -> String {
    format!("{times:.2} times")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.1} us", seconds * 1e6),
    }
}
