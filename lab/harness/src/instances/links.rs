//! Links between the workers of instances that are processes.
//!
//! One of two instances listens, the one with the lower number, and the workers of the other
//! connect to its workers. A process accepts connections on a separate thread while it connects, so
//! that there is no circle of waiting processes.

use std::sync::atomic::{AtomicBool, Ordering};

use distributed::{Connection, WorkerName};
use platform::link::{Limits, Mechanism, Patience};
use platform::{Hardware, HardwareCore, Nanos, Platform};
use secure_links::{self, Doorbell, Endpoint, Hello, Identity, Listener, Peer, PeerError, Trust};

use super::arrivals::warn_of_stranger;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::members::Division;
use crate::members::seats::{LinkSeat, Seats};

/// Longest time for which a process waits for the others.
const PATIENCE_NANOS: u64 = 30_000_000_000;
/// Longest time for which a running process waits for an instance that comes back.
const RETURN_NANOS: u64 = 10_000_000_000;
/// Interval at which a waiting process checks if it still has to wait.
const POLL_NANOS: u64 = 20_000_000;

/// The parameters of both sides of the connections.
pub(crate) struct LinkSetup<'a> {
    pub deployment: &'a Deployment,
    pub division: &'a Division,
    /// The instance of this process.
    pub instance: usize,
    /// The number that all processes of the deployment have in common, and no other process.
    pub number: u64,
    /// The authentication that the other processes need, if any.
    pub trust: Option<Trust>,
}

/// The number of a worker of this instance, and its link.
pub(crate) type WorkerLink = (usize, Connection<Hardware>);

