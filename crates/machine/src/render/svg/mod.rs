//! Pictures: the machine as nested boxes, and the times of lines between cores as a heat map.
//!
//! The SVG has only rectangles, lines and text in attributes, so that every viewer shows it alike.

mod blocks;
mod canvas;
mod cores;
mod heat_map;
mod machine;

pub use cores::{render_cores_svg, render_memory_svg};
pub use machine::render_svg;
