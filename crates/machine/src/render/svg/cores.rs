//! Heat maps of a described machine: lines between cores, and memory between nodes.

use super::heat_map::HeatMap;
use crate::description::{Access, Description, FactMatrix, LineState};
use crate::topology::{ThreadInfo, Topology};

/// Largest number of readable rows.
const ROWS_MAX: usize = 64;

/// Draws the time that a modified line takes between cores, as SVG.
///
/// Rows are hardware threads in fill order, in which near threads are neighbours. For machines with
/// more than 64 of them rows are cores, L3 domains, nodes or sockets, whatever is the finest with
/// at most 64, and each cell is the mean over all pairs. Values are the measured ones if the
/// description has them, otherwise the costs of the description.
pub fn render_cores_svg(description: &Description) -> String {
    let topology = &description.topology;
    let rows = Rows::of(topology);
    let size = rows.members.len();
    let values = (0..size).map(|row| (0..size).map(|column| rows.mean(description, row, column)).collect());
    let source = match &description.core_to_core {
        Some(measured) => format!("each pair {}: {}", description.confidence, measured.source),
        None => {
            let costs = &description.load.modified;
            format!(
                "by distance: same L3 {} ({}), same node {} ({}), between nodes {}",
                costs.same_domain_ns.confidence,
                costs.same_domain_ns.source,
                costs.same_node_ns.confidence,
                costs.same_node_ns.source,
                confidences(&costs.between_nodes_ns)
            )
        }
    };
    let mut notes =
        vec![format!("Time a modified cache line takes from one to another; {}", rows.what), source];
    if !description.processor.is_empty() {
        notes.insert(0, description.processor.clone());
    }
    let map = HeatMap {
        title: format!("{}: core to core", description.name),
        notes,
        unit: "ns",
        labels: rows.labels.clone(),
        borders: rows.borders(),
        values: values.collect(),
    };
    map.draw()
}

/// Draws the latency of memory between nodes, as SVG.
pub fn render_memory_svg(description: &Description) -> String {
    let nodes = description.topology.nodes();
    let matrix = &description.memory_ns;
    let map = HeatMap {
        title: format!("{}: memory latency", description.name),
        notes: vec![
            "Latency of a load by a core of one node (row) from the memory of another (column)".to_owned(),
            format!("{}: {}", confidences(matrix), matrix.source),
        ],
        unit: "ns",
        labels: nodes.iter().map(|memory| format!("P#{}", memory.node.0)).collect(),
        borders: vec![0.0; nodes.len()],
        values: matrix.values.iter().map(|row| row.iter().copied().map(Some).collect()).collect(),
    };
    map.draw()
}

/// The confidences that occur in a matrix.
fn confidences(matrix: &FactMatrix) -> String {
    let mut found: Vec<_> = matrix.confidence.iter().flatten().copied().collect();
    found.sort_unstable();
    found.dedup();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Rows and columns of the matrix.
struct Rows {
    what: &'static str,
    labels: Vec<String>,
    /// Positions in fill order of the hardware threads of each row.
    members: Vec<Vec<usize>>,
    /// L3 domain and socket of each row.
    places: Vec<(u32, u32)>,
}

impl Rows {
    /// The finest division with at most `ROWS_MAX` rows.
    fn of(topology: &Topology) -> Self {
        type Key = fn(&ThreadInfo) -> u32;
        let divisions: [(&'static str, &str, Key); 4] = [
            ("cores, mean over their hardware threads", "C", |info| info.core),
            ("L3 domains, mean over their cores", "L3 ", |info| info.l3_domain),
            ("memory nodes, mean over their cores", "N", |info| info.node.0),
            ("sockets, mean over their cores", "S", |info| info.package),
        ];
        let threads = topology.threads();
        if threads.len() <= ROWS_MAX {
            let all = threads.iter().enumerate().map(|(position, info)| (info.thread.0, position));
            return Self::divided("hardware threads by the system's numbers", "P#", all, threads);
        }
        let divided = divisions.map(|(what, prefix, key)| {
            let keyed = threads.iter().enumerate().map(|(position, info)| (key(info), position));
            Self::divided(what, prefix, keyed, threads)
        });
        let count = |rows: &Self| rows.members.len();
        let finest = divided.iter().map(count).find(|count| *count <= ROWS_MAX).filter(|count| *count > 1);
        // If a socket is one L3 domain, the usual name is socket.
        if let Some(rows) = divided.into_iter().rev().find(|rows| Some(count(rows)) == finest) {
            return rows;
        }
        // Many cores without groups above them: neighbours in fill order.
        let width = threads.len().div_ceil(ROWS_MAX);
        let keyed = (0..threads.len()).map(|position| ((position / width) as u32, position));
        Self::divided("neighbours in fill order, mean over them", "G", keyed, threads)
    }

    fn divided(
        what: &'static str,
        prefix: &str,
        keyed: impl Iterator<Item = (u32, usize)>,
        threads: &[ThreadInfo],
    ) -> Self {
        let mut rows = Self { what, labels: Vec::new(), members: Vec::new(), places: Vec::new() };
        let mut last = None;
        for (key, position) in keyed {
            if last != Some(key) {
                last = Some(key);
                rows.labels.push(format!("{prefix}{key}"));
                rows.members.push(Vec::new());
                rows.places.push((threads[position].l3_domain, threads[position].package));
            }
            let row = rows.members.len() - 1;
            rows.members[row].push(position);
        }
        rows
    }

    /// Wide borders between sockets, narrow ones between L3 domains, none if every row is one.
    fn borders(&self) -> Vec<f64> {
        let pairs = self.places.windows(2);
        let several = |same: fn(&(u32, u32), &(u32, u32)) -> bool| {
            self.places.windows(2).any(|pair| same(&pair[0], &pair[1]))
        };
        let (domains, sockets) =
            (several(|one, other| one.0 == other.0), several(|one, other| one.1 == other.1));
        let border = |pair: &[(u32, u32)]| match (pair[0].1 != pair[1].1, pair[0].0 != pair[1].0) {
            (true, _) if sockets => 8.0,
            (_, true) if domains => 3.0,
            _ => 0.0,
        };
        std::iter::once(0.0).chain(pairs.map(border)).collect()
    }

    /// Mean over all pairs of different hardware threads; `None` if no pair has a value.
    fn mean(&self, description: &Description, row: usize, column: usize) -> Option<f64> {
        let threads = description.topology.threads();
        let (mut sum, mut count) = (0.0, 0_usize);
        for &from in &self.members[row] {
            for &to in self.members[column].iter().filter(|&&to| to != from) {
                let value = match &description.core_to_core {
                    Some(measured) => measured.between(from, to),
                    None => description.line_ns(
                        Access::Load,
                        LineState::Modified,
                        threads[from].thread,
                        threads[to].thread,
                    ),
                };
                if let Some(value) = value {
                    sum += value;
                    count += 1;
                }
            }
        }
        (count > 0).then(|| sum / count as f64)
    }
}
