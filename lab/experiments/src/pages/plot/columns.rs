//! Vertical bars side by side: groups of columns with a few values each.

use super::{Anchor, COLOURS, Drawing, Rectangle, Scale, WIDTH};
use crate::numbers;

const LEFT: f64 = 52.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 22.0;
/// Space between two groups, in widths of a column.
const GAP: f64 = 0.8;

/// One column of [`columns`].
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its group. Columns of a group are adjacent.
    pub group: String,
    /// One value for each series, not negative; one that is not finite has no bar.
    pub values: Vec<f64>,
    /// A value to compare with each, drawn as a dashed line over the bar; one that is not finite,
    /// or that is missing, has no line.
    pub marks: Vec<f64>,
    /// Tooltip.
    pub hint: String,
}

/// Draws columns from zero in their order. `series` names the values of each; `line` is a marked
/// value, with its name.
pub fn columns(
    label: &str,
    series: &[&str],
    columns: &[Column],
    height: f64,
    line: Option<(f64, &str)>,
) -> String {
    let mut drawing = Drawing::new(height, label);
    let values = |column: &'_ Column| [column.values.as_slice(), &column.marks].concat();
    let most = columns.iter().flat_map(values).fold(0.0, f64::max);
    let most = most.max(line.map_or(0.0, |(value, _)| value));
    let bottom = height - BOTTOM;
    let scale = Scale::linear(0.0..if most > 0.0 { most } else { 1.0 }, bottom..TOP);
    for (value, name) in scale.ticks(4) {
        drawing.line(LEFT, scale.at(value), WIDTH, scale.at(value), "var(--grid)", 1.0);
        drawing.text(LEFT - 6.0, scale.at(value) + 4.0, Anchor::End, "muted", name);
    }
    let mut x = LEFT;
    for (number, name) in series.iter().enumerate() {
        let area = Rectangle { x, y: 2.0, width: 11.0, height: 11.0 };
        drawing.rectangle(area, 2.0, &format!("var(--c{})", number % COLOURS), "");
        drawing.text(x + 16.0, 12.0, Anchor::Start, "", name);
        x += 30.0 + super::CHARACTER * name.chars().count() as f64;
    }
    let new_group = |number: usize| number > 0 && columns[number].group != columns[number - 1].group;
    let gaps = (0..columns.len()).filter(|number| new_group(*number)).count();
    let width = (WIDTH - LEFT) / (columns.len() as f64 + GAP * gaps as f64).max(1.0);
    let mut left = LEFT;
    let mut begin = LEFT;
    for (number, column) in columns.iter().enumerate() {
        if new_group(number) {
            left += GAP * width;
            begin = left;
        }
        let each = 0.86 * width / column.values.len().max(1) as f64;
        for (place, value) in column.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let top = scale.at(*value);
            let x = left + place as f64 * each;
            let hint =
                format!("{}: {} {}", column.hint, series.get(place).unwrap_or(&""), numbers::plain(*value));
            let colour = format!("var(--c{})", place % COLOURS);
            let area = Rectangle { x, y: top, width: each, height: bottom - top };
            drawing.rectangle(area, 0.0, &colour, &hint);
        }
        for (place, value) in column.marks.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let x = left + place as f64 * each;
            drawing.path(&[(x, scale.at(*value)), (x + each, scale.at(*value))], "var(--ink)", true);
        }
        left += width;
        let is_last = number + 1 == columns.len() || new_group(number + 1);
        if is_last {
            drawing.text((begin + left) / 2.0, height - 6.0, Anchor::Middle, "muted small", &column.group);
        }
    }
    if let Some((value, name)) = line {
        drawing.path(&[(LEFT, scale.at(value)), (WIDTH, scale.at(value))], "var(--reference)", true);
        drawing.text(WIDTH, scale.at(value) - 4.0, Anchor::End, "reference small", name);
    }
    drawing.finish()
}
