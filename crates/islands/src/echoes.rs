//! Messages that a member hears twice, for tests.
//!
//! No transport repeats a message, but the protocol does: after a connection broke, or an instance was down, coordinators tell decisions
//! again, participants ask again, and both answer again. So whatever is told, asked or acknowledged may be heard again, at once or over
//! a later link, also from the peer's next incarnation, and must count once. What must not come again does not: a request or a
//! vote belongs to one link.

use crate::messages::{GlobalId, Message};

/// Messages of a peer that are heard again over the next link, at most.
const LATER_MAX: usize = 4;

/// A message that may be heard again.
#[derive(Clone, Copy)]
pub(crate) enum Echo {
    Decision {
        id: GlobalId,
        commit: bool,
    },
    Acknowledgement {
        id: GlobalId,
    },
    Inquiry {
        id: GlobalId,
    },
    /// A greeting, with which a link begins: what came over earlier ones may be heard again.
    Hello,
    /// What is heard once.
    Nothing,
}

impl Echo {
    /// What may be heard again of a message.
    pub(crate) fn of<A, O>(message: &Message<A, O>) -> Echo {
        match *message {
            Message::Decision { id, commit } => Echo::Decision { id, commit },
            Message::Acknowledgement { id } => Echo::Acknowledgement { id },
            Message::Inquiry { id } => Echo::Inquiry { id },
            Message::Hello { .. } => Echo::Hello,
            Message::Request { .. } | Message::Vote { .. } | Message::Goodbye => Echo::Nothing,
        }
    }

    /// The message, if one is heard again.
    pub(crate) fn message<A, O>(self) -> Option<Message<A, O>> {
        Some(match self {
            Echo::Decision { id, commit } => Message::Decision { id, commit },
            Echo::Acknowledgement { id } => Message::Acknowledgement { id },
            Echo::Inquiry { id } => Message::Inquiry { id },
            Echo::Hello | Echo::Nothing => return None,
        })
    }
}

/// What a member hears again.
#[derive(Default)]
pub(crate) struct Echoes {
    /// Messages that may be heard again, so far.
    heard: u64,
    /// What is heard again over the next link, by the number of the peer.
    later: Vec<(usize, Echo)>,
}

impl Echoes {
    /// What is heard again after a message of this peer of which this is the echo.
    pub(crate) fn after(&mut self, peer: usize, echo: Echo, one_in: u32) -> Vec<Echo> {
        match echo {
            Echo::Nothing => Vec::new(),
            Echo::Hello => self.later.extract_if(.., |(of, _)| *of == peer).map(|(_, echo)| echo).collect(),
            echo => self.comes_at_once(peer, echo, one_in).then_some(echo).into_iter().collect(),
        }
    }

    /// Of a message that was heard: whether it is heard again at once. One in `one_in` is heard again, in turns at once and later.
    fn comes_at_once(&mut self, peer: usize, echo: Echo, one_in: u32) -> bool {
        self.heard += 1;
        if !self.heard.is_multiple_of(u64::from(one_in)) {
            return false;
        }
        let at_once = self.heard.is_multiple_of(2 * u64::from(one_in));
        let waiting = self.later.iter().filter(|(waits, _)| *waits == peer).count();
        if !at_once && waiting < LATER_MAX {
            self.later.push((peer, echo));
        }
        at_once
    }
}
