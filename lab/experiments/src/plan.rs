//! Plan of a study's runs: identical ones once, and none for findings and points that cannot have a
//! value.

use std::collections::BTreeMap;

use crate::file::{Run, Study};

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
    /// Arguments of `isles bench`, as in the first finding or figure with this run.
    pub arguments: Vec<String>,
    /// Interpretation of the arguments.
    pub resolution: Resolution,
    /// True if a finding or a point needs it; otherwise it is not executed.
    pub needed: bool,
}

/// Runs by their names in an expression, as positions in the runs of a plan.
pub type NamedRuns = Vec<(String, usize)>;

/// A study, and the positions of its findings and figures that are selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection<'a> {
    /// The study.
    pub study: &'a Study,
    /// Positions among the findings.
    pub findings: Vec<usize>,
    /// Positions among the figures.
    pub figures: Vec<usize>,
}

/// The runs of a selected figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFigure {
    /// Position of the figure in the study.
    pub position: usize,
    /// The runs of each point of each series.
    pub series: Vec<Vec<NamedRuns>>,
}

/// The runs of the selected findings and figures of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedStudy {
    /// Selected findings by their position in the study, each with its runs.
    pub findings: Vec<(usize, NamedRuns)>,
    /// Selected figures.
    pub figures: Vec<PlannedFigure>,
}

/// The runs of one or several studies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// All different runs, in the order in which the studies name them.
    pub runs: Vec<PlannedRun>,
    /// The studies, in the order of the selections.
    pub studies: Vec<PlannedStudy>,
}

impl Plan {
    /// Plans the selected findings and figures of all studies.
    pub fn new(selections: &[Selection<'_>], resolve: &dyn Fn(&[String]) -> Resolution) -> Plan {
        let mut planner = Planner {
            plan: Plan::default(),
            resolve,
            by_arguments: BTreeMap::new(),
            by_identity: BTreeMap::new(),
        };
        for selection in selections {
            let study = planner.study(selection);
            planner.plan.studies.push(study);
        }
        planner.plan
    }

    /// Number of runs that have to be executed.
    pub fn needed(&self) -> usize {
        self.runs.iter().filter(|run| run.needed).count()
    }
}

/// A plan that grows.
struct Planner<'a> {
    plan: Plan,
    resolve: &'a dyn Fn(&[String]) -> Resolution,
    by_arguments: BTreeMap<&'a [String], usize>,
    by_identity: BTreeMap<String, usize>,
}

impl<'a> Planner<'a> {
    fn study(&mut self, Selection { study, findings, figures }: &Selection<'a>) -> PlannedStudy {
        let findings = findings.iter().map(|&position| (position, self.add(&study.findings[position].runs)));
        let findings = findings.collect();
        let mut planned = PlannedStudy { findings, figures: Vec::new() };
        for &position in figures {
            let series = &study.figures[position].series;
            let series = series
                .iter()
                .map(|series| series.points.iter().map(|point| self.add(&point.runs)).collect())
                .collect();
            planned.figures.push(PlannedFigure { position, series });
        }
        planned
    }

    /// Adds the runs of one expression. They are needed if all of them can be executed.
    fn add(&mut self, runs: &'a [Run]) -> NamedRuns {
        let named: NamedRuns =
            runs.iter().map(|run| (run.name.clone(), self.number(&run.arguments))).collect();
        let is_ready = |(_, number): &(String, usize)| {
            matches!(self.plan.runs[*number].resolution, Resolution::Ready { .. })
        };
        if named.iter().all(is_ready) {
            named.iter().for_each(|(_, number)| self.plan.runs[*number].needed = true);
        }
        named
    }

    /// Position of a run in the plan. Runs with the same result share one.
    fn number(&mut self, arguments: &'a [String]) -> usize {
        if let Some(number) = self.by_arguments.get(arguments) {
            return *number;
        }
        let resolution = (self.resolve)(arguments);
        let next = self.plan.runs.len();
        let number = match &resolution {
            Resolution::Ready { identity, .. } => *self.by_identity.entry(identity.clone()).or_insert(next),
            Resolution::NotYet(_) | Resolution::Wrong(_) => next,
        };
        if number == next {
            self.plan.runs.push(PlannedRun { arguments: arguments.to_vec(), resolution, needed: false });
        }
        self.by_arguments.insert(arguments, number);
        number
    }
}

