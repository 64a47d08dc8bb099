//! Durable deployments whose instances are processes, of which one is killed at any moment, or
//! their command.
//!
//! What runs stands in `ledger`; what was acknowledged is known to a process that is never killed,
//! to which the processes of instances say it on standard error, a line each,
//! `acknowledged WORKER NUMBER`. After some kills the deployment is opened by that process: every
//! number that was acknowledged has to be there, none by half, and nothing is in doubt any more
//! once the deployment has been opened and closed, which is the bound on doubt: the next opening.
//!
//! The operating system's cache survives a kill, so that a flush that is missing does not show.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use concurrency::SchemeName;
use engine::durable::content;
use harness::{
    Check, Control, Deployment, Durability, Instance, InstanceProgram, Instances, Length, Measurement, Plan,
    Transport, WorkerPlace, directory,
};
use platform::Hardware;
use terms::random::Random;

use super::ledger::Ledger;
use super::refusals::native::Refused;

pub use harness::Rules;

/// Instances, each of one worker.
pub const INSTANCES: u16 = 4;
/// A process that is not killed would live so long.
const SECONDS: f64 = 30.0;
/// The longest life of processes that run, before one of them is killed.
const MILLISECONDS_MAX: u64 = 250;
/// What hangs is ended after this time. Nothing takes as long.
const HANGING: Duration = Duration::from_secs(120);
/// So long a command lives to whose processes calls are refused.
const LIFE_REFUSED: Duration = Duration::from_millis(700);
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const EPOCH_NANOS: u64 = 500_000;

/// A life of a deployment's processes.
#[derive(Clone, Debug)]
pub struct Life {
    /// The directory of the deployment.
    pub path: PathBuf,
    /// The number of the life, which says transport and durability: files name neither.
    pub round: u64,
    /// Which scheme's turn it is. The next one's comes when nothing is in doubt: `hstore` cannot
    /// hold two parts in a partition.
    pub turn: u64,
    /// True if transactions run until somebody kills; otherwise the deployment is opened, checked
    /// and closed.
    pub runs: bool,
    /// True if parts in doubt are rolled back whatever was decided, which is a fault that has to be
    /// noticed.
    pub forgets: bool,
}

impl Life {
    /// The words that say it to a process.
    pub fn words(&self) -> Vec<String> {
        let switch = |on: bool, name: &str| if on { name.to_owned() } else { "-".to_owned() };
        let path = self.path.display().to_string();
        vec![
            path,
            self.round.to_string(),
            self.turn.to_string(),
            switch(self.runs, "runs"),
            switch(self.forgets, "forgets"),
        ]
    }

    /// The life that these words say.
    pub fn of_words(words: &[&str]) -> Option<Life> {
        let [path, round, turn, runs, forgets] = *words else { return None };
        let (runs, forgets) = (runs == "runs", forgets == "forgets");
        Some(Life { path: path.into(), round: round.parse().ok()?, turn: turn.parse().ok()?, runs, forgets })
    }

    fn scheme(&self) -> SchemeName {
        SchemeName::ALL[self.turn as usize % SchemeName::ALL.len()]
    }

    fn plan(&self) -> Plan {
        let length = if self.runs { Length::Seconds(SECONDS) } else { Length::Transactions(0) };
        // Turns of another length each, so that all pairs come.
        let durability = [Durability::Group, Durability::Group, Durability::Sync][self.round as usize % 3];
        Plan {
            seed: self.round,
            durability,
            path: Some(self.path.clone()),
            in_flight: 1 + self.round as usize % 16,
            epoch_nanos: EPOCH_NANOS,
            protocol: Rules { adopts: !self.forgets, ..Rules::SOUND },
            ..Plan::new(self.scheme(), length)
        }
    }

    fn deployment(&self) -> Deployment {
        let transport = [Transport::Shm, Transport::Uds, Transport::Tcp][self.round as usize / 3 % 3];
        let instance = Instance { machine: 0, workers: vec![WorkerPlace::default()] };
        let instances = vec![instance; usize::from(INSTANCES)];
        Deployment { transport, instances, ..Deployment::unpinned(0, MEMORY_BYTES_MAX) }
    }

    fn run(&self, ledger: &Ledger, program: &Path) -> Result<Measurement, String> {
        ledger.round.store(self.round, Ordering::Relaxed);
        let arguments = std::iter::once("instance".to_owned()).chain(self.words()).map(Into::into).collect();
        let (program, paths) = (program.to_path_buf(), Vec::new());
        let instances = Instances::Started(InstanceProgram { program, arguments, paths });
        let (plan, deployment) = (self.plan(), self.deployment());
        harness::run_on_processes(ledger, &plan, &deployment, &instances, Control::NONE)
            .map_err(|error| error.to_string())
    }
}

fn ledger() -> Ledger {
    Ledger::new(INSTANCES, true)
}

