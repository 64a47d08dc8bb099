//! `isles check` and `isles inspect`: what a database's directory holds, and whether it is whole.

use std::collections::BTreeSet;
use std::path::Path;

use boundary::directory::description::{Description, DirectoryTable};
use boundary::{Decision, PartOf};
use clap::Args;
use engine::durable::content::{self, Checked, Outline};
use harness::{DataOwners, Undecided, directory};
use platform::Hardware;
use schema::ColumnDescription;
use terms::Faults;

use crate::bad_input::one_line;
use crate::directory_of_pages;
use crate::errors::Failure;
use crate::numbers::thousands;
use crate::progress::Progress;
use crate::readable::Readable;

const CHECK_EXAMPLES: &str = "Examples:
  isles check data                                      read everything, verify every checksum, and count the rows
  isles check data --repair-from /backups/data-1        make damaged pages anew from a backup, and check

Verified is what files say (every checksum) and what that means: that every record can be read, that rows that change or go
are there and new ones are not, and that unique indexes are. All rows of an instance are in memory meanwhile. Of a deployment
of several instances, each is verified, and said what becomes of transactions in doubt at the next opening; of the directory of one
of them alone, whose directories say that. Of rows in pages (--engine paged), each page is verified, the log, and all trees as the next opening has them:
order, fences, that no page is lost or in two places, and that indexes agree. A damaged page is made anew from a backup if that has it as it
was when it was written last. If another process has the database open, a copy of it is verified, in the directory for temporary files
(TMPDIR), and said as of when; a deployment of several instances must not be open. Exit status: 0 whole, 1 damaged or no database, 2 bad
input.";

const INSPECT_EXAMPLES: &str = "Example:
  isles inspect data      openings, checkpoint and segments, with their epochs, what is in doubt, and tables

If another process has the database open, a copy of it is shown (TMPDIR says where it lies), and said as of when.";

/// Flags of `isles check`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Directory of a backup from which damaged pages are made anew, of rows in pages (--engine
    /// paged)
    #[arg(long, value_name = "BACKUP")]
    pub repair_from: Option<String>,
}

/// Flags of `isles inspect`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub struct InspectArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
}

/// The deployment of several instances that a directory holds, if it holds one.
fn deployed(path: &Path) -> Result<Option<DataOwners>, Failure> {
    if !path.join(directory::FILE).exists() {
        return Ok(None);
    }
    directory::read::<Hardware>(Hardware::core(), path).map_err(|error| Failure::at(path, &error))
}

/// Verifies a directory: its files, and what they say of rows; of a deployment, those of all
/// instances.
///
/// # Errors
/// [`Failure::Failed`] with the first damage or contradiction.
pub fn check(arguments: &CheckArguments) -> Result<String, Failure> {
    let path = Path::new(&arguments.path);
    if let Some(backup) = &arguments.repair_from {
        let repaired = directory_of_pages::repair(path, Path::new(backup))?;
        let checked = check(&CheckArguments { repair_from: None, ..arguments.clone() })?;
        return Ok(repaired + &checked);
    }
    let Some(DataOwners { instances, parts }) = deployed(path)? else {
        let readable = Readable::of(path)?;
        let checked = check_one(readable.path()).map(|(text, Undecided { in_doubt, .. })| {
            text + &unknown_ends(in_doubt.iter().map(|(_, coordinator)| *coordinator))
        });
        return readable.report(checked);
    };
    let mut text = format!("{}: {instances} instances, {} parts of data\n", arguments.path, parts.len());
    let mut all = Vec::with_capacity(instances);
    for number in 0..instances {
        let (its, undecided) = check_one(&directory::instance(path, number))?;
        text += &its;
        all.push(undecided);
    }
    text += &ends(&all)?;
    Ok(text)
}

/// The ends of the parts in doubt of instances that are opened together.
fn ends(all: &[Undecided]) -> Result<String, Failure> {
    let ends = harness::doubt::ends(all, Faults::NONE).map_err(Failure::of)?;
    let committed = ends.iter().flatten().filter(|commits| **commits).count();
    Ok(match ends.iter().flatten().count() {
        0 => "Nothing is in doubt.\n".to_owned(),
        all => format!(
            "In doubt: the next opening commits {committed} parts, because their coordinators have decided so, and rolls back {}.\n",
            all - committed
        ),
    })
}

/// The sentence on an instance's parts in doubt whose ends only the directories of these
/// coordinators say.
fn unknown_ends(coordinators: impl Iterator<Item = u16>) -> String {
    let deciding: BTreeSet<u16> = coordinators.collect();
    if deciding.is_empty() {
        return String::new();
    }
    let deciding: Vec<String> = deciding.iter().map(u16::to_string).collect();
    let deciding = deciding.join(", ");
    format!(
        "How parts in doubt end is not known here: it is in the directories of their coordinators (instances {deciding}).\n"
    )
}

