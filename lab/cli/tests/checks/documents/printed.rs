//! The output of a command in a document is the output that the command prints, apart from numbers
//! with their units, bars and omissions.

/// Stands for any lines.
const REST: &str = "...";
/// Units that may follow a number and are treated alike: runs in tests are shorter.
const UNITS: [&str; 15] =
    ["ns", "us", "ms", "s", "k", "M", "G", "KiB", "MiB", "GiB", "KB", "MB", "GB", "min", "h"];

/// The first line that is shown and not printed, in its place.
pub fn difference(shown: &[String], printed: &str) -> Option<String> {
    let printed: Vec<Vec<String>> = printed.lines().map(masked).collect();
    let (mut at, mut may_skip) = (0, false);
    for line in shown {
        if line.trim() == REST {
            may_skip = true;
            continue;
        }
        let words = masked(line);
        // A printed line may go on: a shorter run names what made it short.
        let is_it = |printed: &Vec<String>| match words.is_empty() {
            true => printed.is_empty(),
            false => printed.starts_with(&words),
        };
        let behind = printed.get(at..).unwrap_or_default();
        let Some(found) = behind.iter().position(is_it).filter(|found| may_skip || *found == 0) else {
            let there = behind.first().map(|words| words.join(" "));
            return Some(format!("shown, but not printed: {line:?}; there is {there:?}"));
        };
        at += found + 1;
        may_skip = false;
    }
    let is_whole = may_skip || at >= printed.len();
    (!is_whole).then(|| format!("printed, but not shown: {:?}", printed[at].join(" ")))
}

/// The words of a line with `#` for numbers and what is drawn, without units.
fn masked(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let word = word.trim_end_matches(',');
        let is_unit = UNITS.contains(&word) && words.last().is_some_and(|before| before.ends_with('#'));
        // Bars may be too short to be drawn.
        let is_drawn = word.chars().all(|one| ('\u{2580}'..='\u{259f}').contains(&one));
        if !is_unit && !is_drawn {
            words.push(without_numbers(word));
        }
    }
    words
}

fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    let letters: Vec<char> = word.chars().collect();
    for (place, letter) in letters.iter().enumerate() {
        let is_digit =
            |place: Option<usize>| place.and_then(|at| letters.get(at)).is_some_and(char::is_ascii_digit);
        let is_number = letter.is_ascii_digit()
            || matches!(letter, '.' | ',') && is_digit(place.checked_sub(1)) && is_digit(Some(place + 1))
            || *letter == '<' && is_digit(Some(place + 1));
        match is_number {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(*letter),
        }
    }
    text
}

#[test]
fn what_is_shown_is_compared_word_by_word() {
    let printed = "isles bench x on y\n  throughput   1.55 M commits/s, scale 0.1\n  ▇▇█\n  aborts   3 (<0.01 %)\n\n  checks\n  one  ok\n";
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let same = "isles bench x on y\n  throughput   900 k commits/s\n  ...\n  checks\n  one   ok\n";
    assert_eq!(difference(&lines(same), printed), None);
    for (wrong, words) in [
        ("isles bench x on z\n...", "shown, but not printed: \"isles bench x on z\""),
        ("isles bench x on y\n  aborts  3 (0.1 %)\n...", "shown, but not printed: \"  aborts"),
        ("isles bench x on y\n...\n  checks\n  two ok\n", "shown, but not printed: \"  two ok\""),
        ("isles bench x on y\n...\n  checks\n", "printed, but not shown: \"one ok\""),
    ] {
        let found = difference(&lines(wrong), printed).expect(words);
        assert!(found.starts_with(words), "{found}");
    }
}
