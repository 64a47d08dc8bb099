//! Requests of clients, which wait for the owners of their rows.
//!
//! With [`Clients::Global`](crate::plan::Clients) a client draws requests for all data, and hands
//! each to the owner of its first rows: an instance, or a worker if workers own partitions. There
//! is one client for each worker. A client keeps [`BATCHES`] batches of [`BATCH_REQUESTS`] requests
//! open, and replaces a batch when all of its requests have ended. So a queue is bounded, and
//! owners of popular rows make clients wait that would have work for others.
//!
//! The source is the published kit of benchmarks of the storage manager with which the island
//! studies measured: shore-kits, `base_client_t::run_xcts` (two batches, of which the older one is
//! replaced) and `db-cl-batchsz` of `shore.conf` (10).
//!
//! Handing over costs no virtual time, as the studies' clients call the storage manager directly.
//! Words of the host carry the requests: all workers are in one process.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use platform::Nanos;
use terms::random::Random;

/// Requests of a batch.
pub const BATCH_REQUESTS: u32 = 10;
/// Batches that a client has open.
pub const BATCHES: usize = 2;
/// The first stream of random numbers of clients.
const STREAM: u64 = 1 << 34;
/// An owner that has no request checks for one after this time.
pub(crate) const IDLE_NANOS: u64 = 2_000;

/// The client of a request, and its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    client: u32,
    batch: u8,
}

impl Origin {
    /// The worker has drawn the request itself.
    pub(crate) const WORKER: Origin = Origin { client: u32::MAX, batch: 0 };

    /// True if a client waits for the end of the request.
    #[inline]
    pub(crate) fn is_of_client(self) -> bool {
        self.client != u32::MAX
    }
}

/// A client.
struct Client {
    random: Random,
    /// Requests of each batch that have not ended.
    open: [u32; BATCHES],
}

/// A request that waits for its owner.
pub(crate) struct Request<Q> {
    pub procedure: Q,
    pub origin: Origin,
    /// The time at which it was handed over.
    pub handed_over: Nanos,
}

/// Draws a request and finds its owner.
type Draw<'a, Q, E> = &'a mut dyn FnMut(&mut Random) -> Result<(Q, usize), E>;

/// Requests of one owner.
struct Queue<Q> {
    waiting: VecDeque<Request<Q>>,
    /// The owner that receives new requests instead: this one has left.
    successor: Option<usize>,
}

/// All clients, and the queues of all owners.
pub(crate) struct Requests<Q> {
    clients: Vec<Mutex<Client>>,
    queues: Vec<Mutex<Queue<Q>>>,
}

