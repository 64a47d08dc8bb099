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
    /// A part of which nothing is durable is not voted for.
    pub votes_durable: bool,
    /// A prepared part leaves a record.
    pub records_parts: bool,
    /// A decision is told when it is durable.
    pub tells_durable: bool,
    /// A decision leaves a record.
    pub records_decisions: bool,
    /// A decision is acknowledged when it is applied durably.
    pub acknowledges_durable: bool,
    /// Whoever began a transaction hears that it committed when that is durable, if that was to be
    /// waited for.
    pub answers_durable: bool,
    /// Parts that were in doubt when an instance came back are prepared again.
    pub adopts: bool,
    /// A participant whose part is in doubt asks.
    pub inquires: bool,
    /// A transaction that is not decided when a connection breaks is aborted.
    pub aborts_losses: bool,
    /// Decisions come once. No rule of the protocol, which holds without it.
    pub tells_once: bool,
    /// One message in so many is heard twice, of those that may be; 0: none. No rule of the
    /// protocol either.
    pub echo_one_in: u32,
}

impl Rules {
    /// All rules.
    pub const SOUND: Rules = Rules {
        obeys_aborts: true,
        awaits_votes: true,
        keeps_reads: true,
        applies_once: true,
        votes_durable: true,
        records_parts: true,
        tells_durable: true,
        records_decisions: true,
        acknowledges_durable: true,
        answers_durable: true,
        adopts: true,
        inquires: true,
        aborts_losses: true,
        tells_once: true,
        echo_one_in: 0,
    };

    /// Returns true if the protocol itself is whole: transitions are checked then.
    pub(super) fn is_sound(self) -> bool {
        Rules { tells_once: true, echo_one_in: 0, ..self } == Rules::SOUND
    }
}
