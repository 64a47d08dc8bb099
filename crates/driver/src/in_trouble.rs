//! Links and instances that are lost and come back while a workload runs, all in one process.
//!
//! Workers hear of their links as [`crate::news`] says. Who tells them, here, is the main thread: it breaks connections and makes them
//! again, and where a machine ends the workers of an instance ([`Host::fallen_instance`]), it opens the instance again from what its
//! directory holds, and starts its workers anew. The two ends of a link hear of its end at different moments, by some tens of
//! microseconds; what was under way then is gone, or was taken before.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use islands::{Connection, Gate, WorkerName};
use platform::Nanos;
use workloads::{Random, Workload};

use crate::board::Board;
use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::news::{Arrivals, News};
use crate::opening::OpenedDatabase;
use crate::seats::{self, Bells, LinkSeat, Pair, Seats};
use crate::transactions::{self, Bench};
use crate::troubles::Troubles;
use crate::worker::WorkerResult;

/// The ends of a link hear of its end, or of the next link, within this time.
const HEARD_NANOS: u64 = 40_000;
/// Longest time between two connections that break.
const CUT_NANOS: u64 = 400_000;
/// How often the main thread looks.
const LOOK_NANOS: u64 = 5_000;

/// The main thread's part.
struct Scene<'a, P: Host> {
    troubles: &'a Troubles,
    deployment: &'a Deployment,
    names: &'a [WorkerName],
    arrivals: Arc<Arrivals<P>>,
    random: Random,
    /// By worker.
    bells: Bells<P>,
    cuts: u64,
    next: Nanos,
}

impl<P: Host> Scene<'_, P> {
    fn soon(&mut self, c: P::Core) -> Nanos {
        P::now(c).plus(self.random.below(HEARD_NANOS))
    }

    fn tell(&mut self, c: P::Core, worker: usize, news: News<P>) {
        let from = self.soon(c);
        self.arrivals.tell(worker, from, news);
    }

    fn connect(&mut self, c: P::Core, [one, other]: [usize; 2]) -> Result<[Connection<P>; 2], RunError> {
        let wire = self.troubles.wire(&mut self.random, self.deployment.transport);
        let (names, bells) = ([self.names[one], self.names[other]], [&self.bells[one], &self.bells[other]]);
        Pair { deployment: self.deployment, names, bells, wire }.connect(c)
    }

    /// Breaks a connection, if it is time.
    fn cut(&mut self, c: P::Core) -> Result<(), RunError> {
        if self.cuts == 0 || self.arrivals.is_closed(c) || P::now(c) < self.next {
            return Ok(());
        }
        let workers = self.names.len() as u64;
        let pair = [self.random.below(workers) as usize, self.random.below(workers) as usize];
        let [one, other] = pair.map(|worker| self.names[worker]);
        if one.instance == other.instance {
            return Ok(());
        }
        self.cuts -= 1;
        self.next = P::now(c).plus(self.random.below(CUT_NANOS));
        let [connection, back] = self.connect(c, pair)?;
        // A worker may have left while the link was made.
        if self.arrivals.is_closed(c) {
            return Ok(());
        }
        let ends = [(pair[0], other, connection), (pair[1], one, back)];
        let moments = [self.soon(c), self.soon(c), self.soon(c), self.soon(c)];
        for (number, (worker, peer, connection)) in ends.into_iter().enumerate() {
            let moments = &moments[2 * number..][..2];
            self.arrivals.tell(worker, moments[0], News::Lost(peer));
            self.arrivals.tell(worker, moments[1], News::Met(connection));
        }
        Ok(())
    }

    /// Links of the workers of an instance that comes back, with all others.
    fn meet_again(&mut self, c: P::Core, gone: Range<usize>) -> Result<Seats<P>, RunError> {
        let nodes = &self.deployment.nodes()[gone.clone()];
        let mut met = Vec::with_capacity(gone.len());
        for (worker, bell) in gone.clone().zip(seats::bells::<P>(c, nodes).map_err(RunError::of)?) {
            self.bells[worker] = Arc::clone(&bell);
            let mut connections = Vec::new();
            for other in (0..self.names.len()).filter(|other| !gone.contains(other)) {
                let [connection, back] = self.connect(c, [worker, other])?;
                connections.push(connection);
                self.tell(c, other, News::Met(back));
            }
            met.push(LinkSeat { bell, connections });
        }
        self.arrivals.all_told();
        let mut seats = Seats::new(gone.start, met);
        seats.arrivals = Some(Arc::clone(&self.arrivals));
        seats.gate = Some(Gate::new(c, gone.len()).map_err(RunError::of)?);
        Ok(seats)
    }
}

