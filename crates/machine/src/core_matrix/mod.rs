//! Machines from matrices of measured times of a line between hardware threads, as
//! core-to-core-latency and similar tools print them: comma-separated, one row a hardware thread,
//! usually only the half below the diagonal.
//!
//! The times determine the structure (`cluster`): hardware threads form nested groups between which
//! a line takes at least half as long again as inside. The time inside a group and the number of
//! levels determine its kind (`structure`).
//!
//! Limits: times do not show resources that are shared without being faster (an L3 for each core,
//! POWER7; clusters of four cores, Kunpeng 920), and one level of groups may be sockets or L3
//! domains of one socket. There the name of the file decides if it names a known processor
//! (`Hints`); otherwise they are sockets. Two levels outside of the cores are L3 domains and
//! sockets, or L3 domains and dies of one socket (`are_dies`). Sizes of caches and memories are
//! unknown.

mod cluster;

use cluster::Groups;

use crate::cpu_set::CpuSet;
use crate::description::Measurements;
use crate::raw::{RawGroup, RawMachine, RawNode};
use crate::topology::{Level, Topology};

/// Largest number of rows of a matrix.
const ROWS_MAX: usize = 2048;
/// Two threads of one core pass a line within its L1, faster than any two cores do.
const SIBLING_NS_MAX: f64 = 16.0;
/// Largest number of threads of a core.
const SIBLINGS_MAX: usize = 8;

/// Reasons for which a file is no matrix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The matrix has too few or too many rows.
    #[error("{0} rows: expected a square matrix of 2 to 2048 rows of times in ns, separated by commas")]
    Rows(usize),
    /// A row with too many or too few entries.
    #[error("row {row}: {found} entries: expected {expected}, as many as there are rows")]
    Width {
        /// Number of the row, from 1.
        row: usize,
        /// Number of its entries.
        found: usize,
        /// Number of rows.
        expected: usize,
    },
    /// An entry that is no valid time.
    #[error("row {row}, column {column}: `{found}`: expected a positive number of ns")]
    Entry {
        /// Number of the row, from 1.
        row: usize,
        /// Number of the column, from 1.
        column: usize,
        /// Text of the entry.
        found: String,
    },
    /// Two threads without a time between them.
    #[error(
        "row {row}, column {column}: missing, and so is its mirror image: expected a positive number of ns"
    )]
    Missing {
        /// Number of the row, from 1.
        row: usize,
        /// Number of the column, from 1.
        column: usize,
    },
}

/// A machine that was derived from a matrix.
#[derive(Clone, Debug)]
pub(crate) struct MatrixMachine {
    pub(crate) topology: Topology,
    pub(crate) measured: Measurements,
}

/// Reads a matrix; `name` is that of the file.
pub(crate) fn read(text: &str, name: &str) -> Result<MatrixMachine, MatrixError> {
    let times = parse(text)?;
    let topology = structure(levels(&times), &Hints::of(name), times.len());
    let order = topology.hardware_threads();
    let row = |from: u32| order.iter().map(|to| Some(times[from as usize][to.0 as usize])).collect();
    let measured = Measurements {
        name: name.to_owned(),
        source: format!("core-to-core latencies of {name}"),
        clock_ghz: clock_ghz(name),
        core_to_core_ns: Some(order.iter().map(|from| row(from.0)).collect()),
        ..Measurements::default()
    };
    Ok(MatrixMachine { topology, measured })
}

