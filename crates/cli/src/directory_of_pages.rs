//! `isles check` and `isles inspect` of directories with rows in pages.

use std::path::Path;

use engine::{Decision, PartOf};
use paged::Examined;
use platform::Hardware;

use crate::bad_input::one_line;
use crate::errors::Failure;
use crate::progress::Progress;
use crate::report::numbers::thousands;

/// Faults that are shown.
const SHOWN: usize = 5;

fn examine(path: &Path) -> Result<Examined, Failure> {
    let progress = Progress::of_directory(path);
    progress.reading();
    let examined = paged::examine::<Hardware>(Hardware::core(), path);
    progress.done();
    examined.map_err(|error| Failure::at(path, &error))
}

/// What is said of a directory, its parts in doubt, and decisions that are not forgotten.
pub(crate) type Said = (String, Vec<PartOf>, Vec<Decision>);

/// Verifies a directory.
///
/// # Errors
/// [`Failure::Failed`] with what is wrong.
pub(crate) fn check(path: &Path) -> Result<Said, Failure> {
    let examined = examine(path)?;
    if !examined.wrong.is_empty() {
        let shown = examined.wrong.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
        let more = examined.wrong.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(Failure::at(path, &format!("{shown}{more}: restore a backup")));
    }
    let mut text = format!("{}: ok, {} pages\n", path.display(), thousands(examined.pages.0));
    for (table, trees) in &examined.tables {
        if let Some(first) = trees.first() {
            text += &format!("  {}: {} rows\n", one_line(table.name()), thousands(first.entries));
        }
    }
    text += &left(&examined);
    Ok((text, examined.in_doubt, examined.decisions))
}

/// What the next opening has to do, if anything.
fn left(examined: &Examined) -> String {
    if examined.records == 0 {
        return String::new();
    }
    format!(
        "It was not closed: the next opening repeats {} records of the log ({} bytes) and takes back {} transactions; trees \
         are verified when it is closed again.\n",
        thousands(examined.records),
        thousands(examined.log_bytes),
        thousands(examined.unfinished)
    )
}

/// Shows what a directory holds.
///
/// # Errors
/// [`Failure::Failed`] if it cannot be read.
pub(crate) fn inspect(path: &Path) -> Result<Said, Failure> {
    let examined = examine(path)?;
    let (in_use, free) = examined.pages;
    let mut text = format!(
        "{}: rows in pages of {} bytes: {} in use, {} free; opening {}\n\ntables\n",
        path.display(),
        thousands(examined.page_bytes as u64),
        thousands(in_use),
        thousands(free),
        examined.generation,
    );
    for (table, trees) in &examined.tables {
        text += &format!("  {}\n", one_line(table.name()));
        for (index, tree) in table.indexes().iter().zip(trees) {
            let (pages, entries) = (thousands(tree.pages), thousands(tree.entries));
            let columns = table.names(&index.columns);
            text +=
                &format!("    {} ({columns}): {entries} entries in {pages} pages\n", one_line(&index.name));
        }
    }
    text += &left(&examined);
    for wrong in examined.wrong.iter().take(SHOWN) {
        text += &format!("wrong: {wrong}\n");
    }
    Ok((text, examined.in_doubt, examined.decisions))
}
