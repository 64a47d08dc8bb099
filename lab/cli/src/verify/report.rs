//! The results of a campaign, as JSON and as text.

use ::verify::{Injected, Tally, Work};
use serde::Serialize;

use super::plan::Plan;
use crate::errors::Failure;
use crate::numbers;

/// The result of `isles verify`.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// Runs.
    seeds: u64,
    transactions: u64,
    aborts: u64,
    histories: u64,
    /// Histories with more possibilities than were tried.
    undecided: u64,
    /// Injected faults; absent if there were none.
    #[serde(skip_serializing_if = "Injected::is_nothing")]
    injected: Injected,
    /// Number of failing seeds.
    failures: usize,
    series: Vec<Series>,
    config: &'a Plan,
    version: &'static str,
    host_seconds: f64,
}

/// One scheme and workload.
#[derive(Serialize)]
pub(super) struct Series {
    cc: &'static str,
    workload: &'static str,
    seeds: u64,
    transactions: u64,
    aborts: u64,
    histories: u64,
    undecided: u64,
    /// Observations of keys in histories, and the number that the second opinion cannot express.
    observations: u64,
    withheld: u64,
    /// Injected faults; absent if there were none.
    #[serde(skip_serializing_if = "Injected::is_nothing")]
    injected: Injected,
    failures: Vec<FailingSeed>,
}

/// A failing seed.
#[derive(Serialize)]
struct FailingSeed {
    seed: u64,
    what: String,
    /// Repeats it.
    command: String,
    last_events: Vec<String>,
}

impl Series {
    pub(super) fn new(plan: &Plan, cc: &'static str, work: Work, tally: Tally) -> Self {
        let failing = |failure: ::verify::Failure| FailingSeed {
            seed: failure.seed,
            what: failure.what,
            command: plan.command(cc, work, failure.seed),
            last_events: failure.last_events,
        };
        Series {
            cc,
            workload: work.name(),
            seeds: tally.seeds,
            transactions: tally.sum.transactions,
            aborts: tally.sum.aborts,
            histories: tally.sum.histories,
            undecided: tally.sum.undecided,
            observations: tally.sum.observations,
            withheld: tally.sum.withheld,
            injected: tally.sum.injected,
            failures: tally.failures.into_iter().map(failing).collect(),
        }
    }