/// Returns the whole symmetric matrix, with zeros on the diagonal.
fn parse(text: &str) -> Result<Vec<Vec<f64>>, MatrixError> {
    let rows: Vec<Vec<&str>> = text.trim_end().lines().map(|line| line.split(',').collect()).collect();
    let size = rows.len();
    if !(2..=ROWS_MAX).contains(&size) {
        return Err(MatrixError::Rows(size));
    }
    let mut known = vec![vec![None; size]; size];
    for (index, row) in rows.iter().enumerate() {
        if row.len() != size {
            return Err(MatrixError::Width { row: index + 1, found: row.len(), expected: size });
        }
        for (column, entry) in row.iter().map(|entry| entry.trim()).enumerate() {
            if index == column || entry.is_empty() {
                continue;
            }
            let time = entry.parse::<f64>().ok().filter(|time| time.is_finite() && *time > 0.0);
            let found = || entry.chars().take(40).collect();
            let wrong = || MatrixError::Entry { row: index + 1, column: column + 1, found: found() };
            known[index][column] = Some(time.ok_or_else(wrong)?);
        }
    }
    let mut times = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..row {
            let time = match (known[row][column], known[column][row]) {
                (Some(there), Some(back)) => (there + back) / 2.0,
                (there, back) => {
                    let missing = MatrixError::Missing { row: row + 1, column: column + 1 };
                    there.or(back).ok_or(missing)?
                }
            };
            times[row][column] = time;
            times[column][row] = time;
        }
    }
    Ok(times)
}

/// Facts about a machine that follow from the name of a file and not from its times.
#[derive(Clone, Copy, Debug, Default)]
struct Hints {
    /// Number of sockets.
    sockets: Option<usize>,
    /// The cores of a socket are divided into complexes, each with its own L3.
    complexes: bool,
}

impl Hints {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let named = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let sockets = match () {
            () if named(&["dual"]) => Some(2),
            () if named(&["quad"]) => Some(4),
            // One socket of two dies, each with its own L3 and memory controllers.
            () if named(&["kunpeng-920-6426", "graviton"]) => Some(1),
            () => None,
        };
        Self { sockets, complexes: named(&["epyc", "ryzen", "threadripper"]) }
    }
}

/// True if groups are the threads of one core each.
fn are_cores(groups: &Groups) -> bool {
    groups.inside_ns < SIBLING_NS_MAX && groups.largest() <= SIBLINGS_MAX
}

/// True if halves are the dies of one socket and not sockets: each has two complexes of at most
/// four cores (AMD's Zen and Zen 2), where complexes of one die are no nearer to each other than to
/// those of the other. Sockets of which one passes lines through the other look alike, but have
/// more complexes.
fn are_dies(inner: &Groups, halves: &Groups, cores: &[CpuSet]) -> bool {
    const COMPLEXES: usize = 2;
    const CORES_MAX: usize = 4;
    let threads = cores.first().map_or(1, CpuSet::len);
    halves.scattered
        && inner.members.len() == COMPLEXES * halves.members.len()
        && inner.largest() <= CORES_MAX * threads
}

/// Levels of groups from small to large: cores, if they have several threads, and the levels
/// outside of them.
struct Levels {
    cores: Option<Groups>,
    outer: Vec<Groups>,
}

fn levels(times: &[Vec<f64>]) -> Levels {
    let mut outer = cluster::levels(times);
    let found = outer.first().is_some_and(are_cores).then(|| outer.remove(0));
    Levels { cores: found.or_else(|| cluster::pairs(times).filter(are_cores)), outer }
}

