//! Elements of a picture, and their SVG.

use std::fmt::Write;

/// Fonts whose letters have about the width that `text_width` assumes.
const FONTS: &str = "DejaVu Sans, Verdana, Helvetica, sans-serif";
/// Colour of text and lines.
pub(super) const INK: &str = "#22272e";
/// Colour of secondary text.
pub(super) const FAINT: &str = "#5b6570";

/// Alignment of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One element.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Box { x: f64, y: f64, width: f64, height: f64, fill: String, stroke: &'static str, dashed: bool },
    Text { x: f64, y: f64, size: f64, anchor: Anchor, bold: bool, fill: &'static str, text: String },
}

impl Item {
    /// A box with a line around it.
    pub(super) fn outlined(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Self {
        Item::Box { x, y, width, height, fill: fill.to_owned(), stroke: "#6b7480", dashed: false }
    }

    /// A box without a line.
    pub(super) fn plain(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Self {
        Item::Box { x, y, width, height, fill: fill.to_owned(), stroke: "none", dashed: false }
    }

    pub(super) fn text(x: f64, y: f64, size: f64, text: impl Into<String>) -> Self {
        Item::Text { x, y, size, anchor: Anchor::Start, bold: false, fill: INK, text: text.into() }
    }

    pub(super) fn anchored(self, place: Anchor) -> Self {
        match self {
            Item::Text { x, y, size, bold, fill, text, .. } => {
                Item::Text { x, y, size, anchor: place, bold, fill, text }
            }
            other => other,
        }
    }

    pub(super) fn coloured(self, colour: &'static str) -> Self {
        match self {
            Item::Text { x, y, size, anchor, bold, text, .. } => {
                Item::Text { x, y, size, anchor, bold, fill: colour, text }
            }
            other => other,
        }
    }

    pub(super) fn bold(self) -> Self {
        match self {
            Item::Text { x, y, size, anchor, fill, text, .. } => {
                Item::Text { x, y, size, anchor, bold: true, fill, text }
            }
            other => other,
        }
    }

    pub(super) fn dashed(self) -> Self {
        match self {
            Item::Box { x, y, width, height, fill, stroke, .. } => {
                Item::Box { x, y, width, height, fill, stroke, dashed: true }
            }
            other => other,
        }
    }

    /// The same element moved by these distances.
    pub(super) fn moved(mut self, by_x: f64, by_y: f64) -> Self {
        match &mut self {
            Item::Box { x, y, .. } | Item::Text { x, y, .. } => {
                *x += by_x;
                *y += by_y;
            }
        }
        self
    }
}

/// Approximate width of a text.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.64
}

/// The picture of these elements; `title` is for screen readers.
pub(super) fn picture(width: f64, height: f64, title: &str, items: &[Item]) -> String {
    let (width, height) = (width.ceil(), height.ceil());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escaped(title)
    );
    for item in items {
        match item {
            Item::Box { x, y, width, height, fill, stroke, dashed } => {
                let dashes = if *dashed { " stroke-dasharray=\"4 3\"" } else { "" };
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                     fill=\"{fill}\" stroke=\"{stroke}\"{dashes}/>"
                );
            }
            Item::Text { x, y, size, anchor, bold, fill, text } => {
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => " text-anchor=\"middle\"",
                    Anchor::End => " text-anchor=\"end\"",
                };
                let weight = if *bold { " font-weight=\"bold\"" } else { "" };
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}{weight}>{}</text>",
                    escaped(text)
                );
            }
        }
    }
    svg + "</svg>\n"
}

/// Text with XML escapes, without characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
