//! The result of a study on standard output: tables for people, one object for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

use ::experiments::report::{Origin, command_line};
use ::experiments::{Judgement, MeasuredFigure, Verdict};
use serde_json::{Map, Value as Json, json};

use super::figures;
use super::progress::Counts;
use crate::bad_input::one_line;
use crate::report::Style;

/// Findings and figures with their values.
pub(super) struct Results<'a> {
    pub judgements: Vec<Judgement<'a>>,
    pub figures: Vec<MeasuredFigure<'a>>,
}

/// One object: every finding with its runs and their results, and every figure with its points.
pub(super) fn json(
    origin: &Origin,
    Results { judgements, figures }: &Results<'_>,
    counts: &Counts,
    page: Option<&Path>,
) -> Json {
    let by_verdict: Map<String, Json> =
        Verdict::ALL.into_iter().map(|verdict| (key(verdict), json!(count(judgements, verdict)))).collect();
    json!({
        "study": origin.file,
        "counts": by_verdict,
        "findings": judgements.iter().map(finding).collect::<Vec<Json>>(),
        "figures": figures.iter().map(figures::json).collect::<Vec<Json>>(),
        "runs": {"needed": counts.all, "done": counts.done, "cached": counts.cached},
        "report": page.map(|page| page.display().to_string()),
        "version": origin.version,
        "host": origin.host,
        "host_seconds": counts.host_seconds,
    })
}

/// The name of a verdict in JSON.
fn key(verdict: Verdict) -> String {
    verdict.name().replace(' ', "_")
}

fn count(judgements: &[Judgement<'_>], verdict: Verdict) -> usize {
    judgements.iter().filter(|judgement| judgement.verdict == verdict).count()
}

fn finding(judgement: &Judgement<'_>) -> Json {
    let finding = judgement.finding;
    let text = |text: &str| if text.is_empty() { Json::Null } else { json!(text) };
    let runs: Map<String, Json> = finding
        .runs
        .iter()
        .map(|run| {
            let result = judgement.results.get(&run.name).cloned();
            let cached = judgement.cached.contains(&run.name);
            (run.name.clone(), json!({"command": command_line(run), "cached": cached, "result": result}))
        })
        .collect();
    json!({
        "id": finding.id,
        "source": finding.source,
        "claim": finding.claim,
        "published": finding.published,
        "accept": finding.accept,
        "value": finding.value.text(),
        "measured": judgement.measured,
        "explanation": text(&judgement.explanation),
        "verdict": judgement.verdict,
        "reason": text(&judgement.reason),
        "runs": runs,
    })
}

/// A table of all findings, what failed and what is missing, with the reasons; then the figures.
pub(super) fn text(Results { judgements, figures }: &Results<'_>) -> String {
    let style = Style::for_terminal(std::io::stdout().is_terminal());
    let mut parts = Vec::new();
    if !judgements.is_empty() {
        parts.push(table(judgements, style));
    }
    if !figures.is_empty() {
        parts.push(figures::text(figures, style));
    }
    parts.join("\n")
}

fn table(judgements: &[Judgement<'_>], style: Style) -> String {
    let width = judgements.iter().map(|one| one.finding.id.len()).max().unwrap_or(0).max("finding".len());
    let row = |id: &str, published: &str, measured: &str, verdict: &str, claim: &str| {
        format!("{id:<width$}  {published:>9}  {measured:>9}  {verdict}  {claim}\n")
    };
    let mut text = style.heading(&row("finding", "published", "measured", "verdict", "claim"));
    for judgement in judgements {
        let finding = judgement.finding;
        let measured = judgement.measured.as_ref().map_or("-".to_owned(), ToString::to_string);
        let verdict = coloured(judgement.verdict, style);
        let claim = one_line(&finding.claim);
        text += &row(&finding.id, &finding.published.to_string(), &measured, &verdict, &claim);
    }
    let counts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| (count(judgements, verdict), verdict.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let findings = if judgements.len() == 1 { "finding" } else { "findings" };
    push(&mut text, format_args!("\n{} {findings}: {}\n", judgements.len(), counts.join(", ")));
    text + &explanations(judgements)
}

/// The comparisons behind findings that failed, reasons for those without a value; what is missing,
/// by reason.
fn explanations(judgements: &[Judgement<'_>]) -> String {
    let mut text = String::new();
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for judgement in judgements {
        let why = match judgement.verdict {
            Verdict::NotYet => {
                *missing.entry(&judgement.reason).or_default() += 1;
                continue;
            }
            Verdict::Pass => continue,
            Verdict::Fail if judgement.explanation.is_empty() => {
                format!("accepted {}", judgement.finding.accept)
            }
            Verdict::Fail => judgement.explanation.clone(),
            Verdict::Failed | Verdict::Stopped => judgement.reason.clone(),
        };
        push(
            &mut text,
            format_args!("{} {}: {}\n", judgement.verdict.name(), judgement.finding.id, one_line(&why)),
        );
    }
    for (reason, count) in missing {
        push(&mut text, format_args!("not yet, {count}: {}\n", one_line(reason)));
    }
    text
}

/// The verdict, as wide as the longest.
fn coloured(verdict: Verdict, style: Style) -> String {
    let name = format!("{:<7}", verdict.name());
    match verdict {
        Verdict::Pass => style.good(&name),
        Verdict::Fail | Verdict::Failed => style.bad(&name),
        Verdict::NotYet | Verdict::Stopped => name,
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string cannot fail");
}