    fn line(&self) -> String {
        let verdict = if self.failures.is_empty() { "ok" } else { "VIOLATED" };
        format!(
            "{:<10} {:<10} {:>10} {:>13} {:>12} {:>10}  {verdict}\n",
            self.cc,
            self.workload,
            numbers::thousands(self.seeds),
            numbers::thousands(self.transactions),
            numbers::thousands(self.aborts),
            numbers::thousands(self.histories),
        )
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(config: &'a Plan, series: Vec<Series>, host_seconds: f64) -> Self {
        let sum = |count: fn(&Series) -> u64| series.iter().map(count).sum();
        let mut injected = Injected::default();
        series.iter().for_each(|one| injected.add(one.injected));
        Report {
            seeds: sum(|one| one.seeds),
            transactions: sum(|one| one.transactions),
            aborts: sum(|one| one.aborts),
            histories: sum(|one| one.histories),
            undecided: sum(|one| one.undecided),
            injected,
            failures: series.iter().map(|one| one.failures.len()).sum(),
            series,
            config,
            version: env!("CARGO_PKG_VERSION"),
            host_seconds,
        }
    }

    /// A table, then the failures.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:<10} {:<10} {:>10} {:>13} {:>12} {:>10}\n",
            "scheme", "workload", "seeds", "transactions", "aborts", "histories"
        );
        self.series.iter().for_each(|one| text += &one.line());
        let rate = self.seeds as f64 / self.host_seconds.max(1e-9);
        let (time, rate) = (numbers::seconds(self.host_seconds), numbers::si(rate));
        text += &format!("machine {}, {time}, {rate} seeds/s", self.config.machine_name);
        if self.undecided > 0 {
            text += &format!(", {} histories too hard to decide", self.undecided);
        }
        text.push('\n');
        if !self.injected.is_nothing() {
            text += &format!("went wrong on purpose: {}\n", self.injected);
        }
        for failure in self.series.iter().flat_map(|one| &one.failures) {
            text += &format!("\nseed {}: {}\n", failure.seed, failure.what);
            text += "last events of each core:\n";
            failure.last_events.iter().for_each(|event| text += &format!("  {event}\n"));
            text += &format!("again: {}\n", failure.command);
        }
        text
    }

    /// Fails if any seed did, with the command that repeats the first of them.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let Some(first) = self.series.iter().flat_map(|one| &one.failures).next() else { return Ok(()) };
        Err(Failure::Violated(format!("{} failing seeds, the first: {}", self.failures, first.command)))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::plan;
    use super::*;
    use crate::commands::Command;
    use crate::usage;

    fn plan(machine: Option<&str>) -> Plan {
        let words = ["isles", "verify", "--cc", "silo", "--cores", "8"];
        let machine = machine.into_iter().flat_map(|name| ["--machine", name]);
        match usage::parse(words.into_iter().chain(machine).map(OsString::from)).expect("parsed").command {
            Command::Verify(arguments) => plan::resolve(&arguments).expect("accepted"),
            other => panic!("{other:?}"),
        }
    }

    fn tally(failures: Vec<::verify::Failure>) -> Tally {
        let sum = ::verify::Verdict { transactions: 1_200, aborts: 34, histories: 50, ..Default::default() };
        Tally { seeds: 50, sum, failures }
    }

    #[test]
    fn a_failing_seed_is_a_violation_with_its_command() {
        let plan = plan(Some("octo-socket"));
        let failure = ::verify::Failure {
            seed: 123,
            what: "a cycle".into(),
            last_events: vec!["worker 0: committed".into()],
        };
        let series = Series::new(&plan, "silo", Work::Histories, tally(vec![failure]));
        let report = Report::new(&plan, vec![series], 2.0);
        let command = "isles verify --cc silo --workload histories --first-seed 123 --seeds 1 \
                       --machine octo-socket --cores 8";
        let text = report.text();
        for part in
            ["VIOLATED", "seed 123: a cycle\n", "  worker 0: committed\n", &format!("again: {command}\n")]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        let verdict = report.verdict().expect_err("a violation");
        assert_eq!(verdict.status(), 1);
        assert!(verdict.to_string().ends_with(command), "{verdict}");
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!((&json["failures"], &json["seeds"]), (&1.into(), &50.into()));
        assert_eq!(json["series"][0]["failures"][0]["command"], command);
        assert_eq!(json["config"]["cc"][0], "silo");
    }

    #[test]
    fn what_went_wrong_on_purpose_is_counted() {
        let plan = plan(None);
        let injected = Injected { deaths: 3, cuts: 2, ..Injected::default() };
        let tally = || {
            let mut tally = tally(Vec::new());
            tally.sum.injected = injected;
            tally
        };
        let series = [(); 2].map(|()| Series::new(&plan, "silo", Work::Islands, tally()));
        let report = Report::new(&plan, series.into(), 2.0);
        let line = "\nwent wrong on purpose: 6 instances died alone, 4 connections cut\n";
        assert!(report.text().contains(line), "{}", report.text());
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(
            (&json["injected"]["deaths"], &json["series"][1]["injected"]["cuts"]),
            (&6.into(), &2.into())
        );
    }

    #[test]
    fn nothing_wrong_is_no_failure() {
        let plan = plan(None);
        let series = Series::new(&plan, "silo", Work::Bank, tally(Vec::new()));
        let report = Report::new(&plan, vec![series], 2.0);
        assert!(report.verdict().is_ok() && !report.text().contains("on purpose"));
        assert!(
            report.text().contains("1,200") && report.text().contains("25.0 seeds/s"),
            "{}",
            report.text()
        );
    }
}
