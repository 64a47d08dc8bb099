//! Links and instances that are lost and come back while a workload runs, all in one process.
//!
//! Workers receive news of their links through [`crate::members::news`]. The main thread sends
//! these news: it breaks connections and makes them again, and makes links again between machines
//! that were cut off from each other ([`Host::cut`]). If a machine crashes the workers of instances
//! ([`Host::fallen_instance`]), it opens each of these instances again from its directory, and
//! restarts its workers. The two ends of a link receive the news of its end at different times,
//! some tens of microseconds apart; messages in flight are lost, or were received before.
//!
//! An instance that has come back runs within the main thread's poll of the workers that run, so
//! that instances may crash and come back while other instances are back or down: the lives of
//! instances are a chain of boards.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use distributed::{Connection, Gate, WorkerName};
use platform::Nanos;
use terms::random::Random;
use workloads::Workload;

use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::faults::troubles::{TroubleCounts, Troubles};
use crate::host::Host;
use crate::members::news::{Arrivals, News};
use crate::members::seats::{self, Bells, LinkSeat, Pair, Seats};
use crate::run::transactions::{self, Bench};
use crate::workers::board::Board;
use crate::workers::opening::OpenedDatabase;
use crate::workers::worker::WorkerResult;

/// The ends of a link receive the news of its end, or of the next link, within this time.
const NEWS_NANOS: u64 = 40_000;
/// Longest time between two connections that break.
const CUT_NANOS: u64 = 400_000;
/// Interval at which the main thread polls.
const POLL_NANOS: u64 = 5_000;

/// An instance that has crashed, and the time at which it comes back.
struct Away {
    instance: usize,
    from: Nanos,
}

/// An instance that has come back.
struct Returned<P: Host> {
    instance: usize,
    gate: Gate<P>,
    /// The instances that were down then.
    away: Vec<usize>,
}

/// The board of workers that began together, and the boards of those that began before.
struct WorkerLives<'b, P: Host> {
    board: &'b Board<P>,
    earlier: Option<&'b WorkerLives<'b, P>>,
}

impl<P: Host> WorkerLives<'_, P> {
    fn boards(&self) -> impl Iterator<Item = &Board<P>> {
        let all = std::iter::successors(Some(self), |lives| lives.earlier);
        all.map(|lives| lives.board)
    }

    /// Ends all workers immediately.
    fn give_up(&self, c: P::Core) {
        for board in self.boards() {
            // Relaxed, twice: the flags order no other access.
            P::store(c, board.broken(), 1, Ordering::Relaxed);
            P::store(c, board.stop(), 1, Ordering::Relaxed);
        }
    }

    /// Ends all workers if some of them end. Only the workers of the latest life receive the end of
    /// the run.
    fn share_ends(&self, c: P::Core) {
        // Relaxed, all of them: flags. The main thread polls no other board meanwhile.
        if self.boards().any(|board| P::load(c, board.broken(), Ordering::Relaxed) != 0) {
            self.give_up(c);
        }
        if P::load(c, self.board.stop(), Ordering::Relaxed) != 0 {
            self.boards().for_each(|board| P::store(c, board.stop(), 1, Ordering::Relaxed));
        }
    }

    /// Counts these workers as done: they have ended without a result, and have no later life.
    fn without(&self, c: P::Core, gone: &Range<usize>) {
        if let Some(board) = self.boards().find(|board| board.workers().contains(&gone.start)) {
            P::fetch_add(c, board.done(), gone.len() as u64, Ordering::Release);
        }
    }
}

/// The result of each worker, by number; empty if it has not ended.
type Results = Vec<Option<Result<WorkerResult, RunError>>>;

/// The result of a run with faults.
pub(crate) struct FaultyRun<P: Host> {
    /// The result of each worker in its last life.
    pub results: Vec<WorkerResult>,
    /// The instances that have come back, each in its last life first.
    pub returned: Vec<(usize, OpenedDatabase<P>)>,
    pub met: TroubleCounts,
}

/// State of the main thread.
struct FaultState<'a, P: Host> {
    troubles: &'a Troubles,
    deployment: &'a Deployment,
    names: &'a [WorkerName],
    arrivals: Arc<Arrivals<P>>,
    random: Random,
    /// By worker.
    bells: Bells<P>,
    cuts: u64,
    next: Nanos,
    /// Instances that have fallen so far.
    fallen: usize,
    away: Vec<Away>,
    /// The instance that has come back last, unless it has fallen again.
    last: Option<Returned<P>>,
    results: Results,
    returned: Vec<(usize, OpenedDatabase<P>)>,
    failed: Option<RunError>,
    met: TroubleCounts,
}

