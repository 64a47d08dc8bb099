//! The links between the workers of instances that are in one process.

use std::sync::Arc;

use platform::Node;
use platform::link::{self, Bell, LinkError, Links, Mechanism, Side, Wire};

use crate::map::WorkerName;
use crate::peer;
use crate::setting::Connection;

/// Where a worker waits, and its links.
pub struct Seat<P: Links> {
    /// Where it waits.
    pub bell: Arc<Bell<P>>,
    /// One to each worker of each other instance.
    pub connections: Vec<Connection<P>>,
}

/// A worker that is to be connected, and where it waits.
pub struct Place<'a, P: Links> {
    /// Its name.
    pub name: WorkerName,
    /// Where it waits.
    pub bell: &'a Arc<Bell<P>>,
    /// Its memory node.
    pub node: Option<Node>,
}

/// Where each worker waits; `nodes` has the memory node of each.
///
/// # Errors
/// There is no memory.
pub fn bells<P: Links>(c: P::Core, nodes: &[Option<Node>]) -> Result<Vec<Arc<Bell<P>>>, LinkError> {
    nodes.iter().map(|node| Ok(Arc::new(Bell::new(c, *node)?))).collect()
}

/// A link between two workers: what each gets.
///
/// # Errors
/// There is no memory, or the operating system refuses.
pub fn link<P: Links>(
    c: P::Core,
    mechanism: Mechanism,
    places: [Place<'_, P>; 2],
    wire: Option<Wire>,
) -> Result<[Connection<P>; 2], LinkError> {
    let limits = peer::limits(mechanism);
    let [one, other] = places.each_ref().map(|place| place.name);
    let sides = places.map(|place| Side { bell: Arc::clone(place.bell), node: place.node });
    let [end, back] = link::connect::<P>(c, mechanism, sides, limits, wire)?;
    Ok([Connection { to: other, end, limits }, Connection { to: one, end: back, limits }])
}

/// A link for each pair of workers of different instances, with the mechanism for the instances of
/// both; `nodes` has the memory node of each worker, and `wire` draws what each link goes over.
///
/// # Errors
/// There is no memory, or the operating system refuses.
pub fn connect<P: Links>(
    c: P::Core,
    names: &[WorkerName],
    nodes: &[Option<Node>],
    mechanism: &dyn Fn(u16, u16) -> Mechanism,
    wire: &mut dyn FnMut() -> Option<Wire>,
) -> Result<Vec<Seat<P>>, LinkError> {
    let bells = bells::<P>(c, nodes)?;
    let empty = |bell: &Arc<Bell<P>>| Seat { bell: Arc::clone(bell), connections: Vec::new() };
    let mut seats: Vec<_> = bells.iter().map(empty).collect();
    for one in 0..names.len() {
        for other in (one + 1..names.len()).filter(|other| names[*other].instance != names[one].instance) {
            let place =
                |worker: usize| Place { name: names[worker], bell: &bells[worker], node: nodes[worker] };
            let mechanism = mechanism(names[one].instance, names[other].instance);
            let [connection, back] = link::<P>(c, mechanism, [place(one), place(other)], wire())?;
            seats[one].connections.push(connection);
            seats[other].connections.push(back);
        }
    }
    Ok(seats)
}
