//! Tests that the published findings and the studies of this repository parse.

use experiments::file::{Accept, Published};
use experiments::{Size, Study};

#[test]
fn all_published_findings_parse() {
    let study = Study::parse(include_str!("../../../studies/findings.toml"), Size::Normal)
        .expect("the published findings are a study");
    let first = &study.findings[0];
    assert_eq!((first.id.as_str(), first.published), ("islands-counter-socket", Published::Number(18.5)));
    assert_eq!(first.accept, Accept::Interval(9.2, 37.0));
    let (like, own): (Vec<_>, Vec<_>) =
        study.findings.iter().partition(|finding| finding.id.ends_with("-like"));
    assert_eq!((like.len(), own.len()), (17, 24));
    let comparisons = own.iter().filter(|finding| finding.accept == Accept::True).count();
    assert_eq!(comparisons, 9);
    let runs: usize = own.iter().map(|finding| finding.runs.len()).sum();
    assert_eq!(runs, 61);
}

/// Parses a study whose expected values are the published ones.
fn expects_what_was_published(text: &str) -> Study {
    let study = Study::parse(text, Size::Normal).expect("a study");
    expects(&study);
    study
}

/// Checks that the published value of each finding is accepted.
fn expects(study: &Study) {
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

#[test]
fn the_study_of_1000_cores_parses_and_expects_what_was_published() {
    let study = expects_what_was_published(include_str!("../../../studies/thousand-cores.toml"));
    for (name, runs) in
        [("like-high-all", 72), ("high-within", 72), ("like-low-silo", 8), ("low-order-448", 8)]
    {
        let finding = study.findings.iter().find(|finding| finding.id == name).expect("a finding");
        assert_eq!(finding.runs.len(), runs, "{name}");
        let like = finding.runs.iter().all(|run| run.arguments.iter().any(|word| word == "--like"));
        assert_eq!(like, name.starts_with("like-"), "{name}");
    }
}

#[test]
fn the_study_of_locks_parses_and_expects_what_was_published() {
    expects_what_was_published(include_str!("../../../studies/locks.toml"));
}

#[test]
fn the_figures_of_all_publications_parse_in_all_sizes() {
    let studies = [
        include_str!("../../../studies/islands.toml"),
        include_str!("../../../studies/cluster.toml"),
        include_str!("../../../studies/atrapos.toml"),
        include_str!("../../../studies/thousand.toml"),
    ];
    let mut published = 0;
    for text in studies {
        for size in Size::ALL {
            let study = Study::parse(text, size).expect("a study");
            assert!(study.figures.len() > 15, "{}", study.title);
            expects(&study);
            let series = study.figures.iter().flat_map(|figure| &figure.series);
            published += series.filter(|series| series.published.is_some()).count();
        }
    }
    assert!(published > 8 * 4, "{published} published series");
}