impl<P: Host, W: Workload> Bench<'_, P, W> {
    /// Lets the workers run as long as planned, through troubles; what each did, in its last life, and which instance has come back.
    #[allow(clippy::type_complexity)]
    pub(crate) fn work_in_trouble(
        &self,
        c: P::Core,
        control: Control<'_>,
        (seats, bells, troubles): (&Seats<P>, &Bells<P>, &Troubles),
    ) -> Result<(Vec<WorkerResult>, Option<(usize, OpenedDatabase<P>)>), RunError> {
        let missing = || RunError::Worker("troubles are for several instances");
        let (arrivals, division) =
            (seats.arrivals.clone().ok_or_else(missing)?, self.division.as_ref().ok_or_else(missing)?);
        let mut scene = Scene {
            troubles,
            deployment: self.deployment,
            names: &division.names,
            arrivals,
            random: Random::new(troubles.seed, 71),
            bells: bells.clone(),
            cuts: troubles.cuts,
            next: P::now(c),
        };
        let board = Board::<P>::new(c, self.workers.clone()).map_err(RunError::of)?;
        let (mut again, mut failed) = (None, None);
        let job = |c, worker: usize| {
            let job = self.job(&board, self.database(self.deployment.instance_of(worker)));
            job.run_among(c, worker, self.deployment.node(worker), (division, seats))
        };
        let places = (self.deployment, control, LOOK_NANOS);
        let mut results = transactions::run_workers(c, places, &board, &job, &mut |c| {
            if let Err(error) = scene.cut(c) {
                failed.get_or_insert(error);
                give_up(c, &board);
            }
            let Some(instance) = P::fallen_instance(c).filter(|_| again.is_none()) else { return };
            let back = self.bring_back(c, control, instance, (&board, &mut scene));
            if back.is_err() {
                give_up(c, &board);
            }
            let gone = self.deployment.instances[instance].workers.len() as u64;
            P::fetch_add(c, board.done(), gone, Ordering::Release);
            again = Some((instance, back));
        })?;
        let mut returned = None;
        if let Some((instance, back)) = again {
            let (opened, second) = back?;
            let first = self.deployment.first_worker(instance);
            second.into_iter().enumerate().for_each(|(number, result)| results[first + number] = result);
            returned = Some((instance, opened));
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((transactions::collect(results)?, returned)),
        }
    }

    /// Opens an instance again, and runs its workers to their ends.
    #[allow(clippy::type_complexity)]
    fn bring_back(
        &self,
        c: P::Core,
        control: Control<'_>,
        instance: usize,
        (outer, scene): (&Board<P>, &mut Scene<'_, P>),
    ) -> Result<(OpenedDatabase<P>, Vec<Option<Result<WorkerResult, RunError>>>), RunError> {
        let gone = self.deployment.first_worker(instance)..self.deployment.first_worker(instance + 1);
        gone.clone().for_each(|worker| scene.arrivals.forget(worker));
        for other in (0..scene.names.len()).filter(|other| !gone.contains(other)) {
            for worker in gone.clone() {
                let name = scene.names[worker];
                scene.tell(c, other, News::Lost(name));
            }
        }
        let opened = self.open_again(c, instance, scene.troubles.loses_power)?;
        let mut division = self.division.clone().ok_or(RunError::Worker("an instance alone fell"))?;
        division.openings[instance] = opened.opening;
        let seats = scene.meet_again(c, gone.clone())?;
        let board = Board::<P>::new(c, gone).map_err(RunError::of)?;
        let job = |c, worker: usize| {
            let job = self.job(&board, &opened.database);
            job.run_among(c, worker, self.deployment.node(worker), (&division, &seats))
        };
        let places = (self.deployment, control, LOOK_NANOS);
        let results = transactions::run_workers(c, places, &board, &job, &mut |c| {
            let has_failed = scene.cut(c).is_err();
            // Relaxed, all of them: flags. The main thread looks at no other board meanwhile.
            if P::load(c, board.stop(), Ordering::Relaxed) != 0 {
                P::store(c, outer.stop(), 1, Ordering::Relaxed);
            }
            if has_failed || P::load(c, board.broken(), Ordering::Relaxed) != 0 {
                give_up(c, outer);
            }
            if P::load(c, outer.broken(), Ordering::Relaxed) != 0 {
                give_up(c, &board);
            }
        })?;
        Ok((opened, results))
    }
}

/// Ends all workers of a board where they are.
fn give_up<P: Host>(c: P::Core, board: &Board<P>) {
    // Relaxed, twice: nothing but the fact is handed on.
    P::store(c, board.broken(), 1, Ordering::Relaxed);
    P::store(c, board.stop(), 1, Ordering::Relaxed);
}
