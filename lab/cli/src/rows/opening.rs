//! Resolves the names that the user gives: a format, a database, a table.

use std::path::Path;

use isles::{Database, TableDescription};

use crate::bad_input::BadInput;
use crate::errors::Failure;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    JsonLines,
}

const FORMATS: &str = "csv, jsonl";

impl Format {
    /// The one that `--format` names, or else the name of the file.
    pub(super) fn of(flag: Option<&str>, file: Option<&str>) -> Result<Format, BadInput> {
        match flag {
            Some("csv") => Ok(Format::Csv),
            Some("jsonl") => Ok(Format::JsonLines),
            Some(other) => Err(BadInput::value("--format", other, "unknown", FORMATS)),
            None => match file.and_then(|file| file.rsplit_once('.')).map(|(_, end)| end) {
                Some("csv") => Ok(Format::Csv),
                Some("jsonl" | "ndjson") => Ok(Format::JsonLines),
                _ => Err(BadInput::new(
                    "--format",
                    "missing, and the name of the file does not say it",
                    FORMATS,
                )),
            },
        }
    }
}

/// Opens a database with the tables that it has, in memory or in pages.
pub(crate) fn open(path: &Path) -> Result<Database, Failure> {
    if path.join(harness::directory::FILE).exists() {
        let why =
            "it holds a deployment of several instances, whose rows are not read and written by this command";
        return Err(Failure::at(path, &why));
    }
    let at = |error: isles::Error| Failure::at(path, &error);
    // The limit of memory is the machine's: how many rows there are is not known before they are
    // there.
    let mut builder = Database::at(path).memory_limit(MEMORY_LIMIT);
    if pages::holds_pages(path) {
        builder = builder.pages(POOL_BYTES);
    }
    if builder.tables_of_directory().map_err(at)?.is_empty() {
        return Err(Failure::at(path, &"no database with tables"));
    }
    builder.open().map_err(at)
}

/// More than rows ever take: 1 TiB.
pub(crate) const MEMORY_LIMIT: u64 = 1 << 40;
/// The pool through which rows in pages are read and written.
pub(crate) const POOL_BYTES: u64 = 256 << 20;

/// The table of this name.
pub(super) fn table<'d>(
    database: &'d Database,
    path: &Path,
    name: &str,
) -> Result<&'d TableDescription, Failure> {
    let tables = database.tables();
    tables.iter().copied().find(|table| table.name() == name).ok_or_else(|| {
        let known: Vec<_> = tables.iter().map(|table| table.name()).collect();
        Failure::at(path, &format!("no table {name}: there are {}", known.join(", ")))
    })
}
