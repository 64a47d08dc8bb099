//! Files that describe machines: descriptions (TOML), hwloc's XML, core-to-core matrices (CSV).

use std::path::{Path, PathBuf};

use crate::core_matrix;
use crate::core_matrix::MatrixError;
use crate::description::{Confidence, Description, DescriptionError, Measurements};
use crate::hwloc::{self, XmlError};

/// Size limit of such a file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reasons for which a file describes no machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file does not exist, or cannot be read.
    #[error("{0}")]
    Read(std::io::Error),
    /// Larger than any machine needs.
    #[error("{bytes} bytes: expected at most {FILE_BYTES_MAX} bytes")]
    Large {
        /// Size of the file.
        bytes: u64,
    },
    /// The file is not UTF-8 text.
    #[error("no text: expected a machine description (TOML), XML of hwloc, or a core-to-core matrix (CSV)")]
    NoText,
    /// The description is invalid.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The XML is invalid.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// The matrix is invalid.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Toml,
    Xml,
    Matrix,
}

impl Kind {
    /// The format by the name's extension, or else by the beginning of the text.
    fn of(path: &Path, text: &str) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        match ending.as_deref() {
            Some("toml") => Kind::Toml,
            Some("xml") => Kind::Xml,
            Some("csv") => Kind::Matrix,
            _ if text.trim_start().starts_with('<') => Kind::Xml,
            _ => {
                let first = text.lines().next().unwrap_or_default();
                let numeric =
                    first.contains(',') && first.chars().all(|letter| "0123456789.,eE+- \t".contains(letter));
                if numeric { Kind::Matrix } else { Kind::Toml }
            }
        }
    }
}

impl Description {
    /// Reads the machine in a file: a description (see [`Description::from_toml`]), the XML of
    /// `lstopo --of xml`, or a matrix of measured times of a line between hardware threads (CSV).
    ///
    /// XML gives structure and relative distances. A matrix gives the costs of lines and the
    /// structure that follows from them. All other values are estimates. The machine is named after
    /// the file if the file has no name for it.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be read, or describes no machine.
    pub fn read(path: &Path) -> Result<Description, FileError> {
        let bytes = std::fs::metadata(path).map_err(FileError::Read)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(FileError::Large { bytes });
        }
        let content = std::fs::read(path).map_err(FileError::Read)?;
        let text = String::from_utf8(content).map_err(|_| FileError::NoText)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let name = PathBuf::from(path)
            .file_stem()
            .map_or("described".into(), |stem| stem.to_string_lossy().into_owned());
        match Kind::of(path, text) {
            Kind::Toml => Ok(Description::from_toml_named(text, &name)?),
            Kind::Xml => Ok(Description::from_hwloc_xml(text, &name)?),
            Kind::Matrix => Ok(Description::from_core_matrix(text, &name)?),
        }
    }

    /// Reads the XML that `lstopo --of xml` writes. Latencies of memory follow its distances; all
    /// are estimates.
    ///
    /// # Errors
    /// [`XmlError`]: the text is no XML, or has no machine in it.
    pub fn from_hwloc_xml(text: &str, name: &str) -> Result<Description, XmlError> {
        let machine = hwloc::read(text)?;
        let measured =
            Measurements { name: name.to_owned(), processor: machine.processor, ..Measurements::default() };
        Ok(Description::of_measurements(&machine.topology, &measured))
    }

    /// Reads a square matrix of the times in ns that a line takes between hardware threads: one
    /// line a row, entries separated by commas. Entries on and above the diagonal may be empty.
    ///
    /// Cores, L3 domains and sockets are found by clustering the times; `name` decides if the times
    /// are ambiguous.
    ///
    /// # Errors
    /// [`MatrixError`]: not a square matrix of positive numbers.
    pub fn from_core_matrix(text: &str, name: &str) -> Result<Description, MatrixError> {
        let machine = core_matrix::read(text, name)?;
        let mut description = Description::of_measurements(&machine.topology, &machine.measured);
        if machine.measured.clock_ghz.is_some() {
            description.clock_ghz.confidence = Confidence::Family;
            "nominal clock, in the file's name".clone_into(&mut description.clock_ghz.source);
        }
        Ok(description)
    }
}