impl LinkSetup<'_> {
    /// Listens for the other instances.
    pub(crate) fn listen(&self, c: HardwareCore, endpoint: &Endpoint) -> Result<Listener, RunError> {
        let identity = Identity {
            version: distributed::messages::VERSION,
            deployment: self.deployment(),
            instance: self.instance as u16,
        };
        let listener = Listener::bind(c, endpoint, identity).map_err(RunError::of)?;
        Ok(listener.demanding(self.trust.clone()))
    }

    /// Connects the workers of this instance to those of all other instances, which listen at
    /// `endpoints`.
    pub(crate) fn connect(
        &self,
        c: HardwareCore,
        listener: &mut Listener,
        endpoints: &[Endpoint],
    ) -> Result<(Vec<Doorbell>, Seats<Hardware>), RunError> {
        let workers = self.workers(self.instance);
        let doorbell = |worker: usize| Doorbell::new(c, self.deployment.node(worker)).map_err(RunError::of);
        let doorbells = workers.clone().map(doorbell).collect::<Result<Vec<_>, _>>()?;
        let until = Hardware::now(c).plus(PATIENCE_NANOS);
        let is_over = AtomicBool::new(false);
        let others = self.deployment.workers() - self.deployment.first_worker(self.instance + 1);
        let (accepted, reached) = std::thread::scope(|scope| {
            let accepting = scope.spawn(|| self.accept(listener, &doorbells, others, until, &is_over));
            let lower = endpoints.iter().enumerate().take(self.instance);
            let reached = self.reach(c, &doorbells, lower, until);
            // SeqCst: a flag, which is rarely read.
            is_over.store(reached.is_err(), Ordering::SeqCst);
            (accepting.join(), reached)
        });
        let accepted = accepted.map_err(|_| RunError::Worker("a thread that accepts links panicked"))?;
        let mut links = reached?;
        links.extend(accepted?);
        links.sort_by_key(|(worker, connection)| (*worker, connection.to.worker));
        let bell = |doorbell: &Doorbell| doorbell.side().bell.clone();
        let empty = |doorbell| LinkSeat { bell: bell(doorbell), connections: Vec::new() };
        let mut seats: Vec<_> = doorbells.iter().map(empty).collect();
        links.into_iter().for_each(|(worker, connection)| seats[worker].connections.push(connection));
        Ok((doorbells, Seats::new(workers.start, seats)))
    }

    /// Connects the workers of this instance to those of an instance that comes back.
    pub(crate) fn link_again(
        &self,
        c: HardwareCore,
        listener: &mut Listener,
        doorbells: &[Doorbell],
        instance: usize,
        endpoint: &Endpoint,
    ) -> Result<Vec<WorkerLink>, RunError> {
        let until = Hardware::now(c).plus(RETURN_NANOS);
        if instance < self.instance {
            return self.reach(c, doorbells, std::iter::once((instance, endpoint)), until);
        }
        let others = self.workers(instance).len();
        self.accept(listener, doorbells, others, until, &AtomicBool::new(false))
    }

    /// A number of the deployment and its tables.
    fn deployment(&self) -> u64 {
        self.number ^ u64::from(self.division.fingerprint)
    }

    fn workers(&self, instance: usize) -> std::ops::Range<usize> {
        self.deployment.first_worker(instance)..self.deployment.first_worker(instance + 1)
    }

    fn mechanism(&self) -> Mechanism {
        self.deployment.transport.mechanism()
    }

    /// The name of a worker in handshakes.
    fn peer(&self, worker: usize) -> Peer {
        let WorkerName { instance, worker } = self.division.names[worker];
        let first = self.deployment.first_worker(usize::from(instance));
        Peer { instance, worker: worker - first as u16 }
    }

    fn worker_link(&self, own: usize, other: usize, connection: secure_links::Connection) -> WorkerLink {
        let limits = connection.peer.limits;
        (own, Connection { to: self.division.names[other], end: connection.end, limits })
    }

    /// Connects to the workers of instances with lower numbers.
    fn reach<'e>(
        &self,
        c: HardwareCore,
        doorbells: &[Doorbell],
        endpoints: impl Iterator<Item = (usize, &'e Endpoint)>,
        until: Nanos,
    ) -> Result<Vec<WorkerLink>, RunError> {
        let mechanism = self.mechanism();
        let mut links = Vec::new();
        for (instance, endpoint) in endpoints {
            for (number, own) in self.workers(self.instance).enumerate() {
                for other in self.workers(instance) {
                    let hello = Hello {
                        version: distributed::messages::VERSION,
                        deployment: self.deployment(),
                        from: self.peer(own),
                        to: self.peer(other),
                        mechanism,
                        limits: distributed::peer::limits(mechanism),
                    };
                    let doorbell = &doorbells[number];
                    let trust = self.trust.as_ref();
                    let patience = Patience::Until(until);
                    let connection =
                        secure_links::connect_trusting(c, endpoint, hello, doorbell, trust, patience);
                    links.push(self.worker_link(number, other, connection.map_err(RunError::of)?));
                }
            }
        }
        Ok(links)
    }

    /// Accepts connections of `others` workers of instances with higher numbers.
    fn accept(
        &self,
        listener: &mut Listener,
        doorbells: &[Doorbell],
        others: usize,
        until: Nanos,
        is_over: &AtomicBool,
    ) -> Result<Vec<WorkerLink>, RunError> {
        let c = Hardware::core();
        let all = others * doorbells.len();
        let mut links = Vec::with_capacity(others * doorbells.len());
        let limits = distributed::peer::limits(self.mechanism());
        let mut door = |hello: &Hello| -> Result<(Doorbell, Limits), String> {
            let doorbell = doorbells.get(usize::from(hello.to.worker));
            doorbell.map(|doorbell| (doorbell.clone(), limits)).ok_or("no such worker here".to_owned())
        };
        while links.len() < all {
            let now = Hardware::now(c);
            if now >= until {
                let missing = all - links.len();
                return Err(RunError::Refused(format!(
                    "{}: {missing} links are missing",
                    listener.endpoint()
                )));
            }
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            match listener.accept(c, &mut door, Patience::Until(now.plus(POLL_NANOS))) {
                Ok(Some(connection)) => {
                    let Peer { instance, worker } = connection.peer.from;
                    let own = usize::from(connection.peer.to.worker);
                    let Some(other) = self.other(instance, worker) else {
                        warn_of_stranger(format_args!("{} came, and is none of these", connection.peer.from));
                        continue;
                    };
                    let name = self.division.names[other];
                    // Replaces an earlier connection of a peer that timed out before it was
                    // accepted, and has connected again.
                    links.retain(|(number, before): &WorkerLink| (*number, before.to) != (own, name));
                    links.push(self.worker_link(own, other, connection));
                }
                Ok(None) => {}
                // Strangers may connect and disconnect.
                Err(
                    error @ (PeerError::Refused { .. }
                    | PeerError::RefusedThere { .. }
                    | PeerError::Silent(_)
                    | PeerError::Gone(_)),
                ) => {
                    warn_of_stranger(format_args!("{error}"));
                }
                Err(error) => return Err(RunError::of(error)),
            }
        }
        Ok(links)
    }

    /// The number of a connected worker, if it belongs to an instance with a higher number.
    fn other(&self, instance: u16, worker: u16) -> Option<usize> {
        let known = usize::from(instance) > self.instance
            && usize::from(instance) < self.deployment.instances.len()
            && usize::from(worker) < self.deployment.instances[usize::from(instance)].workers.len();
        let number = || self.deployment.first_worker(usize::from(instance)) + usize::from(worker);
        known.then(number)
    }
}
