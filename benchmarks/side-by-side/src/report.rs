//! Result rows, and the table of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::engine::Operation;
use crate::engines::Kind;

/// The result of one run: a line of JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Run {
    /// The benchmark's version.
    pub version: String,
    /// The engine.
    pub engine: Kind,
    /// The operation of a transaction.
    pub operation: Operation,
    /// Clients at a time.
    pub clients: usize,
    /// Number of the round, from 1 on.
    pub round: u64,
    /// Rows of the table.
    pub rows: u64,
    /// Time measured.
    pub seconds: f64,
    /// Seed of the choice of rows.
    pub seed: u64,
    /// Transactions, including those of the warm-up.
    pub transactions: u64,
    /// Transactions that were acknowledged as durable, per second.
    pub commits_per_second: f64,
    /// Median of their latencies in microseconds.
    pub latency_median_us: f64,
    /// 99th percentile of their latencies in microseconds.
    pub latency_p99_us: f64,
    /// Mean number of attempts of a transaction.
    pub attempts_per_commit: f64,
}

/// The median: the mean of both values if two are in the middle; 0 if there are no values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => (values[count / 2 - 1] + values[count / 2]) / 2.0,
        count => values[count / 2],
    }
}

/// One engine's runs of one operation with one number of clients.
struct Line<'a> {
    engine: Kind,
    runs: Vec<&'a Run>,
    /// Commits as a share of those of Isles ([`base`]): the median over rounds, each compared with
    /// Isles in the same round.
    share: Option<f64>,
}

impl Line<'_> {
    fn median(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(|run| value(run)))
    }
}

/// The engine with which the others are compared: Isles, or else Isles with its rows in pages.
fn base(runs: &[&Run]) -> Kind {
    match runs.iter().any(|run| run.engine == Kind::Isles) {
        true => Kind::Isles,
        false => Kind::IslesPages,
    }
}

fn lines<'a>(runs: &[&'a Run]) -> Vec<Line<'a>> {
    let of = |engine: Kind| runs.iter().copied().filter(move |run| run.engine == engine);
    let share = |run: &Run| {
        let isles = of(base(runs)).find(|isles| isles.round == run.round)?;
        (isles.commits_per_second > 0.0).then(|| run.commits_per_second / isles.commits_per_second)
    };
    let line = |engine| {
        let runs: Vec<_> = of(engine).collect();
        let shares: Option<Vec<_>> = runs.iter().map(|run| share(run)).collect();
        (!runs.is_empty()).then(|| Line {
            engine,
            runs,
            share: shares.map(|shares| median(shares.into_iter())),
        })
    };
    Kind::ALL.iter().copied().filter_map(line).collect()
}

/// The table, in Markdown: medians over rounds.
pub fn table(runs: &[Run]) -> String {
    let cases: BTreeSet<_> = runs.iter().map(|run| (run.operation, run.clients)).collect();
    let mut text = String::new();
    for (operation, clients) in cases {
        let of_case: Vec<_> =
            runs.iter().filter(|run| (run.operation, run.clients) == (operation, clients)).collect();
        let lines = lines(&of_case);
        let _ = writeln!(text, "\n{}\n", verdict(operation, clients, base(&of_case), &lines));
        text.push_str("| engine | commits/s | median us | p99 us | attempts | of isles |\n");
        text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
        for line in &lines {
            let share = line.share.map_or("-".to_owned(), |share| format!("{share:.2}"));
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.1} | {:.1} | {:.2} | {share} |",
                line.engine,
                line.median(|run| run.commits_per_second),
                line.median(|run| run.latency_median_us),
                line.median(|run| run.latency_p99_us),
                line.median(|run| run.attempts_per_commit),
            );
        }
    }
    text
}

/// A sentence about the fastest engine and its lead.
fn verdict(operation: Operation, clients: usize, base: Kind, lines: &[Line<'_>]) -> String {
    let case = format!("{}, {clients} client{}", operation.title(), if clients == 1 { "" } else { "s" });
    let others = lines.iter().filter(|line| line.engine != base);
    let best = others.filter_map(|line| Some((line.engine, line.share?))).max_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        None => case,
        Some((engine, share)) if share < 1.0 => {
            format!("{case}: {base} is first, {:.2} times {engine}", 1.0 / share)
        }
        Some((engine, share)) => format!("{case}: {engine} is first, {share:.2} times {base}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_run(engine: Kind, round: u64, commits_per_second: f64) -> Run {
        Run {
            version: "0".into(),
            engine,
            operation: Operation::Update,
            clients: 16,
            round,
            rows: 100,
            seconds: 1.0,
            seed: 1,
            transactions: 1,
            commits_per_second,
            latency_median_us: 1.0,
            latency_p99_us: 2.0,
            attempts_per_commit: 1.0,
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0].into_iter()), 2.5);
        assert_eq!(median([].into_iter()), 0.0);
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let isles = [100.0, 10.0, 1.0].into_iter().enumerate();
        let mut runs: Vec<_> = isles.map(|(round, rate)| a_run(Kind::Isles, round as u64, rate)).collect();
        let redb = [50.0, 5.0, 0.5].into_iter().enumerate();
        runs.extend(redb.map(|(round, rate)| a_run(Kind::Redb, round as u64, rate)));
        let text = table(&runs);
        assert!(text.contains("update of 10 rows, 16 clients: isles is first, 2.00 times redb"), "{text}");
        assert!(text.contains("| redb | 5 | 1.0 | 2.0 | 1.00 | 0.50 |"), "{text}");
        runs.push(a_run(Kind::Heed, 1, 20.0));
        assert!(table(&runs).contains("heed is first, 2.00 times isles"));
        runs.retain(|run| run.engine != Kind::Isles);
        runs.push(a_run(Kind::IslesPages, 1, 40.0));
        assert!(table(&runs).contains("isles-pages is first, 2.00 times heed"));
    }

    #[test]
    fn without_isles_there_is_no_ratio() {
        assert!(table(&[a_run(Kind::Redb, 1, 5.0)]).contains("| redb | 5 | 1.0 | 2.0 | 1.00 | - |"));
    }

    #[test]
    fn rows_survive_json() {
        let run = a_run(Kind::FjallGroup, 2, 3.5);
        let text = serde_json::to_string(&run).unwrap();
        assert!(text.contains("\"fjall-group\""), "{text}");
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }
}
