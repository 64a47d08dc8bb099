//! Figures that measurements derive from counts.

use harness::Latency;
use hdrhistogram::Histogram;

#[test]
fn percentiles_are_microseconds() {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    assert_eq!(Latency::of_nanos(&histogram), Latency::default());
    for nanos in 1..=1_000 {
        histogram.record(nanos * 1_000).unwrap();
    }
    let latency = Latency::of_nanos(&histogram);
    assert!((latency.p50.unwrap() - 500.0).abs() < 1.0 && (latency.p999.unwrap() - 999.0).abs() < 1.0);
}
