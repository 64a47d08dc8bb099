//! Studies with their results, as reports take them.

use std::path::Path;

use crate::file::Study;
use crate::measured_figure::MeasuredFigure;
use crate::pages::html::escape;
use crate::verdict::Judgement;

/// A study with its results.
#[derive(Clone, Debug)]
pub struct StudyResults<'a> {
    /// The study.
    pub study: &'a Study,
    /// Its file, as the user named it.
    pub file: String,
    /// The findings with their verdicts.
    pub judgements: Vec<Judgement<'a>>,
    /// The figures with their values.
    pub figures: Vec<MeasuredFigure<'a>>,
}

impl StudyResults<'_> {
    /// Name of the study in tables: that of its file without the ending.
    pub fn name(&self) -> String {
        let name = Path::new(&self.file).file_stem().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| self.file.clone())
    }

    /// Heading of the study.
    pub(super) fn title(&self) -> String {
        if self.study.title.is_empty() { format!("Study {}", self.file) } else { self.study.title.clone() }
    }

    /// Paragraphs about the study.
    pub(super) fn about(&self) -> String {
        let paragraphs = self.study.about.split("\n\n").filter(|text| !text.trim().is_empty());
        paragraphs.map(|paragraph| format!("<p>{}</p>\n", escape(paragraph.trim()))).collect()
    }
}

/// The target of links to a finding or figure; `prefix` separates those of several studies.
pub(super) fn anchor(prefix: &str, id: &str) -> String {
    format!("{prefix}{id}")
}
