//! Keys of indexes that are longer than a place in a node: up to 2 KiB, of several lengths.

// The test looks at the files of a database.
#![allow(clippy::disallowed_methods)]

use isles::{Builder, Database, Error, Result, Row, RowError, Table, Text, prefix};

use crate::common::{Directory, SCHEMES};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_email(email)), index(by_path(path, desc(alias))), index(by_name(name)))]
struct Account {
    id: u64,
    email: String,
    path: Vec<u8>,
    alias: Option<String>,
    /// Fixed, and longer than short keys are.
    name: Text<100>,
}

/// Accounts whose keys agree for long, and have all lengths.
fn account(id: u64) -> Account {
    let length = (id * 37 % 1900) as usize;
    Account {
        id,
        email: format!("{}{id}@isles.example", "mailbox.".repeat(length / 8)),
        path: vec![(id % 3) as u8; length / 4],
        alias: (!id.is_multiple_of(3)).then(|| "alias ".repeat((id % 50) as usize)),
        name: Text::truncated(&format!("{:090}", id % 7)),
    }
}

fn declare(mut builder: Builder) -> Result<(Database, Table<Account>)> {
    let accounts = builder.table("accounts");
    Ok((builder.open()?, accounts))
}

/// All rows, which each index has in its order.
fn all(database: &Database, accounts: Table<Account>) -> Vec<Account> {
    let outcome = database.transaction(|t| {
        let rows = t.scan(accounts, ..).collect()?;
        let by_email = t.scan(accounts.by(Account::BY_EMAIL), ..).collect()?;
        let by_path = t.scan(accounts.by(Account::BY_PATH), ..).reverse().collect()?;
        let by_name = t.scan(accounts.by(Account::BY_NAME), ..).collect()?;
        assert!(by_email.is_sorted_by_key(|row| &row.email));
        assert!(by_path.iter().rev().is_sorted_by_key(|row| (
            &row.path,
            std::cmp::Reverse(row.alias.as_ref().map_or((1, ""), |alias| (0, alias)))
        )));
        assert!(by_name.is_sorted_by_key(|row| (row.name, row.id)));
        for mut others in [by_email, by_path, by_name] {
            others.sort_by_key(|row| row.id);
            assert_eq!(rows, others);
        }
        Ok(rows)
    });
    outcome.expect("a read")
}

/// Fills a table, takes most of it away again, and finds what is left.
fn fill(database: &Database, accounts: Table<Account>, rows: u64) -> Vec<Account> {
    let mut session = database.session().expect("a session");
    let ids: Vec<u64> = (0..rows).map(|id| id * 389 % rows).collect();
    for ids in ids.chunks(50) {
        let inserted =
            session.transaction(|t| ids.iter().try_for_each(|id| t.insert(accounts, &account(*id))));
        assert_eq!(inserted, Ok(()));
    }
    let before = all(database, accounts);
    assert_eq!(before, (0..rows).map(account).collect::<Vec<_>>());
    // A deletion and an insertion that are taken back leave nothing.
    let undone = session.transaction(|t| {
        let start = t.savepoint()?;
        t.delete(accounts, &1)?;
        t.insert(accounts, &account(rows))?;
        t.roll_back_to(start)
    });
    assert_eq!(undone, Ok(()));
    let failed: Result<()> = session.transaction(|t| {
        t.update(accounts, &5, |row| row.email.insert_str(0, &"z".repeat(1000)))?;
        Err(Error::RollBack)
    });
    assert!(failed.is_err());
    assert_eq!(all(database, accounts), before);
    for ids in ids.chunks(50) {
        let deleted = session.transaction(|t| {
            for id in ids.iter().filter(|id| !id.is_multiple_of(9)) {
                assert!(t.delete(accounts, id)?.is_some());
            }
            Ok(())
        });
        assert_eq!(deleted, Ok(()));
    }
    let changed = session.transaction(|t| {
        for id in (0..rows).step_by(9) {
            t.update(accounts, &id, |row| row.email.insert(0, 'n'))?;
            let email = format!("n{}", account(id).email);
            assert_eq!(t.get(accounts.by(Account::BY_EMAIL), &email)?.map(|row| row.id), Some(id));
            assert_eq!(t.get(accounts.by(Account::BY_EMAIL), &account(id).email)?, None);
        }
        t.scan(accounts.by(Account::BY_PATH), prefix(account(9).path)).count()
    });
    let same = (0..rows).step_by(9).filter(|id| account(*id).path == account(9).path).count();
    assert_eq!(changed, Ok(same as u64));
    all(database, accounts)
}

