//! Orders the transactions of several instances consistently with the versions of each key, for
//! checkers that need one order of stamps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use terms::Stamp;

use crate::history::Entry;

/// A transaction that ended, with the number of each of its changes among all changes of the key,
/// in the order of `writes`.
pub(super) struct NumberedEntry {
    pub entry: Entry,
    pub turns: Vec<u64>,
}

/// Gives entries stamps that ascend along overwrites, as far as that is possible: if overwrites
/// form a cycle, the checkers have to find it. The error: the numbers of a key are not those of its
/// changes.
pub(super) fn stamped(transactions: Vec<NumberedEntry>) -> Result<Vec<Entry>, String> {
    let mut chains: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
    for (number, NumberedEntry { entry, turns }) in transactions.iter().enumerate() {
        for ((key, _), turn) in entry.writes.iter().zip(turns) {
            chains.entry(*key).or_default().push((*turn, number));
        }
    }
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (key, chain) in &mut chains {
        chain.sort_unstable();
        if let Some(place) = (0..chain.len()).find(|place| chain[*place].0 != *place as u64 + 1) {
            let (turn, entry) = chain[place];
            let what =
                format!("entry {entry} makes change {turn} of key {key}, which is number {}", place + 1);
            return Err(what);
        }
        edges.extend(chain.windows(2).map(|pair| (pair[0].1, pair[1].1)));
    }
    let mut entries: Vec<Entry> = transactions.into_iter().map(|entries| entries.entry).collect();
    for (place, number) in order(&entries, &edges).into_iter().enumerate() {
        let entry = &mut entries[number];
        entry.stamp = entry.stamp.map(|_| Stamp(4 * (place as u64 + 1)));
    }
    Ok(entries)
}

/// The order of all entries in which edges lead forward, or, where edges form a cycle, the order of
/// their ends.
fn order(entries: &[Entry], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut before = vec![0; entries.len()];
    let mut after = vec![Vec::new(); entries.len()];
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        before[*to] += 1;
        after[*from].push(*to);
    }
    let by_end = |number: usize| Reverse((entries[number].ended, number));
    let mut ready: BinaryHeap<_> =
        (0..entries.len()).filter(|number| before[*number] == 0).map(by_end).collect();
    let mut placed = vec![false; entries.len()];
    let mut order = Vec::with_capacity(entries.len());
    while order.len() < entries.len() {
        let next = ready.pop().map(|Reverse((_, number))| number);
        let first_left = || (0..entries.len()).filter(|number| !placed[*number]).max_by_key(|n| by_end(*n));
        let Some(number) = next.or_else(first_left) else { break };
        if std::mem::replace(&mut placed[number], true) {
            continue;
        }
        order.push(number);
        for to in &after[number] {
            before[*to] -= 1;
            if before[*to] == 0 {
                ready.push(by_end(*to));
            }
        }
    }
    order
}
