//! The checkers against brute force: small random histories, for which all serial orders are tried.

use std::collections::BTreeMap;

use terms::Stamp;
use terms::random::Random;
use verify::history::check;
use verify::second_opinion::opinion;
use verify::{Change, Entry, History, Seen, Violation};

const HISTORIES: u64 = 4_000;
const TRANSACTIONS: u64 = 5;
const KEYS: u64 = 3;
const TAGS: u64 = 2;

type Rows = BTreeMap<u64, (u64, u64)>;

fn fits(seen: Seen, row: Option<&(u64, u64)>) -> bool {
    match seen {
        Seen::Absent => row.is_none(),
        Seen::Present => row.is_some(),
        Seen::Version(version) => row.is_some_and(|(its, _)| *its == version),
        Seen::NotTagged(tag) => row.is_none_or(|(_, its)| *its != tag),
    }
}

fn apply(rows: &mut Rows, writes: &[(u64, Change)]) {
    for (key, change) in writes {
        match *change {
            Change::Insert { version, tag } | Change::Update { version, tag } => {
                rows.insert(*key, (version, tag))
            }
            Change::Delete => rows.remove(key),
        };
    }
}

/// Serial transactions, most of which overlap in time; then some of their observations are
/// replaced.
fn random_history(random: &mut Random) -> History {
    let mut rows: Rows = (0..KEYS).filter(|_| random.below(2) == 0).map(|key| (key, (key + 1, 0))).collect();
    let initial = rows.clone();
    let mut states: Vec<Rows> = vec![rows.clone()];
    let mut entries = Vec::new();
    for number in 0..TRANSACTIONS {
        let writes = random_writes(random, &rows, number);
        apply(&mut rows, &writes);
        states.push(rows.clone());
        let began = number * 10 - random.below(number * 10 + 1);
        let ended = number * 10 + 1 + random.below(30);
        let stamp = Some(Stamp(4 * (number + 1)));
        entries.push(Entry { stamp, began, ended, writes, ..Entry::default() });
    }
    let changes_all = random.below(2) == 0;
    for (number, entry) in entries.iter_mut().enumerate() {
        for _ in 0..1 + random.below(3) {
            let (key, tag) = (random.below(KEYS), random.below(TAGS));
            // The state that it saw, or now and then another one.
            let other = changes_all && random.below(3) == 0;
            let state = if other { random.below(TRANSACTIONS + 1) as usize } else { number };
            let row = states[state].get(&key);
            let seen = match (random.below(4), row) {
                (0, _) if fits(Seen::NotTagged(tag), row) => Seen::NotTagged(tag),
                (1, Some(_)) => Seen::Present,
                (_, Some((version, _))) => Seen::Version(*version),
                (_, None) => Seen::Absent,
            };
            entry.reads.push((key, seen));
        }
    }
    let last = rows.iter().map(|(key, (version, _))| (*key, *version)).collect();
    History { initial, entries, last: Some(last), ..History::default() }
}

fn random_writes(random: &mut Random, rows: &Rows, number: u64) -> Vec<(u64, Change)> {
    let mut writes = Vec::new();
    for key in 0..KEYS {
        if random.below(3) != 0 {
            continue;
        }
        let (version, tag) = (100 * (number + 1) + key, random.below(TAGS));
        writes.push((
            key,
            match (rows.contains_key(&key), random.below(2)) {
                (false, _) => Change::Insert { version, tag },
                (true, 0) => Change::Update { version, tag },
                (true, _) => Change::Delete,
            },
        ));
    }
    writes
}

/// True if some serial order of the rest explains the history: the order agrees with real time and
/// with the stamps of each key's changes, and each transaction sees the changes of those before it.
fn is_explained(history: &History, rows: &Rows, rest: &[usize]) -> bool {
    if rest.is_empty() {
        return true;
    }
    rest.iter().any(|next| {
        let entry = &history.entries[*next];
        let in_order = rest.iter().map(|other| (other, &history.entries[*other])).all(|(other, before)| {
            let overwritten = before.stamp < entry.stamp
                && before.writes.iter().any(|(key, _)| entry.writes.iter().any(|(its, _)| its == key));
            other == next || before.ended >= entry.began && !overwritten
        });
        if !in_order || !entry.reads.iter().all(|(key, seen)| fits(*seen, rows.get(key))) {
            return false;
        }
        let mut after = rows.clone();
        apply(&mut after, &entry.writes);
        let rest: Vec<usize> = rest.iter().copied().filter(|other| other != next).collect();
        is_explained(history, &after, &rest)
    })
}

#[test]
fn brute_force_agrees() {
    let (mut accepted, mut refused, mut objected) = (0, 0, 0);
    for seed in 0..HISTORIES {
        let history = random_history(&mut Random::new(seed, 0));
        let all: Vec<usize> = (0..history.entries.len()).collect();
        let truth = is_explained(&history, &history.initial, &all);
        let other = opinion(&history).objections;
        match check(&history) {
            // Stamps are more than serializability.
            Err(Violation::Stamps { .. }) => {}
            Ok(report) => {
                assert!(!report.undecided && truth, "seed {seed}: accepted {history:#?}");
                accepted += 1;
            }
            Err(violation) => {
                assert!(!truth, "seed {seed}: {violation} {history:#?}");
                refused += 1;
                objected += u64::from(!other.is_empty());
            }
        }
        assert!(!truth || other.is_empty(), "seed {seed}: only adya objects: {other:?} {history:#?}");
    }
    println!("{accepted} accepted, {refused} refused, of which adya refused {objected}");
    assert!(accepted > HISTORIES / 10 && refused > HISTORIES / 10);
    assert!(objected * 2 > refused, "the second opinion sees {objected} of {refused}");
}
