//! The check that every transition is in its table.

use std::fmt::Debug;

/// An event that the table of a state machine does not have for its state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {machine} that is {state} cannot go to {next} by {event}")]
pub struct Illegal {
    machine: &'static str,
    state: String,
    event: String,
    next: String,
}

impl Illegal {
    /// A state machine in `state` that would be in `next` after `event`.
    pub(super) fn new(
        machine: &'static str,
        state: impl Debug,
        event: impl Debug,
        next: impl Debug,
    ) -> Illegal {
        let [state, event, next] = [format!("{state:?}"), format!("{event:?}"), format!("{next:?}")];
        Illegal { machine, state, event, next }
    }
}

/// A row of a table: state, event, and the states that may follow.
pub(super) type Row<S, E> = (S, E, &'static [S]);

/// Refuses what the table does not have.
pub(super) fn check<S, E>(
    machine: &'static str,
    table: &[Row<S, E>],
    state: S,
    event: E,
    next: S,
) -> Result<(), Illegal>
where
    S: Copy + PartialEq + Debug,
    E: Copy + PartialEq + Debug,
{
    let is_legal = |(from, by, to): &&Row<S, E>| *from == state && *by == event && to.contains(&next);
    match table.iter().find(is_legal) {
        Some(_) => Ok(()),
        None => Err(Illegal::new(machine, state, event, next)),
    }
}
