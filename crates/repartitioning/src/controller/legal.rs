//! The transitions that a controller may make, and the check that it makes no others.

/// The state of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The next measurement is weighed against the model.
    Looking,
    /// The next measurement is compared with those before.
    Resting,
    /// The executor changes the map.
    Changing,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An interval was measured.
    Measured,
    /// Cores have come or gone.
    Cores,
    /// The map has been changed.
    Changed,
    /// The map could not be changed.
    Refused,
}

use State::{Changing, Looking, Resting};

/// State, event, and the states that may follow. What is not here does not happen: nothing is
/// measured while a map is changed, and nobody says that it has been when nobody was asked to.
const LEGAL: &[(State, Kind, &[State])] = &[
    (Looking, Kind::Measured, &[Looking, Resting, Changing]),
    (Looking, Kind::Cores, &[Looking, Changing]),
    (Resting, Kind::Measured, &[Resting, Looking]),
    (Resting, Kind::Cores, &[Looking, Changing]),
    (Changing, Kind::Cores, &[Changing]),
    (Changing, Kind::Changed, &[Looking, Changing]),
    (Changing, Kind::Refused, &[Looking]),
];

/// An event that does not fit the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a controller that is {state:?} cannot go to {next:?} by {event:?}")]
pub struct Illegal {
    state: State,
    event: Kind,
    next: State,
}

/// That the event may come in this state at all.
pub(super) fn check_event(state: State, event: Kind) -> Result<(), Illegal> {
    let fits = LEGAL.iter().any(|(from, by, _)| (*from, *by) == (state, event));
    if fits { Ok(()) } else { Err(Illegal { state, event, next: state }) }
}

/// That the table has the transition.
pub(super) fn check(state: State, event: Kind, next: State) -> Result<(), Illegal> {
    let fits = LEGAL.iter().any(|(from, by, to)| (*from, *by) == (state, event) && to.contains(&next));
    if fits { Ok(()) } else { Err(Illegal { state, event, next }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_table_does_not_have_is_refused() {
        assert_eq!(check(Resting, Kind::Measured, Looking), Ok(()));
        let error = check(Resting, Kind::Measured, Changing).unwrap_err();
        assert_eq!(error.to_string(), "a controller that is Resting cannot go to Changing by Measured");
        assert!(
            check_event(Changing, Kind::Measured).is_err() && check_event(Looking, Kind::Changed).is_err()
        );
    }
}
