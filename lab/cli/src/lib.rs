//! The `isles` command: what the user types becomes a configuration, what the engine measures
//! becomes a report.
//!
//! - `commands`: the commands, with `arguments`, their flags and the values that each flag takes;
//!   `usage` turns faults of the command line into one line;
//! - `choices`, `hot` and `values`: the names, hot spots and numbers that flags accept;
//! - `config`: the resolved configuration, and every rule about flags that do not fit together;
//!   `machine_facts`: the facts of a machine that a configuration depends on;
//! - `runner`: from a configuration to a run of the harness;
//! - `bench`, `deploy`, `certificates`: the commands of these names;
//! - `report`: the result, as JSON and as text;
//! - `numbers`: numbers as people read them; `progress`, `interrupt`: what happens meanwhile;
//! - `topology`, `machines`, `probe`: machines as the user names, sees and measures them;
//! - `verify`: campaigns over seeds;
//! - `study`: the command of that name; `pages`: HTML files that commands write;
//! - `directory`: databases on disk, for `check` and `inspect`; `rows`: their rows as text, for
//!   `import` and `export`; `convert` and `upgrade`: databases of another engine or format;
//!   `serve`: starts the SQL server, a program of its own.
//!
//! Exit status: 0 done; 1 the run failed or a consistency check is violated; 2 bad input, with
//! exactly one line on standard error. Standard output carries results only.

#![forbid(unsafe_code)]
// The edge of the system: signals, standard output and the clock of the host belong here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod arguments;
mod backup;
pub mod bad_input;
mod bench;
mod certificates;
pub mod choices;
mod commands;
pub mod config;
mod convert;
mod deploy;
mod directory;
mod directory_of_pages;
pub mod errors;
mod hot;
pub mod interrupt;
pub mod machine_facts;
pub mod machines;
pub mod numbers;
mod output;
mod pages;
mod probe;
pub mod progress;
mod readable;
pub mod report;
mod rows;
pub mod runner;
mod serve;
pub mod study;
mod topology;
mod upgrade;
mod usage;
mod values;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

pub use arguments::{BenchArguments, VerifyArguments};
pub use backup::{BackupArguments, RestoreArguments};
pub use bad_input::BadInput;
pub use config::Config;
pub use convert::ConvertArguments;
pub use directory::{CheckArguments, InspectArguments};
pub use errors::Failure;
pub use interrupt::Interrupt;
pub use progress::Progress;
pub use report::Report;
pub use rows::{ExportArguments, ImportArguments};
pub use upgrade::UpgradeArguments;
pub use usage::COMMANDS;

use commands::{Arguments, Command};
use output::print;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let failure = match usage::parse(std::env::args_os()) {
        Ok(arguments) => execute(arguments).err(),
        Err(usage::Stop::Show(text)) => print(&text).err(),
        Err(usage::Stop::Fault(fault)) => Some(fault.into()),
    };
    let Some(failure) = failure else { return ExitCode::SUCCESS };
    if !failure.reader_left() {
        // If standard error is closed too, the exit status has to do.
        let _ = writeln!(std::io::stderr(), "isles: {}", bad_input::one_line(&failure.to_string()));
    }
    ExitCode::from(failure.status())
}

fn execute(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Topology(arguments) => print(&topology::draw(&arguments)?),
        Command::Probe(arguments) => print(&probe::run(&arguments)?),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Deploy(arguments) => deploy::run(&arguments),
        Command::Certificates(arguments) => print(&certificates::run(&arguments)?),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Check(arguments) => print(&directory::check(&arguments)?),
        Command::Inspect(arguments) => print(&directory::inspect(&arguments)?),
        Command::Backup(arguments) => print(&backup::backup(&arguments)?),
        Command::Restore(arguments) => print(&backup::restore(&arguments)?),
        Command::Import(arguments) => print(&rows::import(&arguments)?),
        Command::Export(arguments) => print(&rows::export(&arguments)?),
        Command::Convert(arguments) => print(&convert::convert(&arguments)?),
        Command::Upgrade(arguments) => print(&upgrade::upgrade(&arguments)?),
        Command::Serve { words } => Err(serve::run(&words).into()),
        Command::Peer { task } => harness::answer_messages(&task).map_err(Failure::of),
        Command::Instance(arguments) => bench::instance(&arguments),
        Command::Other(words) => Err(other(&words).into()),
    }
}

/// A command that does not exist, or not yet.
fn other(words: &[OsString]) -> BadInput {
    const LATER: [&str; 1] = ["advise"];
    let accepted = usage::COMMANDS.join(", ");
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if LATER.contains(&name.as_ref()) {
        return BadInput::later(name, accepted);
    }
    BadInput::new(name, "unknown command", accepted)
}
