//! The rules of the protocol.

/// The rules that the protocol keeps, which tests break on purpose, to see that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A participant that is told to abort aborts.
    pub obeys_aborts: bool,
    /// A coordinator decides when all votes are there.
    pub awaits_votes: bool,
    /// A participant keeps what it has read locked until the decision.
    pub keeps_reads: bool,
    /// A decision that comes twice is applied once.
    pub applies_once: bool,
    /// Decisions come once. No rule of the protocol, which holds without it.
    pub tells_once: bool,
}

impl Rules {
    /// All rules.
    pub const SOUND: Rules = Rules {
        obeys_aborts: true,
        awaits_votes: true,
        keeps_reads: true,
        applies_once: true,
        tells_once: true,
    };

    /// Whether the protocol itself is whole: transitions are checked then.
    pub(super) fn is_sound(self) -> bool {
        Rules { tells_once: true, ..self } == Rules::SOUND
    }
}
