//! Shares of a whole: one bar, with a legend below it.

use super::{Anchor, Drawing, Rectangle, WIDTH};
use crate::numbers;

/// Number of colours in the page's style: `--c0` to `--c9`.
pub const COLOURS: usize = 10;

const BAR: f64 = 30.0;
const ROW: f64 = 20.0;
const COLUMNS: usize = 5;
/// A part narrower than this has no number in it.
const NUMBER: f64 = 46.0;

/// One part.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Name of the part.
    pub name: String,
    /// Its share of the whole.
    pub share: f64,
    /// Its colour: the same for the same name in all drawings.
    pub colour: usize,
}

/// Draws shares in their order, without those that are zero.
pub fn stack(label: &str, shares: &[Share]) -> String {
    let shown: Vec<&Share> = shares.iter().filter(|share| share.share > 0.0).collect();
    let rows = shown.len().div_ceil(COLUMNS) as f64;
    let mut drawing = Drawing::new(BAR + 10.0 + rows * ROW + 4.0, label);
    let mut x = 0.0;
    for share in &shown {
        let width = share.share.min(1.0) * WIDTH;
        let text = numbers::percent(share.share);
        let colour = format!("var(--c{})", share.colour % COLOURS);
        let area = Rectangle { x, y: 0.0, width, height: BAR };
        drawing.rectangle(area, 0.0, &colour, &format!("{}: {text}", share.name));
        if width >= NUMBER {
            drawing.text(x + width / 2.0, BAR / 2.0 + 4.0, Anchor::Middle, "strong light", &text);
        }
        x += width;
    }
    for (number, share) in shown.iter().enumerate() {
        let left = (number % COLUMNS) as f64 * WIDTH / COLUMNS as f64;
        let top = BAR + 12.0 + (number / COLUMNS) as f64 * ROW;
        let colour = format!("var(--c{})", share.colour % COLOURS);
        drawing.rectangle(Rectangle { x: left, y: top, width: 11.0, height: 11.0 }, 2.0, &colour, "");
        let text = format!("{} {}", share.name, numbers::percent(share.share));
        drawing.text(left + 17.0, top + 10.0, Anchor::Start, "", text);
    }
    drawing.finish()
}
