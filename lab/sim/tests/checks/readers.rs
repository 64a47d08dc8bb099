//! Crowds: many readers of one line, and cores that spin on a line which is written.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::common::{Words, places, transfer};
use machine::{Access, Description, HardwareThread, LineState};
use platform::{Node, Platform};
use sim::{Config, Costs, Shape, VirtualCore, VirtualMachine as Vm};

/// Four sockets of eight cores. Reading the clock is free.
fn four_sockets() -> Config {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(4, 8, 1)) };
    free_clock(config)
}

fn free_clock(config: Config) -> Config {
    let costs = Costs { clock_ps: 0, ..config.model.costs().clone() };
    config.with_costs(costs)
}

/// Runs a first worker and some others. Returns the picoseconds of the load of each of the others.
/// All begin at the tenth microsecond, each `apart` nanoseconds after the one before it.
fn readers(config: &Config, prepare: &[(u32, bool)], threads: &[u32], apart: u64) -> Vec<u64> {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let taken = Words::new(c, 0, 1 << 10, "taken");
        for (thread, write) in prepare {
            let touch = |c: VirtualCore, _: usize| match write {
                true => _ = Vm::fetch_add(c, words.line(0), 1, AcqRel),
                false => _ = Vm::load(c, words.line(0), Relaxed),
            };
            Vm::parallel(c, &places([*thread]), &touch, &mut |_| ());
        }
        let worker = |c, index: usize| {
            Vm::pause(c, 10_000 + apart * index as u64 - Vm::now(c).0);
            let begin = Vm::timestamp(c);
            Vm::load(c, words.line(0), Relaxed);
            Vm::poke(&taken.all()[index], Vm::timestamp(c) - begin);
        };
        Vm::parallel(c, &places(threads.iter().copied()), &worker, &mut |_| ());
        taken.all()[..threads.len()].iter().map(Vm::peek).collect()
    });
    outcome.expect("a run").value
}

/// The second reader in a socket waits for the first one's line, and then gets it from their L3.
#[test]
fn a_line_is_in_an_l3_when_it_has_arrived() {
    let config = four_sockets();
    let costs = config.model.costs();
    let far = transfer(&config, Access::Load, LineState::Shared, 8, 0);
    // Clean in socket 0 and 1; two cores of socket 2 and one of socket 3 read it.
    let clean = [(0, false), (8, false)];
    let taken = readers(&config, &clean, &[16, 17, 24], 5);
    assert_eq!(taken[0], far);
    let expected = far - 5_000 + costs.l3_ps / 2;
    assert_eq!(taken[1], expected, "after the first one's, and the way from the L3");
    assert!((far..far + costs.reader_ps).contains(&taken[2]), "{}", taken[2]);
    // Later it is an L3 hit.
    assert_eq!(readers(&config, &clean, &[16, 17], 1_000)[1], costs.l3_ps);
    // The third socket does not get it from a socket where it has not arrived.
    let description = Description::shipped("octo-socket").expect("shipped");
    let octo = Config::of(&description).expect("a machine");
    let model = octo.model.clone().with_free_translation();
    let octo = free_clock(Config { model, memory_bytes: 1 << 30, ..octo });
    // Sockets 0 and 2 are one hop from each other, and two hops from 5 and 7, which are neighbours.
    let far = transfer(&octo, Access::Load, LineState::Shared, 50, 0);
    let memory = octo.model.memory_ps(HardwareThread(50), Node(0)).expect("a node");
    let near = transfer(&octo, Access::Load, LineState::Shared, 70, 50);
    let (supplied, neighbour) =
        (far.min(memory), readers(&octo, &[(0, false), (20, false)], &[50, 70], 1_000)[1]);
    assert_eq!(neighbour, near, "the line has arrived at the neighbour");
    let together = readers(&octo, &[(0, false), (20, false)], &[50, 70], 5)[1];
    let way = transfer(&octo, Access::Load, LineState::Shared, 70, 20);
    assert!((way..=supplied + octo.model.costs().reader_ps).contains(&together), "{together}");
}

/// In a crowd that reads one line, each socket's first reader occupies the home, each further
/// reader its L3.
#[test]
fn a_crowd_of_readers_pays_for_each() {
    let config = four_sockets();
    let costs = config.model.costs();
    let far = transfer(&config, Access::Load, LineState::Modified, 8, 0);
    let shared = transfer(&config, Access::Load, LineState::Shared, 8, 0);
    // Modified by a core of socket 0; all cores of the other sockets read it at once.
    let threads: Vec<u32> = (8..32).collect();
    let taken = readers(&config, &[(0, true)], &threads, 0);
    let of_socket = |socket: usize| &taken[8 * (socket - 1)..8 * socket];
    let mut first: Vec<u64> = (1..4).map(|socket| *of_socket(socket).iter().min().expect("eight")).collect();
    first.sort_unstable();
    assert_eq!(first, [far, far + shared, far + shared + costs.reader_ps]);
    for socket in 1..4 {
        let mut times = of_socket(socket).to_vec();
        times.sort_unstable();
        let begin = times[0] + costs.l3_ps / 2;
        let expected: Vec<u64> = (0..7).map(|reader| begin + reader * costs.l3_reader_ps).collect();
        assert_eq!(times[1..], expected, "socket {socket}");
    }
}
