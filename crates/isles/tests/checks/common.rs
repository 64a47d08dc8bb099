//! A small table and scratch directories for all tests.
use std::path::PathBuf;

use isles::{Builder, Database, Result, Row, Scheme, Table, Text};

/// All schemes: every test runs under each.
pub const SCHEMES: [Scheme; Scheme::ALL.len()] = Scheme::ALL;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_email(email)), index(by_city(city)))]
pub struct Person {
    pub id: u64,
    pub email: Text<24>,
    pub city: u16,
    pub age: u32,
    pub scores: [i16; 3],
    #[row(tail)]
    pub notes: Vec<u8>,
}

pub fn person(id: u64) -> Person {
    Person {
        id,
        email: format!("p{id}@isles").try_into().expect("it fits"),
        city: (id % 5) as u16,
        age: 20 + (id % 60) as u32,
        scores: [id as i16, -1, 1],
        notes: vec![id as u8; (id % 40) as usize],
    }
}

pub fn declare(mut builder: Builder) -> Result<(Database, Table<Person>)> {
    let people = builder.table("people");
    Ok((builder.open()?, people))
}

/// A directory that is removed when this value is dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isles-checks-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    pub fn open(&self, scheme: Scheme) -> Result<(Database, Table<Person>)> {
        declare(Database::at(&self.0).scheme(scheme))
    }

    /// Builds a small database over pages in the directory.
    pub fn in_pages(&self) -> Builder {
        Database::at(&self.0).sessions(4).pages(8 << 20)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a database with people numbered from 0.
pub fn people(scheme: Scheme, count: u64) -> Result<(Database, Table<Person>)> {
    let (database, people) = declare(Database::in_memory().scheme(scheme))?;
    database.transaction(|t| (0..count).try_for_each(|id| t.insert(people, &person(id))))?;
    Ok((database, people))
}

/// Runs a test over rows in memory under each scheme, and over rows in pages: each time with a
/// database of people numbered from 0.
pub fn on_all_engines(name: &str, count: u64, test: impl Fn(&Database, Table<Person>)) {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, count).expect("a database");
        test(&database, people);
    }
    let directory = Directory::new(name);
    let (database, people) = declare(directory.in_pages()).expect("a database");
    let all = database.transaction(|t| (0..count).try_for_each(|id| t.insert(people, &person(id))));
    all.expect("no transaction conflicts");
    test(&database, people);
    database.close().expect("it closes");
}

/// Returns all rows of the table, read through each of its indexes, and checks that the indexes
/// agree.
pub fn all_people(database: &Database, people: Table<Person>) -> Vec<Person> {
    let outcome = database.transaction(|t| {
        let rows = t.scan(people, ..).collect()?;
        let mut by_email = t.scan(people.by(Person::BY_EMAIL), ..).collect()?;
        let mut by_city = t.scan(people.by(Person::BY_CITY), ..).collect()?;
        assert!(by_email.is_sorted_by_key(|person| person.email));
        assert!(by_city.is_sorted_by_key(|person| (person.city, person.id)));
        by_email.sort_by_key(|person| person.id);
        by_city.sort_by_key(|person| person.id);
        assert_eq!(rows, by_email);
        assert_eq!(rows, by_city);
        Ok(rows)
    });
    outcome.expect("a read")
}
