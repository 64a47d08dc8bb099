//! Sizes of a study: the same findings and figures in seconds, as written, or in hours.

use toml::{Table, Value as Toml};

use super::error::StudyError;
use super::run::{self, ArgumentsFault};

/// Size of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// Seconds: shows that everything works.
    Smoke,
    /// The runs as the file has them.
    #[default]
    Normal,
    /// Hours.
    Full,
}

impl Size {
    /// All sizes.
    pub const ALL: [Size; 3] = [Size::Smoke, Size::Normal, Size::Full];

    /// Name of the size in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Size::Smoke => "smoke",
            Size::Normal => "normal",
            Size::Full => "full",
        }
    }

    /// Reads the arguments that a file gives all runs of this size, from its table `sizes`.
    pub(super) fn arguments(self, sizes: &Table) -> Result<Vec<String>, StudyError> {
        const ACCEPTED: &str = "a table with arguments, such as { arguments = \"--seconds 0.001\" }";
        let name = self.name();
        if let Some(key) = sizes.keys().find(|key| !Size::ALL.iter().any(|size| size.name() == *key)) {
            return Err(StudyError::file(&format!("sizes.{key}"), "unknown key", "smoke, normal, full"));
        }
        let Some(table) = sizes.get(name) else { return Ok(Vec::new()) };
        let key = format!("sizes.{name}");
        let Toml::Table(table) = table else {
            return Err(StudyError::file(&key, table.type_str(), ACCEPTED));
        };
        let Some(Toml::String(line)) = table.get("arguments") else {
            return Err(StudyError::file(&key, "no arguments", ACCEPTED));
        };
        if let Some(other) = table.keys().find(|other| *other != "arguments") {
            return Err(StudyError::file(&format!("{key}.{other}"), "unknown key", "arguments"));
        }
        run::arguments(line, ACCEPTED).map_err(|ArgumentsFault { problem, accepted }| {
            StudyError::file(&format!("{key}.arguments"), problem, accepted)
        })
    }
}
