//! Whether the trees of a table are whole, and agree.

use std::collections::BTreeSet;

use platform::files::Files;

use crate::examine::ExaminedTree;
use crate::options::PagedError;
use crate::overflow::{Division, Pieces};
use crate::pool::Worker;
use crate::tree::Tree;

/// Checks the trees of a table: those of its indexes, and that of pieces of long rows, if there is one. Every page is in one place, the indexes
/// have as many entries, and the pieces that rows have are those that are there. What there is; what is wrong goes to `wrong`. `seen` has the
/// pages of other tables.
///
/// # Errors
/// A page cannot be read.
pub(crate) fn check_trees<P: Files>(
    worker: &mut Worker<'_, P>,
    seen: &mut BTreeSet<u64>,
    (name, (trees, overflow), division): (&str, (&[Tree], Option<Tree>), &Division),
    wrong: &mut Vec<String>,
) -> Result<Vec<ExaminedTree>, PagedError> {
    let (mut of_rows, mut there) = (Pieces::default(), Pieces::default());
    let mut found = Vec::new();
    for (number, tree) in trees.iter().copied().chain(overflow).enumerate() {
        let mut faults = Vec::new();
        let mut visit = |key: &[u64], slot: crate::page::Slot| match number {
            0 => of_rows.add_row(division, key, slot.tail_bytes()),
            _ if number == trees.len() => there.add(key, slot.words()),
            _ => {}
        };
        let (pages, entries) = tree.check(worker, seen, (&mut faults, &mut visit))?;
        let said = |fault: crate::tree::Fault| {
            format!("{name}, tree {}, page {}: {}", tree.number, fault.page, fault.what)
        };
        wrong.extend(faults.into_iter().map(said));
        found.push(ExaminedTree { pages, entries });
    }
    let entries = || found[..trees.len()].iter().map(|tree| tree.entries);
    if entries().any(|count| count != found[0].entries) {
        wrong.push(format!("{name}: its indexes lead to {:?} rows", entries().collect::<Vec<_>>()));
    }
    if of_rows != there {
        let what = match of_rows.count == there.count {
            true => "others".to_owned(),
            false => there.count.to_string(),
        };
        wrong.push(format!(
            "{name}: its rows have {} pieces in overflow pages, where {what} are",
            of_rows.count
        ));
    }
    Ok(found)
}
