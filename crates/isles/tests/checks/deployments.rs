//! Several instances in one program.

// The test runs threads and files of the host.
#![allow(clippy::disallowed_methods)]
use isles::{
    Datum, Deployment, DeploymentBuilder, Division, Error, OpenReason, Procedure, Result, Row, Scheme, Table,
    Transaction, TransactionOptions,
};
use serde::{Deserialize, Serialize};

use crate::common::SCHEMES;

const TWO: Division = Division { instances: 2, workers: 3, parts: 4 };
const PARTS: u16 = TWO.parts;
const ACCOUNTS: u32 = 3;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(branch, id))]
struct Account {
    branch: u16,
    id: u32,
    balance: i64,
}

/// Units of a currency for one unit of the bank's currency.
#[derive(Row, Clone, Debug)]
#[row(key(currency))]
struct Rate {
    currency: u8,
    units: i64,
}

type Tables = (Table<Account>, Table<Rate>);

/// Work of one branch.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    Move {
        branch: u16,
        id: u32,
        amount: i64,
        currency: u8,
    },
    Sum {
        branch: u16,
    },
    /// Reads all rows without types, and the rows behind the first account.
    All {
        branch: u16,
    },
    Open {
        branch: u16,
        id: u32,
    },
    Stray {
        branch: u16,
    },
    Panic {
        branch: u16,
    },
    WriteRate {
        branch: u16,
    },
}

/// Steps after which no account may be below 0.
#[derive(Debug)]
struct Work {
    steps: Vec<Step>,
    outputs: Vec<i64>,
}

impl Work {
    fn of(steps: &[Step]) -> Work {
        Work { steps: steps.to_vec(), outputs: Vec::new() }
    }

    fn transfer(from: (u16, u32), to: (u16, u32), amount: i64) -> Work {
        let step = |(branch, id), amount| Step::Move { branch, id, amount, currency: 1 };
        Work::of(&[step(from, -amount), step(to, amount)])
    }
}

impl Procedure for Work {
    type Tables = Tables;
    type Step = Step;
    type Output = i64;

    fn steps(&self, steps: &mut Vec<Step>) {
        steps.extend(self.steps.iter().cloned());
    }

    fn part(step: &Step) -> u16 {
        match *step {
            Step::Move { branch, .. }
            | Step::Sum { branch }
            | Step::All { branch }
            | Step::Open { branch, .. }
            | Step::Stray { branch }
            | Step::Panic { branch }
            | Step::WriteRate { branch } => branch,
        }
    }

    fn only_reads(step: &Step) -> bool {
        matches!(step, Step::Sum { .. })
    }

    fn run(tables: &Tables, step: &Step, t: &mut Transaction<'_>) -> Result<i64> {
        let (accounts, rates) = tables;
        match *step {
            Step::Move { branch, id, amount, currency } => {
                let units = t.get_field(*rates, &currency, Rate::UNITS)?.ok_or(Error::RollBack)?;
                let moved = t.update(*accounts, &(branch, id), |account| {
                    account.balance += amount * units;
                    account.balance
                });
                moved?.ok_or(Error::RollBack)
            }
            Step::Sum { branch } => {
                Ok(t.scan(*accounts, isles::prefix(branch)).collect()?.iter().map(|row| row.balance).sum())
            }
            Step::All { .. } => {
                let first = [Datum::Unsigned(0), Datum::Unsigned(0)];
                let behind = t.scan_dynamic_after("accounts", Some(&first), usize::MAX)?.len();
                let all = t.scan_dynamic("accounts")?.len();
                Ok((100 * all + 10 * behind + t.scan_dynamic("rates")?.len()) as i64)
            }
            Step::Open { branch, id } => t.insert(*accounts, &Account { branch, id, balance: 0 }).map(|()| 0),
            Step::Stray { branch } => t.exists(*accounts, &(branch ^ 1, 0)).map(i64::from),
            Step::Panic { .. } => panic!("a step that is not right"),
            Step::WriteRate { .. } => t.insert(*rates, &Rate { currency: 9, units: 9 }).map(|()| 0),
        }
    }

    fn conclude(&mut self, outputs: Vec<i64>) -> Result<()> {
        let broke = outputs.iter().any(|balance| *balance < 0);
        self.outputs = outputs;
        if broke { Err(Error::RollBack) } else { Ok(()) }
    }
}

fn open(mut builder: DeploymentBuilder) -> Result<(Deployment<Work>, Table<Account>)> {
    let accounts = builder.table::<Account>("accounts");
    let rates = [(1, 1), (2, 10)].map(|(currency, units)| Rate { currency, units });
    let rates = builder.copied_table("rates", rates.to_vec());
    Ok((builder.open((accounts, rates))?, accounts))
}

