//! Verification of a database directory.

use std::path::Path;

use engine::durable::content::Checked;
use platform::Hardware;

use crate::database::Database;
use crate::error::{Error, OpenReason, Result};

/// Content of a directory without damage, returned by [`Database::check`], which has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The names of the tables, and the number of rows of each.
    pub tables: Vec<(String, u64)>,
    /// The last epoch that recovery restores.
    pub last_epoch: u64,
    /// True if the database was closed. Otherwise the last writes may be torn, which cannot be
    /// distinguished from damage.
    pub closed: bool,
    /// Branches of transactions over several instances that are in doubt.
    pub in_doubt: usize,
}

impl Database {
    /// Reads the database in a directory that is not open, and verifies it: every checksum; every
    /// record; that each change and deletion finds its row and each insertion does not; and that
    /// unique indexes are unique. The check holds all rows in memory. To check an open database,
    /// check a copy ([`Database::backup`]).
    ///
    /// Errors: [`Error::Open`] with the first damage, or the reason why the directory cannot be
    /// read.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-check-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// assert!(Database::check(&path).is_err(), "it is open");
    /// database.close()?;
    /// assert_eq!(Database::check(&path)?.tables, [("accounts".to_owned(), 1)]);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn check(path: impl AsRef<Path>) -> Result<Check> {
        if pages::holds_pages(path.as_ref()) {
            return check_pages(path.as_ref());
        }
        let checked = engine_native::check(Hardware::core(), path.as_ref(), &mut |_, _| ());
        let Checked { survey, rows, in_doubt, .. } = checked.map_err(Error::of_content)?;
        let (last_epoch, closed) = (survey.last_epoch, survey.closed);
        Ok(Check { tables: rows, last_epoch, closed, in_doubt: in_doubt.len() })
    }
}

/// Checks a directory with rows in pages.
fn check_pages(path: &Path) -> Result<Check> {
    let examined = engine_native::examine_paged(Hardware::core(), path)?;
    if let Some(wrong) = examined.wrong.first() {
        return Err(Error::open(OpenReason::Damaged, format!("{}: {wrong}", path.display())));
    }
    let rows = |trees: &[pages::ExaminedTree]| trees.first().map_or(0, |tree| tree.entries);
    let tables = examined.tables.iter().map(|(table, trees)| (table.name().to_owned(), rows(trees)));
    let closed = examined.records == 0;
    Ok(Check { tables: tables.collect(), last_epoch: 0, closed, in_doubt: examined.in_doubt.len() })
}
