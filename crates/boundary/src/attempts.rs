//! The attempts of a transaction: one loop for all storage managers.
//!
//! A transaction that conflicts with another transaction is attempted again, until it commits,
//! rolls back by its own decision, fails, or reaches one of its [`Bounds`]. The loop decides which
//! of these happens, and counts it. Everything else is the storage manager's: how an attempt runs
//! and is undone, how a worker pauses between two attempts, and why no transaction starves. The
//! memory engine makes a transaction that failed often its [elder](crate::Elder); the engine over
//! pages and owners of partitions keep a transaction's age over its attempts, and let the older
//! transaction of a conflict win.

use concurrency::Meter;
use platform::Platform;
use terms::{Abort, Epoch};

use crate::ending::{Bounds, Commit, Ending, Stats};

/// The storage manager's part of the loop.
pub trait Attempts<P: Platform> {
    /// The core that the attempts run on.
    fn core(&self) -> P::Core;

    /// Where the time of the attempts goes.
    fn meter(&mut self) -> &mut Meter;

    /// Counters of the session.
    fn stats(&mut self) -> &mut Stats;

    /// Waits, before an attempt, for transactions that go first.
    fn give_way(&mut self) {}

    /// Runs one attempt up to its end; a failed attempt is undone. An error comes with the epoch
    /// that has to be durable before the caller may learn of it.
    ///
    /// # Errors
    /// See [`Abort`].
    fn attempt(&mut self) -> Result<Commit, (Abort, Epoch)>;

    /// The error that the caller gets for a transaction that failed for good: this one, or another
    /// one if what it follows from does not become durable.
    fn failure(&mut self, abort: Abort, depends_on: Epoch) -> Abort {
        let _ = depends_on;
        abort
    }

