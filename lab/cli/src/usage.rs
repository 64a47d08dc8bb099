//! Parsing of the command line: faults become one line in the words of this program.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Id};

use crate::arguments::{BENCH_BASIC_FLAGS, INSTANCE_COMMAND};
use crate::bad_input::BadInput;
use crate::choices::WorkloadName;
use crate::commands::{Arguments, Command};
use harness::Choice;

/// The commands that there are.
pub const COMMANDS: [&str; 16] = [
    "topology",
    "probe",
    "bench",
    "deploy",
    "certificates",
    "verify",
    "study",
    "check",
    "inspect",
    "backup",
    "restore",
    "import",
    "export",
    "convert",
    "upgrade",
    "serve",
];

/// Why parsing gives no arguments.
#[derive(Debug)]
pub enum Stop {
    /// Help or version, for standard output.
    Show(String),
    /// Bad input.
    Fault(BadInput),
}

/// Parses a command line that begins with the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Stop> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let mut parsed = matches(&words);
    if parsed.as_ref().is_err_and(lacks_value) {
        // Only the last flag can lack its value. With an empty one the message can say what the
        // flag accepts.
        words.push(OsString::new());
        parsed = matches(&words);
    }
    parsed.and_then(|matches| of_matches(&matches)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Show(error.render().to_string()),
        _ => Stop::Fault(fault(&error, words.get(1))),
    })
}

/// The arguments; those of a benchmark know which flags were given.
fn of_matches(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    if let Command::Bench(bench) | Command::Instance(bench) = &mut arguments.command
        && let Some((_, matches)) = matches.subcommand()
    {
        let is_given = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        bench.given = matches.ids().filter(is_given).cloned().collect();
    }
    Ok(arguments)
}

fn matches(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    command().try_get_matches_from(words)
}

/// The grammar. Whatever follows a flag is its value, also `-1`: then the message can say what the
/// flag accepts.
fn command() -> clap::Command {
    let values = |argument: Arg| {
        let takes_value = argument.get_long().is_some() && argument.get_action().takes_values();
        if takes_value { argument.allow_hyphen_values(true) } else { argument }
    };
    let command = COMMANDS.into_iter().chain([INSTANCE_COMMAND]).fold(Arguments::command(), |all, name| {
        all.mut_subcommand(name, |command| with_help(command.mut_args(values)))
    });
    let is_basic = |argument: &Arg| BENCH_BASIC_FLAGS.contains(&argument.get_id().as_str());
    let basics = |argument: Arg| {
        let is_hidden = !is_basic(&argument) && !argument.get_id().as_str().starts_with("help");
        argument.hide_short_help(is_hidden)
    };
    with_help(command).mut_subcommand("bench", |bench| bench.mut_args(basics))
}

/// The command with `--help`, which is short, and `--help-all`, which is complete.
fn with_help(command: clap::Command) -> clap::Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong).help("Print all flags");
    command.disable_help_flag(true).args([short, all])
}

fn lacks_value(error: &clap::Error) -> bool {
    let empty =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    error.kind() == ErrorKind::InvalidValue && empty
}

fn fault(error: &clap::Error, command: Option<&OsString>) -> BadInput {
    let command = command.and_then(|word| word.to_str()).filter(|word| COMMANDS.contains(word));
    let see = command.map_or("see isles --help".to_owned(), |command| format!("see isles {command} --help"));
    let context = |kind| error.get(kind).map(text).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    // Without the placeholder of the value, as in `--cores <N>`.
    let flag = argument.split(" <").next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let similar = context(ContextKind::SuggestedArg);
            let what = if flag.starts_with('-') { "unknown flag" } else { "not expected here" };
            let hint = if listed(command, &similar) { format!("similar: {similar}; {see}") } else { see };
            BadInput::see(flag, what, hint)
        }
        ErrorKind::ArgumentConflict => BadInput::see(flag, "given more than once", see),
        ErrorKind::TooManyValues => BadInput::see(flag, "takes no value", see),
        ErrorKind::MissingRequiredArgument if command == Some("study") => {
            BadInput::see("FILE", "missing", format!("accepted: a study file; {see}"))
        }
        ErrorKind::MissingRequiredArgument if command == Some("deploy") => {
            BadInput::see("FILE", "missing", format!("accepted: a deployment file; {see}"))
        }
        ErrorKind::MissingRequiredArgument if matches!(command, Some("check" | "inspect")) => {
            BadInput::see("PATH", "missing", format!("accepted: the directory of a database; {see}"))
        }
        ErrorKind::MissingRequiredArgument if matches!(command, Some("backup" | "restore")) => {
            BadInput::see("directory", "missing", format!("accepted: where from and where to; {see}"))
        }
        ErrorKind::MissingRequiredArgument => {
            BadInput::see("WORKLOAD", "missing", format!("accepted: {}; {see}", WorkloadName::accepted()))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            BadInput::see("command", "missing", format!("accepted: {}; {see}", COMMANDS.join(", ")))
        }
        _ => {
            let rendered = error.render().to_string();
            let line = rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            BadInput::see("command line", line, see)
        }
    }
}

/// True if the help of a command lists a flag.
fn listed(name: Option<&str>, flag: &str) -> bool {
    let command = command();
    let Some(long) = flag.strip_prefix("--") else { return false };
    let Some(named) = name.and_then(|name| command.find_subcommand(name)) else { return false };
    named.get_arguments().any(|argument| argument.get_long() == Some(long) && !argument.is_hide_set())
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(texts) => texts.join(", "),
        other => other.to_string(),
    }
}