/// What the command of a deployment does: it runs until somebody kills it, or one of its processes,
/// which are `program` with the word `instance` and [the life's](Life::words).
///
/// # Errors
/// Why it ended.
pub fn command(life: &Life, program: &Path) -> Result<(), String> {
    life.run(&ledger(), program).map(drop)
}

/// What the process of an instance does.
///
/// # Errors
/// It has no command.
pub fn instance(life: &Life) -> Result<(), String> {
    let ledger = ledger().telling(|worker, number| {
        // One write a line: the lines of processes do not mix. Nobody may be there to hear it.
        let _ = io::stderr().lock().write_all(format!("acknowledged {worker} {number}\n").as_bytes());
    });
    ledger.round.store(life.round, Ordering::Relaxed);
    let inline = harness::dynamic::<Hardware, _>;
    harness::run_instance_of(&ledger, &life.plan(), inline).map_err(|error| error.to_string())
}

/// What killing processes of one deployment after another showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes of instances that were killed.
    pub instances: u64,
    /// Commands that were killed.
    pub commands: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Times that the deployment was looked at.
    pub looks: u64,
    /// Parts that were in doubt at these times.
    pub in_doubt: u64,
    /// Of these, those that were committed.
    pub committed: u64,
    /// The longest opening that resolved parts in doubt, in milliseconds.
    pub resolved_ms_max: u64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Kills so many processes, one after another, all of one deployment in `path`. `program` is one
/// that does what [`command`] and [`instance`] do if it gets these words. With `forgets` every life
/// has that fault.
///
/// # Errors
/// Processes cannot be started.
pub fn kill_again(program: &Path, path: &Path, kills: u64, forgets: bool) -> Result<Killed, String> {
    let mut random = Random::new(kills, 1);
    let mut all = Killed::default();
    let ledger = ledger();
    let life = |round, turn, runs| Life { path: path.to_path_buf(), round, turn, runs, forgets };
    // Loads.
    look(&life(0, 0, false), program, &ledger, &mut all);
    for number in 1..=kills {
        let life = life(number, all.looks, true);
        let what = kill(&life, program, &mut random, &ledger, &mut all)?;
        if let Some(wrong) = what {
            all.violations.push(format!("kill {number}, {}: {wrong}", life.scheme()));
        }
        if number == kills || random.below(2) == 0 {
            look(&Life { runs: false, ..life }, program, &ledger, &mut all);
        }
        if !all.violations.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// Opens the deployment, checks it and closes it.
fn look(life: &Life, program: &Path, ledger: &Ledger, all: &mut Killed) {
    let mut violated = |what: String| all.violations.push(format!("look after kill {}: {what}", life.round));
    match life.run(ledger, program) {
        Err(error) => violated(error),
        Ok(measured) => {
            for (name, check) in &measured.checks {
                if let Check::Violated(what) = check {
                    violated(format!("{name}: {what}"));
                }
            }
            if let Some(recovered) = measured.recovered {
                all.in_doubt += recovered.in_doubt;
                all.committed += recovered.in_doubt_committed;
                let milliseconds = (recovered.seconds * 1e3) as u64;
                all.resolved_ms_max = all.resolved_ms_max.max(milliseconds);
            }
            all.looks += 1;
            ledger.closed();
        }
    }
    for instance in 0..usize::from(INSTANCES) {
        let path = directory::instance(&life.path, instance);
        match content::check::<Hardware>(Hardware::core(), &path, &mut |_, _| ()) {
            Ok(checked) if checked.in_doubt.is_empty() && checked.decisions.is_empty() => {}
            Ok(checked) => {
                let (parts, decisions) = (checked.in_doubt.len(), checked.decisions.len());
                all.violations.push(format!(
                    "look after kill {}: {parts} parts of instance {instance} are in doubt still, and {decisions} decisions kept",
                    life.round
                ));
            }
            Err(error) => all.violations.push(format!("instance {instance}: {error}")),
        }
    }
}

/// A command that runs, with its processes.
struct Running {
    command: Child,
    lines: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless something went wrong.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

impl Running {
    /// Starts the command, which `words` in front of the program run.
    fn start(life: &Life, program: &Path, words: &[String]) -> Result<Running, String> {
        let mut command = match words {
            [] => Command::new(program),
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg(program);
                command
            }
        };
        command.arg("command").args(life.words()).stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(Stdio::piped()).spawn();
        let mut command = started.map_err(|error| format!("a process cannot be started: {error}"))?;
        let from = command.stderr.take().map(BufReader::new);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = from.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Running { command, lines })
    }

    /// The processes of its instances.
    fn instances(&self) -> Vec<String> {
        let command = self.command.id();
        let children = std::fs::read_to_string(format!("/proc/{command}/task/{command}/children"));
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// What is said until all processes have ended, and how the command did; `None` if some do not
    /// end.
    fn end(&mut self) -> Option<(Vec<String>, ExitStatus)> {
        let (mut said, end) = (Vec::new(), Instant::now() + HANGING);
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => return Some((said, self.command.wait().ok()?)),
                Err(RecvTimeoutError::Timeout) => return None,
            }
        }
    }
}

