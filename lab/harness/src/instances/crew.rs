//! The processes of a deployment's instances, as the command sees them: it starts them, receives
//! their messages, and ends them in any case.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use secure_links::{Bytes, Credentials};

use super::arrivals::{Arrival, Arrivals};
use super::messages::{Order, Received, Report, Rows, Task, receive, send};
use crate::deployment::Machines;
use crate::error::RunError;
use crate::plan::{Durability, Plan};

/// Interval at which the command checks if the user ends the run.
const POLL: Duration = Duration::from_millis(20);
/// Interval at which the command sends keep-alive messages to instances on other machines.
const KEEP_ALIVE: Duration = Duration::from_millis(200);
/// Longest time for which the command waits for another instance's error after one has reported
/// that a peer is gone.
const REASON: Duration = Duration::from_secs(2);
/// Longest time for the end of an instance after it was ordered to end.
const ENDING: Duration = Duration::from_secs(10);
/// As [`ENDING`], if the instance has a database to close.
const CLOSING: Duration = Duration::from_secs(3600);
/// Most messages that wait to be processed.
const RECEIVED_MAX: usize = 64;

/// The command line of the process of an instance.
#[derive(Clone, Debug)]
pub struct InstanceProgram {
    /// The program, which calls [`super::run_instance`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The directories of the instances' databases; empty: below the plan's.
    pub paths: Vec<PathBuf>,
}

/// The origin of the processes of instances.
#[derive(Clone, Debug)]
pub enum Instances {
    /// The command starts them.
    Started(InstanceProgram),
    /// They are started independently, perhaps on other machines, and connect to the command.
    Come {
        /// The addresses of all of them.
        machines: Machines,
        /// The directories of the instances' databases, each on its own machine; empty: below the
        /// plan's, on each machine.
        paths: Vec<PathBuf>,
        /// [`crate::RunFile::fingerprint`] of the file that all of them have read.
        fingerprint: u32,
        /// [`Machines::credentials`] of the command.
        credentials: Option<Credentials>,
    },
}

impl Instances {
    /// The directory of an instance's database, unless it is in the command's own directory.
    pub(crate) fn database(&self, plan: &Plan, instance: usize) -> Option<PathBuf> {
        let (paths, below) = match self {
            Instances::Started(InstanceProgram { paths, .. }) => (paths, None),
            Instances::Come { paths, .. } => (paths, plan.path.as_deref()),
        };
        let below = below.map(|path| distributed::directory::instance(path, instance));
        paths.get(instance).cloned().or(below).filter(|_| plan.durability != Durability::None)
    }

    /// The address of an instance, if it is configured.
    pub(crate) fn address(&self, instance: usize) -> Option<SocketAddr> {
        match self {
            Instances::Started(_) => None,
            Instances::Come { machines, .. } => machines.addresses.get(instance).copied(),
        }
    }
}

/// The process of an instance, which is killed when this value is dropped.
struct Instance {
    /// `None` if the command has not started it.
    child: Option<Child>,
    orders: Option<Box<dyn Write>>,
    /// Its name.
    name: String,
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The process has ended already, unless there was a failure.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A temporary directory for the endpoints of the processes, until they are connected.
struct EndpointDirectory(PathBuf);

impl EndpointDirectory {
    fn new() -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("isles-instances-{}", std::process::id()));
        // Removes a directory that a process with the same number has left behind.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory)?;
        Ok(EndpointDirectory(directory))
    }
}

