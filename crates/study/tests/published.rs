//! The published findings, as data: everything that they say parses.

use study::Study;
use study::file::{Accept, Published};

#[test]
fn all_published_findings_parse() {
    let study = Study::parse(include_str!("findings.toml")).expect("the published findings are a study");
    assert_eq!(study.findings.len(), 24);
    let first = &study.findings[0];
    assert_eq!((first.id.as_str(), first.published), ("islands-counter-socket", Published::Number(18.5)));
    assert_eq!(first.accept, Accept::Interval(9.2, 37.0));
    let comparisons = study.findings.iter().filter(|finding| finding.accept == Accept::True).count();
    assert_eq!(comparisons, 9);
    let runs: usize = study.findings.iter().map(|finding| finding.runs.len()).sum();
    assert_eq!(runs, 61);
}