/// A bank in memory with 100 in each account.
fn bank(scheme: Scheme) -> (Deployment<Work>, Table<Account>) {
    let (bank, accounts) = open(Deployment::in_memory(TWO).scheme(scheme)).unwrap();
    fill(&bank, accounts);
    (bank, accounts)
}

fn fill(bank: &Deployment<Work>, accounts: Table<Account>) {
    for branch in 0..PARTS {
        let mut session = bank.session(bank.instance_of(branch)).unwrap();
        let rows = (0..ACCOUNTS).map(|id| Account { branch, id, balance: 100 });
        session.transaction(|t| rows.clone().try_for_each(|row| t.insert(accounts, &row))).unwrap();
    }
}

fn total(bank: &Deployment<Work>) -> i64 {
    let sums: Vec<Step> = (0..PARTS).map(|branch| Step::Sum { branch }).collect();
    bank.run(Work::of(&sums)).unwrap().outputs.iter().sum()
}

const ALL_MONEY: i64 = 100 * ACCOUNTS as i64 * PARTS as i64;

#[test]
fn threads_move_money_between_instances() {
    for scheme in SCHEMES {
        let (bank, accounts) = bank(scheme);
        assert_eq!((bank.instances(), [0, 1, 2, 3].map(|part| bank.instance_of(part))), (2, [0, 0, 1, 0]));
        std::thread::scope(|threads| {
            for thread in 0..4_u32 {
                let bank = &bank;
                threads.spawn(move || {
                    for number in 0..40 {
                        let (from, to) = ((number + thread) % 4, (number / 4 + 1) % 4);
                        let (from, to) = ((from as u16, number % ACCOUNTS), (to as u16, thread % ACCOUNTS));
                        match bank.run(Work::transfer(from, to, i64::from(number % 7))) {
                            Ok(_) | Err(Error::RollBack) => {}
                            Err(error) => panic!("{scheme:?}: {error}"),
                        }
                        if number % 10 == 0 {
                            assert_eq!(total(bank), ALL_MONEY, "{scheme:?}");
                        }
                    }
                });
            }
            // Closures on one instance run in between.
            let mut session = bank.session(1).unwrap();
            for _ in 0..40 {
                let moved = session.transaction(|t| {
                    t.update(accounts, &(2, 0), |account| account.balance -= 1)?;
                    t.update(accounts, &(2, 1), |account| account.balance += 1)
                });
                assert_eq!(moved, Ok(Some(())));
            }
        });
        assert_eq!(total(&bank), ALL_MONEY);
        bank.close().unwrap();
    }
}

#[test]
fn procedures_are_atomic() {
    let (bank, accounts) = bank(Scheme::Silo);
    assert_eq!(bank.run(Work::transfer((0, 0), (2, 0), 101)).unwrap_err(), Error::RollBack);
    let balances = bank.run(Work::transfer((0, 0), (2, 0), 60)).unwrap().outputs;
    assert_eq!(balances, [40, 160]);
    // A step in the own instance and one in another: if either fails, the other is undone.
    let twice = |branch| Step::Open { branch, id: 0 };
    let fine = |branch| Step::Open { branch, id: 7 };
    let here = bank.run(Work::of(&[twice(0), fine(2)])).unwrap_err();
    assert!(matches!(here, Error::Duplicate { .. }), "{here:?}");
    let there = bank.run(Work::of(&[fine(0), twice(2)])).unwrap_err();
    assert!(matches!(there, Error::Elsewhere { instance: 1, .. }), "{there:?}");
    for branch in [0, 2] {
        let mut session = bank.session(bank.instance_of(branch)).unwrap();
        assert_eq!(session.transaction(|t| t.exists(accounts, &(branch, 7))), Ok(false));
    }
    // An empty procedure, and one whose deadline has passed.
    assert!(bank.run(Work::of(&[])).unwrap().outputs.is_empty());
    let none = TransactionOptions::new().deadline(std::time::Duration::ZERO);
    assert_eq!(bank.run_with(&none, Work::transfer((0, 0), (2, 0), 1)).unwrap_err(), Error::Deadline);
    assert_eq!(total(&bank), ALL_MONEY);
}

#[test]
fn a_step_sees_the_rows_of_its_part() {
    for scheme in SCHEMES {
        let (bank, accounts) = bank(scheme);
        let steps: Vec<Step> = (0..PARTS).map(|branch| Step::All { branch }).collect();
        assert_eq!(bank.run(Work::of(&steps)).unwrap().outputs, [322, 332, 332, 332], "{scheme:?}");
        // A session sees all rows of its instance.
        let mut session = bank.session(0).unwrap();
        assert_eq!(session.transaction(|t| t.scan(accounts, ..).count()), Ok(9));
        assert_eq!(session.transaction(|t| Ok(t.scan_dynamic("accounts")?.len())), Ok(9));
    }
}

