//! Provides memory for the rows that the run will insert, between the warm-up and the measured
//! time.
//!
//! A worker that needs memory during a run gets it from the operating system between transactions,
//! and clears its pages. If the host of a virtual server has to provide that memory first, this
//! takes many times as long as clearing, and the time differs from run to run: results in seconds
//! would depend on the host. So a worker measures in the warm-up how much memory it takes a second,
//! has as much provided as the rest of the run will take, and waits for the others; an owner of
//! partitions serves them meanwhile. In virtual time memory is free.

use std::sync::atomic::Ordering;

use boundary::{AnySession, Procedure};
use platform::{Nanos, Platform};
use terms::Abort;

use crate::execution::executor::Executor;
use crate::workers::board::Board;
use crate::workers::schedule::Schedule;

/// Percentage of memory beyond the estimate of the warm-up, because throughput varies.
const BESIDES_PERCENT: u64 = 15;

/// A worker in its warm-up.
pub(crate) struct Preparation {
    /// Bytes that the worker had taken when the warm-up began.
    taken: u64,
    warm_up_nanos: u64,
    nanos: u64,
}

impl Preparation {
    /// Begins the warm-up. `None`: the run needs no preparation.
    pub(crate) fn of<P: Platform>(
        schedule: &Schedule,
        session: &mut (dyn AnySession<'_> + '_),
    ) -> Option<Self> {
        let Schedule { warm_up_nanos, nanos, .. } = *schedule;
        Self::is_for::<P>(schedule).then(|| Preparation {
            taken: session.bytes_taken(),
            warm_up_nanos,
            nanos,
        })
    }

    /// True if workers prepare a run of this schedule.
    pub(crate) fn is_for<P: Platform>(schedule: &Schedule) -> bool {
        let Schedule { warm_up_nanos, commits_max, transactions_max, .. } = *schedule;
        warm_up_nanos > 0 && commits_max.is_none() && transactions_max.is_none() && !P::VIRTUAL
    }

    /// Provides the memory that the run will need, and waits for the others, after the warm-up and
    /// between two transactions. Takes no longer than the run itself. Returns the time at which all
    /// workers continue; `None`: the run ends, by the stop word of the board.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    pub(crate) fn provide<'d, P: Platform, Q: Procedure>(
        self,
        c: P::Core,
        board: &Board<P>,
        executor: &mut (dyn Executor<'d, Q> + 'd),
    ) -> Result<Option<Nanos>, Abort> {
        executor.session().idle();
        let needed = self.needed(executor.session().bytes_taken());
        let latest = P::now(c).plus(self.nanos);
        provide_bytes(c, board, needed, latest, &mut |bytes| {
            let provided = executor.session().provide(bytes as usize);
            // Serves other workers, which may be in their last transactions.
            executor.attend()?;
            Ok(provided as u64)
        })?;
        board.wait_to_resume(c, &mut || executor.attend())
    }

    /// Bytes that the run will take, if it takes as many a second as the warm-up.
    fn needed(&self, taken: u64) -> u64 {
        let by_now = u128::from(taken.saturating_sub(self.taken));
        let run = by_now * u128::from(self.nanos) / u128::from(self.warm_up_nanos);
        (run * u128::from(100 + BESIDES_PERCENT) / 100).min(usize::MAX as u128) as u64
    }
}

/// Provides `needed` bytes, a part at a time, until `latest`, or until the run has to end.
fn provide_bytes<P: Platform>(
    c: P::Core,
    board: &Board<P>,
    needed: u64,
    latest: Nanos,
    part: &mut dyn FnMut(u64) -> Result<u64, Abort>,
) -> Result<(), Abort> {
    let mut provided = 0;
    // Relaxed: the flag orders no other access.
    while provided < needed && P::now(c) < latest && P::load(c, board.stop(), Ordering::Relaxed) == 0 {
        match part(needed - provided)? {
            0 => break,
            bytes => provided += bytes,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn a_run_that_is_to_end_provides_nothing_more() {
        let c = Hardware::core();
        let board = Board::<Hardware>::new(c, 0..1).expect("memory");
        let mut parts = 0;
        provide_bytes(c, &board, 1_000, Nanos(u64::MAX), &mut |left| {
            parts += 1;
            assert_eq!(left, 1_001 - parts);
            if parts == 3 {
                Hardware::store(c, board.stop(), 1, Ordering::Relaxed);
            }
            Ok(1)
        })
        .expect("nothing refuses");
        assert_eq!(parts, 3, "a stop is seen within one part");
    }

    #[test]
    fn as_much_is_needed_as_the_warm_up_says() {
        let preparation = Preparation { taken: 1_000, warm_up_nanos: 500, nanos: 2_000 };
        assert_eq!(preparation.needed(1_100), 460);
        assert_eq!(preparation.needed(1_000), 0, "a workload that inserts nothing needs nothing");
    }
}
