//! The shuffling executor runs a procedure as the inline one does, and notices broken contracts.

use boundary::{Bounds, Ending, Plan, Procedure, Verbs};
use concurrency::{Scheme, Silo};
use engine::MemoryDatabase;
use engine::testing::{Shuffle, run_shuffled};
use platform::{Hardware, Intent};
use schema::{Inspector, Routes, Row, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;

use crate::support::{Random, options, with_rows};

const ACCOUNTS: u64 = 8;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    balance: i64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Action {
    Look(u64),
    Add(u64, i64),
}

/// Evens out some accounts: reads all of them, then gives each the mean; the first gets the
/// rest.
struct EvenOut {
    accounts: Vec<u64>,
    balances: Vec<Option<i64>>,
    refuses: bool,
}

impl Procedure for EvenOut {
    type Tables = Table<Account>;
    type Action = Action;
    type Output = Option<i64>;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        match phase {
            0 => {
                self.balances = vec![None; self.accounts.len()];
                actions.extend(self.accounts.iter().map(|id| Action::Look(*id)));
            }
            1 => {
                let sum: i64 = self.balances.iter().flatten().sum();
                let mean = sum / self.accounts.len() as i64;
                let rest = sum - mean * self.accounts.len() as i64;
                for (place, id) in self.accounts.iter().enumerate() {
                    let target = mean + if place == 0 { rest } else { 0 };
                    let balance =
                        self.balances[place].expect("all outputs are absorbed before the next phase");
                    actions.push(Action::Add(*id, target - balance));
                }
            }
            _ if self.refuses => return Plan::RollBack,
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(accounts: &Table<Account>, action: &Action, route: &mut Routes) {
        match action {
            Action::Look(id) => route.read(*accounts, id),
            Action::Add(id, _) => route.write(*accounts, id),
        }
    }

    fn execute<T: Verbs>(
        accounts: &Table<Account>,
        action: &Action,
        t: &mut T,
    ) -> Result<Option<i64>, Abort> {
        match action {
            Action::Look(id) => {
                let row = t.find(accounts.primary(), id, Intent::Read)?.expect("loaded");
                Ok(Some(t.get(row, Account::BALANCE)?))
            }
            Action::Add(id, amount) => {
                let row = t.find(accounts.primary(), id, Intent::Write)?.expect("loaded");
                let balance = t.get(row, Account::BALANCE)?;
                t.put(row, Account::BALANCE, &(balance + amount))?;
                Ok(None)
            }
        }
    }

    fn absorb(&mut self, phase: usize, action: usize, output: Option<i64>) {
        if phase == 0 {
            self.balances[action] = output;
        }
    }
}

fn bank<S: Scheme<Hardware>>() -> (MemoryDatabase<Hardware, S>, Table<Account>) {
    let rows = (0..ACCOUNTS).map(|id| Account { id, balance: id as i64 * 10 });
    with_rows(Hardware::core(), &options(2), TableOptions::default(), rows)
}

fn balances<S: Scheme<Hardware>>(
    database: &MemoryDatabase<Hardware, S>,
    accounts: Table<Account>,
) -> Vec<i64> {
    let mut balances = Vec::new();
    database.inspector(Hardware::core()).scan(accounts.primary(), &0, &u64::MAX, &mut |account: &Account| {
        balances.push(account.balance);
    });
    balances
}

fn does_what_the_inline_executor_does<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let ((inline, accounts), (shuffled, _)) = (bank::<S>(), bank::<S>());
    let mut session = inline.session(c, None, false).expect("a session");
    let mut other = shuffled.session(c, None, false).expect("a session");
    let (mut random, mut shuffle) = (Random::new(1, 1), Shuffle::new(2));
    for _ in 0..50 {
        let chosen: Vec<u64> = (0..ACCOUNTS).filter(|id| *id == 3 || random.chance(50)).collect();
        let refuses = random.chance(20);
        let procedure = || EvenOut { accounts: chosen.clone(), balances: Vec::new(), refuses };
        let bounds = Bounds::default();
        let first = session.run(&accounts, &mut procedure(), &mut Vec::new(), &bounds).expect("alone");
        let second =
            run_shuffled(&mut other, &accounts, &mut procedure(), &bounds, &mut shuffle).expect("alone");
        assert_eq!(matches!(first, Ending::RolledBack(_)), refuses);
        assert_eq!(matches!(second, Ending::RolledBack(_)), refuses);
        assert_eq!(balances(&inline, accounts), balances(&shuffled, accounts));
    }
}

#[test]
fn shuffled_is_inline() {
    concurrency::for_each_scheme!(S => { does_what_the_inline_executor_does::<S>(); });
}

/// Its actions depend on each other, and change on their way through bytes.
struct Careless {
    log: Vec<u64>,
    forgets: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Forgetful {
    id: u64,
    #[serde(skip)]
    extra: u64,
}

impl Procedure for Careless {
    type Tables = Table<Account>;
    type Action = Forgetful;
    type Output = u64;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Forgetful>) -> Plan {
        self.log.clear();
        actions.extend((0..6).map(|id| Forgetful { id, extra: u64::from(self.forgets) }));
        if phase == 0 { Plan::Run } else { Plan::Commit }
    }

    fn route(accounts: &Table<Account>, action: &Forgetful, route: &mut Routes) {
        route.read(*accounts, &(action.id + action.extra));
    }

    fn execute<T: Verbs>(_: &Table<Account>, action: &Forgetful, _: &mut T) -> Result<u64, Abort> {
        Ok(action.id)
    }

    fn absorb(&mut self, _: usize, action: usize, output: u64) {
        assert_eq!(action as u64, output);
        self.log.push(output);
    }
}

#[test]
#[should_panic(expected = "routed elsewhere")]
fn a_route_that_does_not_travel_is_noticed() {
    let (database, accounts) = bank::<Silo>();
    let mut session = database.session(Hardware::core(), None, false).expect("a session");
    let mut careless = Careless { log: Vec::new(), forgets: true };
    let _ = run_shuffled(&mut session, &accounts, &mut careless, &Bounds::default(), &mut Shuffle::new(0));
}

#[test]
fn orders_differ() {
    let mut shuffle = Shuffle::new(5);
    let orders: std::collections::BTreeSet<Vec<usize>> = (0..200).map(|_| shuffle.order(4)).collect();
    assert_eq!(orders.len(), 24, "all orders of four occur");
    assert_eq!(Shuffle::new(9).order(20), Shuffle::new(9).order(20));
}
