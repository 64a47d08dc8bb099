//! Random transactions over several instances, recorded for the checkers: each instance has some of
//! the sites, transactions visit one site or several, and each worker is a member of the
//! deployment.
//!
//! Workers run several distributed transactions at a time, and local ones in between. Both checkers
//! check all transactions of all instances as one history.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use boundary::{AnySession, Backoff, Bounds, Database, Ending, SchemaBuilder, run_as};
use concurrency::InstanceOptions;
use distributed::mesh::Seat;
use distributed::{Done, End, Map, Member, Setting, WorkerName};
use platform::link::{KernelMechanism, Links, Mechanism};
use platform::{Nanos, Place};
use terms::random::Random;
use terms::{Abort, Category, Mode};

use super::change_numbers::{self, NumberedEntry};
use super::mix::has_savepoints;
use super::visits::{SiteTables, Visiting};
use super::{MEMORY_BYTES_MAX, SNAPSHOTS_PERCENT, rows};
use crate::history::{Entry, History, Seen, UNEXPLAINED};
use crate::journal::Journal;
use crate::mutex::{into_inner, lock};
use crate::subject::{MakeDatabase, Subject};
use crate::task::{Observed, Task, bounds};

/// Shortest epochs, as in histories of one database.
const EPOCHS_NANOS: [u64; 2] = [3_000, 100_000];
/// Factor of transactions on hardware, where they overlap less.
const HARDWARE_FACTOR: u64 = 6;
/// Interval at which a waiting worker checks that no other has failed.
const CHECK_NANOS: u64 = 20_000;
/// The same on hardware, where workers have to yield processors to each other.
const CHECK_NANOS_HARDWARE: u64 = 1_000_000;

/// Parameters of a history, by its seed.
#[derive(Clone, Copy)]
struct Mix {
    instances: usize,
    /// Number of sites: one for each worker.
    sites: u16,
    /// Keys of each site.
    keys: u64,
    /// Transactions of each worker.
    transactions: u64,
    in_flight: usize,
    /// True if visits set savepoints.
    savepoints: bool,
    subject: Subject,
}

/// State that the workers share.
struct DeployedState<'a> {
    journal: &'a Journal,
    entries: Mutex<Vec<NumberedEntry>>,
    aborts: AtomicU64,
    /// True if a worker has failed.
    broken: AtomicBool,
}

/// Records when it is dropped that a worker has failed, unless the worker has left in order.
struct FailureGuard<'a> {
    broken: &'a AtomicBool,
    leaves: bool,
}

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if !self.leaves {
            self.broken.store(true, Ordering::SeqCst);
        }
    }
}

/// Runs random transactions on a fresh deployment and records them.
pub(crate) fn run<P: Links>(
    c: P::Core,
    task: &Task<'_>,
    create: MakeDatabase<'_, P>,
    subject: &Subject,
    journal: &Journal,
) -> Observed {
    let (seed, workers) = (task.seed, task.workers);
    let mix = Mix {
        instances: (2 + seed as usize / 2 % 2).min(workers),
        sites: workers as u16,
        keys: 4 + seed / 3 % 3 * 2,
        transactions: (4 + seed / 12 % 5) * if P::VIRTUAL { 1 } else { HARDWARE_FACTOR },
        in_flight: 1 + seed as usize / 5 % 3,
        savepoints: has_savepoints(seed),
        subject: *subject,
    };
    let mechanism = match seed % 8 {
        5 => Mechanism::Kernel(KernelMechanism::Unix),
        6 => Mechanism::Kernel(KernelMechanism::Tcp),
        _ => Mechanism::SharedMemory,
    };
    let name =
        |worker: usize| WorkerName { instance: (worker % mix.instances) as u16, worker: worker as u16 };
    let names: Vec<WorkerName> = (0..workers).map(name).collect();
    let options = |instance: usize| InstanceOptions {
        sessions_max: workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCHS_NANOS[(seed / 16 % 2) as usize],
        wait_nanos_max: distributed::wait_nanos_max(
            names.iter().filter(|name| usize::from(name.instance) == instance).count(),
        ),
        ..InstanceOptions::default()
    };
    let declare = |schema: &mut SchemaBuilder| SiteTables::declare(schema, mix.sites);
    let mut schema = SchemaBuilder::new();
    let tables = declare(&mut schema);
    let map = Map::new(&schema.divisions(), names.clone(), mix.instances).expect("sites are divided");
    let fingerprint = distributed::messages::fingerprint(schema.descriptions());
    let mut initial = BTreeMap::new();
    let databases: Vec<Database<P>> = (0..mix.instances)
        .map(|instance| {
            let mut schema = SchemaBuilder::new();
            declare(&mut schema);
            let is_here = |site: usize| usize::from(names[site].instance) == instance;
            schema.keep_partitions(is_here);
            let database = create(&options(instance), schema).expect("memory for tables");
            let mut session = database.session(c, None, false).expect("a session");
            for site in (0..workers).filter(|site| is_here(*site)) {
                let first = site as u64 * rows::KEYS_OF_PART;
                let loaded =
                    session.transact(&Bounds::default(), |t| tables.load(t, first..first + mix.keys));
                let Ok(Ending::Committed(rows, _)) = loaded else { panic!("an empty database takes rows") };
                initial.extend(rows);
            }
            drop(session);
            if database.traits().snapshots {
                database.settle(c);
            }
            database
        })
        .collect();
    let seats =
        distributed::mesh::connect::<P>(c, &names, &vec![None; workers], &|_, _| mechanism, &mut || None);
    let seats = Mutex::new(seats.expect("links").into_iter().map(Some).collect::<Vec<_>>());
    let (entries, aborts, broken) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
    let shared = DeployedState { journal, entries, aborts, broken };
    let worker = |c: P::Core, number: usize| {
        let seat = lock(&seats)[number].take().expect("a seat");
        let database = &databases[usize::from(names[number].instance)];
        let setting = Setting {
            me: names[number],
            tables: &tables,
            map: &map,
            fingerprint,
            incarnation: 0,
            durable: false,
            in_order: database.traits().locks_partitions,
            own_first: seed / 2 % 4 == 1,
            duplicate_one_in: 0,
            faults: subject.faults,
        };
        work::<P>(c, seed, database, setting, seat, mix, &shared);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &worker, &mut |_| ());
    let last = databases.iter().flat_map(|database| rows::inspect(c, database, tables.rows)).collect();
    let entries = into_inner(shared.entries);
    // The entries follow again, as one history.
    journal.take();
    let mut observed = Observed { transactions: entries.len() as u64, ..Observed::default() };
    observed.aborts = shared.aborts.into_inner();
    let by_epochs = !databases[0].traits().strict;
    match change_numbers::stamped(entries) {
        Ok(entries) => {
            let (last, orders_versions_only) = (Some(last), true);
            observed.history = Some(History { initial, entries, last, by_epochs, orders_versions_only });
        }
        Err(violation) => observed.violations.push(violation),
    }
    observed
}

