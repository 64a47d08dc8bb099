//! Messages between workers of different instances.
//!
//! A link carries a stream of frames: a frame is the length of a message, its CRC32C, and the
//! message in postcard. Several short frames leave as one message of the link, and a long one as
//! several. A frame of a wrong length or checksum, or one that holds no message, never gets further
//! than here. The first frame of a link is a [`Message::Hello`], with the sender, the version of
//! this protocol, and the fingerprint of the tables.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terms::Abort;

use crate::map::WorkerName;

/// Version of the protocol and of the messages.
pub const VERSION: u32 = 4;
/// Longest message: fifteen of the longest rows fit, with their keys and names. A longer part of a
/// transaction is refused before anything of it leaves.
pub const MESSAGE_BYTES_MAX: usize = 1 << 24;
/// A buffer of messages that is larger than this is given back once it is empty.
pub(crate) const KEPT_BYTES: usize = 1 << 18;
/// Length and checksum.
pub(crate) const HEAD_BYTES: usize = 8;

/// Bits of a sequence number below the number of the coordinator's incarnation.
pub const SEQUENCE_BITS: u32 = 40;
/// Incarnations have smaller numbers.
pub const INCARNATIONS_MAX: u64 = 1 << (u64::BITS - SEQUENCE_BITS);

/// One attempt of a transaction over several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GlobalId {
    /// Its coordinator.
    pub coordinator: WorkerName,
    /// The coordinator's incarnation, and a number that it has not used before.
    pub sequence: u64,
}

impl GlobalId {
    /// The incarnation of its coordinator.
    pub fn incarnation(self) -> u64 {
        self.sequence >> SEQUENCE_BITS
    }

    /// Its number in the engine.
    pub fn number(self) -> boundary::GlobalId {
        let WorkerName { instance, worker } = self.coordinator;
        boundary::GlobalId(u128::from(instance) << 80 | u128::from(worker) << 64 | u128::from(self.sequence))
    }

    /// The attempt that has this number in the engine.
    pub fn of(number: boundary::GlobalId) -> GlobalId {
        let (instance, worker) = ((number.0 >> 80) as u16, (number.0 >> 64) as u16);
        GlobalId { coordinator: WorkerName { instance, worker }, sequence: number.0 as u64 }
    }
}

/// The reason of a no vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Its part conflicted with another transaction.
    Conflict,
    /// The transaction rolls back by its own decision.
    RollBack,
    /// It fails for good, and why.
    Failed(String),
    /// Its outputs cannot be sent.
    Unsendable(Unsendable),
}

/// The reason for which a message cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unsendable {
    /// It would be a message of this many bytes.
    #[error("a message of {0} bytes: at most {MESSAGE_BYTES_MAX} are possible")]
    TooLong(u64),
    /// A value in it refuses to be written as bytes.
    #[error("a value that cannot be written as bytes")]
    Unwritable,
}

impl Refusal {
    /// The refusal by which an attempt ends, for the coordinator.
    pub(crate) fn of(abort: &Abort) -> Refusal {
        match abort {
            Abort::RollBack => Refusal::RollBack,
            abort if abort.is_conflict() => Refusal::Conflict,
            abort => Refusal::Failed(abort.to_string()),
        }
    }
}

/// A message from one worker to another, about actions `A` with outputs `O`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message<A, O> {
    /// The first message of a link.
    Hello {
        /// [`VERSION`] of the sender.
        version: u32,
        /// [`fingerprint`] of its tables.
        fingerprint: u32,
        /// The sender.
        from: WorkerName,
        /// The expected receiver.
        to: WorkerName,
    },
    /// A part to prepare.
    Request {
        /// The attempt.
        id: GlobalId,
        /// True if the part is the last to lock ([`crate::protocol::Flow::Last`]).
        is_last: bool,
        /// True if it changes nothing.
        only_reads: bool,
        /// All of its actions.
        actions: Vec<A>,
    },
    /// The vote for a part.
    Vote {
        /// The attempt.
        id: GlobalId,
        /// The outputs of its actions, in their order, or why it is not prepared.
        result: Result<Vec<O>, Refusal>,
    },
    /// The decision of the coordinator.
    Decision {
        /// The attempt.
        id: GlobalId,
        /// To commit or to roll back.
        commit: bool,
    },
    /// The decision to commit is applied, durably.
    Acknowledgement {
        /// The attempt.
        id: GlobalId,
    },
    /// A part is in doubt: the sender inquires for the decision.
    Inquiry {
        /// The attempt.
        id: GlobalId,
    },
    /// The sender has no transaction over several instances any more, and begins none: no worker
    /// receives another request of it.
    Goodbye,
}

