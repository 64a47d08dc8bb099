//! Links in the virtual machine: every mechanism keeps its guarantees under every schedule, and has
//! its declared costs.

// Tests hand ends to workers; no simulated time passes under a lock.
#![allow(clippy::disallowed_types)]

use std::sync::{Arc, Mutex};

use platform::link::{Bell, End, Limits, Mechanism, Patience, SendError, Side, Watch, connect, wait};
use platform::{HardwareThread, Nanos, Node, Place, Platform};
use sim::{Config, KernelCosts, Shape, SimError, VirtualCore, VirtualMachine, WaitReason};

const LIMITS: Limits = Limits { message_bytes_max: 100, messages_max: 4 };

type Ends = [End<VirtualMachine>; 2];

fn side(c: VirtualCore) -> Side<VirtualMachine> {
    Side { bell: Arc::new(Bell::new(c, Some(Node(0))).expect("memory")), node: Some(Node(0)) }
}

fn ends(c: VirtualCore, mechanism: Mechanism) -> Ends {
    connect(c, mechanism, [side(c), side(c)], LIMITS, None).expect("connected")
}

fn config() -> Config {
    Config { memory_bytes: 16 << 20, ..Config::new(Shape::new(2, 3, 1)) }
}

fn place(thread: u32) -> Place {
    Place { thread: Some(HardwareThread(thread)) }
}

fn send(c: VirtualCore, end: &mut End<VirtualMachine>, bytes: &[u8]) {
    while let Err(error) = end.sender.send(c, bytes) {
        assert!(matches!(error, SendError::Full), "{error}");
        VirtualMachine::pause(c, 500);
    }
}

/// Two senders and one receiver, which waits for both at once. Returns the sum of the received
/// numbers.
fn serve(c: VirtualCore, mechanism: Mechanism) -> u64 {
    const MESSAGES: u64 = 12;
    let own = side(c);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let [here, there] = connect(c, mechanism, [own.clone(), side(c)], LIMITS, None).expect("connected");
        near.push(here);
        far.push(Mutex::new(Some(there)));
    }
    let near = Mutex::new(Some(near));
    let sum = Mutex::new(0);
    let take = |slot: &Mutex<Option<End<VirtualMachine>>>| slot.lock().expect("no panic").take();
    let worker = |c, index: usize| {
        if index > 0 {
            let mut end = take(&far[index - 1]).expect("taken once");
            (0..MESSAGES).for_each(|number| send(c, &mut end, &[number as u8 + 1; 70]));
            return;
        }
        let mut near = near.lock().expect("no panic").take().expect("taken once");
        let (mut received, mut total, mut buffer) = (0, 0, [0; 100]);
        let mut next = [1u8; 2];
        while received < 2 * MESSAGES {
            for (end, next) in near.iter_mut().zip(&mut next) {
                while let Some(bytes) = end.receiver.receive(c, &mut buffer, Patience::None).expect("open") {
                    assert_eq!(buffer[..bytes], [*next; 70], "{mechanism}: in order, and whole");
                    (*next, received, total) = (*next + 1, received + 1, total + u64::from(buffer[0]));
                }
            }
            let receivers = near.iter().map(|end| &end.receiver);
            if received < 2 * MESSAGES {
                wait(c, &own.bell, receivers, &mut |_| false, None);
            }
        }
        *sum.lock().expect("no panic") = total;
    };
    VirtualMachine::parallel(c, &[place(0), place(1), place(3)], &worker, &mut |_| ());
    sum.into_inner().expect("no panic")
}

#[test]
fn one_worker_serves_many_links_under_every_schedule() {
    for (_, mechanism) in Mechanism::ALL {
        for seed in 0..40 {
            let config = config().with_seed(seed).perturbed();
            let outcome = VirtualMachine::run(&config, |c| serve(c, mechanism));
            assert_eq!(outcome.expect("nobody sleeps for ever").value, 2 * 78, "{mechanism}, seed {seed}");
        }
    }
}

#[test]
fn full_links_and_deadlines() {
    for (name, mechanism) in Mechanism::ALL {
        let program = |c| {
            let pair = Mutex::new(Some(ends(c, mechanism)));
            let worker = |c, _| {
                let [mut near, mut far] = pair.lock().expect("no panic").take().expect("taken once");
                let mut buffer = [0; 100];
                let end = VirtualMachine::now(c).plus(50_000);
                let got = far.receiver.receive(c, &mut buffer, Patience::Until(end)).expect("open");
                let late = VirtualMachine::now(c).since(end);
                assert!(got.is_none() && VirtualMachine::now(c) >= end && late < 10_000, "{name}: {late}");
                (0..4).for_each(|_| near.sender.send(c, &[1; 100]).expect("room for four"));
                assert!(matches!(near.sender.send(c, &[1; 100]), Err(SendError::Full)), "{name}");
                assert_eq!(far.receiver.receive(c, &mut buffer, Patience::None).expect("open"), Some(100));
                near.sender.send(c, &[1; 100]).expect("room again");
            };
            VirtualMachine::parallel(c, &[place(0)], &worker, &mut |_| ());
        };
        VirtualMachine::run(&config(), program).expect("it ends");
    }
}

