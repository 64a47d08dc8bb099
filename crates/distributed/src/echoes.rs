//! Messages that a member receives twice, for tests.
//!
//! No transport repeats a message, but the protocol does: after a connection broke, or an instance
//! was down, coordinators send decisions again, participants inquire again, and both answer again.
//! So a decision, an inquiry or an acknowledgement may come again, at once or over a later link,
//! also from the peer's next incarnation, and must count once. Requests and votes belong to one
//! link, and do not come again.

use crate::messages::Message;

/// Messages of a peer that are received again over the next link, at most.
const LATER_MAX: usize = 4;

/// Messages that a member receives again.
pub(crate) struct Echoes<A, O> {
    /// Messages that may be received again, so far.
    repeatable: u64,
    /// Messages that are received again over the next link, by the number of the peer.
    later: Vec<(usize, Message<A, O>)>,
}

impl<A, O> Default for Echoes<A, O> {
    fn default() -> Self {
        Echoes { repeatable: 0, later: Vec::new() }
    }
}

impl<A, O> Echoes<A, O> {
    /// The messages that are received again after this message of this peer: one in `one_in` of
    /// those that may be repeated, in turns at once and over the peer's next link, after its
    /// greeting.
    pub(crate) fn after(&mut self, peer: usize, message: &Message<A, O>, one_in: u32) -> Vec<Message<A, O>> {
        if let Message::Hello { .. } = message {
            return self.later.extract_if(.., |(of, _)| *of == peer).map(|(_, message)| message).collect();
        }
        let Some(again) = message.repeated() else { return Vec::new() };
        self.repeatable += 1;
        if !self.repeatable.is_multiple_of(u64::from(one_in)) {
            return Vec::new();
        }
        if self.repeatable.is_multiple_of(2 * u64::from(one_in)) {
            return vec![again];
        }
        if self.later.iter().filter(|(of, _)| *of == peer).count() < LATER_MAX {
            self.later.push((peer, again));
        }
        Vec::new()
    }
}
