//! Random transactions over the partitions of several workers, recorded for the checkers: each
//! worker owns two sites of one database, and transactions visit one site or several.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Bounds, Database, Ending, SchemaBuilder, Session};
use concurrency::InstanceOptions;
use dora::{Actions, Dynamic, Map, Shared, Sharing, Site, Typed};
use platform::{Place, Platform};
use terms::Faults;
use terms::random::Random;

use super::change_numbers::{self, NumberedEntry};
use super::mix::has_savepoints;
use super::visits::{SiteTables, Visiting};
use super::{MEMORY_BYTES_MAX, rows};
use crate::history::{Entry, History};
use crate::journal::Journal;
use crate::mutex::{into_inner, lock};
use crate::subject::MakeDatabase;
use crate::task::{Observed, Task, bounds, owners_nanos_max};

/// Sites of each worker.
const SITES_PER_WORKER: usize = 2;
/// Factor of transactions on hardware, where they overlap less.
const HARDWARE_FACTOR: u64 = 6;

/// Parameters of a history, by its seed.
#[derive(Clone, Copy)]
struct Mix {
    seed: u64,
    sites: u16,
    /// Keys of each site.
    keys: u64,
    /// Transactions of each worker.
    transactions: u64,
    /// True if partitions are split, merged and moved meanwhile.
    rearranges: bool,
    /// True if visits set savepoints.
    savepoints: bool,
}

/// Runs random transactions on a fresh database and records them.
pub(crate) fn run<P: Platform>(
    c: P::Core,
    task: &Task<'_>,
    create: MakeDatabase<'_, P>,
    faults: Faults,
    journal: &Journal,
) -> Observed {
    let (seed, workers) = (task.seed, task.workers);
    let mix = Mix {
        seed,
        sites: (SITES_PER_WORKER * workers) as u16,
        keys: 4 + seed / 3 % 3 * 2,
        rearranges: seed / 4 % 2 == 1,
        savepoints: has_savepoints(seed),
        transactions: (4 + seed / 12 % 5) * if P::VIRTUAL { 1 } else { HARDWARE_FACTOR },
    };
    let sharing = match seed / 16 % 4 {
        1 => Sharing::PerSocket,
        3 => Sharing::SocketLists,
        _ => Sharing::Central,
    };
    let mut schema = SchemaBuilder::new();
    let tables = SiteTables::declare(&mut schema, mix.sites);
    let map = Map::new(&schema.divisions(), workers, &|site, _| site / SITES_PER_WORKER);
    let options = InstanceOptions {
        sessions_max: workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        ..InstanceOptions::default()
    };
    let database = create(&options, schema).expect("memory for tables");
    let mut initial = BTreeMap::new();
    let mut session = database.session(c, None, false).expect("a session");
    for site in 0..u64::from(mix.sites) {
        let first = site * rows::KEYS_OF_PART;
        let loaded = session.transact(&Bounds::default(), |t| tables.load(t, first..first + mix.keys));
        let Ok(Ending::Committed(rows, _)) = loaded else { panic!("an empty database takes rows") };
        initial.extend(rows);
    }
    drop(session);
    let sites: Vec<Site> =
        (0..workers).map(|worker| Site { node: None, socket: worker as u32 % 2 }).collect();
    let shared = Shared::<P>::new(c, &sites, map.expect("sites are divided"), sharing).expect("memory");
    let shared = shared.with_faults(faults);
    let (entries, aborts) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let worker = |c: P::Core, number: usize| {
        let (ended, aborted) = work::<P>(c, &database, &tables, &shared, number, sites[number], mix);
        ended.iter().for_each(|entries: &NumberedEntry| journal.push(entries.entry.clone()));
        lock(&entries).extend(ended);
        aborts.fetch_add(aborted, Ordering::Relaxed);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &worker, &mut |_| ());
    let last = rows::inspect(c, &database, tables.rows).into_iter().collect();
    let entries = into_inner(entries);
    // The entries follow again, as one history.
    journal.take();
    let mut observed = Observed { transactions: entries.len() as u64, ..Observed::default() };
    observed.aborts = aborts.into_inner();
    match change_numbers::stamped(entries) {
        Ok(entries) => {
            let (last, by_epochs, orders_versions_only) = (Some(last), false, true);
            observed.history = Some(History { initial, entries, last, by_epochs, orders_versions_only });
        }
        Err(violation) => observed.violations.push(violation),
    }
    observed
}

