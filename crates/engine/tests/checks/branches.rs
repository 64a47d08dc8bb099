//! Branches over rows in memory: several of a session are open at a time, each with rows of its
//! own, and each ends as requested.

use std::collections::BTreeMap;

use boundary::{AnySession, Bounds, Branches, Database, SchemaBuilder, Transaction, Verbs};
use concurrency::SchemeName;
use engine::instances;
use platform::{Hardware, Intent, Platform};
use schema::{Schema, Table, TableOptions};
use terms::Abort;

use crate::reclamation::{Leaf, leaf};
use crate::support::{Random, options};

const OWNERS: usize = 2;
/// Branches of an owner that may be open at a time, each of which has its own keys.
const LANES: usize = 3;
const KEYS_OF_LANE: u64 = 4;
const ROUNDS: u64 = if cfg!(miri) { 200 } else { 1_500 };

type Model = BTreeMap<u64, Leaf>;

struct Lane {
    keys: std::ops::Range<u64>,
    /// As others see it.
    ended: Model,
    /// The branch that is open, and how it sees its rows.
    open: Option<(usize, Model)>,
}

impl Lane {
    fn new(number: usize) -> Self {
        let first = number as u64 * KEYS_OF_LANE;
        Lane { keys: first..first + KEYS_OF_LANE, ended: Model::new(), open: None }
    }
}

fn database(scheme: SchemeName) -> (Database<Hardware>, Table<Leaf>) {
    let mut schema = SchemaBuilder::new();
    let leaves = schema.table::<Leaf>("leaves", TableOptions::default());
    let c = Hardware::core();
    (
        instances::create::<_, true>(scheme, c, &options(OWNERS + 1), schema, &|_| None).expect("memory"),
        leaves,
    )
}

fn branches<'s>(session: &'s mut (dyn AnySession<'_> + '_)) -> &'s mut dyn Branches {
    session.branches().expect("the scheme has branches")
}

/// Looks at one key by both indexes, and changes it or not, as the model says.
fn step(
    t: &mut Transaction<'_>,
    leaves: Table<Leaf>,
    id: u64,
    model: &mut Model,
    random: &mut Random,
) -> Result<(), Abort> {
    let row = t.find(leaves.primary(), &id, Intent::Write)?;
    let by_token = t.find(leaves.index(Leaf::BY_TOKEN), &id, Intent::Read)?;
    let seen = row.map(|row| t.row(row)).transpose()?;
    assert_eq!((seen.as_ref(), by_token.is_some()), (model.get(&id), model.contains_key(&id)));
    let owner = random.below(4);
    let mut new = leaf(id, owner);
    new.note = vec![owner as u8; random.below(300) as usize];
    match (row, random.below(4)) {
        (None, 0) => {}
        (None, _) => {
            t.insert(leaves, &new)?;
            model.insert(id, new);
        }
        (Some(_), 0) => {}
        (Some(row), 1) => {
            t.delete(row)?;
            model.remove(&id);
        }
        (Some(row), 2) => {
            t.delete(row)?;
            t.insert(leaves, &new)?;
            model.insert(id, new);
        }
        (Some(row), _) => {
            t.replace(row, &new)?;
            model.insert(id, new);
        }
    }
    Ok(())
}

/// Begins a branch, goes on with it, or ends it.
fn turn(lane: &mut Lane, branches: &mut dyn Branches, leaves: Table<Leaf>, random: &mut Random) {
    let (branch, mut model) = match lane.open.take() {
        Some(open) => open,
        None => (branches.begin().expect("a branch"), lane.ended.clone()),
    };
    match random.below(6) {
        0 => {
            branches.end(branch, None);
            lane.ended = model;
        }
        1 => drop(branches.roll_back(branch).expect("it is taken back")),
        _ => {
            let acted = branches.act(branch, None, &mut |verbs| {
                let mut t = Transaction::new(verbs);
                for _ in 0..1 + random.below(3) {
                    let id = lane.keys.start + random.below(KEYS_OF_LANE);
                    step(&mut t, leaves, id, &mut model, random)?;
                }
                Ok(())
            });
            assert_eq!(acted, Ok(()));
            lane.open = Some((branch, model));
        }
    }
}

