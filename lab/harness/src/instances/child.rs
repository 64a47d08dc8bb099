//! The process of an instance. It opens and loads its database, connects to the processes of the
//! other instances, runs its workers, and sends its rows to the command. The command orders each
//! step; the process ends immediately when the command is gone.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use boundary::RowSource;
use distributed::{Gate, Undecided, Unfinished};
use platform::files::{FileErrorKind, Files};
use platform::{Hardware, HardwareCore, HardwareThread, Platform};
use secure_links::{Bytes, Doorbell, Endpoint, Listener, Trust};
use terms::rows::KeyBounds;

use super::arrivals::warn;
use super::links::LinkSetup;
use super::messages::{Order, Received, Report, Rows, Task, plan_fingerprint, receive, send, send_rows};
use crate::context::Context;
use crate::control::{Control, Progress, Sample};
use crate::deployment::{Deployment, Transport};
use crate::error::RunError;
use crate::execution::executor::MakeInline;
use crate::execution::executors::Executors;
use crate::measurement::values::Measurement;
use crate::members::Division;
use crate::members::news::{Arrivals, News};
use crate::plan::Plan;
use crate::run::transactions::Bench;
use crate::workers::opening::{LogGrowth, RunDirectory};

/// Bytes of rows that are sent in one message.
const BATCH_BYTES: usize = 1 << 16;
/// Longest time for which an instance waits for its directory, which a process that is ending may
/// still lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// The command, as the process of an instance sees it.
pub(crate) struct Commander {
    orders: Receiver<Order>,
    stop: Arc<AtomicBool>,
    to: RefCell<Box<dyn Write>>,
}

impl Commander {
    /// The command that has started this process; receives its orders from now on.
    pub(crate) fn above() -> Result<Self, RunError> {
        let to = io::stdout().as_fd().try_clone_to_owned().map_err(RunError::of)?;
        Ok(Commander::new(io::stdin(), Box::new(File::from(to)), true))
    }

    /// The command at the other end of a connection.
    pub(crate) fn at(stream: Bytes) -> Result<Self, RunError> {
        let from = stream.try_clone().map_err(RunError::of)?;
        Ok(Commander::new(from, Box::new(stream), false))
    }

    fn new(from: impl Read + Send + 'static, to: Box<dyn Write>, is_parent: bool) -> Self {
        let (sender, orders) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        std::thread::spawn(move || obey(from, is_parent, &sender, &stopping));
        Commander { orders, stop, to: RefCell::new(to) }
    }

    pub(crate) fn send(&self, report: &Report) -> Result<(), RunError> {
        send(&mut *self.to.borrow_mut(), report).map_err(RunError::of)
    }

    /// Reports why this instance ends.
    pub(crate) fn fail(&self, error: &RunError) -> Result<(), RunError> {
        let gone = matches!(error, RunError::PeerGone(_));
        let other_data = if let RunError::OtherData(other) = error { Some(other.clone()) } else { None };
        self.send(&Report::Failed { why: error.to_string(), gone, other_data })
    }

    fn order(&self) -> Result<Order, RunError> {
        self.orders.recv().map_err(|_| unexpected())
    }