impl Drop for EndpointDirectory {
    fn drop(&mut self) {
        // If this fails, the name of the directory tells its origin.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A message of an instance, or its end.
enum CrewNews {
    Received(Received<Report>),
    /// There will be no more messages.
    Closed,
}

/// The processes, by the numbers of their instances.
pub(crate) struct Crew<'a> {
    instances: Vec<Instance>,
    news: Receiver<(usize, CrewNews)>,
    place: Option<EndpointDirectory>,
    stop_requested: &'a (dyn Fn() -> bool + Sync),
    /// True if the instances were ordered to stop.
    stopping: bool,
    /// The time of the last keep-alive messages to instances on other machines.
    kept_alive: Instant,
    /// Accepts instances of other machines that come back.
    arrivals: Option<Arrivals>,
    sender: SyncSender<(usize, CrewNews)>,
    /// Instances that are gone.
    missing: BTreeSet<usize>,
}

/// An event while workers run, and instances may come back.
pub(crate) enum Event {
    Report(usize, Report),
    /// The instance is gone, for this reason.
    Gone(usize, String),
    Back(usize),
}

/// Receives the messages of an instance until its stream ends.
fn listen(number: usize, from: impl io::Read, to: &SyncSender<(usize, CrewNews)>) {
    let mut from = BufReader::with_capacity(1 << 16, from);
    while let Ok(Some(received)) = receive(&mut from) {
        if to.send((number, CrewNews::Received(received))).is_err() {
            return;
        }
    }
    // The receiver may be gone.
    let _ = to.send((number, CrewNews::Closed));
}

/// An instance that has connected from another machine, and the stream of its messages.
fn come(Arrival { name, stream }: Arrival) -> Result<(Instance, Bytes), RunError> {
    let words = stream.try_clone().map_err(RunError::of)?;
    Ok((Instance { child: None, orders: Some(Box::new(stream)), name }, words))
}

impl<'a> Crew<'a> {
    /// Starts `count` processes, or waits for them.
    pub(crate) fn start(
        instances: &Instances,
        count: usize,
        stop_requested: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self, RunError> {
        let place = EndpointDirectory::new().map_err(|error| RunError::at(&std::env::temp_dir(), &error))?;
        let (sender, news) = sync_channel(RECEIVED_MAX);
        let mut crew = Crew {
            instances: Vec::with_capacity(count),
            news,
            place: Some(place),
            stop_requested,
            stopping: false,
            kept_alive: Instant::now(),
            arrivals: None,
            sender,
            missing: BTreeSet::new(),
        };
        match instances {
            Instances::Started(program) => {
                (0..count).try_for_each(|number| crew.start_one(number, program))?;
            }
            Instances::Come { machines, fingerprint, credentials, .. } => {
                let mut arrivals = Arrivals::new(machines, *fingerprint, credentials.clone())?;
                for arrival in arrivals.all(stop_requested)? {
                    let (instance, words) = come(arrival)?;
                    crew.add(instance, words);
                }
                crew.arrivals = Some(arrivals);
            }
        }
        Ok(crew)
    }

    fn start_one(&mut self, number: usize, program: &InstanceProgram) -> Result<(), RunError> {
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Signals of the terminal interrupt only this process, which stops the others.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| RunError::at(&program.program, &error))?;
        let (orders, words) = (child.stdin.take(), child.stdout.take());
        let name = format!("instance {number} (process {})", child.id());
        let orders = orders.map(|orders| Box::new(orders) as Box<dyn Write>);
        // From here on the process ends with this value.
        let instance = Instance { child: Some(child), orders, name };
        let words = words.ok_or(RunError::Worker("an instance without a way to be received"))?;
        self.add(instance, words);
        Ok(())
    }

    /// Adds an instance, and receives its messages from now on.
    fn add(&mut self, instance: Instance, words: impl io::Read + Send + 'static) {
        self.instances.push(instance);
        self.listen_to(self.instances.len() - 1, words);
    }

    /// Receives the messages of an instance from now on.
    fn listen_to(&self, number: usize, words: impl io::Read + Send + 'static) {
        let sender = self.sender.clone();
        std::thread::spawn(move || listen(number, words, &sender));
    }

    /// Stops the instances if the user ends the run, and sends keep-alive messages.
    fn attend(&mut self) {
        if !self.stopping && (self.stop_requested)() {
            self.stopping = true;
            self.send_to_all(&Order::Stop);
        }
        self.keep_alive();
    }

