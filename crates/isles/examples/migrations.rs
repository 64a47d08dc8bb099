//! Migrations: a program whose tables change from one version to the next, over the same directory.
//!
//! Version 2 adds a column and an index. This needs no code: an opening converts rows as it reads
//! them, and builds all indexes. Version 3 gives rows another key and other columns, which requires
//! a new table. The program creates this table while the database is open, copies the rows in
//! batches, and drops the old table. A table of completed steps allows a program that is stopped at
//! any moment to continue where it stopped.
//!
//! Run with `cargo run --release -p isles --example migrations`.

use std::path::{Path, PathBuf};

use isles::{Database, Error, Result, Row, Table, Text};

/// Rows copied in one transaction.
const ROWS_TOGETHER: usize = 64;
const ACCOUNTS: u64 = 1_000;
/// The step to the tables of version 3.
const MEMBERS: Text<16> = isles::text!("members");

/// A completed step.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(name))]
struct MigrationStep {
    name: Text<16>,
}

/// Rows of version 1.
mod version_1 {
    #[derive(isles::Row, Clone, Debug, PartialEq)]
    #[row(key(id))]
    pub struct Account {
        pub id: u64,
        pub owner: u32,
    }
}

/// Rows of version 2: one more column, which is optional, and an index.
mod version_2 {
    #[derive(isles::Row, Clone, Debug, PartialEq)]
    #[row(key(id), index(by_owner(owner)))]
    pub struct Account {
        pub id: u64,
        pub owner: u32,
        pub nickname: Option<String>,
    }
}

/// Rows of version 3, which replace accounts.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(owner, account))]
struct Member {
    owner: u32,
    account: u64,
    name: String,
}

impl Member {
    fn of(account: version_2::Account) -> Self {
        let version_2::Account { id, owner, nickname } = account;
        Member { owner, account: id, name: nickname.unwrap_or_else(|| format!("account {id}")) }
    }
}

fn version_1(path: &Path) -> Result<()> {
    let mut builder = Database::at(path);
    let accounts = builder.table::<version_1::Account>("accounts");
    let database = builder.open()?;
    let account = |id| version_1::Account { id, owner: id as u32 % 7 };
    database.transaction(|t| t.insert_all(accounts, (0..ACCOUNTS).map(account)))?;
    database.close()
}

fn version_2(path: &Path) -> Result<()> {
    let mut builder = Database::at(path);
    let accounts = builder.table::<version_2::Account>("accounts");
    let database = builder.open()?;
    database.transaction(|t| {
        // Rows of version 1 have no nickname, and the index contains them.
        assert_eq!(t.get_field(accounts, &3, version_2::Account::OWNER)?, Some(3));
        assert_eq!(t.scan(accounts.by(version_2::Account::BY_OWNER), isles::prefix(3)).count()?, 143);
        t.update(accounts, &3, |account| account.nickname = Some("ada".to_owned())).map(drop)
    })?;
    database.close()
}

/// Opens the directory as version 3, whatever steps are completed.
fn version_3(path: &Path) -> Result<(Database, Table<MigrationStep>)> {
    let mut builder = Database::at(path);
    let steps = builder.table::<MigrationStep>("steps");
    // Declares the other tables of the directory: accounts, members, or both.
    builder.tables_of_directory()?;
    Ok((builder.open()?, steps))
}

/// Migrates to version 3; stops after `rows_max` rows to simulate an interruption.
fn migrate(database: &Database, steps: Table<MigrationStep>, rows_max: usize) -> Result<()> {
    let mut session = database.session()?;
    if !session.transaction(|t| t.exists(steps, &MEMBERS))? {
        let accounts = database.table::<version_2::Account>("accounts")?;
        let members = match database.table::<Member>("members") {
            Err(Error::NoSuchTable(_)) => database.create_table::<Member>("members")?,
            found => found?,
        };
        let (mut next, mut copied) = (Some(0), 0);
        while let Some(first) = next {
            // After an interruption between the two transactions, some rows are copied again.
            let rows = session.transaction(|t| {
                let rows =
                    t.scan(accounts, first..).into_iter().take(ROWS_TOGETHER).collect::<Result<Vec<_>>>()?;
                for row in &rows {
                    t.upsert(members, &Member::of(row.clone()))?;
                }
                Ok(rows)
            })?;
            copied += rows.len();
            if copied >= rows_max {
                return Ok(());
            }
            next = rows.last().map(|row| row.id + 1);
        }
        session.transaction(|t| t.insert(steps, &MigrationStep { name: MEMBERS }))?;
    }
    match database.drop_table("accounts") {
        // The table was dropped before.
        Err(Error::NoSuchTable(_)) => Ok(()),
        dropped => dropped,
    }
}

/// All versions, one after the other, in a directory of their own.
pub fn run() -> Result<()> {
    let path: PathBuf = std::env::temp_dir().join(format!("isles-migrations-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    version_1(&path)?;
    version_2(&path)?;
    // Interrupted in the middle and at the end; then once more after everything is done.
    for rows_max in [300, usize::MAX, usize::MAX] {
        let (database, steps) = version_3(&path)?;
        migrate(&database, steps, rows_max)?;
        drop(database);
    }
    let (database, _) = version_3(&path)?;
    let names: Vec<_> = database.tables().iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(names, ["steps", "members"]);
    let members = database.table::<Member>("members")?;
    let (count, ada) =
        database.transaction(|t| Ok((t.scan(members, ..).count()?, t.get(members, &(3, 3))?)))?;
    assert_eq!((count, ada.map(|member| member.name)), (ACCOUNTS, Some("ada".to_owned())));
    database.close()?;
    let _ = std::fs::remove_dir_all(&path);
    println!("{count} members, of {ACCOUNTS} accounts");
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<()> {
    run()
}
