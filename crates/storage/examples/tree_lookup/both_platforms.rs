//! The same lookups, generic over the platform: on the machine itself and in the virtual machine,
//! which has cores that the machine has not. Times in the virtual machine are virtual.

use std::sync::atomic::Ordering;

use platform::{HardwareThread, LINE_BYTES, Place, Platform};
use sim::{Config, Shape, VirtualMachine};
use storage::tree::{LeafChanges, MemoryNodes, NoGuard, Tree};
use storage::{Epochs, Local, Memory};
use terms::random::SplitMix;

use super::SEED;

/// Sockets and cores of the virtual machine.
const SHAPE: (usize, usize) = (2, 4);
/// Numbers of simulated cores that are compared.
const CORES: [usize; 3] = [1, 2, 8];
/// Lookups of each core, in one run that warms up and one that is measured.
const PROBES_MAX: usize = 20_000;
const NODE_BYTES: usize = 768;

/// Nanoseconds that the slowest of `cores` cores takes for a lookup in a tree with these keys.
fn nanos_per_lookup<P: Platform>(c: P::Core, cores: usize, keys: &[u64], probes: usize) -> f64 {
    let memory = Memory::<P>::new(c, 1 << 30).expect("memory");
    let epochs = Epochs::new(c, 1 + cores, 0).expect("memory");
    let times = P::region(c, None, cores * LINE_BYTES, "times").expect("memory");
    // SAFETY: memory and epochs are declared before, so dropped after; the numbers differ.
    let local = |number| unsafe { Local::new(&memory, &epochs, number, None) };
    let mut first: Local<P> = local(0);
    first.enter(c);
    // SAFETY: the memory outlives the tree, which is used inside epochs only.
    let tree: Tree<P, MemoryNodes<NODE_BYTES>, 1> =
        unsafe { Tree::new(c, MemoryNodes, &mut first) }.expect("memory");
    let mut changes = LeafChanges::new();
    for key in keys {
        tree.insert(c, &mut first, &[*key], key | 1, NoGuard, &mut changes).expect("memory");
        changes.clear();
    }
    first.leave(c);
    let worker = |c, index: usize| {
        let mut local = local(1 + index);
        local.enter(c);
        let mut random = SplitMix::new(SEED + index as u64);
        let probes: Vec<u64> = (0..probes).map(|_| keys[random.next() as usize % keys.len()]).collect();
        for _ in 0..2 {
            let started = P::now(c);
            for key in &probes {
                assert!(tree.get(c, &[*key]).value == Some(key | 1));
            }
            let nanos = P::now(c).since(started);
            P::store(c, P::word_of(&times, index * LINE_BYTES), nanos, Ordering::Relaxed);
        }
        local.leave(c);
    };
    let places: Vec<Place> =
        (0..cores).map(|index| Place { thread: Some(HardwareThread(index as u32)) }).collect();
    P::parallel(c, &places, &worker, &mut |_| ());
    let slowest =
        (0..cores).map(|index| P::peek(P::word_of(&times, index * LINE_BYTES))).max().unwrap_or_default();
    slowest as f64 / probes as f64
}

fn in_virtual_machine(cores: usize, keys: &[u64], probes: usize) -> f64 {
    let (sockets, cores_per_socket) = SHAPE;
    let mut config = Config::new(Shape::new(sockets, cores_per_socket, 1)).with_seed(SEED);
    config.memory_bytes = 2 << 30;
    VirtualMachine::run(&config, |c| nanos_per_lookup::<VirtualMachine>(c, cores, keys, probes))
        .expect("the virtual machine runs")
        .value
}

/// Prints time and scaling of lookups among `count` keys on both platforms; the scaling in the
/// virtual machine.
pub fn lookups(count: usize) -> Vec<f64> {
    let mut random = SplitMix::new(SEED);
    let keys: Vec<u64> = (0..count).map(|_| random.next()).collect();
    let probes = count.min(PROBES_MAX);
    let hardware = nanos_per_lookup::<platform::Hardware>(platform::Hardware::core(), 1, &keys, probes);
    println!("lookups among {count} keys in nodes of {NODE_BYTES} bytes, {probes} a core");
    println!("hardware,         1 core     {hardware:>8.1} ns a lookup");
    let mut one = 0.0;
    CORES
        .map(|cores| {
            let nanos = in_virtual_machine(cores, &keys, probes);
            if cores == 1 {
                one = nanos;
            }
            let scaling = cores as f64 * one / nanos;
            println!(
                "virtual machine, {cores:>2} core(s)  {nanos:>8.1} virtual ns a lookup   scaling {scaling:.2}"
            );
            scaling
        })
        .to_vec()
}
