//! Tables of all verdicts in Markdown, one for each study.
//!
//! As on the page, there is no time: the same results give the same bytes.

use super::study_results::StudyResults;
use super::verdict_rows;

/// Headings of the table.
const HEADINGS: [&str; 7] =
    ["finding or figure", "source", "claim", "published", "accepted", "measured", "verdict"];

/// The tables of the studies, each under a heading.
pub fn tables(studies: &[StudyResults<'_>]) -> String {
    let texts: Vec<String> = studies.iter().map(table).collect();
    texts.join("\n")
}

fn table(study: &StudyResults<'_>) -> String {
    let mut text = format!("## {}\n\n", plain(&study.title()));
    text += &row(HEADINGS.map(str::to_owned));
    text += &row(HEADINGS.map(|_| "---".to_owned()));
    for one in verdict_rows::of(study) {
        let verdict = match (one.outcome.name(), one.reason.as_str()) {
            (name, "") => name.to_owned(),
            (name, reason) => format!("{name}: {}", plain(reason)),
        };
        let [source, claim] = [&one.source, &one.claim].map(|text| plain(text));
        text += &row([
            format!("`{}`", one.id),
            source,
            claim,
            one.published,
            one.accepted,
            one.measured,
            verdict,
        ]);
    }
    text
}

fn row(cells: [String; 7]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Text that is no markup, in one line.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '_' | '`' | '<' | '[' | ']' | '\\' => plain.extend(['\\', character]),
            character if character.is_whitespace() => plain.push(' '),
            character => plain.push(character),
        }
    }
    plain
}
