//! Tables that get another form, or go, beside parts of transactions over several databases, and
//! beside readers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use boundary::{Bounds, ChangeError, ChangeStep, SchemaBuilder, Swept, TableChange, Verbs};
use concurrency::SchemeName;
use platform::{Intent, Place, Platform};
use schema::Table;
use sim::{Disk, DiskFaults, DiskModel, VirtualCore, VirtualMachine};
use terms::Abort;

use crate::changing::{ByA, Item, P, Plain, config, contents, item, run, table, transact};
use crate::changing_open::{SCHEMES, open, options};
use crate::support::Random;

/// A part of a transaction over several databases may end long after a table: none is dropped or
/// changed while there is one, and a part that comes later, and has changed the table, is not
/// prepared.
#[test]
fn no_table_is_dropped_while_a_part_is_prepared() {
    for (scheme, durable) in SCHEMES.into_iter().flat_map(|scheme| [(scheme, true), (scheme, false)]) {
        run(&Disk::new(DiskModel::NVME, DiskFaults::default()), |c| {
            let (database, handles) = match durable {
                true => open(scheme, c, [&"north", &"east"].into_iter()),
                false => {
                    let mut schema = SchemaBuilder::new();
                    let handles = ["north", "east"].map(|name| (name, table::<ByA>(&mut schema, name)));
                    let made = engine_simulated::create(scheme, c, &options(), schema, &|_| None);
                    (made.expect("memory"), handles.into_iter().collect())
                }
            };
            let (north, east) = (handles["north"], handles["east"]);
            let mut session = database.session(c, None, false).expect("a session");
            let mut other = database.session(c, None, false).expect("a session");
            let insert =
                |id| move |t: &mut boundary::Transaction<'_>| t.insert(north, &ByA::make(item(id, id)));
            let ((), part) = session.prepare(&Bounds::default(), insert(1)).expect("prepared");
            for table in [north, east] {
                assert_eq!(other.object().drop_table(table.number()), Err(ChangeError::Parts));
            }
            let to_plain = || {
                let mut schema = SchemaBuilder::new();
                table::<Plain>(&mut schema, "north");
                schema
            };
            let change = |schema| TableChange {
                schema,
                template: None,
                patience_nanos: None,
                watch: Box::leak(Box::new(|_| true)),
            };
            assert_eq!(
                other.object().change_table(north.number(), change(to_plain())),
                Err(ChangeError::Parts)
            );
            assert!(session.finish(part, true).is_some());
            session.idle();
            assert_eq!(contents(&database, c, north), [item(1, 1)]);

            // While rows get another form, parts wait.
            let mut waits = 0;
            let mut watch = |step| {
                if let ChangeStep::Rows { .. } = step {
                    let refused = session.prepare(&Bounds::default(), insert(2)).map(drop);
                    waits += u32::from(refused.is_err_and(|abort| abort.is_conflict()));
                    session.idle();
                }
                true
            };
            let to_plain = TableChange { watch: &mut watch, ..change(to_plain()) };
            let number = other.object().change_table(north.number(), to_plain).expect("changed");
            let north: Table<Plain> = Table::new(number);
            assert!(waits > 0 && contents(&database, c, north) == [item(1, 1)]);

            // A part that began before the drop, and is prepared after it.
            let refused = session.prepare(&Bounds::default(), |t| {
                t.insert(north, &Plain::make(item(3, 3)))?;
                assert_eq!(other.object().drop_table(number), Ok(()));
                Ok(())
            });
            assert!(matches!(refused.map(drop), Err(Abort::Misuse(_))));
            let ((), part) = session
                .prepare(&Bounds::default(), |t| t.insert(east, &ByA::make(item(4, 4))))
                .expect("another table");
            assert!(session.finish(part, true).is_some());
            drop(session);
            while other.object().sweep() != Swept::All {}
            assert_eq!(contents(&database, c, north), []);
        });
    }
}

