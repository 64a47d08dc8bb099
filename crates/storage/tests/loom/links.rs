//! The ring of messages, and the bell at which workers wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::platform::Platform;
use ::platform::link::{Bell, Limits, Patience, Side, ring};
use loom::thread;

use crate::platform::*;
use crate::{Mark, Shared};

type P<O> = LoomPlatform<O>;

fn side<O: Weakening>(c: LoomCore) -> Side<P<O>> {
    Side { bell: Arc::new(Bell::new(c, None).expect("memory")), node: None }
}

/// Bytes of a region that models declare: the control line and two slots of one line.
const DECLARED_BYTES: usize = 192;

/// Every message arrives whole, once and in order, through a ring with fewer slots than messages.
fn messages_arrive_whole<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    let limits = Limits { message_bytes_max: 16, messages_max: 1 };
    let (mut sender, mut receiver) = ring(c, side::<O>(c), limits).expect("memory");
    declare(DECLARED_BYTES);
    let (full, empty) = (marks[0].clone(), marks[1].clone());
    let sending = thread::spawn(move || {
        for number in 1..=2u8 {
            while sender.send(c, &[number; 16]).is_err() {
                full.hit();
                P::<O>::pause(c, 1);
            }
        }
    });
    for number in 1..=2u8 {
        let mut buffer = [0; 16];
        let length = loop {
            match receiver.take(c, &mut buffer) {
                Some(length) => break length,
                None => {
                    empty.hit();
                    P::<O>::pause(c, 1);
                }
            }
        };
        assert_eq!((length, buffer), (16, [number; 16]), "another message");
    }
    sending.join().expect("the sender");
}

/// A receiver that sleeps is woken by its message.
fn a_message_wakes_its_receiver<O: Weakening>(c: LoomCore, _: &[Mark; 1]) {
    let limits = Limits { message_bytes_max: 8, messages_max: 1 };
    let (mut sender, mut receiver) = ring(c, side::<O>(c), limits).expect("memory");
    declare(DECLARED_BYTES);
    let sending = thread::spawn(move || sender.send(c, &[7; 8]).expect("an empty ring"));
    let mut buffer = [0; 8];
    assert_eq!(receiver.receive(c, &mut buffer, Patience::Forever), Some(8));
    assert_eq!(buffer, [7; 8]);
    sending.join().expect("the sender");
}

/// A core that waits at a bell for a word is woken, whether it spins first or not.
fn rings_are_not_lost<O: Weakening>(c: LoomCore, marks: &[Mark; 1], spin_nanos: u64) {
    let bell = Arc::new(Bell::<P<O>>::new(c, None).expect("memory"));
    let shared = Shared::new::<O>(c, 1);
    let ringing = {
        let (bell, shared) = (Arc::clone(&bell), Arc::clone(&shared));
        thread::spawn(move || {
            P::<O>::store(c, shared.at::<LoomWord>(0), 1, Ordering::Relaxed);
            bell.ring(c);
        })
    };
    let there = |c| P::<O>::load(c, shared.at::<LoomWord>(0), Ordering::Relaxed) != 0;
    while !there(c) {
        marks[0].hit();
        bell.wait(c, spin_nanos, &mut |c| there(c), None);
    }
    ringing.join().expect("the ringer");
}

fn rings_are_not_lost_asleep<O: Weakening>(c: LoomCore, marks: &[Mark; 1]) {
    rings_are_not_lost::<O>(c, marks, 0);
}

fn rings_are_not_lost_spinning<O: Weakening>(c: LoomCore, marks: &[Mark; 1]) {
    rings_are_not_lost::<O>(c, marks, 1);
}

/// A worker that polls whenever there is news misses nothing, whichever thread rings.
fn news_misses_nothing<O: Weakening>(c: LoomCore, marks: &[Mark; 1]) {
    let bell = Arc::new(Bell::<P<O>>::new(c, None).expect("memory"));
    let shared = Shared::new::<O>(c, 2);
    let ringing = [0, 1].map(|line| {
        let (bell, shared) = (Arc::clone(&bell), Arc::clone(&shared));
        thread::spawn(move || {
            P::<O>::store(c, shared.at::<LoomWord>(line), 1, Ordering::Relaxed);
            bell.ring(c);
        })
    });
    let mut seen = [false; 2];
    if bell.take_news(c) {
        seen = [0, 1].map(|line| P::<O>::load(c, shared.at::<LoomWord>(line), Ordering::Relaxed) != 0);
        if seen != [true; 2] {
            marks[0].hit();
        }
    }
    ringing.into_iter().for_each(|ringer| ringer.join().expect("a ringer"));
    assert!(bell.take_news(c) || seen == [true; 2], "a ring is lost");
}

#[test]
fn ring_messages_arrive_whole() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(3, move |c| messages_arrive_whole::<AsWritten>(c, &inside));
    marks[0].assert_reached("a full ring");
    marks[1].assert_reached("an empty ring");
}

#[test]
fn ring_messages_wake_their_receiver() {
    explore(3, |c| a_message_wakes_its_receiver::<AsWritten>(c, &Default::default()));
}

#[test]
fn bells_lose_no_ring() {
    let marks: [Mark; 1] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| rings_are_not_lost_asleep::<AsWritten>(c, &inside));
    marks[0].assert_reached("a wait");
    explore(4, |c| rings_are_not_lost_spinning::<AsWritten>(c, &Default::default()));
}

#[test]
fn bells_have_all_news() {
    let marks: [Mark; 1] = Default::default();
    let inside = marks.clone();
    explore(2, move |c| news_misses_nothing::<AsWritten>(c, &inside));
    marks[0].assert_reached("news of one of two");
}

macro_rules! mutants {
    ($($test:ident: $model:ident $weakening:ident $message:expr;)*) => { $(
        #[test]
        fn $test() {
            expect_caught($message, 4, |c| $model::<$weakening>(c, &Default::default()));
        }
    )* };
}

mutants! {
    mutant_ring_announced_relaxed: messages_arrive_whole WithRelaxedStores "another message";
    mutant_ring_looked_at_relaxed: messages_arrive_whole WithRelaxedLoads "another message";
    mutant_bell_without_fences: rings_are_not_lost_asleep WithoutSeqCstFences SLEEPS;
    mutant_news_without_fences: news_misses_nothing WithoutSeqCstFences "a ring is lost";
    mutant_bell_without_seq_cst: rings_are_not_lost_spinning WithoutSeqCstOperations SLEEPS;
}
