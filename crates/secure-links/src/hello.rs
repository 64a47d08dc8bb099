//! Messages of the handshake and their encoding.
//!
//! Each of the three messages (hello, welcome, refusal) begins with a mark, the version of the
//! handshake, and the kind of the message. A process of another version can parse this prefix and
//! give the reason for its refusal. Numbers are little-endian.

use platform::link::{Limits, Mechanism};

use super::error::Fault;
use super::peer::Peer;

/// Version of the handshake.
pub(super) const PROTOCOL: u32 = 1;
/// Most bytes of a message.
pub(super) const HANDSHAKE_BYTES_MAX: usize = 512;
/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 256;
const MARK: [u8; 4] = *b"ISLE";

/// A process's description of itself and of the requested connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the messages on the link.
    pub version: u32,
    /// Fingerprint of the deployment and its tables, on which both sides have to agree.
    pub deployment: u64,
    /// The sender of the hello.
    pub from: Peer,
    /// The receiver of the hello.
    pub to: Peer,
    /// The transport: `shm`, `uds` or `tcp`.
    pub mechanism: Mechanism,
    /// Limits of the messages to the sender.
    pub limits: Limits,
}

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HandshakeMessage {
    /// Sent by the connecting side.
    Hello(Hello),
    /// Accepting answer: a hello in the other direction.
    Welcome(Hello),
    /// Refusing answer, with its reason.
    Refusal(String),
}

impl HandshakeMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::from(MARK);
        to.extend(PROTOCOL.to_le_bytes());
        match self {
            HandshakeMessage::Hello(hello) => hello.encode(1, &mut to),
            HandshakeMessage::Welcome(hello) => hello.encode(2, &mut to),
            HandshakeMessage::Refusal(reason) => {
                to.push(3);
                let mut reason = reason.clone();
                while reason.len() > REASON_BYTES_MAX {
                    reason.pop();
                }
                to.extend(reason.into_bytes());
            }
        }
        to
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<HandshakeMessage, Fault> {
        let mut from = Bytes(bytes);
        if from.take::<4>()? != MARK {
            return Err(Fault::Garbage("it does not begin like one".to_owned()));
        }
        let theirs = u32::from_le_bytes(from.take()?);
        if theirs != PROTOCOL {
            return Err(Fault::Protocol { theirs, ours: PROTOCOL });
        }
        let message = match u8::from_le_bytes(from.take()?) {
            1 => HandshakeMessage::Hello(Hello::decode(&mut from)?),
            2 => HandshakeMessage::Welcome(Hello::decode(&mut from)?),
            3 => {
                let reason = String::from_utf8_lossy(std::mem::take(&mut from.0));
                // Control characters are replaced, so that the reason is one line.
                HandshakeMessage::Refusal(
                    reason.chars().map(|char| if char.is_control() { ' ' } else { char }).collect(),
                )
            }
            other => return Err(Fault::Garbage(format!("kind {other}"))),
        };
        if from.0.is_empty() {
            Ok(message)
        } else {
            Err(Fault::Garbage("it goes on after its end".to_owned()))
        }
    }
}

impl Hello {
    fn encode(&self, kind: u8, to: &mut Vec<u8>) {
        to.push(kind);
        to.extend(self.version.to_le_bytes());
        to.extend(self.deployment.to_le_bytes());
        for peer in [self.from, self.to] {
            to.extend(peer.instance.to_le_bytes());
            to.extend(peer.worker.to_le_bytes());
        }
        let mechanism = self.mechanism.name().as_bytes();
        to.push(mechanism.len() as u8);
        to.extend(mechanism);
        for bound in [self.limits.message_bytes_max, self.limits.messages_max] {
            to.extend(u32::try_from(bound).unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    fn decode(from: &mut Bytes<'_>) -> Result<Hello, Fault> {
        let version = u32::from_le_bytes(from.take()?);
        let deployment = u64::from_le_bytes(from.take()?);
        let speaker = from.peer()?;
        let listener = from.peer()?;
        let length = u8::from_le_bytes(from.take()?);
        let name = from.slice(usize::from(length))?;
        let known = Mechanism::ALL.into_iter().find(|(other, _)| other.as_bytes() == name);
        let (_, mechanism) = known.ok_or(Fault::Mechanism("a mechanism that this version does not know"))?;
        let message_bytes_max = u32::from_le_bytes(from.take()?) as usize;
        let messages_max = u32::from_le_bytes(from.take()?) as usize;
        let limits = Limits { message_bytes_max, messages_max };
        limits.check().map_err(|_| Fault::Limits)?;
        Ok(Hello { version, deployment, from: speaker, to: listener, mechanism, limits })
    }
}

/// A cursor over bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(Bytes::short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(Bytes::short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn peer(&mut self) -> Result<Peer, Fault> {
        Ok(Peer { instance: u16::from_le_bytes(self.take()?), worker: u16::from_le_bytes(self.take()?) })
    }

    fn short() -> Fault {
        Fault::Garbage("it ends too early".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: 7,
            deployment: 0x0123_4567_89AB_CDEF,
            from: Peer { instance: 1, worker: 2 },
            to: Peer { instance: 3, worker: 4 },
            mechanism: Mechanism::SharedMemory,
            limits: Limits { message_bytes_max: 300, messages_max: 8 },
        }
    }

    #[test]
    fn messages_round_trip() {
        for message in [
            HandshakeMessage::Hello(hello()),
            HandshakeMessage::Welcome(hello()),
            HandshakeMessage::Refusal("no".to_owned()),
        ] {
            let bytes = message.encode();
            assert!(bytes.len() <= HANDSHAKE_BYTES_MAX);
            assert_eq!(HandshakeMessage::decode(&bytes), Ok(message));
        }
        let long = HandshakeMessage::Refusal("ä".repeat(1000)).encode();
        assert!(long.len() <= HANDSHAKE_BYTES_MAX && HandshakeMessage::decode(&long).is_ok());
        let lines = HandshakeMessage::Refusal("one\ntwo\u{1b}".to_owned()).encode();
        assert_eq!(HandshakeMessage::decode(&lines), Ok(HandshakeMessage::Refusal("one two ".to_owned())));
    }

    #[test]
    fn damaged_messages_are_refused() {
        let bytes = HandshakeMessage::Hello(hello()).encode();
        for end in 0..bytes.len() {
            assert!(matches!(HandshakeMessage::decode(&bytes[..end]), Err(Fault::Garbage(_))), "{end}");
        }
        assert!(matches!(
            HandshakeMessage::decode(&[bytes.clone(), vec![0]].concat()),
            Err(Fault::Garbage(_))
        ));
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            HandshakeMessage::decode(&bytes)
        };
        assert!(matches!(changed(0, 0), Err(Fault::Garbage(_))));
        assert_eq!(changed(4, 9), Err(Fault::Protocol { theirs: 9, ours: PROTOCOL }));
        assert!(matches!(changed(8, 9), Err(Fault::Garbage(_))));
        let bounds = bytes.len() - 8;
        assert_eq!(changed(bounds + 3, 1), Err(Fault::Limits), "2^24 bytes and more");
        assert_eq!(changed(bounds + 4, 0), Err(Fault::Limits), "no messages");
    }
}