impl<A, O> Message<A, O> {
    /// The message once more, if its sender may send it again: after a connection broke, or an
    /// instance was down. A greeting, a request, a vote and a goodbye belong to one link.
    pub(crate) fn repeated(&self) -> Option<Message<A, O>> {
        Some(match *self {
            Message::Decision { id, commit } => Message::Decision { id, commit },
            Message::Acknowledgement { id } => Message::Acknowledgement { id },
            Message::Inquiry { id } => Message::Inquiry { id },
            Message::Hello { .. } | Message::Request { .. } | Message::Vote { .. } | Message::Goodbye => {
                return None;
            }
        })
    }
}

/// The fault of bytes of a link that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A length that no message has.
    #[error("a message of {0} bytes: at least 1 and at most {MESSAGE_BYTES_MAX}")]
    Length(usize),
    /// The bytes are not those that were sent.
    #[error("a message with checksum {found:#010x} where {expected:#010x} is announced")]
    Checksum {
        /// The version of the bytes.
        found: u32,
        /// As announced.
        expected: u32,
    },
    /// The bytes are no message.
    #[error("{0} bytes that are no message")]
    Malformed(usize),
    /// The peer speaks another version.
    #[error("a peer of version {0} of the protocol: this is version {VERSION}")]
    Version(u32),
    /// The peer has other tables.
    #[error("a peer with other tables: fingerprint {0:#010x}")]
    Fingerprint(u32),
    /// The peer is another one than the link leads to, or takes this one for another.
    #[error("{from} greets {to}, where {expected} was to greet {me}")]
    Peer {
        /// The sender.
        from: WorkerName,
        /// To whom.
        to: WorkerName,
        /// To whom the link leads.
        expected: WorkerName,
        /// This worker.
        me: WorkerName,
    },
    /// A message before the peer's greeting, a second greeting, or a request after its goodbye.
    #[error(
        "a message that is out of place: links begin with one greeting, and no request follows a goodbye"
    )]
    Greeting,
}

/// A number that tables of other names, rows or indexes have not, as far as 32 bits can distinguish
/// them.
pub fn fingerprint(tables: impl Iterator<Item = impl std::fmt::Debug>) -> u32 {
    tables.fold(0, |sum, table| crc32c::crc32c_append(sum, format!("{table:?}").as_bytes()))
}

