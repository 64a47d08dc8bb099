//! The page of a study: tables of all findings and figures, then each finding with its drawing, its
//! value and its runs, and each figure with its curves, its values and its runs.
//!
//! It has no time of day and no duration: the same results give the same bytes.

mod command;
mod drawings;
mod figures;
#[cfg(test)]
mod tests;

use serde_json::Value as Json;

pub use self::command::{command_line, shell_line};
use crate::file::{Run, Study};
use crate::measured_figure::MeasuredFigure;
use crate::numbers;
use crate::pages::html::{self, chip, escape, push};
use crate::verdict::{Judgement, Verdict};

/// Origin of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The study file, as the user named it.
    pub file: String,
    /// Version of the program.
    pub version: String,
    /// The machine on which the study was made, in words.
    pub host: String,
}

/// The page of a study.
pub fn page(
    study: &Study,
    origin: &Origin,
    judgements: &[Judgement<'_>],
    figures: &[MeasuredFigure<'_>],
) -> String {
    let title = if study.title.is_empty() { format!("Study {}", origin.file) } else { study.title.clone() };
    let mut body = format!("<h1>{}</h1>\n", escape(&title));
    let lead = format!("{} · isles {} · made on {}", origin.file, origin.version, origin.host);
    push(&mut body, format_args!("<p class=\"lead\">{}</p>\n", escape(&lead)));
    for paragraph in study.about.split("\n\n").filter(|text| !text.trim().is_empty()) {
        push(&mut body, format_args!("<p>{}</p>\n", escape(paragraph.trim())));
    }
    if !judgements.is_empty() {
        body.push_str(&counts(judgements));
        body.push_str(&summary(judgements));
    }
    if !figures.is_empty() {
        body.push_str(&figures::summary(figures));
    }
    judgements.iter().for_each(|judgement| body.push_str(&finding(judgement)));
    figures.iter().for_each(|figure| body.push_str(&figures::section(figure)));
    html::page(&title, &body)
}

/// Number of findings of each verdict.
fn counts(judgements: &[Judgement<'_>]) -> String {
    let count = |verdict: Verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let remark = |verdict: Verdict| match verdict {
        Verdict::Pass => "within the accepted range",
        Verdict::Fail => "outside of the accepted range",
        Verdict::Failed => "no value: a run failed",
        Verdict::NotYet => "needs a later version",
        Verdict::Stopped => "the study was stopped",
    };
    // Verdicts that every reader expects are listed also if there are none.
    let always = |verdict: Verdict| matches!(verdict, Verdict::Pass | Verdict::Fail);
    let shown = Verdict::ALL.into_iter().filter(|verdict| always(*verdict) || count(*verdict) > 0);
    let tiles: Vec<(&str, String, String)> = shown
        .map(|verdict| (verdict.name(), count(verdict).to_string(), remark(verdict).to_owned()))
        .collect();
    html::tiles(&tiles)
}

/// The table of all findings.
fn summary(judgements: &[Judgement<'_>]) -> String {
    let row = |judgement: &Judgement<'_>| {
        let finding = judgement.finding;
        let link = format!("<a href=\"#{0}\">{0}</a>", escape(&finding.id));
        let measured = judgement.measured.as_ref().map_or("–".to_owned(), ToString::to_string);
        vec![
            link,
            escape(&finding.published.to_string()),
            escape(&finding.accept.to_string()),
            escape(&measured),
            verdict_chip(judgement.verdict),
            escape(&finding.claim),
        ]
    };
    let rows: Vec<Vec<String>> = judgements.iter().map(row).collect();
    html::table(&["finding", "published", "accepted", "measured", "verdict", "claim"], &[1, 2, 3], &rows)
}

fn verdict_chip(verdict: Verdict) -> String {
    let tone = match verdict {
        Verdict::Pass => "good",
        Verdict::Fail | Verdict::Failed => "bad",
        Verdict::Stopped => "warn",
        Verdict::NotYet => "plain",
    };
    chip(tone, verdict.name())
}

/// The section of one finding.
fn finding(judgement: &Judgement<'_>) -> String {
    let finding = judgement.finding;
    let mut body = format!(
        "<p>{} <span class=\"source\">— {}</span></p>\n",
        escape(&finding.claim),
        escape(&finding.source)
    );
    push(&mut body, format_args!("<p>{} {}</p>\n", verdict_chip(judgement.verdict), in_words(judgement)));
    body.push_str(&drawings::of(judgement));
    push(
        &mut body,
        format_args!("<p class=\"value-line\">value: <code>{}</code></p>\n", escape(finding.value.text())),
    );
    body.push_str(&runs(judgement));
    html::section(&finding.id, &finding.id, &body)
}

/// Value, accepted range and published value in one sentence, or the reason for the missing value.
fn in_words(judgement: &Judgement<'_>) -> String {
    let finding = judgement.finding;
    let expected = format!("published {}, accepted {}", finding.published, finding.accept);
    let Some(measured) = &judgement.measured else {
        let reason = escape(&judgement.reason);
        return format!("<span class=\"reason\">{reason}</span> ({})", escape(&expected));
    };
    let numbers = match judgement.explanation.as_str() {
        "" => String::new(),
        explanation => format!(" ({explanation})"),
    };
    escape(&format!("measured {measured}{numbers}; {expected}"))
}

/// The runs of a finding, with the numbers that its value takes from each.
fn runs(judgement: &Judgement<'_>) -> String {
    let rows: Vec<Vec<String>> = judgement.finding.runs.iter().map(|run| run_row(judgement, run)).collect();
    html::table(&["run", "command", "throughput", "machine", "seed", "version"], &[2, 4], &rows)
}

fn run_row(judgement: &Judgement<'_>, run: &Run) -> Vec<String> {
    let result = judgement.results.get(&run.name);
    let text = |key: &str| {
        let value = result.and_then(|result| result.get(key));
        match value {
            Some(Json::String(text)) => escape(text),
            Some(Json::Null) | None => "–".to_owned(),
            Some(other) => escape(&other.to_string()),
        }
    };
    let throughput = result.and_then(|result| result.get("throughput")).and_then(Json::as_f64);
    vec![
        escape(&run.name),
        html::command(&command_line(run)),
        throughput.map_or("–".to_owned(), |number| format!("{}/s", numbers::si(number))),
        text("machine"),
        text("seed"),
        text("version"),
    ]
}
