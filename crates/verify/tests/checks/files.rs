//! Files of durable databases that are missing, cut, damaged, doubled or another's.

use verify::crashes::files::{self, Content, FileMarks};
use verify::{Subject, scheme, schemes};

/// Seeds of each engine: one ends with a kill, one with a close.
const SEEDS: u64 = 2;

fn run(subject: &Subject, seeds: std::ops::Range<u64>) -> (FileMarks, Vec<String>) {
    let (mut sum, mut wrong) = (FileMarks::default(), Vec::new());
    for seed in seeds {
        let (marks, more) = files::try_seed(subject, seed, None).expect("a machine");
        sum.add(marks);
        wrong.extend(more.into_iter().map(|what| format!("{} {seed}: {what}", subject.name)));
    }
    println!("{}: {sum:?}", subject.name);
    (sum, wrong)
}

/// Both ends of the campaign are reached; what it finds is a list of violations.
#[test]
fn damaged_directories_are_opened_or_refused() {
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let (marks, wrong) = run(&subject, 0..SEEDS);
        wrong.iter().for_each(|what| println!("{what}"));
        assert!(marks.whole > 0 && marks.refused > 0, "{marks:?}");
    }
}

/// What an opening did that took a directory without a manifest for a new one.
fn begins_anew(content: &mut Content) {
    if !content.contains_key("isles.manifest") {
        content.clear();
    }
}

#[test]
fn openings_that_begin_anew_are_caught() {
    let silo = &schemes()[0];
    let (_, wrong) = files::try_seed(silo, 1, Some(begins_anew)).expect("a machine");
    assert!(wrong.iter().any(|what| what.contains("isles.manifest removed")), "{wrong:?}");
}
