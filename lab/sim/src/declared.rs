//! Lines that a core has declared, and accesses that no declaration covers.

use std::collections::BTreeMap;

use crate::line::LineNumber;

/// A declaration covers accesses until its core has declared as many other lines: about the
/// capacity of an L1.
const DECLARED_LINES: u64 = 512;

/// An instruction that accessed shared memory without a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeclaredAccess {
    /// Name of the region; `None` if the region was freed.
    pub region: Option<&'static str>,
    /// Offset of the first such access in its region, in bytes.
    pub offset: u64,
    /// True if the instruction writes.
    pub writes: bool,
    /// Number of such accesses by the instruction.
    pub count: u64,
    /// Functions on the stack at the first such access, innermost first.
    pub calls: Vec<String>,
}

impl std::fmt::Display for UndeclaredAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        let region = self.region.unwrap_or("returned memory");
        write!(f, "{verb} {region}+{} ({} times) in {}", self.offset, self.count, self.calls.join(" < "))
    }
}

/// Lines that a core has declared since its transaction began.
#[derive(Default)]
pub(crate) struct DeclaredLines {
    /// Last declaration of each line, to read and to write. The moments are counts of declarations,
    /// from 1.
    lines: BTreeMap<LineNumber, [u64; 2]>,
    declarations: u64,
}

impl DeclaredLines {
    pub(crate) fn declare(&mut self, line: LineNumber, writes: bool) {
        self.declarations += 1;
        let [read_at, written_at] = self.lines.entry(line).or_default();
        *read_at = self.declarations;
        if writes {
            *written_at = self.declarations;
        }
        if self.lines.len() as u64 > 2 * DECLARED_LINES {
            let now = self.declarations;
            self.lines.retain(|_, at| at[0] + DECLARED_LINES > now);
        }
    }

    pub(super) fn covers(&self, line: LineNumber, writes: bool) -> bool {
        let at = self.lines.get(&line).map_or(0, |at| at[usize::from(writes)]);
        at > 0 && at + DECLARED_LINES > self.declarations
    }

    /// Forgets all declarations: a transaction begins or ends.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_covers_its_kind_of_access_until_others_replace_it() {
        let mut declared = DeclaredLines::default();
        declared.declare(7, false);
        declared.declare(8, true);
        let covered = |declared: &DeclaredLines| {
            [(7, false), (7, true), (8, false), (8, true), (9, false)]
                .map(|(line, writes)| declared.covers(line, writes))
        };
        assert_eq!(covered(&declared), [true, false, true, true, false]);
        (100..100 + DECLARED_LINES as LineNumber - 1).for_each(|line| declared.declare(line, false));
        assert_eq!(covered(&declared), [false, false, true, true, false]);
        declared.clear();
        assert_eq!(covered(&declared), [false; 5]);
        (0..100_000).for_each(|line| declared.declare(line, true));
        assert!(declared.lines.len() as u64 <= 2 * DECLARED_LINES && declared.covers(99_999, true));
    }
}
