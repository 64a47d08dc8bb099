//! Verdicts on findings by the results of their runs.

use serde::Serialize;

use crate::execute::Outcome;
use crate::expression::{Results, Value};
use crate::file::{Accept, Finding, Study};
use crate::plan::PlannedStudy;

/// Result of the test of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is accepted.
    Pass,
    /// The value is not accepted.
    Fail,
    /// A run failed, or the value cannot be computed from the results.
    Failed,
    /// A run needs a later version.
    NotYet,
    /// The user stopped the study before all runs had ended.
    Stopped,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Verdict; 5] =
        [Verdict::Pass, Verdict::Fail, Verdict::Failed, Verdict::NotYet, Verdict::Stopped];

    /// Name of the verdict for people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Failed => "failed",
            Verdict::NotYet => "not yet",
            Verdict::Stopped => "stopped",
        }
    }

    /// True if it makes the study fail.
    pub fn is_bad(self) -> bool {
        matches!(self, Verdict::Fail | Verdict::Failed | Verdict::Stopped)
    }
}

/// A judged finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// The verdict.
    pub verdict: Verdict,
    /// The value; `None` without a value.
    pub measured: Option<Value>,
    /// The comparisons in the value, with numbers; empty without any.
    pub explanation: String,
    /// Reason for the missing value; empty if there is one.
    pub reason: String,
    /// Results of the runs that succeeded, by the name of the run.
    pub results: Results,
    /// Names of the runs whose results came from the cache.
    pub cached: Vec<String>,
}

/// Judges the planned findings of a study by the outcomes of the plan's runs, in the order of the
/// plan.
pub fn judge<'a>(study: &'a Study, planned: &PlannedStudy, outcomes: &[Outcome]) -> Vec<Judgement<'a>> {
    let judgement = |(position, runs): &(usize, Vec<(String, usize)>)| {
        let finding = &study.findings[*position];
        let named: Vec<(&str, &Outcome)> =
            runs.iter().map(|(name, number)| (name.as_str(), &outcomes[*number])).collect();
        judge_one(finding, &named)
    };
    planned.findings.iter().map(judgement).collect()
}

fn judge_one<'a>(finding: &'a Finding, runs: &[(&str, &Outcome)]) -> Judgement<'a> {
    let mut judgement = Judgement {
        finding,
        verdict: Verdict::Pass,
        measured: None,
        explanation: String::new(),
        reason: String::new(),
        results: Results::new(),
        cached: Vec::new(),
    };
    for (name, outcome) in runs {
        if let Outcome::Done { result, cached } = outcome {
            judgement.results.insert((*name).to_owned(), result.clone());
            judgement.cached.extend(cached.then(|| (*name).to_owned()));
        }
    }
    if let Some((verdict, reason)) = obstacle(runs) {
        (judgement.verdict, judgement.reason) = (verdict, reason);
        return judgement;
    }
    match finding.value.evaluate(&judgement.results) {
        Ok(value) => match accepted(&value, finding.accept) {
            Ok(accepted) => {
                judgement.verdict = if accepted { Verdict::Pass } else { Verdict::Fail };
                judgement.explanation = finding.value.explain(&judgement.results);
                judgement.measured = Some(value);
            }
            Err(reason) => (judgement.verdict, judgement.reason) = (Verdict::Failed, reason),
        },
        Err(error) => (judgement.verdict, judgement.reason) = (Verdict::Failed, error.to_string()),
    }
    judgement
}

/// Reason for which runs give no value: a failed run before a missing one.
pub(crate) fn obstacle(runs: &[(&str, &Outcome)]) -> Option<(Verdict, String)> {
    let obstacle = |(name, outcome): &(&str, &Outcome)| match outcome {
        Outcome::Done { .. } => None,
        Outcome::Failed(reason) => Some((Verdict::Failed, format!("run {name}: {reason}"))),
        Outcome::NotYet(reason) => Some((Verdict::NotYet, reason.clone())),
        Outcome::NotMade => Some((Verdict::Stopped, format!("run {name} was not made"))),
    };
    // `Failed` is the smallest of the three, `Stopped` the largest.
    runs.iter().filter_map(obstacle).min_by_key(|(verdict, _)| *verdict)
}

fn accepted(value: &Value, accept: Accept) -> Result<bool, String> {
    match (value, accept) {
        (Value::Number(number), Accept::Interval(low, high)) => Ok((low..=high).contains(number)),
        (Value::Truth(truth), Accept::True) => Ok(*truth),
        (other, accept) => {
            Err(format!("the value is {other}, which cannot be compared with accept = {accept}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn done(throughput: f64) -> Outcome {
        Outcome::Done { result: json!({"throughput": throughput}), cached: false }
    }

    fn verdict(study: &Study, outcomes: &[(&str, &Outcome)]) -> (Verdict, String) {
        let judgement = judge_one(&study.findings[0], outcomes);
        (judgement.verdict, judgement.reason)
    }

    #[test]
    fn intervals_are_closed() {
        let study = testing::study("b.throughput / a.throughput", "[2, 4]");
        for (value, expected) in
            [(1.99, Verdict::Fail), (2.0, Verdict::Pass), (4.0, Verdict::Pass), (4.01, Verdict::Fail)]
        {
            let judgement = judge_one(&study.findings[0], &[("a", &done(1.0)), ("b", &done(value))]);
            assert_eq!((judgement.verdict, judgement.measured), (expected, Some(Value::Number(value))));
        }
    }

    #[test]
    fn comparisons_are_explained() {
        let study = testing::study("b.throughput > a.throughput", "true");
        let judgement = judge_one(&study.findings[0], &[("a", &done(1.0)), ("b", &done(2.0))]);
        assert_eq!((judgement.verdict, judgement.explanation.as_str()), (Verdict::Pass, "2 > 1"));
        let judgement = judge_one(&study.findings[0], &[("a", &done(2.0)), ("b", &done(2.0))]);
        assert_eq!((judgement.verdict, judgement.measured), (Verdict::Fail, Some(Value::Truth(false))));
    }

    #[test]
    fn failures_come_before_what_is_missing() {
        let study = testing::study("b.throughput / a.throughput", "[2, 4]");
        let (failed, later) = (Outcome::Failed("broken".to_owned()), Outcome::NotYet("later".to_owned()));
        let expect = |a: &Outcome, b: &Outcome, expected: Verdict, reason: &str| {
            assert_eq!(verdict(&study, &[("a", a), ("b", b)]), (expected, reason.to_owned()));
        };
        expect(&later, &failed, Verdict::Failed, "run b: broken");
        expect(&later, &done(1.0), Verdict::NotYet, "later");
        expect(&later, &Outcome::NotMade, Verdict::NotYet, "later");
        expect(&done(1.0), &Outcome::NotMade, Verdict::Stopped, "run b was not made");
        expect(&done(0.0), &done(1.0), Verdict::Failed, "b.throughput / a.throughput: division by zero");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_no_verdict() {
        let study = testing::study("b.throughput > a.throughput", "[2, 4]");
        let (verdict, reason) = verdict(&study, &[("a", &done(1.0)), ("b", &done(1.0))]);
        assert_eq!(verdict, Verdict::Failed);
        assert_eq!(reason, "the value is false, which cannot be compared with accept = 2 to 4");
    }
}