#[test]
fn forbidden_accesses_of_steps_and_sessions_are_refused() {
    let (bank, accounts) = bank(Scheme::NoWait);
    let refused = |step: Step| bank.run(Work::of(&[step])).unwrap_err().to_string();
    let expected = "misuse: a step uses a key of another part than its own";
    assert_eq!(refused(Step::Stray { branch: 2 }), expected);
    let expected = "misuse: a table that all instances have is only read";
    assert_eq!(refused(Step::WriteRate { branch: 2 }), expected);
    let expected = "misuse: a step works on a part that the deployment does not have";
    assert_eq!(refused(Step::Sum { branch: PARTS }), expected);
    assert_eq!(refused(Step::Panic { branch: 1 }), "misuse: a step panicked");
    let elsewhere = bank.run(Work::of(&[Step::Sum { branch: 0 }, Step::Panic { branch: 2 }])).unwrap_err();
    assert!(elsewhere.to_string().starts_with("instance 1: "), "{elsewhere}");
    let mut session = bank.session(0).unwrap();
    let strange = session.transaction(|t| t.get(accounts, &(2, 0))).unwrap_err().to_string();
    assert!(strange.starts_with("misuse: this instance does not have the key's part"), "{strange}");
    let inside = session.transaction(|_| bank.run(Work::of(&[])));
    assert_eq!(inside.unwrap_err(), Error::Nested);
    assert!(bank.session(2).is_err());
    assert_eq!(total(&bank), ALL_MONEY);
}

#[test]
fn invalid_divisions_have_one_line_errors() {
    let refused = |instances, workers, parts| {
        open(Deployment::in_memory(Division { instances, workers, parts })).map(drop).unwrap_err().to_string()
    };
    assert_eq!(refused(3, 2, 4), "3 instances with 2 workers: each has at least one");
    assert_eq!(refused(2, 4, 3), "4 workers with 3 parts of the data: each has at least one");
    assert_eq!(refused(0, 4, 3), "a deployment has at least one instance");

    #[derive(Row)]
    #[row(key(id))]
    struct Plain {
        id: u64,
    }
    #[derive(Row)]
    #[row(key(part, id), unique_index(by_name(name)))]
    struct Named {
        part: u16,
        id: u32,
        name: u32,
    }
    let mut builder = Deployment::in_memory(TWO);
    builder.table::<Plain>("plain");
    let refused = builder.open::<isles::NoProcedure>(()).unwrap_err().to_string();
    let expected = "its key begins with `id`: a table that is divided has a `u16` there, the part";
    assert_eq!(refused, format!("table plain cannot be declared like this: {expected}"));
    let mut builder = Deployment::in_memory(TWO);
    builder.table::<Named>("named");
    let refused = builder.open::<isles::NoProcedure>(()).unwrap_err().to_string();
    assert!(refused.contains("index `by_name` does not begin with `part`"), "{refused}");
}