/// The first moment, attempts and bounds of a transaction.
#[derive(Clone, Copy)]
struct Ticket {
    began: Nanos,
    attempts: u32,
    bounds: Bounds,
}

/// A transaction that waits for its next attempt.
struct WaitingTransaction {
    visiting: Visiting,
    ticket: Ticket,
    ready: Nanos,
}

/// A worker of a deployment.
struct DeployedWorker<'a, 'd, P: Links> {
    c: P::Core,
    me: WorkerName,
    mix: Mix,
    tables: &'d SiteTables,
    member: Member<'d, P, Visiting, Ticket>,
    session: &'a mut (dyn AnySession<'d> + 'd),
    random: Random,
    backoff: Backoff,
    begun: u64,
    waiting: Vec<WaitingTransaction>,
    snapshots: bool,
    shared: &'a DeployedState<'a>,
}

/// Runs one worker's transactions, and branches of others until no worker has a transaction left.
fn work<'d, P: Links>(
    c: P::Core,
    seed: u64,
    database: &'d Database<P>,
    setting: Setting<'d, Visiting>,
    Seat { bell, connections }: Seat<P>,
    mix: Mix,
    shared: &DeployedState<'_>,
) {
    let mut guard = FailureGuard { broken: &shared.broken, leaves: false };
    let me = setting.me;
    let member = Member::new(setting, bell, connections).expect("greetings are messages");
    let mut session = database.session(c, None, false).expect("sessions for all workers");
    let session = session.object();
    let stream = u64::from(me.worker);
    session.seed(seed ^ stream);
    let (random, backoff) = (Random::new(seed, stream), Backoff::new(seed ^ stream));
    let snapshots = database.traits().snapshots && mix.subject.takes_snapshots;
    let (waiting, begun, tables) = (Vec::new(), 0, setting.tables);
    let mut worker = DeployedWorker {
        c,
        me,
        mix,
        tables,
        member,
        session,
        random,
        backoff,
        begun,
        waiting,
        snapshots,
        shared,
    };
    worker.work();
    guard.leaves = true;
}

impl<P: Links> DeployedWorker<'_, '_, P> {
    fn work(&mut self) {
        let c = self.c;
        let mut ended = Vec::new();
        loop {
            assert!(!self.shared.broken.load(Ordering::SeqCst), "another worker has ended");
            let turn = self.member.turn(c, self.session, &mut ended);
            turn.unwrap_or_else(|error| panic!("the deployment is broken: {error}"));
            for Done { procedure, ticket, end } in ended.drain(..) {
                self.ended(procedure, ticket, end);
            }
            let now = P::now(c);
            self.session.tend(now);
            let ready = self.waiting.iter().position(|waiting| waiting.ready <= now);
            if let Some(ready) = ready {
                let WaitingTransaction { visiting, ticket, .. } = self.waiting.swap_remove(ready);
                self.attempt(visiting, ticket);
            } else if self.begun < self.mix.transactions && self.under_way() < self.mix.in_flight {
                self.begun += 1;
                let visiting = self.draw();
                let ticket = Ticket { began: now, attempts: 0, bounds: bounds::<P>(c) };
                self.attempt(visiting, ticket);
            } else {
                let is_over = self.begun == self.mix.transactions && self.under_way() == 0;
                if is_over && self.member.leave(c).expect("a deployment that is whole") {
                    break;
                }
                let ready = self.waiting.iter().map(|waiting| waiting.ready);
                let interval = if P::VIRTUAL { CHECK_NANOS } else { CHECK_NANOS_HARDWARE };
                let until = ready.fold(now.plus(interval), Nanos::min);
                self.member.wait(c, self.session, Category::Communication, until);
            }
        }
        self.shared.aborts.fetch_add(self.session.stats().aborts, Ordering::Relaxed);
    }

