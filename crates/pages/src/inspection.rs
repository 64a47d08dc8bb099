//! Checks that the trees of a table are whole, and agree.

use std::collections::BTreeSet;

use platform::files::Files;

use crate::error::PagedError;
use crate::pool::PoolWorker;
use crate::rows::overflow::{Division, Pieces};
use crate::tree::{ExaminedTree, Tree};

/// The trees of a table: those of its indexes, and that of pieces of long rows.
pub(crate) struct TableTrees {
    pub indexes: Vec<Tree>,
    pub overflow: Option<Tree>,
    pub division: Division,
}

impl TableTrees {
    /// All trees in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = Tree> {
        self.indexes.iter().copied().chain(self.overflow)
    }
}

/// Checks the trees of a table: those of its indexes, and that of pieces of long rows, if there is
/// one. Every page is in one place, the indexes have as many entries, and the pieces that rows have
/// are those that are there. What there is; what is wrong goes to `wrong`. `seen` has the pages of
/// other tables.
///
/// # Errors
/// A page cannot be read.
pub(crate) fn check_trees<P: Files>(
    worker: &mut PoolWorker<'_, P>,
    seen: &mut BTreeSet<u64>,
    name: &str,
    trees: &TableTrees,
    wrong: &mut Vec<String>,
) -> Result<Vec<ExaminedTree>, PagedError> {
    let (mut of_rows, mut there) = (Pieces::default(), Pieces::default());
    let mut found = Vec::new();
    let indexes = trees.indexes.len();
    for (number, tree) in trees.all().enumerate() {
        let mut faults = Vec::new();
        let mut visit = |key: &[u64], slot: crate::page::Slot| match number {
            0 => of_rows.add_row(&trees.division, key, slot.tail_bytes()),
            _ if number == indexes => there.add(key, slot.record_words()),
            _ => {}
        };
        let examined = tree.check(worker, seen, &mut faults, &mut visit)?;
        let text = |fault: crate::tree::TreeFault| {
            format!("{name}, tree {}, page {}: {}", tree.number, fault.page, fault.what)
        };
        wrong.extend(faults.into_iter().map(text));
        found.push(examined);
    }
    let entries = || found[..indexes].iter().map(|tree| tree.entries);
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