    /// The first order.
    pub(crate) fn task(&self) -> Result<Task, RunError> {
        match self.order()? {
            Order::Begin(task) => Ok(task),
            Order::Refuse(why) => Err(RunError::Refused(format!("the command refuses this instance: {why}"))),
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> RunError {
    RunError::Refused("nothing to do for an instance: isles bench starts its own".to_owned())
}

/// Passes on the orders of the command until it is gone. If the command has started this process,
/// removes the directories that the command leaves behind.
fn obey(from: impl Read, is_parent: bool, orders: &mpsc::Sender<Order>, stop: &AtomicBool) {
    let mut from = io::BufReader::new(from);
    let mut directories = None::<Vec<PathBuf>>;
    loop {
        match receive(&mut from) {
            // SeqCst: a flag, which is rarely read.
            Ok(Some(Received::Message(Order::KeepAlive))) => {}
            Ok(Some(Received::Message(Order::Stop))) => stop.store(true, Ordering::SeqCst),
            Ok(Some(Received::Message(order))) => {
                let is_last = matches!(order, Order::End);
                if let Order::Begin(task) = &order {
                    let all = std::iter::once(&task.directory).chain(&task.temporary);
                    directories = Some(all.cloned().collect());
                }
                if orders.send(order).is_err() || is_last {
                    return;
                }
            }
            _ => {
                let Some(directories) = directories else { return };
                // Ignores errors: a directory may be removed already, and standard error closed.
                if is_parent {
                    directories.iter().for_each(|directory| drop(std::fs::remove_dir_all(directory)));
                } else {
                    let _ = writeln!(io::stderr(), "isles: the command is gone");
                }
                std::process::exit(1);
            }
        }
    }
}

impl Progress for Commander {
    fn loaded(&self, rows: u64) {
        // Ignores errors: the thread that receives orders detects that the command is gone.
        let _ = self.send(&Report::Loaded(rows));
    }

    fn tick(&self, sample: Sample) {
        let _ = self.send(&Report::Progress(sample));
    }
}

/// Receives progress reports of a run to which instances may come back.
struct Watch<'a> {
    commander: &'a Commander,
    link_setup: &'a LinkSetup<'a>,
    listener: RefCell<Listener>,
    doorbells: &'a [Doorbell],
    arrivals: &'a Arrivals<Hardware>,
}

impl Progress for Watch<'_> {
    fn tick(&self, sample: Sample) {
        self.commander.tick(sample);
        // While workers run there are no other orders.
        while let Ok(order) = self.commander.orders.try_recv() {
            match order {
                Order::ConnectReturned { instance, endpoint } => {
                    if let Err(error) = self.link_returned(instance, &endpoint) {
                        warn(format_args!("instance {instance}: {error}"));
                    }
                }
                _ => self.arrivals.give_up(),
            }
        }
    }
}

impl Watch<'_> {
    fn link_returned(&self, instance: usize, endpoint: &str) -> Result<(), RunError> {
        let c = Hardware::core();
        let endpoint = endpoint.parse().map_err(RunError::of)?;
        let listener = &mut self.listener.borrow_mut();
        let links = self.link_setup.link_again(c, listener, self.doorbells, instance, &endpoint)?;
        for (worker, connection) in links {
            let worker = self.link_setup.deployment.first_worker(self.link_setup.instance) + worker;
            self.arrivals.send(worker, Hardware::now(c), News::Linked(connection));
        }
        Ok(())
    }
}

/// The endpoint at which the process of an instance listens.
fn endpoint(deployment: &Deployment, task: &Task) -> Endpoint {
    match (deployment.transport, task.address) {
        (Transport::Tcp, Some(address)) => Endpoint::Network(address),
        (Transport::Tcp, None) => Endpoint::Network((Ipv4Addr::LOCALHOST, 0).into()),
        (Transport::Shm | Transport::Uds, _) => {
            Endpoint::Path(task.directory.join(task.instance.to_string()))
        }
    }
}

