//! The result of a study on standard output: tables for people, one object for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

use ::experiments::report::{Origin, command_line};
use ::experiments::{Judgement, StudyResults, Verdict};
use serde_json::{Map, Value as Json, json};

use super::figures;
use super::progress::Counts;
use crate::bad_input::one_line;
use crate::report::Style;

/// One object: every finding with its runs and their results, and every figure with its points;
/// several studies are a list in it.
pub(super) fn json(
    origin: &Origin,
    results: &[StudyResults<'_>],
    counts: &Counts,
    page: Option<&Path>,
) -> Json {
    let mut object = match results {
        [one] => study(one),
        several => {
            let all = several.iter().flat_map(|study| &study.judgements);
            let studies: Vec<Json> = several.iter().map(|one| Json::Object(study(one))).collect();
            Map::from_iter([("counts".to_owned(), by_verdict(all)), ("studies".to_owned(), json!(studies))])
        }
    };
    let rest = json!({
        "runs": {"needed": counts.all, "done": counts.done, "cached": counts.cached},
        "report": page.map(|page| page.display().to_string()),
        "version": origin.version,
        "host": origin.host,
        "host_seconds": counts.host_seconds,
    });
    object.extend(rest.as_object().cloned().unwrap_or_default());
    Json::Object(object)
}

fn study(results: &StudyResults<'_>) -> Map<String, Json> {
    Map::from_iter([
        ("study".to_owned(), json!(results.file)),
        ("counts".to_owned(), by_verdict(results.judgements.iter())),
        ("findings".to_owned(), results.judgements.iter().map(finding).collect()),
        ("figures".to_owned(), results.figures.iter().map(figures::json).collect()),
    ])
}

/// Number of findings by their verdict.
fn by_verdict<'a>(judgements: impl Iterator<Item = &'a Judgement<'a>>) -> Json {
    let verdicts: Vec<Verdict> = judgements.map(|one| one.verdict).collect();
    let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    Verdict::ALL.into_iter().map(|verdict| (key(verdict), json!(count(verdict)))).collect()
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

/// For each study a table of all findings, what failed and what is missing, with the reasons; then
/// the figures. Studies without a selected finding or figure are left out.
pub(super) fn text(results: &[StudyResults<'_>]) -> String {
    let style = Style::for_terminal(std::io::stdout().is_terminal());
    let is_selected = |study: &&StudyResults<'_>| !study.judgements.is_empty() || !study.figures.is_empty();
    let texts = results.iter().filter(is_selected).map(|study| {
        let heading =
            if results.len() == 1 { String::new() } else { style.heading(&format!("{}\n", study.file)) };
        heading + &text_of_study(study, style)
    });
    texts.collect::<Vec<String>>().join("\n")
}

fn text_of_study(StudyResults { judgements, figures, .. }: &StudyResults<'_>, style: Style) -> String {
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
