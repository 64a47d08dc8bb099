//! Databases in directories whose tables differ from those of the previous opening.

use std::path::PathBuf;

use isles::{Builder, Database, Error, OpenReason, Result, Row, Table};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    owner: u32,
    balance: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_owner(owner)), unique_index(by_balance(balance)))]
struct Indexed {
    id: u64,
    owner: u32,
    balance: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Changed {
    id: u64,
    owner: u64,
    balance: i64,
}

/// A directory that is removed when this value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isles-tables-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    fn open<T>(&self, declare: impl FnOnce(&mut Builder) -> T) -> Result<(Database, T)> {
        let mut builder = Database::at(&self.0);
        let tables = declare(&mut builder);
        builder.open().map(|database| (database, tables))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn insert(database: &Database, accounts: Table<Account>, id: u64, balance: i64) -> Result<()> {
    database.transaction(|t| t.insert(accounts, &Account { id, owner: 7, balance }))
}

#[test]
fn indexes_and_tables_change_between_openings() -> Result<()> {
    let directory = Directory::new("change");
    let (database, (accounts, drafts)) =
        directory.open(|b| (b.table::<Account>("accounts"), b.table::<Account>("drafts")))?;
    (0..100).try_for_each(|id| insert(&database, accounts, id, 0))?;
    insert(&database, drafts, 1, 1)?;
    database.checkpoint()?;
    database.transaction(|t| {
        (0..100).try_for_each(|id| t.update(accounts, &id, |row| row.balance = -(id as i64)).map(drop))
    })?;
    drop(database);
    let (database, (extra, indexed)) = directory.open(|b| {
        b.drop_table("drafts");
        (b.table::<Account>("extra"), b.table::<Indexed>("accounts"))
    })?;
    database.transaction(|t| {
        assert_eq!(t.get(indexed.by(Indexed::BY_BALANCE), &-42)?.map(|row| row.id), Some(42));
        assert_eq!(t.scan(indexed.by(Indexed::BY_OWNER), ..).count()?, 100);
        assert_eq!(t.scan(extra, ..).count()?, 0);
        Ok(())
    })?;
    database.close()?;
    // A table under the old name, which has none of the old rows.
    let declare = |b: &mut Builder| {
        b.drop_table("never there");
        (b.table::<Account>("drafts"), b.table::<Account>("accounts"), b.table::<Account>("extra"))
    };
    let (database, (drafts, accounts, _)) = directory.open(declare)?;
    let counts =
        database.transaction(|t| Ok([t.scan(drafts, ..).count()?, t.scan(accounts, ..).count()?]))?;
    assert_eq!(counts, [0, 100]);
    Ok(())
}

#[test]
fn invalid_changes_are_refused_and_change_nothing() -> Result<()> {
    let directory = Directory::new("refuse");
    let (database, accounts) = directory.open(|b| b.table::<Account>("accounts"))?;
    insert(&database, accounts, 1, 5)?;
    insert(&database, accounts, 2, 5)?;
    database.close()?;
    let refused = |words: &[&str], declare: &dyn Fn(&mut Builder)| match directory.open(declare) {
        Err(Error::Open { reason: OpenReason::OtherTables, source }) => {
            assert!(words.iter().all(|word| source.to_string().contains(word)), "{source}");
        }
        other => panic!("{other:?}"),
    };
    refused(&["\"accounts\"", "by_balance", "unique"], &|b| _ = b.table::<Indexed>("accounts"));
    refused(&["\"accounts\"", "owner: u32", "owner: u64"], &|b| _ = b.table::<Changed>("accounts"));
    refused(&["\"accounts\"", "drop_table(\"accounts\")"], &|b| _ = b.table::<Account>("others"));
    let both = directory.open(|b| {
        b.drop_table("accounts");
        b.table::<Account>("accounts");
    });
    assert!(matches!(both.err(), Some(Error::Declaration { table, .. }) if table == "accounts"));
    let (database, accounts) = directory.open(|b| b.table::<Account>("accounts"))?;
    assert_eq!(database.transaction(|t| t.scan(accounts, ..).count())?, 2);
    Ok(())
}

#[test]
fn a_database_in_memory_has_nothing_to_drop() -> Result<()> {
    let mut builder = Database::in_memory();
    builder.drop_table("drafts");
    let accounts = builder.table::<Account>("accounts");
    insert(&builder.open()?, accounts, 1, 1)?;
    let mut builder = Database::in_memory();
    builder.table::<Account>("accounts");
    builder.drop_table("accounts");
    assert!(matches!(builder.open().err(), Some(Error::Declaration { table, .. }) if table == "accounts"));
    Ok(())
}
