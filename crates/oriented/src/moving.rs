//! How a worker changes the map.

use adapt::{Change, MapError};
use cc::Abort;
use engine::Procedure;
use engine::dynamic::AnySession;
use platform::{Platform, Work};

use crate::messages::Said;
use crate::post::gone;
use crate::rearranging::{Event, Rearrangement, State};
use crate::worker::{NO_BRANCHES, Worker};

/// How long the worker waits until it looks again whether transactions are active.
const DRAIN_LOOK_NANOS: u64 = 200;

impl<P: Platform, Q: Procedure> Worker<'_, P, Q> {
    /// Changes the map, between two transactions of this worker: waits until no transaction is active, and serves others meanwhile.
    ///
    /// # Errors
    /// The map cannot be changed so, in words; the database has stopped, or a worker is gone.
    pub fn rearrange(
        &mut self,
        session: &mut dyn AnySession<'_>,
        changes: &[Change],
    ) -> Result<Result<(), MapError>, Abort> {
        let branches = session.branches().ok_or(NO_BRANCHES)?;
        let c = self.c;
        let mut rearrangement = Rearrangement::new();
        let mut changed = None;
        loop {
            match rearrangement.state() {
                State::Asked if self.shared.central.try_claim(c) => {
                    rearrangement.advance(Event::Claim);
                }
                State::Claimed if self.shared.central.is_drained(c) || self.shared.broken.drains => {
                    let active = self.shared.central.active(c, &mut self.seat);
                    assert!(active.is_empty() || self.shared.broken.drains, "active: {active:?}");
                    rearrangement.advance(Event::Drain);
                    self.ask_fences()?;
                }
                State::Drained if self.fences == 0 || self.shared.broken.drains => {
                    // What was said to this worker came before the answers, or before the last transaction was over.
                    while self.hear(branches)? {}
                    rearrangement.advance(Event::Fence);
                }
                State::Asked | State::Claimed | State::Drained => {
                    while self.hear(branches)? {}
                    if self.shared.has_lost(c) {
                        return Err(gone());
                    }
                    self.post.wait(P::now(c).plus(DRAIN_LOOK_NANOS));
                }
                State::Quiet => {
                    // What others have changed before the lock was claimed counts.
                    let map = self.shared.map(c).changed(changes);
                    // The map is copied, a word a leading column and partition.
                    let words = self.map.columns() + self.map.partitions().partitions().count();
                    P::work(c, Work::CopyWord, words as u32);
                    changed = Some(map.map(|map| self.shared.set_map(c, map)));
                    rearrangement.advance(Event::Exchange);
                }
                State::Changed => {
                    self.shared.central.unclaim(c);
                    rearrangement.advance(Event::Release);
                }
                State::Over => return Ok(changed.unwrap_or(Ok(()))),
            }
        }
    }

    /// Asks all others to answer when they have done what was said before.
    fn ask_fences(&mut self) -> Result<(), Abort> {
        for to in (0..self.shared.workers() as u16).filter(|to| *to != self.me) {
            let fence: Said<'_, Q::Action, Q::Output> = Said::Fence;
            self.post.send(to, &fence)?;
            self.fences += 1;
        }
        Ok(())
    }
}
