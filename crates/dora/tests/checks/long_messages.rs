//! Owners refuse what is too long for a message, and live on.

use boundary::{Bounds, Database, Ending, Plan, Procedure, Verbs};
use dora::{Actions, Dynamic, OwnerWorker, Shared, Typed};
use platform::{Intent, Platform};
use schema::{Routes, Row, Table};
use serde::{Deserialize, Serialize};
use sim::{Disk, DiskFaults, DiskModel, VirtualCore, VirtualMachine};
use terms::Abort;

use crate::support::{PLACES, SITE, open, run};

type P = VirtualMachine;

#[derive(Row, Clone, Debug)]
#[row(key(site, id))]
struct Text {
    site: u16,
    id: u64,
    #[row(tail)]
    text: Vec<u8>,
}

/// Inserts a text of the other worker's site, and returns a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Action {
    id: u64,
    inserted_bytes: usize,
    returned_bytes: usize,
}

struct Exchange(Action);

impl Procedure for Exchange {
    type Tables = Table<Text>;
    type Action = Action;
    type Output = Vec<u8>;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        if phase == 0 {
            actions.push(self.0.clone());
        }
        if phase == 0 { Plan::Run } else { Plan::Commit }
    }

    fn route(texts: &Table<Text>, action: &Action, route: &mut Routes) {
        route.write(*texts, &(1u16, action.id));
    }

    fn execute<T: Verbs>(texts: &Table<Text>, action: &Action, t: &mut T) -> Result<Vec<u8>, Abort> {
        assert!(t.find(texts.primary(), &(1, action.id), Intent::Write)?.is_none());
        t.insert(*texts, &Text { site: 1, id: action.id, text: vec![7; action.inserted_bytes] })?;
        Ok(vec![8; action.returned_bytes])
    }

    fn absorb(&mut self, _: usize, _: usize, output: Vec<u8>) {
        assert_eq!(output.len(), self.0.returned_bytes);
    }
}

fn work(c: VirtualCore, number: usize, database: &Database<P>, texts: Table<Text>, shared: &Shared<P>) {
    let mut session = database.session(c, None, false).expect("a session");
    let mut actions = Actions::<Exchange>::new(2);
    let mut worker = OwnerWorker::new(c, shared, number, SITE).expect("memory");
    let branches = session.object().branches().expect("branches");
    branches.begin_owning();
    // Changes and outputs are in one message.
    let sizes = [(10, 10), (30_000, 10), (30_000, 10_000), (10, 30_000), (10, 40_000), (20, 20)];
    for (id, (inserted_bytes, returned_bytes)) in (0..).zip(sizes) {
        if number == 1 {
            break;
        }
        let mut exchange = Exchange(Action { id, inserted_bytes, returned_bytes });
        let executor = &mut Typed::new(Dynamic(branches), &texts, &mut actions, Some(&mut exchange));
        let ending = worker.run(executor, &Bounds::default());
        if inserted_bytes + returned_bytes < 32_000 {
            assert!(
                matches!(ending, Ok(Ending::Committed(..))),
                "{inserted_bytes}, {returned_bytes}: {ending:?}"
            );
        } else {
            let why = ending.map(drop).expect_err("a refusal").to_string();
            assert!(why.contains("more than 32 KiB"), "{why}");
        }
    }
    worker.leave(&mut Typed::new(Dynamic(branches), &texts, &mut actions, None)).expect("all are there");
    branches.end_owning();
}

#[test]
fn a_reply_that_is_too_long_is_refused_and_the_owner_goes_on() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    run(&disk, |c| {
        let (database, texts, shared) = open(c, 10_000);
        let worker = |c, number: usize| work(c, number, &database, texts, &shared);
        VirtualMachine::parallel(c, &PLACES, &worker, &mut |_| ());
    });
}
