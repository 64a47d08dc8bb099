//! Verdicts and states of figures as coloured words.

use crate::measured_figure::FigureStatus;
use crate::pages::html::chip;
use crate::verdict::Verdict;

pub(super) fn verdict_chip(verdict: Verdict) -> String {
    let tone = match verdict {
        Verdict::Pass => "good",
        Verdict::Fail | Verdict::Failed => "bad",
        Verdict::Stopped => "warn",
        Verdict::NotYet => "plain",
    };
    chip(tone, verdict.name())
}

pub(super) fn status_chip(status: FigureStatus) -> String {
    let tone = match status {
        FigureStatus::Done => "good",
        FigureStatus::Failed => "bad",
        FigureStatus::Stopped => "warn",
        FigureStatus::NotYet => "plain",
    };
    chip(tone, status.name())
}
