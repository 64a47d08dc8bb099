//! The page of a study: tables of all findings and figures, then each finding with its drawing, its
//! value and its runs, and each figure with its curves, its values and its runs. A page of several
//! studies has one table of all verdicts instead, and then each study.
//!
//! It has no time of day and no duration: the same results give the same bytes.

mod chips;
mod command;
mod drawings;
mod figures;
pub mod markdown;
mod study_results;
#[cfg(test)]
mod tests;
mod verdict_rows;

use serde_json::Value as Json;

use self::chips::verdict_chip;
pub use self::command::{command_line, shell_line};
pub use self::study_results::StudyResults;
use self::study_results::anchor;
use crate::file::Run;
use crate::numbers;
use crate::pages::html::{self, escape, push};
use crate::verdict::{Judgement, Verdict};

/// Origin of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Version of the program.
    pub version: String,
    /// The machine on which the study was made, in words.
    pub host: String,
}

/// The sections of all findings and figures of a study; `prefix` is in front of their ids in
/// anchors.
fn sections(study: &StudyResults<'_>, prefix: &str) -> String {
    let findings = study.judgements.iter().map(|one| finding(one, &anchor(prefix, &one.finding.id)));
    let figures = study.figures.iter().map(|one| figures::section(one, &anchor(prefix, &one.figure.id)));
    findings.chain(figures).collect()
}

/// The page of one study or of several.
pub fn page(origin: &Origin, studies: &[StudyResults<'_>]) -> String {
    let made = format!("isles {} · made on {}", origin.version, origin.host);
    let lead = |text: &str| format!("<p class=\"lead\">{}</p>\n", escape(text));
    if let [one] = studies {
        let title = one.title();
        let mut body = format!("<h1>{}</h1>\n", escape(&title));
        body.push_str(&lead(&format!("{} · {made}", one.file)));
        body.push_str(&one.about());
        if !one.judgements.is_empty() {
            body.push_str(&counts(&one.judgements.iter().collect::<Vec<_>>()));
            body.push_str(&summary(&one.judgements));
        }
        if !one.figures.is_empty() {
            body.push_str(&figures::summary(&one.figures));
        }
        body.push_str(&sections(one, ""));
        return html::page(&title, &body);
    }
    let title = "All studies";
    let mut body = format!("<h1>{title}</h1>\n");
    body.push_str(&lead(&format!("{} studies · {made}", studies.len())));
    body.push_str(&counts(&studies.iter().flat_map(|study| &study.judgements).collect::<Vec<_>>()));
    body.push_str(&verdict_rows::table(studies));
    for study in studies {
        let name = study.name();
        let head = format!("{}{}", lead(&study.file), study.about());
        body.push_str(&html::section(&name, &study.title(), &head));
        body.push_str(&sections(study, &format!("{name}:")));
    }
    html::page(title, &body)
}

/// Number of findings of each verdict.
fn counts(judgements: &[&Judgement<'_>]) -> String {
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

/// The section of one finding, with `anchor` as the target of links.
fn finding(judgement: &Judgement<'_>, anchor: &str) -> String {
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
    html::section(anchor, &finding.id, &body)
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
