//! `isles upgrade`: a directory of an earlier format becomes one of this version's.
//!
//! There is no earlier format that this version knows: it reads the one that it writes, and
//! refuses others by number. What the command says is therefore whether a directory is read.

use std::path::Path;

use clap::Args;
use isles::Database;
use redo_log::format::{FORMAT, FORMAT_OLDEST};

use crate::errors::Failure;

const EXAMPLES: &str = "Example:
  isles upgrade data     says which format it has, and converts it if it is an earlier one

Each version reads the formats of those before it from format 8 on. A directory that is read as it is stays as it is. Exit status: 0 done,
or nothing to do; 1 failed, 2 bad input.";

/// Flags of `isles upgrade`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpgradeArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
}

// With a second format the command has something to convert.
const _: () = assert!(FORMAT == FORMAT_OLDEST);

/// Looks at the format of a directory, or of each instance of a deployment; what to say of it.
///
/// # Errors
/// There is no database, it cannot be read, or it has a format that this version does not know.
pub fn upgrade(arguments: &UpgradeArguments) -> Result<String, Failure> {
    let path = Path::new(&arguments.path);
    if !path.join(harness::directory::FILE).exists() {
        return look(path);
    }
    let failed = |error: std::io::Error| Failure::at(path, &error);
    let entries = std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut instances: Vec<_> =
        entries.iter().map(std::fs::DirEntry::path).filter(|path| path.is_dir()).collect();
    instances.sort();
    instances.iter().map(|instance| look(instance)).collect()
}

/// Reads the descriptions of the tables of one database.
fn look(path: &Path) -> Result<String, Failure> {
    let tables = Database::at(path).tables_of_directory();
    let tables = tables.map_err(|error| Failure::at(path, &error))?;
    if tables.is_empty() {
        return Err(Failure::at(path, &"no database with tables"));
    }
    Ok(format!("{}: format {FORMAT}, which this version reads and writes; nothing to do\n", path.display()))
}