    /// The directory for the endpoints of the processes.
    pub(crate) fn directory(&self) -> &Path {
        self.place.as_ref().map_or(Path::new(""), |place| &place.0)
    }

    /// Removes the directory of endpoints, because all processes are connected.
    pub(crate) fn remove_endpoints(&mut self) {
        self.place = None;
    }

    /// True if the instances were ordered to stop.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn begin(&mut self, task: impl Fn(usize) -> Task) {
        for number in 0..self.instances.len() {
            self.send(number, &Order::Begin(task(number)));
        }
    }

    pub(crate) fn send_to_all(&mut self, order: &Order) {
        (0..self.instances.len()).for_each(|number| self.send(number, order));
    }

    /// Sends keep-alive messages to instances on other machines, so that the kernel detects broken
    /// connections.
    fn keep_alive(&mut self) {
        if self.kept_alive.elapsed() < KEEP_ALIVE {
            return;
        }
        self.kept_alive = Instant::now();
        for number in 0..self.instances.len() {
            if self.instances[number].child.is_none() {
                self.send(number, &Order::KeepAlive);
            }
        }
    }

    pub(crate) fn send(&mut self, number: usize, order: &Order) {
        if let Some(orders) = &mut self.instances[number].orders {
            // Ignores errors: an instance that receives nothing has ended, which its stream shows.
            let _ = send(orders, order);
        }
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        &self.instances[number].name
    }

