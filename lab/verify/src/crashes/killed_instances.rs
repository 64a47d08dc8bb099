//! Durable deployments whose instances are processes; one of these, or their command, is killed at
//! any moment.
//!
//! The workload is that of `ledger`. A process that is never killed keeps the acknowledged numbers:
//! the processes of instances report them on standard error, one line each,
//! `acknowledged WORKER NUMBER`. After some kills that process opens the deployment: each
//! acknowledged number has to be there, none is half applied, and after the deployment has been
//! opened and closed nothing is in doubt any more. So the next opening bounds the time in doubt.
//!
//! The operating system's cache survives a kill, so a missing flush does not show.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use concurrency::SchemeName;
use engine::durable::content;
use harness::{
    Control, Deployment, Durability, Instance, InstanceProgram, Instances, Length, Measurement, Plan,
    Transport, WorkerPlace, directory,
};
use platform::Hardware;
use terms::random::Random;
use terms::{Fault, Faults};

use super::ledger::Ledger;
use super::refusals::native::RefusedCalls;
use crate::benchmark::violated_checks;

/// Instances, each with one worker.
pub const INSTANCES: u16 = 4;
/// Run time of a process that is not killed.
const SECONDS: f64 = 30.0;
/// Longest time before one of the processes is killed.
const MILLISECONDS_MAX: u64 = 250;
/// A process that still runs after this time counts as hanging. No run takes as long.
const HANGING: Duration = Duration::from_secs(120);
/// Run time of a command whose processes are refused calls.
const LIFE_REFUSED: Duration = Duration::from_millis(700);
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const EPOCH_NANOS: u64 = 500_000;

/// One run of a deployment's processes.
#[derive(Clone, Debug)]
pub struct DeploymentRun {
    /// The directory of the deployment.
    pub path: PathBuf,
    /// The number of the run, which chooses transport and durability: files depend on neither.
    pub round: u64,
    /// The number of the scheme in turn. The turn passes when nothing is in doubt: `hstore` cannot
    /// hold two branches in a partition.
    pub turn: u64,
    /// True if transactions run until a process is killed; otherwise the deployment is opened,
    /// checked and closed.
    pub runs: bool,
    /// True if branches in doubt are rolled back whatever was decided: an injected fault, which has
    /// to be noticed.
    pub forgets: bool,
}

