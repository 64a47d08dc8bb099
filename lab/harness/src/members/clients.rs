//! Transactions that a worker draws, or that clients request of its instance.

use platform::Nanos;
use terms::Category;
use terms::random::Random;
use workloads::Workload;

use super::MemberWorker;
use crate::error::RunError;
use crate::host::Host;
use crate::requests::{Drawing, IDLE_NANOS, Origin};
use crate::retry::Deferred;

impl<P: Host, W: Workload> MemberWorker<'_, '_, P, W> {
    /// The next transaction; `None` if no client has requested one.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Deferred<W::Procedure>> {
        let elapsed = self.elapsed(now);
        let MemberWorker { job, worker, ref mut random, .. } = *self;
        let draw = || match job.drawing {
            Drawing::Homes(homes) => job.workload.request(elapsed, homes, random, now.0).0,
            _ => job.workload.next_at(elapsed, worker, random, now.0),
        };
        if let Drawing::Clients(requests) = job.drawing {
            let request = requests.take(usize::from(self.me.instance))?;
            if self.warm {
                self.result.queued_nanos.saturating_record(now.since(request.handed_over));
            }
            return Some(Deferred::of_client(request, now));
        }
        let place = self.upcoming.begin(now, self.left, draw, &mut *self.executor);
        self.left -= 1;
        Some(place.take().expect("there is a transaction to begin"))
    }

    /// Nanoseconds of the measured time by `now`.
    fn elapsed(&self, now: Nanos) -> u64 {
        if self.warm { now.since(self.result.warm) } else { 0 }
    }

    /// Waits for a request of a client, or for messages. Returns the time afterwards.
    pub(super) fn idle(&mut self, now: Nanos) -> Result<Nanos, RunError> {
        let after = self.wait(Category::Wait, now.plus(IDLE_NANOS))?;
        self.result.idle_nanos += if self.warm { after.since(now) } else { 0 };
        Ok(after)
    }

    /// The client of this worker hands its first requests over.
    pub(super) fn begin_client(&mut self, now: Nanos) -> Result<(), RunError> {
        let Drawing::Clients(requests) = self.job.drawing else { return Ok(()) };
        requests.begin(self.worker, now, &mut |random| self.draw_for_owner(random, now))
    }

    /// The request of a client has ended, and the client may hand more requests over.
    pub(crate) fn answer(&mut self, origin: Origin, now: Nanos) -> Result<(), RunError> {
        match self.job.drawing {
            Drawing::Clients(requests) if origin.is_of_client() => {
                requests.end(origin, now, &mut |random| self.draw_for_owner(random, now))
            }
            _ => Ok(()),
        }
    }

    /// Draws a request of a client, and finds the instance that has its home.
    fn draw_for_owner(&self, random: &mut Random, now: Nanos) -> Result<(W::Procedure, usize), RunError> {
        let workload = self.job.workload;
        let (procedure, home) = workload.request(self.elapsed(now), None, random, now.0);
        let first_part = home * (workload.parts() / workload.homes());
        Ok((procedure, self.division.instance_of_part(first_part)))
    }
}