/// Verifies the directory of one instance.
fn check_one(path: &Path) -> Result<(String, Undecided), Failure> {
    if pages::holds_pages(path) {
        let (text, in_doubt, decisions) = directory_of_pages::check(path)?;
        return Ok((text + &undecided(&in_doubt, &decisions), Undecided::new(in_doubt.iter(), &decisions)));
    }
    let progress = Progress::of_directory(path);
    progress.reading();
    let mut begun = false;
    let checked = content::check::<Hardware>(Hardware::core(), path, &mut |done, total| {
        if !std::mem::replace(&mut begun, true) {
            progress.judging(total);
        }
        progress.judged(done);
    });
    progress.done();
    let Checked { survey, rows, in_doubt, decisions, .. } =
        checked.map_err(|error| Failure::at(path, &error))?;
    let blocks: u64 = survey.segments.iter().map(|segment| segment.blocks).sum();
    let mut text = format!(
        "{}: ok, {} files: {} rows in the checkpoint, {} records in {} blocks of the log\n",
        path.display(),
        survey.files().len(),
        thousands(survey.rows()),
        thousands(survey.records()),
        thousands(blocks),
    );
    for (table, rows) in &rows {
        text += &format!("  {}: {} rows\n", one_line(table), thousands(*rows));
    }
    text += &undecided(&in_doubt, &decisions);
    if !survey.closed {
        text += "It was not closed: what was written last may be torn, which is not told from damage.\n";
    }
    Ok((text, Undecided::new(in_doubt.iter(), &decisions)))
}

/// Lines of one kind that are shown; of more only the number.
const LINES_MAX: usize = 5;

/// The first lines, and how many more there are.
fn shortened(lines: impl ExactSizeIterator<Item = String>) -> String {
    let more = lines.len().saturating_sub(LINES_MAX);
    let shown: String = lines.take(LINES_MAX).collect();
    if more == 0 { shown } else { format!("{shown}  ... and {more} more\n") }
}

/// Parts in doubt and decisions, a line each.
fn undecided(in_doubt: &[PartOf], decisions: &[Decision]) -> String {
    let parts = in_doubt.iter().map(|PartOf { global, coordinator }| {
        format!("  in doubt: a part of transaction {global}, which instance {coordinator} decides\n")
    });
    let decided = decisions.iter().map(|Decision { global, participants }| {
        format!(
            "  decided to commit: transaction {global}, of which instances {participants:?} have to hear\n"
        )
    });
    shortened(parts) + &shortened(decided)
}

/// Shows what a directory holds; of a deployment, what each instance holds.
///
/// # Errors
/// [`Failure::Failed`] with the first damage.
pub fn inspect(arguments: &InspectArguments) -> Result<String, Failure> {
    let path = Path::new(&arguments.path);
    let Some(DataOwners { instances, parts }) = deployed(path)? else {
        let readable = Readable::of(path)?;
        return readable.report(inspect_one(readable.path()).map(|(text, alone)| text + &alone));
    };
    let parts: Vec<String> = parts.iter().map(u16::to_string).collect();
    let mut text = format!("{}: {instances} instances\n", arguments.path);
    text += &format!("  instance of each part of the data: {}\n", parts.join(" "));
    for number in 0..instances {
        text += "\n";
        text += &inspect_one(&directory::instance(path, number))?.0;
    }
    Ok(text)
}

/// The content of a directory, and a warning of what the directory alone cannot say.
fn inspect_one(path: &Path) -> Result<(String, String), Failure> {
    if pages::holds_pages(path) {
        let (text, in_doubt, decisions) = directory_of_pages::inspect(path)?;
        let unknown = unknown_ends(in_doubt.iter().map(|part| part.coordinator));
        return Ok((text + &undecided(&in_doubt, &decisions), unknown));
    }
    let progress = Progress::of_directory(path);
    progress.reading();
    let outline = content::outline::<Hardware>(Hardware::core(), path);
    progress.done();
    let Outline { survey, in_doubt, decisions } = outline.map_err(|error| Failure::at(path, &error))?;
    let mut text = format!("{}: last epoch {}\n\nopenings\n", path.display(), survey.last_epoch);
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
    if !in_doubt.is_empty() || !decisions.is_empty() {
        text += "\ntransactions over several databases\n";
        text += &undecided(&in_doubt, &decisions);
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
    match Description::decode(&survey.extra) {
        Err(error) => text += &format!("  {error}\n"),
        Ok(description) => description.tables.iter().for_each(|table| text += &in_words(table)),
    }
    let unknown = unknown_ends(in_doubt.iter().map(|part| part.coordinator));
    Ok((text, if unknown.is_empty() { unknown } else { format!("\n{unknown}") }))
}

/// A table in some lines.
fn in_words(table: &DirectoryTable) -> String {
    let DirectoryTable { id, dropped, continued_by, table } = table;
    let (name, row_bytes) = (table.name(), table.row_bytes());
    if let (Some(epoch), Some(now)) = (dropped, continued_by) {
        return format!(
            "  {id:>4}  {}: table {now} since epoch {epoch}, with other columns\n",
            one_line(name)
        );
    }
    if let Some(epoch) = dropped {
        return format!("  {id:>4}  {}: dropped before epoch {epoch}\n", one_line(name));
    }
    let column = |column: &ColumnDescription| {
        let null = if column.nullable { " or null" } else { "" };
        format!("{} {}{null}", column.name, column.kind)
    };
    let columns: Vec<_> = table.columns().iter().map(column).collect();
    let others = 1..table.indexes().len();
    let indexes: String = others.map(|index| format!("; {}", table.format_index(index))).collect();
    let (columns, key) = (columns.join(", "), table.format_key(0));
    format!(
        "  {id:>4}  {}: rows of {row_bytes} bytes: {}\n        key ({}){}\n",
        one_line(name),
        one_line(&columns),
        one_line(&key),
        one_line(&indexes),
    )
}