impl DeploymentRun {
    /// The command-line arguments of this run.
    pub fn arguments(&self) -> Vec<String> {
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

    /// The run that these arguments describe.
    pub fn from_arguments(words: &[&str]) -> Option<DeploymentRun> {
        let [path, round, turn, runs, forgets] = *words else { return None };
        let (runs, forgets) = (runs == "runs", forgets == "forgets");
        Some(DeploymentRun {
            path: path.into(),
            round: round.parse().ok()?,
            turn: turn.parse().ok()?,
            runs,
            forgets,
        })
    }

    fn scheme(&self) -> SchemeName {
        SchemeName::ALL[self.turn as usize % SchemeName::ALL.len()]
    }

    fn plan(&self) -> Plan {
        let length = if self.runs { Length::Seconds(SECONDS) } else { Length::Transactions(0) };
        // Cycles of different lengths, so that all pairs occur.
        let durability = [Durability::Group, Durability::Group, Durability::Sync][self.round as usize % 3];
        Plan {
            seed: self.round,
            durability,
            path: Some(self.path.clone()),
            in_flight: 1 + self.round as usize % 16,
            epoch_nanos: EPOCH_NANOS,
            faults: if self.forgets { Faults::of(&[Fault::LostDoubt]) } else { Faults::NONE },
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
        let arguments =
            std::iter::once("instance".to_owned()).chain(self.arguments()).map(Into::into).collect();
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

/// Runs the command of a deployment until it or one of its processes is killed. A process of an
/// instance is `program` with the word `instance` and [the arguments of the
/// run](DeploymentRun::arguments).
///
/// # Errors
/// Why it ended.
pub fn command(run: &DeploymentRun, program: &Path) -> Result<(), String> {
    run.run(&ledger(), program).map(drop)
}

/// Runs the process of an instance.
///
/// # Errors
/// The process has no command.
pub fn instance(run: &DeploymentRun) -> Result<(), String> {
    let ledger = ledger().reporting_to(|worker, number| {
        // One write a line, so that the lines of processes do not mix. The pipe may be closed.
        let _ = io::stderr().lock().write_all(format!("acknowledged {worker} {number}\n").as_bytes());
    });
    ledger.round.store(run.round, Ordering::Relaxed);
    let inline = harness::dynamic::<Hardware, _>;
    harness::run_instance_of(&ledger, &run.plan(), inline).map_err(|error| error.to_string())
}

/// Result of killing processes of one deployment one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes of instances that were killed.
    pub instances: u64,
    /// Commands that were killed.
    pub commands: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Checks of the deployment.
    pub checks: u64,
    /// Branches in doubt at these checks.
    pub in_doubt: u64,
    /// Committed branches among them.
    pub committed: u64,
    /// Longest opening that resolved branches in doubt, in milliseconds.
    pub resolved_ms_max: u64,
    /// Violations.
    pub violations: Vec<String>,
}

/// Kills `kills` processes, one after another, all of one deployment in `path`. `program` runs
/// [`command`] or [`instance`] when it is called with these words. `forgets` injects that fault
/// into each run.
///
/// # Errors
/// Processes cannot be started.
pub fn kill_repeatedly(program: &Path, path: &Path, kills: u64, forgets: bool) -> Result<Killed, String> {
    let mut random = Random::new(kills, 1);
    let mut all = Killed::default();
    let ledger = ledger();
    let run = |round, turn, runs| DeploymentRun { path: path.to_path_buf(), round, turn, runs, forgets };
    // The first run loads the data.
    check(&run(0, 0, false), program, &ledger, &mut all);
    for number in 1..=kills {
        let run = run(number, all.checks, true);
        let what = kill(&run, program, &mut random, &ledger, &mut all)?;
        if let Some(wrong) = what {
            all.violations.push(format!("kill {number}, {}: {wrong}", run.scheme()));
        }
        if number == kills || random.below(2) == 0 {
            check(&DeploymentRun { runs: false, ..run }, program, &ledger, &mut all);
        }
        if !all.violations.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// Opens the deployment, checks it and closes it.
fn check(run: &DeploymentRun, program: &Path, ledger: &Ledger, all: &mut Killed) {
    let mut violated = |what: String| all.violations.push(format!("look after kill {}: {what}", run.round));
    match run.run(ledger, program) {
        Err(error) => violated(error),
        Ok(measured) => {
            violated_checks(measured.checks).into_iter().for_each(&mut violated);
            if let Some(recovered) = measured.recovered {
                all.in_doubt += recovered.in_doubt;
                all.committed += recovered.in_doubt_committed;
                let milliseconds = (recovered.seconds * 1e3) as u64;
                all.resolved_ms_max = all.resolved_ms_max.max(milliseconds);
            }
            all.checks += 1;
            ledger.closed();
        }
    }
    for instance in 0..usize::from(INSTANCES) {
        let path = directory::instance(&run.path, instance);
        match content::check::<Hardware>(Hardware::core(), &path, &mut |_, _| ()) {
            Ok(checked) if checked.in_doubt.is_empty() && checked.decisions.is_empty() => {}
            Ok(checked) => {
                let (parts, decisions) = (checked.in_doubt.len(), checked.decisions.len());
                all.violations.push(format!(
                    "look after kill {}: {parts} parts of instance {instance} are in doubt still, and {decisions} decisions kept",
                    run.round
                ));
            }
            Err(error) => all.violations.push(format!("instance {instance}: {error}")),
        }
    }
}

/// A running command and its processes.
struct RunningCommand {
    command: Child,
    lines: Receiver<String>,
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // The command has ended, unless there was an error.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

impl RunningCommand {
    /// Starts the command, prefixed by the program and arguments `words`.
    fn start(run: &DeploymentRun, program: &Path, words: &[String]) -> Result<RunningCommand, String> {
        let mut command = match words {
            [] => Command::new(program),
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg(program);
                command
            }
        };
        command.arg("command").args(run.arguments()).stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(Stdio::piped()).spawn();
        let mut command = started.map_err(|error| format!("a process cannot be started: {error}"))?;
        let from = command.stderr.take().map(BufReader::new);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = from.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(RunningCommand { command, lines })
    }

    /// Process ids of its instances.
    fn instances(&self) -> Vec<String> {
        let command = self.command.id();
        let children = std::fs::read_to_string(format!("/proc/{command}/task/{command}/children"));
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until all processes have ended. Returns the lines that they printed and the command's
    /// status; `None` if some do not end.
    fn wait_for_end(&mut self) -> Option<(Vec<String>, ExitStatus)> {
        let (mut output, end) = (Vec::new(), Instant::now() + HANGING);
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => output.push(line),
                Err(RecvTimeoutError::Disconnected) => return Some((output, self.command.wait().ok()?)),
                Err(RecvTimeoutError::Timeout) => return None,
            }
        }
    }
}

/// Runs a deployment, and kills one of its processes. Returns a violation if the others end in a
/// wrong way.
fn kill(
    run: &DeploymentRun,
    program: &Path,
    random: &mut Random,
    ledger: &Ledger,
    all: &mut Killed,
) -> Result<Option<String>, String> {
    let mut running = RunningCommand::start(run, program, &[])?;
    let (mut output, end) = (Vec::new(), Instant::now() + HANGING);
    // Most processes are killed while transactions run, the others at any moment of an opening.
    if random.below(4) > 0 {
        match running.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => output.push(line),
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
    let Some((rest, status)) = running.wait_for_end() else {
        return Ok(Some("processes that were not killed do not end".to_owned()));
    };
    output.extend(rest);
    let others = record_lines(output, ledger, all);
    let named = others.iter().any(|line| line.contains("ended: signal: 9 (SIGKILL)"));
    let as_it_should = if is_instance { status.code() == Some(1) && named } else { status.code().is_none() };
    Ok((!as_it_should).then(|| format!("the command ended with {status}: {}", others.join("; "))))
}

/// Records the numbers that processes have acknowledged, and returns their other lines.
fn record_lines(output: Vec<String>, ledger: &Ledger, all: &mut Killed) -> Vec<String> {
    let mut others = Vec::new();
    for line in output {
        match parse(&line) {
            Some((worker, number)) => {
                ledger.require(worker, number);
                all.acknowledged += 1;
            }
            None => others.push(line),
        }
    }
    others
}

/// Runs a deployment in `path` once for each of these refusals, which each thread of all its
/// processes gets, and kills its command if it is still running afterwards; then opens the
/// deployment: nothing may be missing, half applied, or in doubt. `early` injects a fault: too many
/// numbers count as acknowledged, which has to be noticed. Returns the number of refused calls too.
///
/// # Errors
/// Processes cannot be started.
pub fn refuse_repeatedly(
    program: &Path,
    path: &Path,
    refusals: &[RefusedCalls],
    early: bool,
) -> Result<(Killed, u64), String> {
    let (mut all, mut refused, ledger) = (Killed::default(), 0, ledger());
    let notes = path.with_extension("notes");
    let run = |round, runs| DeploymentRun { path: path.to_path_buf(), round, turn: 0, runs, forgets: false };
    // The first run loads the data.
    check(&run(0, false), program, &ledger, &mut all);
    for (number, refusal) in (0..).zip(refusals) {
        // The transports with sockets take turns.
        let round = 9 * number + 3 + number % 2 * 3;
        let mut running = RunningCommand::start(&run(round, true), program, &refusal.arguments(&notes))?;
        let (mut output, end) = (Vec::new(), Instant::now() + LIFE_REFUSED);
        while let Ok(line) = running.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            output.push(line);
        }
        let ended = running.command.try_wait().map_err(|error| error.to_string())?;
        if ended.is_none() {
            running.command.kill().map_err(|error| error.to_string())?;
            all.commands += 1;
        }
        match running.wait_for_end() {
            Some((rest, _)) => output.extend(rest),
            None => all.violations.push(format!("{refusal:?}: processes do not end")),
        }
        let others = record_lines(output, &ledger, &mut all);
        if ended.is_some_and(|status| status.code() != Some(1)) || ended.is_some() && others.is_empty() {
            all.violations
                .push(format!("{refusal:?}: the command ended with {ended:?}: {}", others.join("; ")));
        }
        refused += RefusedCalls::count(&notes);
        _ = std::fs::remove_file(&notes);
        if early {
            ledger.require(0, u64::from(u32::MAX));
        }
        check(&run(round, false), program, &ledger, &mut all);
    }
    Ok((all, refused))
}

/// Parses a line that acknowledges a number.
fn parse(line: &str) -> Option<(u16, u64)> {
    let (worker, number) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}
