//! A worker's inbox: a ring of words that all other workers fill and the worker empties.
//!
//! Layout, in lines: the count of slots that were claimed, the count of slots that were emptied,
//! whether the worker sleeps; then the slots. A slot is a header and [`SLOT_WORDS`] words. A
//! message takes one slot or several that follow each other, of which the first one's header has
//! its number (counted from 1) and its length, so a message announces itself: announcement and
//! first words come with one line.
//!
//! Senders claim slots by adding to the count, fill them side by side, and announce the message
//! with the header. So messages of one sender arrive in their order. There is room for all messages
//! that workers can have for one of them ([`slots_for`]); a sender that finds none all the same has
//! its slots, and empties its own inbox until they are empty. The message that a receiver takes
//! next is in slots that are empty for its sender, so no circle of workers waits.
//!
//! Concurrency: any number of senders, one receiver. The receiver waits on the header of the next
//! slot, by spinning and then by sleeping; before it sleeps it announces that, and polls once more;
//! a sender announces its message, and then checks if the receiver sleeps. Both put a SeqCst
//! fence between (Dekker's pattern), so no message is slept through.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, Node, OutOfMemory, Platform};

/// Words of a message that a slot has room for.
const SLOT_WORDS: usize = 15;
const SLOT_BYTES: usize = (SLOT_WORDS + 1) * 8;
const _: () = assert!(SLOT_BYTES.is_multiple_of(LINE_BYTES));
/// Bits of a header that hold the length.
const LENGTH_BITS: u32 = 24;
/// Longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 15;
const _: () = assert!(MESSAGE_BYTES_MAX < 1 << LENGTH_BITS);
/// Slots for each worker that may send messages.
const SLOTS_PER_WORKER: usize = 8;
const SLOTS_MIN: usize = 2 * MESSAGE_BYTES_MAX / (SLOT_WORDS * 8);
/// How long a receiver spins before it sleeps.
pub(crate) const SPIN_NANOS: u64 = 20_000;

const CLAIMED: usize = 0;
const EMPTIED: usize = LINE_BYTES;
const SLEEPS: usize = 2 * LINE_BYTES;
const FIRST: usize = 4 * LINE_BYTES;

/// Slots that an inbox has where there are this many workers.
fn slots_for(workers: usize) -> u64 {
    (workers * SLOTS_PER_WORKER).max(SLOTS_MIN).next_power_of_two() as u64
}

/// Slots of a message of this many words.
#[inline]
fn slots_of(words: usize) -> u64 {
    words.div_ceil(SLOT_WORDS) as u64
}

/// The ring of one worker.
pub(crate) struct Inbox<P: Platform> {
    region: P::Region,
    /// A power of two: to divide by another number takes longer than to poll.
    slots: u64,
}

impl<P: Platform> Inbox<P> {
    /// An empty one, on the receiver's node, where there are this many workers.
    pub(crate) fn new(c: P::Core, node: Option<Node>, workers: usize) -> Result<Self, OutOfMemory> {
        let slots = slots_for(workers);
        Ok(Inbox { region: P::region(c, node, FIRST + slots as usize * SLOT_BYTES, "inbox")?, slots })
    }

    fn word(&self, at: usize) -> &P::Word {
        P::word_of(&self.region, at)
    }

    fn slot(&self, number: u64) -> usize {
        FIRST + (number & (self.slots - 1)) as usize * SLOT_BYTES
    }

    fn header(&self, number: u64) -> &P::Word {
        self.word(self.slot(number))
    }

    fn body(&self, number: u64, words: usize) -> &[P::Word] {
        P::words_of(&self.region, self.slot(number) + 8, words)
    }

    /// Claims the slots of a message of this many words, which is neither empty nor too long: the
    /// first of them. They are to be filled.
    #[inline]
    pub(crate) fn claim(&self, c: P::Core, words: usize) -> u64 {
        assert!(words > 0 && words <= MESSAGE_BYTES_MAX / 8, "a message of {words} words");
        // Relaxed: only numbers are handed out; headers announce what is in slots. Without a read
        // before, so that the line comes once.
        P::fetch_add(c, self.word(CLAIMED), slots_of(words), Ordering::Relaxed)
    }

    /// Returns true if the slots of a message of this many words are empty that were claimed from
    /// `first` on. `emptied` is what the sender remembers of this inbox.
    #[inline]
    pub(crate) fn has_room(&self, c: P::Core, emptied: &mut u64, first: u64, words: usize) -> bool {
        let end = first + slots_of(words);
        if end > *emptied + self.slots {
            // Acquire: pairs with the release of the receiver, whose reads of the slots are over.
            *emptied = P::load(c, self.word(EMPTIED), Ordering::Acquire);
        }
        end <= *emptied + self.slots
    }

