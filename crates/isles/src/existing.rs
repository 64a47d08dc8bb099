//! Declares the tables found in a directory, for tools that open it without row types.
// The manifest is read before the directory is opened and locked.
#![allow(clippy::disallowed_methods)]

use std::io::ErrorKind;
use std::path::Path;

use boundary::OpenError;
use engine::durable::content::{ContentError, decided_description};
use platform::Hardware;
use redo_log::{MANIFEST, Manifest};
use schema::TableDescription;

use crate::builder::Builder;
use crate::error::{Error, OpenReason, Result};

impl Builder {
    /// Declares all tables of the directory as they are stored, with ordered indexes, except tables
    /// that this builder already declares or drops. Returns their names. A new or missing directory
    /// has no tables. Tools use this call to read and write rows without a row type
    /// ([`Transaction::get_dynamic`](crate::Transaction::get_dynamic) and related verbs). Programs
    /// that create tables at run time use it to find these tables again by their names
    /// ([`Database::table`](crate::Database::table)). If the directory has its rows in pages, the
    /// builder needs [`Self::pages`] as well.
    ///
    /// Errors: [`Error::Open`] if the tables cannot be read; [`Error::Misuse`] in memory.
    ///
    /// ```
    /// use isles::{Database, Datum, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, owner: String }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-existing-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, owner: "ada".into() }))?;
    /// database.close()?;
    ///
    /// // Another program, which knows nothing of accounts.
    /// let mut builder = Database::at(&path);
    /// assert_eq!(builder.tables_of_directory()?, ["accounts"]);
    /// let database = builder.open()?;
    /// let row = database.transaction(|t| t.get_dynamic("accounts", &[Datum::Unsigned(1)]))?;
    /// assert_eq!(row, Some(vec![Datum::Unsigned(1), Datum::Text("ada".into())]));
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn tables_of_directory(&mut self) -> Result<Vec<String>> {
        let Some(path) = self.path() else {
            return Err(Error::Misuse("a database in memory has no tables before it is opened"));
        };
        let mut tables = tables_at(path)?;
        tables.retain(|table| !self.has_table(table.name()));
        let names = tables.iter().map(|table| table.name().to_owned()).collect();
        tables.into_iter().for_each(|table| self.declare(table));
        Ok(names)
    }
}

fn tables_at(path: &Path) -> Result<Vec<TableDescription>> {
    if pages::holds_pages(path) {
        return Ok(pages::described_tables::<Hardware>(Hardware::core(), path)?);
    }
    let manifest = path.join(MANIFEST);
    let bytes = match std::fs::read(&manifest) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let reason = match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::NotADirectory => OpenReason::Denied,
                _ => OpenReason::Files,
            };
            return Err(Error::open(reason, format!("{}: {error}", manifest.display())));
        }
    };
    let manifest = Manifest::decode(&bytes).map_err(OpenError::from)?;
    let description = decided_description::<Hardware>(Hardware::core(), path, &manifest.extra);
    let description = description.map_err(|error| match error {
        ContentError::Log(error) => OpenError::Log(error),
        ContentError::Description(error) => OpenError::Schema(error.into()),
        error => OpenError::Contradiction(error.to_string()),
    })?;
    Ok(description.present().map(|table| table.table.clone()).collect())
}
