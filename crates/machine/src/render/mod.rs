//! Representations of the machine for people and for programs.

mod costs;
mod json;
mod svg;
mod text;

use terms::HardwareThread;

use crate::islands::{Granularity, islands};
use crate::topology::{Level, Topology};

pub use costs::render_costs;
pub use json::{render_description_json, render_json};
pub use svg::{render_cores_svg, render_memory_svg, render_svg};
pub use text::render_text;

/// The islands of every granularity that the machine reports.
fn shown_islands(topology: &Topology) -> Vec<(Granularity, Vec<Vec<HardwareThread>>)> {
    let counts = topology.counts();
    let shown = |granularity: &Granularity| match granularity {
        Granularity::Core => counts.cores > 0,
        Granularity::L2Group => topology.caches().iter().any(|cache| cache.level == Level::L2),
        Granularity::L3Domain => counts.l3_domains > 0,
        Granularity::Socket => counts.packages > 0,
        Granularity::Node | Granularity::Machine | Granularity::Instances(_) => true,
    };
    let granularities = Granularity::HARDWARE.into_iter().filter(shown);
    granularities.map(|granularity| (granularity, islands(topology, granularity))).collect()
}
