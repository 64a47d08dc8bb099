//! Sockets that fail while a workload runs.
//!
//! Workers of a failed socket begin no more transactions. Their clients use the other workers: each
//! of these sometimes draws a transaction on behalf of a failed worker. The threads of the failed
//! workers move to hardware threads of the other sockets, where they take turns with the workers of
//! these, and continue to serve the partitions that they own until other workers own them.

use platform::HardwareThread;
use terms::random::Random;

use crate::deployment::Deployment;
use crate::error::RunError;

/// A socket that fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// The time of the failure, in seconds of the measured time.
    pub seconds: f64,
    /// The number of the socket.
    pub socket: u32,
}

/// The reason why failures of sockets are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailureError {
    /// Other instances wait for the workers of a socket.
    #[error("sockets fail under one instance only")]
    SeveralInstances,
    /// There are no workers in this socket.
    #[error("socket {0} cannot fail: no worker is there")]
    NoWorker(u32),
    /// All workers would be gone.
    #[error("all sockets with workers fail: nobody would be left")]
    NobodyLeft,
}

impl Failure {
    /// Checks these failures for workers in these sockets, in a deployment of this many instances.
    ///
    /// # Errors
    /// [`FailureError`]
    pub fn check(failures: &[Failure], sockets: &[u32], instances: usize) -> Result<(), FailureError> {
        let fails = |socket: &u32| failures.iter().any(|one| one.socket == *socket);
        let unknown = failures.iter().find(|one| !sockets.contains(&one.socket));
        match (failures, unknown) {
            ([], _) => Ok(()),
            _ if instances > 1 => Err(FailureError::SeveralInstances),
            (_, Some(Failure { socket, .. })) => Err(FailureError::NoWorker(*socket)),
            _ if sockets.iter().all(fails) => Err(FailureError::NobodyLeft),
            _ => Ok(()),
        }
    }
}

/// The times at which workers fail.
#[derive(Clone, Debug)]
pub(crate) struct Failing {
    /// By worker, in nanoseconds of the measured time.
    at: Vec<Option<u64>>,
    /// Hardware threads of the workers that never fail.
    left: Vec<HardwareThread>,
}

impl Failing {
    /// The failures of the workers of a deployment; `None` if there are none.
    ///
    /// # Errors
    /// The failures are refused ([`FailureError`]).
    pub(crate) fn of(failures: &[Failure], deployment: &Deployment) -> Result<Option<Self>, RunError> {
        let sockets = deployment.sockets();
        let checked = Failure::check(failures, &sockets, deployment.instances.len());
        checked.map_err(|why| RunError::Refused(why.to_string()))?;
        if failures.is_empty() {
            return Ok(None);
        }
        let first = |socket: u32| {
            let moments = failures.iter().filter(|failure| failure.socket == socket);
            moments.map(|failure| ((failure.seconds * 1e9) as u64).max(1)).min()
        };
        let at: Vec<Option<u64>> = sockets.into_iter().map(first).collect();
        let places = deployment.places().into_iter().zip(&at);
        let left = places.filter(|(_, at)| at.is_none()).filter_map(|(place, _)| place.thread).collect();
        Ok(Some(Failing { at, left }))
    }

    /// The time at which a worker fails, in nanoseconds of the measured time.
    pub(crate) fn of_worker(&self, worker: usize) -> Option<u64> {
        self.at.get(worker).copied().flatten()
    }

    /// Hardware threads of the workers that never fail.
    pub(crate) fn left(&self) -> &[HardwareThread] {
        &self.left
    }

    /// A worker that never fails, to take over from `worker`, which fails.
    pub(crate) fn survivor(&self, worker: usize) -> Option<usize> {
        let left: Vec<usize> = (0..self.at.len()).filter(|other| self.at[*other].is_none()).collect();
        left.get(worker.checked_rem(left.len())?).copied()
    }

    /// The workers that have failed by this time, ascending.
    pub(crate) fn gone(&self, elapsed_nanos: u64) -> Vec<usize> {
        let is_gone = |at: &Option<u64>| at.is_some_and(|at| at <= elapsed_nanos);
        self.at.iter().enumerate().filter(|(_, at)| is_gone(at)).map(|(worker, _)| worker).collect()
    }
}

/// The worker on whose behalf a worker draws its next transaction: itself, or one of those that
/// have failed.
pub(crate) fn stand_in(worker: usize, workers: usize, gone: &[usize], random: &mut Random) -> usize {
    let drawn = random.below(workers as u64) as usize;
    gone.get(drawn).copied().unwrap_or(worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{Instance, WorkerPlace};

    #[test]
    fn others_stand_in_for_those_that_are_gone() {
        let worker = |number: u32| WorkerPlace { socket: number / 2, ..WorkerPlace::default() };
        let workers = (0..6).map(worker).collect();
        let deployment =
            Deployment { instances: vec![Instance { machine: 0, workers }], ..Deployment::default() };
        let failure = |seconds, socket| Failure { seconds, socket };
        let of = |failures: &[Failure]| Failing::of(failures, &deployment);
        let failing = of(&[failure(2e-6, 1), failure(1e-6, 1)]).expect("others are left").expect("one fails");
        assert_eq!([0, 2, 3].map(|worker| failing.of_worker(worker)), [None, Some(1_000), Some(1_000)]);
        assert_eq!([2, 3].map(|worker| failing.survivor(worker)), [Some(4), Some(5)]);
        assert_eq!((failing.gone(999), failing.gone(1_000)), (vec![], vec![2, 3]));
        let mut random = Random::new(1, 1);
        let mut drawn = [0u32; 6];
        (0..6_000).for_each(|_| drawn[stand_in(4, 6, &failing.gone(1_000), &mut random)] += 1);
        assert!(drawn[4] > 3_700 && drawn[2] > 900 && drawn[3] > 900 && drawn.iter().sum::<u32>() == 6_000);
        assert_eq!(drawn[2] + drawn[3] + drawn[4], 6_000);
        assert_eq!(stand_in(4, 6, &failing.gone(0), &mut random), 4);
        assert!(of(&[]).expect("nothing fails").is_none());
        let refused = |failures: &[Failure]| of(failures).expect_err("refused").to_string();
        assert_eq!(refused(&[failure(1.0, 7)]), "socket 7 cannot fail: no worker is there");
        let all = [0, 1, 2].map(|socket| failure(0.0, socket));
        assert_eq!(refused(&all), "all sockets with workers fail: nobody would be left");
    }
}
