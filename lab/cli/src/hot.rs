//! Hot spots.

use serde::Serialize;

use crate::bad_input::BadInput;

/// A hot spot: a share of the requests goes to a share of the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hot {
    /// Share of requests, 0 to 1.
    pub requests: f64,
    /// Share of the data, more than 0, at most 1.
    pub data: f64,
}

impl Hot {
    /// `FRACTION_OF_REQUESTS:FRACTION_OF_DATA`.
    ///
    /// # Errors
    /// What `fault` makes of a problem and what is accepted.
    pub fn parse(text: &str, fault: impl Fn(&str, &str) -> BadInput) -> Result<Self, BadInput> {
        let fault = |problem: &str| {
            fault(
                problem,
                "F:F as in 0.8:0.2, a share of requests from 0 to 1 and a share of data above 0 up to 1",
            )
        };
        let (requests, data) = text.split_once(':').ok_or_else(|| fault("not two shares"))?;
        let share = |part: &str| part.parse::<f64>().map_err(|_| fault("not two numbers"));
        let (requests, data) = (share(requests)?, share(data)?);
        if !(0.0..=1.0).contains(&requests) || !(0.0..=1.0).contains(&data) || data == 0.0 {
            return Err(fault("out of range"));
        }
        Ok(Hot { requests, data })
    }

    /// The value of a flag.
    ///
    /// # Errors
    /// The text is no hot spot.
    pub fn of_flag(flag: &str, text: &str) -> Result<Self, BadInput> {
        Hot::parse(text, |problem, accepted| BadInput::value(flag, text, problem, accepted))
    }
}