/// Decides the kind of the groups of each level.
fn structure(levels: Levels, hints: &Hints, threads: usize) -> Topology {
    let everything = vec![(0..threads as u32).collect::<CpuSet>()];
    let sets = |groups: &Groups| -> Vec<CpuSet> {
        groups.members.iter().map(|group| group.iter().map(|&thread| thread as u32).collect()).collect()
    };
    let cores = match &levels.cores {
        Some(cores) => sets(cores),
        None => (0..threads as u32).map(CpuSet::single).collect(),
    };
    let mut dies = Vec::new();
    let (domains, packages, nodes) = match levels.outer.as_slice() {
        [] => (everything.clone(), everything.clone(), everything),
        [inner, outermost] if hints.sockets.is_none() && are_dies(inner, outermost, &cores) => {
            dies = sets(outermost);
            (sets(inner), everything.clone(), everything)
        }
        // Complexes of one socket, or dies of one that have their own memory, or sockets.
        [only] if hints.complexes && hints.sockets != Some(only.members.len()) => {
            (sets(only), everything.clone(), everything)
        }
        [only] if hints.sockets == Some(1) => (sets(only), everything, sets(only)),
        [only] => (sets(only), sets(only), sets(only)),
        [inner, .., outermost] if hints.sockets == Some(1) => (sets(inner), everything, sets(outermost)),
        [inner, .., outermost] => (sets(inner), sets(outermost), sets(outermost)),
    };
    let mut raw = RawMachine { online: (0..threads as u32).collect(), ..RawMachine::default() };
    raw.allowed = raw.online.clone();
    for core in cores {
        let levels = [Level::Core, Level::L1Data, Level::L2];
        raw.groups.extend(levels.map(|level| RawGroup::plain(level, core.clone(), None)));
    }
    raw.groups.extend(domains.into_iter().map(|domain| RawGroup::plain(Level::L3, domain, None)));
    raw.groups.extend(dies.into_iter().map(|die| RawGroup::plain(Level::Die, die, None)));
    for (number, package) in packages.into_iter().enumerate() {
        raw.groups.push(RawGroup::plain(Level::Package, package, Some(number as u32)));
    }
    for (number, processors) in nodes.into_iter().enumerate() {
        raw.nodes.push(RawNode::plain(number as u32, processors, 0));
    }
    Topology::assemble(&raw).expect("a matrix has at least two threads, all of them allowed")
}

/// The nominal clock, if the name contains one such as `2.60ghz`.
pub(crate) fn clock_ghz(name: &str) -> Option<f64> {
    let name = name.to_ascii_lowercase();
    let before = &name[..name.find("ghz")?];
    let number = before.trim_end_matches(['-', ' ', '_']);
    let start =
        number.rfind(|letter: char| !letter.is_ascii_digit() && letter != '.').map_or(0, |end| end + 1);
    number[start..].parse().ok().filter(|clock| (0.1..10.0).contains(clock))
}

#[cfg(test)]
mod tests {
    use super::{clock_ghz, parse};

    #[test]
    fn clocks_are_found_in_names() {
        assert_eq!(clock_ghz("intel-xeon-platinum-8275cl-cpu-3.00ghz"), Some(3.0));
        assert_eq!(clock_ghz("dual-ibm-power7-8-cores-3.3-ghz-2010-q1"), Some(3.3));
        assert_eq!(clock_ghz("amd-epyc-7773x"), None);
        assert_eq!(clock_ghz("ghz"), None);
    }

    #[test]
    fn either_half_or_both_will_do() {
        let whole = vec![vec![0.0, 10.0, 30.0], vec![10.0, 0.0, 20.0], vec![30.0, 20.0, 0.0]];
        assert_eq!(parse(",,\n10,,\n30,20,\n").as_ref(), Ok(&whole));
        assert_eq!(parse("0,10,30\n,0,20\n,,0").as_ref(), Ok(&whole));
        assert_eq!(parse("-,9,30\n11,-,20\n30,20,-\n").as_ref(), Ok(&whole));
    }

    #[test]
    fn faults_name_row_and_column() {
        let cases = [
            ("", "0 rows: expected a square matrix of 2 to 2048 rows"),
            (",,\n10,,\n", "row 1: 3 entries: expected 2"),
            (",\nx,\n", "row 2, column 1: `x`: expected a positive number"),
            (",\n0,\n", "row 2, column 1: `0`: expected"),
            (",\n-5,\n", "row 2, column 1: `-5`: expected"),
            (",\nnan,\n", "row 2, column 1: `nan`: expected"),
            (",\n,\n", "row 2, column 1: missing"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(expected).to_string();
            assert!(error.starts_with(expected) && !error.contains('\n'), "{error}\n{expected}");
        }
    }
}
