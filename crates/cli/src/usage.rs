//! Parsing of the command line: faults become one line in the words of this program.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::arguments::Arguments;
use crate::bad_input::BadInput;

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
    let words: Vec<OsString> = words.into_iter().collect();
    let command = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    // Whatever follows a flag is its value, also `-1`: then the message can say what the flag accepts.
    let values = |argument: clap::Arg| {
        let takes_value = argument.get_long().is_some() && argument.get_action().takes_values();
        if takes_value { argument.allow_hyphen_values(true) } else { argument }
    };
    let parsed = Arguments::command()
        .mut_subcommand("bench", |bench| bench.mut_args(values))
        .mut_subcommand("topology", |topology| topology.mut_args(values))
        .try_get_matches_from(words)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Show(error.render().to_string()),
        _ => Stop::Fault(fault(&error, &command)),
    })
}

fn fault(error: &clap::Error, command: &str) -> BadInput {
    let see = match command {
        "bench" | "topology" => format!("see isles {command} --help"),
        _ => "see isles --help".to_owned(),
    };
    let context = |kind| error.get(kind).map(text).unwrap_or_default();
    let flag = context(ContextKind::InvalidArg);
    // Without the placeholder of the value, as in `--cores <N>`.
    let flag = flag.split([' ', '=']).next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let similar = context(ContextKind::SuggestedArg);
            let what = if flag.starts_with('-') { "unknown flag" } else { "not expected here" };
            let accepted = if similar.is_empty() { see } else { format!("{similar}; {see}") };
            BadInput::new(flag, what, accepted)
        }
        ErrorKind::InvalidValue => BadInput::new(flag, "needs a value", see),
        ErrorKind::ArgumentConflict => BadInput::new(flag, "given more than once", see),
        ErrorKind::TooManyValues => BadInput::new(flag, "takes no value", see),
        ErrorKind::MissingRequiredArgument => {
            BadInput::new("WORKLOAD", "missing", format!("micro, ycsb, tpcc, counter; {see}"))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            BadInput::new("command", "missing", format!("topology, bench; {see}"))
        }
        _ => {
            let rendered = error.render().to_string();
            let line = rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            BadInput::new("command line", line, see)
        }
    }
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(texts) => texts.join(", "),
        other => other.to_string(),
    }
}
