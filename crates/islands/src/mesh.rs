//! The links between the workers of instances that are in one process.

use std::sync::Arc;

use platform::Node;
use platform::link::{self, Bell, LinkError, Links, Mechanism, Side};

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

/// A link for each pair of workers of different instances, with the mechanism for the instances of both; `nodes` has the memory
/// node of each worker.
///
/// # Errors
/// There is no memory, or the operating system refuses.
pub fn connect<P: Links>(
    c: P::Core,
    names: &[WorkerName],
    nodes: &[Option<Node>],
    mechanism: &dyn Fn(u16, u16) -> Mechanism,
) -> Result<Vec<Seat<P>>, LinkError> {
    let mut seats = Vec::with_capacity(names.len());
    for node in nodes {
        seats.push(Seat { bell: Arc::new(Bell::new(c, *node)?), connections: Vec::new() });
    }
    for one in 0..names.len() {
        for other in (one + 1..names.len()).filter(|other| names[*other].instance != names[one].instance) {
            let side = |worker: usize| Side { bell: Arc::clone(&seats[worker].bell), node: nodes[worker] };
            let mechanism = mechanism(names[one].instance, names[other].instance);
            let (sides, limits) = ([side(one), side(other)], peer::limits(mechanism));
            let [end, back] = link::connect::<P>(c, mechanism, sides, limits, None)?;
            seats[one].connections.push(Connection { to: names[other], end, limits });
            seats[other].connections.push(Connection { to: names[one], end: back, limits });
        }
    }
    Ok(seats)
}
