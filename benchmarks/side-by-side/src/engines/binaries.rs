//! The programs of an installed PostgreSQL.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::engine::Failure;

/// PostgreSQL is not installed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "no PostgreSQL: neither `postgres` in PATH nor /usr/lib/postgresql/*/bin has `initdb` beside it; install it (Debian: \
     apt install postgresql-15), or name its directory with --postgres-programs"
)]
pub struct NoPostgres;

/// The directory of PostgreSQL's programs.
#[derive(Clone, Debug)]
pub struct Binaries(PathBuf);

impl Binaries {
    /// The programs in this directory.
    ///
    /// # Errors
    /// The directory does not have them.
    pub fn in_directory(directory: &Path) -> Result<Self, NoPostgres> {
        let there = ["postgres", "initdb", "pg_ctl"].iter().all(|program| directory.join(program).is_file());
        if there { Ok(Binaries(directory.to_path_buf())) } else { Err(NoPostgres) }
    }

    /// Finds the programs in the usual directories; the latest version if there are several.
    ///
    /// # Errors
    /// PostgreSQL is not installed.
    pub fn find() -> Result<Self, NoPostgres> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let of_path = std::env::split_paths(&paths)
            .filter_map(|path| path.join("postgres").canonicalize().ok())
            .filter_map(|program| program.parent().map(Path::to_path_buf));
        let mut installed: Vec<_> = fs::read_dir("/usr/lib/postgresql")
            .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
            .unwrap_or_default();
        installed.sort();
        of_path
            .chain(installed.into_iter().rev())
            .find_map(|directory| Self::in_directory(&directory).ok())
            .ok_or(NoPostgres)
    }

    /// The version that the server reports.
    ///
    /// # Errors
    /// The server does not run.
    pub fn version(&self) -> Result<String, Failure> {
        let output = Command::new(self.0.join("postgres")).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    pub(super) fn command(&self, program: &str, user: Option<(u32, u32)>) -> Command {
        let mut command = Command::new(self.0.join(program));
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command
    }
}
