//! A matrix as coloured cells with readable values.

use super::canvas::{Anchor, FAINT, Item, picture, text_width};
use crate::render::costs::figure;

const MARGIN: f64 = 20.0;
const CELL_WIDTH: f64 = 38.0;
const CELL_HEIGHT: f64 = 22.0;
const FONT: f64 = 11.0;
/// Width of the colour scale.
const SCALE: f64 = 360.0;

/// Colours from small to large, after ColorBrewer's YlGnBu and YlOrRd: cool is near, hot is far.
const COLOURS: [(u8, u8, u8); 6] =
    [(235, 246, 250), (170, 217, 226), (250, 232, 160), (246, 174, 90), (220, 92, 60), (140, 28, 52)];

/// A matrix to draw. Rows are requesters, columns holders.
pub(super) struct HeatMap {
    pub(super) title: String,
    /// Kind and source of the values; one line each.
    pub(super) notes: Vec<String>,
    pub(super) unit: &'static str,
    pub(super) labels: Vec<String>,
    /// Space before each row and column: 0 inside a group, more at the borders of larger ones.
    pub(super) borders: Vec<f64>,
    /// `None` is an empty cell.
    pub(super) values: Vec<Vec<Option<f64>>>,
}

impl HeatMap {
    /// The picture.
    pub(super) fn draw(&self) -> String {
        let known = self.values.iter().flatten().flatten().copied();
        let least = known.clone().fold(f64::INFINITY, f64::min);
        let most = known.fold(0.0, f64::max);
        let scale = Scale { least, most };
        let mut items = Vec::new();
        let mut bottom = MARGIN + 16.0;
        let mut width = text_width(&self.title, 20.0).max(SCALE + 60.0);
        items.push(Item::text(MARGIN, bottom, 18.0, self.title.clone()).bold());
        bottom += 8.0;
        for line in self.notes.iter().flat_map(|note| wrapped(note)) {
            bottom += 17.0;
            width = width.max(text_width(&line, 12.0));
            items.push(Item::text(MARGIN, bottom, 12.0, line).coloured(FAINT));
        }
        bottom += 18.0;
        if least.is_finite() {
            bottom = self.scale(&scale, bottom, &mut items);
        }
        let (right, end) = self.cells(&scale, bottom, &mut items);
        picture(right.max(width + MARGIN) + MARGIN, end + MARGIN, &self.title, &items)
    }

    /// The colour scale with its units. Returns its lower end.
    fn scale(&self, scale: &Scale, top: f64, items: &mut Vec<Item>) -> f64 {
        const STEPS: usize = 60;
        let step = SCALE / STEPS as f64;
        for index in 0..STEPS {
            let (fill, _) = scale.colour(scale.at((index as f64 + 0.5) / STEPS as f64));
            items.push(Item::plain(MARGIN + index as f64 * step, top, step + 0.5, 12.0, &fill));
        }
        let marks = if scale.is_flat() { 1 } else { 5 };
        for mark in 0..marks {
            let part = mark as f64 / (marks - 1).max(1) as f64;
            let x = MARGIN + part * SCALE;
            let text = Item::text(x, top + 26.0, FONT, figure(scale.at(part)));
            items.push(text.anchored(if mark == 0 { Anchor::Start } else { Anchor::Middle }));
        }
        items.push(Item::text(MARGIN + SCALE + 16.0, top + 11.0, FONT, self.unit));
        top + 44.0
    }

    /// Labels and cells. Returns the right and the lower end.
    fn cells(&self, scale: &Scale, top: f64, items: &mut Vec<Item>) -> (f64, f64) {
        let longest = self.labels.iter().map(|label| text_width(label, FONT)).fold(0.0, f64::max);
        let wide = CELL_WIDTH.max(longest + 6.0);
        let left = MARGIN + longest + 8.0;
        let offsets: Vec<f64> = self
            .borders
            .iter()
            .scan(0.0, |sum, border| {
                *sum += border;
                Some(*sum)
            })
            .collect();
        let x = |column: usize| left + column as f64 * wide + offsets[column];
        let y = |row: usize| top + 20.0 + row as f64 * CELL_HEIGHT + offsets[row];
        for (index, label) in self.labels.iter().enumerate() {
            let across = Item::text(x(index) + wide / 2.0, top + 12.0, FONT, label.clone());
            items.push(across.anchored(Anchor::Middle).coloured(FAINT));
            let down = Item::text(left - 6.0, y(index) + 15.0, FONT, label.clone());
            items.push(down.anchored(Anchor::End).coloured(FAINT));
        }
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else {
                    items.push(Item::plain(x(column), y(row), wide - 1.0, CELL_HEIGHT - 1.0, "#f0f0f0"));
                    continue;
                };
                let (fill, ink) = scale.colour(*value);
                items.push(Item::plain(x(column), y(row), wide - 1.0, CELL_HEIGHT - 1.0, &fill));
                let text = Item::text(x(column) + (wide - 1.0) / 2.0, y(row) + 15.0, FONT, cell(*value));
                items.push(text.anchored(Anchor::Middle).coloured(ink));
            }
        }
        let last = self.labels.len().saturating_sub(1);
        (x(last) + wide, y(last) + CELL_HEIGHT)
    }
}

/// A value in a cell, as a whole number, which is easy to compare.
fn cell(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Breaks a text into lines of limited length.
fn wrapped(text: &str) -> Vec<String> {
    const LONGEST: usize = 110;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LONGEST {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// Logarithmic colour scale: a factor of two has the same effect everywhere.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn is_flat(&self) -> bool {
        self.most <= self.least * 1.0001
    }

    /// The value at a fraction of the scale.
    fn at(&self, part: f64) -> f64 {
        if self.is_flat() { self.least } else { self.least * (self.most / self.least).powf(part) }
    }

    /// The colour of a value, and the colour of text on it.
    fn colour(&self, value: f64) -> (String, &'static str) {
        let part = match self.is_flat() {
            true => 0.0,
            false => ((value / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0),
        };
        let place = part * (COLOURS.len() - 1) as f64;
        let low = (place as usize).min(COLOURS.len() - 2);
        let way = place - low as f64;
        let mix = |one: u8, other: u8| f64::from(one) + way * (f64::from(other) - f64::from(one));
        let (from, to) = (COLOURS[low], COLOURS[low + 1]);
        let (red, green, blue) = (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2));
        let bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140.0;
        let hex = format!("#{:02x}{:02x}{:02x}", red as u8, green as u8, blue as u8);
        (hex, if bright { "#22272e" } else { "#ffffff" })
    }
}
