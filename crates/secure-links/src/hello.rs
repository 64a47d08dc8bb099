//! What two processes say when they meet, and the bytes of it.
//!
//! Each of the three messages (hello, welcome, refusal) begins with a mark, the version of these
//! messages, and which of them it is; a process of another version reads that much and can say why
//! it refuses. Numbers begin with the least significant byte.

use platform::link::{Limits, Mechanism};

use super::error::Fault;
use super::peer::Peer;

/// Version of what is said here.
pub(super) const PROTOCOL: u32 = 1;
/// Most bytes of what is said.
pub(super) const SAID_BYTES_MAX: usize = 512;
/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 256;
const MARK: [u8; 4] = *b"ISLE";

/// What a process says of itself and of the connection that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the messages that will be exchanged.
    pub version: u32,
    /// What both sides have to agree on besides, as a number: a fingerprint of the deployment and
    /// of its tables.
    pub deployment: u64,
    /// The speaker.
    pub from: Peer,
    /// The listener.
    pub to: Peer,
    /// How messages travel: `shm`, `uds` or `tcp`.
    pub mechanism: Mechanism,
    /// Bounds of the messages to the speaker.
    pub limits: Limits,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// By the side that connects.
    Hello(Hello),
    /// The answer: a hello in the other direction.
    Welcome(Hello),
    /// The other answer.
    Refusal(String),
}

impl Said {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::from(MARK);
        to.extend(PROTOCOL.to_le_bytes());
        match self {
            Said::Hello(hello) => hello.encode(1, &mut to),
            Said::Welcome(hello) => hello.encode(2, &mut to),
            Said::Refusal(reason) => {
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

    pub(super) fn decode(bytes: &[u8]) -> Result<Said, Fault> {
        let mut from = Bytes(bytes);
        if from.take::<4>()? != MARK {
            return Err(Fault::Garbage("it does not begin like one".to_owned()));
        }
        let theirs = u32::from_le_bytes(from.take()?);
        if theirs != PROTOCOL {
            return Err(Fault::Protocol { theirs, ours: PROTOCOL });
        }
        let said = match u8::from_le_bytes(from.take()?) {
            1 => Said::Hello(Hello::decode(&mut from)?),
            2 => Said::Welcome(Hello::decode(&mut from)?),
            3 => {
                let reason = String::from_utf8_lossy(std::mem::take(&mut from.0));
                // One line, whatever came.
                Said::Refusal(reason.chars().map(|char| if char.is_control() { ' ' } else { char }).collect())
            }
            other => return Err(Fault::Garbage(format!("kind {other}"))),
        };
        if from.0.is_empty() { Ok(said) } else { Err(Fault::Garbage("it goes on after its end".to_owned())) }
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

/// Bytes that are taken from the beginning.
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
    fn what_is_said_is_understood() {
        for said in [Said::Hello(hello()), Said::Welcome(hello()), Said::Refusal("no".to_owned())] {
            let bytes = said.encode();
            assert!(bytes.len() <= SAID_BYTES_MAX);
            assert_eq!(Said::decode(&bytes), Ok(said));
        }
        let long = Said::Refusal("ä".repeat(1000)).encode();
        assert!(long.len() <= SAID_BYTES_MAX && Said::decode(&long).is_ok());
        let lines = Said::Refusal("one\ntwo\u{1b}".to_owned()).encode();
        assert_eq!(Said::decode(&lines), Ok(Said::Refusal("one two ".to_owned())));
    }

    #[test]
    fn what_is_not_said_is_refused() {
        let bytes = Said::Hello(hello()).encode();
        for end in 0..bytes.len() {
            assert!(matches!(Said::decode(&bytes[..end]), Err(Fault::Garbage(_))), "{end}");
        }
        assert!(matches!(Said::decode(&[bytes.clone(), vec![0]].concat()), Err(Fault::Garbage(_))));
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            Said::decode(&bytes)
        };
        assert!(matches!(changed(0, 0), Err(Fault::Garbage(_))));
        assert_eq!(changed(4, 9), Err(Fault::Protocol { theirs: 9, ours: PROTOCOL }));
        assert!(matches!(changed(8, 9), Err(Fault::Garbage(_))));
        let bounds = bytes.len() - 8;
        assert_eq!(changed(bounds + 3, 1), Err(Fault::Limits), "2^24 bytes and more");
        assert_eq!(changed(bounds + 4, 0), Err(Fault::Limits), "no messages");
    }
}