/// Findings and figures whose id matches one of `patterns`, in the order of each study; all of them
/// without patterns.
///
/// # Errors
/// The first pattern without a match in any study.
pub fn select<'a>(studies: &'a [Study], patterns: &[String]) -> Result<Vec<Selection<'a>>, String> {
    let matches = |pattern: &String| studies.iter().flat_map(ids).any(|id| glob(pattern, id));
    if let Some(useless) = patterns.iter().find(|pattern| !matches(pattern)) {
        return Err(useless.clone());
    }
    let is_chosen = |id: &String| patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, id));
    let positions = |chosen: &mut dyn Iterator<Item = bool>| {
        chosen.enumerate().filter(|(_, is_chosen)| *is_chosen).map(|(position, _)| position).collect()
    };
    let selection = |study: &'a Study| {
        let findings = study.findings.iter().map(|finding| is_chosen(&finding.id));
        let figures = study.figures.iter().map(|figure| is_chosen(&figure.id));
        Selection { study, findings: positions(&mut { findings }), figures: positions(&mut { figures }) }
    };
    Ok(studies.iter().map(selection).collect())
}

/// The ids of all findings and figures of a study.
pub fn ids(study: &Study) -> impl Iterator<Item = &str> {
    let findings = study.findings.iter().map(|finding| finding.id.as_str());
    findings.chain(study.figures.iter().map(|figure| figure.id.as_str()))
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
    use crate::Size;

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
        Study::parse(&text, Size::Normal).unwrap()
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
        let studies = [study];
        let plan = Plan::new(&select(&studies, &[]).unwrap(), &resolve);
        let names: Vec<&str> = plan.runs.iter().map(|run| run.arguments[0].as_str()).collect();
        assert_eq!(names, ["counter", "tpcc", "micro", "later", "ycsb", "wrong"]);
        let runs = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
            names.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
        };
        assert_eq!(plan.studies[0].findings[0], (0, runs(&[("one", 0), ("two", 0), ("three", 1)])));
        assert_eq!(plan.studies[0].findings[1], (1, runs(&[("one", 1), ("two", 2)])));
        let needed: Vec<bool> = plan.runs.iter().map(|run| run.needed).collect();
        assert_eq!(needed, [true, true, true, false, false, false]);
        assert_eq!(plan.needed(), 3);
    }

    #[test]
    fn selects_by_patterns() {
        let run: &[(&str, &str)] = &[("a", "counter")];
        let studies = [study(&[("x-1", run), ("y-2", run), ("x-3", run)])];
        let select = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
            select(&studies, &patterns).map(|selections| selections[0].findings.clone())
        };
        assert_eq!(select(&[]), Ok(vec![0, 1, 2]));
        assert_eq!(select(&["x-*"]), Ok(vec![0, 2]));
        assert_eq!(select(&["y-2", "x-1"]), Ok(vec![0, 1]));
        assert_eq!(select(&["x-1", "z*"]), Err("z*".to_owned()));
    }

    #[test]
    fn figures_share_runs_with_findings() {
        let text = "[[finding]]\nid = 'f-1'\nsource = ''\nclaim = ''\npublished = 1\naccept = true\n\
            value = 'a.x'\n[finding.runs]\na = 'tpcc'\n[[figure]]\nid = 'g-1'\nsource = ''\nabout = ''\n\
            x = { label = '', values = ['tpcc', 'later', 'micro'] }\ny = { label = '', value = 'run.x' }\n\
            run = '{x}'\n[figure.series]\ns = ''\nt = { value = '2 * run.x' }";
        let studies = [Study::parse(text, Size::Normal).unwrap()];
        let plan = Plan::new(&select(&studies, &[]).unwrap(), &resolve);
        let names: Vec<&str> = plan.runs.iter().map(|run| run.arguments[0].as_str()).collect();
        assert_eq!(names, ["tpcc", "later", "micro"]);
        let positions = |runs: &NamedRuns| runs[0].1;
        for series in &plan.studies[0].figures[0].series {
            assert_eq!(series.iter().map(positions).collect::<Vec<_>>(), [0, 1, 2]);
        }
        assert_eq!(plan.needed(), 2);
        let selected = select(&studies, &["g-*".to_owned()]).unwrap();
        assert_eq!(selected, [Selection { study: &studies[0], findings: vec![], figures: vec![0] }]);
    }

    #[test]
    fn studies_share_runs() {
        let studies = [
            study(&[("a", &[("one", "counter")])]),
            study(&[("a", &[("one", "counter --default"), ("two", "tpcc")]), ("b", &[("one", "micro")])]),
        ];
        let plan = Plan::new(&select(&studies, &[]).unwrap(), &resolve);
        assert_eq!(plan.needed(), 3);
        assert_eq!(plan.studies[1].findings[0].1[0].1, 0);
        // A pattern that fits in one study selects nothing in another.
        let selected = select(&studies, &["b".to_owned()]).unwrap();
        assert_eq!([selected[0].findings.len(), selected[1].findings.len()], [0, 1]);
    }
}
