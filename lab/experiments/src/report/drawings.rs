//! The drawings of a finding, chosen by the parts of its value:
//!
//! - two lists compared (`spearman`, `log_error`, `within_two`): both as lines;
//! - numbers taken from runs: a bar each, one drawing for each kind of number;
//! - an accepted interval: a gauge with the published and the measured value.

use crate::expression::{Pairing, Path, Value};
use crate::file::{Accept, Finding, Published};
use crate::pages::html::figure;
use crate::pages::plot::{Bar, Gauge, Lines, Series, bars, gauge, lines};
use crate::verdict::Judgement;

/// Height of a drawing of lines.
const LINES_HEIGHT: f64 = 280.0;

/// All drawings of a finding.
pub(super) fn of(judgement: &Judgement<'_>) -> String {
    let mut text = String::new();
    if let Accept::Interval(low, high) = judgement.finding.accept {
        text.push_str(&interval(judgement, low, high));
    }
    let pairings = judgement.finding.value.pairings(&judgement.results);
    let measured: Vec<&Pairing> = pairings.iter().filter(|pairing| !pairing.paths.is_empty()).collect();
    for pairing in &measured {
        text.push_str(&pair(judgement.finding, pairing, &pairings));
    }
    let drawn = |path: &Path| measured.iter().any(|pairing| pairing.paths.contains(path));
    text.push_str(&numbers_of_runs(judgement, &drawn));
    text
}

fn interval(judgement: &Judgement<'_>, low: f64, high: f64) -> String {
    let published = match judgement.finding.published {
        Published::Number(number) => Some(number),
        Published::Truth(_) => None,
    };
    let measured = match judgement.measured {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    };
    let label = format!("{}: measured, published and accepted value", judgement.finding.id);
    figure(
        &gauge(&label, &Gauge { published, accept: (low, high), measured }),
        "The green band is the accepted interval.",
    )
}

/// A measured list with the list that it is compared with, and other lists that are compared with
/// the same.
fn pair(finding: &Finding, pairing: &Pairing, all: &[Pairing]) -> String {
    // Ranks do not depend on units, so lists that are compared by rank are drawn relative to their
    // largest value.
    let by_rank = pairing.function == "spearman";
    let shown = |values: &[f64]| {
        let most = values.iter().copied().fold(0.0, f64::max);
        if by_rank && most > 0.0 {
            values.iter().map(|value| value / most).collect()
        } else {
            values.to_vec()
        }
    };
    let series = |name: &str, values: &[f64], dashed| Series {
        name: name.to_owned(),
        values: shown(values),
        dashed,
        like: None,
    };
    let mut drawn =
        vec![series("measured", &pairing.first, false), series("published", &pairing.second, true)];
    let others = all.iter().filter(|other| other.paths.is_empty() && other.second == pairing.second);
    drawn.extend(others.map(|other| series("null model", &other.first, true)));
    let (x_name, positions, names) = match differing_flag(finding, &pairing.paths) {
        Some((flag, values)) => (flag, values, None),
        None => {
            let names = pairing.paths.iter().map(|path| path.run.clone()).collect();
            ("run".to_owned(), (0..pairing.paths.len()).map(|number| number as f64).collect(), Some(names))
        }
    };
    let y_name = if by_rank { "relative to the largest" } else { "value" };
    let value = crate::numbers::plain(pairing.value);
    let caption = format!("{} of measured and published: {value}.", pairing.function);
    figure(
        &lines(&Lines {
            label: format!("{}: measured and published over {x_name}", finding.id),
            x_name,
            y_name: y_name.to_owned(),
            positions,
            names,
            logarithmic: true,
            dots: true,
            height: LINES_HEIGHT,
            marks: Vec::new(),
            series: drawn,
        }),
        &caption,
    )
}

/// A bar for each number that the value takes from a run, unless it is drawn already.
fn numbers_of_runs(judgement: &Judgement<'_>, drawn: &dyn Fn(&Path) -> bool) -> String {
    let mut groups: Vec<(String, Vec<Bar>)> = Vec::new();
    for path in judgement.finding.value.paths() {
        let Some(value) = number_at(judgement, path).filter(|value| *value >= 0.0) else { continue };
        if drawn(path) {
            continue;
        }
        let name_in_run = path.without_run();
        let position = groups.iter().position(|(name, _)| *name == name_in_run).unwrap_or_else(|| {
            groups.push((name_in_run, Vec::new()));
            groups.len() - 1
        });
        let bars = &mut groups[position].1;
        if !bars.iter().any(|bar| bar.label == path.run) {
            bars.push(Bar { label: path.run.clone(), value, hint: format!("{path} = {value}") });
        }
    }
    let drawing = |(name_in_run, group): &(String, Vec<Bar>)| {
        let unit = if name_in_run.starts_with("throughput") { "/s" } else { "" };
        let label = format!("{}: {name_in_run} by run", judgement.finding.id);
        figure(&bars(&label, unit, group), &format!("{name_in_run} of each run"))
    };
    groups.iter().map(drawing).collect()
}

fn number_at(judgement: &Judgement<'_>, path: &Path) -> Option<f64> {
    match crate::expression::look_up(path, &judgement.results) {
        Ok(Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// Names of the runs of a path in a drawing: the flag in which the runs differ, with its values.
pub(super) fn differing_flag(finding: &Finding, paths: &[Path]) -> Option<(String, Vec<f64>)> {
    let lists: Option<Vec<&[String]>> = paths
        .iter()
        .map(|path| {
            let run = finding.runs.iter().find(|run| run.name == path.run)?;
            Some(run.arguments.as_slice())
        })
        .collect();
    let lists = lists?;
    let first = *lists.first()?;
    let same_shape = lists.iter().all(|list| list.len() == first.len());
    if !same_shape {
        return None;
    }
    let differs = |position: &usize| lists.iter().any(|list| list[*position] != first[*position]);
    let differing: Vec<usize> = (0..first.len()).filter(differs).collect();
    let [position] = differing[..] else { return None };
    let values: Option<Vec<f64>> = lists.iter().map(|list| list[position].parse().ok()).collect();
    let flag = first.get(position.checked_sub(1)?)?.clone();
    let values = values.filter(|values| values.windows(2).all(|pair| pair[0] < pair[1]))?;
    Some((flag, values))
}
