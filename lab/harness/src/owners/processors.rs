//! Processors that come and go while a workload runs: a user changes the affinity of the process or
//! the processors of its control group, or takes a processor out of service.
//!
//! The main thread queries the usable processors: it is bound to none, so its processors are those
//! of the process. A worker is bound to its processor and sees only this one; when that is gone the
//! kernel moves its thread to another processor without notice. Changing the affinity of all
//! threads also removes the bindings, so each worker binds itself again after each change
//! ([`ProcessorState::binding`]).

use platform::{HardwareThread, Platform};

use crate::deployment::Deployment;

/// The processors of the workers, and the usable ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorState {
    /// By worker: its planned processor, if there is one.
    own: Vec<Option<HardwareThread>>,
    /// The usable processors; `None`: all.
    usable: Option<Vec<HardwareThread>>,
    /// Workers whose processors are gone, ascending.
    absent: Vec<usize>,
}

impl ProcessorState {
    /// The state in which all workers of this deployment have their processors.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let own = deployment.places().into_iter().map(|place| place.thread).collect();
        ProcessorState { own, ..ProcessorState::default() }
    }

    /// Queries the usable processors; returns true if they have changed.
    pub(crate) fn poll<P: Platform>(&mut self, c: P::Core) -> bool {
        let usable = P::usable(c);
        let differs = usable != self.usable;
        if differs {
            self.use_only(usable);
        }
        differs
    }

    /// Sets the usable processors. If none of them is the planned processor of a worker, all
    /// workers run on the usable ones and none is absent, because at least one worker has to run.
    fn use_only(&mut self, usable: Option<Vec<HardwareThread>>) {
        self.usable = usable;
        let is_absent = |worker: &usize| self.own[*worker].is_some_and(|own| !self.may_use(own));
        let absent: Vec<usize> = (0..self.own.len()).filter(is_absent).collect();
        self.absent = if absent.len() < self.own.len() { absent } else { Vec::new() };
    }

    fn may_use(&self, thread: HardwareThread) -> bool {
        self.usable.as_ref().is_none_or(|usable| usable.contains(&thread))
    }

    /// Workers whose processors are gone, ascending.
    pub(crate) fn absent(&self) -> &[usize] {
        &self.absent
    }

    /// True if this worker's processor is gone.
    pub(crate) fn is_absent(&self, worker: usize) -> bool {
        self.absent.binary_search(&worker).is_ok()
    }

    /// The processors to which this worker's thread is bound: its planned one, or all usable ones
    /// if that is gone; empty if none is planned.
    pub(crate) fn binding(&self, worker: usize) -> Vec<HardwareThread> {
        match (self.own[worker], &self.usable) {
            (None, _) => Vec::new(),
            (Some(own), Some(usable)) if !self.may_use(own) => usable.clone(),
            (Some(own), _) => vec![own],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{Instance, WorkerPlace};

    #[test]
    fn who_has_lost_a_processor_runs_on_what_is_left() {
        let thread = HardwareThread;
        let worker = |own: Option<u32>| WorkerPlace { thread: own.map(thread), ..WorkerPlace::default() };
        let workers = vec![worker(Some(4)), worker(Some(2)), worker(None)];
        let deployment =
            Deployment { instances: vec![Instance { machine: 0, workers }], ..Deployment::default() };
        let mut processors = ProcessorState::of(&deployment);
        assert_eq!((processors.absent(), processors.binding(1)), (&[][..], vec![thread(2)]));
        processors.use_only(Some(vec![thread(0), thread(4)]));
        assert_eq!(processors.absent(), [1]);
        assert!(processors.is_absent(1) && !processors.is_absent(0));
        let bindings = [0, 1, 2].map(|worker| processors.binding(worker));
        assert_eq!(bindings, [vec![thread(4)], vec![thread(0), thread(4)], vec![]]);
        processors.use_only(Some(vec![thread(2), thread(4)]));
        assert_eq!((processors.absent(), processors.binding(1)), (&[][..], vec![thread(2)]));
    }

    #[test]
    fn somebody_has_to_run() {
        let workers = vec![WorkerPlace { thread: Some(HardwareThread(1)), ..WorkerPlace::default() }];
        let deployment =
            Deployment { instances: vec![Instance { machine: 0, workers }], ..Deployment::default() };
        let mut processors = ProcessorState::of(&deployment);
        processors.use_only(Some(vec![HardwareThread(7)]));
        assert_eq!((processors.absent(), processors.binding(0)), (&[][..], vec![HardwareThread(7)]));
    }
}
