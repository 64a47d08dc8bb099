//! Matrices of values as colours.

use super::{Anchor, Drawing, Rectangle, WIDTH, load_colour};
use crate::numbers;

const CELL_MAX: f64 = 56.0;
const HEIGHT: f64 = 26.0;
const LEFT: f64 = 90.0;
/// A cell narrower than this has no number in it.
const NUMBER: f64 = 44.0;

/// Maps with the same rows and columns side by side, in the same colours.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMaps {
    /// Description for screen readers.
    pub label: String,
    /// Name of a row or column, before its number.
    pub thing: String,
    /// Each map with its name, and shares by row and column.
    pub maps: Vec<(String, Vec<Vec<f64>>)>,
}

/// Draws each map as a square of shares. The largest of all has the colour of a load of 1.
pub fn heat_maps(what: &HeatMaps) -> String {
    let things = what.maps.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    let most = what.maps.iter().flat_map(|(_, rows)| rows.iter().flatten()).copied().fold(0.0, f64::max);
    let whole = WIDTH / what.maps.len().max(1) as f64;
    let cell = ((whole - LEFT - 16.0) / things.max(1) as f64).clamp(1.0, CELL_MAX);
    let tall = HEIGHT.min(cell.max(8.0));
    let mut drawing = Drawing::new(44.0 + tall * things as f64, &what.label);
    for (number, (name, rows)) in what.maps.iter().enumerate() {
        let left = whole * number as f64 + LEFT;
        drawing.text(left, 12.0, Anchor::Start, "strong", name);
        for (row, values) in rows.iter().enumerate() {
            let top = 36.0 + tall * row as f64;
            if tall >= 12.0 {
                let name = format!("{} {row}", what.thing);
                drawing.text(left - 8.0, top + tall / 2.0 + 4.0, Anchor::End, "muted small", name);
                let middle = left + cell * (row as f64 + 0.5);
                drawing.text(middle, 30.0, Anchor::Middle, "muted small", row);
            }
            for (column, value) in values.iter().enumerate() {
                let x = left + cell * column as f64;
                let share = numbers::percent(*value);
                let hint = format!("{name}, {0} {row} and {0} {column}: {share}", what.thing);
                let colour = load_colour(if most > 0.0 { value / most } else { 0.0 });
                let area = Rectangle { x, y: top, width: cell - 1.0, height: tall - 1.0 };
                drawing.rectangle(area, 1.0, &colour, &hint);
                if cell >= NUMBER && *value > 0.0 {
                    let baseline = top + tall / 2.0 + 4.0;
                    drawing.text(x + cell / 2.0, baseline, Anchor::Middle, "dark small", share);
                }
            }
        }
    }
    drawing.finish()
}
