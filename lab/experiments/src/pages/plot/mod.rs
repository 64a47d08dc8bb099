//! Drawings: SVG with the colours of the page.
//!
//! A drawing has a fixed width in its own units and scales with the page. Coordinates have one
//! decimal, so that equal input gives equal bytes.

mod bars;
mod columns;
mod gauge;
mod heat_map;
mod lines;
mod scale;
mod stack;
mod strips;

use std::fmt::Display;

use crate::pages::html::{escape, push};

pub use bars::{Bar, bars};
pub use columns::{Column, columns};
pub use gauge::{Gauge, gauge};
pub use heat_map::{HeatMaps, heat_maps};
pub use lines::{Lines, Series, lines};
pub use scale::Scale;
pub use stack::{COLOURS, Share, stack};
pub use strips::{Segment, Strip, strips};

/// Width of every drawing.
pub const WIDTH: f64 = 860.0;
/// Rough width of a character of a drawing's text.
pub const CHARACTER: f64 = 6.6;

/// Alignment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The point is its left end.
    Start,
    /// The point is its middle.
    Middle,
    /// The point is its right end.
    End,
}

/// Upper left corner and size of a rectangle.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle {
    /// Distance from the left edge of the drawing.
    pub x: f64,
    /// Distance from the upper edge of the drawing.
    pub y: f64,
    /// Width; less than 0 is drawn as 0, as for the height.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// An unfinished drawing. Colours are CSS values, such as `var(--accent)`.
#[derive(Clone, Debug)]
pub struct Drawing {
    height: f64,
    label: String,
    content: String,
}

impl Drawing {
    /// An empty drawing; `label` is its description for screen readers.
    pub fn new(height: f64, label: impl Into<String>) -> Self {
        Drawing { height, label: label.into(), content: String::new() }
    }

    /// A text. `class` has one or several of the classes of the page's style, or is empty.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(&text.to_string());
        push(
            &mut self.content,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>\n"
            ),
        );
    }

    /// A straight line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str, width: f64) {
        push(
            &mut self.content,
            format_args!(
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"{width:.1}\" stroke-linecap=\"round\"/>\n"
            ),
        );
    }

    /// A rectangle; `hint` is its tooltip.
    pub fn rectangle(&mut self, area: Rectangle, radius: f64, colour: &str, hint: &str) {
        let Rectangle { x, y, width, height } = area;
        let (width, height) = (width.max(0.0), height.max(0.0));
        push(
            &mut self.content,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\" \
                 fill=\"{colour}\">{}</rect>\n",
                title(hint)
            ),
        );
    }

    /// The outline of a rectangle, filled with the page's background.
    pub fn frame(&mut self, area: Rectangle, radius: f64, colour: &str) {
        let Rectangle { x, y, width, height } = area;
        push(
            &mut self.content,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\" \
                 fill=\"var(--panel)\" stroke=\"{colour}\"/>\n"
            ),
        );
    }

    /// A dot; `hint` is its tooltip.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, colour: &str, hint: &str) {
        push(
            &mut self.content,
            format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\">{}</circle>\n",
                title(hint)
            ),
        );
    }

    /// The mark of a point of a series: circle, square, triangle or diamond; `hint` is its tooltip.
    pub fn marker(&mut self, series: usize, x: f64, y: f64, radius: f64, colour: &str, hint: &str) {
        let points = match series % 4 {
            0 => return self.dot(x, y, radius, colour, hint),
            1 => [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => [(0.0, -1.2), (1.2, 0.9), (-1.2, 0.9), (0.0, -1.2)],
            _ => [(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        };
        let points = points.map(|(dx, dy)| (x + dx * radius, y + dy * radius));
        push(
            &mut self.content,
            format_args!(
                "<polygon points=\"{}\" fill=\"{colour}\">{}</polygon>\n",
                joined(&points),
                title(hint)
            ),
        );
    }

    /// A line through points, dashed or not.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        push(
            &mut self.content,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
                 stroke-linejoin=\"round\"{dash}/>\n",
                joined(points)
            ),
        );
    }

    /// A surface between points.
    pub fn surface(&mut self, points: &[(f64, f64)], colour: &str, opacity: f64) {
        push(
            &mut self.content,
            format_args!(
                "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"{opacity:.2}\"/>\n",
                joined(points)
            ),
        );
    }

    /// The finished drawing.
    pub fn finish(self) -> String {
        let Drawing { height, label, content } = self;
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n{content}</svg>\n",
            escape(&label)
        )
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn title(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escape(hint)) }
}

/// A colour for a load from 0 (idle) to 1 (busy all the time): grey, then yellow, orange and red.
/// The same on light and dark background, so that dark text is readable on all of them.
pub fn load_colour(load: f64) -> String {
    const STEPS: [(f64, [f64; 3]); 5] = [
        (0.0, [190.0, 200.0, 212.0]),
        (0.25, [246.0, 219.0, 140.0]),
        (0.5, [245.0, 176.0, 88.0]),
        (0.75, [236.0, 122.0, 72.0]),
        (1.0, [222.0, 76.0, 70.0]),
    ];
    let load = if load.is_finite() { load.clamp(0.0, 1.0) } else { 0.0 };
    let above = STEPS.iter().position(|(at, _)| *at >= load).unwrap_or(STEPS.len() - 1).max(1);
    let ((low, from), (high, to)) = (STEPS[above - 1], STEPS[above]);
    let share = (load - low) / (high - low);
    let mix = |part: usize| (from[part] + share * (to[part] - from[part])).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests;
