//! Points of figures by the results of their runs.

use serde::Serialize;

use crate::execute::Outcome;
use crate::expression::{Results, Value};
use crate::file::{Figure, FigurePoint, Study};
use crate::plan::{NamedRuns, PlannedStudy};
use crate::verdict::{Verdict, obstacle};

/// Completeness of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureStatus {
    /// A run failed, or a value cannot be computed from the results.
    Failed,
    /// A run needs a later version.
    NotYet,
    /// The user stopped the study before all runs had ended.
    Stopped,
    /// Every point has a value.
    Done,
}

impl FigureStatus {
    /// All, those of a complete figure first.
    pub const ALL: [FigureStatus; 4] =
        [FigureStatus::Done, FigureStatus::Failed, FigureStatus::NotYet, FigureStatus::Stopped];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            FigureStatus::Failed => "failed",
            FigureStatus::NotYet => "not yet",
            FigureStatus::Stopped => "stopped",
            FigureStatus::Done => "done",
        }
    }

    /// True if it makes the study fail.
    pub fn is_bad(self) -> bool {
        matches!(self, FigureStatus::Failed | FigureStatus::Stopped)
    }
}

/// A figure with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredFigure<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// Its completeness: that of its worst point.
    pub status: FigureStatus,
    /// Reason for the first missing value of this status; empty if all are there.
    pub reason: String,
    /// The value of each point of each series.
    pub series: Vec<Vec<Option<f64>>>,
}

/// A list of values of a figure, as a column of its table.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueColumn<'a> {
    /// Name of the series, marked if the values were published.
    pub heading: String,
    /// A value for each position.
    pub values: &'a [Option<f64>],
}

impl MeasuredFigure<'_> {
    /// The values of each series, with published ones behind the measured ones.
    pub fn columns(&self) -> Vec<ValueColumn<'_>> {
        let mut columns = Vec::new();
        for (series, measured) in self.figure.series.iter().zip(&self.series) {
            columns.push(ValueColumn { heading: series.name.clone(), values: measured });
            if let Some(published) = &series.published {
                columns.push(ValueColumn { heading: published_name(&series.name), values: published });
            }
        }
        columns
    }

    /// The smallest and the largest ratio of a measured value to the published one; `None` where no
    /// point has both.
    pub fn over_published(&self) -> Option<(f64, f64)> {
        let ratios = self.figure.series.iter().zip(&self.series).flat_map(|(series, measured)| {
            let published = series.published.iter().flatten();
            measured.iter().zip(published).filter_map(|pair| match pair {
                (Some(measured), Some(published)) if *published > 0.0 => Some(measured / published),
                _ => None,
            })
        });
        ratios.fold(None, |range, ratio| {
            let (low, high) = range.unwrap_or((ratio, ratio));
            Some((low.min(ratio), high.max(ratio)))
        })
    }
}

/// Name of the published values of a series.
pub fn published_name(series: &str) -> String {
    format!("{series}, published")
}

/// Computes the planned figures of a study by the outcomes of the plan's runs, in the order of the
/// plan.
pub fn measure<'a>(
    study: &'a Study,
    planned: &PlannedStudy,
    outcomes: &[Outcome],
) -> Vec<MeasuredFigure<'a>> {
    planned
        .figures
        .iter()
        .map(|planned| measure_one(&study.figures[planned.position], &planned.series, outcomes))
        .collect()
}

fn measure_one<'a>(figure: &'a Figure, runs: &[Vec<NamedRuns>], outcomes: &[Outcome]) -> MeasuredFigure<'a> {
    let (mut status, mut reason) = (FigureStatus::Done, String::new());
    let mut series = Vec::new();
    for (curve, runs) in figure.series.iter().zip(runs) {
        let mut values = Vec::new();
        for ((point, runs), x) in curve.points.iter().zip(runs).zip(&figure.x) {
            let value = value(point, runs, outcomes).map_err(|missing| {
                if missing.status < status {
                    status = missing.status;
                    reason = format!("{} at {x}: {}", curve.name, missing.reason);
                }
            });
            values.push(value.ok());
        }
        let peak = values.iter().flatten().copied().fold(0.0, f64::max);
        if figure.relative_to_peak && peak > 0.0 {
            values.iter_mut().flatten().for_each(|value| *value /= peak);
        }
        series.push(values);
    }
    MeasuredFigure { figure, status, reason, series }
}

/// Reason for which a point has no value.
struct Missing {
    status: FigureStatus,
    reason: String,
}