#[test]
fn branches_of_several_sessions_end_as_requested() {
    let c = Hardware::core();
    let (database, leaves) = database(SchemeName::Hstore);
    let mut random = Random::new(11, 0);
    let mut sessions: Vec<_> =
        (0..OWNERS).map(|_| database.session(c, None, false).expect("a session")).collect();
    let mut lanes: Vec<Lane> = (0..OWNERS * LANES).map(Lane::new).collect();
    for _ in 0..ROUNDS {
        let number = random.below(lanes.len() as u64) as usize;
        let session = sessions[number / LANES].object();
        turn(&mut lanes[number], branches(session), leaves, &mut random);
        // Memory that a branch does not keep is used again meanwhile.
        session.tend(Hardware::now(c));
        if random.chance(20) {
            session.idle();
        }
    }
    for (number, lane) in lanes.iter_mut().enumerate() {
        if let Some((branch, _)) = lane.open.take() {
            branches(sessions[number / LANES].object()).roll_back(branch).expect("it is taken back");
        }
    }
    let expected: Model = lanes.into_iter().flat_map(|lane| lane.ended).collect();
    assert!(!expected.is_empty());
    for id in 0..(OWNERS * LANES) as u64 * KEYS_OF_LANE {
        let found = sessions[0].transact(&Bounds::default(), |t| {
            let row = t.find(leaves.primary(), &id, Intent::Read)?;
            row.map(|row| t.row(row)).transpose()
        });
        let Ok(boundary::Ending::Committed(found, _)) = found else { panic!("no other transaction runs") };
        assert_eq!(found.as_ref(), expected.get(&id));
    }
    assert!(
        sessions.iter_mut().all(|session| session.object().bytes_taken() < 4 << 20),
        "memory is used again"
    );
}

/// Nothing keeps a row that was only read where it is between two acts.
#[test]
fn an_act_names_no_row_of_an_earlier_one() {
    let (database, leaves) = database(SchemeName::Hstore);
    let mut session = database.session(Hardware::core(), None, false).expect("a session");
    session
        .transact(&Bounds::default(), |t| t.insert(leaves, &leaf(1, 1)))
        .expect("no other transaction runs");
    let branches = branches(session.object());
    let branch = branches.begin().expect("a branch");
    let mut found = None;
    let first = branches.act(branch, None, &mut |verbs| {
        found = Transaction::new(verbs).find(leaves.primary(), &1, Intent::Write)?;
        Ok(())
    });
    assert_eq!((first, found.is_some()), (Ok(()), true));
    let later = branches.act(branch, None, &mut |verbs| match found {
        Some(row) => Transaction::new(verbs).row(row).map(drop),
        None => Ok(()),
    });
    assert!(matches!(later, Err(Abort::Misuse(_))), "{later:?}");
    branches.roll_back(branch).expect("it is taken back");
}

/// A row that another branch has deleted may come back: its key is not free.
#[test]
fn a_key_that_another_branch_has_deleted_is_not_free() {
    let (database, leaves) = database(SchemeName::Hstore);
    let mut session = database.session(Hardware::core(), None, false).expect("a session");
    session
        .transact(&Bounds::default(), |t| t.insert(leaves, &leaf(1, 1)))
        .expect("no other transaction runs");
    let branches = branches(session.object());
    let (first, second) = (branches.begin().expect("a branch"), branches.begin().expect("a branch"));
    let deleted = branches.act(first, None, &mut |verbs| {
        let mut t = Transaction::new(verbs);
        let row = t.find(leaves.primary(), &1, Intent::Write)?.expect("a row");
        t.delete(row)
    });
    assert_eq!(deleted, Ok(()));
    let inserted =
        branches.act(second, None, &mut |verbs| Transaction::new(verbs).insert(leaves, &leaf(1, 2)));
    assert!(inserted.is_err_and(|abort| abort.is_conflict()));
    branches.roll_back(second).expect("it is taken back");
    branches.roll_back(first).expect("it is taken back");
    let row = session.transact(&Bounds::default(), |t| {
        let row = t.find(leaves.primary(), &1, Intent::Read)?.expect("a row");
        t.row(row)
    });
    assert!(matches!(row, Ok(boundary::Ending::Committed(row, _)) if row == leaf(1, 1)));
}

#[test]
fn schemes_that_judge_conflicts_themselves_have_no_branches() {
    for scheme in SchemeName::ALL {
        let (database, _) = database(scheme);
        let mut session = database.session(Hardware::core(), None, false).expect("a session");
        assert_eq!(session.object().branches().is_some(), scheme == SchemeName::Hstore, "{scheme}");
        assert_eq!(database.traits().branches, scheme == SchemeName::Hstore, "{scheme}");
    }
}
