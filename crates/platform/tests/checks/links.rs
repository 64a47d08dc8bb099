//! Links on hardware: every mechanism keeps its promises.

use std::sync::Arc;

use platform::link::{
    Bell, End, KernelMechanism, Limits, LinkError, Mechanism, Messages, Outbox, Patience, ReceiveError,
    SendError, Side, Watch, Wire, connect, wait,
};
use platform::{Hardware, Nanos, Place, Platform};

use crate::support::{LIMITS, message};

fn ends(mechanism: Mechanism) -> [End<Hardware>; 2] {
    let c = Hardware::core();
    let side = || Side { bell: Arc::new(Bell::new(c, None).expect("memory")), node: None };
    connect(c, mechanism, [side(), side()], LIMITS, None)
        .unwrap_or_else(|error| panic!("{mechanism}: {error}"))
}

/// Sends again until there is room.
fn send(end: &mut End<Hardware>, bytes: &[u8]) {
    loop {
        match end.sender.send(Hardware::core(), bytes) {
            Ok(()) => return,
            Err(SendError::Full) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn messages_arrive_whole_and_in_order_both_ways() {
    const COUNT: usize = 3_000;
    for (name, mechanism) in Mechanism::ALL {
        let slots = ends(mechanism).map(|end| std::sync::Mutex::new(Some(end)));
        let run = |c, index: usize| {
            let mut end = slots[index].lock().expect("no panic").take().expect("taken once");
            let mut buffer = [0; 300];
            let mut receive = |end: &mut End<Hardware>, number| {
                let length = end.receiver.receive(c, &mut buffer, Patience::Forever).expect("open");
                assert_eq!(buffer[..length.expect("it waits")], message(number), "{name} {number}");
            };
            if index == 0 {
                (0..COUNT).for_each(|number| send(&mut end, &message(number)));
                (0..COUNT).for_each(|number| receive(&mut end, number));
            } else {
                (0..COUNT).for_each(|number| receive(&mut end, number));
                (0..COUNT).for_each(|number| send(&mut end, &message(number)));
            }
        };
        Hardware::parallel(Hardware::core(), &[Place { thread: None }; 2], &run, &mut |_| ());
    }
}

#[test]
fn a_full_link_refuses_and_loses_nothing() {
    let c = Hardware::core();
    for (name, mechanism) in Mechanism::ALL {
        let [mut near, mut far] = ends(mechanism);
        let mut sent = 0;
        while near.sender.send(c, &[sent as u8; 300]).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "{name} is never full");
        }
        assert!(sent > 0 && matches!(near.sender.send(c, &[0; 300]), Err(SendError::Full)), "{name}");
        let mut buffer = [0; 300];
        for number in 0..sent {
            let length = far.receiver.receive(c, &mut buffer, Patience::None).expect("open");
            assert_eq!((length, buffer[0]), (Some(300), number as u8), "{name}");
        }
        assert_eq!(far.receiver.receive(c, &mut buffer, Patience::None).expect("open"), None, "{name}");
        assert!(near.sender.send(c, &[1]).is_ok(), "{name}: there is room again");
    }
}

#[test]
fn waiting_ends_at_the_deadline() {
    let c = Hardware::core();
    for (name, mechanism) in Mechanism::ALL {
        let [_near, mut far] = ends(mechanism);
        let end = Hardware::now(c).plus(1_000_000);
        let got = far.receiver.receive(c, &mut [0; 300], Patience::Until(end)).expect("open");
        assert!(got.is_none() && Hardware::now(c) >= end, "{name}");
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let c = Hardware::core();
    for (_, mechanism) in Mechanism::ALL {
        let [mut near, _far] = ends(mechanism);
        assert!(matches!(near.sender.send(c, &[0; 301]), Err(SendError::Length { bytes: 301, max: 300 })));
        assert!(matches!(near.sender.send(c, &[]), Err(SendError::Length { bytes: 0, .. })));
        let short = near.receiver.receive(c, &mut [0; 299], Patience::None);
        assert!(matches!(short, Err(ReceiveError::Buffer { buffer: 299, max: 300 })));
    }
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let c = Hardware::core();
    for name in ["pipe", "fifo", "uds", "tcp"] {
        let (_, mechanism) = Mechanism::ALL.into_iter().find(|(other, _)| *other == name).expect("listed");
        let [near, mut far] = ends(mechanism);
        drop(near);
        let got = far.receiver.receive(c, &mut [0; 300], Patience::Forever);
        assert!(matches!(got, Err(ReceiveError::Closed)), "{name}: {got:?}");
    }
}

#[test]
fn connections_that_cannot_be_are_refused() {
    let c = Hardware::core();
    let side = Side { bell: Arc::new(Bell::<Hardware>::new(c, None).expect("memory")), node: None };
    for limits in [
        Limits { message_bytes_max: 0, ..LIMITS },
        Limits { message_bytes_max: 4089, ..LIMITS },
        Limits { messages_max: 0, ..LIMITS },
    ] {
        let refused = connect(c, Mechanism::SharedMemory, [side.clone(), side.clone()], limits, None);
        assert!(matches!(refused.err(), Some(LinkError::Limits(refused)) if refused == limits));
    }
    let wire = Some(Wire { one_way_nanos: 1, bytes_per_second: None });
    for (_, mechanism) in Mechanism::ALL {
        let refused = connect(c, mechanism, [side.clone(), side.clone()], LIMITS, wire);
        assert!(matches!(refused.err(), Some(LinkError::Wire(refused)) if refused == mechanism));
    }
}

/// One worker serves four links of one mechanism and a word of its own from one bell.
fn serve(mechanism: Mechanism) {
    const LINKS: usize = 4;
    const MESSAGES: usize = 200;
    let c = Hardware::core();
    let bell = Arc::new(Bell::<Hardware>::new(c, None).expect("memory"));
    let flag = Hardware::region(c, None, 8, "test").expect("memory");
    let flag = || Hardware::word_of(&flag, 0);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..LINKS {
        let own = Side { bell: Arc::clone(&bell), node: None };
        let other = Side { bell: Arc::new(Bell::new(c, None).expect("memory")), node: None };
        let [here, there] = connect(c, mechanism, [own, other], LIMITS, None).expect("connected");
        near.push(here);
        far.push(std::sync::Mutex::new(there));
    }
    let near = std::sync::Mutex::new(near);
    let served = |c, near: &mut Vec<End<Hardware>>| {
        let (mut received, mut flagged, mut buffer) = (0, false, [0; 300]);
        while received < LINKS * MESSAGES || !flagged {
            for end in near.iter_mut() {
                while end.receiver.receive(c, &mut buffer, Patience::None).expect("open").is_some() {
                    received += 1;
                }
            }
            flagged = Hardware::load(c, flag(), std::sync::atomic::Ordering::Acquire) != 0;
            if received < LINKS * MESSAGES || !flagged {
                let receivers = near.iter().map(|end| &end.receiver);
                let was = flagged;
                let mut ready =
                    |c| !was && Hardware::load(c, flag(), std::sync::atomic::Ordering::Acquire) != 0;
                let end = Nanos(Hardware::now(c).0 + 50_000_000);
                wait(c, &bell, receivers, &mut ready, Some(end));
            }
        }
    };
    let run = |c, index: usize| {
        if index == 0 {
            return served(c, &mut near.lock().expect("no panic"));
        }
        let mut end = far[index - 1].lock().expect("no panic");
        (0..MESSAGES).for_each(|number| send(&mut end, &message(number)));
        if index == LINKS {
            Hardware::store(c, flag(), 1, std::sync::atomic::Ordering::Release);
            bell.ring(c);
        }
    };
    Hardware::parallel(c, &[Place { thread: None }; LINKS + 1], &run, &mut |_| ());
}

#[test]
fn one_worker_waits_for_many_links_in_one_place() {
    Mechanism::ALL.into_iter().for_each(|(_, mechanism)| serve(mechanism));
}

#[test]
fn one_poll_finds_the_links_that_have_something() {
    const LINKS: usize = 4;
    let c = Hardware::core();
    for (name, mechanism) in Mechanism::ALL {
        let (mut near, mut far): (Vec<_>, Vec<_>) =
            (0..LINKS).map(|_| ends(mechanism)).map(|[near, far]| (near, Some(far))).unzip();
        let mut watch = Watch::new(c, &near.iter().map(|end| &end.receiver).collect::<Vec<_>>());
        let calls = near[0].receiver.calls();
        assert_eq!(calls, mechanism != Mechanism::SharedMemory, "{name}");
        let mut poll = |near: &[End<Hardware>]| {
            let mut found = Vec::new();
            watch.poll(c, near.iter().map(|end| &end.receiver), |place| found.push(place));
            found.sort_unstable();
            // What needs no call is polled anyway.
            if calls { found } else { Vec::new() }
        };
        let expected = |places: &[usize]| if calls { places.to_vec() } else { Vec::new() };
        assert_eq!(poll(&near), expected(&[]), "{name}");
        for place in [3, 1] {
            send(far[place].as_mut().expect("open"), &[7; 9]);
        }
        assert_eq!(poll(&near), expected(&[1, 3]), "{name}");
        assert_eq!(poll(&near), expected(&[1, 3]), "{name}: as long as it is there");
        let got = near[1].receiver.receive(c, &mut [0; 300], Patience::None).expect("open");
        assert_eq!((got, poll(&near)), (Some(9), expected(&[3])), "{name}");
        if name != "mq" {
            far[0] = None;
            assert_eq!(poll(&near), expected(&[0, 3]), "{name}: an end is something");
        }
    }
}

#[test]
fn sockets_of_one_machine_ring_the_bell() {
    let c = Hardware::core();
    for (name, mechanism) in Mechanism::ALL {
        let bell = Arc::new(Bell::new(c, None).expect("memory"));
        let own = Side { bell: Arc::clone(&bell), node: None };
        let other = Side { bell: Arc::new(Bell::new(c, None).expect("memory")), node: None };
        let [near, mut far] = connect(c, mechanism, [own, other], LIMITS, None).expect("connected");
        let unix = Mechanism::Kernel(KernelMechanism::Unix);
        let rings = mechanism == Mechanism::SharedMemory || mechanism == unix;
        assert!(!bell.take_news(c) && near.receiver.rings() == rings, "{name}");
        send(&mut far, &[1]);
        assert_eq!((bell.take_news(c), bell.take_news(c)), (rings, false), "{name}");
    }
}

#[test]
fn an_outbox_sends_many_messages_as_one_and_loses_none() {
    const SMALL: usize = 20;
    let c = Hardware::core();
    for (name, mechanism) in Mechanism::ALL {
        let [near, mut far] = ends(mechanism);
        let mut outbox = Outbox::new(near.sender);
        let mut sent = 0u32;
        let refused = loop {
            let mut small = [0; SMALL];
            small[..4].copy_from_slice(&sent.to_le_bytes());
            match outbox.push(c, &small) {
                Ok(()) => sent += 1,
                Err(refused) => break refused,
            }
            assert!(sent < 1_000_000, "{name} is never full");
        };
        assert!(matches!(refused, SendError::Full), "{name}: {refused}");
        assert!(matches!(outbox.flush(c), Err(SendError::Full)) && !outbox.is_empty(), "{name}");
        let (mut received, mut buffer) = (0u32, [0; 300]);
        let mut take = |far: &mut End<Hardware>| {
            while let Some(bytes) = far.receiver.receive(c, &mut buffer, Patience::None).expect("open") {
                for small in Messages::of(&buffer[..bytes]) {
                    let small = small.expect("as it was sent");
                    assert_eq!((small.len(), &small[..4]), (SMALL, &received.to_le_bytes()[..]), "{name}");
                    received += 1;
                }
            }
        };
        take(&mut far);
        outbox.flush(c).expect("room");
        take(&mut far);
        assert_eq!(received, sent, "{name}");
        let (collected, messages) = outbox.counts();
        assert!(outbox.is_empty() && collected == u64::from(sent), "{name}");
        // Each small one takes two bytes more.
        assert_eq!(messages, u64::from(sent.div_ceil(300 / (SMALL as u32 + 2))), "{name}");
    }
}

#[test]
fn an_outbox_takes_what_fits_into_a_message() {
    let c = Hardware::core();
    let [near, mut far] = ends(Mechanism::SharedMemory);
    let mut outbox = Outbox::new(near.sender);
    assert!(matches!(outbox.push(c, &[0; 299]), Err(SendError::Length { bytes: 299, max: 298 })));
    assert!(matches!(outbox.push(c, &[]), Err(SendError::Length { bytes: 0, max: 298 })));
    outbox.flush(c).expect("nothing to send");
    assert_eq!(far.receiver.receive(c, &mut [0; 300], Patience::None).expect("open"), None);
    outbox.push(c, &[7; 298]).expect("it fits");
    outbox.flush(c).expect("room");
    let mut buffer = [0; 300];
    assert_eq!(far.receiver.receive(c, &mut buffer, Patience::None).expect("open"), Some(300));
    let whole: Vec<_> = Messages::of(&buffer).collect();
    assert_eq!(whole, [Ok(&[7; 298][..])]);
    let parts: Vec<_> = Messages::of(&buffer[..299]).collect();
    assert!(matches!(parts[..], [Err(_)]), "{parts:?}");
}