    /// Sends a message in the slots that were claimed for it from `first` on. Pre: there is room.
    pub(crate) fn fill(&self, c: P::Core, first: u64, bytes: usize, words: &[u64]) {
        for (number, words) in (first..).zip(words.chunks(SLOT_WORDS)) {
            P::write_words(c, self.body(number, words.len()), words);
        }
        let header = self.header(first);
        // Release: pairs with the acquire of the receiver, which then reads the message.
        P::store(c, header, (first + 1) << LENGTH_BITS | bytes as u64, Ordering::Release);
        P::fence(c, Ordering::SeqCst);
        // Relaxed: after the fence.
        if P::load(c, self.word(SLEEPS), Ordering::Relaxed) != 0 {
            P::unpark(c, header, 1);
        }
    }

    /// The header of message `number`, and the bytes of the message if it is there.
    #[inline]
    fn poll(&self, c: P::Core, number: u64) -> (u64, Option<usize>) {
        // Acquire: pairs with the release of the sender.
        let header = P::load(c, self.header(number), Ordering::Acquire);
        let bytes = header & ((1 << LENGTH_BITS) - 1);
        (header, (header >> LENGTH_BITS == number + 1).then_some(bytes as usize))
    }

    /// Takes the message that begins with slot `next`, if it is there: its bytes; its words are in
    /// `words` then.
    ///
    /// Concurrency: the receiver only.
    #[inline]
    pub(crate) fn take(&self, c: P::Core, next: &mut u64, words: &mut Vec<u64>) -> Option<usize> {
        let bytes = self.poll(c, *next).1?;
        words.clear();
        words.resize(bytes.div_ceil(8), 0);
        for words in words.chunks_mut(SLOT_WORDS) {
            P::read_words(c, self.body(*next, words.len()), words);
            *next += 1;
        }
        // Release: pairs with the acquire of the next sender to these slots.
        P::store(c, self.word(EMPTIED), *next, Ordering::Release);
        Some(bytes)
    }

    /// Waits until the message with this number is there, or until the deadline; may return early.
    ///
    /// Concurrency: the receiver only.
    pub(crate) fn wait(&self, c: P::Core, next: u64, spin_nanos: u64, deadline: Nanos) {
        let (seen, there) = self.poll(c, next);
        if there.is_some() {
            return;
        }
        let header = self.header(next);
        if spin_nanos > 0 {
            let spins_until = P::now(c).plus(spin_nanos).min(deadline);
            if P::spin_while(c, header, seen, Some(spins_until)) != seen || spins_until == deadline {
                return;
            }
        }
        // Relaxed: before the fence.
        P::store(c, self.word(SLEEPS), 1, Ordering::Relaxed);
        P::fence(c, Ordering::SeqCst);
        if P::load(c, header, Ordering::Acquire) == seen {
            P::park(c, header, seen, Some(deadline));
        }
        P::store(c, self.word(SLEEPS), 0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};

    use super::*;

    #[test]
    fn messages_of_all_senders_arrive_in_their_orders() {
        const COUNT: u64 = 3_000;
        let c = Hardware::core();
        let inbox = Inbox::<Hardware>::new(c, None, 3).expect("memory");
        let worker = |c, me: usize| {
            let mut emptied = 0;
            if me > 0 {
                for number in 0..COUNT {
                    let words = vec![(me as u64) << 32 | number; 1 + (number % 40) as usize];
                    let first = inbox.claim(c, words.len());
                    while !inbox.has_room(c, &mut emptied, first, words.len()) {
                        Hardware::pause(c, 1_000);
                    }
                    inbox.fill(c, first, words.len() * 8, &words);
                }
                return;
            }
            let (mut next, mut words, mut counts) = (0, Vec::new(), [0; 3]);
            while counts != [0, COUNT, COUNT] {
                inbox.wait(c, next, SPIN_NANOS, Hardware::now(c).plus(1_000_000));
                let Some(bytes) = inbox.take(c, &mut next, &mut words) else { continue };
                let (sender, number) = ((words[0] >> 32) as usize, words[0] & 0xffff_ffff);
                assert_eq!(counts[sender], number);
                assert_eq!(bytes, 8 * (1 + (number % 40) as usize));
                assert!(words.iter().all(|word| *word == words[0]));
                counts[sender] += 1;
            }
        };
        Hardware::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
    }

    #[test]
    fn a_full_inbox_has_no_room() {
        let c = Hardware::core();
        let inbox = Inbox::<Hardware>::new(c, None, 1).expect("memory");
        let (mut emptied, mut next, mut words) = (0, 0, Vec::new());
        let sent = inbox.slots;
        for number in 0..sent {
            let first = inbox.claim(c, 1);
            assert!(inbox.has_room(c, &mut emptied, first, 1), "{number}");
            inbox.fill(c, first, 8, &[number]);
        }
        let first = inbox.claim(c, 1);
        assert!(!inbox.has_room(c, &mut emptied, first, 1));
        assert_eq!(inbox.take(c, &mut next, &mut words), Some(8));
        assert!(inbox.has_room(c, &mut emptied, first, 1));
        inbox.fill(c, first, 8, &[sent]);
        for number in 1..=sent {
            assert_eq!(inbox.take(c, &mut next, &mut words), Some(8));
            assert_eq!(words, [number]);
        }
        assert_eq!(inbox.take(c, &mut next, &mut words), None);
    }
}