/// No session changes rows while their table gets another form and another: a session that reads
/// them commits, with the rows that the table had when the transaction began. Only one that began a
/// moment before the others counted, and asks for those, begins again.
#[test]
fn readers_are_not_disturbed_by_a_change_of_the_form() {
    // Transactions that ended when another form counted than the one that they have read.
    let crossed = AtomicU64::new(0);
    for (seed, scheme) in
        (0..).zip(SchemeName::ALL.into_iter().filter(|scheme| *scheme != SchemeName::Hstore))
    {
        let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
        // The last change that counts, with the number of the table; and the last one that is
        // complete.
        let (now, complete) = (AtomicU64::new(0), AtomicU64::new(0));
        let (over, read) = (AtomicBool::new(false), AtomicU64::new(0));
        let program = |c: VirtualCore| {
            let (database, handles) = open(scheme, c, [&"north"].into_iter());
            let rows: Vec<ByA> = (0..150).map(|id| ByA::make(item(id, id))).collect();
            transact(&database, c, |t| rows.iter().try_for_each(|row| t.insert(handles["north"], row)));
            let changes = |c: VirtualCore| {
                let mut session = database.session(c, None, false).expect("a session");
                for change in 1..=6 {
                    let mut schema = SchemaBuilder::new();
                    match change % 2 {
                        0 => _ = table::<ByA>(&mut schema, "north"),
                        _ => _ = table::<Plain>(&mut schema, "north"),
                    }
                    let mut watch = |step: ChangeStep| {
                        if let ChangeStep::Counts { after, .. } = step {
                            now.store(change << 32 | after as u64, Ordering::SeqCst);
                        }
                        true
                    };
                    let number = (now.load(Ordering::SeqCst) & 0xffff_ffff) as usize;
                    let form =
                        TableChange { schema, template: None, patience_nanos: None, watch: &mut watch };
                    session.object().change_table(number, form).expect("changed");
                    complete.store(change, Ordering::SeqCst);
                }
                over.store(true, Ordering::SeqCst);
            };
            let reads = |c: VirtualCore, worker: u64| {
                let mut session = database.session(c, None, false).expect("a session");
                let mut random = Random::new(seed, worker);
                let bounds = Bounds { attempts_max: Some(1), ..Bounds::default() };
                while !over.load(Ordering::SeqCst) {
                    let (was_complete, mut known) = (complete.load(Ordering::SeqCst), 0);
                    let pause = random.below(60_000);
                    let ended = session.transact(&bounds, |t| {
                        known = now.load(Ordering::SeqCst);
                        let (change, number) = (known >> 32, (known & 0xffff_ffff) as usize);
                        for id in [7, 149, 200] {
                            let found = match change % 2 {
                                0 => {
                                    t.find(Table::<ByA>::new(number).primary(), &id, Intent::Read)?.is_some()
                                }
                                _ => t
                                    .find(Table::<Plain>::new(number).primary(), &id, Intent::Read)?
                                    .is_some(),
                            };
                            assert_eq!(found, id < 150);
                            P::pause(c, pause);
                        }
                        Ok(())
                    });
                    match ended {
                        Ok(_) => {
                            read.fetch_add(1, Ordering::SeqCst);
                            let is_past = now.load(Ordering::SeqCst) != known;
                            crossed.fetch_add(u64::from(is_past), Ordering::SeqCst);
                        }
                        Err(abort) if abort.is_conflict() && known >> 32 > was_complete => {}
                        Err(abort) => panic!("{scheme:?}, change {}: {abort}", known >> 32),
                    }
                    session.idle();
                }
            };
            let work = |c: VirtualCore, worker: usize| match worker {
                0 => changes(c),
                _ => reads(c, worker as u64),
            };
            P::parallel(c, &[Place { thread: None }; 2], &work, &mut |_| ());
        };
        VirtualMachine::run(&config(&disk).with_seed(seed).perturbed(), program).expect("a run");
        assert!(read.into_inner() > 20, "{scheme:?}");
    }
    assert!(crossed.into_inner() > 0);
}
