//! Arguments of runs: lines of a study file, split as by a shell.

/// Flags that belong to the program that starts a run.
const NOT_IN_RUNS: [&str; 3] = ["--json", "--report", "--help"];

/// A run of a finding, or of a point of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name in the expression.
    pub name: String,
    /// Arguments of `isles bench`.
    pub arguments: Vec<String>,
}

/// Arguments that cannot be used.
pub(super) struct ArgumentsFault {
    pub problem: String,
    pub accepted: &'static str,
}

/// The arguments of a line.
pub(super) fn arguments(line: &str, accepted: &'static str) -> Result<Vec<String>, ArgumentsFault> {
    let Some(arguments) = shlex::split(line) else {
        return Err(ArgumentsFault { problem: "a quote that does not close".to_owned(), accepted });
    };
    let reserved = arguments.iter().filter_map(|word| flag(word)).find(|flag| NOT_IN_RUNS.contains(flag));
    if let Some(flag) = reserved {
        let problem = format!("{flag} is given by the study");
        return Err(ArgumentsFault { problem, accepted: "other flags" });
    }
    Ok(arguments)
}

/// Appends arguments. Their flags replace the same flags before, because no flag but `--at` may be
/// given twice.
pub(super) fn append(arguments: &mut Vec<String>, more: &[String]) {
    let mut kept = Vec::new();
    let mut words = std::mem::take(arguments).into_iter().peekable();
    while let Some(word) = words.next() {
        let is_replaced = flag(&word).is_some_and(|name| more.iter().any(|other| flag(other) == Some(name)));
        if !is_replaced {
            kept.push(word);
        } else if !word.contains('=') {
            words.next_if(|value| flag(value).is_none());
        }
    }
    kept.extend_from_slice(more);
    *arguments = kept;
}

/// The flag of a word, without its value.
fn flag(word: &str) -> Option<&str> {
    word.starts_with("--").then(|| word.split('=').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_flags_replace_those_before() {
        let words = |line: &str| arguments(line, "").ok().expect("arguments");
        for (line, more, expected) in [
            ("tpcc --cores 2", "--seconds 1", "tpcc --cores 2 --seconds 1"),
            ("tpcc --cores 2 --seed 3", "--cores 4", "tpcc --seed 3 --cores 4"),
            ("tpcc --cores=2 --seed 3", "--cores 4", "tpcc --seed 3 --cores 4"),
            ("tatp --at 1=a=b --at 2=c=d", "--at 3=e=f --at 4=g=h", "tatp --at 3=e=f --at 4=g=h"),
            ("ipc --no-value --cores 2", "--no-value", "ipc --cores 2 --no-value"),
            ("ipc", "", "ipc"),
        ] {
            let mut arguments = words(line);
            append(&mut arguments, &words(more));
            assert_eq!(arguments, words(expected), "{line} and {more}");
        }
    }
}
