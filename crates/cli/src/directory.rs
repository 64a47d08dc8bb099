//! `isles check` and `isles inspect`: what a database's directory holds, and whether it is whole.

use std::path::Path;

use clap::Args;
use platform::Hardware;
use storage::log::{Survey, survey};

use crate::errors::Failure;
use crate::report::numbers::thousands;

const CHECK_EXAMPLES: &str = "Example:
  isles check data        read everything and verify every checksum

The database must not be open. Exit status: 0 whole, 1 damaged or no database, 2 bad input.";

const INSPECT_EXAMPLES: &str = "Example:
  isles inspect data      openings, checkpoint and segments, with their epochs";

/// Flags of `isles check`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
}

/// Flags of `isles inspect`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub struct InspectArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
}

fn read(path: &str) -> Result<Survey, Failure> {
    let path = Path::new(path);
    survey::<Hardware>(Hardware::core(), path).map_err(|error| Failure::at(path, &error))
}

/// Verifies a directory.
///
/// # Errors
/// [`Failure::Failed`] with the first damage.
pub fn check(arguments: &CheckArguments) -> Result<String, Failure> {
    let survey = read(&arguments.path)?;
    let blocks: u64 = survey.segments.iter().map(|segment| segment.blocks).sum();
    let mut text = format!(
        "{}: ok, {} files: {} rows in the checkpoint, {} records in {} blocks of the log\n",
        arguments.path,
        survey.files().len(),
        thousands(survey.rows()),
        thousands(survey.records()),
        thousands(blocks),
    );
    if !survey.closed {
        text += "It was not closed: what was written last may be torn, which is not told from damage.\n";
    }
    Ok(text)
}

/// Shows what a directory holds.
///
/// # Errors
/// [`Failure::Failed`] with the first damage.
pub fn inspect(arguments: &InspectArguments) -> Result<String, Failure> {
    let survey = read(&arguments.path)?;
    let mut text = format!("{}: last epoch {}\n\nopenings\n", arguments.path, survey.last_epoch);
    for generation in &survey.generations {
        let last = generation.last_epoch.map_or("open or crashed".to_owned(), |last| format!("to {last}"));
        text += &format!(
            "  {:>4}  {} streams, epochs from {} {last}\n",
            generation.number,
            generation.starts.len(),
            generation.first_epoch
        );
    }
    if let Some((checkpoint, rows)) = survey.checkpoint {
        text += &format!("\ncheckpoint {}: {} rows\n", checkpoint.number, thousands(rows));
    }
    text += "\nsegments\n";
    for segment in &survey.segments {
        let generation =
            segment.generation.map_or("never begun".to_owned(), |number| format!("opening {number}"));
        let epochs =
            segment.epochs.map_or(String::new(), |(first, last)| format!(", epochs {first} to {last}"));
        let dead = match segment.dead_records {
            0 => String::new(),
            dead => format!(", {} that do not count", thousands(dead)),
        };
        text += &format!(
            "  {}  {generation}: {} of {} bytes, {} blocks, {} records{dead}{epochs}\n",
            segment.name,
            thousands(segment.used_bytes),
            thousands(segment.bytes),
            thousands(segment.blocks),
            thousands(segment.records),
        );
    }
    text += "\ntables\n";
    for table in String::from_utf8_lossy(&survey.extra).split("; ").filter(|table| !table.is_empty()) {
        let (name, bytes) = table.split(':').next().unwrap_or(table).split_once(' ').unwrap_or((table, "?"));
        text += &format!("  {name}: rows of {bytes} bytes\n");
    }
    Ok(text)
}
