//! Keys that a transaction has announced before it looks them up: lookups find the same, whatever
//! was announced.

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use concurrency::Scheme;
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent};
use schema::{HashPlan, Index, IndexKind, Row, Schema, Table, TableOptions};
use terms::Abort;

use crate::support::{Random, options};

/// Keys that tables have: the even ones below.
const KEYS: u64 = 200;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Thing {
    id: u64,
    table: u64,
}

/// Looks keys up as a batch; returns the rows found.
fn found<T: Verbs>(
    t: &mut T,
    index: Index<Thing, u64>,
    keys: &[u64],
) -> Result<Vec<Option<(u64, u64)>>, Abort> {
    let mut rows = Vec::new();
    t.find_prefetched(index, keys, Intent::Read, Some(Thing::TABLE), &mut rows)?;
    let mut read = |row| Ok((t.get(row, Thing::ID)?, t.get(row, Thing::TABLE)?));
    rows.into_iter().map(|row: Option<_>| row.map(&mut read).transpose()).collect()
}

fn lookups_find_all_rows<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let of_table = |kind| TableOptions { rows: KEYS, kinds: vec![kind], ..TableOptions::default() };
    let dense = || IndexKind::Hash(HashPlan::Dense(|key| key));
    let tables: [Table<Thing>; 4] = [
        schema.table("dense", of_table(dense())),
        schema.table("mixed", of_table(IndexKind::Hash(HashPlan::Mixed))),
        schema.table("tree", of_table(IndexKind::Ordered)),
        schema.table("more", of_table(dense())),
    ];
    let database = MemoryDatabase::<_, S>::create(c, &options(1), schema, &|_| None).expect("memory");
    let mut session: MemorySession<'_, _, S> = database.session(c, None, false).expect("a session");
    for (number, table) in (0..).zip(tables) {
        let rows = (0..KEYS / 2).map(|id| Thing { id: 2 * id, table: number });
        session.transact(&Bounds::default(), |t| t.insert_all(table, rows.clone())).expect("they are new");
    }
    let mut random = Random::new(1, 1);
    for _ in 0..500 {
        let mut draw = |most| (0..random.below(most)).map(|_| random.below(KEYS)).collect::<Vec<u64>>();
        let (announced, mut wanted) =
            ([draw(20), draw(20), draw(20), draw(20)], [draw(9), draw(9), draw(9), draw(9)]);
        // Some of those that were announced, in their order, and others between them.
        for (wanted, announced) in wanted.iter_mut().zip(&announced) {
            for key in announced {
                if random.chance(70) {
                    wanted.insert(random.below(wanted.len() as u64 + 1) as usize, *key);
                }
            }
            if random.chance(50) {
                *wanted = announced.clone();
            }
        }
        let order: Vec<usize> = (0..12).map(|_| random.below(4) as usize).collect();
        let ended = session.transact(&Bounds::default(), |t| {
            for number in &order[..6] {
                announced[*number].iter().for_each(|key| t.prefetch_key(tables[*number].primary(), key));
            }
            for number in &order {
                let expected =
                    wanted[*number].iter().map(|key| (key % 2 == 0).then_some((*key, *number as u64)));
                let found = found(t, tables[*number].primary(), &wanted[*number])?;
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            Ok(())
        });
        assert!(matches!(ended, Ok(Ending::Committed((), _))));
    }
}

#[test]
fn lookups_find_the_same_whatever_was_announced() {
    concurrency::for_each_scheme!(S => { lookups_find_all_rows::<S>(); });
}
