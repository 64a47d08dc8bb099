//! One table of all verdicts: a row for each finding and each figure of all studies.

use super::chips::{status_chip, verdict_chip};
use super::study_results::{StudyResults, anchor};
use crate::measured_figure::{FigureStatus, MeasuredFigure};
use crate::numbers;
use crate::pages::html::{self, escape};
use crate::verdict::{Judgement, Verdict};

/// Headings of the table.
pub(super) const HEADINGS: [&str; 8] =
    ["study", "finding or figure", "source", "published", "accepted", "measured", "verdict", "claim"];
/// Text of a cell without a value.
const NOTHING: &str = "–";

/// A finding with its verdict, or a figure with its status, in words.
pub(super) struct VerdictRow {
    /// The finding or figure.
    pub id: String,
    /// Its publication.
    pub source: String,
    /// The published value.
    pub published: String,
    /// Accepted values.
    pub accepted: String,
    /// The value; for a figure its ratio to the published one.
    pub measured: String,
    /// The verdict, or the status of the figure.
    pub outcome: Outcome,
    /// The claim, or the set-up of the figure.
    pub claim: String,
    /// Reason for a missing value, or comparisons behind one that is not accepted; empty without
    /// any.
    pub reason: String,
}

/// The outcome of a row.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The verdict of a finding.
    Verdict(Verdict),
    /// The status of a figure.
    Status(FigureStatus),
}

impl Outcome {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Verdict(verdict) => verdict.name(),
            Outcome::Status(status) => status.name(),
        }
    }

    fn chip(self) -> String {
        match self {
            Outcome::Verdict(verdict) => verdict_chip(verdict),
            Outcome::Status(status) => status_chip(status),
        }
    }
}

/// The rows of a study, findings first.
pub(super) fn of(study: &StudyResults<'_>) -> Vec<VerdictRow> {
    study.judgements.iter().map(of_finding).chain(study.figures.iter().map(of_figure)).collect()
}

fn of_finding(judgement: &Judgement<'_>) -> VerdictRow {
    let finding = judgement.finding;
    let reason = match judgement.verdict {
        Verdict::Pass => "",
        Verdict::Fail => &judgement.explanation,
        Verdict::Failed | Verdict::NotYet | Verdict::Stopped => &judgement.reason,
    };
    VerdictRow {
        id: finding.id.clone(),
        source: finding.source.clone(),
        published: finding.published.to_string(),
        accepted: finding.accept.to_string(),
        measured: judgement.measured.as_ref().map_or(NOTHING.to_owned(), ToString::to_string),
        outcome: Outcome::Verdict(judgement.verdict),
        claim: finding.claim.clone(),
        reason: reason.to_owned(),
    }
}

fn of_figure(measured: &MeasuredFigure<'_>) -> VerdictRow {
    let figure = measured.figure;
    let points = figure.series.iter().flat_map(|series| series.published.iter().flatten());
    let published = match points.flatten().count() {
        0 => NOTHING.to_owned(),
        1 => "1 point".to_owned(),
        count => format!("{count} points"),
    };
    let range = |(low, high)| match [low, high].map(numbers::plain) {
        [low, high] if low == high => format!("{low} times"),
        [low, high] => format!("{low} to {high} times"),
    };
    VerdictRow {
        id: figure.id.clone(),
        source: figure.source.clone(),
        published,
        accepted: NOTHING.to_owned(),
        measured: measured.over_published().map_or(NOTHING.to_owned(), range),
        outcome: Outcome::Status(measured.status),
        claim: figure.about.clone(),
        reason: measured.reason.clone(),
    }
}

/// The table on a page of several studies.
pub(super) fn table(studies: &[StudyResults<'_>]) -> String {
    let mut rows = Vec::new();
    for study in studies {
        let name = study.name();
        for row in of(study) {
            let target = anchor(&format!("{name}:"), &row.id);
            rows.push(vec![
                format!("<a href=\"#{0}\">{0}</a>", escape(&name)),
                format!("<a href=\"#{}\">{}</a>", escape(&target), escape(&row.id)),
                escape(&row.source),
                escape(&row.published),
                escape(&row.accepted),
                escape(&row.measured),
                row.outcome.chip(),
                escape(&row.claim),
            ]);
        }
    }
    html::table(&HEADINGS, &[3, 4, 5], &rows)
}
