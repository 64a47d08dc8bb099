//! Samples of a run's progress.

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::{Nanos, Platform};

use crate::control::Sample;
use crate::measurement::values::abort_ratio;
use crate::workers::board::Board;
use crate::workers::preparation::Preparation;
use crate::workers::schedule::Schedule;
use crate::workers::summary::seconds;

/// The state of the main thread's samples: the commits at the last one.
pub(super) struct Watch {
    pub(super) workers: Range<usize>,
    pub(super) schedule: Schedule,
    pub(super) commits: u64,
    pub(super) at: Nanos,
}

impl Watch {
    fn nanos_left<P: Platform>(&self, c: P::Core, board: &Board<P>, now: Nanos) -> u64 {
        let Schedule { warm_up_nanos, nanos, .. } = self.schedule;
        // Relaxed, twice: for the progress line.
        let words = [board.began(), board.resumed()].map(|word| P::load(c, word, Ordering::Relaxed));
        match words {
            [0, _] => warm_up_nanos + nanos,
            // Workers may still provide memory after the warm-up: the measured time has not begun.
            [began, 0] if Preparation::is_for::<P>(&self.schedule) => {
                Nanos(began).plus(warm_up_nanos).since(now).max(1) + nanos
            }
            [began, 0] => Nanos(began).plus(warm_up_nanos).plus(nanos).since(now),
            [_, resumed] => Nanos(resumed).plus(nanos).since(now),
        }
    }

    pub(super) fn sample<P: Platform>(&mut self, c: P::Core, board: &Board<P>) -> Sample {
        let (mut commits, mut aborts) = (0, 0);
        for worker in self.workers.clone() {
            let (commit_word, abort_word) = board.counts(worker);
            commits += P::load(c, commit_word, Ordering::Relaxed);
            aborts += P::load(c, abort_word, Ordering::Relaxed);
        }
        let now = P::now(c);
        let passed = seconds(now.since(self.at)).max(1e-9);
        let sample = Sample {
            seconds_left: seconds(self.nanos_left(c, board, now)),
            throughput: commits.saturating_sub(self.commits) as f64 / passed,
            abort_ratio: abort_ratio(commits, aborts),
        };
        (self.commits, self.at) = (commits, now);
        sample
    }
}
