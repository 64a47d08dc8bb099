//! Where workers of several instances wait, and their links to each other.

use std::sync::{Arc, Mutex};

use islands::{Connection, Gate, WorkerName};
use platform::Node;
use platform::link::{self, Bell, Side, Wire};

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::news::Arrivals;

/// Where a worker waits, and its links.
pub(crate) struct LinkSeat<P: Host> {
    pub bell: Arc<Bell<P>>,
    pub connections: Vec<Connection<P>>,
}

/// The seats of the workers of this process, by worker, for each to take.
pub(crate) struct Seats<P: Host> {
    first: usize,
    seats: Vec<Mutex<Option<LinkSeat<P>>>>,
    /// What becomes of links later on; without it, a link that is lost ends the run.
    pub arrivals: Option<Arc<Arrivals<P>>>,
    /// There if the instance comes back to others that run.
    pub gate: Option<Gate<P>>,
}

impl<P: Host> Seats<P> {
    /// The seats of these workers, `first` and those behind it.
    pub(crate) fn new(first: usize, seats: Vec<LinkSeat<P>>) -> Self {
        let seats = seats.into_iter().map(|seat| Mutex::new(Some(seat))).collect();
        Seats { first, seats, arrivals: None, gate: None }
    }

    pub(crate) fn take(&self, worker: usize) -> Result<LinkSeat<P>, RunError> {
        let seat = self.seats.get(worker - self.first);
        let seat = seat.and_then(|seat| seat.lock().ok()).and_then(|mut seat| seat.take());
        seat.ok_or(RunError::Worker("a worker's links are taken"))
    }
}

/// Where each worker waits.
pub(crate) type Bells<P> = Vec<Arc<Bell<P>>>;

/// A place to wait for a worker on each of these nodes.
pub(crate) fn bells<P: Host>(c: P::Core, nodes: &[Option<Node>]) -> Result<Bells<P>, RunError> {
    nodes.iter().map(|node| Bell::new(c, *node).map(Arc::new).map_err(RunError::of)).collect()
}

/// Two workers of different instances and where they wait, to be connected.
pub(crate) struct Pair<'a, P: Host> {
    pub deployment: &'a Deployment,
    pub names: [WorkerName; 2],
    pub bells: [&'a Arc<Bell<P>>; 2],
    pub wire: Option<Wire>,
}

impl<P: Host> Pair<'_, P> {
    /// A link between them: what each gets.
    pub(crate) fn connect(self, c: P::Core) -> Result<[Connection<P>; 2], RunError> {
        let Pair { deployment, names: [one, other], bells, wire } = self;
        let node = |name: WorkerName| deployment.node(usize::from(name.worker));
        let [instance, another] = [one, other].map(|name| usize::from(name.instance));
        let mechanism = deployment.transport_between(instance, another).mechanism();
        let limits = islands::peer::limits(mechanism);
        let side = |bell: &Arc<Bell<P>>, name| Side { bell: Arc::clone(bell), node: node(name) };
        let sides = [side(bells[0], one), side(bells[1], other)];
        let ends = link::connect::<P>(c, mechanism, sides, limits, wire).map_err(RunError::of)?;
        let [end, back] = ends;
        Ok([Connection { to: other, end, limits }, Connection { to: one, end: back, limits }])
    }
}

/// A link for each pair of workers of different instances, all in this process; `wire` draws what each goes over.
pub(crate) fn connect<P: Host>(
    c: P::Core,
    deployment: &Deployment,
    names: &[WorkerName],
    wire: &mut dyn FnMut() -> Option<Wire>,
) -> Result<(Bells<P>, Seats<P>), RunError> {
    let bells = bells::<P>(c, &deployment.nodes())?;
    let empty = |bell: &Arc<Bell<P>>| LinkSeat { bell: Arc::clone(bell), connections: Vec::new() };
    let mut seats: Vec<_> = bells.iter().map(empty).collect();
    for one in 0..names.len() {
        for other in (one + 1..names.len()).filter(|other| names[*other].instance != names[one].instance) {
            let (bells, names) = ([&bells[one], &bells[other]], [names[one], names[other]]);
            let [connection, back] = Pair { deployment, names, bells, wire: wire() }.connect(c)?;
            seats[one].connections.push(connection);
            seats[other].connections.push(back);
        }
    }
    Ok((bells, Seats::new(0, seats)))
}
