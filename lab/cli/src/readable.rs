//! Directories that commands read while another process may have them open.

use std::path::{Path, PathBuf};

use isles::Backup;
use platform::Hardware;
use platform::files::{FileErrorKind, Files};

use crate::errors::Failure;
use crate::numbers::thousands;

/// A directory to read: the one that was named, or a copy of it that is removed afterwards.
pub(crate) struct Readable {
    named: PathBuf,
    copy: Option<PathBuf>,
    note: String,
}

impl Readable {
    /// The directory at `path`; if another process has it open, a copy.
    ///
    /// # Errors
    /// The copy cannot be made.
    pub(crate) fn of(path: &Path) -> Result<Readable, Failure> {
        let mut readable = Readable { named: path.to_owned(), copy: None, note: String::new() };
        if !is_in_use(path) {
            return Ok(readable);
        }
        let copy = std::env::temp_dir().join(format!("isles-read-{}", std::process::id()));
        readable.copy = Some(copy.clone());
        let Backup { last_epoch, records, pages, .. } =
            isles::copy_directory(path, &copy).map_err(Failure::of)?;
        let position = match pages {
            Some(_) => format!("{} records behind its checkpoint", thousands(records)),
            None => format!("epoch {last_epoch}"),
        };
        readable.note = format!(
            "{}: another process has it open; read is a copy as of {position}, with all that was on disk when it was made\n",
            path.display()
        );
        Ok(readable)
    }

    /// Where to read.
    pub(crate) fn path(&self) -> &Path {
        self.copy.as_deref().unwrap_or(&self.named)
    }

    /// A line that says what is read, if that is a copy.
    pub(crate) fn note(&self) -> &str {
        &self.note
    }

    /// The report on what was read, under the name that the user gave.
    pub(crate) fn report(&self, report: Result<String, Failure>) -> Result<String, Failure> {
        let Some(copy) = &self.copy else { return report };
        let (copy, named) = (copy.display().to_string(), self.named.display().to_string());
        report.map(|text| self.note.clone() + &text.replace(&copy, &named))
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            // What stays lies in a directory for temporary files.
            let _ = std::fs::remove_dir_all(copy);
        }
    }
}

/// True if another process has a directory open.
fn is_in_use(path: &Path) -> bool {
    let opened = Hardware::open_directory(Hardware::core(), path, false);
    opened.is_err_and(|error| error.kind == FileErrorKind::InUse)
}
