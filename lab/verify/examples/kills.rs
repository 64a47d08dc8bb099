//! Kills processes on this machine's own disk; also the process that runs in the guests of
//! `.ci/guest-kills`.
//!
//!     cargo run --release -p isles-verify --example kills -- again DIRECTORY 200
//!
//! kills 200 processes one after another (`kill -9`), each at a random moment, all on the database
//! in the directory. The schemes of rows in memory take turns, or all processes use the scheme that
//! is named last; `2pl` is that of rows in pages, of which the pool holds a third. Such a process
//! is `kills live DIRECTORY ACCESS SEED ACKNOWLEDGED SCHEME`, where ACCESS is `direct` or `cached`,
//! ACKNOWLEDGED the last number that each worker has acknowledged (`12,0,31`), and SCHEME a name or
//! the number of a turn; `check` in place of `live` only checks the directory.
//!
//! kills 100 processes of a deployment of four durable instances, one in each run of it: mostly
//! that of an instance, sometimes the command. With `forgets` at the end, branches in doubt are
//! rolled back whatever was decided, which has to be noticed. A violation is a line `wrong: ...` on
//! standard output, and status 1.
#![allow(missing_docs)]

use std::path::Path;
use std::process::{Command, ExitCode};

use platform::files::Access;
use verify::crashes::killed::{self, ProcessRun};
use verify::crashes::killed_instances;
use verify::{Subject, scheme, schemes};

const WORKERS: usize = 3;
const USAGE: &str = "usage: kills again DIRECTORY KILLS [SCHEME]
       kills deployment DIRECTORY KILLS [forgets]
       kills live|check DIRECTORY direct|cached SEED ACKNOWLEDGED SCHEME";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["again", directory, kills] => kills.parse().ok().map(|kills| again(directory, kills, &schemes())),
        ["again", directory, kills, name] => {
            kills.parse().ok().zip(scheme(name)).map(|(kills, subject)| again(directory, kills, &[subject]))
        }
        ["deployment", directory, kills] => {
            kills.parse().ok().map(|kills| deployment(directory, kills, false))
        }
        ["deployment", directory, kills, "forgets"] => {
            kills.parse().ok().map(|kills| deployment(directory, kills, true))
        }
        [what @ ("command" | "instance"), ref words @ ..] => return process(what, words),
        [what @ ("live" | "check"), directory, access, seed, acknowledged, scheme] => {
            one(what, directory, access, seed, acknowledged, scheme)
        }
        _ => None,
    };
    match done {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(wrong)) => {
            println!("wrong: {wrong}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs or checks a database; `None` if an argument is invalid.
fn one(
    what: &str,
    directory: &str,
    access: &str,
    seed: &str,
    acknowledged: &str,
    scheme: &str,
) -> Option<Result<(), String>> {
    let access = match access {
        "direct" => Access::Direct,
        "cached" => Access::Cached,
        _ => return None,
    };
    let numbers: Result<Vec<u64>, _> = acknowledged.split(',').map(str::parse).collect();
    let acknowledged = &numbers.ok()?;
    let subject = &under(scheme)?;
    let run =
        ProcessRun { subject, path: Path::new(directory), access, seed: seed.parse().ok()?, acknowledged };
    if what == "live" {
        return Some(killed::run(&run));
    }
    Some(killed::check(&run).map(|found| println!("{found}")))
}

/// The scheme of this name, or with this number in the cycle of schemes.
fn under(name: &str) -> Option<Subject> {
    let turn: Option<usize> = name.parse().ok();
    turn.map_or_else(|| scheme(name), |turn| schemes().into_iter().cycle().nth(turn))
}

fn again(directory: &str, kills: u64, subjects: &[Subject]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = |subject: &Subject, number: u64| {
        let mut command = Command::new(&program);
        // The other access at a scheme's next turn.
        let round = number / subjects.len() as u64;
        let access = if (number + round).is_multiple_of(2) { "direct" } else { "cached" };
        let nothing = ["0"; WORKERS].join(",");
        command.args(["live", directory, access, &number.to_string(), &nothing, subject.name]);
        command
    };
    let killed = killed::kill_repeatedly(subjects, Path::new(directory), WORKERS, kills, 1, &mut command)?;
    println!("{} kills, {} acknowledgements", killed.kills, killed.acknowledged);
    if killed.violations.is_empty() { Ok(()) } else { Err(killed.violations.join("; ")) }
}

fn deployment(directory: &str, kills: u64, forgets: bool) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let killed = killed_instances::kill_repeatedly(&program, Path::new(directory), kills, forgets)?;
    println!("{killed:#?}");
    if killed.violations.is_empty() { Ok(()) } else { Err(killed.violations.join("; ")) }
}

/// A process of a deployment: its command, or the process of an instance, which inherits the
/// command's standard error.
fn process(what: &str, words: &[&str]) -> ExitCode {
    let Some(run) = killed_instances::DeploymentRun::from_arguments(words) else { return ExitCode::from(2) };
    let done = match (what, std::env::current_exe()) {
        ("instance", _) => killed_instances::instance(&run),
        (_, Ok(program)) => killed_instances::command(&run, &program),
        (_, Err(error)) => Err(error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
