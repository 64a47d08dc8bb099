//! The bells at which workers of several instances wait, and their links to each other.

use std::sync::{Arc, Mutex};

use distributed::mesh::{self, Place};
pub(crate) use distributed::mesh::{Seat as LinkSeat, bells};
use distributed::{Connection, Gate, WorkerName};
use platform::link::{Bell, Mechanism, Wire};

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::members::news::Arrivals;

/// The bells and links of the workers of this process, by worker, for each to take.
pub(crate) struct Seats<P: Host> {
    first: usize,
    seats: Vec<Mutex<Option<LinkSeat<P>>>>,
    /// Later changes of links; without it, a link that is lost ends the run.
    pub arrivals: Option<Arc<Arrivals<P>>>,
    /// `Some` if the instance comes back to others that run.
    pub gate: Option<Gate<P>>,
    /// Workers of instances that are down while this one comes back.
    pub down: Vec<WorkerName>,
}

impl<P: Host> Seats<P> {
    /// The bells and links of these workers, from number `first` on.
    pub(crate) fn new(first: usize, seats: Vec<LinkSeat<P>>) -> Self {
        let seats = seats.into_iter().map(|seat| Mutex::new(Some(seat))).collect();
        Seats { first, seats, arrivals: None, gate: None, down: Vec::new() }
    }

    pub(crate) fn take(&self, worker: usize) -> Result<LinkSeat<P>, RunError> {
        let seat = self.seats.get(worker - self.first);
        let seat = seat.and_then(|seat| seat.lock().ok()).and_then(|mut seat| seat.take());
        seat.ok_or(RunError::Worker("a worker's links are taken"))
    }
}

/// The bells at which the workers wait.
pub(crate) type Bells<P> = Vec<Arc<Bell<P>>>;

/// The mechanism of links between these instances.
fn mechanism(deployment: &Deployment, [one, other]: [u16; 2]) -> Mechanism {
    deployment.transport_between(usize::from(one), usize::from(other)).mechanism()
}

/// Two workers of different instances, and their bells, to be connected.
pub(crate) struct Pair<'a, P: Host> {
    pub deployment: &'a Deployment,
    pub names: [WorkerName; 2],
    pub bells: [&'a Arc<Bell<P>>; 2],
    pub wire: Option<Wire>,
}

impl<P: Host> Pair<'_, P> {
    /// Links the workers, and returns the connection of each.
    pub(crate) fn connect(self, c: P::Core) -> Result<[Connection<P>; 2], RunError> {
        let Pair { deployment, names, bells, wire } = self;
        let place = |side: usize| Place {
            name: names[side],
            bell: bells[side],
            node: deployment.node(usize::from(names[side].worker)),
        };
        let mechanism = mechanism(deployment, names.map(|name| name.instance));
        mesh::link::<P>(c, mechanism, [place(0), place(1)], wire).map_err(RunError::of)
    }
}

/// Links each pair of workers of different instances, all in this process; `wire` draws the wire of
/// each link.
pub(crate) fn connect<P: Host>(
    c: P::Core,
    deployment: &Deployment,
    names: &[WorkerName],
    wire: &mut dyn FnMut() -> Option<Wire>,
) -> Result<(Bells<P>, Seats<P>), RunError> {
    let mechanism = |one, other| mechanism(deployment, [one, other]);
    let seats = mesh::connect::<P>(c, names, &deployment.nodes(), &mechanism, wire).map_err(RunError::of)?;
    let bells = seats.iter().map(|seat| Arc::clone(&seat.bell)).collect();
    Ok((bells, Seats::new(0, seats)))
}
