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
/// Height of a row of the legend.
const LEGEND_ROW: f64 = 18.0;
/// Length of the line beside a name in the legend.
const LEGEND_LINE: f64 = 24.0;

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// A value for each position; the line has a gap where one is not finite.
    pub values: Vec<f64>,
    /// True if it is dashed, like values that were not measured here.
    pub dashed: bool,
    /// Position of the line whose colour and markers it has; its own without one.
    pub like: Option<usize>,
}

impl Series {
    /// Number of the colour and the markers of the line at this position.
    fn style(&self, number: usize) -> usize {
        self.like.unwrap_or(number)
    }
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
    /// True if every value has a marker and the surface below the first line stays empty.
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
    let legend = if lines.series.len() > 1 { legend(&lines.series) } else { Vec::new() };
    let rows = legend.last().map_or(0, |(row, _)| row + 1);
    let top = if rows > 0 { 26.0 + LEGEND_ROW * rows as f64 } else { 26.0 };
    let axes = Axes::new(lines, top);
    let Axes { x, y, bottom, .. } = axes;
    for (value, text) in y.ticks(5) {
        drawing.line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "var(--grid)", 1.0);
        drawing.text(LEFT - 8.0, y.at(value) + 4.0, Anchor::End, "muted small", text);
    }
    drawing.line(LEFT, bottom, WIDTH - RIGHT, bottom, "var(--line)", 1.0);
    drawing.text(LEFT, 14.0, Anchor::Start, "muted small", &lines.y_name);
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    drawing.text(middle, lines.height - 6.0, Anchor::Middle, "muted small", &lines.x_name);
    for (position, text) in positions(lines, &x) {
        drawing.line(x.at(position), bottom, x.at(position), bottom + 4.0, "var(--line)", 1.0);
        drawing.text(x.at(position), bottom + 17.0, Anchor::Middle, "muted small", text);
    }
    for (number, series) in lines.series.iter().enumerate() {
        draw_series(&mut drawing, lines, number, series, &axes);
    }
    draw_marks(&mut drawing, &lines.marks, &axes);
    for (number, (row, x)) in legend.into_iter().enumerate() {
        let (series, y) = (&lines.series[number], 27.0 + LEGEND_ROW * row as f64);
        let number = series.style(number);
        drawing.path(&[(x, y), (x + LEGEND_LINE, y)], &colour(number), series.dashed);
        if lines.dots {
            drawing.marker(number, x + LEGEND_LINE / 2.0, y, 3.5, &colour(number), "");
        }
        drawing.text(x + LEGEND_LINE + 6.0, y + 4.0, Anchor::Start, "small", &series.name);
    }
    drawing.finish()
}

/// The axes of a drawing.
struct Axes {
    x: Scale,
    y: Scale,
    /// Vertical places between which the lines are.
    top: f64,
    bottom: f64,
}

impl Axes {
    fn new(lines: &Lines, top: f64) -> Axes {
        let (first, last) = bounds(lines.positions.iter().copied());
        let horizontal = LEFT + 12.0 * f64::from(u8::from(lines.dots))..WIDTH - RIGHT - 8.0;
        let factor = if lines.logarithmic { FACTOR } else { f64::INFINITY };
        let x = Scale::fitting(first..last, horizontal, factor);
        let (low, high) = bounds(lines.series.iter().flat_map(|series| series.values.iter().copied()));
        let bottom = lines.height - BOTTOM;
        let y = if low > 0.0 && high / low > factor {
            Scale::logarithmic(low / 1.2..high * 1.2, bottom..top)
        } else {
            Scale::linear(low.min(0.0)..if high > 0.0 { high * 1.06 } else { 1.0 }, bottom..top)
        };
        Axes { x, y, top, bottom }
    }
}

/// The smallest and the largest finite value; 0 and 1 if there are none.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low.is_finite() { (low, high) } else { (0.0, 1.0) }
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

fn draw_series(drawing: &mut Drawing, lines: &Lines, number: usize, series: &Series, axes: &Axes) {
    let number = series.style(number);
    let colour = colour(number);
    let points: Vec<(f64, f64)> = lines
        .positions
        .iter()
        .zip(&series.values)
        .map(|(position, value)| (axes.x.at(*position), axes.y.at(*value)))
        .collect();
    if let (false, Some(first), Some(last)) = (lines.dots, points.first(), points.last()) {
        let mut surface = vec![(first.0, axes.bottom)];
        surface.extend(&points);
        surface.push((last.0, axes.bottom));
        drawing.surface(&surface, &colour, 0.12);
    }
    for part in points.split(|(_, y)| !y.is_finite()).filter(|part| !part.is_empty()) {
        drawing.path(part, &colour, series.dashed);
    }
    if lines.dots {
        for ((x, y), value) in points.iter().zip(&series.values).filter(|(_, value)| value.is_finite()) {
            let hint = format!("{}: {}", series.name, numbers::plain(*value));
            drawing.marker(number, *x, *y, 3.5, &colour, &hint);
        }
    }
}

/// Draws vertical lines with their names, one above the other if they are close.
fn draw_marks(drawing: &mut Drawing, marks: &[(f64, String)], axes: &Axes) {
    for (number, (position, text)) in marks.iter().enumerate() {
        let at = axes.x.at(*position);
        let height = axes.top + 12.0 + 13.0 * (number % MARK_ROWS) as f64;
        drawing.path(&[(at, axes.top), (at, axes.bottom)], "var(--line)", true);
        let is_late = at > f64::midpoint(LEFT, WIDTH);
        let (place, anchor) = if is_late { (at - 5.0, Anchor::End) } else { (at + 5.0, Anchor::Start) };
        drawing.text(place, height, anchor, "muted small", text);
    }
}

/// Row and left end of each entry of the legend.
fn legend(series: &[Series]) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, LEFT);
    let place = |one: &Series| {
        let width = LEGEND_LINE + 6.0 + one.name.chars().count() as f64 * CHARACTER;
        if x > LEFT && x + width > WIDTH {
            (row, x) = (row + 1, LEFT);
        }
        let place = (row, x);
        x += width + 22.0;
        place
    };
    series.iter().map(place).collect()
}

fn colour(number: usize) -> String {
    format!("var(--c{})", number % COLOURS)
}
