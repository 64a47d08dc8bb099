//! Pages and tables that commands write when they are done.

use std::fs::OpenOptions;
use std::io::Error;
use std::path::{Path, PathBuf};

use crate::bad_input::BadInput;
use crate::errors::Failure;

/// A file that can be written, as was tried before the work began.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
}

impl Page {
    /// The page that `--report` names.
    ///
    /// # Errors
    /// No file can be written there.
    pub fn at(path: &str) -> Result<Page, BadInput> {
        Page::of_flag("--report", path)
    }

    /// The file that a flag names.
    ///
    /// # Errors
    /// No file can be written there.
    pub fn of_flag(flag: &str, path: &str) -> Result<Page, BadInput> {
        let fault =
            |error: Error| BadInput::value(flag, path, error.to_string(), "a file that can be written");
        Page::try_at(Path::new(path)).map_err(fault)
    }

    /// The page at `path`, if it can be written. What is there stays as it is.
    pub fn try_at(path: &Path) -> Result<Page, Error> {
        let was_there = path.exists();
        OpenOptions::new().append(true).create(true).open(path)?;
        if !was_there {
            std::fs::remove_file(path)?;
        }
        Ok(Page { path: path.to_owned() })
    }

    /// Where the page is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the page.
    ///
    /// # Errors
    /// The page cannot be written after all.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        std::fs::write(&self.path, text)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.path.display())))
    }
}
