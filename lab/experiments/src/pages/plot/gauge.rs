//! One value against the published one and the accepted interval.

use super::{Anchor, CHARACTER, Drawing, Rectangle, Scale, WIDTH};
use crate::numbers;

const LEFT: f64 = 40.0;
const BAND_TOP: f64 = 30.0;
const BAND: f64 = 26.0;
const HEIGHT: f64 = 96.0;
/// Ranges wider than this factor are drawn on a logarithmic axis: accepted intervals are factors
/// either way.
const FACTOR: f64 = 3.0;

/// Content of a gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The published value.
    pub published: Option<f64>,
    /// Ends of the accepted interval.
    pub accept: (f64, f64),
    /// The measured value.
    pub measured: Option<f64>,
}

/// Draws a gauge.
pub fn gauge(label: &str, gauge: &Gauge) -> String {
    let (low, high) = gauge.accept;
    let values = [Some(low), Some(high), gauge.published, gauge.measured];
    let values: Vec<f64> = values.into_iter().flatten().collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let places = LEFT..WIDTH - LEFT;
    let scale = if least > 0.0 && most / least > FACTOR {
        Scale::logarithmic(least / 1.5..most * 1.5, places)
    } else {
        let margin = ((most - least) * 0.3).max(most.abs() * 0.05).max(1e-9);
        let floor = if least >= 0.0 { (least - margin).max(0.0) } else { least - margin };
        Scale::linear(floor..most + margin, places)
    };
    let mut drawing = Drawing::new(HEIGHT, label);
    axis(&mut drawing, &scale);
    let (from, to) = (scale.at(low), scale.at(high));
    let accepted = format!("accepted: {} to {}", numbers::plain(low), numbers::plain(high));
    let area = Rectangle { x: from, y: BAND_TOP, width: (to - from).max(2.0), height: BAND };
    drawing.rectangle(area, 3.0, "var(--band)", &accepted);
    if let Some(published) = gauge.published {
        let x = scale.at(published);
        drawing.line(x, BAND_TOP - 3.0, x, BAND_TOP + BAND + 3.0, "var(--reference)", 2.5);
        // Below the band, so that it never overlaps the label of the measured value.
        let text = format!("published {}", numbers::plain(published));
        label_at(&mut drawing, x, BAND_TOP + BAND + 17.0, "reference small", &text);
    }
    if let Some(measured) = gauge.measured {
        let x = scale.at(measured);
        let good = (low..=high).contains(&measured);
        let (class, colour) =
            if good { ("good strong", "var(--good)") } else { ("bad strong", "var(--bad)") };
        let text = format!("measured {}", numbers::plain(measured));
        drawing.dot(x, BAND_TOP + BAND / 2.0, 7.0, colour, &text);
        label_at(&mut drawing, x, BAND_TOP - 10.0, class, &text);
    }
    drawing.finish()
}

/// A text around `x`, kept within the drawing.
fn label_at(drawing: &mut Drawing, x: f64, y: f64, class: &str, text: &str) {
    let half = text.chars().count() as f64 * CHARACTER / 2.0;
    drawing.text(x.clamp(half, WIDTH - half), y, Anchor::Middle, class, text);
}

fn axis(drawing: &mut Drawing, scale: &Scale) {
    let y = HEIGHT - 16.0;
    let area = Rectangle { x: LEFT, y: BAND_TOP, width: WIDTH - 2.0 * LEFT, height: BAND };
    drawing.rectangle(area, 3.0, "var(--panel)", "");
    for (value, text) in scale.ticks(8) {
        let x = scale.at(value);
        drawing.line(x, BAND_TOP + BAND, x, BAND_TOP + BAND + 4.0, "var(--line)", 1.0);
        drawing.text(x, y + 12.0, Anchor::Middle, "muted small", text);
    }
}
