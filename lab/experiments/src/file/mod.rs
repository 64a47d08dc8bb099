//! Study files: TOML, one `[[finding]]` for each claim and one `[[figure]]` for each figure.
//!
//! - `finding`, `figure`: the entries;
//! - `run`, `template`, `size`: arguments of runs, values in braces, and what a size appends;
//! - `reader`, `error`: keys of an entry, and faults.

mod error;
mod figure;
mod finding;
mod reader;
mod run;
mod size;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use toml::{Table, Value as Toml};

pub use error::StudyError;
pub use figure::{Figure, FigurePoint, FigureSeries};
pub use finding::{Accept, Finding, Published};
pub use run::Run;
pub use size::Size;
pub use template::Position;

const KEYS: &str = "title, about, in_folder, sizes, finding, figure";

/// A parsed study file.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Heading of the report; empty if the file has none.
    pub title: String,
    /// Subject of the study; empty if the file has none.
    pub about: String,
    /// False if the file is left out when its folder is run.
    pub in_folder: bool,
    /// Findings in the order of the file.
    pub findings: Vec<Finding>,
    /// Figures in the order of the file.
    pub figures: Vec<Figure>,
}

impl Study {
    /// Parses the text of a study file, with the runs of a size.
    ///
    /// # Errors
    /// [`StudyError`] for the first error in any size: a missing, unknown or unsuitable key, a
    /// repeated id, an expression with an error or with an unknown run.
    pub fn parse(text: &str, size: Size) -> Result<Study, StudyError> {
        let file: Table = text.parse().map_err(|error| StudyError::toml(text, &error))?;
        // Faults are found whatever the size is; those of the runs as written come first.
        let mut study = read(&file, Size::Normal)?;
        for other in [Size::Smoke, Size::Full] {
            let read = read(&file, other)?;
            if other == size {
                study = read;
            }
        }
        Ok(study)
    }
}

fn read(file: &Table, size: Size) -> Result<Study, StudyError> {
    let mut study = Study {
        title: String::new(),
        about: String::new(),
        in_folder: true,
        findings: Vec::new(),
        figures: Vec::new(),
    };
    let mut size_arguments = Vec::new();
    let mut entries: [&[Toml]; 2] = [&[], &[]];
    for (key, value) in file {
        match (key.as_str(), value) {
            ("title", Toml::String(text)) => study.title.clone_from(text),
            ("about", Toml::String(text)) => study.about.clone_from(text),
            ("title" | "about", _) => return Err(StudyError::file(key, "not text", "text in quotes")),
            ("in_folder", Toml::Boolean(in_folder)) => study.in_folder = *in_folder,
            ("in_folder", _) => return Err(StudyError::file(key, value.type_str(), "true or false")),
            ("sizes", Toml::Table(sizes)) => size_arguments = size.arguments(sizes)?,
            ("sizes", _) => return Err(StudyError::file(key, "not a table", "[sizes.smoke], [sizes.full]")),
            ("finding", Toml::Array(tables)) => entries[0] = tables,
            ("figure", Toml::Array(tables)) => entries[1] = tables,
            ("finding" | "figure", _) => {
                return Err(StudyError::file(key, "not a list of tables", &format!("[[{key}]]")));
            }
            _ => return Err(StudyError::file(key, "unknown key", KEYS)),
        }
    }
    let [findings, figures] = entries;
    let mut ids = BTreeSet::new();
    for (number, table) in tables("finding", findings) {
        for finding in finding::read(number, table?, size, &size_arguments)? {
            check_id(&mut ids, "finding", &finding.id)?;
            study.findings.push(finding);
        }
    }
    for (number, table) in tables("figure", figures) {
        for figure in figure::read(number, table?, size, &size_arguments)? {
            check_id(&mut ids, "figure", &figure.id)?;
            study.figures.push(figure);
        }
    }
    if study.findings.is_empty() && study.figures.is_empty() {
        return Err(StudyError::file("finding", "missing", "at least one [[finding]] or [[figure]]"));
    }
    Ok(study)
}

/// The tables of a list of entries with their numbers, from 1.
fn tables<'a>(
    kind: &'static str,
    entries: &'a [Toml],
) -> impl Iterator<Item = (usize, Result<&'a Table, StudyError>)> {
    entries.iter().enumerate().map(move |(position, entry)| {
        let table = entry.as_table().ok_or_else(|| StudyError::Entry {
            kind,
            name: format!("number {}", position + 1),
            key: kind.to_owned(),
            problem: format!("not a table (accepted: [[{kind}]])"),
        });
        (position + 1, table)
    })
}

fn check_id(ids: &mut BTreeSet<String>, kind: &'static str, id: &str) -> Result<(), StudyError> {
    if ids.insert(id.to_owned()) {
        return Ok(());
    }
    // Findings are read first.
    let other = if kind == "finding" { "finding" } else { "finding or figure" };
    let problem = format!("another {other} has it (accepted: an id of its own)");
    Err(StudyError::Entry { kind, name: id.to_owned(), key: "id".to_owned(), problem })
}
