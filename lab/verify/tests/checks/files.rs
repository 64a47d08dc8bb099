//! Files of durable databases that are missing, truncated, damaged, duplicated or of another
//! database.

use verify::crashes::files::{self, Content, DirectoryFault, FileMarks};
use verify::{Subject, scheme};

/// Seeds of each engine: even ones end with a kill, odd ones with a close.
const SEEDS: u64 = 7;

fn run(
    subject: &Subject,
    seeds: std::ops::Range<u64>,
    fault: Option<DirectoryFault>,
) -> (FileMarks, Vec<String>) {
    let (mut sum, mut wrong) = (FileMarks::default(), Vec::new());
    for seed in seeds {
        let (marks, more) = files::try_seed(subject, seed, fault).expect("a machine");
        sum.add(marks);
        wrong.extend(more.into_iter().map(|what| format!("{} {seed}: {what}", subject.name)));
    }
    println!("{}: {sum:?}", subject.name);
    (sum, wrong)
}

/// All three results of the campaign occur, and no other.
#[test]
fn damaged_directories_are_opened_or_refused() {
    // Among the seeds of each engine are kills whose last group a flipped bit meets.
    for (name, first) in [("silo", 0), ("2pl", 16)] {
        let subject = scheme(name).expect("a scheme");
        let (marks, wrong) = run(&subject, first..first + SEEDS, None);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(marks.whole > 0 && marks.refused > 0 && marks.undecidable > 0, "{marks:?}");
    }
}

/// A correct opening.
const SOUND: DirectoryFault = DirectoryFault { before: |_| (), refused: |_| () };

/// An opening that takes a directory without a manifest for a new one.
fn begins_anew(content: &mut Content) {
    if !content.contains_key("isles.manifest") {
        content.clear();
    }
}

/// Zeros replace the last written block of the log.
fn drops_the_last_rows(content: &mut Content) {
    let of_log = |name: &str| name.starts_with("log-") || name.starts_with("wal-");
    let begun = |bytes: &[u8]| files::written(bytes) > 4096;
    let mut logs = content.iter_mut().filter(|(name, bytes)| of_log(name) && begun(bytes));
    if let Some((_, bytes)) = logs.next_back() {
        let end = files::written(bytes);
        bytes[(end - 1) / 4096 * 4096..end].fill(0);
    }
}

/// A byte of a file changes after a refusal.
fn changes_a_byte(content: &mut Content) {
    if let Some(byte) = content.values_mut().filter_map(|bytes| bytes.last_mut()).next() {
        *byte ^= 1;
    }
}

#[test]
fn openings_that_begin_anew_are_caught() {
    let silo = scheme("silo").expect("a scheme");
    let (_, wrong) = run(&silo, 1..2, Some(DirectoryFault { before: begins_anew, ..SOUND }));
    assert!(wrong.iter().any(|what| what.contains("isles.manifest removed")), "{wrong:?}");
}

#[test]
fn openings_that_drop_the_last_rows_are_caught() {
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let (_, wrong) =
            run(&subject, 0..SEEDS, Some(DirectoryFault { before: drops_the_last_rows, ..SOUND }));
        let caught = |what: &&String| what.contains("a stray notes.txt: opened: worker");
        assert!(wrong.iter().any(|what| caught(&what)), "{wrong:?}");
    }
}

#[test]
fn refusals_that_change_a_byte_are_caught() {
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let (_, wrong) = run(&subject, 0..2, Some(DirectoryFault { refused: changes_a_byte, ..SOUND }));
        assert!(wrong.iter().any(|what| what.contains("and changed:")), "{wrong:?}");
    }
}
