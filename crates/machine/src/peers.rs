//! Placement of two workers that only exchange messages.

use terms::HardwareThread;

use crate::placement::PlaceError;
use crate::topology::{ThreadInfo, Topology};

/// Placement of the two peers of the message experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// On two cores of one socket, or two threads of one core.
    SameSocket,
    /// On two sockets of one machine.
    OtherSocket,
    /// On two machines.
    OtherMachine,
}

/// Two hardware threads: of one socket (on two cores, if it has two), or the first threads of two
/// sockets or of two machines.
///
/// # Errors
/// [`PlaceError::NoPeers`]: the machine has no such pair of threads.
pub fn place_peers(topology: &Topology, peers: Peers) -> Result<[HardwareThread; 2], PlaceError> {
    let threads = topology.threads();
    let Some(first) = threads.first() else {
        return Err(PlaceError::NoPeers("the machine has no hardware thread"));
    };
    let second = match peers {
        Peers::OtherSocket => {
            let here = threads.iter().filter(|info| info.machine == first.machine);
            here.into_iter().find(|info| info.package != first.package)
        }
        Peers::OtherMachine => threads.iter().find(|info| info.machine != first.machine),
        Peers::SameSocket => {
            let here = |info: &&ThreadInfo| info.package == first.package && info.thread != first.thread;
            let other_core = threads.iter().filter(here).find(|info| info.core != first.core);
            other_core.or_else(|| threads.iter().find(here))
        }
    };
    let second = second.ok_or(PlaceError::NoPeers(match peers {
        Peers::OtherSocket => "the machine has one socket",
        Peers::OtherMachine => "there is one machine",
        Peers::SameSocket => "every socket has one hardware thread",
    }))?;
    Ok([first.thread, second.thread])
}
