//! The published findings and the studies of this repository, as data: everything that they say parses.

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

#[test]
fn the_study_of_superdome_flex_parses_and_expects_what_was_published() {
    let study = Study::parse(include_str!("../../../studies/superdome-flex.toml")).expect("a study");
    assert_eq!(study.findings.len(), 8 * 2 + 53 + 3 + 1);
    let ratio = study.findings.iter().find(|finding| finding.id == "low-silo-1568").expect("a finding");
    // 159.063 over 3.007 million commits a second.
    assert_eq!((ratio.published, ratio.accept), (Published::Number(52.9), Accept::Interval(26.45, 105.8)));
    for finding in &study.findings {
        let published = match finding.published {
            Published::Number(number) => number,
            Published::Truth(truth) => {
                assert!(truth && finding.accept == Accept::True, "{}", finding.id);
                continue;
            }
        };
        let Accept::Interval(low, high) = finding.accept else { panic!("{}", finding.id) };
        assert!((low..=high).contains(&published), "{}", finding.id);
    }
}
