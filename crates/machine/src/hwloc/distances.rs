//! Distances between memory nodes, which versions of hwloc write in two formats.

use roxmltree::Node as Element;

use super::attributes::attribute_number;
use crate::raw::RawNode;

/// Latencies between memory nodes as in the file.
pub(super) struct Distances {
    /// The operating system's numbers of the nodes, in the order of rows and columns.
    indexes: Vec<u32>,
    /// Values row by row.
    values: Vec<f64>,
}

/// The matrix of a file whose memory nodes, in its order, have the numbers `in_file`; `None` if
/// there is none.
pub(super) fn distances(
    root: &Element<'_, '_>,
    machine: &Element<'_, '_>,
    in_file: &[u32],
) -> Option<Distances> {
    let second =
        root.children().filter(|element| element.has_tag_name("distances2")).find_map(second_version);
    let first = || {
        machine.descendants().filter(|element| element.has_tag_name("distances")).find_map(|element| {
            first_version(element, in_file.len()).map(|values| (in_file.to_vec(), values))
        })
    };
    let (indexes, values) = second.or_else(first)?;
    Some(Distances { indexes, values })
}

impl Distances {
    /// Distance from one node to another in tenths of its distance to itself; `None` if either is
    /// not in the matrix.
    pub(super) fn relative(&self, from: u32, to: u32) -> Option<f64> {
        let position = |number: u32| self.indexes.iter().position(|index| *index == number);
        let (from, to) = (position(from)?, position(to)?);
        let value = |to: usize| self.values[from * self.indexes.len() + to];
        Some((10.0 * value(to) / value(from)).round())
    }

    /// The matrix over `nodes`; `None` if it is incomplete or inconsistent.
    pub(super) fn over(&self, nodes: &[RawNode]) -> Option<Vec<Vec<u32>>> {
        let row = |from: &RawNode| -> Option<Vec<u32>> {
            let to = nodes.iter().map(|to| self.relative(from.os_index, to.os_index));
            let row: Vec<f64> = to.collect::<Option<_>>()?;
            // A memory farther from itself than from others, or at distance zero, is a firmware
            // error.
            let sane = row.iter().all(|distance| (10.0..=1e6).contains(distance));
            sane.then(|| row.into_iter().map(|distance| distance as u32).collect())
        };
        nodes.iter().map(row).collect()
    }
}

/// `distances2` between memory nodes: the operating system's numbers, and latencies row by row.
fn second_version(element: Element<'_, '_>) -> Option<(Vec<u32>, Vec<f64>)> {
    const MEANS_LATENCY: u64 = 4;
    let kind = attribute_number(&element, "kind").unwrap_or(0);
    let by_system = element.attribute("indexing").is_none_or(|indexing| indexing == "os");
    if element.attribute("type") != Some("NUMANode") || kind & MEANS_LATENCY == 0 || !by_system {
        return None;
    }
    let words = |name: &str| -> Vec<String> {
        let parts = element.children().filter(|child| child.has_tag_name(name));
        let words = parts.filter_map(|child| child.text()).flat_map(str::split_whitespace);
        words.map(str::to_owned).collect()
    };
    let indexes: Vec<u32> = words("indexes").iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let values: Vec<f64> = words("u64values").iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (values.len() == indexes.len() * indexes.len()).then_some((indexes, values))
}

/// `distances` of version 1, over as many objects as there are memory nodes.
fn first_version(element: Element<'_, '_>, nodes: usize) -> Option<Vec<f64>> {
    let objects = usize::try_from(attribute_number(&element, "nbobjs")?).ok()?;
    let latencies = element.children().filter(|child| child.has_tag_name("latency"));
    let values: Vec<f64> =
        latencies.map(|child| child.attribute("value")?.parse().ok()).collect::<Option<_>>()?;
    (objects == nodes && nodes > 0 && values.len() == nodes * nodes).then_some(values)
}