/// Executes the orders from the first to the last.
pub(crate) fn serve<W: workloads::Workload>(
    c: HardwareCore,
    workload: &W,
    plan: &Plan,
    task: &Task,
    commander: &Commander,
    inline: MakeInline<Hardware, W::Procedure>,
    trust: Option<Trust>,
) -> Result<(), RunError> {
    let deployment = Deployment::from_toml(&task.deployment).map_err(RunError::of)?;
    let here = task.instance;
    let instance = deployment.instances.get(here).ok_or_else(unexpected)?;
    if task.plan != plan_fingerprint(plan) {
        return Err(RunError::Refused("this process understands the flags in another way".to_owned()));
    }
    let threads: Vec<HardwareThread> = instance.workers.iter().filter_map(|worker| worker.thread).collect();
    let numbers = || threads.iter().map(|thread| thread.0.to_string()).collect::<Vec<_>>().join(", ");
    Hardware::confine(c, &threads)
        .map_err(|error| RunError::Refused(format!("hardware threads {}: {error}", numbers())))?;
    Hardware::allow_files(c);
    let stop = &*commander.stop;
    let stop_requested = || stop.load(Ordering::SeqCst);
    let control = Control { progress: commander, stop_requested: &stop_requested };
    let cx = Context { plan, deployment: &deployment, control };
    let division = Division::new(workload, plan, &deployment)?;
    let (deployment, division, number) = (&deployment, &division, task.number);
    let link_setup = LinkSetup { deployment, division, instance: here, number, trust };
    let mut listener = link_setup.listen(c, &endpoint(deployment, task))?;
    let executors = Executors { inline };
    let directory = match &task.database {
        Some(path) => RunDirectory::lent(Some(path.clone()), task.temporary.is_some()),
        None => RunDirectory::<Hardware>::open(c, plan, None)?,
    };
    await_lock(c, &directory);
    let divided = Some(division.clone());
    let opened = Bench::open(c, workload, cx, &executors, divided, &directory, here..here + 1);
    let mut bench = opened.map_err(|error| match error {
        RunError::HalfLoaded(path) => RunError::Refused(format!(
            "{}: its loading was interrupted: remove the directories of all instances, or take another",
            path.display()
        )),
        error => error,
    })?;
    let loaded = match task.returns {
        true => returned(c, &mut bench, commander)?,
        false => ready(c, &mut bench, commander, control)?,
    };
    let endpoint = listener.endpoint().to_string();
    commander.send(&Report::Ready { rows: loaded.rows_loaded, seconds: loaded.load_seconds, endpoint })?;
    let endpoints = match commander.order()? {
        Order::Connect(endpoints) => endpoints,
        Order::Refuse(why) => return Err(RunError::Refused(why)),
        _ => return Err(unexpected()),
    };
    let endpoints = endpoints.iter().map(|endpoint| endpoint.parse());
    let endpoints = endpoints.collect::<Result<Vec<Endpoint>, _>>().map_err(RunError::of)?;
    let (doorbells, mut seats) = link_setup.connect(c, &mut listener, &endpoints)?;
    let first = deployment.first_worker(here);
    let arrivals = Arrivals::new(first..deployment.first_worker(here + 1));
    let arrivals = task.outlived.then(|| Arc::new(arrivals));
    seats.arrivals.clone_from(&arrivals);
    if task.returns {
        seats.gate = Some(Gate::new(c, doorbells.len()).map_err(RunError::of)?);
    }
    commander.send(&Report::Connected)?;
    let Order::Run = commander.order()? else { return Err(unexpected()) };
    let (before, memory_before, began) = (bench.log_used(c), bench.memory(c), Hardware::now(c));
    let results = match &arrivals {
        Some(arrivals) => {
            let (link_setup, doorbells) = (&link_setup, &doorbells[..]);
            let watch =
                Watch { commander, link_setup, listener: RefCell::new(listener), doorbells, arrivals };
            bench.work(c, Control { progress: &watch, ..control }, Some(&seats))?
        }
        None => {
            drop(listener);
            bench.work(c, control, Some(&seats))?
        }
    };
    let nanos = Hardware::now(c).since(began);
    let log = before.zip(bench.log_used(c)).map(|(before, after)| LogGrowth::between(before, after, nanos));
    commander.send(&Report::Ran { results, memory: bench.memory(c).since(memory_before), log })?;
    bench.databases().try_for_each(|database| show(c, database, commander))?;
    drop(seats);
    bench.end(c, &directory)
}

