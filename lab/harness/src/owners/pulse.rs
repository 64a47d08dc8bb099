//! Detects a change of throughput within an interval of the monitor: intervals become long while
//! nothing changes, and a change has to be detected soon.

use platform::Nanos;

/// The shortest time over which throughput is measured, and the least difference that is a change.
#[derive(Clone, Copy)]
pub(crate) struct Beat {
    pub nanos: u64,
    /// The least difference, as a share of the mean.
    pub alike: f64,
}

/// Number of commits at a time.
#[derive(Clone, Copy)]
pub(crate) struct CommitCount {
    pub at: Nanos,
    pub commits: u64,
}

/// Throughput since an interval began.
#[derive(Default)]
pub(crate) struct Pulse {
    /// Throughput of the interval before, if the map was the same.
    usual: Option<f64>,
    /// The beginning of the interval, if it has begun.
    first: Option<CommitCount>,
    /// The last measurement.
    last: Option<CommitCount>,
}

fn rate(from: CommitCount, to: CommitCount) -> f64 {
    to.commits.saturating_sub(from.commits) as f64 / to.at.since(from.at).max(1) as f64
}

impl Pulse {
    /// Begins another interval.
    pub(crate) fn begin(&mut self) {
        *self = Pulse { usual: self.so_far().or(self.usual), ..Pulse::default() };
    }

    /// Forgets the throughput until now.
    pub(crate) fn forget(&mut self) {
        *self = Pulse::default();
    }

    /// Commits a nanosecond of the interval up to the last measurement.
    fn so_far(&self) -> Option<f64> {
        let (first, last) = (self.first?, self.last?);
        (first.at < last.at).then(|| rate(first, last))
    }

    /// Records the number of commits now. If throughput differs from that earlier in the interval
    /// (or in the interval before, at the first measurement), returns it as a multiple of the
    /// throughput of the whole interval.
    pub(crate) fn measure(&mut self, now: CommitCount, beat: Beat) -> Option<f64> {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            (self.first, self.last) = (Some(now), Some(now));
            return None;
        };
        if now.at.since(last.at) < beat.nanos {
            return None;
        }
        let before = self.so_far().or(self.usual).unwrap_or(0.0);
        self.last = Some(now);
        let is = rate(last, now);
        let differs = before > 0.0 && (is - before).abs() > beat.alike * before;
        differs.then(|| is / rate(first, now).max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(at: u64, commits: u64) -> CommitCount {
        CommitCount { at: Nanos(at), commits }
    }

    #[test]
    fn a_change_is_detected_within_a_beat() {
        let beat = Beat { nanos: 100, alike: 0.1 };
        let mut pulse = Pulse::default();
        let mut changed = Vec::new();
        // Ten commits in each step of ten, sometimes eleven; from 600 on six.
        let mut commits = 0;
        for look in 0..80 {
            let now = look * 10;
            changed.extend(pulse.measure(count(now, commits), beat).map(|times| (now, times)));
            commits += if look < 60 { 10 + u64::from(look % 20 == 0) } else { 6 };
        }
        let (first, times) = changed[0];
        assert_eq!(first, 700);
        assert!((0.6..0.7).contains(&times), "{times}");
        // Detects a change at the beginning of an interval, too.
        let mut other = Pulse::default();
        assert_eq!((other.measure(count(0, 0), beat), other.measure(count(100, 100), beat)), (None, None));
        other.begin();
        assert_eq!(
            (other.measure(count(100, 100), beat), other.measure(count(200, 150), beat)),
            (None, Some(1.0))
        );
        // Detects no change that a new map has caused.
        pulse.forget();
        changed.clear();
        for look in 80..160 {
            changed.extend(pulse.measure(count(look * 10, commits), beat).map(|times| (look, times)));
            commits += 6;
        }
        assert_eq!(changed, []);
    }
}
