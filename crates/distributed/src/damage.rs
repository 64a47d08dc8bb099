//! Bytes that no worker sends, into what takes the messages of workers: none of it becomes a
//! message.
//!
//! `ISLES_DAMAGE_ROUNDS` is the number of rounds of each test; `.ci/deep damage` makes many.

use crate::map::WorkerName;
use crate::messages::{
    GlobalId, HEAD_BYTES, Inbox, MESSAGE_BYTES_MAX, Message, MessageError, Refusal, encode,
};
use terms::random::Xorshift;

/// Actions and outputs of any length.
type ProcedureMessage = Message<Vec<u8>, String>;

fn rounds() -> u64 {
    std::env::var("ISLES_DAMAGE_ROUNDS").map_or(2_000, |rounds| rounds.parse().expect("a number"))
}

struct Random(Xorshift);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn message(&mut self) -> ProcedureMessage {
        let name =
            |random: &mut Random| WorkerName { instance: random.next() as u16, worker: random.next() as u16 };
        let id = GlobalId { coordinator: name(self), sequence: self.next() };
        match self.below(9) {
            0 => Message::Hello {
                version: 1,
                fingerprint: self.next() as u32,
                from: name(self),
                to: name(self),
            },
            1 => {
                let actions = (0..self.below(5)).map(|_| self.bytes(90)).collect();
                Message::Request { id, is_last: self.below(2) == 0, only_reads: self.below(2) == 0, actions }
            }
            2 => Message::Vote { id, result: Ok(vec!["ä".repeat(self.below(40)); self.below(4)]) },
            3 => Message::Vote { id, result: Err(Refusal::Conflict) },
            4 => Message::Vote { id, result: Err(Refusal::Failed("no".repeat(self.below(40)))) },
            5 => Message::Decision { id, commit: self.below(2) == 0 },
            6 => Message::Acknowledgement { id },
            7 => Message::Inquiry { id },
            _ => Message::Goodbye,
        }
    }

    /// Changes a bit or a byte, cuts, lengthens, repeats a piece or puts one elsewhere.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(7) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.next() as u8,
            2 => bytes.truncate(at),
            3 => bytes.insert(at, self.next() as u8),
            4 => drop(bytes.remove(at)),
            5 => {
                let end = at + self.below((bytes.len() - at).min(40) + 1);
                let piece = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes.rotate_left(at),
        }
    }
}

/// The messages that are decoded if the bytes arrive in pieces.
fn taken(random: &mut Random, bytes: &[u8]) -> (Vec<ProcedureMessage>, Result<(), MessageError>) {
    let (mut inbox, mut messages, mut rest) = (Inbox::default(), Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(1 + random.below(rest.len()));
        inbox.push(piece);
        rest = behind;
        loop {
            match inbox.take::<Vec<u8>, String>() {
                Ok(Some((message, _))) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Err(error)),
            }
        }
    }
    (messages, Ok(()))
}

#[test]
fn only_sent_messages_come_out() {
    let (mut refused, mut short) = (0, 0);
    for round in 0..rounds() {
        let mut random = Random(Xorshift::new(round + 1));
        let sent: Vec<ProcedureMessage> = (0..1 + random.below(6)).map(|_| random.message()).collect();
        let (mut stream, mut frames) = (Vec::new(), Vec::new());
        for message in &sent {
            encode(message, &mut stream).expect("short");
            frames.push(stream.len());
        }
        assert_eq!(taken(&mut random, &stream), (sent.clone(), Ok(())), "round {round}");
        let mut damaged = stream.clone();
        random.damage(&mut damaged);
        // Up to the first byte that differs, what came is what was sent.
        let same = damaged.iter().zip(&stream).take_while(|(left, right)| left == right).count();
        let whole = frames.iter().filter(|end| **end <= same).count();
        let (got, end) = taken(&mut random, &damaged);
        assert!(got.len() >= whole && got[..whole] == sent[..whole], "round {round}");
        // A piece that is a frame as a whole is a message at another place.
        assert!(got.iter().all(|message| sent.contains(message)), "round {round}: {got:?}");
        refused += u64::from(end.is_err());
        short += u64::from(end.is_ok() && got.len() < sent.len());
    }
    assert!(refused > rounds() / 4 && short > rounds() / 50, "{refused} refused, {short} short");
}

#[test]
fn forged_frames_with_the_right_checksum_hold_a_message_or_nothing() {
    let (mut refused, mut meaningful) = (0, 0);
    for round in 0..rounds() {
        let mut random = Random(Xorshift::new(round + 1));
        let mut body = match random.below(3) {
            0 => random.bytes(300),
            _ => {
                let mut stream = Vec::new();
                encode(&random.message(), &mut stream).expect("short");
                stream.split_off(HEAD_BYTES)
            }
        };
        if !body.is_empty() {
            random.damage(&mut body);
        }
        // Lengths of what is inside that no frame holds.
        if random.below(4) == 0 {
            let at = random.below(body.len() + 1);
            body.splice(at..at, [0xFF; 9].into_iter().chain([1]));
        }
        let length = (body.len() as u32).to_le_bytes();
        let frame = [&length[..], &crc32c::crc32c(&body).to_le_bytes(), &body].concat();
        match taken(&mut random, &frame) {
            (messages, Ok(())) => {
                let [message] = &messages[..] else { panic!("round {round}: {messages:?}") };
                meaningful += 1;
                // It can be encoded: it is a message like others.
                let mut again = Vec::new();
                encode(message, &mut again).expect("short");
                assert!(again.len() <= frame.len(), "round {round}: {message:?}");
            }
            (messages, Err(error)) => {
                let known = matches!(error, MessageError::Malformed(_) | MessageError::Length(0));
                assert!(messages.is_empty() && known, "round {round}: {error}");
                refused += 1;
            }
        }
    }
    assert!(
        refused > rounds() / 4 && meaningful > rounds() / 20,
        "{refused} refused, {meaningful} were messages"
    );
}

#[test]
fn what_is_longer_than_any_message_is_refused_at_its_head() {
    for round in 0..rounds() {
        let mut random = Random(Xorshift::new(round + 1));
        let length = (random.next() as u32).max(MESSAGE_BYTES_MAX as u32 + 1);
        let mut inbox = Inbox::default();
        inbox.push(&length.to_le_bytes());
        inbox.push(&random.next().to_le_bytes()[..4]);
        assert_eq!(inbox.take::<Vec<u8>, String>(), Err(MessageError::Length(length as usize)));
    }
}