#[test]
fn a_message_that_never_comes_is_a_deadlock_at_the_bell() {
    for (name, mechanism) in Mechanism::ALL {
        let program = |c| {
            let pair = Mutex::new(Some(ends(c, mechanism)));
            let worker = |c, _| {
                let [_near, mut far] = pair.lock().expect("no panic").take().expect("taken once");
                let _ = far.receiver.receive(c, &mut [0; 100], Patience::Forever);
            };
            VirtualMachine::parallel(c, &[place(0)], &worker, &mut |_| ());
        };
        let Err(SimError::Deadlock { waiting, .. }) = VirtualMachine::run(&config(), program) else {
            panic!("{name}: no deadlock")
        };
        assert!(
            waiting.iter().any(|fiber| fiber.region == Some("bell") && fiber.reason == WaitReason::Park),
            "{name}: {waiting:?}"
        );
    }
}

/// Nanoseconds of sending and receiving by one thread, after a first message.
fn alone(mechanism: Mechanism) -> u64 {
    let nanos = Mutex::new(0);
    let program = |c| {
        let pair = Mutex::new(Some(ends(c, mechanism)));
        let worker = |c, _| {
            let [mut near, mut far] = pair.lock().expect("no panic").take().expect("taken once");
            let mut start = Nanos(0);
            // Every slot of the ring is warm after four.
            for round in 0..9 {
                if round == 8 {
                    start = VirtualMachine::now(c);
                }
                near.sender.send(c, &[1; 100]).expect("room");
                let got = far.receiver.receive(c, &mut [0; 100], Patience::None).expect("open");
                assert_eq!(got, Some(100));
            }
            *nanos.lock().expect("no panic") = VirtualMachine::now(c).since(start);
        };
        VirtualMachine::parallel(c, &[place(0)], &worker, &mut |_| ());
    };
    VirtualMachine::run(&config(), program).expect("it ends");
    nanos.into_inner().expect("no panic")
}

#[test]
fn what_was_measured_on_one_thread_comes_out_again() {
    let ring = alone(Mechanism::SharedMemory);
    for (name, mechanism) in Mechanism::ALL {
        let Mechanism::Kernel(kernel) = mechanism else { continue };
        let costs = KernelCosts::of(kernel);
        let stated = costs.send_nanos + costs.receive_nanos;
        let nanos = alone(mechanism);
        assert!((stated..stated + ring + 200).contains(&nanos), "{name}: {nanos} for {stated}, ring {ring}");
    }
}

#[test]
fn one_poll_of_many_links_costs_as_much_as_a_poll_of_one() {
    for (name, mechanism) in Mechanism::ALL {
        let Mechanism::Kernel(kernel) = mechanism else { continue };
        let poll_nanos = KernelCosts::of(kernel).poll_nanos;
        VirtualMachine::run(&config(), |c| {
            let (mut near, mut far): (Vec<_>, Vec<_>) =
                (0..8).map(|_| ends(c, mechanism)).map(|[near, far]| (near, far)).unzip();
            let mut watch = Watch::new(c, &near.iter().map(|end| &end.receiver).collect::<Vec<_>>());
            send(c, &mut far[5], &[1; 8]);
            send(c, &mut far[2], &[1; 8]);
            let mut poll = |near: &[End<VirtualMachine>]| {
                let (start, mut found) = (VirtualMachine::now(c), Vec::new());
                watch.poll(c, near.iter().map(|end| &end.receiver), |place| found.push(place));
                (found, VirtualMachine::now(c).since(start))
            };
            let first = poll(&near).0;
            assert_eq!(first, [2, 5], "{name}");
            let got = near[2].receiver.receive(c, &mut [0; 100], Patience::None).expect("open");
            let (found, nanos) = poll(&near);
            assert_eq!((got, found), (Some(8), vec![5]), "{name}");
            // A little more: the positions of the rings are in the cache of the core.
            assert!((poll_nanos..poll_nanos + 200).contains(&nanos), "{name}: {nanos} and {poll_nanos}");
        })
        .expect("it ends");
    }
}

#[test]
fn sockets_of_one_machine_ring_the_bell_of_a_worker_at_work() {
    for (name, mechanism) in Mechanism::ALL {
        VirtualMachine::run(&config(), |c| {
            let own = side(c);
            let [near, mut far] =
                connect(c, mechanism, [own.clone(), side(c)], LIMITS, None).expect("connected");
            assert_eq!(near.receiver.rings(), matches!(name, "shm" | "uds"), "{name}");
            assert!(!own.bell.take_news(c), "{name}");
            send(c, &mut far, &[1]);
            assert!(own.bell.take_news(c) || !near.receiver.rings(), "{name}");
        })
        .expect("it ends");
    }
}