#[test]
fn long_keys_in_memory() {
    for scheme in SCHEMES {
        let (database, accounts) = declare(Database::in_memory().scheme(scheme)).expect("a database");
        assert_eq!(fill(&database, accounts, 600).len(), 67, "{scheme:?}");
    }
}

#[test]
fn long_keys_in_files() {
    for is_paged in [false, true] {
        let directory = Directory::new("long-keys");
        let builder = || if is_paged { directory.in_pages() } else { Database::at(&directory.0).sessions(4) };
        let (database, accounts) = declare(builder()).expect("a database");
        let rows = fill(&database, accounts, 1500);
        // The process ends without closing the database.
        std::mem::forget(database);
        let copy = Directory::new("long-keys-copy");
        std::fs::create_dir(&copy.0).expect("a directory");
        for file in std::fs::read_dir(&directory.0).expect("the directory") {
            let file = file.expect("a file");
            std::fs::copy(file.path(), copy.0.join(file.file_name())).expect("a copy");
        }
        let reopened = if is_paged { copy.in_pages() } else { Database::at(&copy.0).sessions(4) };
        let (database, accounts) = declare(reopened).expect("it opens");
        assert_eq!(all(&database, accounts), rows);
        database.close().expect("closed");
        let check = Database::check(&copy.0).expect("whole");
        assert_eq!(check.tables, [("accounts".to_owned(), rows.len() as u64)]);
    }
}

#[test]
fn longer_keys_are_refused_by_name() {
    let directory = Directory::new("long-keys-bound");
    let in_memory = SCHEMES.map(|scheme| Database::in_memory().scheme(scheme));
    for builder in in_memory.into_iter().chain([directory.in_pages()]) {
        let (database, accounts) = declare(builder).expect("a database");
        let with = |bytes: usize| Account { email: "e".repeat(bytes), ..account(1) };
        let outcome = database.transaction(|t| {
            // The end of a text is a byte of the key.
            let refusal = t.insert(accounts, &with(2048)).expect_err("refused");
            let Error::Row(RowError::KeyTooLong { table, index, bytes }) = &refusal else {
                panic!("{refusal:?}");
            };
            assert_eq!((&**table, &**index, *bytes), ("accounts", "by_email", 2049));
            assert!(refusal.to_string().contains("at most 2048"), "{refusal}");
            // The transaction goes on.
            t.insert(accounts, &with(2047))?;
            let refused = t.update(accounts, &1, |row| row.email.push('e'));
            assert!(matches!(refused, Err(Error::Row(RowError::KeyTooLong { .. }))), "{refused:?}");
            let by_email = accounts.by(Account::BY_EMAIL);
            assert_eq!(t.get(by_email, &"e".repeat(2047))?, Some(with(2047)));
            assert_eq!(t.get(by_email, &"e".repeat(2046))?, None);
            assert_eq!(t.get(by_email, &"e".repeat(5000))?, None);
            assert_eq!(t.scan(by_email, "e".repeat(5000)..).count()?, 0);
            assert_eq!(t.scan(by_email, .."e".repeat(5000)).count()?, 1);
            let taken = t.insert(accounts, &Account { id: 2, ..with(2047) });
            assert!(matches!(taken, Err(Error::Duplicate { .. })), "{taken:?}");
            Ok(())
        });
        assert!(matches!(outcome, Err(Error::Duplicate { .. })), "{outcome:?}");
    }
}