impl<P: Host> FaultState<'_, P> {
    fn soon(&mut self, c: P::Core) -> Nanos {
        P::now(c).plus(self.random.below(NEWS_NANOS))
    }

    fn send(&mut self, c: P::Core, worker: usize, news: News<P>) {
        let from = self.soon(c);
        self.arrivals.send(worker, from, news);
    }

    /// The workers of an instance.
    fn workers(&self, instance: usize) -> Range<usize> {
        self.deployment.first_worker(instance)..self.deployment.first_worker(instance + 1)
    }

    fn is_away(&self, worker: usize) -> bool {
        let instance = usize::from(self.names[worker].instance);
        self.away.iter().any(|away| away.instance == instance)
    }

    fn connect(&mut self, c: P::Core, [one, other]: [usize; 2]) -> Result<[Connection<P>; 2], RunError> {
        let wire = self.troubles.wire(&mut self.random, self.deployment.transport);
        self.met.delays += u64::from(wire.is_some());
        let names = [self.names[one], self.names[other]];
        let bells = [&self.bells[one], &self.bells[other]];
        Pair { deployment: self.deployment, names, bells, wire }.connect(c)
    }

    /// Sends both workers a new link between them, and the news of the end of the former one if
    /// `lost`.
    fn connect_again(&mut self, c: P::Core, pair: [usize; 2], lost: bool) -> Result<(), RunError> {
        let [connection, back] = self.connect(c, pair)?;
        let [one, other] = pair.map(|worker| self.names[worker]);
        let moments = [self.soon(c), self.soon(c), self.soon(c), self.soon(c)];
        let ends = [(pair[0], other, connection), (pair[1], one, back)];
        for (number, (worker, peer, connection)) in ends.into_iter().enumerate() {
            let moments = &moments[2 * number..][..2];
            if lost {
                self.arrivals.send(worker, moments[0], News::Lost(peer));
            }
            self.arrivals.send(worker, moments[1], News::Linked(connection));
        }
        Ok(())
    }

    /// Breaks a connection, if it is due.
    fn cut(&mut self, c: P::Core) -> Result<(), RunError> {
        if self.cuts == 0 || self.arrivals.is_closed(c) || P::now(c) < self.next {
            return Ok(());
        }
        let workers = self.names.len() as u64;
        let pair = [self.random.below(workers) as usize, self.random.below(workers) as usize];
        if self.names[pair[0]].instance == self.names[pair[1]].instance {
            return Ok(());
        }
        self.cuts -= 1;
        self.met.cuts += 1;
        self.next = P::now(c).plus(self.random.below(CUT_NANOS));
        self.connect_again(c, pair, true)
    }

    /// Makes links again between machines that were cut off from each other, after the cut has
    /// ended.
    fn mend(&mut self, c: P::Core) -> Result<(), RunError> {
        while let Some(cut) = P::cut(c, self.arrivals.mended()).filter(|cut| cut.until <= P::now(c)) {
            for one in 0..self.names.len() {
                for other in one + 1..self.names.len() {
                    let machines = [one, other].map(|worker| {
                        let instance = usize::from(self.names[worker].instance);
                        self.deployment.instances[instance].machine as u16
                    });
                    let is_theirs =
                        machines == cut.machines || machines == [cut.machines[1], cut.machines[0]];
                    if is_theirs && !self.is_away(one) && !self.is_away(other) {
                        self.met.mended += 1;
                        self.connect_again(c, [one, other], false)?;
                    }
                }
            }
            self.arrivals.all_mended();
        }
        Ok(())
    }

    /// Detects instances that have crashed, and sends all other workers the news.
    fn detect_crashes(&mut self, c: P::Core) {
        while let Some(instance) = P::fallen_instance(c, self.fallen) {
            self.fallen += 1;
            // The gate of its former life does not open any more.
            self.last.take_if(|last| last.instance == instance);
            let gone = self.workers(instance);
            let from = P::now(c).plus(self.random.below(self.troubles.away_nanos_max.max(1)));
            self.away.push(Away { instance, from });
            gone.clone().for_each(|worker| self.arrivals.forget(worker));
            for other in 0..self.names.len() {
                if self.is_away(other) {
                    continue;
                }
                for worker in gone.clone() {
                    let name = self.names[worker];
                    self.send(c, other, News::Lost(name));
                }
            }
            self.met.away_max = self.met.away_max.max(self.away.len() as u64);
        }
    }

    /// Takes an instance that is due to come back.
    fn take_returning(&mut self, c: P::Core) -> Option<usize> {
        let next = self.away.first()?;
        let last = self.last.as_ref().filter(|last| last.away.contains(&next.instance));
        let waits = last.is_some_and(|last| !last.gate.has_opened(c));
        if P::now(c) < next.from || (self.troubles.in_turn && waits) {
            return None;
        }
        Some(self.away.remove(0).instance)
    }

    /// Links the workers of an instance that comes back to all other workers that run.
    fn link_again(&mut self, c: P::Core, instance: usize, gone: Range<usize>) -> Result<Seats<P>, RunError> {
        self.detect_crashes(c);
        let nodes = &self.deployment.nodes()[gone.clone()];
        let mut seats = Vec::with_capacity(gone.len());
        for (worker, bell) in gone.clone().zip(seats::bells::<P>(c, nodes).map_err(RunError::of)?) {
            self.bells[worker] = Arc::clone(&bell);
            let mut connections = Vec::new();
            for other in (0..self.names.len()).filter(|other| !gone.contains(other)) {
                if self.is_away(other) {
                    continue;
                }
                let [connection, back] = self.connect(c, [worker, other])?;
                connections.push(connection);
                self.send(c, other, News::Linked(back));
            }
            seats.push(LinkSeat { bell, connections });
        }
        self.arrivals.count_returned();
        let mut seats = Seats::new(gone.start, seats);
        let gate = Gate::new(c, gone.len()).map_err(RunError::of)?;
        let away = self.away.iter().map(|away| away.instance).collect();
        self.last = Some(Returned { instance, gate: gate.clone(), away });
        seats.arrivals = Some(Arc::clone(&self.arrivals));
        seats.gate = Some(gate);
        let down = (0..self.names.len()).filter(|worker| self.is_away(*worker));
        seats.down = down.map(|worker| self.names[worker]).collect();
        Ok(seats)
    }

    /// Keeps the results of workers, unless there are results of a later life.
    fn keep(&mut self, first: usize, results: Results) {
        for (number, result) in results.into_iter().enumerate() {
            let kept = &mut self.results[first + number];
            *kept = kept.take().or(result);
        }
    }
}

