//! The table of legal transitions of a controller, and their check.

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerState {
    /// The next measurement is evaluated with the model.
    Looking,
    /// The next measurement is compared with those before it.
    Resting,
    /// The executor is changing the map.
    Changing,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An interval was measured.
    Measured,
    /// Cores were lost or came back.
    Cores,
    /// The map has been changed.
    Changed,
    /// The map could not be changed.
    Refused,
}

use ControllerState::{Changing, Looking, Resting};

/// State, event, and the states that may follow. All other combinations are illegal: no
/// measurement arrives while a map is changed, and no completion arrives without a requested
/// change.
const LEGAL: &[(ControllerState, EventKind, &[ControllerState])] = &[
    (Looking, EventKind::Measured, &[Looking, Resting, Changing]),
    (Looking, EventKind::Cores, &[Looking, Changing]),
    (Resting, EventKind::Measured, &[Resting, Looking]),
    (Resting, EventKind::Cores, &[Looking, Changing]),
    (Changing, EventKind::Cores, &[Changing]),
    (Changing, EventKind::Changed, &[Looking, Changing]),
    (Changing, EventKind::Refused, &[Looking]),
];

/// An event that does not fit the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a controller that is {state:?} cannot go to {next:?} by {event:?}")]
pub struct Illegal {
    state: ControllerState,
    event: EventKind,
    next: ControllerState,
}

/// Checks that the event is legal in this state.
pub(super) fn check_event(state: ControllerState, event: EventKind) -> Result<(), Illegal> {
    let fits = LEGAL.iter().any(|(from, by, _)| (*from, *by) == (state, event));
    if fits { Ok(()) } else { Err(Illegal { state, event, next: state }) }
}

/// Checks that the transition is legal.
pub(super) fn check(state: ControllerState, event: EventKind, next: ControllerState) -> Result<(), Illegal> {
    let fits = LEGAL.iter().any(|(from, by, to)| (*from, *by) == (state, event) && to.contains(&next));
    if fits { Ok(()) } else { Err(Illegal { state, event, next }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_transitions_are_refused() {
        assert_eq!(check(Resting, EventKind::Measured, Looking), Ok(()));
        let error = check(Resting, EventKind::Measured, Changing).unwrap_err();
        assert_eq!(error.to_string(), "a controller that is Resting cannot go to Changing by Measured");
        assert!(
            check_event(Changing, EventKind::Measured).is_err()
                && check_event(Looking, EventKind::Changed).is_err()
        );
    }
}
