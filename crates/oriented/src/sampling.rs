//! How a worker keeps the [`Load`] of its partitions.

use engine::{Procedure, Route};
use platform::{Nanos, Platform};

use crate::load::{Load, SAMPLE};
use crate::worker::Worker;

impl<P: Platform, Q: Procedure> Worker<'_, P, Q> {
    /// What the partitions of the map have cost this worker since it was last asked, or since the map changed.
    pub fn take_load(&mut self) -> Load {
        std::mem::replace(&mut self.load, Load::of(&self.map))
    }

    /// Whether the next run of actions is measured, and when it begins.
    #[inline]
    pub(crate) fn begin_sample(&mut self) -> Option<Nanos> {
        match self.until_sample {
            0 => {
                self.until_sample = SAMPLE - 1;
                Some(P::now(self.c))
            }
            _ => {
                self.until_sample -= 1;
                None
            }
        }
    }

    /// A run of actions with these homes is over.
    pub(crate) fn end_sample(&mut self, began: Nanos, homes: &[Route]) {
        let nanos = u64::from(SAMPLE) * P::now(self.c).since(began) / homes.len().max(1) as u64;
        homes.iter().for_each(|home| self.load.add_nanos(&self.map, home, nanos));
    }
}
