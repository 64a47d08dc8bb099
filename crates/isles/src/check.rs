//! Checks of directories.

use std::path::Path;

use engine::durable::content::Checked;
use platform::Hardware;

use crate::database::Database;
use crate::error::{Error, OpenReason, Result};

/// The content of a directory without faults, as [`Database::check`] found it. [`Database::check`]
/// has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The tables, and how many rows each has.
    pub tables: Vec<(String, u64)>,
    /// The last epoch that counts.
    pub last_epoch: u64,
    /// True if the database was closed. If not, what was written last may be torn, which is not
    /// told from damage.
    pub closed: bool,
    /// Parts of transactions over several instances that are in doubt.
    pub in_doubt: usize,
}

impl Database {
    /// Reads the database in a directory, which nobody has open, and verifies everything: each
    /// checksum, that every record can be read, that rows that change or go are there and new ones
    /// are not, and that unique indexes are. All rows are in memory meanwhile. To check a database
    /// that is open, check a copy ([`Database::backup`]).
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

/// The same of a directory with rows in pages.
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
