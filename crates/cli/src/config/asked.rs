//! One change of a workload, as `--at` asks for it.

use super::hot::Hot;
use crate::bad_input::BadInput;
use crate::choices::{Choice, choose};
use crate::values;

const FLAG: &str = "--at";
/// What there is, for messages.
const CHANGES: &str = "SECONDS=CHANGE, a change being mix=NAME, hot=F:F or multisite=F";

/// One change as it is asked for.
pub struct Asked<'a> {
    /// The flag's value.
    text: &'a str,
    /// What changes.
    pub change: Change<'a>,
}

/// What changes.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// The transactions that run, by their name.
    Mix(&'a str),
    /// A hot spot.
    Hot(Hot),
    /// The share of transactions over several sites.
    Multisite(f64),
}

impl<'a> Asked<'a> {
    /// The moment, what is said of the change, and the change.
    pub(super) fn of(text: &'a str) -> Result<(f64, &'a str, Self), BadInput> {
        let fault = |problem: &str, accepted: &str| BadInput::value(FLAG, text, problem, accepted);
        let (moment, said) = text.split_once('=').ok_or_else(|| fault("no moment", CHANGES))?;
        let seconds = match moment.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => seconds,
            _ => return Err(fault("the moment is no number of seconds", CHANGES)),
        };
        let (name, value) = said.split_once('=').ok_or_else(|| fault("no change", CHANGES))?;
        let change = match name {
            "mix" => Change::Mix(value),
            "hot" => Change::Hot(Hot::parse(value, fault)?),
            "multisite" => {
                let share = values::number("multisite", Some(value), 0.0..=1.0);
                let fault = |_| fault("no share", "multisite=F, 0 to 1");
                Change::Multisite(share.map_err(fault)?.unwrap_or_default())
            }
            "fail-socket" => return Err(BadInput::later_value(FLAG, text, "mix=NAME, hot=F:F, multisite=F")),
            _ => return Err(fault("unknown change", CHANGES)),
        };
        Ok((seconds, said, Asked { text, change }))
    }

    /// Refuses a moment at which the run is over, or that nobody can tell.
    pub(super) fn is_within(&self, seconds: f64, seconds_max: Option<f64>) -> Result<(), BadInput> {
        let (problem, accepted) = match seconds_max {
            Some(most) if seconds < most => return Ok(()),
            Some(most) => ("the run is over by then", format!("a moment below {most}")),
            None => (
                "nobody knows how many seconds a number of transactions takes",
                "--seconds instead of --transactions".to_owned(),
            ),
        };
        Err(BadInput::value(FLAG, self.text, problem, accepted))
    }

    /// That the workload does not change in this way, but in those that are `accepted`.
    pub fn refused(&self, accepted: &str) -> BadInput {
        BadInput::value(FLAG, self.text, "this workload does not change so", accepted)
    }

    /// The mix of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn mix<C: Choice>(&self, name: &str, default: C) -> Result<C, BadInput> {
        let unknown = |_| BadInput::value(FLAG, self.text, "unknown mix", C::accepted());
        choose("mix", Some(name), default).map_err(unknown)
    }
}
