//! Wholes that are divided into ranges, one below the other.

use super::{Anchor, CHARACTER, COLOURS, Drawing, Rectangle, WIDTH};

const ROW: f64 = 26.0;
const THICKNESS: f64 = 18.0;
/// Space between two segments if they are wide enough.
const GAP: f64 = 0.8;

/// A part of a strip.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Begin, as a share of the whole.
    pub from: f64,
    /// End, as a share of the whole.
    pub to: f64,
    /// Its colour: the same for the same name in all drawings.
    pub colour: usize,
    /// Drawn in it if there is room.
    pub name: String,
    /// Tooltip.
    pub hint: String,
}

/// A whole with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    /// Name of the whole.
    pub name: String,
    /// Its parts, ascending.
    pub segments: Vec<Segment>,
}

/// Draws strips in their order. `legend` has the names of colours.
pub fn strips(label: &str, strips: &[Strip], legend: &[(usize, String)]) -> String {
    let mut drawing = Drawing::new(ROW * strips.len() as f64 + 26.0, label);
    let longest = strips.iter().map(|strip| strip.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 14.0).clamp(60.0, WIDTH / 3.0);
    let scale = WIDTH - left;
    for (row, strip) in strips.iter().enumerate() {
        let top = ROW * row as f64 + 2.0;
        drawing.text(left - 8.0, top + THICKNESS / 2.0 + 4.0, Anchor::End, "", &strip.name);
        for segment in &strip.segments {
            let (from, to) = (left + segment.from * scale, left + segment.to * scale);
            let gap = if to - from > 3.0 * GAP { GAP } else { 0.0 };
            let colour = format!("var(--c{})", segment.colour % COLOURS);
            let area = Rectangle { x: from, y: top, width: to - from - gap, height: THICKNESS };
            drawing.rectangle(area, 0.0, &colour, &segment.hint);
            if to - from > (segment.name.chars().count() as f64 + 1.0) * CHARACTER {
                let middle = (from + to) / 2.0;
                drawing.text(
                    middle,
                    top + THICKNESS / 2.0 + 4.0,
                    Anchor::Middle,
                    "light small",
                    &segment.name,
                );
            }
        }
    }
    let mut x = left;
    let top = ROW * strips.len() as f64 + 8.0;
    for (colour, name) in legend {
        let area = Rectangle { x, y: top, width: 11.0, height: 11.0 };
        drawing.rectangle(area, 2.0, &format!("var(--c{})", colour % COLOURS), "");
        drawing.text(x + 16.0, top + 10.0, Anchor::Start, "small", name);
        x += 30.0 + CHARACTER * name.chars().count() as f64;
    }
    drawing.finish()
}
