//! Series of values as lines.

use super::{Anchor, CHARACTER, COLOURS, Drawing, Scale, WIDTH};
use crate::numbers;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 44.0;
/// Largest number of labels below the axis.
const LABELS_MAX: usize = 14;
/// Rows among which the texts of marks alternate.
const MARK_ROWS: usize = 4;
/// Ranges wider than this factor may be drawn on a logarithmic axis.
const FACTOR: f64 = 8.0;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// A value for each position.
    pub values: Vec<f64>,
    /// True if it is dashed, like values that were not measured here.
    pub dashed: bool,
}

/// Several lines over the same positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Description for screen readers.
    pub label: String,
    /// Name of the horizontal axis, below it.
    pub x_name: String,
    /// Name of the vertical axis, above it.
    pub y_name: String,
    /// Positions, ascending.
    pub positions: Vec<f64>,
    /// Labels of the positions if they are not numbers.
    pub names: Option<Vec<String>>,
    /// True if axes that span more than a factor of 8 are logarithmic. A linear vertical axis
    /// begins at zero.
    pub logarithmic: bool,
    /// True if every value has a dot and the surface below the first line stays empty.
    pub dots: bool,
    /// Height of the drawing.
    pub height: f64,
    /// Positions of events, with their names. Each gets a vertical line.
    pub marks: Vec<(f64, String)>,
    /// The lines.
    pub series: Vec<Series>,
}

/// Draws lines.
pub fn lines(lines: &Lines) -> String {
    let mut drawing = Drawing::new(lines.height, &lines.label);
    let legend = lines.series.len() > 1;
    let top = if legend { 44.0 } else { 26.0 };
    let (x, y) = scales(lines, top);
    let bottom = lines.height - BOTTOM;
    for (value, text) in y.ticks(5) {
        drawing.line((LEFT, y.at(value)), (WIDTH - RIGHT, y.at(value)), "var(--grid)", 1.0);
        drawing.text(LEFT - 8.0, y.at(value) + 4.0, Anchor::End, "muted small", text);
    }
    drawing.line((LEFT, bottom), (WIDTH - RIGHT, bottom), "var(--line)", 1.0);
    drawing.text(LEFT, 14.0, Anchor::Start, "muted small", &lines.y_name);
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    drawing.text(middle, lines.height - 6.0, Anchor::Middle, "muted small", &lines.x_name);
    for (position, text) in positions(lines, &x) {
        drawing.line((x.at(position), bottom), (x.at(position), bottom + 4.0), "var(--line)", 1.0);
        drawing.text(x.at(position), bottom + 17.0, Anchor::Middle, "muted small", text);
    }
    for (number, series) in lines.series.iter().enumerate() {
        draw(&mut drawing, lines, number, series, (&x, &y, bottom));
    }
    draw_marks(&mut drawing, &lines.marks, (&x, top, bottom));
    if legend {
        draw_legend(&mut drawing, &lines.series);
    }
    drawing.finish()
}

fn scales(lines: &Lines, top: f64) -> (Scale, Scale) {
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (first, last) = bounds(&mut lines.positions.iter().copied());
    let (first, last) = if first.is_finite() { (first, last) } else { (0.0, 1.0) };
    let horizontal = (LEFT + 12.0 * f64::from(u8::from(lines.dots)), WIDTH - RIGHT - 8.0);
    let factor = if lines.logarithmic { FACTOR } else { f64::INFINITY };
    let x = Scale::fitting((first, last), horizontal, factor);
    let (low, high) = bounds(&mut lines.series.iter().flat_map(|series| series.values.iter().copied()));
    let (low, high) = if low.is_finite() { (low, high) } else { (0.0, 1.0) };
    let vertical = (lines.height - BOTTOM, top);
    let y = if low > 0.0 && high / low > factor {
        Scale::logarithmic((low / 1.2, high * 1.2), vertical)
    } else {
        Scale::linear((low.min(0.0), if high > 0.0 { high * 1.06 } else { 1.0 }), vertical)
    };
    (x, y)
}

/// Positions with a label: all, or as many as there is room for.
fn positions(lines: &Lines, x: &Scale) -> Vec<(f64, String)> {
    if let Some(names) = &lines.names {
        return lines.positions.iter().copied().zip(names.iter().cloned()).collect();
    }
    if lines.positions.len() > LABELS_MAX {
        return x.ticks(8);
    }
    let mut labels: Vec<(f64, String)> = Vec::new();
    let mut free = f64::NEG_INFINITY;
    for position in &lines.positions {
        let text = numbers::plain(*position);
        let half = text.len() as f64 * CHARACTER / 2.0 + 3.0;
        if x.at(*position) - half >= free {
            free = x.at(*position) + half;
            labels.push((*position, text));
        }
    }
    labels
}

fn draw(
    drawing: &mut Drawing,
    lines: &Lines,
    number: usize,
    series: &Series,
    (x, y, bottom): (&Scale, &Scale, f64),
) {
    let colour = colour(number);
    let points: Vec<(f64, f64)> = lines
        .positions
        .iter()
        .zip(&series.values)
        .map(|(position, value)| (x.at(*position), y.at(*value)))
        .collect();
    if let (false, Some(first), Some(last)) = (lines.dots, points.first(), points.last()) {
        let mut surface = vec![(first.0, bottom)];
        surface.extend(&points);
        surface.push((last.0, bottom));
        drawing.surface(&surface, &colour, 0.12);
    }
    drawing.path(&points, &colour, series.dashed);
    if lines.dots {
        for (place, value) in points.iter().zip(&series.values) {
            drawing.dot(*place, 3.5, &colour, &format!("{}: {}", series.name, numbers::plain(*value)));
        }
    }
}

/// Draws vertical lines with their names, one above the other if they are close.
fn draw_marks(drawing: &mut Drawing, marks: &[(f64, String)], (x, top, bottom): (&Scale, f64, f64)) {
    for (number, (position, text)) in marks.iter().enumerate() {
        let (at, height) = (x.at(*position), top + 12.0 + 13.0 * (number % MARK_ROWS) as f64);
        drawing.path(&[(at, top), (at, bottom)], "var(--line)", true);
        let is_late = at > f64::midpoint(LEFT, WIDTH);
        let (place, anchor) = if is_late { (at - 5.0, Anchor::End) } else { (at + 5.0, Anchor::Start) };
        drawing.text(place, height, anchor, "muted small", text);
    }
}

fn draw_legend(drawing: &mut Drawing, series: &[Series]) {
    let mut x = LEFT;
    for (number, one) in series.iter().enumerate() {
        drawing.path(&[(x, 27.0), (x + 24.0, 27.0)], &colour(number), one.dashed);
        drawing.text(x + 30.0, 31.0, Anchor::Start, "small", &one.name);
        x += 30.0 + one.name.chars().count() as f64 * CHARACTER + 22.0;
    }
}

fn colour(number: usize) -> String {
    format!("var(--c{})", number % COLOURS)
}