/// Waits until no other process locks the directory: processes of a command that was killed end
/// shortly after it. If the directory stays locked, opening it fails.
fn await_lock(c: HardwareCore, directory: &RunDirectory<Hardware>) {
    let Some(path) = directory.path() else { return };
    // Creates the parent directory if no other process has, as on a machine of its own. If that
    // fails, opening the directory reports it.
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists()) {
        drop(Hardware::open_directory(c, above, true));
    }
    let end = Instant::now() + LOCK_PATIENCE;
    let is_locked = || {
        let opened = Hardware::open_directory(c, path, false);
        opened.is_err_and(|error| error.kind == FileErrorKind::InUse)
    };
    while is_locked() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}

/// Continues with the existing data while the other instances run; they resolve the transactions in
/// doubt together.
fn returned<W: workloads::Workload>(
    c: HardwareCore,
    bench: &mut Bench<'_, Hardware, W>,
    commander: &Commander,
) -> Result<Measurement, RunError> {
    let (recovered, found) = (bench.first().recovered, bench.first().found());
    commander.send(&Report::Opened { recovered, found, undecided: Undecided::default() })?;
    match commander.order()? {
        Order::Return => bench.loaded(c, 0).map(|()| Measurement::default()),
        Order::Refuse(why) => Err(RunError::Refused(why)),
        _ => Err(unexpected()),
    }
}

/// Loads, or finishes the transactions that were in doubt when an earlier run ended, as the command
/// orders.
fn ready<W: workloads::Workload>(
    c: HardwareCore,
    bench: &mut Bench<'_, Hardware, W>,
    commander: &Commander,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    let opened = bench.first();
    let mut unfinished = Unfinished::of(c, &opened.database);
    let (recovered, found) = (opened.recovered, opened.found());
    commander.send(&Report::Opened { recovered, found, undecided: unfinished.undecided() })?;
    let (number, loaded) = match commander.order()? {
        Order::Load(number) => {
            drop(unfinished);
            (number, bench.load(c, control)?)
        }
        Order::Finish(commits) => {
            unfinished.finish(c, &commits).map_err(RunError::of)?;
            commander.send(&Report::Finished)?;
            let Order::Forget = commander.order()? else { return Err(unexpected()) };
            unfinished.forget(c).map_err(RunError::of)?;
            (0, Measurement::default())
        }
        _ => return Err(unexpected()),
    };
    bench.loaded(c, number)?;
    Ok(loaded)
}

/// Sends rows until the command ends the process.
fn show(
    c: HardwareCore,
    database: &boundary::Database<Hardware>,
    commander: &Commander,
) -> Result<(), RunError> {
    let mut inspector = database.inspector(c);
    let mut to = commander.to.borrow_mut();
    let mut rows = Rows::default();
    loop {
        let mut sent = Ok(());
        let mut add = |words: &[u64], tail: &[u8]| {
            rows.push(words, tail);
            if rows.bytes() >= BATCH_BYTES {
                rows.is_last = false;
                sent = std::mem::replace(&mut sent, Ok(())).and_then(|()| send_rows(&mut *to, &rows));
                rows.clear();
            }
        };
        match commander.order()? {
            Order::Rows { table, index, low, high } => {
                inspector.rows(table, index, KeyBounds { low: &low, high: &high }, &mut add)
            }
            Order::Row { table, index, keys } => {
                for (key, number) in keys.iter().zip(0..) {
                    // The first word is the number of the key.
                    inspector.row(table, index, key, &mut |words, tail| {
                        add(&[&[number][..], words].concat(), tail);
                    });
                }
            }
            // The order was sent before the command received the results.
            Order::ConnectReturned { .. } | Order::GiveUp => continue,
            Order::End => return Ok(()),
            _ => return Err(unexpected()),
        }
        rows.is_last = true;
        sent.and_then(|()| send_rows(&mut *to, &rows)).map_err(RunError::of)?;
        rows.clear();
    }
}