/// The drawing of the requests of a worker.
pub(crate) enum Drawing<'a, Q> {
    /// By the worker, for its home.
    Home,
    /// By the worker, for these homes; `None`: for all data.
    Homes(Option<&'a [usize]>),
    /// By clients.
    Clients(&'a Requests<Q>),
}

impl<Q> Clone for Drawing<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Drawing<'_, Q> {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q> Requests<Q> {
    /// Clients without requests, and queues for this many owners.
    pub(crate) fn new(seed: u64, clients: usize, owners: usize) -> Self {
        let client = |number| {
            let random = Random::new(seed, STREAM + number as u64);
            Mutex::new(Client { random, open: [0; BATCHES] })
        };
        let queue = |_| Mutex::new(Queue { waiting: VecDeque::new(), successor: None });
        Requests { clients: (0..clients).map(client).collect(), queues: (0..owners).map(queue).collect() }
    }

    /// The next request of an owner, which takes requests from here on.
    pub(crate) fn take(&self, owner: usize) -> Option<Request<Q>> {
        let mut queue = lock(&self.queues[owner]);
        queue.successor = None;
        queue.waiting.pop_front()
    }

    /// A client hands its first requests over; `draw` draws a request and finds its owner.
    pub(crate) fn begin<E>(&self, client: usize, now: Nanos, draw: Draw<'_, Q, E>) -> Result<(), E> {
        (0..BATCHES).try_for_each(|batch| {
            self.hand_over(Origin { client: client as u32, batch: batch as u8 }, now, draw)
        })
    }

    /// A request has ended. If it was the last one of its batch, the client hands over another
    /// batch.
    pub(crate) fn end<E>(&self, origin: Origin, now: Nanos, draw: Draw<'_, Q, E>) -> Result<(), E> {
        let left = {
            let mut client = lock(&self.clients[origin.client as usize]);
            let open = &mut client.open[usize::from(origin.batch)];
            *open -= 1;
            *open
        };
        if left > 0 { Ok(()) } else { self.hand_over(origin, now, draw) }
    }

    fn hand_over<E>(&self, origin: Origin, now: Nanos, draw: Draw<'_, Q, E>) -> Result<(), E> {
        let mut client = lock(&self.clients[origin.client as usize]);
        client.open[usize::from(origin.batch)] = BATCH_REQUESTS;
        for _ in 0..BATCH_REQUESTS {
            let (procedure, owner) = draw(&mut client.random)?;
            self.push(owner, Request { procedure, origin, handed_over: now });
        }
        Ok(())
    }

    fn push(&self, owner: usize, request: Request<Q>) {
        let mut queue = lock(&self.queues[owner]);
        match queue.successor {
            None => queue.waiting.push_back(request),
            Some(successor) => {
                drop(queue);
                self.push(successor, request);
            }
        }
    }

    /// An owner takes no requests for a while: those that wait, and later ones, are for another
    /// owner, which takes requests.
    pub(crate) fn leave(&self, owner: usize, successor: usize) {
        let waiting = {
            let mut queue = lock(&self.queues[owner]);
            queue.successor = Some(successor);
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(|request| self.push(successor, request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = BATCHES * BATCH_REQUESTS as usize;

    /// A client whose requests are for two owners in turn.
    fn requests() -> Requests<u64> {
        Requests::new(1, 1, 2)
    }

    /// Draws numbers, which are for two owners in turn.
    fn in_turn(number: &mut u64) -> Result<(u64, usize), ()> {
        *number += 1;
        Ok((*number, *number as usize % 2))
    }

    fn all_of(requests: &Requests<u64>, owner: usize) -> Vec<Request<u64>> {
        std::iter::from_fn(|| requests.take(owner)).collect()
    }

    #[test]
    fn a_batch_is_replaced_when_all_of_it_has_ended() {
        let (requests, mut number) = (requests(), 0);
        let mut draw = |_: &mut Random| in_turn(&mut number);
        requests.begin(0, Nanos(5), &mut draw).expect("nothing fails");
        let (even, odd) = (all_of(&requests, 0), all_of(&requests, 1));
        assert_eq!((even.len(), odd.len()), (ALL / 2, ALL / 2));
        assert!(even.iter().all(|request| request.procedure % 2 == 0 && request.handed_over == Nanos(5)));
        let mut ended = 0;
        for request in even.iter().chain(&odd) {
            assert!(requests.take(0).is_none() && requests.take(1).is_none(), "{ended} of {ALL} ended");
            requests.end(request.origin, Nanos(9), &mut draw).expect("nothing fails");
            ended += 1;
            let replaced = all_of(&requests, 0).len() + all_of(&requests, 1).len();
            let is_last = even.iter().chain(&odd).skip(ended).all(|later| later.origin != request.origin);
            assert_eq!(replaced, if is_last { BATCH_REQUESTS as usize } else { 0 });
        }
        assert_eq!(ended, ALL);
    }

    #[test]
    fn requests_of_an_owner_that_leaves_are_for_another() {
        let (requests, mut number) = (requests(), 0);
        let mut draw = |_: &mut Random| in_turn(&mut number);
        requests.begin(0, Nanos(0), &mut draw).expect("nothing fails");
        requests.leave(1, 0);
        let all = all_of(&requests, 0);
        assert_eq!(all.len(), ALL);
        for request in &all {
            requests.end(request.origin, Nanos(1), &mut draw).expect("nothing fails");
        }
        assert_eq!(all_of(&requests, 0).len(), ALL, "later ones, too");
        assert!(requests.take(1).is_none());
        for request in &all {
            requests.end(request.origin, Nanos(2), &mut draw).expect("nothing fails");
        }
        assert_eq!(all_of(&requests, 1).len(), ALL / 2, "the owner is back");
    }
}
