//! Transactions over two databases: both prepare, then both commit or both roll back, and a worker
//! other than the one that began a transaction finishes it. Money moves between accounts of both
//! databases; audits check the total.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use boundary::{AnyPrepared, Bounds, Database, Direction, SchemaBuilder, Session, Transaction, Verbs};
use concurrency::InstanceOptions;
use platform::{Intent, Place, Platform};
use schema::{HashPlan, IndexKind, Inspector, Partitioning, Row, Schema, Table, TableOptions};
use terms::Abort;
use terms::random::Random;

use crate::mutex::lock;
use crate::subject::MakeDatabase;
use crate::task::{Observed, Task};

/// Bytes of rows and indexes of a database.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Epochs are short, so that prepared transactions outlive them.
const EPOCH_NANOS: u64 = 3_000;
/// Transactions of each worker.
const TRANSACTIONS: u64 = 4;
/// Transactions of each worker on hardware, where they overlap less.
const TRANSACTIONS_ON_HARDWARE: u64 = 200;
/// Attempts of a worker after which the trial counts as stuck.
const ROUNDS_MAX: u64 = 200_000;

/// Accounts that may exist in each database.
const ACCOUNTS: u64 = 6;
/// Initial balance of each account: every other account exists at the beginning.
const BALANCE: i64 = 100;
const TOTAL: i64 = 2 * ACCOUNTS as i64 / 2 * BALANCE;

/// An account; an empty account has no row.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    balance: i64,
}

/// The prepared branches of a transaction in both databases.
struct InDoubt<T> {
    branches: [T; 2],
    began_by: usize,
    commit: bool,
}

/// State that the workers share.
struct Bank<'d, P: Platform> {
    databases: &'d [Database<P>; 2],
    accounts: Table<Account>,
    hash: bool,
    in_doubt: Mutex<Vec<InDoubt<AnyPrepared<'d>>>>,
    /// Transactions that are not finished yet.
    open: AtomicU64,
    /// Attempts that were not prepared.
    refused: AtomicU64,
    /// Audits that were prepared with a wrong sum.
    wrong: AtomicU64,
}

/// Adds to an account; inserts or deletes the row as needed.
fn add<T: Verbs>(t: &mut T, accounts: Table<Account>, id: u64, amount: i64) -> Result<(), Abort> {
    let Some(account) = t.find(accounts.primary(), &id, Intent::Write)? else {
        return if amount < 0 {
            Err(Abort::RollBack)
        } else {
            t.insert(accounts, &Account { id, balance: amount })
        };
    };
    let balance = t.get(account, Account::BALANCE)? + amount;
    match balance {
        ..0 => Err(Abort::RollBack),
        0 => t.delete(account),
        _ => t.put(account, Account::BALANCE, &balance),
    }
}

fn sum<T: Verbs>(t: &mut T, accounts: Table<Account>, hash: bool) -> Result<i64, Abort> {
    let mut sum = 0;
    if hash {
        for id in 0..ACCOUNTS {
            if let Some(account) = t.find(accounts.primary(), &id, Intent::Read)? {
                sum += t.get(account, Account::BALANCE)?;
            }
        }
        return Ok(sum);
    }
    t.scan(accounts.primary(), &0, &u64::MAX, Direction::Forward, Intent::Read, &mut |t, account| {
        sum += t.get(account, Account::BALANCE)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sum)
}

/// A transaction that is prepared in both databases, with the results of its two bodies.
type PreparedPair<'d, T> = ([AnyPrepared<'d>; 2], [T; 2]);

/// Prepares both branches of a transaction, or neither.
fn prepare<'d, T>(
    sessions: &mut [Session<'d>; 2],
    first: usize,
    body: impl Fn(&mut Transaction<'_>, usize) -> Result<T, Abort>,
) -> Option<PreparedPair<'d, T>> {
    let second = 1 - first;
    let (value, prepared) = sessions[first].prepare(&Bounds::default(), |t| body(t, first)).ok()?;
    match sessions[second].prepare(&Bounds::default(), |t| body(t, second)) {
        Ok((other_value, other)) if first == 0 => Some(([prepared, other], [value, other_value])),
        Ok((other_value, other)) => Some(([other, prepared], [other_value, value])),
        Err(_) => {
            sessions[first].finish(prepared, false);
            None
        }
    }
}

impl<'d, P: Platform> Bank<'d, P> {
    fn in_doubt(&self) -> MutexGuard<'_, Vec<InDoubt<AnyPrepared<'d>>>> {
        lock(&self.in_doubt)
    }