impl<P: Host, W: Workload> Bench<'_, P, W> {
    /// Lets the workers run as long as planned, with faults.
    pub(crate) fn work_in_trouble(
        &self,
        c: P::Core,
        control: Control<'_>,
        seats: &Seats<P>,
        bells: &Bells<P>,
        troubles: &Troubles,
    ) -> Result<FaultyRun<P>, RunError> {
        let missing = || RunError::Worker("troubles are for several instances");
        let arrivals = seats.arrivals.clone().ok_or_else(missing)?;
        let division = self.division.as_ref().ok_or_else(missing)?;
        let mut state = FaultState {
            troubles,
            deployment: self.deployment,
            names: &division.names,
            arrivals,
            random: Random::new(troubles.seed, 71),
            bells: bells.clone(),
            cuts: troubles.cuts,
            next: P::now(c),
            fallen: 0,
            away: Vec::new(),
            last: None,
            results: self.workers.clone().map(|_| None).collect(),
            returned: Vec::new(),
            failed: None,
            met: TroubleCounts::default(),
        };
        let board = Board::<P>::new(c, self.workers.clone()).map_err(RunError::of)?;
        let lives = WorkerLives { board: &board, earlier: None };
        let job = |c, worker: usize| {
            let job = self.job(&board, self.database(self.deployment.instance_of(worker)));
            job.run_among(c, worker, self.deployment.node(worker), division, seats)
        };
        let results =
            transactions::run_workers(c, self.deployment, control, POLL_NANOS, &board, &job, &mut |c| {
                self.attend(c, control, &mut state, &lives);
            })?;
        state.keep(0, results);
        match state.failed {
            Some(error) => Err(error),
            None => {
                let results = transactions::collect(state.results)?;
                Ok(FaultyRun { results, returned: state.returned, met: state.met })
            }
        }
    }

    /// One poll of the main thread: of the workers that began last, and of all others.
    fn attend(
        &self,
        c: P::Core,
        control: Control<'_>,
        state: &mut FaultState<'_, P>,
        lives: &WorkerLives<'_, P>,
    ) {
        state.detect_crashes(c);
        if let Err(error) = state.cut(c).and_then(|()| state.mend(c)) {
            state.failed.get_or_insert(error);
            lives.give_up(c);
        }
        lives.share_ends(c);
        if P::load(c, lives.board.broken(), Ordering::Relaxed) != 0 {
            // Instances do not come back after the others have given up.
            for away in std::mem::take(&mut state.away) {
                state.arrivals.count_returned();
                lives.without(c, &state.workers(away.instance));
            }
        }
        if let Some(instance) = state.take_returning(c) {
            let gone = state.workers(instance);
            let back = self.restore(c, control, instance, gone.clone(), state, lives);
            if let Err(error) = back {
                state.failed.get_or_insert(error);
                lives.give_up(c);
            }
            lives.without(c, &gone);
        }
    }

    /// Opens an instance again, and runs its workers until they end.
    fn restore(
        &self,
        c: P::Core,
        control: Control<'_>,
        instance: usize,
        gone: Range<usize>,
        state: &mut FaultState<'_, P>,
        lives: &WorkerLives<'_, P>,
    ) -> Result<(), RunError> {
        let opened = self.open_again(c, instance, state.troubles.loses_power)?;
        let mut division = self.division.clone().ok_or(RunError::Worker("an instance alone fell"))?;
        division.openings[instance] = opened.opening;
        let seats = state.link_again(c, instance, gone.clone())?;
        let board = Board::<P>::new(c, gone.clone()).map_err(RunError::of)?;
        let lives = WorkerLives { board: &board, earlier: Some(lives) };
        let job = |c, worker: usize| {
            let job = self.job(&board, &opened.database);
            job.run_among(c, worker, self.deployment.node(worker), &division, &seats)
        };
        let results =
            transactions::run_workers(c, self.deployment, control, POLL_NANOS, &board, &job, &mut |c| {
                self.attend(c, control, state, &lives);
            })?;
        state.keep(gone.start, results);
        state.returned.push((instance, opened));
        Ok(())
    }
}
