//! Plan of a study's runs: identical ones once, and none for findings that cannot be judged.

use std::collections::BTreeMap;

use crate::file::Study;

/// Interpretation of the arguments of a run by the program that would execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The run can be executed.
    Ready {
        /// Text that is equal for runs with the same result, and different for others.
        identity: String,
        /// True if it runs on this machine's own hardware: alone, and never from the cache.
        native: bool,
    },
    /// A flag or value of a later version, named here.
    NotYet(String),
    /// The arguments are wrong, for this reason.
    Wrong(String),
}

/// A run of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Arguments of `isles bench`, as in the first finding with this run.
    pub arguments: Vec<String>,
    /// Interpretation of the arguments.
    pub resolution: Resolution,
    /// True if it is needed to judge a finding; otherwise it is not executed.
    pub needed: bool,
}

/// The runs of the selected findings of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All different runs, in the order in which the study names them.
    pub runs: Vec<PlannedRun>,
    /// Selected findings by their position in the study, each with its runs by name and position in
    /// `runs`.
    pub findings: Vec<(usize, Vec<(String, usize)>)>,
}

impl Plan {
    /// Plans the findings at the positions `selected`.
    pub fn new(study: &Study, selected: &[usize], resolve: &dyn Fn(&[String]) -> Resolution) -> Plan {
        let mut plan = Plan { runs: Vec::new(), findings: Vec::new() };
        let mut by_arguments = BTreeMap::new();
        let mut by_identity = BTreeMap::new();
        for &position in selected {
            let mut runs = Vec::new();
            for run in &study.findings[position].runs {
                let number = *by_arguments.entry(&run.arguments).or_insert_with(|| {
                    let resolution = resolve(&run.arguments);
                    let identity = match &resolution {
                        Resolution::Ready { identity, .. } => Some(identity.clone()),
                        Resolution::NotYet(_) | Resolution::Wrong(_) => None,
                    };
                    let next = plan.runs.len();
                    let number = identity.map_or(next, |text| *by_identity.entry(text).or_insert(next));
                    if number == next {
                        let arguments = run.arguments.clone();
                        plan.runs.push(PlannedRun { arguments, resolution, needed: false });
                    }
                    number
                });
                runs.push((run.name.clone(), number));
            }
            let ready =
                |(_, number): &(_, usize)| matches!(plan.runs[*number].resolution, Resolution::Ready { .. });
            if runs.iter().all(ready) {
                runs.iter().for_each(|(_, number)| plan.runs[*number].needed = true);
            }
            plan.findings.push((position, runs));
        }
        plan
    }

    /// Number of runs that have to be executed.
    pub fn needed(&self) -> usize {
        self.runs.iter().filter(|run| run.needed).count()
    }
}

/// Positions of the findings whose id matches one of `patterns`, in the order of the study; all
/// findings without patterns.
///
/// # Errors
/// The first pattern without a match.
pub fn select(study: &Study, patterns: &[String]) -> Result<Vec<usize>, String> {
    let fits = |pattern: &String| study.findings.iter().any(|finding| glob(pattern, &finding.id));
    if let Some(useless) = patterns.iter().find(|pattern| !fits(pattern)) {
        return Err(useless.clone());
    }
    let positions = 0..study.findings.len();
    let chosen = |position: &usize| {
        let id = &study.findings[*position].id;
        patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, id))
    };
    Ok(positions.filter(chosen).collect())
}

/// True if `pattern` matches the whole of `text`: `*` is any characters, `?` any one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut position) = (0, 0);
    // Position at which to continue if the last star takes one character more.
    let mut retry = None;
    while position < text.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at + 1, position));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[position] => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                (at, position) = (after, from + 1);
                retry = Some((after, from + 1));
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text) in [
            ("a*", "abc"),
            ("*", ""),
            ("*c", "abcc"),
            ("a?c", "abc"),
            ("*b*", "abc"),
            ("a", "a"),
            ("a**", "a"),
        ] {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("?", ""), ("a*b", "abc"), ("b*", "abc"), ("", "a"), ("a?", "a")]
        {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }

    fn study(findings: &[(&str, &[(&str, &str)])]) -> Study {
        let mut text = String::new();
        for (id, runs) in findings {
            let names: Vec<String> = runs.iter().map(|(name, _)| format!("{name}.x")).collect();
            let value = names.join(" + ");
            text +=
                &format!("[[finding]]\nid = '{id}'\nsource = ''\nclaim = ''\npublished = 1\naccept = true\n");
            text += &format!("value = '{value}'\n[finding.runs]\n");
            runs.iter().for_each(|(name, line)| text += &format!("{name} = '{line}'\n"));
        }
        Study::parse(&text).unwrap()
    }

    fn resolve(arguments: &[String]) -> Resolution {
        match arguments[0].as_str() {
            "later" => Resolution::NotYet("later".to_owned()),
            "wrong" => Resolution::Wrong("wrong".to_owned()),
            name => Resolution::Ready { identity: name.to_owned(), native: false },
        }
    }

    #[test]
    fn identical_runs_are_made_once_and_useless_ones_not_at_all() {
        let study = study(&[
            ("a", &[("one", "counter"), ("two", "counter --default"), ("three", "tpcc")]),
            ("b", &[("one", "tpcc"), ("two", "micro")]),
            ("c", &[("one", "later"), ("two", "ycsb")]),
            ("d", &[("one", "wrong"), ("two", "ycsb")]),
        ]);
        let plan = Plan::new(&study, &[0, 1, 2, 3], &resolve);
        let names: Vec<&str> = plan.runs.iter().map(|run| run.arguments[0].as_str()).collect();
        assert_eq!(names, ["counter", "tpcc", "micro", "later", "ycsb", "wrong"]);
        let runs = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
            names.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
        };
        assert_eq!(plan.findings[0], (0, runs(&[("one", 0), ("two", 0), ("three", 1)])));
        assert_eq!(plan.findings[1], (1, runs(&[("one", 1), ("two", 2)])));
        let needed: Vec<bool> = plan.runs.iter().map(|run| run.needed).collect();
        assert_eq!(needed, [true, true, true, false, false, false]);
        assert_eq!(plan.needed(), 3);
    }

    #[test]
    fn selects_by_patterns() {
        let run: &[(&str, &str)] = &[("a", "counter")];
        let study = study(&[("x-1", run), ("y-2", run), ("x-3", run)]);
        let select = |patterns: &[&str]| {
            select(&study, &patterns.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(select(&[]), Ok(vec![0, 1, 2]));
        assert_eq!(select(&["x-*"]), Ok(vec![0, 2]));
        assert_eq!(select(&["y-2", "x-1"]), Ok(vec![0, 1]));
        assert_eq!(select(&["x-1", "z*"]), Err("z*".to_owned()));
    }
}