    /// Moves money from one database to the other, or within one, and leaves commit or rollback to
    /// another worker.
    fn transfer(&self, sessions: &mut [Session<'d>; 2], number: usize, random: &mut Random) -> bool {
        let from = (random.below(2) as usize, random.below(ACCOUNTS));
        let to = (random.below(2) as usize, random.below(ACCOUNTS));
        let amount = if random.chance(50) { BALANCE } else { 1 + random.below(BALANCE as u64) as i64 };
        let prepared = prepare(sessions, random.below(2) as usize, |t, database| {
            if from.0 == database {
                add(t, self.accounts, from.1, -amount)?;
            }
            if to.0 == database { add(t, self.accounts, to.1, amount) } else { Ok(()) }
        });
        let Some((branches, _)) = prepared else { return false };
        let commit = random.chance(80);
        self.in_doubt().push(InDoubt { branches, began_by: number, commit });
        true
    }

    /// Sums up both databases.
    fn audit(&self, sessions: &mut [Session<'d>; 2], number: usize, random: &mut Random) -> bool {
        let prepared = prepare(sessions, random.below(2) as usize, |t, _| sum(t, self.accounts, self.hash));
        let Some((branches, sums)) = prepared else { return false };
        if sums[0] + sums[1] != TOTAL {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        self.in_doubt().push(InDoubt { branches, began_by: number, commit: true });
        true
    }

    /// Ends a transaction that another worker began.
    fn finish_one(&self, sessions: &mut [Session<'d>; 2], number: usize) {
        let mut in_doubt = self.in_doubt();
        let Some(place) = in_doubt.iter().position(|one| one.began_by != number) else { return };
        let InDoubt { branches, commit, .. } = in_doubt.swap_remove(place);
        drop(in_doubt);
        for (session, branch) in sessions.iter_mut().zip(branches) {
            assert_eq!(session.finish(branch, commit).is_some(), commit);
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn work(&self, c: P::Core, number: usize, transactions: u64, seed: u64) {
        let mut random = Random::new(seed, number as u64);
        let mut sessions =
            [0, 1].map(|which| self.databases[which].session(c, None, false).expect("sessions for all"));
        let mut left = transactions;
        let mut rounds: u64 = 0;
        while self.open.load(Ordering::Acquire) > 0 {
            if left > 0 {
                let audits = random.chance(30);
                let prepared = match audits {
                    true => self.audit(&mut sessions, number, &mut random),
                    false => self.transfer(&mut sessions, number, &mut random),
                };
                left -= u64::from(prepared);
                self.refused.fetch_add(u64::from(!prepared), Ordering::Relaxed);
            }
            rounds += 1;
            // On hardware a worker that is not running at the moment holds up the others for many
            // rounds.
            assert!(!P::VIRTUAL || rounds < ROUNDS_MAX, "the bank does not get on");
            P::pause(c, random.below(800));
            self.finish_one(&mut sessions, number);
            sessions.iter_mut().for_each(|session| session.tend(P::now(c)));
        }
    }
}

/// Runs a bank over two databases: each audit sees the right total, and the total never changes.
pub(crate) fn run<P: Platform>(c: P::Core, task: &Task<'_>, create: MakeDatabase<'_, P>) -> Observed {
    let (workers, seed) = (task.workers, task.seed);
    let transactions = if P::VIRTUAL { TRANSACTIONS } else { TRANSACTIONS_ON_HARDWARE };
    let hash = seed % 2 == 1;
    let made = || make(create, task, hash);
    let ((first, accounts), (second, _)) = (made(), made());
    let databases = [first, second];
    for database in &databases {
        let mut session = database.session(c, None, false).expect("a session");
        for id in (0..ACCOUNTS).step_by(2) {
            let row = Account { id, balance: BALANCE };
            session.transact(&Bounds::default(), |t| t.insert(accounts, &row)).expect("loaded");
        }
    }
    let bank = Bank {
        databases: &databases,
        accounts,
        hash,
        in_doubt: Mutex::new(Vec::new()),
        open: AtomicU64::new(workers as u64 * transactions),
        refused: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    };
    let places = vec![Place { thread: None }; workers];
    P::parallel(c, &places, &|c, number| bank.work(c, number, transactions, seed), &mut |_| ());
    let mut total = 0;
    let mut violations = Vec::new();
    for database in &databases {
        database.inspector(c).scan(accounts.primary(), &0, &u64::MAX, &mut |account: &Account| {
            if account.balance <= 0 {
                violations.push(format!("{account:?} is overdrawn"));
            }
            total += account.balance;
        });
    }
    if total != TOTAL {
        violations.push(format!("the accounts hold {total} in the end, and {TOTAL} at the beginning"));
    }
    let wrong = bank.wrong.into_inner();
    if wrong > 0 {
        violations.push(format!("{wrong} audits saw another total than {TOTAL}"));
    }
    let transactions = workers as u64 * transactions;
    Observed { transactions, aborts: bank.refused.into_inner(), violations, ..Observed::default() }
}

fn make<P: Platform>(
    create: MakeDatabase<'_, P>,
    task: &Task<'_>,
    hash: bool,
) -> (Database<P>, Table<Account>) {
    let kinds = if hash { vec![IndexKind::Hash(HashPlan::Mixed)] } else { Vec::new() };
    let partitioning = task.partitioned.then_some(Partitioning { first: 0, count: 2 });
    let mut schema = SchemaBuilder::new();
    let accounts = schema.table::<Account>(
        "accounts",
        TableOptions { rows: 4, kinds, partitioning, ..TableOptions::default() },
    );
    let options = InstanceOptions {
        sessions_max: task.workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let database = create(&options, schema).expect("memory");
    (database, accounts)
}