    /// How a process ended whose stream has ended; `None` if it ended well, or the command has not
    /// started it.
    fn ended(&mut self, number: usize) -> Option<String> {
        let child = self.instances[number].child.as_mut()?;
        let end = Instant::now() + REASON;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return (!status.success()).then(|| status.to_string()),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => return Some("it says nothing that makes sense, and does not end".to_owned()),
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    /// The error of an instance that ended too early.
    fn early_end(&mut self, number: usize) -> RunError {
        if self.instances[number].child.is_none() {
            return RunError::Refused(format!("{} has ended, or is out of reach", self.name(number)));
        }
        let how = self.ended(number).unwrap_or_else(|| "too early".to_owned());
        RunError::InstanceGone(format!("{} ended: {how}", self.name(number)))
    }

    /// Waits for the next report of an instance. Stops the instances if the user ends the run.
    ///
    /// # Errors
    /// An instance has failed, or ended.
    pub(crate) fn report(&mut self) -> Result<(usize, Report), RunError> {
        match self.next_message()? {
            (number, Received::Message(report)) => Ok((number, report)),
            (number, Received::Rows(_)) => Err(self.unexpected(number)),
        }
    }

    /// Waits for the next report of each instance; `known` returns `None` for an unexpected report.
    pub(crate) fn each<T>(&mut self, known: impl Fn(Report) -> Option<T>) -> Result<Vec<T>, RunError> {
        let mut all: Vec<Option<T>> = self.instances.iter().map(|_| None).collect();
        while all.iter().any(Option::is_none) {
            let (number, report) = self.report()?;
            let expected = known(report).filter(|_| all[number].is_none());
            all[number] = Some(expected.ok_or_else(|| self.unexpected(number))?);
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// The error to report while instances open or load: instances that were ordered to stop end
    /// with an error.
    pub(crate) fn unless_stopping(&self, error: RunError) -> RunError {
        if self.stopping { RunError::Interrupted } else { error }
    }

    /// Waits briefly for the next event: instances may end and come back.
    ///
    /// # Errors
    /// An instance that runs has failed.
    pub(crate) fn event(&mut self) -> Result<Option<Event>, RunError> {
        self.attend();
        let back = self.arrivals.as_mut().map_or(Ok(None), Arrivals::back)?;
        if let Some((number, arrival)) = back {
            let (instance, words) = come(arrival)?;
            self.instances[number] = instance;
            self.listen_to(number, words);
            return Ok(Some(Event::Back(number)));
        }
        Ok(match self.news.recv_timeout(POLL) {
            Ok((number, CrewNews::Received(Received::Message(Report::Failed { why, .. })))) => {
                if !self.missing.contains(&number) {
                    return Err(RunError::Refused(format!("{}: {why}", self.name(number))));
                }
                Some(Event::Gone(number, why))
            }
            Ok((number, CrewNews::Received(Received::Message(report)))) => {
                Some(Event::Report(number, report))
            }
            Ok((number, CrewNews::Received(Received::Rows(_)))) => return Err(self.unexpected(number)),
            Ok((number, CrewNews::Closed)) => {
                self.missing.insert(number);
                self.arrivals.iter_mut().for_each(|arrivals| arrivals.left(number));
                Some(Event::Gone(number, "it is gone".to_owned()))
            }
            Err(_) => None,
        })
    }

    /// Records that an instance runs again.
    pub(crate) fn is_back(&mut self, number: usize) {
        self.missing.remove(&number);
    }

    /// Instances that are gone.
    pub(crate) fn missing(&self) -> &BTreeSet<usize> {
        &self.missing
    }

    /// The next rows of this instance.
    pub(crate) fn rows(&mut self, of: usize) -> Result<Rows, RunError> {
        match self.next_message()? {
            (number, Received::Rows(rows)) if number == of => Ok(rows),
            (number, _) => Err(self.unexpected(number)),
        }
    }

    /// The error of an instance whose report is unexpected now.
    pub(crate) fn unexpected(&self, number: usize) -> RunError {
        RunError::Refused(format!("{} says what nobody has asked for", self.name(number)))
    }

    fn next_message(&mut self) -> Result<(usize, Received<Report>), RunError> {
        // Errors of instances that ended because another one did, and the time of the first.
        let (mut missing, mut since) = (Vec::new(), None::<Instant>);
        loop {
            self.attend();
            match self.news.recv_timeout(POLL) {
                Ok((
                    _,
                    CrewNews::Received(Received::Message(Report::Failed { other_data: Some(other), .. })),
                )) => {
                    return Err(other.into());
                }
                Ok((number, CrewNews::Received(Received::Message(Report::Failed { why, gone, .. })))) => {
                    let why = format!("{}: {why}", self.name(number));
                    if !gone {
                        return Err(RunError::Refused(why));
                    }
                    missing.push((number, why));
                    since.get_or_insert_with(Instant::now);
                }
                // The instance has reported the reason.
                Ok((number, CrewNews::Closed)) if missing.iter().any(|(other, _)| *other == number) => {}
                Ok((number, CrewNews::Closed)) => return Err(self.early_end(number)),
                Ok((_, CrewNews::Received(_))) if since.is_some() => {}
                Ok((number, CrewNews::Received(received))) => return Ok((number, received)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if since.is_some_and(|since| since.elapsed() >= REASON) {
                return Err(RunError::Refused(missing.swap_remove(0).1));
            }
        }
    }

    /// Ends all processes, and waits until they have ended, which includes writing all rows if they
    /// are `durable`.
    pub(crate) fn end(mut self, durable: bool) -> Result<(), RunError> {
        self.send_to_all(&Order::End);
        let patience = if durable { CLOSING } else { ENDING };
        let present = self.instances.len() - self.missing.len();
        let (mut left, end) = (present, Instant::now() + patience);
        while left > 0 {
            match self.news.recv_timeout(POLL) {
                Ok((number, CrewNews::Received(Received::Message(Report::Failed { why, .. })))) => {
                    return Err(RunError::Refused(format!("{}: {why}", self.name(number))));
                }
                Ok((number, CrewNews::Closed)) => match self.ended(number) {
                    Some(how) => {
                        return Err(RunError::InstanceGone(format!("{} ended: {how}", self.name(number))));
                    }
                    None => left -= 1,
                },
                Err(_) if Instant::now() >= end => {
                    return Err(RunError::Refused(format!("{left} instances do not end")));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}
