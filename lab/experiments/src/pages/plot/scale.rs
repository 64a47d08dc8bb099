//! Axes: from values to coordinates of a drawing.

use std::ops::Range;

use crate::numbers;

/// A linear or logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// A linear axis that shows these values between the ends of `places`. An empty range of values
    /// is widened.
    pub fn linear(values: Range<f64>, places: Range<f64>) -> Self {
        let Range { start: low, end: high } = values;
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Scale { low, high, from: places.start, to: places.end, logarithmic: false }
    }

    /// A logarithmic axis; a linear one if the lowest value is not positive.
    pub fn logarithmic(values: Range<f64>, places: Range<f64>) -> Self {
        let Range { start: low, end: high } = values;
        if low <= 0.0 {
            return Scale::linear(values, places);
        }
        let high = if high > low { high } else { low * 2.0 };
        Scale { low, high, from: places.start, to: places.end, logarithmic: true }
    }

    /// An axis for positive numbers of this range: logarithmic if they are more than a factor of
    /// `factor` apart.
    pub fn fitting(values: Range<f64>, places: Range<f64>, factor: f64) -> Self {
        if values.start > 0.0 && values.end / values.start > factor {
            Scale::logarithmic(values, places)
        } else {
            Scale::linear(values, places)
        }
    }

    /// True if the axis is logarithmic.
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// The coordinate of a value; values outside of the axis are at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// About `count` round values within the axis, with their labels.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let values = if self.logarithmic { self.powers(count) } else { self.steps(count) };
        values.into_iter().map(|value| (value, numbers::si(value))).collect()
    }

    fn steps(&self, count: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count.max(1) as f64;
        let unit = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * unit >= rough * 0.999);
        let step = factor.unwrap_or(10.0) * unit;
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }

    /// Powers of ten with as many values between them as there is room for.
    fn powers(&self, count: usize) -> Vec<f64> {
        const BETWEEN: [&[f64]; 4] =
            [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let exponents = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        let of = |between: &[f64]| -> Vec<f64> {
            let all =
                exponents.clone().flat_map(|power| between.iter().map(move |part| part * 10f64.powi(power)));
            all.filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value)).collect()
        };
        let sparse = of(BETWEEN[3]);
        let fitting = BETWEEN.iter().map(|between| of(between)).find(|values| values.len() <= count + 1);
        fitting.unwrap_or_else(|| {
            let every = sparse.len().div_ceil(count.max(1));
            sparse.into_iter().step_by(every.max(1)).collect()
        })
    }
}
