//! Throughput over the run. Workers count commits in intervals of a fixed width, because they do
//! not know when the run will end; the report has a fixed number of bins over the time that was
//! really measured.

use serde::Serialize;

/// Bins over which the throughput of the last quarter is taken.
pub const BINS: usize = 40;

/// Throughput of one bin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Start of the bin, from the start of the measured time.
    pub second: f64,
    /// Commits per second.
    pub throughput: f64,
}

/// `count` equal bins over `elapsed` seconds from commits in intervals of `width` seconds.
///
/// Commits are taken as evenly spread over their interval, up to the end of the run; those counted
/// after it fall into the last moment of the run.
pub fn bins(commits: &[u64], width: f64, elapsed: f64, count: usize) -> Vec<Bin> {
    let bin_seconds = elapsed.max(0.0) / count as f64;
    let until = cumulative(commits, width, elapsed);
    (0..count)
        .map(|bin| {
            let second = bin as f64 * bin_seconds;
            let end = if bin + 1 == count { elapsed } else { second + bin_seconds };
            let throughput = if bin_seconds > 0.0 { (until(end) - until(second)) / bin_seconds } else { 0.0 };
            Bin { second, throughput }
        })
        .collect()
}

/// Commits until a second, as a function that grows with its argument.
fn cumulative(commits: &[u64], width: f64, elapsed: f64) -> impl Fn(f64) -> f64 {
    let mut sums = Vec::with_capacity(commits.len() + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for count in commits {
        sum += *count as f64;
        sums.push(sum);
    }
    move |second| {
        if second >= elapsed || width <= 0.0 {
            return sum;
        }
        let interval = (second / width) as usize;
        if interval + 1 >= sums.len() {
            return sum;
        }
        let start = interval as f64 * width;
        let end = (start + width).min(elapsed);
        sums[interval] + (sums[interval + 1] - sums[interval]) * ((second - start) / (end - start))
    }
}

/// Mean throughput of the last quarter of the bins.
pub fn last_quarter(bins: &[Bin]) -> f64 {
    let last = &bins[bins.len() - bins.len() / 4..];
    if last.is_empty() { 0.0 } else { last.iter().map(|bin| bin.throughput).sum::<f64>() / last.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(bins: &[Bin], elapsed: f64) -> f64 {
        bins.iter().map(|bin| bin.throughput).sum::<f64>() * elapsed / BINS as f64
    }

    #[test]
    fn keeps_every_commit_whatever_the_widths() {
        for (intervals, width, elapsed) in
            [(40, 0.25, 10.0), (7, 0.5, 3.3), (1000, 0.01, 10.0), (1, 5.0, 0.1)]
        {
            let commits: Vec<u64> = (0..intervals).map(|interval| interval * 3 + 1).collect();
            let bins = bins(&commits, width, elapsed, BINS);
            assert_eq!(bins.len(), BINS);
            let sum = commits.iter().sum::<u64>() as f64;
            assert!((total(&bins, elapsed) - sum).abs() < 1e-6 * sum, "{intervals} {width} {elapsed}");
        }
    }

    #[test]
    fn an_interrupted_run_has_no_empty_tail() {
        let bins = bins(&[100, 100, 50, 0, 0], 1.0, 2.5, BINS);
        assert!(bins.iter().all(|bin| (bin.throughput - 100.0).abs() < 1e-9), "{bins:?}");
        assert!((last_quarter(&bins) - 100.0).abs() < 1e-9);
        assert_eq!(bins[1].second, 0.0625);
    }

    #[test]
    fn bins_are_as_many_as_asked_for() {
        let finer = bins(&[40, 80], 1.0, 2.0, 8);
        let throughput: Vec<f64> = finer.iter().map(|bin| bin.throughput.round()).collect();
        assert_eq!(throughput, [40.0, 40.0, 40.0, 40.0, 80.0, 80.0, 80.0, 80.0]);
        assert_eq!(finer[3].second, 0.75);
    }

    #[test]
    fn nothing_measured_gives_zeros() {
        for (commits, width, elapsed) in [(vec![], 1.0, 1.0), (vec![], 0.0, 0.0), (vec![5], 1.0, 0.0)] {
            let bins = bins(&commits, width, elapsed, BINS);
            assert_eq!(bins.len(), BINS);
            assert!(bins.iter().all(|bin| bin.throughput == 0.0));
        }
    }
}
