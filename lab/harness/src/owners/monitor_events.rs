//! The events of a monitor: decisions that have changed the map, and changes of its interval.

use crate::measurement::partition_events::{PartitionEvent, PartitionEventKind};

/// A decision whose change is under way.
struct Decision {
    second: f64,
    actions: usize,
    interval: f64,
}

/// The events so far.
pub(crate) struct MonitorEvents {
    pub all: Vec<PartitionEvent>,
    interval: f64,
    pending: Option<Decision>,
}

impl MonitorEvents {
    /// None, of a monitor with this interval.
    pub(crate) fn new(interval: f64) -> Self {
        MonitorEvents { all: Vec::new(), interval, pending: None }
    }

    /// An interval of this length begins.
    pub(crate) fn measure(&mut self, second: f64, interval: f64) {
        if interval != self.interval {
            let kind = PartitionEventKind::Interval;
            let interval = Some(interval);
            self.all.push(PartitionEvent { second, kind, actions: 0, seconds: 0.0, interval });
        }
        self.interval = interval;
    }

    /// The controller decided on this number of changes.
    pub(crate) fn decided(&mut self, second: f64, actions: usize) {
        self.pending = Some(Decision { second, actions, interval: self.interval });
    }

    /// They are made; the workers paused for this time.
    pub(crate) fn changed(&mut self, seconds: f64) {
        let Some(Decision { second, actions, interval }) = self.pending.take() else { return };
        let kind = PartitionEventKind::Adapt;
        self.all.push(PartitionEvent { second, kind, actions, seconds, interval: Some(interval) });
    }

    /// They are not made.
    pub(crate) fn refused(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_the_interval_that_ended_with_them() {
        let mut events = MonitorEvents::new(1.0);
        events.measure(1.0, 1.0);
        events.measure(2.0, 2.0);
        events.decided(4.0, 7);
        events.changed(0.5);
        events.measure(4.5, 1.0);
        events.decided(5.5, 3);
        events.refused();
        events.changed(0.5);
        let found: Vec<_> = events.all.iter().map(|one| (one.second, one.actions, one.interval)).collect();
        assert_eq!(found, [(2.0, 0, Some(2.0)), (4.0, 7, Some(2.0)), (4.5, 0, Some(1.0))]);
    }
}
