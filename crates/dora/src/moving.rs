//! How a worker changes the map.

use std::sync::Arc;

use boundary::BorderChange;
use platform::{Platform, Work};
use repartitioning::{Change, MapError, Partition};
use terms::{Abort, Fault, Stamp};

use crate::executor::ActionExecutor;
use crate::map::Map;
use crate::messages::OwnerMessage;
use crate::post::gone;
use crate::rearranging::{Event, Rearrangement, State};
use crate::worker::OwnerWorker;

/// Words of a partition in a map.
const PARTITION_WORDS: usize = size_of::<Partition>().div_ceil(8);
/// The work of borders between partitions that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borders {
    /// None: all partitions of a table are in one tree.
    Logical,
    /// That of a tree for each partition, which is charged ([`boundary::Branches::charge_border`]).
    Physical,
}

/// How long the worker waits until it checks again if transactions are active.
const DRAIN_POLL_NANOS: u64 = 200;

impl<P: Platform> OwnerWorker<'_, P> {
    /// Changes the map, between two transactions of this worker: waits until no transaction is
    /// active, and serves others meanwhile.
    ///
    /// # Errors
    /// The map cannot be changed so, in words; the database has stopped, or a worker is gone.
    pub fn rearrange(
        &mut self,
        executor: &mut dyn ActionExecutor,
        changes: &[Change],
        borders: Borders,
    ) -> Result<Result<(), MapError>, Abort> {
        let c = self.c;
        self.shared.central.leave(c, &mut self.seat);
        let mut rearrangement = Rearrangement::new();
        let mut changed = None;
        self.stamps = Stamp(0);
        // Before another worker has to wait for it.
        let mut next = Some(self.next_map(changes));
        loop {
            match rearrangement.state() {
                State::Requested if self.shared.central.try_claim(c, &mut self.seat) => {
                    rearrangement.advance(Event::Claim);
                }
                State::Claimed
                    if self.shared.central.is_drained(c, &mut self.seat)
                        || self.shared.faults.has(Fault::UndrainedMap) =>
                {
                    rearrangement.advance(Event::Drain);
                    self.send_fences()?;
                }
                State::Drained if self.fences == 0 || self.shared.faults.has(Fault::UndrainedMap) => {
                    // All messages to this worker came before the answers, or before the last
                    // transaction was over.
                    while self.receive(executor)? {}
                    rearrangement.advance(Event::Fence);
                }
                State::Requested | State::Claimed | State::Drained => {
                    while self.receive(executor)? {}
                    if self.shared.has_lost(c) {
                        return Err(gone());
                    }
                    self.post.wait(P::now(c).plus(DRAIN_POLL_NANOS));
                }
                State::Quiet => {
                    if borders == Borders::Physical {
                        self.charge_borders(executor, changes)?;
                    }
                    // What others have changed before the lock was claimed counts.
                    let prepared = next.take().filter(|(version, _)| *version == self.shared.version(c));
                    let (_, map) = prepared.unwrap_or_else(|| self.next_map(changes));
                    let stamps = match self.shared.faults.has(Fault::UnexchangedStamps) {
                        true => Stamp(0),
                        false => self.stamps.max(executor.branches().last_stamp()),
                    };
                    changed = Some(map.map(|map| self.shared.set_map(c, map, stamps)));
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

    /// The map as it is now, if no other worker changes it.
    pub fn latest_map(&self) -> Arc<Map> {
        self.shared.map(self.c)
    }

    /// The map after these changes, and the version that they change.
    fn next_map(&self, changes: &[Change]) -> (u64, Result<Map, MapError>) {
        let map = self.shared.map(self.c);
        let partitions = map.partitions().partitions().count();
        // Each change searches for its partition, and those behind it move; at the end the map is
        // copied, a word a leading column and partition.
        let words = changes.len() * partitions * PARTITION_WORDS / 2 + map.columns() + partitions;
        P::work(self.c, Work::CopyWord, words as u32);
        P::work(self.c, Work::Step, changes.len() as u32 * partitions.max(1).ilog2());
        (map.version(), map.changed(changes))
    }

    /// Charges the changes of borders, in all tables of their divisions.
    fn charge_borders(&self, executor: &mut dyn ActionExecutor, changes: &[Change]) -> Result<(), Abort> {
        let map = self.shared.map(self.c);
        for change in changes {
            let (division, column, border) = match *change {
                Change::Split { table, at } => (table, at, BorderChange::Split),
                Change::Merge { table, at } => (table, at, BorderChange::Merge),
                Change::Move { .. } => continue,
            };
            for table in map.tables_of(division) {
                executor.branches().charge_border(table, column as u16, border)?;
            }
        }
        Ok(())
    }

    /// Requests answers of all others when they have processed all earlier messages.
    fn send_fences(&mut self) -> Result<(), Abort> {
        for to in (0..self.shared.workers() as u16).filter(|to| *to != self.me) {
            self.post.send(to, &OwnerMessage::Fence)?;
            self.fences += 1;
        }
        Ok(())
    }
}
