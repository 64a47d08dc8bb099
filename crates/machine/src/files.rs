//! Machines in files of several kinds: descriptions (TOML), hwloc's XML, core-to-core matrices
//! (CSV).

use std::path::{Path, PathBuf};

use crate::core_matrix;
use crate::core_matrix::MatrixError;
use crate::description::{Confidence, Description, DescriptionError, Measurements};
use crate::hwloc::{self, XmlError};

/// Largest file taken for a machine.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Why a file describes no machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no such file, or it cannot be read.
    #[error("{0}")]
    Read(std::io::Error),
    /// Larger than any machine needs.
    #[error("{bytes} bytes: expected at most {FILE_BYTES_MAX} bytes")]
    Large {
        /// Its size.
        bytes: u64,
    },
    /// Bytes that are no text.
    #[error("no text: expected a machine description (TOML), XML of hwloc, or a core-to-core matrix (CSV)")]
    NoText,
    /// A bad description.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// Bad XML.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// A bad matrix.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Toml,
    Xml,
    Matrix,
}

impl Kind {
    /// By the ending of the name, or else by what the file looks like.
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
    /// Reads the machine that a file describes: a description (see [`Description::from_toml`]), the
    /// XML of `lstopo --of xml`, or a matrix of measured times of a line between hardware threads
    /// (CSV).
    ///
    /// XML gives structure and relative distances, a matrix the costs of lines and what structure
    /// shows in them; the rest are estimates. The machine is named after the file if the file does
    /// not name it.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be read, or is no machine.
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
    /// [`XmlError`]: no XML, or no machine in it.
    pub fn from_hwloc_xml(text: &str, name: &str) -> Result<Description, XmlError> {
        let machine = hwloc::read(text)?;
        let measured =
            Measurements { name: name.to_owned(), processor: machine.processor, ..Measurements::default() };
        Ok(Description::of_measurements(&machine.topology, &measured))
    }

    /// Reads a square matrix of times in ns that a line takes between hardware threads, one row a
    /// line, entries separated by commas, those on and above the diagonal empty or not.
    ///
    /// Cores, L3 domains and sockets are found by clustering the times; `name` helps where times
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