    /// Finds out after a conflict whether another attempt can succeed at all.
    ///
    /// # Errors
    /// The database has stopped.
    fn check(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// The transaction ends at its deadline: nothing is kept for another attempt.
    fn give_up(&mut self) {}

    /// Pauses after this many failed attempts. The time of the pause is metered as
    /// [`terms::Category::Backoff`].
    ///
    /// # Errors
    /// The database has stopped.
    fn pause(&mut self, attempts: u32) -> Result<(), Abort>;
}

/// Attempts a transaction until it ends.
///
/// # Errors
/// See [`Abort`].
#[inline(always)]
pub fn attempt_until_it_ends<P: Platform>(
    transaction: &mut impl Attempts<P>,
    bounds: &Bounds,
) -> Result<Ending<()>, Abort> {
    let c = transaction.core();
    let mut attempts = 0;
    let result = loop {
        transaction.give_way();
        attempts += 1;
        let (abort, depends_on) = match transaction.attempt() {
            Ok(commit) => {
                transaction.stats().commits += 1;
                break Ok(Ending::Committed((), commit));
            }
            Err(failed) => failed,
        };
        if abort == Abort::RollBack {
            transaction.stats().rollbacks += 1;
            break Ok(Ending::RolledBack(depends_on));
        }
        if !abort.is_conflict() {
            break Err(transaction.failure(abort, depends_on));
        }
        transaction.stats().aborts += 1;
        transaction.meter().attempt_failed::<P>(c);
        if let Err(stopped) = transaction.check() {
            break Err(stopped);
        }
        if bounds.attempts_max.is_some_and(|most| attempts >= most) {
            break Err(abort);
        }
        if bounds.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
            transaction.give_up();
            break Err(Abort::Deadline);
        }
        if let Err(stopped) = transaction.pause(attempts) {
            break Err(stopped);
        }
        transaction.meter().attempt_begins();
    };
    let stats = transaction.stats();
    stats.attempts_max = stats.attempts_max.max(attempts);
    result
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Nanos};
    use terms::{Conflict, Stamp};

    use super::*;

    const CONFLICT: Abort = Abort::Conflict(Conflict::Locked);

    /// A storage manager whose attempts end as they are listed, and which lists what it is asked.
    struct Scripted {
        ends: Vec<Result<Commit, (Abort, Epoch)>>,
        calls: Vec<&'static str>,
        meter: Meter,
        stats: Stats,
        is_stopped: bool,
    }

    impl Attempts<Hardware> for Scripted {
        fn core(&self) -> <Hardware as Platform>::Core {
            Hardware::core()
        }

        fn meter(&mut self) -> &mut Meter {
            &mut self.meter
        }

        fn stats(&mut self) -> &mut Stats {
            &mut self.stats
        }

        fn attempt(&mut self) -> Result<Commit, (Abort, Epoch)> {
            self.calls.push("attempt");
            self.ends.remove(0)
        }

        fn failure(&mut self, abort: Abort, _: Epoch) -> Abort {
            self.calls.push("failure");
            abort
        }

        fn check(&mut self) -> Result<(), Abort> {
            if self.is_stopped { Err(Abort::Misuse("stopped")) } else { Ok(()) }
        }

        fn give_up(&mut self) {
            self.calls.push("give up");
        }

        fn pause(&mut self, _: u32) -> Result<(), Abort> {
            self.calls.push("pause");
            Ok(())
        }
    }

    type Ended = (Result<Ending<()>, Abort>, Vec<&'static str>, Stats);

    fn run(ends: Vec<Result<Commit, (Abort, Epoch)>>, bounds: Bounds, is_stopped: bool) -> Ended {
        let (calls, meter, stats) = (Vec::new(), Meter::new(false), Stats::default());
        let mut scripted = Scripted { ends, calls, meter, stats, is_stopped };
        let ended = attempt_until_it_ends(&mut scripted, &bounds);
        (ended, scripted.calls, scripted.stats)
    }

    fn commit() -> Commit {
        Commit { stamp: Stamp::after(0, Epoch(7)), durable_with: Epoch(7) }
    }

    #[test]
    fn conflicts_are_attempted_again_until_the_commit() {
        let ends = vec![Err((CONFLICT, Epoch(0))), Err((CONFLICT, Epoch(0))), Ok(commit())];
        let (ended, calls, stats) = run(ends, Bounds::default(), false);
        assert_eq!(ended, Ok(Ending::Committed((), commit())));
        assert_eq!(calls, ["attempt", "pause", "attempt", "pause", "attempt"]);
        assert_eq!(stats, Stats { commits: 1, aborts: 2, rollbacks: 0, attempts_max: 3 });
    }

    #[test]
    fn the_callers_decision_to_roll_back_is_no_failure() {
        let (ended, calls, stats) = run(vec![Err((Abort::RollBack, Epoch(9)))], Bounds::default(), false);
        assert_eq!((ended, calls), (Ok(Ending::RolledBack(Epoch(9))), vec!["attempt"]));
        assert_eq!(stats, Stats { commits: 0, aborts: 0, rollbacks: 1, attempts_max: 1 });
    }

    #[test]
    fn failures_are_final() {
        let misuse = Abort::Misuse("wrong");
        let (ended, calls, stats) = run(vec![Err((misuse.clone(), Epoch(0)))], Bounds::default(), false);
        assert_eq!((ended, calls), (Err(misuse), vec!["attempt", "failure"]));
        assert_eq!(stats.aborts, 0);
    }

    #[test]
    fn bounds_end_a_transaction() {
        let conflicts = || vec![Err((CONFLICT, Epoch(0))); 3];
        let two = Bounds { attempts_max: Some(2), deadline: None };
        let (ended, calls, _) = run(conflicts(), two, false);
        assert_eq!((ended, calls), (Err(CONFLICT), vec!["attempt", "pause", "attempt"]));
        let passed = Bounds { attempts_max: None, deadline: Some(Nanos(0)) };
        let (ended, calls, _) = run(conflicts(), passed, false);
        assert_eq!((ended, calls), (Err(Abort::Deadline), vec!["attempt", "give up"]));
    }

    #[test]
    fn a_database_that_has_stopped_ends_a_transaction() {
        let (ended, calls, _) = run(vec![Err((CONFLICT, Epoch(0)))], Bounds::default(), true);
        assert_eq!((ended, calls), (Err(Abort::Misuse("stopped")), vec!["attempt"]));
    }
}