/// Appends a message to a stream.
///
/// # Errors
/// It is too long, or a value in it cannot be written: the stream is as before.
pub fn encode<A: Serialize, O: Serialize>(
    message: &Message<A, O>,
    stream: &mut Vec<u8>,
) -> Result<(), Unsendable> {
    let begin = stream.len();
    stream.extend_from_slice(&[0; HEAD_BYTES]);
    if postcard::to_extend(message, Behind(stream)).is_err() {
        stream.truncate(begin);
        return Err(Unsendable::Unwritable);
    }
    let body = &stream[begin + HEAD_BYTES..];
    let bytes = body.len();
    if bytes > MESSAGE_BYTES_MAX {
        stream.truncate(begin);
        return Err(Unsendable::TooLong(bytes as u64));
    }
    let sum = crc32c::crc32c(body);
    stream[begin..begin + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
    stream[begin + 4..begin + HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// Writes behind what a stream has, which stays if writing fails.
struct Behind<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Behind<'_> {
    #[inline]
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

/// A message, and the bytes of its frame.
pub type Framed<A, O> = (Message<A, O>, usize);

/// Empties a buffer, and gives it back if it is large.
pub(crate) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// Received bytes of a link that are not taken yet.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// Where the next frame begins.
    at: usize,
}

impl Inbox {
    /// Adds what the link brought.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at == self.bytes.len() {
            empty(&mut self.bytes);
            self.at = 0;
        } else if self.at > KEPT_BYTES {
            // A peer that never stops speaking leaves no moment in which everything is taken.
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, with the bytes of its frame, once all of it is there.
    ///
    /// # Errors
    /// What has come is no message. Nothing that follows can be trusted either.
    pub fn take<A: DeserializeOwned, O: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<Framed<A, O>>, MessageError> {
        let rest = &self.bytes[self.at..];
        let Some((head, rest)) = rest.split_at_checked(HEAD_BYTES) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (bytes, expected) = (word(0) as usize, word(4));
        if bytes == 0 || bytes > MESSAGE_BYTES_MAX {
            return Err(MessageError::Length(bytes));
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let found = crc32c::crc32c(body);
        if found != expected {
            return Err(MessageError::Checksum { found, expected });
        }
        let message = match postcard::take_from_bytes(body) {
            Ok((message, [])) => message,
            _ => return Err(MessageError::Malformed(bytes)),
        };
        self.at += HEAD_BYTES + bytes;
        Ok(Some((message, HEAD_BYTES + bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = Message<u32, String>;

    fn id() -> GlobalId {
        GlobalId { coordinator: WorkerName { instance: 3, worker: 7 }, sequence: (2 << SEQUENCE_BITS) + 9 }
    }

    fn all() -> Vec<Small> {
        let (from, to) = (WorkerName { instance: 0, worker: 1 }, WorkerName { instance: 1, worker: 2 });
        vec![
            Message::Hello { version: VERSION, fingerprint: 5, from, to },
            Message::Request { id: id(), is_last: true, only_reads: true, actions: vec![1, 2, 300] },
            Message::Vote { id: id(), result: Ok(vec!["a".into(), String::new()]) },
            Message::Vote { id: id(), result: Err(Refusal::Failed("no memory".into())) },
            Message::Vote { id: id(), result: Err(Refusal::Conflict) },
            Message::Vote { id: id(), result: Err(Refusal::Unsendable(Unsendable::TooLong(1 << 40))) },
            Message::Decision { id: id(), commit: true },
            Message::Acknowledgement { id: id() },
            Message::Inquiry { id: id() },
            Message::Goodbye,
        ]
    }

    #[test]
    fn ids_are_numbers_of_the_engine() {
        assert_eq!((GlobalId::of(id().number()), id().incarnation()), (id(), 2));
    }

    #[test]
    fn messages_survive_any_cut() {
        let mut stream = Vec::new();
        all().iter().for_each(|message| encode(message, &mut stream).unwrap());
        for step in [1, 2, 3, 7, 64, stream.len()] {
            let (mut inbox, mut seen, mut bytes) = (Inbox::default(), Vec::new(), 0);
            for piece in stream.chunks(step) {
                inbox.push(piece);
                while let Some((message, length)) = inbox.take::<u32, String>().unwrap() {
                    seen.push(message);
                    bytes += length;
                }
            }
            assert_eq!((seen, bytes), (all(), stream.len()));
        }
    }

    #[test]
    fn every_truncation_waits_and_every_flip_is_refused() {
        for message in all() {
            let mut stream = Vec::new();
            encode(&message, &mut stream).unwrap();
            for bytes in 0..stream.len() {
                let mut inbox = Inbox::default();
                inbox.push(&stream[..bytes]);
                assert_eq!(inbox.take::<u32, String>(), Ok(None));
            }
            for bit in 0..stream.len() * 8 {
                let mut damaged = stream.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let mut inbox = Inbox::default();
                inbox.push(&damaged);
                // A longer announcement waits for what never comes.
                assert!(!matches!(inbox.take::<u32, String>(), Ok(Some(_))), "bit {bit} of {message:?}");
            }
        }
    }

    #[test]
    fn lengths_and_contents_are_checked() {
        let refused = |bytes: &[u8]| {
            let mut inbox = Inbox::default();
            inbox.push(bytes);
            inbox.take::<u32, String>().unwrap_err()
        };
        assert_eq!(refused(&[0; 8]), MessageError::Length(0));
        let long = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes();
        assert_eq!(refused(&[&long[..], &[0; 4]].concat()), MessageError::Length(MESSAGE_BYTES_MAX + 1));
        let frame = |body: &[u8]| {
            [&(body.len() as u32).to_le_bytes()[..], &crc32c::crc32c(body).to_le_bytes(), body].concat()
        };
        assert_eq!(refused(&frame(&[77, 1, 2])), MessageError::Malformed(3));
        let mut stream = Vec::new();
        encode(&Small::Acknowledgement { id: id() }, &mut stream).unwrap();
        let longer = [&stream[HEAD_BYTES..], &[0]].concat();
        assert_eq!(refused(&frame(&longer)), MessageError::Malformed(longer.len()));
        let mut stream = vec![1, 2, 3];
        let huge = Message::<Vec<u8>, u8>::Request {
            id: id(),
            is_last: false,
            only_reads: false,
            actions: vec![vec![7; MESSAGE_BYTES_MAX]],
        };
        assert!(matches!(encode(&huge, &mut stream), Err(Unsendable::TooLong(_))));
        assert_eq!(stream, [1, 2, 3]);
        // The last of its values refuses, when others are written already.
        let odd = Message::<Odd, u8>::Request {
            id: id(),
            is_last: false,
            only_reads: false,
            actions: vec![Odd(false), Odd(true)],
        };
        assert_eq!(encode(&odd, &mut stream), Err(Unsendable::Unwritable));
        assert_eq!(stream, [1, 2, 3]);
    }

    /// Refuses to be written.
    struct Odd(bool);

    impl Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                true => Err(serde::ser::Error::custom("it refuses")),
                false => to.serialize_u64(7),
            }
        }
    }
}
