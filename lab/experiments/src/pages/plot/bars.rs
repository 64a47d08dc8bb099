//! Horizontal bars with their values.

use super::{Anchor, CHARACTER, Drawing, Rectangle, Scale, WIDTH};
use crate::numbers;

const ROW: f64 = 26.0;
const THICKNESS: f64 = 17.0;
/// Room for the value after the longest bar.
const VALUE: f64 = 84.0;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the bar.
    pub label: String,
    /// Its length, not negative.
    pub value: f64,
    /// Tooltip.
    pub hint: String,
}

/// Draws bars from zero, in their order.
pub fn bars(label: &str, unit: &str, bars: &[Bar]) -> String {
    let mut drawing = Drawing::new(ROW * bars.len() as f64 + 4.0, label);
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 14.0).clamp(60.0, WIDTH / 3.0);
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let value_room = VALUE + unit.len() as f64 * CHARACTER;
    let scale = Scale::linear(0.0..if most > 0.0 { most } else { 1.0 }, left..WIDTH - value_room);
    for (row, bar) in bars.iter().enumerate() {
        let top = row as f64 * ROW + 2.0;
        let middle = top + THICKNESS / 2.0 + 4.0;
        let end = scale.at(bar.value);
        drawing.text(left - 8.0, middle, Anchor::End, "", &bar.label);
        let width = (end - left).max(1.0);
        let area = Rectangle { x: left, y: top, width, height: THICKNESS };
        drawing.rectangle(area, 2.0, "var(--c0)", &bar.hint);
        let space = if unit.starts_with('/') { "" } else { " " };
        let value = format!("{}{space}{unit}", numbers::si(bar.value));
        drawing.text(left + width + 6.0, middle, Anchor::Start, "muted", value.trim_end());
    }
    drawing.finish()
}