/// Runs one worker's transactions, and actions of others until no worker has a transaction left.
/// Returns its entries and the number of its aborts.
fn work<P: Platform>(
    c: P::Core,
    database: &Database<P>,
    tables: &SiteTables,
    shared: &Shared<P>,
    me: usize,
    site: Site,
    mix: Mix,
) -> (Vec<NumberedEntry>, u64) {
    let mut session = database.session(c, None, false).expect("sessions for all workers");
    session.seed(mix.seed ^ me as u64);
    let mut worker = dora::OwnerWorker::new(c, shared, me, site).expect("memory for a worker");
    let mut actions = Actions::new(shared.workers());
    let mut random = Random::new(mix.seed, me as u64);
    let mut ended = Vec::new();
    for number in 1..=mix.transactions {
        if mix.rearranges && random.chance(25) {
            let change = worker.map().any_change(&mut |limit| random.below(limit));
            let made = worker.rearrange(
                &mut owner_session(&mut session, tables, &mut actions, None),
                &[change],
                dora::Borders::Logical,
            );
            let _possible = made.unwrap_or_else(|abort| panic!("a rearrangement failed: {abort}")).is_ok();
        }
        let mut visiting = draw(&mut random, me, number, mix);
        let began = P::now(c);
        let deadline = began.plus(owners_nanos_max(P::VIRTUAL)).min(bounds::<P>(c).deadline.unwrap_or(began));
        let bounds = Bounds { deadline: Some(deadline), attempts_max: None };
        let ending =
            worker.run(&mut owner_session(&mut session, tables, &mut actions, Some(&mut visiting)), &bounds);
        let stamp = match ending {
            Ok(Ending::Committed((), commit)) => Some(commit.stamp),
            Ok(Ending::RolledBack(_)) => None,
            Err(abort) => panic!("a transaction failed: {abort}"),
        };
        let mut entry = Entry { worker: me, stamp, began: began.0, ended: P::now(c).0, ..Entry::default() };
        let turns = visiting.complete(&mut entry);
        ended.push(NumberedEntry { entry, turns });
    }
    let aborts = session.stats().aborts;
    let left = worker.leave(&mut owner_session(&mut session, tables, &mut actions, None));
    left.unwrap_or_else(|abort| panic!("the others are gone: {abort}"));
    (ended, aborts)
}

/// The typed access of a worker to its session.
fn owner_session<'h>(
    session: &'h mut Session<'_>,
    tables: &'h SiteTables,
    actions: &'h mut Actions<Visiting>,
    visiting: Option<&'h mut Visiting>,
) -> Typed<'h, Visiting, Dynamic<'h>> {
    Typed::new(Dynamic(session.object().branches().expect("branches")), tables, actions, visiting)
}

/// Draws a transaction: it visits its worker's sites, other sites, or both, and perhaps one more
/// site afterwards.
fn draw(random: &mut Random, me: usize, number: u64, mix: Mix) -> Visiting {
    let own =
        |random: &mut Random| (me * SITES_PER_WORKER) as u16 + random.below(SITES_PER_WORKER as u64) as u16;
    let mut visited: Vec<u16> = Vec::new();
    let is_local = random.chance(40);
    for _ in 0..1 + random.below(3) {
        let site = if is_local { own(random) } else { random.below(u64::from(mix.sites)) as u16 };
        if !visited.contains(&site) {
            visited.push(site);
        }
    }
    let reads_everywhere = random.chance(20);
    let later = if visited.len() > 1 && random.chance(50) { visited.pop() } else { None };
    let reads_only = |random: &mut Random| reads_everywhere || random.chance(30);
    let later = later.map(|site| (site, reads_only(random)));
    let sites = visited.iter().map(|site| (*site, reads_only(random))).collect();
    Visiting {
        sites,
        later,
        rolls_back: random.chance(5),
        savepoints: mix.savepoints,
        keys: mix.keys,
        number: (me as u64 + 1) << 16 | number,
        attempts: 0,
        reports: Vec::new(),
        visits: 0,
        aborted: Vec::new(),
        random: Random::new(random.next(), 0),
    }
}
