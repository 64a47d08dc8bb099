//! `no-wait`: two-phase locking that aborts instead of waiting.
//!
//! Source: Bernstein, Goodman, "Concurrency control in distributed database systems", ACM Computing
//! Surveys 1981, as in Yu et al., "Staring into the abyss", PVLDB 2014: a transaction that does not
//! get a lock aborts, so no transactions ever wait in a circle.

use platform::{OutOfMemory, Platform};
use terms::Faults;

use crate::lock_word::{LockState, Tagging, Want};
use crate::locking::{Refusal, Seeker, TwoPhase, WaitPolicy};
use crate::meter::Meter;
use crate::options::InstanceOptions;

/// Two-phase locking that aborts instead of waiting.
pub type NoWait = TwoPhase<Refusing>;

/// Refuses.
pub struct Refusing;

impl Tagging for Refusing {
    const WAITS: bool = false;

    #[inline(always)]
    fn join(_: LockState, granted: LockState, _: Want, _: u64) -> LockState {
        granted
    }
}

impl WaitPolicy for Refusing {
    const NAME: &'static str = "no-wait";
    type SharedState<P: Platform> = ();
    type WorkerState<P: Platform> = ();

    fn shared<P: Platform>(_: P::Core, _: usize, _: &InstanceOptions) -> Result<(), OutOfMemory> {
        Ok(())
    }

    fn worker<P: Platform>(_: usize) {}

    #[inline(always)]
    fn begin<P: Platform>(_: P::Core, (): &(), (): &mut (), _: &mut Meter) -> u64 {
        0
    }

    #[inline(always)]
    fn ended<P: Platform>((): &mut (), _: bool) {}

    fn contend<P: Platform>((): &(), (): &mut (), _: Seeker<'_, P>, _: Faults) -> Result<(), Refusal> {
        Err(Refusal::Held)
    }
}