    fn under_way(&self) -> usize {
        self.member.open() + self.waiting.len()
    }

    /// Draws a transaction: half of all use one instance.
    fn draw(&mut self) -> Visiting {
        let (random, me, sites) = (&mut self.random, self.me, self.mix.sites);
        let reads_everywhere = random.chance(if self.snapshots { 60 } else { SNAPSHOTS_PERCENT });
        let instance_of = |site: u16| site % self.mix.instances as u16;
        let is_local = random.chance(50);
        let mut visited = vec![me.worker];
        for _ in 0..1 + random.below(2) {
            let site = random.below(u64::from(sites)) as u16;
            if !visited.contains(&site) && (!is_local || instance_of(site) == me.instance) {
                visited.push(site);
            }
        }
        let reads_only = |random: &mut Random| reads_everywhere || random.chance(30);
        let own_later = visited.len() > 1 && random.chance(30);
        let later = own_later.then(|| (me.worker, reads_only(random)));
        let visited = &visited[usize::from(own_later)..];
        let sites = visited.iter().map(|site| (*site, reads_only(random))).collect();
        Visiting {
            sites,
            later,
            rolls_back: random.chance(5),
            savepoints: self.mix.savepoints,
            keys: self.mix.keys,
            number: (u64::from(me.worker) + 1) << 16 | self.begun,
            attempts: 0,
            reports: Vec::new(),
            visits: 0,
            aborted: Vec::new(),
            random: Random::new(random.next(), 0),
        }
    }

    fn attempt(&mut self, mut visiting: Visiting, ticket: Ticket) {
        let ticket = Ticket { began: P::now(self.c), ..ticket };
        let bounds = Bounds { attempts_max: Some(1), ..ticket.bounds };
        let instances = self.mix.instances as u16;
        if visiting.sites.iter().any(|(site, _)| site % instances != self.me.instance) {
            let submitted = self.member.submit(self.c, self.session, visiting, ticket, bounds);
            return submitted.unwrap_or_else(|error| panic!("the deployment is broken: {error}"));
        }
        self.session.turn_to_another(ticket.attempts > 0);
        let mode = match self.snapshots && boundary::Procedure::read_only(&visiting) {
            true => Mode::Snapshot,
            false => Mode::Single,
        };
        let mut actions = Vec::new();
        let ran = run_as(self.session, mode, self.tables, &mut visiting, &mut actions, &bounds);
        let end = match ran {
            Ok(Ending::Committed((), commit)) => End::Committed(commit),
            Ok(Ending::RolledBack(depends_on)) => End::RolledBack(depends_on),
            Err(abort) if abort.is_conflict() => End::Conflict,
            Err(abort) => End::Failed(abort.into()),
        };
        self.ended(visiting, ticket, end);
    }

    fn ended(&mut self, visiting: Visiting, ticket: Ticket, end: End) {
        let now = P::now(self.c);
        let stamp = match end {
            End::Committed(commit) => Some(commit.stamp),
            End::RolledBack(_) => None,
            End::Conflict => {
                let late = ticket.bounds.deadline.is_some_and(|deadline| now >= deadline);
                assert!(!late, "a transaction does not end: {}", Abort::Deadline);
                let ticket = Ticket { attempts: ticket.attempts + 1, ..ticket };
                let ready = now.plus(self.backoff.nanos(ticket.attempts, false));
                return self.waiting.push(WaitingTransaction { visiting, ticket, ready });
            }
            End::Failed(failure) => panic!("a transaction failed: {failure}"),
            End::Missing(at) => panic!("a transaction failed: {at} is gone"),
        };
        let (worker, began, ended) = (usize::from(self.me.worker), ticket.began.0, now.0);
        let mut entry = Entry { worker, stamp, began, ended, ..Entry::default() };
        entry.snapshot = self.snapshots && boundary::Procedure::read_only(&visiting);
        let (visits, reports) = (visiting.visits, visiting.reports.len());
        let turns = visiting.complete(&mut entry);
        if stamp.is_some() && reports < visits {
            // Without all reports it cannot know that its branches are committed.
            entry.reads.push((u64::MAX, Seen::Version(UNEXPLAINED)));
        }
        self.shared.journal.push(entry.clone());
        lock(&self.shared.entries).push(NumberedEntry { entry, turns });
    }
}
