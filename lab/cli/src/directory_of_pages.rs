//! `isles check` and `isles inspect` of directories with rows in pages.

use std::path::Path;

use boundary::{Decision, PartOf};
use pages::{Examined, Repaired};
use platform::Hardware;

use crate::bad_input::one_line;
use crate::errors::Failure;
use crate::numbers::thousands;
use crate::progress::Progress;

/// Faults that are shown.
const SHOWN: usize = 5;

fn examine(path: &Path) -> Result<Examined, Failure> {
    let progress = Progress::of_directory(path);
    progress.reading();
    let examined = pages::examine::<Hardware>(Hardware::core(), path);
    progress.done();
    examined.map_err(|error| Failure::at(path, &error))
}

/// The text on a directory, its parts in doubt, and decisions that are not forgotten.
pub(crate) type DirectoryReport = (String, Vec<PartOf>, Vec<Decision>);

/// Verifies a directory.
///
/// # Errors
/// [`Failure::Failed`] with what is wrong.
pub(crate) fn check(path: &Path) -> Result<DirectoryReport, Failure> {
    let examined = examine(path)?;
    if !examined.wrong.is_empty() {
        let shown = examined.wrong.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
        let more = examined.wrong.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let what = match examined.damaged.is_empty() {
            true => "restore a backup",
            false => "restore a backup, or give one to --repair-from",
        };
        return Err(Failure::at(path, &format!("{shown}{more}: {what}")));
    }
    let mut text = format!("{}: ok, {} pages\n", path.display(), thousands(examined.pages_in_use));
    for (table, trees) in &examined.tables {
        if let Some(first) = trees.first() {
            text += &format!("  {}: {} rows\n", one_line(table.name()), thousands(first.entries));
        }
    }
    text += &left(&examined);
    Ok((text, examined.in_doubt, examined.decisions))
}

/// Makes damaged pages anew from a backup; what was made.
///
/// # Errors
/// [`Failure::Failed`] if one of the directories cannot be read, has no rows in pages, or is no
/// backup of the other; or if pages are left.
pub(crate) fn repair(path: &Path, backup: &Path) -> Result<String, Failure> {
    for place in [path, backup] {
        if !pages::holds_pages(place) {
            let what = "no rows in pages, of which single ones are repaired: isles restore makes a database of a backup";
            return Err(Failure::at(place, &what));
        }
    }
    let repaired = pages::repair::<Hardware>(Hardware::core(), path, backup);
    let Repaired { pages, left } = repaired.map_err(|error| Failure::at(path, &error))?;
    if let Some(first) = left.first() {
        let what = format!(
            "{} pages are made anew, and {} are not in the backup as they were written last, page {first} among them: restore a \
             backup",
            pages.len(),
            left.len(),
        );
        return Err(Failure::at(path, &what));
    }
    Ok(match &pages[..] {
        [] => format!("{}: no page has to be made anew\n", path.display()),
        pages => {
            let shown: Vec<String> = pages.iter().take(SHOWN).map(u64::to_string).collect();
            let more = if pages.len() > SHOWN { ", ..." } else { "" };
            let (count, shown) = (thousands(pages.len() as u64), shown.join(", "));
            format!("{}: {count} pages made anew from {}: {shown}{more}\n", path.display(), backup.display())
        }
    })
}

/// The work of the next opening, if there is any.
fn left(examined: &Examined) -> String {
    if examined.records == 0 {
        return String::new();
    }
    format!(
        "It was not closed: the next opening repeats {} records of the log ({} bytes) and takes back {} transactions.\n",
        thousands(examined.records),
        thousands(examined.log_bytes),
        thousands(examined.unfinished)
    )
}

/// Shows what a directory holds.
///
/// # Errors
/// [`Failure::Failed`] if it cannot be read.
pub(crate) fn inspect(path: &Path) -> Result<DirectoryReport, Failure> {
    let examined = examine(path)?;
    let (in_use, free) = (examined.pages_in_use, examined.pages_free);
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
            let bytes = thousands((tree.pages * examined.page_bytes as u64).div_ceil(tree.entries.max(1)));
            let (name, columns) = (one_line(&index.name), table.names(&index.columns));
            text +=
                &format!("    {name} ({columns}): {entries} entries in {pages} pages, {bytes} bytes each\n");
        }
        if let Some(long) = trees.get(table.indexes().len()) {
            let (pages, pieces) = (thousands(long.pages), thousands(long.entries));
            text += &format!("    long rows: {pieces} pieces in {pages} pages\n");
        }
    }
    text += &left(&examined);
    for wrong in examined.wrong.iter().take(SHOWN) {
        text += &format!("wrong: {wrong}\n");
    }
    Ok((text, examined.in_doubt, examined.decisions))
}