/// Lets a deployment live, and kills one of its processes; what is wrong with how the others ended.
fn kill(
    life: &Life,
    program: &Path,
    random: &mut Random,
    ledger: &Ledger,
    all: &mut Killed,
) -> Result<Option<String>, String> {
    let mut running = Running::start(life, program, &[])?;
    let (mut said, end) = (Vec::new(), Instant::now() + HANGING);
    // Most are killed while transactions run, the others at any moment of an opening.
    if random.below(4) > 0 {
        match running.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => said.push(line),
            Err(_) => return Ok(Some("nothing runs".to_owned())),
        }
    }
    std::thread::sleep(Duration::from_millis(1 + random.below(MILLISECONDS_MAX)));
    let instances = running.instances();
    let victim = random.below(2 * u64::from(INSTANCES)) as usize;
    let is_instance = match instances.get(victim % (usize::from(INSTANCES) + 1)) {
        Some(instance) => {
            let sent = Command::new("kill").args(["-s", "KILL", instance]).status();
            if !sent.map_err(|error| error.to_string())?.success() {
                return Ok(Some(format!("process {instance} has ended by itself")));
            }
            all.instances += 1;
            true
        }
        None => {
            running.command.kill().map_err(|error| error.to_string())?;
            all.commands += 1;
            false
        }
    };
    let Some((rest, status)) = running.end() else {
        return Ok(Some("processes that were not killed do not end".to_owned()));
    };
    said.extend(rest);
    let others = claim(said, ledger, all);
    let named = others.iter().any(|line| line.contains("ended: signal: 9 (SIGKILL)"));
    let as_it_should = if is_instance { status.code() == Some(1) && named } else { status.code().is_none() };
    Ok((!as_it_should).then(|| format!("the command ended with {status}: {}", others.join("; "))))
}

/// Takes what processes have said: what is acknowledged counts, what else they said is told.
fn claim(said: Vec<String>, ledger: &Ledger, all: &mut Killed) -> Vec<String> {
    let mut others = Vec::new();
    for line in said {
        match parse(&line) {
            Some((worker, number)) => {
                ledger.claim(worker, number);
                all.acknowledged += 1;
            }
            None => others.push(line),
        }
    }
    others
}

/// Runs a deployment in `path` once for each of these refusals, made to each thread of all of its
/// processes, and kills its command if that has not ended in words by then; then the deployment is
/// opened, and nothing may be missing, by half, or in doubt. With `early` more counts as
/// acknowledged than was, which has to be noticed. Tells also how many calls were refused.
///
/// # Errors
/// Processes cannot be started.
pub fn refuse_again(
    program: &Path,
    path: &Path,
    refusals: &[Refused],
    early: bool,
) -> Result<(Killed, u64), String> {
    let (mut all, mut refused, ledger) = (Killed::default(), 0, ledger());
    let notes = path.with_extension("notes");
    let life = |round, runs| Life { path: path.to_path_buf(), round, turn: 0, runs, forgets: false };
    // Loads.
    look(&life(0, false), program, &ledger, &mut all);
    for (number, refusal) in (0..).zip(refusals) {
        // Transports with sockets, in turn.
        let round = 9 * number + 3 + number % 2 * 3;
        let mut running = Running::start(&life(round, true), program, &refusal.arguments(&notes))?;
        let (mut said, end) = (Vec::new(), Instant::now() + LIFE_REFUSED);
        while let Ok(line) = running.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            said.push(line);
        }
        let ended = running.command.try_wait().map_err(|error| error.to_string())?;
        if ended.is_none() {
            running.command.kill().map_err(|error| error.to_string())?;
            all.commands += 1;
        }
        match running.end() {
            Some((rest, _)) => said.extend(rest),
            None => all.violations.push(format!("{refusal:?}: processes do not end")),
        }
        let others = claim(said, &ledger, &mut all);
        if ended.is_some_and(|status| status.code() != Some(1)) || ended.is_some() && others.is_empty() {
            all.violations
                .push(format!("{refusal:?}: the command ended with {ended:?}: {}", others.join("; ")));
        }
        refused += Refused::count(&notes);
        _ = std::fs::remove_file(&notes);
        if early {
            ledger.claim(0, u64::from(u32::MAX));
        }
        look(&life(round, false), program, &ledger, &mut all);
    }
    Ok((all, refused))
}

/// A line that acknowledges.
fn parse(line: &str) -> Option<(u16, u64)> {
    let (worker, number) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}
