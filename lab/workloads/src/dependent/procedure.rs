//! The transaction: two phases of one action each, because the first row contains the second key,
//! or one action for both rows.

use boundary::{LookAhead, Plan, Procedure, Verbs};
use platform::{Intent, Work};
use schema::{ColumnSet, Routes};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{First, Second, Tables, digest};

/// Reads a row and the row that depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    site: u16,
    number: u32,
    multisite: bool,
    divided: bool,
    /// The last key column of the second row.
    own: u16,
    digest: u64,
    draws: u8,
}

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    site: u16,
    number: u32,
    draws: u8,
    task: Task,
}

/// The rows that an action reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Task {
    First,
    Second { own: u16 },
    Both,
}

/// Result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The last key column of the second row, if the first row was read.
    own: u16,
    /// A number that depends on all that was read.
    digest: u64,
}

impl Transaction {
    pub(super) fn new(site: u16, number: u32, multisite: bool, divided: bool) -> Self {
        Transaction { site, number, multisite, divided, own: 0, digest: 0, draws: 2 + u8::from(multisite) }
    }

    /// True if its rows may be of any site.
    pub fn is_multisite(&self) -> bool {
        self.multisite
    }

    /// A number that depends on everything read, so that reading is not optimized away.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl Procedure for Transaction {
    type Tables = Tables;
    type Action = Action;
    type Output = Output;

    #[inline]
    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        let task = match phase {
            0 if self.divided => Task::Both,
            0 => Task::First,
            1 if !self.divided => Task::Second { own: self.own },
            _ => return Plan::Commit,
        };
        if phase == 0 {
            self.digest = 0;
        }
        let draws = std::mem::take(&mut self.draws);
        actions.push(Action { site: self.site, number: self.number, draws, task });
        Plan::Run
    }

    fn route(tables: &Tables, action: &Action, route: &mut Routes) {
        let Action { site, number, task, .. } = *action;
        if matches!(task, Task::First | Task::Both) {
            route.read(tables.first, &(site, number));
        }
        match task {
            Task::Second { own } => route.read(tables.second, &(site, number, own)),
            // The last key column of the second row is not known.
            Task::Both => route.read(tables.second, &(site, number)),
            Task::First => {}
        }
    }

    #[inline]
    fn execute<T: Verbs>(tables: &Tables, action: &Action, transaction: &mut T) -> Result<Output, Abort> {
        let Action { site, number, draws, task } = *action;
        transaction.work(Work::Random, u32::from(draws));
        let mut output = Output { own: 0, digest: 0 };
        if matches!(task, Task::First | Task::Both) {
            let found = transaction.find(tables.first.primary(), &(site, number), Intent::Read)?;
            let row = transaction.row(found.ok_or_else(missing)?)?;
            output = Output { own: row.own, digest: digest(&row.values) };
            transaction.work(Work::CopyWord, WORDS);
        }
        let own = match task {
            Task::First => return Ok(output),
            Task::Second { own } => own,
            Task::Both => output.own,
        };
        let found = transaction.find(tables.second.primary(), &(site, number, own), Intent::Read)?;
        output.digest ^= digest(&transaction.row(found.ok_or_else(missing)?)?.values);
        transaction.work(Work::CopyWord, WORDS);
        Ok(output)
    }

    #[inline]
    fn absorb(&mut self, phase: usize, _: usize, output: Output) {
        self.digest ^= output.digest;
        if phase == 0 {
            self.own = output.own;
        }
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        home(self.site);
        true
    }

    #[inline]
    fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        let columns = ColumnSet::of(First::OWN).with(First::VALUES);
        ahead.row(tables.first.primary(), &(self.site, self.number), columns);
    }

    #[inline]
    fn read_only(&self) -> bool {
        true
    }
}

/// Words of a row.
const WORDS: u32 = (<Second as schema::Row>::BYTES / 8) as u32;

fn missing() -> Abort {
    Abort::Misuse("a row of the dependent tables is missing: load all parts")
}