fn value(point: &FigurePoint, runs: &NamedRuns, outcomes: &[Outcome]) -> Result<f64, Missing> {
    let failed = |reason: String| Missing { status: FigureStatus::Failed, reason };
    let named: Vec<(&str, &Outcome)> =
        runs.iter().map(|(name, number)| (name.as_str(), &outcomes[*number])).collect();
    if let Some((verdict, reason)) = obstacle(&named) {
        let status = match verdict {
            Verdict::NotYet => FigureStatus::NotYet,
            Verdict::Stopped => FigureStatus::Stopped,
            Verdict::Pass | Verdict::Fail | Verdict::Failed => FigureStatus::Failed,
        };
        return Err(Missing { status, reason });
    }
    let mut results = Results::new();
    for (name, outcome) in named {
        if let Outcome::Done { result, .. } = outcome {
            results.insert(name.to_owned(), result.clone());
        }
    }
    match point.value.evaluate(&results) {
        Ok(Value::Number(number)) => Ok(number),
        Ok(other) => Err(failed(format!("the value is {other}, not a number"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Plan, select};
    use crate::testing;

    /// The figure of [`testing::figure`] with these outcomes of its runs, of which the last two are
    /// those of the second series.
    fn measured(outcomes: [Outcome; 4]) -> (FigureStatus, String, Vec<Vec<Option<f64>>>) {
        measured_as("value = 'run.throughput / 1000'", outcomes)
    }

    fn measured_as(y: &str, outcomes: [Outcome; 4]) -> (FigureStatus, String, Vec<Vec<Option<f64>>>) {
        let studies = [testing::figure("[1, 2]", y)];
        let plan = Plan::new(&select(&studies, &[]).unwrap(), &testing::ready);
        assert_eq!(plan.needed(), 4);
        let figures = measure(&studies[0], &plan.studies[0], &outcomes);
        (figures[0].status, figures[0].reason.clone(), figures[0].series.clone())
    }

    fn done(throughput: f64) -> Outcome {
        Outcome::Done { result: json!({"throughput": throughput}), cached: false }
    }

    #[test]
    fn a_point_that_fails_leaves_the_others() {
        let whole = measured([done(1e3), done(2e3), done(3e3), done(4e3)]);
        let values = vec![vec![Some(1.0), Some(2.0)], vec![Some(3.0), Some(4.0)]];
        assert_eq!(whole, (FigureStatus::Done, String::new(), values));
        let later = || Outcome::NotYet("--fast: not available".to_owned());
        let part = measured([Outcome::NotMade, later(), done(3e3), Outcome::Failed("it broke".to_owned())]);
        let values = vec![vec![None, None], vec![Some(3.0), None]];
        assert_eq!(part, (FigureStatus::Failed, "b at 2: run run: it broke".to_owned(), values.clone()));
        let (status, reason, _) = measured([Outcome::NotMade, later(), done(3e3), done(4e3)]);
        assert_eq!((status, reason.as_str()), (FigureStatus::NotYet, "a at 2: --fast: not available"));
        let (status, reason, _) = measured([Outcome::NotMade, done(1.0), done(3e3), done(4e3)]);
        assert_eq!((status, reason.as_str()), (FigureStatus::Stopped, "a at 1: run run was not made"));
        let other = Outcome::Done { result: json!({"throughput": null}), cached: false };
        let (status, reason, _) = measured([done(1.0), other, done(3e3), done(4e3)]);
        assert_eq!(status, FigureStatus::Failed);
        assert!(reason.starts_with("a at 2: run.throughput: not known to this run"), "{reason}");
    }

    #[test]
    fn published_values_are_beside_the_measured_ones() {
        let mut study = testing::figure("[1, 2]", "value = 'run.throughput'");
        study.figures[0].series[1].published = Some(vec![Some(10.0), None]);
        let studies = [study];
        let plan = Plan::new(&select(&studies, &[]).unwrap(), &testing::ready);
        let outcomes = [done(1.0), done(2.0), done(5.0), done(6.0)];
        let figures = measure(&studies[0], &plan.studies[0], &outcomes);
        let columns = figures[0].columns();
        let headings: Vec<&str> = columns.iter().map(|column| column.heading.as_str()).collect();
        assert_eq!(headings, ["a", "b", "b, published"]);
        assert_eq!(columns[2].values, [Some(10.0), None]);
        assert_eq!(figures[0].over_published(), Some((0.5, 0.5)));
    }

    #[test]
    fn curves_can_be_relative_to_their_peak() {
        let (_, _, series) = measured_as(
            "value = 'run.throughput', relative_to_peak = true",
            [done(5.0), done(20.0), done(0.0), Outcome::NotMade],
        );
        assert_eq!(series, vec![vec![Some(0.25), Some(1.0)], vec![Some(0.0), None]]);
    }
}