#[test]
fn durable_deployments_are_opened_again() {
    let path = std::env::temp_dir().join(format!("isles-deployment-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let (bank, accounts) = open(Deployment::at(&path, TWO)).unwrap();
    fill(&bank, accounts);
    bank.run(Work::transfer((0, 0), (2, 0), 60)).unwrap();
    assert_eq!(bank.run(Work::transfer((0, 0), (2, 0), 60)).unwrap_err(), Error::RollBack);
    let other = open(Deployment::at(&path, TWO)).map(drop).unwrap_err();
    assert!(matches!(other, Error::Open { reason: OpenReason::InUse, .. }), "{other:?}");
    drop(bank);
    let other = Division { parts: 5, ..TWO };
    let refused = open(Deployment::at(&path, other)).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Open { reason: OpenReason::OtherDivision, .. }), "{refused:?}");
    let refused = refused.to_string();
    assert!(refused.contains("divides 4 parts of data otherwise") && !refused.contains('\n'), "{refused}");
    let mut builder = isles::Database::at(&path);
    builder.table::<Account>("accounts");
    assert!(
        matches!(builder.open().unwrap_err(), Error::Open { reason: OpenReason::SomethingElse, .. }),
        "a deployment is no database"
    );
    let (bank, _) = open(Deployment::at(&path, TWO)).unwrap();
    assert_eq!(total(&bank), ALL_MONEY);
    let balances = bank.run(Work::transfer((2, 0), (0, 0), 60)).unwrap().outputs;
    assert_eq!(balances, [100, 100]);
    bank.close().unwrap();
    // The directory of one database holds no deployment.
    let one = path.join("one");
    let mut builder = isles::Database::at(&one);
    builder.table::<Account>("accounts");
    builder.open().unwrap().close().unwrap();
    let refused = open(Deployment::at(&one, TWO)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("holds no deployment of several instances"), "{refused}");
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_closed_deployment_is_copied_and_a_missing_instance_is_detected() {
    let scratch = std::env::temp_dir().join(format!("isles-copies-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir(&scratch).unwrap();
    let [path, copy] = ["data", "copy"].map(|name| scratch.join(name));
    let (bank, accounts) = open(Deployment::at(&path, TWO)).unwrap();
    fill(&bank, accounts);
    bank.run(Work::transfer((0, 0), (2, 0), 60)).unwrap();
    let refused = isles::copy_deployment(&path, &copy).unwrap_err().to_string();
    assert!(refused.contains("is open: a deployment is copied while it is closed"), "{refused}");
    assert!(!copy.exists());
    // Dropped and not closed: the copy is opened by recovery, too.
    drop(bank);
    assert_eq!(isles::copy_deployment(&path, &copy).unwrap().len(), 2);
    let (bank, _) = open(Deployment::at(&copy, TWO)).unwrap();
    assert_eq!(total(&bank), ALL_MONEY);
    assert_eq!(bank.run(Work::transfer((2, 0), (0, 0), 60)).unwrap().outputs, [100, 100]);
    bank.close().unwrap();
    // One instance is missing: it is not created again, and the other files stay unchanged.
    std::fs::rename(path.join("instance-1"), scratch.join("taken")).unwrap();
    for _ in 0..2 {
        let refused = open(Deployment::at(&path, TWO)).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Open { reason: OpenReason::Damaged, .. }), "{refused:?}");
        assert!(refused.to_string().contains("instance-1: is missing from its deployment"), "{refused}");
        assert!(!path.join("instance-1").exists());
    }
    std::fs::rename(scratch.join("taken"), path.join("instance-1")).unwrap();
    let (bank, _) = open(Deployment::at(&path, TWO)).unwrap();
    assert_eq!(total(&bank), ALL_MONEY);
    bank.close().unwrap();
    // The first opening did not complete, so the deployment was never used and is created now.
    std::fs::rename(path.join("isles.deployment"), path.join("isles.deployment.new")).unwrap();
    std::fs::remove_dir_all(path.join("instance-1")).unwrap();
    std::fs::remove_dir_all(path.join("instance-0")).unwrap();
    let (bank, accounts) = open(Deployment::at(&path, TWO)).unwrap();
    fill(&bank, accounts);
    bank.close().unwrap();
    assert!(path.join("isles.deployment").exists() && !path.join("isles.deployment.new").exists());
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn an_instance_has_no_snapshots() {
    let (bank, accounts) = open(Deployment::in_memory(TWO).scheme(Scheme::Mvcc)).unwrap();
    fill(&bank, accounts);
    let mut session = bank.session(0).unwrap();
    let refused = session.snapshot(|t| t.scan(accounts, ..).count());
    assert!(matches!(refused, Err(Error::Misuse(what)) if what.contains("deployment")), "{refused:?}");
    let count = session.transaction(|t| t.scan(accounts, ..).count()).unwrap();
    assert!(count > 0);
    // A session keeps its instance open here too, and the error counts it.
    assert!(matches!(bank.close(), Err(Error::InUse { sessions: 1, .. })));
}

/// An iterator scans rows in batches: the rest of its range may lie in a part of another instance
/// only.
#[test]
fn iterators_return_the_rows_of_the_instance() {
    // As many rows as the first two batches of an iterator, so that it continues behind the last
    // row.
    const MANY: u32 = 24;
    let (bank, accounts) =
        open(Deployment::in_memory(Division { instances: 2, workers: 2, parts: 4 })).unwrap();
    let mut session = bank.session(1).unwrap();
    let rows = (0..MANY).map(|id| Account { branch: 1, id, balance: 1 });
    session.transaction(|t| t.insert_all(accounts, rows.clone())).unwrap();
    let shown = session.transaction(|t| {
        let first =
            t.scan(accounts, isles::prefixes(..=1)).reverse().rows().collect::<Result<Vec<_>>>()?.len();
        let last =
            t.scan(accounts, isles::prefixes(1..=2)).fields(Account::ID).collect::<Result<Vec<_>>>()?.len();
        Ok((first, last, t.scan(accounts, isles::prefixes(..=1)).collect()?.len()))
    });
    assert_eq!(shown, Ok((24, 24, 24)));
    let refused =
        session.transaction(|t| t.scan(accounts, isles::prefix(0)).rows().collect::<Result<Vec<_>>>());
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}
